"""Estimate: the distribution behind released rows, with what is known about its error."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato import estimation
from sfumato.alphabet import Alphabet, Column, Floats, find_column
from sfumato.errors import InputError
from sfumato.estimation.inversion import Inversion, LawInversion, on_simplex, simultaneous, sums
from sfumato.estimation.tables import TableEstimate, cell_records, text_of
from sfumato.frames import Framed, tabled, titled
from sfumato.mechanism import Mechanism
from sfumato.sources.delimited import guarded
from sfumato.tolerances import SQUARE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.alphabet import Label
    from sfumato.estimation.bundle_tables import BundleEstimate
    from sfumato.estimation.estimates import Bounds, Identifiable
    from sfumato.estimation.numbers import Regression
    from sfumato.frames import Record


def shown(inversion: Inversion, fitted: Floats, project: bool) -> Floats:
    """Unbiased where it is identified; otherwise the sums of the fitted table."""
    if not inversion.identified.all():
        return fitted
    return on_simplex(inversion.raw) if project else inversion.raw


@dataclass(frozen=True, eq=False)
class Marginal:
    """The estimated distribution of one variable, from the released rows directly.

    It need not equal the sums of a projected table: projecting a table moves its cells, and summing adds that up.
    """

    alphabet: Alphabet
    p: Floats
    inversion: LawInversion = field(repr=False)
    sums: Floats | None = field(default=None, repr=False)  # [value, x], when it has to be bounded
    bounds: Bounds | None = field(default=None, repr=False)
    identified: bool = field(init=False)  # whether every value is

    def __post_init__(self) -> None:
        object.__setattr__(self, "identified", bool(self.inversion.identified.all()))

    @classmethod
    def of(
        cls, alphabet: Alphabet, inversion: LawInversion, project: bool, fitted: Floats, sums: Floats | None,
        bounds: Bounds | None,
    ) -> Marginal:
        """With limits where it is not identified."""
        p = shown(inversion, fitted, project)
        return cls(alphabet, p, inversion) if inversion.identified.all() else cls(alphabet, p, inversion, sums, bounds)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) that hold for all values of this variable at once, identified or not."""
        if self.bounds is None or self.sums is None:
            return simultaneous(self.inversion, level, self.p)
        return self.bounds.interval(self.sums, level, self.p)

    def by_column(self) -> tuple[Marginal, ...]:
        """The same for each column by itself, where the variable is made of several and is small enough to sum."""
        columns = self.alphabet.columns
        if len(columns) < 2 or self.p.size > SQUARE:
            return (self,)
        return tuple(self._summed(Alphabet.of(column), sums(columns, [column.name])) for column in columns)

    def _summed(self, alphabet: Alphabet, sums: Floats) -> Marginal:
        inversion = self.inversion.summed(sums, (alphabet.size,))
        whole = None if self.sums is None else np.asarray(sums @ self.sums)
        fitted = np.asarray(sums @ self.p)
        return Marginal.of(alphabet, inversion, bool((self.p >= 0).all()), fitted, whole, self.bounds)


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Framed):
    """p[s, u] (or p[u] when the mechanism reads U alone) estimated from n released rows."""

    p: Floats
    n: int
    method: str  # 'inverse' or 'em'
    decode: str  # how the rows had been decoded
    identifiable: Identifiable
    secret: Marginal | None
    useful: Marginal
    notes: tuple[str, ...]
    mechanism: Mechanism = field(repr=False)
    inversion: LawInversion = field(repr=False)
    bounds: Bounds | None = field(default=None, repr=False)  # when not everything is identified
    projected: bool = True  # estimates are moved to the nearest distribution

    @property
    def raw(self) -> Floats:
        """The unbiased estimate before projection; some values may be negative."""
        return self.inversion.raw

    @property
    def variance(self) -> Floats:
        """Variance of each value of `raw`."""
        return self.inversion.variance

    @property
    def covariance(self) -> Floats:
        """Covariance [x, x] of `raw`, x = s·|U| + u."""
        if self.raw.size > SQUARE:
            raise InputError(
                f"a covariance of {self.raw.size} × {self.raw.size} numbers is too large to build",
                next="Use .variance, or the marginals .secret and .useful.",
            )
        return self.inversion.covariance()

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) that hold for all cells at once.

        A cell that cannot be identified gets the range of everything that agrees with the released rows (in
        tables too large for that, [0, 1]).
        """
        if self.bounds is None:
            return simultaneous(self.inversion, level, self.p)
        low, high = self.bounds.interval(np.eye(self.p.size), level, self.p.ravel())
        return low.reshape(self.p.shape), high.reshape(self.p.shape)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the released rows tell of, the secret first if the mechanism read it."""
        return self.mechanism.reading

    def table(self, *names: str) -> TableEstimate:
        """The estimated distribution of some of the columns together, in this order.

        >>> from sfumato import Tabular, estimate
        >>> estimate([600, 400], Tabular([[0.75, 0.25], [0.25, 0.75]])).table("useful").p.round(6).tolist()
        [0.7, 0.3]
        """
        known = {c.name: c for c in self.columns}
        for name in names:
            find_column(name, tuple(known), "this estimate")
        if not names or len(set(names)) != len(names):
            raise InputError("a table has one or more different columns", value=names)
        shape = tuple(known[name].size for name in names)
        m = sums(self.columns, names)
        inversion = self.inversion.summed(m, shape)
        p = shown(inversion, (m @ self.p.ravel()).reshape(shape), self.projected)
        return TableEstimate(tuple(known[name] for name in names), p, self.n, inversion)

    @property
    def tables(self) -> Iterator[TableEstimate]:
        """The table of every column, and of every two of them."""
        names = [c.name for c in self.columns]
        return (self.table(*some) for size in (1, 2) for some in combinations(names, size))

    def logistic(self, outcome: str, on: str | Sequence[str], value: str | None = None) -> Regression:
        """The logistic regression of one column's value on other columns, as if their true table were known."""
        return estimation.logistic(self.table(outcome, *([on] if isinstance(on, str) else on)), value)

    def synthesise(self, rows: int, *, seed: int | None = None) -> pa.Table:
        """Records of the original columns drawn from the estimated table, as an Arrow table that says so."""
        return synthesise(self, rows, seed=seed)

    def records(self, level: float = 0.95) -> Iterator[Record]:
        """One record for each cell, with the interval that holds for all of them at once."""
        return cell_records(self.columns, self.p, self.interval(level))

    def plot(self, *names: str, level: float = 0.95, axes: Axes | None = None) -> Axes:
        """The table of the columns named, or the whole, with its intervals; returns matplotlib's axes."""
        return self.table(*(names or [c.name for c in self.columns])).plot(level, axes)

    def __repr__(self) -> str:
        names = " × ".join(c.name for c in self.columns)
        what = "" if self.identifiable else "; not everything can be identified"
        return f"<Estimate of {names} from {self.n:,} released rows ({self.method}){what}>"

    def _repr_html_(self) -> str:
        parts = [f"<p>{html.escape(' × '.join(t.names))}</p>{tabled(t.records())}" for t in map(self.table, (
            c.name for c in self.columns))]
        return titled(repr(self), *parts)

    @property
    def error(self) -> float:
        """Root of the summed variances: how far the raw table is from the truth, in all."""
        return float(np.sqrt(self.variance.sum()))


