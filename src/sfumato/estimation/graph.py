"""A model of all columns from estimated tables of two: each column given one or two others that are tied themselves.

A tree of triples is decomposable: P(x) = Π P(x_c | x_a, x_b), with a and b in one triple before c. Of all distributions
with the three tables of a triple the one of greatest entropy is found by iterative fitting [Deming, Stephan 1940], and
of all with these triples the product is the one of greatest entropy [Lauritzen 1996, Prop. 4.25]. Which triples: those
that tell most of the next column, as Chow and Liu [1968] choose the pairs of a tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.alphabet import Column, Floats
from sfumato.errors import InputError, unknown
from sfumato.estimation.inversion import Inversion, PairInversion, centred
from sfumato.joint import entropy
from sfumato.libraries import scipy
from sfumato.tolerances import ALIKE, BLOCK, LISTED, SLIP, SQUARE, TABLE

if TYPE_CHECKING:
    from sfumato.alphabet import Bools, Label


@dataclass(frozen=True, slots=True)
class Fitting:
    """How far a model of all columns is fitted."""

    rounds: int = 30  # of fitting three tables
    triple: int = 30_000  # cells of a table of three columns
    ties: int = 8  # ties that are compared for the next column
    projections: int = 2000  # of alternating projections


FITTING = Fitting()


@dataclass(frozen=True, eq=False)
class GraphModel:
    """A distribution of all columns: any table of them, any event, and records."""

    columns: tuple[Column, ...]  # in the order in which they are drawn
    parents: tuple[tuple[int, ...], ...]  # places of none, one or two columns before
    given: tuple[Floats, ...] = field(repr=False)  # P(column | parents), its own axis the last

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    def table(self, *names: str) -> Floats:
        """The distribution of some columns together, with an axis for each."""
        at = [self._place(name) for name in names]
        if not at or len(set(at)) != len(at):
            raise InputError("name one or more columns, each once", value=names)
        if math.prod(self.columns[i].size for i in at) > TABLE:
            raise InputError(f"a table of {', '.join(names)} has too many cells to list; draw records instead.")
        return self._summed(at, {})

    def probability(self, event: Mapping[str, Label | Sequence[Label]]) -> float:
        """Of an event: a label for each column, or several of them.

        The sum over all records in it, one column at a time: messages pass from the last column to the first.
        """
        masks = {}
        for name, wanted in event.items():
            column = self.columns[self._place(name)]
            labels = [wanted] if wanted is None or isinstance(wanted, str) else list(wanted)
            masks[self._place(name)] = np.isin(np.arange(column.size), [column.code(x) for x in labels])
        return float(self._summed([], masks))

    def codes(self, rows: int, rng: np.random.Generator) -> dict[str, npt.NDArray[np.int32]]:
        """The codes of records that are drawn, by column."""
        drawn: list[npt.NDArray[np.int32]] = []
        for column, parents, given in zip(self.columns, self.parents, self.given, strict=True):
            ends = np.cumsum(given, axis=-1)
            own, step = np.empty(rows, np.int32), max(1, BLOCK // column.size)
            for start in range(0, rows, step):
                part = slice(start, min(start + step, rows))
                at = tuple(drawn[a][part] for a in parents)
                own[part] = (rng.random((part.stop - start, 1)) * ends[at][..., -1:] >= ends[at][..., :-1]).sum(-1)
            drawn.append(own)
        return {c.name: codes for c, codes in zip(self.columns, drawn, strict=True)}

    def records(self, rows: int, order: Sequence[str], *, seed: int | None = None) -> pa.Table:
        """Records of all columns, each drawn by itself."""
        codes = self.codes(rows, np.random.default_rng(seed))
        by_name = {c.name: c for c in self.columns}
        return pa.table({n: pa.array(np.array(by_name[n].labels, object)[codes[n]], pa.string()) for n in order})

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise unknown("a column of the model", name, self.names)
        return self.names.index(name)

    def _summed(self, kept: Sequence[int], masks: Mapping[int, Bools]) -> Floats:
        """Σ P over all columns that are not kept, within the masks."""
        waiting: list[list[tuple[Floats, tuple[int, ...]]]] = [[] for _ in self.columns]
        loose: list[tuple[Floats, tuple[int, ...]]] = []
        for i in reversed(range(len(self.columns))):
            own = self.given[i] * masks[i] if i in masks else self.given[i]
            factors = [(own, (*self.parents[i], i)), *waiting[i]]
            axes = {a for _, held in factors for a in held}
            out = tuple(sorted(a for a in axes if a != i or i in kept))
            told = _product(factors, out)
            home = max(self.parents[i], default=None)
            (loose if home is None else waiting[home]).append((told, out))
        return _product(loose, tuple(kept))


def _product(factors: Sequence[tuple[Floats, tuple[int, ...]]], out: tuple[int, ...]) -> Floats:
    """The product of tables with named axes, summed over all axes but some."""
    short = {a: i for i, a in enumerate(sorted({a for _, held in factors for a in held}))}  # einsum knows 52 names
    operands: list[Any] = [x for table, held in factors for x in (table, [short[a] for a in held])]
    return np.asarray(np.einsum(*operands, [short[a] for a in out]))


def fitted(columns: Sequence[Column], tables: Mapping[tuple[int, ...], Floats]) -> GraphModel:
    """The model of tables of one and two columns, by places in ascending order, that agree on what they share."""
    triples = _Triples(columns, dict(tables))
    order, ties = [triples.start], set[tuple[int, int]]()
    parents: list[tuple[int, ...]] = [()]
    while len(order) < len(columns):
        best: tuple[float, int, tuple[int, ...]] = (-math.inf, 0, ())
        for c in (c for c in range(len(columns)) if c not in order):
            for before in ((), *((a,) for a in order), *triples.likely(c, ties)):
                if (gain := triples.told(c, before)) > best[0] + ALIKE:
                    best = gain, c, before
        _, c, before = best
        ties |= {(min(c, a), max(c, a)) for a in before}
        order.append(c)
        parents.append(before)
    return _arranged(columns, triples, order, parents)


def refitted(model: GraphModel, tables: Mapping[tuple[int, ...], Floats], columns: Sequence[Column]) -> GraphModel:
    """The same ties with other tables."""
    place = {c.name: i for i, c in enumerate(columns)}
    order = [place[name] for name in model.names]
    parents = [tuple(order[a] for a in held) for held in model.parents]
    return _arranged(columns, _Triples(columns, dict(tables)), order, parents)


def _arranged(
    columns: Sequence[Column], triples: _Triples, order: Sequence[int], parents: Sequence[tuple[int, ...]]
) -> GraphModel:
    given = tuple(triples.given(c, before) for c, before in zip(order, parents, strict=True))
    places = tuple(tuple(order.index(a) for a in before) for before in parents)
    return GraphModel(tuple(columns[c] for c in order), places, given)


@dataclass(eq=False)
class _Triples:
    """Tables of up to three columns, of greatest entropy among those with the tables of two that are known."""

    columns: Sequence[Column]
    tables: dict[tuple[int, ...], Floats]
    known: dict[tuple[int, tuple[int, ...]], float] = field(default_factory=dict)

    @property
    def start(self) -> int:
        """A column of the two that tell most of each other."""
        pairs = [t for t in self.tables if len(t) == 2]
        return max(pairs, key=lambda t: self.told(t[0], t[1:]), default=(0,))[0]

    def likely(self, c: int, ties: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """The ties whose two columns one by one tell most of c."""
        return sorted(ties, key=lambda t: -self.told(c, t[:1]) - self.told(c, t[1:]))[:FITTING.ties]

    def told(self, c: int, before: tuple[int, ...]) -> float:
        """I(c; before) in nats; −∞ where their tables are not known, or too large."""
        held = tuple(sorted((c, *before)))
        if any(pair not in self.tables for pair in combinations(held, 2)):
            return -math.inf
        if math.prod(self.columns[i].size for i in held) > FITTING.triple:
            return -math.inf
        if (c, before) not in self.known:
            sides = self._of((c,)), self._of(tuple(sorted(before))) if before else np.ones(1)
            self.known[c, before] = sum(entropy(side) for side in sides) - entropy(self._of(held))
        return self.known[c, before]

    def given(self, c: int, before: tuple[int, ...]) -> Floats:
        """P(c | before), with the axes of `before` first."""
        held = tuple(sorted((c, *before)))
        table = np.transpose(self._of(held), [held.index(i) for i in (*before, c)])
        total = table.sum(-1, keepdims=True)
        own = np.broadcast_to(self._of((c,)), table.shape).copy()
        return np.asarray(np.divide(table, total, out=own, where=total > 0))

    def _of(self, held: tuple[int, ...]) -> Floats:
        if held not in self.tables:
            self.tables[held] = _three(*(self.tables[pair] for pair in combinations(held, 2)))
        return self.tables[held]


def _three(ab: Floats, ac: Floats, bc: Floats) -> Floats:
    """The table of three columns fitted to those of every two; exactly to the last that is fitted.

    Estimated tables of two may be no margins of anything: then the rounds are left where they are, and the model has
    those tables that its columns were tied by, and the others nearly.
    """
    q = ab[:, :, None] * ac[:, None, :] * bc[None]
    for _ in range(FITTING.rounds):
        before = q
        for margin, axis in ((bc[None], 0), (ac[:, None, :], 1), (ab[:, :, None], 2)):
            total = q.sum(axis, keepdims=True)
            q = q * np.divide(margin, total, out=np.zeros_like(total), where=total > 0)
        if np.abs(q - before).max() < SLIP:
            break
    return np.asarray(q / q.sum() if q.sum() > 0 else ab[:, :, None] * bc.sum(0) / ab.sum())


# --- estimated tables as margins of one distribution: shares from 0 on, the same wherever a column occurs -------------


def agreeing(inversion: Inversion, first: Floats, second: Floats) -> Floats:
    """The table of two columns whose own shares are known: nearest to the estimate, with these margins, none below 0.

    What the columns have to do with each other is drawn towards independence by as much as noise explains (`kept`):
    where it explains all of it, they are shown as independent.
    """
    even = np.outer(first, second)
    if not inversion.identified.all():
        return even
    told, noise = _interaction(inversion, even)
    return _with_margins(even + kept(noise, told) * told, first, second)


def by_noise(inversion: Inversion, first: Floats, second: Floats) -> float:
    """The probability that noise alone shows two independent columns as far from independence as these are.

    ‖x‖² of normal x with covariance Σ is about tr Σ²/tr Σ times χ² with (tr Σ)²/tr Σ² degrees of freedom
    [Satterthwaite 1946]. 0 where Σ is too large to be listed: nothing is put down to noise then.
    """
    if not inversion.identified.all():
        return 1.0
    told, noise = _interaction(inversion, np.outer(first, second))
    if noise is None:
        return 0.0
    total, squared = float(np.trace(noise)), float((noise**2).sum())
    if squared <= 0:
        return 0.0
    return float(scipy.special.chdtrc(total**2 / squared, float((told**2).sum()) * total / squared))


def _interaction(inversion: Inversion, even: Floats) -> tuple[Floats, Floats | None]:
    """What two columns have to do with each other, and its covariance; None where that is too large to be listed."""
    told = centred(inversion.raw.reshape(even.shape) - even, even.shape)
    wide = isinstance(inversion, PairInversion) and inversion.a.size * inversion.b.size > LISTED
    if wide or told.size > SQUARE:
        return told, None
    return told, centred(centred(inversion.covariance(), told.shape).T, told.shape)


def kept(noise: Floats | None, told: Floats) -> float:
    """The share of an interaction that is not put down to noise: James and Stein's 1 − (tr Σ − 2 λ_max) / ‖x‖², or 0.

    For normal x with covariance Σ, x(1 − a/‖x‖²) has a smaller squared error than x for 0 < a < 2(tr Σ − 2 λ_max): by
    Stein's identity the difference is E[(a² − 2a (tr Σ − 2 xᵀΣx/‖x‖²))/‖x‖²]. Cut at 0 it is smaller still. Here Σ
    is estimated and independence is too, which costs little where all columns are told better than two together.
    """
    if noise is None:
        return 1.0
    spread = float(np.trace(noise) - 2 * np.linalg.eigvalsh(noise)[-1])
    size = float((told**2).sum())
    return max(0.0, 1 - max(spread, 0.0) / size) if size > 0 else 0.0


def _with_margins(table: Floats, first: Floats, second: Floats) -> Floats:
    """The nearest table with these margins and no negative cell, by Dykstra's alternating projections; the last step
    mixes in as much of the independent table as the last negative shares need, which has the same margins."""
    out = np.zeros(table.shape)
    live = np.ix_(first > 0, second > 0)
    a, b = first[first > 0], second[second > 0]
    even, q = np.outer(a, b), table[live]
    q = _moved(q, a, b)
    change = np.zeros(q.shape)
    for _ in range(FITTING.projections):
        if q.min() >= -SLIP:  # which the last step mends
            break
        positive = np.maximum(q + change, 0.0)
        change += q - positive
        q = _moved(positive, a, b)
    low = q < 0
    mixed = float((-q[low] / (even[low] - q[low])).max()) if low.any() else 0.0
    out[live] = np.maximum((1 - mixed) * q + mixed * even, 0.0)
    return out


def _moved(q: Floats, a: Floats, b: Floats) -> Floats:
    """The nearest table with margins a and b."""
    rows, others = a - q.sum(1), b - q.sum(0)
    return np.asarray(q + rows[:, None] / len(b) + others / len(a) - rows.sum() / q.size)
