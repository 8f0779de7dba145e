"""Adult: contingency counts of pairs of columns of the UCI Adult data, 32,561 people of the 1994 US census.

The counts are recomputed from the raw file by benchmarks/make_adult_counts.py; '?' is a label of its own.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from sfumato.alphabet import Alphabet, Column
from sfumato.errors import InputError, did_you_mean
from sfumato.joint import Joint


@cache
def _facts() -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(files(__package__).joinpath("adult.json").read_text("utf-8"))
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
    raise InputError(f"{secret!r} × {useful!r} is not a pair of two of Adult's categorical columns ({shown}).{near}")