# --- what leaves an estimate: a tidy table for a spreadsheet, and records drawn from the estimated distribution -------


Cells = list[tuple["Label | float", ...]]  # labels, estimate, interval, and standard error
CELL_FIGURES = ("estimate", "low", "high", "error")
TIDY_HEAD = ("columns", "values", "share", "low", "high")


def tidy(found: Estimate | estimation.BundleEstimate, level: float = 0.95) -> Iterator[Record]:
    """One record for each cell of each table of one or two columns; the intervals of a table hold at once, those of a
    bundle all at once, as its tables are margins of one distribution.

    Where the whole table is too large for tables of some of its columns, the secret and the useful variable alone.
    """
    together = found.intervals(level) if isinstance(found, estimation.BundleEstimate) else {}
    try:
        for table in found.tables:
            low, high = together[table.names] if together else table.interval(level)
            for at in np.ndindex(*table.p.shape):
                labels = [c.labels[i] for c, i in zip(table.columns, at, strict=True)]
                yield _record(table.names, labels, float(table.p[at]), float(low[at]), float(high[at]))
    except InputError:
        for side in (x for x in (getattr(found, "secret", None), getattr(found, "useful", None)) if x is not None):
            low, high = side.interval(level)
            for i in range(side.p.size):
                share = float(side.p[i])
                yield _record(side.alphabet.names, side.alphabet.label(i), share, float(low[i]), float(high[i]))


