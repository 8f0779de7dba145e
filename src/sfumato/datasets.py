"""Small contingency tables as facts, and rows that have exactly their counts: for demos, tests and benchmarks."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from sfumato.alphabet import Alphabet, Column, Ints
from sfumato.errors import At, InputError, did_you_mean
from sfumato.joint import Joint
from sfumato.libraries import pyarrow as pa

if TYPE_CHECKING:
    from sfumato.alphabet import Label

__all__ = ["adult", "adult_pairs", "rows", "sample"]

# --- contingency counts of pairs of columns of the UCI Adult data, 32,561 people of the 1994 US census ----------------
# The counts are recomputed from the raw file by benchmarks/make_adult_counts.py; '?' is a label of its own.


class _Table(TypedDict):
    rows: str
    columns: str
    counts: list[list[int]]


class _Facts(TypedDict):
    labels: dict[str, list[str]]
    tables: list[_Table]


@cache
def _facts() -> _Facts:
    facts: _Facts = json.loads(files("sfumato.sources").joinpath("adult.json").read_text("utf-8"))
    return facts


def adult_pairs() -> tuple[tuple[str, str], ...]:
    """The pairs (secret, useful) that `adult` knows, each in both orders.

    >>> ("sex", "race") in adult_pairs(), ("race", "sex") in adult_pairs()
    (True, True)
    """
    listed = [(t["rows"], t["columns"]) for t in _facts()["tables"]]
    return tuple(listed + [(b, a) for a, b in listed])


def adult(secret: str, useful: str) -> Joint:
    """The counted joint distribution of two columns of Adult.

    >>> joint = adult("sex", "race")
    >>> joint.n, joint.shape
    (32561, (2, 5))
    """
    facts = _facts()
    for table in facts["tables"]:
        pair = (table["rows"], table["columns"])
        if (secret, useful) in (pair, pair[::-1]):
            counts = np.array(table["counts"])
            counts = counts if secret == pair[0] else counts.T
            labels = {name: Alphabet.of(Column.of(name, facts["labels"][name])) for name in pair}
            return Joint.from_counts(counts, labels[secret], labels[useful])
    shown = ", ".join(facts["labels"])
    near = did_you_mean(secret, facts["labels"]) if secret not in facts["labels"] else ""
    near = near or (did_you_mean(useful, facts["labels"]) if useful not in facts["labels"] else "")
    raise InputError(f"{secret!r} × {useful!r} is no pair of two of Adult's categorical columns ({shown})", next=near)


def rows(joint: Joint, *, seed: int | None = None, shuffle: bool = True) -> pa.Table:
    """An Arrow table with exactly the counts of the joint, in random order unless shuffle is False.

    >>> rows(Joint.from_counts([[2, 0], [1, 3]]), shuffle=False).num_rows
    6
    """
    if joint.counts is None:
        raise InputError("only a counted joint has rows of its own", next="Use sample(joint, n, seed) to draw some.")
    codes = np.repeat(np.arange(joint.p.size), joint.counts.ravel())
    if shuffle:
        np.random.default_rng(seed).shuffle(codes)
    return _table(joint, codes)


def sample(joint: Joint, n: int, seed: int | None = None) -> pa.Table:
    """An Arrow table of n independent draws from the joint.

    >>> sample(Joint.from_counts([[2, 0], [1, 3]]), 10, seed=1).column_names
    ['secret', 'useful']
    """
    if n < 0:
        raise InputError("n must be a number of rows, zero or more", value=n)
    edges = np.cumsum(joint.p.ravel())
    draws = np.random.default_rng(seed).random(n) * edges[-1]
    return _table(joint, np.searchsorted(edges, draws, side="right"))


def _table(joint: Joint, codes: Ints) -> pa.Table:
    arrays: dict[str, pa.Array] = {}
    s, u = np.divmod(codes, joint.useful.size)
    for alphabet, part in ((joint.secret, s), (joint.useful, u)):
        for column in reversed(alphabet.columns):
            part, digit = np.divmod(part, column.size)
            if column.name in arrays:
                raise InputError("is both secret and useful", next="Rename one.", where=At(column.name))
            arrays[column.name] = pa.array(_values(column)).take(pa.array(digit))
    return pa.table({name: arrays[name] for name in (*joint.secret.names, *joint.useful.names)})


def _values(column: Column) -> list[Label] | list[float | None]:
    """A raw value for each code: the label itself, or a number inside the bin."""
    if column.cuts is None:
        return list(column.labels)
    cuts = column.cuts
    middle = [(a + b) / 2 for a, b in pairwise(cuts)]
    numbers = iter([cuts[0] - 1, *middle, cuts[-1]] if cuts else [0.0])
    return [None if label is None else next(numbers) for label in column.labels]
