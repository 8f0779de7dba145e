"""Tables of some of the columns, with what an analyst reads off them: shares, differences, odds ratios, tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Column, Floats
from sfumato.decimals import MISSING, sure
from sfumato.errors import InputError, unknown
from sfumato.estimation.functionals import Figures, Linear, moved, summed
from sfumato.estimation.inversion import Inversion, simultaneous
from sfumato.frames import Framed, plot_shares
from sfumato.libraries import scipy
from sfumato.tolerances import LEAST

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.frames import Record


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
        low, high = (x.ravel() for x in self.interval(level))
        for i, labels in enumerate(self._labels()):
            yield {**labels, "share": float(self.p.ravel()[i]), "low": float(low[i]), "high": float(high[i])}

    def plot(self, level: float = 0.95, axes: Axes | None = None) -> Axes:
        """Every cell with its interval; returns matplotlib's axes."""
        low, high = self.interval(level)
        labels = [" · ".join(x.values()) for x in self._labels()]
        title = f"{' × '.join(self.names)}: {sure(level)} intervals for all cells at once"
        return plot_shares(labels, self.p.ravel(), low.ravel(), high.ravel(), title, axes)

    def __repr__(self) -> str:
        return f"<TableEstimate of {' × '.join(self.names)}: {self.p.size} cells from {self.n:,} released rows>"

    def shares(self, given: str | None = None, level: float = 0.95, *, together: bool = False) -> Figures:
        """Shares of all rows, or within each group of the column `given`.

        P(a | b) is a ratio of two sums of cells, with Fieller's interval: every share θ for which a − θb is not
        further from zero than its own error explains. It is right also where few rows of b are expected.
        """
        cells, labels, p = np.eye(self.p.size), tuple(self._labels()), self.p.ravel()
        if given is None:
            linear = self._sums(cells)
            ends = linear.ends(linear.critical(level, together))
            return Figures("share", labels, p, *ends, level, together).within(0.0, 1.0)
        groups = self._same(given)
        linear, top = self._sums(np.concatenate([cells, groups])), np.arange(p.size)
        z = linear.critical(level, together, _ratio_steps(linear.raw))
        shown = _divided(p, groups @ p)
        ends = linear.ratios(top, top + p.size, z)
        return Figures(f"share given {given}", labels, shown, *ends, level, together).within(0.0, 1.0)

    def differences(
        self, given: str, between: tuple[str | None, str | None] | None = None, level: float = 0.95, *,
        together: bool = False,
    ) -> Figures:
        """P(a | one group) − P(a | another) for every other value; by default each group against the first.

        Fieller's intervals of the two shares are put together with their correlation (MOVER), so that they stay right
        where shares are near 0 or 1 and where a group may be empty.
        """
        column, at = self._column(given), self._place(given)
        pairs = [between] if between else [(x, column.labels[0]) for x in column.labels[1:]]
        asked = [(first, second, code) for first, second in pairs for code in self._rest(given)]
        codes = [(column.code(first), column.code(second), code) for first, second, code in asked]
        k = len(codes)
        tops = [self._cell(code, at, side) for side_of in (0, 1) for *sides, code in codes for side in [sides[side_of]]]
        bases = [self._group(at, sides[side_of]) for side_of in (0, 1) for *sides, _ in codes]
        linear = self._sums(np.array([*tops, *bases]))
        steps = _ratio_steps(linear.raw)  # of the 2k shares
        z = linear.critical(level, together, steps[:k] - steps[k:])
        low, high = linear.ratios(np.arange(2 * k), np.arange(2 * k, 4 * k), z)
        share = _divided(linear.raw[: 2 * k], linear.raw[2 * k :])
        least, most = np.maximum(low, 0.0), np.minimum(high, 1.0)
        ends = []
        for i, j in zip(range(k), range(k, 2 * k), strict=True):
            if np.isfinite([low[i], low[j]]).all():
                middle, ends_of = np.array([share[i], -share[j]]), ([low[i], -high[j]], [high[i], -low[j]])
                told = linear.correlation(steps[[i, j]] * [[1.0], [-1.0]])
                ends.append(moved(middle, np.array(ends_of[0]), np.array(ends_of[1]), told))
            else:  # a group that may be empty: only the ends of the two shares are known
                ends.append((least[i] - most[j], most[i] - least[j]))
        p = self.p.ravel()
        shown = _divided(np.array(tops) @ p, np.array(bases) @ p)
        labels = tuple({**self._named(c, given), given: f"{_text(a)} − {_text(b)}"} for a, b, c in asked)
        lows, highs = np.array(ends).reshape(k, 2).T
        return Figures(
            "difference of shares", labels, shown[:k] - shown[k:], lows, highs, level, together
        ).within(-1.0, 1.0)

    def odds_ratios(self, level: float = 0.95, *, together: bool = False, log: bool = False) -> Figures:
        """(p₁₁ p₀₀) / (p₁₀ p₀₁) of two columns, each value against the first of its column; or their logarithms.

        Intervals of the logarithms of the four cells, put together with their correlations (MOVER): they end at 0 or
        ∞ where a cell cannot be told from zero.
        """
        if len(self.columns) != 2:
            raise InputError(
                "odds ratios are about two columns", value=len(self.columns), next="Ask table(a, b) first."
            )
        (a, b), (rows, others) = self.columns, self.p.shape
        quads = [((i, j), (0, 0), (i, 0), (0, j)) for i in range(1, rows) for j in range(1, others)]
        labels = tuple({a.name: f"{_text(a.labels[i])} : {_text(a.labels[0])}",
                        b.name: f"{_text(b.labels[j])} : {_text(b.labels[0])}"} for (i, j), *_ in quads)
        cells, signs = np.array([[r * others + c for r, c in quad] for quad in quads]), np.array([1.0, 1.0, -1.0, -1.0])
        linear = self._sums(np.eye(self.p.size))
        steps = np.zeros((len(quads), self.p.size))
        for i, quad in enumerate(cells):
            steps[i, quad] = signs / np.where(linear.raw[quad] > 0, linear.raw[quad], np.nan)
        z = linear.critical(level, together, steps[np.isfinite(steps).all(1)])
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high, middle = (np.log(np.maximum(x, 0.0)) for x in (*linear.ends(z), linear.raw))
            shown = np.log(self.p.ravel()[cells]) @ signs
        ends = []
        for quad in cells:
            one = np.where(signs > 0, low[quad], -high[quad]), np.where(signs > 0, high[quad], -low[quad])
            known = np.isfinite(middle[quad]).all()
            told = linear.correlation(np.eye(self.p.size)[quad] * signs[:, None])
            ends.append(moved(signs * middle[quad], *one, told) if known else (-np.inf, np.inf))
        lows, highs = np.array(ends).reshape(len(quads), 2).T
        found = Figures("log odds ratio", labels, shown, lows, highs, level, together).within(-np.inf, np.inf)
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
        live = np.flatnonzero(np.diag(cov) > 1e-15 * max(float(np.diag(cov).max()), LEAST))
        kept, cov = [kept[i] for i in live], cov[np.ix_(live, live)]
        statistic = float(d[kept] @ np.linalg.lstsq(cov, d[kept], rcond=1e-10)[0]) if kept else 0.0
        df = int(np.linalg.matrix_rank(cov, hermitian=True)) if kept else 0
        names = " and ".join(self.names)
        return Test(f"{names} are independent", statistic, df, float(scipy.stats.chi2.sf(statistic, df)) if df else 1.0)

    def _sums(self, m: Floats) -> Linear:
        """m·p̂ as figures."""
        return Linear.of(summed(self.inversion, np.asarray(m, float), (len(m),)))

    def _labels(self) -> Iterator[dict[str, str]]:
        for labels in product(*(c.labels for c in self.columns)):
            yield {name: _text(label) for name, label in zip(self.names, labels, strict=True)}

    def _column(self, name: str) -> Column:
        if name not in self.names:
            raise unknown("a column of this table", name, self.names)
        return self.columns[self.names.index(name)]

    def _place(self, name: str) -> int:
        return self.names.index(name)

    def _same(self, name: str) -> Floats:
        """[x, x']: whether two cells agree in a column."""
        self._column(name)
        own = np.indices(self.p.shape)[self._place(name)].ravel()
        return np.asarray(own[:, None] == own[None, :], float)

    def _group(self, at: int, code: int) -> Floats:
        return np.asarray(np.indices(self.p.shape)[at].ravel() == code, float)

    def _rest(self, given: str) -> Iterator[tuple[int, ...]]:
        at = self._place(given)
        return product(*(range(k) for i, k in enumerate(self.p.shape) if i != at))

    def _cell(self, code: tuple[int, ...], at: int, group: int) -> Floats:
        index = (*code[:at], group, *code[at:])
        out = np.zeros(self.p.shape)
        out[index] = 1.0
        return out.ravel()

    def _named(self, code: tuple[int, ...], given: str) -> dict[str, str]:
        rest = [c for c in self.columns if c.name != given]
        return {c.name: _text(c.labels[i]) for c, i in zip(rest, code, strict=True)}


def _ratio_steps(raw: Floats) -> Floats:
    """∂(a/b) for the first half of the figures over the second half: [k, 2k]."""
    k = len(raw) // 2
    a, b = raw[:k], np.where(raw[k:] > 0, raw[k:], np.nan)
    steps = np.concatenate([np.diag(1 / b), np.diag(-a / b**2)], axis=1)
    return np.where(np.isfinite(steps), steps, 0.0)


def _divided(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.divide(a, b, out=np.full(len(a), np.nan), where=b > 0))


def _text(label: str | None) -> str:
    return MISSING if label is None else label
