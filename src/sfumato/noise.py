"""Noisy design counts: what a table tells about itself before anything is designed from it, ε_d-differentially private.

Every count gets two-sided geometric noise, P(X = x) ∝ e^{−|x|ε_d/2}, drawn as an exact integer from the system's
randomness [Canonne, Kamath, Steinke 2020, Alg. 2]: a person's record that is replaced by another changes two counts by
one, and the number of rows is public. Labels that were found in the rows are a part of what is told: they are public by
somebody's word, or enter by a stable histogram, (ε, δ)-private [Korolova et al. 2009].
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.alphabet import Alphabet, Column, Floats, Ints
from sfumato.errors import InputError, binned
from sfumato.joint import Joint, Noise

LABELS = 0.2  # of ε_d, for labels that are not public
DELTA = 1e-9  # chance, at most, that a label tells of a single person, where none is given
CLEAR = 3.0  # standard deviations of noise from which rows without a label of their own get one together
Below = Callable[[int], int]  # a whole number from 0 to below k, all alike


def noisy_counts(
    joint: Joint, epsilon: float, *, public: bool | Iterable[str] = False, delta: float = DELTA,
    below: Below = secrets.randbelow,
) -> Joint:
    """The counts with noise, ε_d-differentially private for each person's record, as a table to design from.

    `public=True`, or the names of columns, says that their labels are known to everybody and not taken from these rows;
    columns whose labels were given need no such word. Labels of other columns enter only where a noisy count passes a
    threshold that one person passes with a chance of at most δ; rows without a label then count as "other", or as the
    commonest label where they are few. Negative counts become 0 and all are lowered until they sum to the rows.

    Every call draws anew and costs ε_d again: keep what it returns (`save_counts`).
    """
    if joint.counts is None or joint.n is None:
        raise InputError("noise is added to counts; this table holds probabilities. Count the rows with sf.tabulate.")
    if joint.noise is not None:
        raise InputError("these counts carry noise already; another draw would cost its ε_d once more.")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InputError(f"epsilon of noisy counts must be a positive number of nats, got {epsilon!r}.")
    known = set() if isinstance(public, bool) else set(public)
    learned = [] if public is True else [name for name in joint.learned if name not in known]
    _check(joint, learned, delta)
    share = Fraction(str(epsilon)) * (1 - Fraction(str(LABELS)) if learned else 1)
    if learned:
        joint = _labelled(joint, learned, Fraction(str(epsilon)) - share, delta, below)
    assert joint.counts is not None and joint.n is not None
    drawn = np.fromiter(_two_sided(share / 2, joint.p.size, below), np.int64, joint.p.size)
    noise = Noise(float(epsilon), joint.n, delta if learned else 0.0, float(share))
    made = replace(joint, counts=joint.counts + drawn.reshape(joint.shape), noise=noise, learned=())
    for name in learned:
        made = _without_few(made, name)
    return _settled(made)


def _check(joint: Joint, learned: list[str], delta: float) -> None:
    if learned and not 0 < delta < 1:
        raise InputError(f"delta must lie strictly between 0 and 1, got {delta!r}.")
    for column in (*joint.secret.columns, *joint.useful.columns):
        if column.name in learned and column.cuts is not None:
            raise InputError(
                f"the edges of {column.name!r} were taken from the rows, which noise on counts does not hide. Give "
                f"them ({binned(column.name, [30, 50])}), or say that they are public."
            )


def _two_sided(rate: Fraction, count: int, below: Below) -> Iterator[int]:
    """Integers with P(X = x) ∝ e^{−|x|·rate} [Canonne, Kamath, Steinke 2020, Alg. 2]."""
    s, t = rate.numerator, rate.denominator
    while count:
        u = below(t)
        if not _happens(u, t, below):
            continue
        v = 0
        while _happens(1, 1, below):
            v += 1
        y, minus = (u + t * v) // s, below(2)
        if not (minus and y == 0):
            count -= 1
            yield -y if minus else y


def _happens(numerator: int, denominator: int, below: Below) -> bool:
    """True with probability e^{−γ}, γ = numerator/denominator ≤ 1, by its alternating series [the same, Alg. 1]."""
    k = 1
    while below(k * denominator) < numerator:
        k += 1
    return k % 2 == 1


def threshold(rate: float, delta: float) -> int:
    """The least τ that a single person's count passes with noise with a chance of at most δ: P(1 + X ≥ τ) ≤ δ."""
    ratio = math.exp(-rate)
    return 1 + max(1, math.ceil(-math.log(delta * (1 + ratio)) / rate))


