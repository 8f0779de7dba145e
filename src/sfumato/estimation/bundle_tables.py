"""Estimates from the answers of a bundle: every table of one and two columns, and what they will be worth.

A score L(t, y) of a part has E[L(t, Y) | x] = 1{x_T = t}: it is unbiased for every record, so its mean over rows
estimates the table of the columns T whatever their distribution. Parts have independent noise, so products of the
scores of two parts estimate tables across them, again whatever the dependence of the columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from sfumato import estimation
from sfumato.alphabet import Column, Floats
from sfumato.composing.plans import helps
from sfumato.designers.worth import Z95, Foreseen, ForeseenPart
from sfumato.errors import InputError, unknown
from sfumato.estimation import inversion as inverting
from sfumato.estimation.estimates import spread, spread_untouched
from sfumato.estimation.graph import GraphModel, agreeing, by_noise, fitted, refitted
from sfumato.estimation.inversion import DenseInversion, Inversion, PairInversion, PooledInversion, on_simplex, sums
from sfumato.estimation.models import prior
from sfumato.estimation.tables import TableEstimate
from sfumato.estimation.tally import check_manifest, counted_answers
from sfumato.mechanism import Bundle, Mechanism
from sfumato.mechanism.bundle import ANSWER, TURN
from sfumato.mechanism.law import told_apart
from sfumato.sources import open_source

if TYPE_CHECKING:
    from sfumato.alphabet import Label
    from sfumato.sources.source import TableLike

FALSE_TIES = 0.05  # the chance that the model ties any two columns by noise alone
NO_PROJECTOR = np.zeros((0, 0))  # of a part of a table, which does not say by itself what is identified


@dataclass(frozen=True, eq=False)
class Scores:
    """The unbiased scores of one part for all of its inputs, from which those of any of its columns follow."""

    columns: tuple[Column, ...]  # of the input, in code order
    left: Floats  # L[x, y]
    seen: Floats  # projector on the row space of Q
    expected: Floats  # P(y) at the design distribution
    effects: dict[tuple[str, ...], Effect] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, part: Mechanism, columns: Sequence[Column]) -> Scores:
        q = part.matrix
        if q is None:
            raise InputError(f"a part with {part.outputs:,} outputs for {part.inputs:,} inputs is too large to invert.")
        p = prior(part)
        f = q @ p
        made = DenseInversion.of(q, f, 1, (part.inputs,), p)
        return cls(tuple(columns), made.left, made.seen, f)

    @property
    def sizes(self) -> dict[str, int]:
        return {c.name: c.size for c in self.columns}

    def table(self, wanted: Sequence[str], f: Floats, n: int) -> DenseInversion:
        """The table of some of the columns from the frequencies f of the outputs among n rows."""
        m, shape = sums(self.columns, wanted), tuple(self.sizes[name] for name in wanted)
        return DenseInversion(m @ self.left, f, n, shape, m @ self.seen, m)

    def effect(self, wanted: tuple[str, ...]) -> Effect:
        """The effect of some of the columns: their table less what fewer of them say of it."""
        if wanted not in self.effects:
            m = inverting.centred(sums(self.columns, wanted), [self.sizes[name] for name in wanted])
            outside, size = np.linalg.norm(m - m @ self.seen), np.linalg.norm(m)
            scores = m @ self.left
            moment = float((scores**2 @ self.expected).sum())
            self.effects[wanted] = Effect(scores, moment, bool(outside <= inverting.IDENTIFIED * size) and moment > 0)
        return self.effects[wanted]

    def moment(self, wanted: Sequence[str]) -> float:
        """Σ_t E L(t, Y)² at the design distribution: known before any row is seen."""
        scores = sums(self.columns, wanted) @ self.left
        return float((scores**2 @ self.expected).sum())


@dataclass(frozen=True, eq=False)
class Effect:
    """The scores of a part for the effect of some columns alone, and what they cost."""

    scores: Floats  # [t, y]
    moment: float  # Σ_t E score² at the design distribution: known before any row is seen
    known: bool


def pooled(
    sizes: Mapping[str, int], names: Sequence[str], seen: Sequence[tuple[Scores, Floats, int]]
) -> PooledInversion:
    """The table of some columns from several parts with the frequencies of their outputs and their rows.

    Each effect is a mean with weights n / moment: turns do not look at records, so nor do the weights, and the
    estimate is unbiased whatever the distribution. It is generalised least squares onto tables that agree, under the
    covariance that is expected: at the even distribution the noise of GRR and SRR is isotropic on every effect, that of
    blocks nearly (`composing.answers`), so that effects are uncorrelated and least squares is the mean of each.
    """
    shape = [sizes[name] for name in names]
    lefts: dict[int, Floats] = {}
    known = True
    for effect in (x for k in range(1, len(names) + 1) for x in combinations(names, k)):
        about = [(i, s.effect(effect)) for i, (s, _, n) in enumerate(seen) if n and set(effect) <= set(s.sizes)]
        told = {i: e for i, e in about if e.known}
        total = sum(seen[i][2] / e.moment for i, e in told.items())
        known &= total > 0 or math.prod(sizes[c] - 1 for c in effect) == 0
        for i, e in told.items():
            left = e.scores * (seen[i][2] / e.moment / total)
            lefts[i] = lefts.get(i, 0.0) + _in_cells(left, names.index(effect[0]), shape)
    parts = [DenseInversion(x, *seen[i][1:], (len(x),), NO_PROJECTOR, NO_PROJECTOR) for i, x in lefts.items()]
    return PooledInversion(tuple(parts), np.full(math.prod(shape), known))


def _in_cells(left: Floats, at: int, shape: Sequence[int]) -> Floats:
    """Scores of the effect of one column of a table as scores of its cells, in which all with a value of it share."""
    if len(left) == math.prod(shape):
        return left
    return np.asarray(left[np.indices(shape)[at].ravel()] * (len(left) / math.prod(shape)))


def alike(one: Mechanism, other: Mechanism) -> bool:
    """Whether two parts have the same law and the same design distribution, so that their scores are the same."""
    return told_apart(one.law) == told_apart(other.law) and bool(np.array_equal(prior(one), prior(other)))


@dataclass(frozen=True, eq=False)
class BundleEstimate:
    """Every table of one or two columns behind the released answers, as margins of one distribution.

    Shares are none below 0 and tables agree on the columns they share; `raw` is unbiased and, for parts that take
    turns, agrees as well.
    """

    notes: ClassVar[tuple[str, ...]] = ()
    bundle: Bundle
    n: int
    project: bool
    counts: dict[tuple[int, ...], Floats] = field(repr=False)  # by part, or by pair of parts
    scores: dict[int, Scores] = field(default_factory=dict, repr=False)
    made: dict[tuple[str, ...], TableEstimate] = field(default_factory=dict, repr=False)

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The columns that some part answers for; the secret first if it is among them."""
        both = self.bundle.reads == "both"
        return {c.name: c for c in (*(self.bundle.secret.columns if both else ()), *self.bundle.useful.columns)}

    @property
    def names(self) -> list[tuple[str, ...]]:
        """Every table that can be asked for, by its columns."""
        known = list(self.columns)
        return [*((name,) for name in known), *(pair for pair in combinations(known, 2) if self._told(pair))]

    @property
    def tables(self) -> Iterator[TableEstimate]:
        """All of them."""
        return (self.table(*names) for names in self.names)

    def table(self, *names: str) -> TableEstimate:
        """The table of one column or of two."""
        for name in names:
            if name not in self.columns:
                raise unknown("a column of the bundle", name, self.columns)
        if not 1 <= len(names) <= 2 or len(set(names)) != len(names):
            raise InputError("a table has one column or two different ones", value=names)
        if names not in self.made:
            inversion, n = self._inverted(names)
            shown = self._shown(names, inversion)
            self.made[names] = TableEstimate(tuple(self.columns[c] for c in names), shown, n, inversion)
        return self.made[names]

    def _shown(self, names: tuple[str, ...], inversion: Inversion) -> Floats:
        raw = inversion.raw.reshape([self.columns[c].size for c in names])
        known = bool(inversion.identified.all())
        if not self.project and known:
            return raw
        if len(names) == 2:
            return agreeing(inversion, *(self.table(c).p for c in names))
        return on_simplex(raw) if known else np.full(raw.shape, 1 / raw.size)

    def intervals(self, level: float = 0.95) -> dict[tuple[str, ...], tuple[Floats, Floats]]:
        """(low, high) for every table, which hold for all cells of all tables at once.

        Each table takes an equal part of the risk (Bonferroni: right for every dependence between tables).
        """
        each = 1 - (1 - level) / len(self.names)
        return {names: self.table(*names).interval(each) for names in self.names}

    @cached_property
    def model(self) -> GraphModel:
        """A distribution of all columns with the estimated tables of two columns that tell most: any query, records.

        Two columns may be tied where noise alone would hardly show them as dependent: with FALSE_TIES as the chance of
        any tie between independent columns (Bonferroni). What noise swamps is left independent: records that follow it
        teach a learner what is not there, and are worse than none.
        """
        alone = [names for names in self.names if len(names) == 1]
        pairs = [names for names in self.names if len(names) == 2]
        noise = {(a, b): by_noise(self.table(a, b).inversion, self.table(a).p, self.table(b).p) for a, b in pairs}
        tied = [names for names in pairs if noise[names] <= FALSE_TIES / len(pairs)]
        return fitted(list(self.columns.values()), self._placed([*alone, *tied]))

    def query(
        self, event: Mapping[str, Label | Sequence[Label]], level: float = 0.95, *, draws: int = 60, seed: int = 0
    ) -> tuple[float, float, float]:
        """(estimate, low, high) of the share of records with these labels, of any number of columns, by the model.

        The interval is by simulation: answers are drawn anew as often as they came, tables and model fitted again, and
        its width is Student's, for as many draws (of 60 it is known to 9 %). It holds as far as the model does, which
        ties columns by two and three: more are taken to be no closer.
        """
        if not 0 < level < 1:
            raise InputError("the level must lie strictly between 0 and 1", value=level)
        found, rng = self.model.probability(event), np.random.default_rng(seed)
        again = [self._again(rng).probability(event) for _ in range(draws)]
        half = _student(draws, level) * math.sqrt(float(np.mean((np.array(again) - found) ** 2)))
        return found, max(0.0, found - half), min(1.0, found + half)

    def synthesise(self, rows: int, *, seed: int | None = None) -> pa.Table:
        """Records of all columns drawn from the model, as an Arrow table that says so."""
        estimation.whole_number(rows)
        return estimation.marked(self.model.records(rows, list(self.columns), seed=seed), self.n)

    def _placed(self, names: Sequence[tuple[str, ...]]) -> dict[tuple[int, ...], Floats]:
        """Tables by the places of their columns."""
        place = {name: i for i, name in enumerate(self.columns)}
        return {tuple(place[c] for c in each): self.table(*each).p for each in names}

    def _again(self, rng: np.random.Generator) -> GraphModel:
        """The model of answers that might as well have come: as many, drawn from their own frequencies."""
        def redrawn(counts: Floats) -> Floats:
            n = int(counts.sum())
            return rng.multinomial(n, counts.ravel() / max(n, 1)).reshape(counts.shape).astype(float)

        keys = [k for k in self.counts if len(k) == 2 or self.bundle.turns is not None or len(self.bundle.parts) == 1]
        counts = {k: redrawn(self.counts[k]) for k in keys}
        for a, b in (k for k in keys if len(k) == 2):  # pairs of parts that share one are redrawn one by one
            counts.setdefault((a,), counts[a, b].sum(1))
            counts.setdefault((b,), counts[a, b].sum(0))
        other = replace(self, counts=counts, made={})
        names, place = self.model.names, list(self.columns).index
        tied = [[names[c] for c in (i, *held)] for i, held in enumerate(self.model.parents)]
        pairs = {tuple(sorted(pair, key=place)) for held in tied for pair in combinations(held, 2)}
        tables = other._placed([*((c,) for c in self.columns), *sorted(pairs)])
        return refitted(self.model, tables, list(self.columns.values()))

    def _scores(self, part: int) -> Scores:
        own = self.bundle.parts[part]
        if part not in self.scores:
            twin = next((i for i in self.scores if alike(own, self.bundle.parts[i])), None)
            made = Scores.of(own, self.bundle.reading(own)) if twin is None else self.scores[twin]
            self.scores[part] = replace(made, columns=self.bundle.reading(own), effects={})
        return self.scores[part]

    def _holding(self, names: Sequence[str]) -> list[int]:
        """Parts that hold all of the columns."""
        reading = [{c.name for c in self.bundle.reading(part)} for part in self.bundle.parts]
        return [i for i, held in enumerate(reading) if set(names) <= held]

    def _told(self, names: Sequence[str]) -> bool:
        return bool(self._holding(names)) or self.bundle.turns is None

    def _inverted(self, names: tuple[str, ...]) -> tuple[Inversion, int]:
        parts = self._holding(names)
        if self.bundle.turns is not None:
            if not parts:
                raise InputError(
                    f"no part holds {' and '.join(names)} together, and each row answers one part only: .model says "
                    "what other tables make likely of them."
                )
            return self._pooled(names)
        return self._alone(self._best(names), names) if parts else self._across(names), self.n

    def _best(self, names: Sequence[str]) -> int:
        """The part that tells most of these columns; the secret may be read by several."""
        return min(self._holding(names), key=lambda i: self._scores(i).moment(names))

    def _alone(self, part: int, names: Sequence[str]) -> DenseInversion:
        return self._scores(part).table(names, self.counts[part,] / self.n, self.n)

    def _across(self, names: tuple[str, ...]) -> Inversion:
        a, b = (self._best([name]) for name in names)
        f = self.counts[min(a, b), max(a, b)] / self.n
        return PairInversion.of(self._alone(a, names[:1]), self._alone(b, names[1:]), f if a < b else f.T, self.n)

    def _pooled(self, names: tuple[str, ...]) -> tuple[Inversion, int]:
        """From all parts that tell something of the columns; the rows are those that tell of all of them."""
        sizes = {name: self.columns[name].size for name in names}
        about = sorted({i for name in names for i in self._holding([name])})
        rows = {i: int(self.counts[i,].sum()) for i in about}
        seen = [(self._scores(i), self.counts[i,] / max(rows[i], 1), rows[i]) for i in about]
        return pooled(sizes, names, seen), sum(rows[i] for i in self._holding(names))


