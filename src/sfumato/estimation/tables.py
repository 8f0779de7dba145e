"""Tables of some of the columns, with what an analyst reads off them: shares, differences, odds ratios, tests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Column, Floats, Ints
from sfumato.decimals import MISSING, sure
from sfumato.errors import InputError, unknown
from sfumato.estimation.inversion import BitsInversion, DenseInversion, Inversion, Mask, largest, sidak, simultaneous
from sfumato.estimation.models import CellsInversion
from sfumato.frames import Framed, plot_shares
from sfumato.libraries import scipy
from sfumato.tolerances import LEAST, SLIP

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.frames import Record


@dataclass(frozen=True, eq=False)
class Figures(Framed):
    """Numbers of one kind with an interval each: for single ones, or for all at once."""

    kind: str
    labels: tuple[dict[str, str], ...]
    estimate: Floats
    low: Floats
    high: Floats
    level: float
    together: bool

    def records(self) -> Iterator[Record]:
        """One record for each number."""
        for labels, *three in self.each():
            yield {**labels, **dict(zip((self.kind, "low", "high"), three, strict=True))}

    def each(self) -> Iterator[tuple[dict[str, str], float, float, float]]:
        """(labels, estimate, low, high) of each number."""
        return zip(self.labels, self.estimate.tolist(), self.low.tolist(), self.high.tolist(), strict=True)

    def within(self, least: float, most: float) -> Figures:
        """Inside the range that such numbers have, and around the estimates shown."""
        shown = np.where(np.isnan(self.estimate), self.low, self.estimate)
        return replace(
            self, low=np.clip(np.minimum(self.low, shown), least, most),
            high=np.clip(np.maximum(self.high, shown), least, most),
        )

    def exponential(self, kind: str) -> Figures:
        with np.errstate(over="ignore"):
            parts = {name: np.exp(getattr(self, name)) for name in ("estimate", "low", "high")}
        return replace(self, kind=kind, **parts)

    def __repr__(self) -> str:
        held = "together" if self.together else "one by one"
        shown = [f"  {', '.join(f'{k} {v}' for k, v in x.items())}: {e:.4g} ({a:.4g} to {b:.4g})" for x, e, a, b in
                 zip(self.labels[:20], self.estimate, self.low, self.high, strict=False)]
        more = [f"  … and {len(self.labels) - 20} more"] if len(self.labels) > 20 else []
        return "\n".join([f"<{self.kind}, {sure(self.level)} intervals {held}>", *shown, *more])


Ends = tuple[Floats, Floats]  # low, high


@dataclass(frozen=True, eq=False)
class Linear:
    """Unbiased linear figures with their covariance, and how far one record can move each."""

    raw: Floats
    covariance: Floats
    jump: Floats
    identified: Mask

    @classmethod
    def of(cls, inversion: Inversion, m: Floats) -> Linear:
        """M p̂ for M[t, x]: as the sums know it themselves, else one record moves each by what it moves of all terms."""
        if isinstance(inversion, (CellsInversion, DenseInversion)) or (
            isinstance(inversion, BitsInversion) and np.all(m.sum(0) <= 1)  # sums of different bits
        ):
            own = inversion.summed(m, (len(m),))
            return cls(own.raw, own.covariance(), own.jump, own.identified)
        raw, jump = (x.ravel() for x in (inversion.raw, inversion.jump))
        lost = (m != 0) @ ~inversion.identified.ravel()
        return cls(m @ raw, m @ inversion.covariance() @ m.T, np.abs(m) @ jump, ~lost)

    def critical(self, level: float, together: bool, gradient: Floats | None = None) -> float:
        """z of one interval, or of all figures with these gradients at once: the quantile of the largest |Z|."""
        if not 0 < level < 1:
            raise InputError("the level must lie strictly between 0 and 1", value=level)
        one = sidak(1, level)
        if not together:
            return one
        cov = self.covariance if gradient is None else gradient @ self.covariance @ gradient.T
        own = np.diag(cov)
        live = np.isfinite(own) & (own > SLIP * max(float(np.nanmax(own, initial=0.0)), LEAST))
        if not live.any():
            return one
        return max(one, largest(cov[np.ix_(live, live)], level))

    def widened(self, z: float) -> Floats:
        """The covariance with what Wilson's interval adds for z (see `simultaneous`): seldom seen figures get width."""
        return np.asarray(self.covariance + np.diag(z**2 / 2 * self.jump**2))

    def ends(self, z: float) -> Ends:
        """(low, high) of each figure; everything where it is not identified."""
        half = z * np.sqrt(np.diag(self.widened(z)))
        return np.where(self.identified, self.raw - half, -np.inf), np.where(self.identified, self.raw + half, np.inf)

    def ratios(self, z: float) -> Ends:
        """Fieller's interval of each figure of the first half over that of the second: all θ with
        (a − θb)² ≤ z² Var(a − θb).

        A quadratic in θ, (b² − z²v_b) θ² − 2 (ab − z²c) θ + a² − z²v_a ≤ 0; everything where b may be zero.
        """
        cov, k = self.widened(z), len(self.raw) // 2
        a, b = self.raw[:k], self.raw[k:]
        lead = b**2 - z**2 * np.diag(cov)[k:]
        half = a * b - z**2 * np.diag(cov, k)
        rest = a**2 - z**2 * np.diag(cov)[:k]
        root = np.sqrt(np.maximum(half**2 - lead * rest, 0.0))
        sure = (lead > 0) & (b > 0) & self.identified[:k] & self.identified[k:]
        safe = np.where(sure, lead, 1.0)
        return np.where(sure, (half - root) / safe, -np.inf), np.where(sure, (half + root) / safe, np.inf)

    def differences(self, z: float, steps: Floats) -> Ends:
        """The first half of these ratios, of shares with such gradients, less the second half."""
        ratios, k = self.ratios(z), len(steps) // 2
        share, terms = _divided(*np.split(self.raw, 2)), np.arange(2 * k).reshape(2, k).T
        low, high = self.combined(terms, np.array([1.0, -1.0]), share, ratios, steps)
        sure = np.isfinite(ratios[0][terms]).all(1)  # else a group may be empty: only the ends of shares are known
        least, most = np.maximum(ratios[0], 0.0), np.minimum(ratios[1], 1.0)
        return np.where(sure, low, least[:k] - most[k:]), np.where(sure, high, most[:k] - least[k:])

    def logarithms(self, z: float, terms: Ints, signs: Floats) -> Ends:
        """Σ signs·log figure for each row of `terms`; everything where a figure is not positive."""
        with np.errstate(divide="ignore"):
            *ends, middle = (np.log(np.maximum(x, 0.0)) for x in (*self.ends(z), self.raw))
        low, high = self.combined(terms, signs, middle, (ends[0], ends[1]), np.eye(len(self.raw)))
        known = np.isfinite(middle[terms]).all(1)
        return np.where(known, low, -np.inf), np.where(known, high, np.inf)

    def combined(self, terms: Ints, signs: Floats, middle: Floats, ends: Ends, steps: Floats) -> Ends:
        """The interval of Σ signs·term for each row of `terms`, from those of the terms and their correlations.

        MOVER (Zou and Donner 2008): the lower end is as far below the sum as √(dᵀ R d) with d the distances of the
        terms' lower ends, which for normal terms is the Wald interval, and for skewed terms has their skewness.
        """
        low, high = (np.where(signs > 0, ends[i][terms], ends[1 - i][terms]) for i in (0, 1))
        told = [self._correlation(steps[of] * signs[:, None]) for of in terms]
        with np.errstate(invalid="ignore"):
            below, above = (np.abs(end - middle[terms]) for end in (low, high))
            down, up = (np.array([_length(d, r) for d, r in zip(side, told, strict=True)]) for side in (below, above))
            return middle[terms] @ signs - down, middle[terms] @ signs + up

    def _correlation(self, gradient: Floats) -> Floats:
        """Of figures with these gradients [k, i]; zero where one does not vary."""
        cov = gradient @ self.covariance @ gradient.T
        sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
        scale = np.where(sd > 0, 1 / np.where(sd > 0, sd, 1.0), 0.0)
        return np.asarray(cov * np.outer(scale, scale))


