"""What is told of a private table before anything is designed for it: counts with noise, labels that many people have,
and edges of bins.

Counts get two-sided geometric noise, P(X = x) ∝ e^{−|x|ε_d/2}, as exact integers from the system's randomness [Canonne,
Kamath, Steinke 2020, Alg. 2]: a person's record that is replaced by another changes two counts by one, and the number
of rows is public. Labels that were found in the rows are a part of what is told: they are public by somebody's word, or
enter by a stable histogram, (ε, δ)-private [Korolova et al. 2009]. Edges are round numbers near quantiles, chosen by
permute-and-flip [McKenna, Sheldon 2020].
"""

from __future__ import annotations

import functools
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.alphabet import Alphabet, Column, Floats, Ints, Label
from sfumato.errors import InputError, binned, called_public, option
from sfumato.joint import Joint, Noise

LABELS = 0.2  # of ε, at most, for labels and edges that nobody gave
DELTA = 1e-9  # chance, at most, that a label tells of a single person, where none is given
CLEAR = 3.0  # standard deviations of noise from which rows without a label of their own get one together
DIGITS, TENS = 3, range(-6, 13)  # of the round numbers among which edges are chosen: 0.00000100 to 9,990,000,000,000
SEEDED = "seeded: not for release"  # instead of the sampler, where somebody can draw the same noise again
Below = Callable[[int], int]  # a whole number from 0 to below k, all alike


def named(below: Below) -> str:
    """A name for a draw, by the same randomness: two draws never have the same, also where they come out alike."""
    return f"{below(1 << 64):016x}"


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
    known = set() if isinstance(public, bool) else set(public)
    learned = [] if public is True else [name for name in joint.learned if name not in known]
    _check(joint, epsilon, learned, delta)
    draw = named(below)
    share = Fraction(str(epsilon)) * (1 - Fraction(str(LABELS)) if learned else 1)
    if learned:
        joint = _labelled(joint, learned, Fraction(str(epsilon)) - share, delta, below)
    assert joint.counts is not None and joint.n is not None
    drawn = np.fromiter(two_sided(share / 2, joint.p.size, below), np.int64, joint.p.size)
    noise = Noise(float(epsilon), joint.n, delta if learned else 0.0, float(share), draw=draw)
    return _settled(replace(joint, counts=joint.counts + drawn.reshape(joint.shape), noise=noise, learned=()))


def _check(joint: Joint, epsilon: float, learned: list[str], delta: float) -> None:
    if joint.counts is None:
        raise InputError(
            "noise is added to counts; this table holds probabilities", next="Count the rows with sf.tabulate."
        )
    if joint.noise is not None:
        raise InputError("these counts carry noise already; another draw would cost its ε_d once more.")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InputError("epsilon of noisy counts must be a positive number of nats", value=epsilon)
    if learned and not 0 < delta < 1:
        raise InputError("delta must lie strictly between 0 and 1", value=delta)
    for column in (*joint.secret.columns, *joint.useful.columns):
        if column.name in learned and column.cuts is not None:
            raise InputError(
                f"the edges of {column.name!r} were taken from the rows, which noise on counts does not hide",
                next=f"Give them ({binned(column.name, [30, 50])}), or say that they are public.",
            )


def two_sided(rate: Fraction, count: int, below: Below) -> Iterator[int]:
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


@dataclass(frozen=True, slots=True)
class Common:
    """Labels of a column that many people have, in no order, and the one that takes what has no label."""

    labels: tuple[Label, ...]
    other: str

    def column(self, name: str, arranged: Callable[[list[str]], list[str]] = sorted, dtype: str = "string") -> Column:
        """The column with these labels, in an order of their own: theirs in the rows would tell who comes first."""
        texts = [x for x in self.labels if x is not None and x != self.other]
        last: list[Label] = [] if self.other in self.labels else [self.other]
        here = arranged([*texts, *(() if last else (self.other,))])
        return Column(name, (*here, *last, *(() if None not in self.labels else (None,))), self.other, dtype=dtype)


def common(
    name: str, counts: Mapping[Label, int], epsilon: Fraction, delta: float, below: Below, least: float = 0
) -> Common:
    """The labels whose noisy counts pass a threshold that one person passes with a chance of at most δ/2: a stable
    histogram, (ε, δ)-private.

    A record that is replaced changes two counts, and makes at most one label new to the rows and one unknown to them:
    half of ε and of δ for each. What is left of the rows, by the noisy counts, gets a label of its own where it stands
    out from the noise, and goes to the commonest otherwise: a secret that hardly occurs would cost all the others.
    """
    counts = {label: counts[label] for label in sorted(counts, key=lambda x: (x is not None, x or ""))}
    rate = epsilon / 2  # the order of labels is their own: that of rows would decide between equal counts
    tau = max(threshold(float(rate), delta / 2), least)
    drawn = two_sided(rate, len(counts), below)
    passed = {label: n for label, n in ((x, n + next(drawn)) for x, n in counts.items()) if n >= tau}
    named = {label: n for label, n in passed.items() if label is not None}
    rest, deviation = sum(counts.values()) - sum(passed.values()), math.sqrt(2 * len(passed)) / float(rate)
    own = rest >= CLEAR * deviation
    if len(passed) + own < 2:
        raise _too_rare(name, tau, bool(passed))
    other = next(x for x in _names() if x not in passed) if own else max(named, key=lambda x: named[x])
    return Common(tuple(passed), other)