def expected_estimate(bundle: Bundle, n: int) -> BundleEstimate:
    """The estimate from n rows that follow the design distribution, with every answer as often as is expected."""
    expected = [np.asarray(part.matrix @ prior(part)) for part in bundle.parts if part.matrix is not None]
    if len(expected) < len(bundle.parts):
        raise InputError("a part of the bundle is too large to foresee what will be known from it.")
    if bundle.turns is not None:
        turns = zip(bundle.turns, expected, strict=True)
        return BundleEstimate(bundle, n, True, {(i,): n * t / sum(bundle.turns) * f for i, (t, f) in enumerate(turns)})
    counts: dict[tuple[int, ...], Floats] = {(i,): n * f for i, f in enumerate(expected)}
    pairs = combinations(range(len(expected)), 2)
    return BundleEstimate(bundle, n, True, counts | {(a, b): n * np.outer(expected[a], expected[b]) for a, b in pairs})


def estimate_bundle(source: TableLike, bundle: Bundle, *, project: bool = True) -> BundleEstimate:
    """Every table of one and two columns from a table released with a bundle, read once, batch by batch."""
    opened = open_source(source).verbatim()
    check_manifest(opened, bundle)
    names = bundle.names if bundle.turns is None else (TURN, ANSWER)
    return from_answers(opened.batches(list(names)), bundle, project=project)


