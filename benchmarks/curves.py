"""A trade-off curve of twelve levels beside twelve designs alone, for information and for estimates: work and values.

    python benchmarks/curves.py [--write]

Work is processor time, with linear algebra on one thread (others would count while they wait); tables are Adult
sex × race, another pair of its columns and random ones, and every value is compared at its level. `--write` puts the
table into docs/comparing.md.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is loaded, as in the processes of `compare`

import numpy as np

import sfumato as sf
from sfumato.reporting.comparing import levels

GRID = levels("0.1:4")
PAGE = Path(__file__).parents[1] / "docs" / "comparing.md"
BEGIN, END = "<!-- curves: begin -->\n", "<!-- curves: end -->\n"


def tables() -> dict[str, sf.Joint]:
    """Tables by name; the random ones have rows from a Dirichlet law, unlike those that the search was tried on."""
    out = {"Adult sex × race": sf.datasets.adult("sex", "race")}
    out["Adult sex × workclass"] = sf.datasets.adult("sex", "workclass")
    for shape, seed in (((2, 4), 71), ((3, 5), 72)):
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(30_000, rng.dirichlet(np.full(shape[0] * shape[1], 0.8))).reshape(shape) + 1
        out[f"random {shape[0]} × {shape[1]}"] = sf.Joint.from_counts(counts)
    return out


def worked(make) -> tuple[float, list[sf.Design]]:
    began = time.process_time()
    made = list(make())
    return time.process_time() - began, made


def line(name: str, joint: sf.Joint, method: str, options: dict) -> str:
    """One row of the table: work of both, how many times as much, and the worst and the mean value of the curve."""
    ball = sf.ChiSquareBall(joint)
    alone, each = worked(lambda: (sf.design(ball, e, method, **options) for e in GRID))
    curve, made = worked(lambda: sf.designs(ball, GRID, method, **options))
    gain = np.array([a.value / b.value if a.unit == "nats" else b.value / a.value
                     for a, b in zip(made, each, strict=True)])
    aim = "information" if method == "ballopt" else "estimates"
    row = (f"| {name} | {aim} | {alone:.1f} s | {curve:.1f} s | {alone / curve:.1f} | {gain.min():.4f} | "
           f"{gain.mean():.4f} |")
    print(row, flush=True)
    return row


def main(write: bool) -> None:
    rows = [line(name, joint, method, options) for name, joint in tables().items()
            for method, options in (("ballopt", {}), ("precise", {"working": 2.0}))]
    if write:
        text = PAGE.read_text("utf-8")
        head = "| table | for | alone | curve | times | worst value | mean value |\n|---|---|---|---|---|---|---|\n"
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        PAGE.write_text(before + BEGIN + head + "\n".join(rows) + "\n" + END + after, "utf-8")


if __name__ == "__main__":
    main("--write" in sys.argv[1:])