def cells(found: Estimate | BundleEstimate, level: float = 0.95) -> tuple[tuple[str, ...], Cells]:
    """Every cell of the table of all columns, or of every table of a bundle, under the names of its parts. The
    intervals hold at once; there is no standard error (None) where the rows do not tell a cell."""
    if isinstance(found, Estimate):
        error = np.where(found.identifiable.cells, found.variance**0.5, np.nan)
        own = product(*(c.labels for c in found.columns))
        figures = (x.ravel().tolist() for x in (found.p, *found.interval(level), error))
        rows = [(*labels, *told, None if e != e else e) for labels, *told, e in zip(own, *figures, strict=True)]
        return (*(c.name for c in found.columns), *CELL_FIGURES), rows
    out: Cells = []
    for names, interval in found.intervals(level).items():
        table = found.table(*names)
        figures = (x.ravel().tolist() for x in (table.p, *interval, table.error))
        for labels, *rest in zip(product(*(c.labels for c in table.columns)), *figures, strict=True):
            named = [x for pair in zip(names, labels, strict=True) for x in pair]
            out.append((*named, *[None] * (4 - len(named)), *rest))
    return ("column", "value", "other column", "other value", *CELL_FIGURES), out


def cells_csv(found: Estimate | BundleEstimate, level: float = 0.95) -> str:
    """The cells as CSV, in full precision."""
    heads, rows = cells(found, level)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([guarded(x) if isinstance(x, str) else x for x in row] for row in (heads, *rows))
    return text.getvalue()


def tidy_csv(found: Estimate | BundleEstimate | None, level: float = 0.95) -> str:
    """The records as CSV that a spreadsheet opens, with the digits that `sfumato estimate` tells too; only the head
    where there is no estimate."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(TIDY_HEAD)
    for row in tidy(found, level) if found is not None else ():
        writer.writerow([guarded(x) if isinstance(x, str) else f"{x:.12g}" for x in row.values()])
    return text.getvalue()


def _record(names: Sequence[str], labels: Sequence[Label], share: float, low: float, high: float) -> Record:
    values = (" × ".join(names), " · ".join(map(text_of, labels)), share, low, high)
    return dict(zip(TIDY_HEAD, values, strict=True))


SYNTHETIC_KEY = b"sfumato.synthetic"
NOTE = (
    "Synthetic: every record was drawn from the distribution estimated from a release. None is a person, and errors of "
    "that estimate are in all of them; intervals come from the release itself (sfumato estimate)."
)


def synthesise(found: Estimate, rows: int, *, seed: int | None = None) -> pa.Table:
    """As many records as asked for, independent draws from the estimated table; marked as synthetic in its metadata.

    It sees the estimate alone, which was made from released rows: nothing more is told about anybody.
    """
    whole_number(rows)
    p = on_simplex(found.p).ravel()
    codes = np.random.default_rng(seed).choice(p.size, rows, p=p / p.sum())
    digits = np.unravel_index(codes, [c.size for c in found.columns])
    arrays = [
        pa.array(np.array(c.labels, object)[digit], pa.string()) for c, digit in zip(found.columns, digits, strict=True)
    ]
    return marked(pa.table(arrays, names=[c.name for c in found.columns]), found.n)


def whole_number(rows: int) -> None:
    """Refuse what is no number of records."""
    if not (isinstance(rows, int) and rows > 0):
        raise InputError("the number of records must be a whole number, one or more", value=rows)


def marked(records: pa.Table, n: int) -> pa.Table:
    """Records that say in their metadata that they are synthetic."""
    told = {"rows": records.num_rows, "estimated_from": n, "note": NOTE}
    return records.replace_schema_metadata({SYNTHETIC_KEY: json.dumps(told).encode()})