def _length(d: Floats, correlation: Floats) -> float:
    return math.sqrt(max(float(d @ correlation @ d), 0.0)) if np.isfinite(d).all() else math.inf


@dataclass(frozen=True, slots=True)
class Test:
    """A test of a hypothesis: its statistic, degrees of freedom, and the chance of one as large were it true."""

    hypothesis: str
    statistic: float
    df: int
    p_value: float

    def __repr__(self) -> str:
        return f"<Test {self.hypothesis}: χ² = {self.statistic:.4g} on {self.df} df, p = {self.p_value:.3g}>"


@dataclass(frozen=True, eq=False, repr=False)
class TableEstimate(Framed):
    """The estimated distribution of one column, or of several together.

    All figures follow from the unbiased estimate and its covariance. Intervals are for single figures, or with
    together=True for all figures of a call at once.
    """

    columns: tuple[Column, ...]
    p: Floats  # with an axis for each column
    n: int  # rows it rests on
    inversion: Inversion = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def raw(self) -> Floats:
        """The unbiased estimate before projection; some values may be negative."""
        return self.inversion.raw.reshape(self.p.shape)

    @property
    def error(self) -> Floats:
        """The standard error of each value of `raw`."""
        return np.sqrt(self.inversion.variance).reshape(self.p.shape)

    @property
    def identified(self) -> bool:
        return bool(self.inversion.identified.all())

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) that hold for all cells of this table at once."""
        p = self.p.reshape(self.inversion.raw.shape)
        low, high = simultaneous(self.inversion, level, p)
        return low.reshape(self.p.shape), high.reshape(self.p.shape)

    def records(self, level: float = 0.95) -> Iterator[Record]:
        """One record for each cell, with the interval that holds for all of them at once."""
        return cell_records(self.columns, self.p, self.interval(level))

    def plot(self, level: float = 0.95, axes: Axes | None = None) -> Axes:
        """Every cell with its interval; returns matplotlib's axes."""
        low, high = self.interval(level)
        labels = [" · ".join(x.values()) for x in labelled(self.columns)]
        title = f"{' × '.join(self.names)}: {sure(level)} intervals for all cells at once"
        return plot_shares(labels, self.p.ravel(), low.ravel(), high.ravel(), title, axes)

    def __repr__(self) -> str:
        return f"<TableEstimate of {' × '.join(self.names)}: {self.p.size} cells from {self.n:,} released rows>"

    def shares(self, given: str | None = None, level: float = 0.95, *, together: bool = False) -> Figures:
        """Shares of all rows, or within each group of the column `given`.

        P(a | b) is a ratio of two sums of cells, with Fieller's interval: every share θ for which a − θb is not
        further from zero than its own error explains. It is right also where few rows of b are expected.
        """
        labels, p = tuple(labelled(self.columns)), self.p.ravel()
        if given is None:
            linear = Linear.of(self.inversion, np.eye(p.size))
            ends = linear.ends(linear.critical(level, together))
            return Figures("share", labels, p, *ends, level, together).within(0.0, 1.0)
        linear, steps, shown = self._given(given, np.arange(p.size))
        ends = linear.ratios(linear.critical(level, together, steps))
        return Figures(f"share given {given}", labels, shown, *ends, level, together).within(0.0, 1.0)

    def differences(
        self, given: str, between: tuple[str | None, str | None] | None = None, level: float = 0.95, *,
        together: bool = False,
    ) -> Figures:
        """P(a | one group) − P(a | another) for every other value; by default each group against the first.

        Fieller's intervals of the two shares are put together with their correlation (MOVER), so that they stay right
        where shares are near 0 or 1 and where a group may be empty.
        """
        at = self._place(given)
        column, named = self.columns[at], list(labelled(self.columns))
        pairs = [between] if between else [(x, column.labels[0]) for x in column.labels[1:]]
        cells = np.moveaxis(np.arange(self.p.size).reshape(self.p.shape), at, -1).reshape(-1, column.size)
        codes = np.array([[column.code(x) for x in pair] for pair in pairs], np.int64).reshape(-1, 2)
        both = cells.T[codes.T].ravel()  # of each pair of groups, the cells of the first and then those of the second
        linear, steps, shown = self._given(given, both)
        k = len(both) // 2
        ends = linear.differences(linear.critical(level, together, steps[:k] - steps[k:]), steps)
        rest = [{name: text for name, text in named[x].items() if name != given} for x in cells[:, 0]]
        labels = tuple({**x, given: f"{text_of(a)} − {text_of(b)}"} for (a, b), x in product(pairs, rest))
        found = Figures("difference of shares", labels, shown[:k] - shown[k:], *ends, level, together)
        return found.within(-1.0, 1.0)

    def odds_ratios(self, level: float = 0.95, *, together: bool = False, log: bool = False) -> Figures:
        """(p₁₁ p₀₀) / (p₁₀ p₀₁) of two columns, each value against the first of its column; or their logarithms.

        Intervals of the logarithms of the four cells, put together with their correlations (MOVER): they end at 0 or
        ∞ where a cell cannot be told from zero.
        """
        if len(self.columns) != 2:
            raise InputError(
                "odds ratios are about two columns", value=len(self.columns), next="Ask table(a, b) first."
            )
        (a, b), cells = self.columns, np.arange(self.p.size).reshape(self.p.shape)
        corners = np.broadcast_arrays(cells[1:, 1:], cells[0, 0], cells[1:, :1], cells[:1, 1:])
        terms, signs = np.stack(corners, -1).reshape(-1, 4), np.array([1.0, 1.0, -1.0, -1.0])
        linear = Linear.of(self.inversion, np.eye(self.p.size))
        positive, steps = np.where(linear.raw > 0, linear.raw, np.nan)[terms], np.zeros((len(terms), self.p.size))
        np.put_along_axis(steps, terms, signs / positive, 1)
        ends = linear.logarithms(linear.critical(level, together, steps[np.isfinite(positive).all(1)]), terms, signs)
        sides = [[f"{text_of(x)} : {text_of(c.labels[0])}" for x in c.labels[1:]] for c in (a, b)]
        labels = tuple({a.name: x, b.name: y} for x, y in product(*sides))
        with np.errstate(divide="ignore", invalid="ignore"):
            shown = np.log(self.p.ravel()[terms]) @ signs
            found = Figures("log odds ratio", labels, shown, *ends, level, together).within(-np.inf, np.inf)
        return found if log else found.exponential("odds ratio")

    def independence(self) -> Test:
        """Whether two columns are independent: Wald's χ² of d(a, b) = p(a, b) − p(a) p(b) with its own covariance.

        Counts of a release are not multinomial in the cells, so that Pearson's statistic would not be χ². d is smooth,
        and its covariance by the delta method is D Σ Dᵀ with D = ∂d/∂p.
        """
        if len(self.columns) != 2:
            raise InputError("independence is of two columns", value=len(self.columns), next="Ask table(a, b) first.")
        if not self.identified:
            raise InputError("the table cannot be identified from these rows, so its independence cannot be tested.")

        p = self.raw
        a, b = p.sum(1), p.sum(0)
        r, k = p.shape
        d = (p - np.outer(a, b)).ravel()
        step = np.eye(r * k) - np.kron(np.eye(r), np.ones((k, 1)) @ np.ones((1, k))) * np.tile(b, r)[:, None]
        step -= np.kron(np.ones((r, r)), np.eye(k)) * np.repeat(a, k)[:, None]
        kept = [i * k + j for i in range(r - 1) for j in range(k - 1)]
        cov = (step @ self.inversion.covariance() @ step.T)[np.ix_(kept, kept)]
        live = np.flatnonzero(np.diag(cov) > SLIP * max(float(np.diag(cov).max()), LEAST))
        kept, cov = [kept[i] for i in live], cov[np.ix_(live, live)]
        statistic = float(d[kept] @ np.linalg.lstsq(cov, d[kept], rcond=1e-10)[0]) if kept else 0.0
        df = int(np.linalg.matrix_rank(cov, hermitian=True)) if kept else 0
        names = " and ".join(self.names)
        return Test(f"{names} are independent", statistic, df, float(scipy.stats.chi2.sf(statistic, df)) if df else 1.0)

    def _given(self, name: str, at: Ints) -> tuple[Linear, Floats, Floats]:
        """Some cells, and then the groups of a column that they lie in, as figures; the steps of their shares in these,
        ∂(a/b) = [1/b, −a/b²]; and the shares that are shown."""
        own = np.indices(self.p.shape)[self._place(name)].ravel()
        groups, p = np.asarray(own[at][:, None] == own, float), self.p.ravel()
        linear, k = Linear.of(self.inversion, np.concatenate([np.eye(p.size)[at], groups])), len(at)
        a, b = linear.raw[:k], np.where(linear.raw[k:] > 0, linear.raw[k:], np.inf)
        return linear, np.concatenate([np.diag(1 / b), np.diag(-a / b**2)], axis=1), _divided(p[at], groups @ p)

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise unknown("a column of this table", name, self.names)
        return self.names.index(name)


def labelled(columns: Sequence[Column]) -> Iterator[dict[str, str]]:
    """The labels of each cell of a table, by column."""
    for labels in product(*(c.labels for c in columns)):
        yield {c.name: text_of(label) for c, label in zip(columns, labels, strict=True)}


def cell_records(columns: Sequence[Column], p: Floats, ends: tuple[Floats, Floats]) -> Iterator[Record]:
    """One record for each cell, with its interval."""
    for labels, *three in zip(labelled(columns), *(x.ravel() for x in (p, *ends)), strict=True):
        yield {**labels, **dict(zip(("share", "low", "high"), map(float, three), strict=True))}


def _divided(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.divide(a, b, out=np.full(len(a), np.nan), where=b > 0))


def text_of(label: str | None) -> str:
    return MISSING if label is None else label
