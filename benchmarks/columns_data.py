"""The rows of the figures about many columns: a chain of ten, and Adult's nine categorical columns."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.columns_data import people

TEN = [f"c{j}" for j in range(10)]
ADULT = ("workclass", "education", "marital-status", "occupation", "relationship", "race", "native-country", "income")
Tables = dict[tuple[str, ...], Any]


def data(kind: str, n: int) -> tuple[pa.Table, str, list[str]]:
    if kind == "adult":
        return adult_rows(), "sex", list(ADULT)
    return people(n), "secret", TEN


def adult_rows() -> pa.Table:
    """The people of Adult, made from the counts of their cells, in a random order that is always the same."""
    told = json.loads(Path(__file__).with_name("adult_cells.json").read_text())
    sizes = [len(labels) for labels in told["labels"].values()]
    people = np.random.default_rng(0).permutation(np.repeat(np.cumsum(told["steps"]), told["counts"]))
    digits = dict(zip(told["labels"], np.unravel_index(people, sizes), strict=True))
    return pa.table({name: pa.array(np.array(told["labels"][name])[digits[name]]) for name in ("sex", *ADULT)})


def codes_of(rows: pa.Table, names: Iterable[str]) -> tuple[dict[str, Any], dict[str, int]]:
    """Codes by column, with labels in alphabetical order, and the number of labels."""
    codes, sizes = {}, {}
    for n in names:
        found = rows.column(n).combine_chunks().dictionary_encode()
        order = np.argsort(found.dictionary.to_pylist())
        codes[n], sizes[n] = np.argsort(order)[np.asarray(found.indices)], len(order)
    return codes, sizes


def truths(rows: pa.Table, names: list[str]) -> Tables:
    """The tables of one and two columns."""
    codes, sizes = codes_of(rows, names)
    out: Tables = {}
    for held in [*((n,) for n in names), *combinations(names, 2)]:
        at = np.ravel_multi_index([codes[n] for n in held], [sizes[n] for n in held])
        counts = np.bincount(at, minlength=math.prod(sizes[n] for n in held))
        out[held] = counts.reshape([sizes[n] for n in held]) / rows.num_rows
    return out


def distances(found: Tables, truth: Tables) -> list[float]:
    """Σ‖p̂ − p‖² over the tables of one column, and of two, whatever the order of their columns."""
    out = [0.0, 0.0]
    for names, table in found.items():
        true = truth[names] if names in truth else truth[names[::-1]].T
        out[len(names) - 1] += float(((table - true) ** 2).sum())
    return out
