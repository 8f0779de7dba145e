"""Joint: the labelled distribution of a secret and a useful variable."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Alphabet, Column, Floats, Ints, Labels, read_only
from sfumato.decimals import MISSING
from sfumato.errors import InputError
from sfumato.frames import Framed, tabled, titled
from sfumato.tolerances import PICTURED, SUMS_TO_ONE

if TYPE_CHECKING:
    import pandas as pd

    from sfumato.frames import Record

SAMPLER = "two-sided geometric, exact integers from the system's randomness"
SMALL = 5  # people; a count below it may single somebody out


def entropy(p: npt.ArrayLike) -> float:
    """H(p) = −Σ p log p in nats, with 0 log 0 = 0.

    >>> round(entropy([0.5, 0.5]), 6)
    0.693147
    """
    q = np.asarray(p, float).ravel()
    q = q[q > 0]
    return float(max(0.0, -(q * np.log(q)).sum()))


@dataclass(frozen=True, slots=True)
class Noise:
    """What was paid for what a mechanism file tells of a table: its labels and edges, and counts if it holds any."""

    epsilon: float  # ε_d, about each person's record
    rows: int  # people in the table, which is public
    delta: float = 0.0
    counts: float = 0.0  # the part of ε_d that the counts took, 0 where there are none; the rest chose the labels
    coverage: float | None = None  # simulated, of the set that was made around the counts
    sampler: str = SAMPLER
    draw: str = ""  # the name of this draw, by which it is paid for once wherever it is used; drawn with it

    @property
    def scale(self) -> float:
        """Of the noise of a count: P(X = x) ∝ e^{−|x|/scale}."""
        return 2.0 / self.counts

    @property
    def sentence(self) -> str:
        delta = f", δ = {self.delta:g}" if self.delta else ""
        what = "design counts with noise" if self.counts else "labels and edges, found with noise, and no counts"
        return f"{what}, ε_d = {self.epsilon:g}{delta} as it says ({self.sampler}); {self.rows:,} rows"


@dataclass(frozen=True, eq=False, repr=False)
class Joint(Framed):
    """The distribution p(s, u) of a secret and a useful variable, with the labels of both.

    >>> joint = Joint.from_counts([[3, 1], [2, 4]], secret=["ill", "well"], useful=["no", "yes"])
    >>> joint.n, joint.p[0, 0]
    (10, np.float64(0.3))
    """

    secret: Alphabet
    useful: Alphabet
    p: Floats  # [s, u], copied, validated, read-only
    n: int | None = None  # rows it was counted from, if it was
    counts: Ints | None = None  # the counts themselves, if it was counted
    learned: tuple[str, ...] = ()  # columns whose labels were found in the very rows that were counted
    noise: Noise | None = None  # of the counts, if they carry any
    notes: tuple[str, ...] = ()  # what was found out about the rows, and what looks odd in them
    shape: tuple[int, int] = field(init=False)  # how many secret values there are, and how many useful ones
    p_secret: Floats = field(init=False)  # p(s)
    p_useful: Floats = field(init=False)  # p(u)

    def __post_init__(self) -> None:
        p = read_only(self.p)
        if p.ndim != 2 or p.size == 0:
            raise InputError(f"a joint distribution is a table of secret by useful values, got shape {p.shape}.")
        if not np.all(np.isfinite(p)) or np.any(p < 0):
            raise InputError("probabilities must be finite and not negative", next="Use Joint.from_counts for counts.")
        if abs(p.sum() - 1) > SUMS_TO_ONE:
            raise InputError("probabilities must sum to 1", value=p.sum(), next="Use Joint.from_counts for counts.")
        if p.shape != (self.secret.size, self.useful.size):
            raise InputError(
                f"the table is {p.shape[0]} × {p.shape[1]} but there are {self.secret.size} secret and "
                f"{self.useful.size} useful labels", next="Give a row for each secret, a column for each useful label.",
            )
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "counts", None if self.counts is None else read_only(self.counts, np.int64))
        object.__setattr__(self, "shape", p.shape)
        object.__setattr__(self, "p_secret", read_only(p.sum(1)))
        object.__setattr__(self, "p_useful", read_only(p.sum(0)))

    @classmethod
    def from_counts(
        cls, table: npt.ArrayLike | pd.DataFrame, secret: Labels | None = None, useful: Labels | None = None, *,
        learned: tuple[str, ...] = (), notes: tuple[str, ...] = (), noise: Noise | None = None,
    ) -> Joint:
        """From a table of counts, rows = secret; a pandas crosstab keeps the names and labels of both sides.

        What looks odd in the labels is noted after `notes`."""
        if hasattr(table, "index") and hasattr(table, "columns") and hasattr(table, "to_numpy"):
            secret = _labelled("secret", table.index) if secret is None else secret
            useful = _labelled("useful", table.columns) if useful is None else useful
            table = table.to_numpy()
        counts = _checked_counts(table)
        n = int(counts.sum())
        if n == 0:
            raise InputError("the table holds no rows: all counts are zero", next="Give counts of people.")
        s, u = _sides(secret, useful, counts.shape)
        doubts = (x for c in (*s.columns, *u.columns) for x in c.doubts)
        return cls(s, u, counts / n, n, counts, learned, noise, (*notes, *doubts))

    @classmethod
    def uniform(cls, secret: Labels, useful: Labels, noise: Noise | None = None) -> Joint:
        """Labels alone: every cell alike, a weighting that tells nothing about anybody. For sets that hold every
        distribution, as `Anything` does; no promise may rest on it."""
        s, u = _sides(secret, useful)
        return cls(s, u, np.full((s.size, u.size), 1 / (s.size * u.size)), noise=noise)

    @classmethod
    def from_probabilities(
        cls, p: npt.ArrayLike, secret: Labels | None = None, useful: Labels | None = None, n: int | None = None,
        noise: Noise | None = None,
    ) -> Joint:
        """From probabilities, with the number of rows they were estimated from if there is one."""
        table = np.asarray(p, float)
        if table.ndim != 2:
            raise InputError(f"probabilities are a 2-D table, rows = secret values, got {table.ndim} dimension(s).")
        return cls(*_sides(secret, useful, table.shape), table, n, noise=noise)

    @property
    def evened(self) -> Joint:
        """The same labels with even weights: nothing of the counts, and what was paid for the labels alone."""
        noise = self.noise
        if noise is not None:
            rest = round(noise.epsilon - noise.counts, 9)
            noise = Noise(rest, noise.rows, noise.delta, sampler=noise.sampler, draw=noise.draw) if rest > 0 else None
        return Joint.uniform(self.secret, self.useful, noise)

    @property
    def small_cells(self) -> int:
        """Cells with 1 to 4 people; none of counts that carry noise."""
        if self.counts is None or self.noise is not None:
            return 0
        return int(((self.counts > 0) & (self.counts < SMALL)).sum())

    @cached_property
    def useful_given_secret(self) -> Floats:
        """p(u|s) as [s, u]; a secret that never occurs gets the uniform law, which no notion looks at."""
        ps = self.p_secret[:, None]
        given = np.divide(self.p, ps, out=np.full(self.p.shape, 1 / self.useful.size), where=ps > 0)
        given.flags.writeable = False
        return np.asarray(given)

    @cached_property
    def entropy(self) -> float:
        """H(S, U)."""
        return entropy(self.p)

    @cached_property
    def entropy_secret(self) -> float:
        return entropy(self.p_secret)

    @cached_property
    def entropy_useful(self) -> float:
        return entropy(self.p_useful)

    @property
    def entropy_useful_given_secret(self) -> float:
        """H(U|S) = H(S, U) − H(S)."""
        return max(0.0, self.entropy - self.entropy_secret)

    @property
    def mutual_information(self) -> float:
        """I(S; U) = H(S) + H(U) − H(S, U)."""
        return max(0.0, self.entropy_secret + self.entropy_useful - self.entropy)

    def records(self) -> Iterator[Record]:
        """One record for each cell: its labels, its share, and its count where there is one."""
        sides = (self.secret, self.useful)
        names = [name for side in sides for name in side.names]
        for s, u in np.ndindex(*self.shape):
            labels = [MISSING if x is None else x for side, i in zip(sides, (s, u), strict=True) for x in side.label(i)]
            count = {} if self.counts is None else {"count": int(self.counts[s, u])}
            yield {**dict(zip(names, labels, strict=True)), "share": float(self.p[s, u]), **count}

    def __repr__(self) -> str:
        rows = "" if self.n is None else f", {self.n:,} rows"
        names = [", ".join(side.names) for side in (self.secret, self.useful)]
        return f"<Joint of the secret {names[0]} ({self.shape[0]}) and {names[1]} ({self.shape[1]}){rows}>"

    def _repr_html_(self) -> str:
        if max(self.shape) > PICTURED:
            return titled(repr(self), tabled(self.records()))
        held = self.p if self.counts is None else self.counts
        side, texts = ", ".join(self.secret.names), [self.useful.text(u) for u in range(self.useful.size)]
        rows = ({side: self.secret.text(s), **dict(zip(texts, row, strict=True))}
                for s, row in enumerate(held.tolist()))
        return titled(repr(self), tabled(rows))

    def weights(self) -> tuple[npt.NDArray[np.object_], int]:
        """p as exact integers over a common total: the counts, or the floats as the rationals they are."""
        if self.counts is not None:
            exact = self.counts.astype(object)
        else:
            parts = [Fraction(float(x)) for x in self.p.ravel()]
            scale = lcm(*(x.denominator for x in parts))
            exact = np.array([int(x * scale) for x in parts], dtype=object).reshape(self.p.shape)
        return exact, int(exact.sum())

    @cached_property
    def fingerprint(self) -> str:
        """A digest of labels and probabilities; equal tables have equal fingerprints."""
        exact, _ = self.weights()
        text = repr((self.secret.columns, self.useful.columns, [int(x) for x in exact.ravel()]))
        return hashlib.sha256(text.encode()).hexdigest()


def _sides(
    secret: Labels | None, useful: Labels | None, shape: tuple[int, ...] = (0, 0)
) -> tuple[Alphabet, Alphabet]:
    """Both alphabets; where nobody names labels, as many as the table has."""
    s = Alphabet.named("secret", shape[0] if secret is None else secret)
    return s, Alphabet.named("useful", shape[1] if useful is None else useful)


def _checked_counts(table: npt.ArrayLike) -> Ints:
    try:
        raw, values = np.asarray(table), np.asarray(table, float)
    except (TypeError, ValueError):
        raise InputError(
            "counts must be numbers, as many in each row; for a table of people use sf.tabulate."
        ) from None
    if raw.ndim != 2:
        raise InputError(f"counts are a 2-D table, rows = secret values, got {raw.ndim} dimension(s).")
    fits = np.isfinite(values) & (values >= 0) & (values == np.floor(values))
    if not fits.all():
        raise InputError("counts must be whole numbers, zero or more", value=float(values[~fits][0]),
                         next="Use Joint.from_probabilities for shares.")
    return read_only(raw, np.int64)


def _labelled(side: str, index: pd.Index) -> Alphabet:
    """An index of pandas as an alphabet: its names and labels; several levels are several columns."""
    levels = getattr(index, "levels", None)
    if levels is None:
        return Alphabet.of(Column.of(str(index.name) if index.name is not None else side, list(index)))
    names = [str(name) if name is not None else f"{side}{i}" for i, name in enumerate(index.names)]
    columns = Alphabet.of(*(Column.of(n, list(level)) for n, level in zip(names, levels, strict=True)))
    if [tuple(map(str, x)) for x in index] != [columns.label(i) for i in range(columns.size)]:
        raise InputError("a crosstab by several columns must have every combination, in order", next="Use sf.tabulate.")
    return columns


def checked_joint(joint: object, what: str) -> Joint:
    """A joint, or an error that says how one is made."""
    if isinstance(joint, Joint):
        return joint
    raise InputError(
        f"{what} needs a joint of the secret and the useful columns, got a {type(joint).__name__}",
        next="Make one with sf.tabulate(table, secret, useful), or with sf.Joint.from_counts(counts).",
    )
