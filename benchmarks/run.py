"""Run the benchmarks and write docs/benchmarks.md, section by section; exits 1 when a figure misses its limit.

    python benchmarks/run.py                 # every section but spark
    python benchmarks/run.py ledger spark    # some of them; the others stay as they are on the page
    python benchmarks/run.py robust --large  # also 10^8 rows, and vertex enumeration with its patience
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path

from measure import Row, table

TARGET = Path(__file__).parent.parent / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Written by `make bench`. Every figure is a median of repeats taken in turns; a ratio is taken inside one run; the answer
beside a time is what the timed code computed. A copy uses the reader and the writer of the release, its threads and its
fsync. The first release of five million rows or more in a process also loads numba, which is left to the run that goes
before the timed ones. `make bench` runs all sections but Spark's; `python benchmarks/run.py NAME` runs some.

![What was measured as a share of its limit, nearest to the limit first.](pictures/benchmarks.svg)
"""
SIZED = ("files", "funnel")  # modules that have a larger version
Text = tuple[str, bool]  # of a section, and whether every limit holds


def _rows(*modules: str) -> Callable[[bool], Text]:
    """A section that is one table of rows from some modules."""

    def made(large: bool) -> Text:
        found: list[Row] = []
        for name in modules:
            run = importlib.import_module(name).results
            found += run(large) if name in SIZED else run()
        return table(found), all(row.holds for row in found)

    return made


def _robust(large: bool) -> Text:
    told = "Design, sealing and certificate together; the last column is the limit we set."
    return f"{told}\n\n{importlib.import_module('robust').tables(vertices_too=large)}", True


SECTIONS: dict[str, tuple[str, Callable[[bool], Text]]] = {
    "release": ("Start-up, sampling and files", _rows("startup", "sampler", "cells", "files")),
    "designs": ("The funnel and leakage", _rows("funnel", "leakage")),
    "distortion": ("Distortion", _rows("distortion")),
    "robust": ("Robust designs", _robust),
    "columns": ("Many columns", _rows("columns")),
    "ledger": ("The ledger", _rows("ledger")),
    "pages": ("Comparison and report", _rows("pages")),
    "studio": ("The studio", _rows("studio")),
    "spark": ("Spark", _rows("spark")),
}
USUAL = [name for name in SECTIONS if name != "spark"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--large", action="store_true", help="also 10^8 rows, and vertex enumeration")
    parser.add_argument("--out", type=Path, default=TARGET)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(SECTIONS):
        parser.error(f"{', '.join(sorted(unknown))}: not among {', '.join(SECTIONS)}")
    good = True
    for name in arguments.names or USUAL:
        title, run = SECTIONS[name]
        text, holds = run(arguments.large)
        machine = (
            f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}; load at the end "
            f"{os.getloadavg()[0]:.1f}."
        )
        print(f"{title}\n\n{text}\n\n{machine}\n", flush=True)
        _put(arguments.out, title, f"{text}\n\n{machine}")
        good = good and holds
    return 0 if good else 1


def _put(path: Path, title: str, text: str) -> None:
    """The section in its place on the page; what else the page says stays."""
    page = path.read_text() if path.exists() else ""
    there = dict(re.findall(r"^## ([^\n]+)\n\n(.*?)\n*(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    there[title] = text
    parts = [f"## {known}\n\n{there[known]}\n" for known, _ in SECTIONS.values() if known in there]
    path.write_text("\n".join([HEAD, *parts]))


if __name__ == "__main__":
    sys.exit(main())