def from_answers(batches: Iterable[pa.RecordBatch], bundle: Bundle, *, project: bool = True) -> BundleEstimate:
    """The same from answers as they come."""
    counts, n = counted_answers(batches, bundle)
    if n == 0:
        raise InputError("there are no released rows to estimate from.")
    return BundleEstimate(bundle, n, project, counts)


def _student(freedom: int, level: float) -> float:
    """Student's half width by its expansion around the normal one [Fisher, Cornish 1960]: scipy is not there
    for whoever only estimates.

    >>> round(_student(50, 0.95), 4), round(_student(20, 0.95), 3)
    (2.0086, 2.086)
    """
    z = inverting.sidak(1, level)
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


# --- what estimates from a bundle will be worth, before a row is released, by what its file tells anybody -------------


def prospects(bundle: Bundle, n: int) -> Foreseen:
    """The expected error of every table of one and two columns from n rows that follow the design distribution.

    It is that of the unbiased estimate, whose variance at the expected answers is exact; what is shown in the end, with
    shares from 0 on and noise drawn towards independence, is nearer to the truth as a rule.
    """
    expected = expected_estimate(bundle, n)
    parts = [_part(expected, names) for names in expected.names]
    pairs = sum(len(names) == 2 for names in expected.names)
    return Foreseen(n, tuple(parts), tuple(helps(bundle)), pairs)


def _part(expected: BundleEstimate, names: tuple[str, ...]) -> ForeseenPart:
    table, n = expected.table(*names), expected.n
    error, plain = spread(table.inversion), spread_untouched(table.raw, n)
    rows = min(n * (plain / error) ** 2, float(n)) if error else float(n)
    return ForeseenPart(" × ".join(names), table.p.size, 100 * Z95 * error, rows)
