"""Draw the pictures of the pages from the library itself: `python docs/pictures/draw.py [NAME ...]`."""

from __future__ import annotations

import sys
from pathlib import Path

import beliefs
import releases
import results

PICTURES = {
    "home": releases.home,
    "tutorial": releases.tutorial,
    "epsilon": beliefs.epsilon,
    "choose": beliefs.choose,
    "robust": releases.robust,
    "funnel": releases.funnel,
    "pml": beliefs.pml,
    "distortion": releases.distortion,
    "leakage": releases.leakage,
    "columns": results.columns,
    "benchmarks": results.benchmarks,
    "errors": results.errors,
}


def main(names: list[str]) -> None:
    for name in names or PICTURES:
        (Path(__file__).parent / f"{name}.svg").write_text(PICTURES[name](), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
