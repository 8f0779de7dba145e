"""Invented people for the documentation: python examples/make_people.py writes people.csv, reference.csv and cells.csv.

Nobody is real. The columns depend on one another as such columns do: older people and smokers are ill more often,
the north is older than the south, and so on. `reference.csv` are other people of the same kind; `cells.csv` is a table
of counts.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

COLUMNS = ("diagnosis", "town", "smoker", "age", "sports")
TOWNS = ("Northby", "Eastham", "Southwick", "Weston")


def people(n: int, seed: int) -> Iterator[tuple[str, ...]]:
    """n rows in the order of COLUMNS."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        town = rng.choice(4, p=[0.35, 0.3, 0.2, 0.15])
        age = int(np.clip(rng.normal(52 - 4 * town, 16), 18, 95))
        smoker = rng.random() < 0.35 - 0.003 * (age - 18)
        risk = 0.03 + 0.006 * (age - 18) + 0.15 * smoker
        ill = rng.random() < risk
        diagnosis = ("diabetes" if rng.random() < age / 100 else "asthma") if ill else "healthy"
        sports = "often" if rng.random() < 0.6 - 0.4 * ill - 0.1 * smoker else "rarely"
        yield diagnosis, TOWNS[town], "yes" if smoker else "no", str(age), sports


def write(path: Path, header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> None:
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(header)
        out.writerows(rows)


def main(folder: Path) -> None:
    write(folder / "people.csv", COLUMNS, people(3_000, seed=1))
    write(folder / "reference.csv", COLUMNS, people(6_000, seed=2))
    cells = Counter((row[0], row[1]) for row in people(6_000, seed=2))
    write(folder / "cells.csv", ("diagnosis", "town", "people"), ((*k, str(v)) for k, v in sorted(cells.items())))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
