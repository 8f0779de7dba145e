"""Counting: the labels of every column, the tables of small groups of columns, never of all together; and which of them
are worth their rows, seen through noisy counts that were paid for (`adapted`)."""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sfumato.alphabet import Alphabet, Array, Column, Floats, Ints
from sfumato.composing.answers import SECRET
from sfumato.composing.sharing import Spec, TurnLayout
from sfumato.errors import InputError, UnknownName, option
from sfumato.joint import Joint
from sfumato.noise import SEEDED, Below, noisy_counts
from sfumato.sources import Source, open_source
from sfumato.sources.tabulation import Bins, Labels, Rare, Unseen, catching, tabulate
from sfumato.tolerances import TABLE

if TYPE_CHECKING:
    from sfumato.sources.source import TableLike

Rule = TypeVar("Rule")


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The secret and the useful columns of a source, with their labels, and its rows to count from."""

    secret: Alphabet
    useful: tuple[Column, ...]
    source: Source
    rows: int

    @classmethod
    def of(
        cls, source: TableLike, secret: str | Iterable[str], useful: Iterable[str], *, missing: str = "category",
        bins: Bins = None, rare: Rare = None, labels: Labels = None, unseen: Unseen = None,
    ) -> Columns:
        secrets = [secret] if isinstance(secret, str) else list(secret)
        names = [useful] if isinstance(useful, str) else list(useful)
        if not names or len(set(names)) != len(names):
            raise InputError("useful must name one or more columns, each once", value=names)
        opened = open_source(source).settled([*secrets, *names])
        caught = _caught(unseen, labels or {})
        for ruled in (bins, rare, labels, unseen):
            _check_named(ruled if isinstance(ruled, Mapping) else (), [*secrets, *names])
        found: dict[str, Column] = {}
        for name in names:
            here = {*secrets, name}
            few = _of(here, rare) if isinstance(rare, Mapping) else rare
            joint = tabulate(
                opened, secrets, name, missing=missing, bins=_of(here, bins) or None, rare=few,
                labels=_of(here, labels), unseen=_of(here, caught) or None,
            )
            found |= {c.name: c for c in (*joint.secret.columns, *joint.useful.columns)}
        found, rows = catching(found, unseen), joint.n
        assert rows is not None
        return cls(Alphabet(tuple(found[n] for n in secrets)), tuple(found[n] for n in names), opened, rows)

    def tables(self, groups: Sequence[tuple[Alphabet, Alphabet]]) -> list[Joint]:
        """The table of each pair of alphabets (what stands in the place of the secret, and the useful side), in one
        pass over the rows."""
        sizes = [first.size * second.size for first, second in groups]
        if max(sizes) > TABLE:
            raise InputError(f"a table of {max(sizes):,} cells is too large for one part", next="Use coarser columns.")
        totals = [np.zeros(size, np.int64) for size in sizes]
        columns = {c.name: c for group in groups for side in group for c in side.columns}
        row = 0
        for batch in self.source.batches(list(columns)):
            codes = {n: c.encode(batch.column(n), first_row=row).astype(np.int64) for n, c in columns.items()}
            row += batch.num_rows
            for total, (first, second) in zip(totals, groups, strict=True):
                at = joint_codes([*first.columns, *second.columns], codes, batch.num_rows)
                total += np.bincount(at, minlength=len(total))
        pairs = zip(totals, groups, strict=True)
        return [Joint.from_counts(t.reshape(a.size, b.size), a, b) for t, (a, b) in pairs]


def joint_codes(columns: Sequence[Column], codes: Mapping[str, Array], rows: int) -> Ints:
    """Codes of several columns as one, in row-major order."""
    total = np.zeros(rows, np.int64)
    for column in columns:
        total = total * column.size + codes[column.name]
    return total


def _check_named(given: Iterable[str], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise UnknownName(f"is neither secret nor useful ({', '.join(names)})", value=name)


def _of(names: set[str], rules: Mapping[str, Rule] | None) -> dict[str, Rule]:
    """The rules of these columns alone."""
    return {name: rule for name, rule in (rules or {}).items() if name in names}


def _caught(unseen: Unseen, labels: Mapping[str, Sequence[object] | Column]) -> dict[str, str]:
    """The label that takes unseen values of each column, as far as it is known before a row is seen."""
    if unseen is None or not isinstance(unseen, str):
        return dict(unseen or {})
    return {n: unseen for n, given in labels.items() if not isinstance(given, Column) and unseen in map(str, given)}


# --- tables of two columns that are worth their rows ------------------------------------------------------------------
# A table that is not asked about is taken to be independent, which costs the square of its dependence; one that is
# asked about costs its noise, and rows of the others. So the tables with most dependence are asked about, as many as
# make the expected error of all least.


@dataclass(frozen=True, slots=True, eq=False)
class Adapted:
    """The tables that are asked about, and the noisy counts behind each part that will be, with what they cost."""

    layout: TurnLayout
    joints: dict[Spec, Joint]
    note: str


def adapted(columns: Columns, layout: TurnLayout, spent: float, epsilon: float, seed: int | None = None) -> Adapted:
    """Tables chosen by counts with noise, ε_d in all for every person; ε is what is left for the rows.

    Each part's table is counted with an equal share of ε_d, those that are then left out too: what was paid for them is
    entered with those that stay, so that the file tells all of it.
    """
    if spent <= 0:
        raise InputError(f"{option('--design-epsilon', 'design_epsilon=')} must be positive", value=spent)
    pairs = [t for t in layout.wanted() if len(t) == 2 and SECRET not in t]
    every = range(len(layout.sizes))
    singles = [Spec((c,), True) for c in every]
    specs = [*(Spec(pair, True) for pair in pairs), *singles]
    exact = columns.tables([(columns.secret, Alphabet(tuple(columns.useful[c] for c in s.columns))) for s in specs])
    share = math.floor(spent / len(specs) * 1e9) / 1e9
    below: Below = secrets.randbelow if seed is None else random.Random(seed).randrange
    drawn = {s: noisy_counts(joint, share, public=True, below=below) for s, joint in zip(specs, exact, strict=True)}
    chosen = _worth_their_rows({pair: drawn[Spec(pair, True)] for pair in pairs}, layout, epsilon)
    parts = [*(Spec(pair, True) for pair in chosen), *(s for s in singles if s.columns[0] not in sum(chosen, ()))]
    asked = [*((c,) for c in (SECRET, *every)), *((SECRET, c) for c in every), *chosen]
    joints = {s: _charged(drawn[s], share * len(specs) / len(parts), seed is not None) for s in parts}
    note = (
        f"ε_d = {share * len(specs):g} went to noisy counts of {len(specs)} tables, by which {len(chosen)} of "
        f"{len(pairs)} tables of two columns are worth their rows; another design draws anew, and costs as much again"
    )
    return Adapted(replace(layout, asked=tuple(asked), with_secret=True), joints, note)


def _charged(joint: Joint, spent: float, seeded: bool) -> Joint:
    """The counts with what was paid for them, and for those that are left out."""
    assert joint.noise is not None
    noise = replace(joint.noise, epsilon=spent)
    return replace(joint, noise=replace(noise, sampler=SEEDED) if seeded else noise)


def _worth_their_rows(
    tables: dict[tuple[int, ...], Joint], layout: TurnLayout, epsilon: float
) -> list[tuple[int, ...]]:
    """As many of the most dependent pairs as make a²·m/n + Σ_left δ² least: a of them share the rows."""
    told = {pair: _dependence(joint, [layout.size(c) for c in pair]) for pair, joint in tables.items()}
    order = sorted(told, key=lambda pair: -told[pair])
    n = next(iter(tables.values())).n or 1
    costs = np.cumsum([Spec(pair, True).answer(layout, epsilon).noise(pair, layout.size) for pair in order])
    left = sum(told.values()) - np.cumsum([told[pair] for pair in order])
    every = [sum(told.values()), *((a + 1) * costs[a] / n + left[a] for a in range(len(order)))]
    return sorted(order[: int(np.argmin(every))])


def _dependence(joint: Joint, sizes: Sequence[int]) -> float:
    """‖p(a, b) − p(a) p(b)‖² less what noise and rows add to it on average, at least 0."""
    assert joint.noise is not None and joint.n is not None
    p: Floats = joint.p.sum(0).reshape(sizes)
    away = float(((p - np.outer(p.sum(1), p.sum(0))) ** 2).sum())
    cell = 2 * joint.noise.scale**2 * joint.shape[0] / joint.n**2 + 1 / (joint.n * p.size)
    return max(0.0, away - math.prod(k - 1 for k in sizes) * cell)
