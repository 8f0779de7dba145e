"""Counting: the labels of every column, and the tables of small groups of columns, never of all together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sfumato.alphabet import Alphabet, Array, Column, Ints
from sfumato.errors import InputError, UnknownName
from sfumato.joint import Joint
from sfumato.sources import Source, open_source
from sfumato.sources.tabulation import Bins, Labels, Rare, Unseen, catching, tabulate

if TYPE_CHECKING:
    from sfumato.sources.source import TableLike

Rule = TypeVar("Rule")
GROUP_CELLS = 1_000_000  # of one group's table


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
        if max(sizes) > GROUP_CELLS:
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


def uniform(secret: Alphabet, useful: Alphabet) -> Joint:
    """What stands for the design distribution where nothing is known of it: every cell alike."""
    cells = prod((secret.size, useful.size))
    return Joint.from_probabilities(np.full((secret.size, useful.size), 1 / cells), secret, useful)


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