def _labelled(joint: Joint, learned: list[str], epsilon: Fraction, delta: float, below: Below) -> Joint:
    """The table over labels whose noisy counts pass the threshold, and `other`: a stable histogram of each column.

    A record that is replaced changes two counts of every column, and makes at most one label of each new to the table
    and one unknown to it: a share of ε for each column, and half of a share of δ for each of the two.
    """
    rate = epsilon / (2 * len(learned))
    least = threshold(float(rate), delta / (2 * len(learned)))
    for name in learned:
        column, counts = _margin(joint, name)
        present = np.flatnonzero(counts)
        passed = counts[present] + np.fromiter(_two_sided(rate, len(present), below), np.int64) >= least
        joint = _grouped(joint, name, [column.labels[i] for i in present[passed]])
    return joint


def _margin(joint: Joint, name: str) -> tuple[Column, Ints]:
    """A column and the counts of its labels."""
    columns = [*joint.secret.columns, *joint.useful.columns]
    at = [c.name for c in columns].index(name)
    assert joint.counts is not None
    others = tuple(i for i in range(len(columns)) if i != at)
    return columns[at], joint.counts.reshape([c.size for c in columns]).sum(others)


def _grouped(joint: Joint, name: str, kept: list[str | None], into: str | None = None) -> Joint:
    """The table with all but the kept labels of a column in one: `into`, or a label of their own."""
    columns = [*joint.secret.columns, *joint.useful.columns]
    at = [c.name for c in columns].index(name)
    column, other = columns[at], into
    if other is None:
        other = column.other or next(x for x in _names() if x not in column.labels)
        kept = [*(x for x in kept if x != other), other]
    if not kept or (kept == [other] and into is None):
        raise InputError(
            f"no label of {name!r} is common enough to be told apart from single people at this ε_d and δ: nothing is "
            "left to design from. Say that its labels are public, spend more, or design for any distribution."
        )
    to = np.array([kept.index(x) if x in kept else kept.index(other) for x in column.labels])
    assert joint.counts is not None
    table = np.moveaxis(joint.counts.reshape([c.size for c in columns]), at, 0)
    summed = np.zeros((len(kept), *table.shape[1:]), np.int64)
    np.add.at(summed, to, table)
    columns[at] = replace(column, labels=tuple(kept), other=other)
    split = len(joint.secret.columns)
    secret, useful = Alphabet(tuple(columns[:split])), Alphabet(tuple(columns[split:]))
    counts = np.moveaxis(summed, 0, at).reshape(secret.size, useful.size)
    return Joint(secret, useful, np.full(counts.shape, 1 / counts.size), joint.n, counts, joint.learned, joint.noise)


def _names() -> Iterator[str]:
    return (f"other{i or ''}" for i in range(10**6))


def _without_few(joint: Joint, name: str) -> Joint:
    """`other` joins the commonest label where its noisy counts do not stand out: a secret that hardly occurs would cost
    all the others. It looks at noisy counts alone."""
    assert joint.noise is not None
    column, counts = _margin(joint, name)
    deviation = joint.noise.scale * math.sqrt(2 * joint.p.size / column.size)
    assert column.other is not None
    if counts[column.labels.index(column.other)] >= CLEAR * deviation or column.size == 1:
        return joint
    kept = [x for x in column.labels if x != column.other]
    counts = np.array([c for x, c in zip(column.labels, counts, strict=True) if x != column.other])
    return _grouped(joint, name, kept, into=str(kept[int(counts.argmax())]))


def _settled(joint: Joint) -> Joint:
    """Whole counts, none negative, that sum to the rows: the nearest such table, rounded."""
    assert joint.counts is not None and joint.n is not None
    near = projected(joint.counts.ravel()[None].astype(float), float(joint.n))[0]
    counts = np.floor(near).astype(np.int64)
    lack = joint.n - int(counts.sum())
    counts[np.argsort(counts - near, kind="stable")[:lack]] += 1
    counts = counts.reshape(joint.shape)
    if (counts.sum(1) > 0).sum() < 2:
        raise InputError(
            "noise leaves fewer than two secrets with any rows: this table is too small for noisy counts. Design for "
            "any distribution instead (at_most = epsilon), which needs none."
        )
    return replace(Joint.from_counts(counts, joint.secret, joint.useful), noise=joint.noise)


def projected(counts: Floats, total: float) -> Floats:
    """The nearest points of {x ≥ 0, Σx = total} [y, i]: every number is lowered (or raised) alike, and cut at 0."""
    ordered = -np.sort(-counts, axis=1)
    level = (np.cumsum(ordered, axis=1) - total) / np.arange(1, counts.shape[1] + 1)
    last = (ordered > level).sum(1) - 1
    return np.asarray(np.maximum(counts - level[np.arange(len(counts)), last][:, None], 0.0))