def _too_rare(name: str, tau: float, one: bool) -> InputError:
    found = "one is, and nearly all rows have it" if one else "none is"
    return InputError(
        f"no two labels of {name!r} are common enough to be told apart from single people at this ε and δ "
        f"({tau:,.0f} people each; {found})",
        next=f"{'If it has one value only, choose another column. ' if one else ''}If its labels are known to "
        f"everybody, say so ({called_public(name)}) or list them ({option('--labels', 'labels=')}); more rows or a "
        "larger ε help too.",
    )


def edge(values: Floats, counts: Ints, share: Fraction, epsilon: Fraction, below: Below) -> float:
    """A round number below which about this share of the values lies, ε-private.

    Permute-and-flip [McKenna, Sheldon 2020] over all numbers of three digits: in random order, each is taken with the
    chance e^{−ε(k − k*)/2}, k = |(1 − q)·#below − q·#above| the rows it is away from the share q, and k* the least.
    One record replaced changes k by at most 1, and the numbers were there before the table.
    """
    grid = round_numbers()
    total = np.concatenate([[0], np.cumsum(counts)])
    under = total[np.searchsorted(values, grid, side="left")]
    away = np.abs(share.denominator * under - share.numerator * int(total[-1]))  # k times the denominator
    away, rate = away - away.min(), epsilon / (2 * share.denominator)
    places = list(range(len(grid)))
    while True:
        i = below(len(places))
        places[i], places[-1] = places[-1], places[i]
        at = places.pop()
        if _survives(int(away[at]) * rate, below):
            return float(grid[at])


@functools.cache
def round_numbers() -> Floats:
    """Every number of three digits, in order."""
    digits = np.arange(10 ** (DIGITS - 1), 10**DIGITS)
    positive = np.array([float(f"{d}e{e - DIGITS + 1}") for e in TENS for d in digits])
    return np.concatenate([-positive[::-1], [0.0], positive])


def _survives(gamma: Fraction, below: Below) -> bool:
    """True with probability e^{−γ}, any γ ≥ 0."""
    whole, part = divmod(gamma.numerator, gamma.denominator)
    return all(_happens(1, 1, below) for _ in range(whole)) and _happens(part, gamma.denominator, below)


def _labelled(joint: Joint, learned: list[str], epsilon: Fraction, delta: float, below: Below) -> Joint:
    """The table over labels that many people have: a share of ε and δ for each column."""
    for name in learned:
        joint = _grouped(joint, name, epsilon / len(learned), delta / len(learned), below)
    return joint


def _grouped(joint: Joint, name: str, epsilon: Fraction, delta: float, below: Below) -> Joint:
    """The table with all labels of a column in one but those that many people have."""
    columns = [*joint.secret.columns, *joint.useful.columns]
    at = [c.name for c in columns].index(name)
    assert joint.counts is not None
    table, old = np.moveaxis(joint.counts.reshape([c.size for c in columns]), at, 0), columns[at].labels
    present = {x: int(n) for x, n in zip(old, table.reshape(len(old), -1).sum(1), strict=True) if n}
    kept = common(name, present, epsilon, delta, below)
    columns[at] = kept.column(name, sorted, "string")  # what kind and order all labels have would tell of others
    to = [columns[at].code(x) for x in old]
    summed = np.zeros((columns[at].size, *table.shape[1:]), np.int64)
    np.add.at(summed, to, table)
    split = len(joint.secret.columns)
    secret, useful = Alphabet(tuple(columns[:split])), Alphabet(tuple(columns[split:]))
    counts = np.moveaxis(summed, 0, at).reshape(secret.size, useful.size)
    return Joint(secret, useful, np.full(counts.shape, 1 / counts.size), joint.n, counts, joint.learned, joint.noise)


def _names() -> Iterator[str]:
    return (f"other{i or ''}" for i in range(10**6))


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
            "noise leaves fewer than two secrets with any rows: this table is too small for noisy counts",
            next="Design for any distribution instead (at_most = epsilon), which needs none.",
        )
    return replace(Joint.from_counts(counts, joint.secret, joint.useful), noise=joint.noise)


def projected(counts: Floats, total: float) -> Floats:
    """The nearest points of {x ≥ 0, Σx = total} [y, i]: every number is lowered (or raised) alike, and cut at 0."""
    ordered = -np.sort(-counts, axis=1)
    level = (np.cumsum(ordered, axis=1) - total) / np.arange(1, counts.shape[1] + 1)
    last = (ordered > level).sum(1) - 1
    return np.asarray(np.maximum(counts - level[np.arange(len(counts)), last][:, None], 0.0))
