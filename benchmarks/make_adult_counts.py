"""Recount the bundled Adult tables from the raw file, and the cells of all nine columns that the benchmarks use.

Usage: python benchmarks/make_adult_counts.py adult.data [counts.json [cells.json]]

The raw file (UCI Machine Learning Repository, "Adult", 1994 census, 32,561 training rows) is not part of the
package; its contingency counts are facts and are. '?' is kept as a label of its own, as the papers do.
"""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections import Counter
from pathlib import Path

FIELDS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
)
COLUMNS = (
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country", "income",
)
HOME = Path(__file__).parents[1] / "src" / "sfumato" / "sources" / "adult.json"
CELLS = Path(__file__).with_name("adult_cells.json")


def records(path: Path) -> list[dict[str, str]]:
    """The rows of adult.data by field; blank lines at the end are left out."""
    with path.open(newline="") as file:
        return [dict(zip(FIELDS, row, strict=True)) for row in csv.reader(file, skipinitialspace=True) if row]


def counted(rows: list[dict[str, str]]) -> dict[str, object]:
    """Labels in alphabetical order and one table for each unordered pair of the nine categorical columns."""
    labels = {name: sorted({row[name] for row in rows}) for name in COLUMNS}
    tables = []
    for first, second in itertools.combinations(COLUMNS, 2):
        seen = Counter((row[first], row[second]) for row in rows)
        counts = [[seen[a, b] for b in labels[second]] for a in labels[first]]
        tables.append({"rows": first, "columns": second, "counts": counts})
    return {"source": "UCI Machine Learning Repository, Adult, adult.data", "n": len(rows),
            "labels": labels, "tables": tables}


def cells(rows: list[dict[str, str]]) -> dict[str, object]:
    """The cells of all nine columns in which somebody is: how far each is from the one before, in row-major order of
    the labels, and its count."""
    labels = {name: sorted({row[name] for row in rows}) for name in COLUMNS}
    places = {name: {label: i for i, label in enumerate(own)} for name, own in labels.items()}
    seen = Counter(_code([places[n][row[n]] for n in COLUMNS], [len(labels[n]) for n in COLUMNS]) for row in rows)
    codes = sorted(seen)
    steps = [b - a for a, b in itertools.pairwise([0, *codes])]
    return {"labels": labels, "steps": steps, "counts": [seen[code] for code in codes]}


def _code(digits: list[int], sizes: list[int]) -> int:
    total = 0
    for digit, size in zip(digits, sizes, strict=True):
        total = total * size + digit
    return total


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    rows = records(Path(sys.argv[1]))
    asked = [*map(Path, sys.argv[2:])]
    for target, found in zip([*asked, *(HOME, CELLS)[len(asked):]], (counted(rows), cells(rows)), strict=True):
        target.write_text(json.dumps(found, separators=(",", ":"), ensure_ascii=False) + "\n")
        print(f"{len(rows)} rows counted into {target}")
