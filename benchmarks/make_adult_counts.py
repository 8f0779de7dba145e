"""Recount the bundled Adult tables from the raw file.

Usage: python benchmarks/make_adult_counts.py adult.data [counts.json]

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
HOME = Path(__file__).parents[1] / "src" / "sfumato" / "datasets" / "adult.json"


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


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    target = Path(sys.argv[2]) if len(sys.argv) == 3 else HOME
    found = counted(records(Path(sys.argv[1])))
    target.write_text(json.dumps(found, separators=(",", ":"), ensure_ascii=False) + "\n")
    print(f"{found['n']} rows counted into {target}")
