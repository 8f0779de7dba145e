"""Counting: the labels of every column, and the tables of small groups of columns, never of all together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from sfumato.alphabet import Alphabet, Column, Ints
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.sources import Source, open_source
from sfumato.sources.tabulation import tabulate

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
        cls, source: Any, secret: str | Iterable[str], useful: Iterable[str], *, missing: str = "category",
        bins: Mapping[str, Any] | None = None, rare: Any = None, labels: Mapping[str, Any] | None = None,
    ) -> Columns:
        secrets = [secret] if isinstance(secret, str) else list(secret)
        names = [useful] if isinstance(useful, str) else list(useful)
        if not names or len(set(names)) != len(names):
            raise InputError(f"useful must name one or more columns, each once, got {names}.")
        opened = open_source(source).settled([*secrets, *names])
        ruled = [*(bins or {}), *(rare if isinstance(rare, Mapping) else ()), *(labels or {})]
        _check_named(ruled, [*secrets, *names])
        found, joint = [], None
        for name in names:
            here = {*secrets, name}
            some = {k: v for k, v in (bins or {}).items() if k in here}
            few = {k: v for k, v in rare.items() if k in here} if isinstance(rare, Mapping) else rare
            fixed = {k: v for k, v in (labels or {}).items() if k in here}
            joint = tabulate(opened, secrets, name, missing=missing, bins=some or None, rare=few, labels=fixed)
            found.append(joint.useful.columns[0])
        assert joint is not None and joint.n is not None
        return cls(joint.secret, tuple(found), opened, joint.n)

    def tables(self, groups: Sequence[tuple[Alphabet, Alphabet]]) -> list[Joint]:
        """The table of each pair of alphabets (what stands in the place of the secret, and the useful side), in one
        pass over the rows."""
        sizes = [first.size * second.size for first, second in groups]
        if max(sizes) > GROUP_CELLS:
            raise InputError(f"a table of {max(sizes):,} cells is too large for one part; use coarser columns.")
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


def joint_codes(columns: Sequence[Column], codes: Mapping[str, Any], rows: int) -> Ints:
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
            raise InputError(f"{name!r} is neither secret nor useful ({', '.join(names)}).")
