"""Run every benchmark and write docs/benchmarks.md; exits 1 when a figure misses its limit."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path

import cells
import columns
import distortion
import files
import funnel
import leakage
import ledger
import robust
import sampler
import spark
import startup
from measure import Row, table

TARGET = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def spark_results() -> list[Row]:
    reason = spark.missing()
    if reason:
        print(f"Spark is left out: {reason}.", file=sys.stderr)
        return []
    return spark.results()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also 10^8 rows")
    parser.add_argument("--spark", action="store_true", help="also Spark: two workers, 10^8 rows, about four minutes")
    parser.add_argument("--out", type=Path, default=TARGET)
    arguments = parser.parse_args()
    large = arguments.large
    rows = [
        *startup.results(), *sampler.results(), *cells.results(), *files.results(large), *funnel.results(large),
        *leakage.results(), *distortion.results(), *ledger.results(), *columns.results(),
        *(spark_results() if arguments.spark else []),
    ]
    text = (
        "# Benchmarks\n\n"
        "Written by `make bench`. Every figure is a median of repeats taken in turns; a ratio is taken inside one\n"
        "run; the answer beside a time is what the timed code computed. A copy uses the reader and the writer of the\n"
        "release, its threads and its fsync. The first release of five million rows or more in a process also loads\n"
        "numba, which is left to the run that goes before the timed ones.\n\n"
        f"{table(rows)}\n\n"
        f"## Robust designs\n\nDesign, sealing and certificate together; the last column is the limit we set.\n\n"
        f"{robust.tables(vertices_too=large)}\n\n"
        f"Machine: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end, {platform.machine()}, "
        f"Python {platform.python_version()}.\n"
    )
    arguments.out.write_text(text)
    print(text)
    return 0 if all(r.holds for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
