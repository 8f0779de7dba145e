"""How the benchmarks measure: alternating repeats, medians, ratios inside one run, the answer beside the time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One figure: what was measured, against what limit, with the answer it gave and the size of the work."""

    what: str
    figure: float
    unit: str
    limit: str
    holds: bool
    answer: str
    size: str
    detail: str = ""


def medians(runs: dict[str, Callable[[], Any]], repeats: int = 5, before: int = 1) -> dict[str, float]:
    """Median seconds of each, taken in turns so that a busy moment hits all alike; so many runs of each go before."""
    for _ in range(before):
        for run in runs.values():
            run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| what | figure | limit | holds | answer | size | detail |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        holds = "yes" if r.holds else "**no**"
        cells = (r.what, f"{r.figure:.3g} {r.unit}", r.limit, holds, r.answer, r.size, r.detail)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
