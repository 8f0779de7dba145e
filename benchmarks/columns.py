"""Ten columns with 10^9 joint cells: design, proof, release and estimate, and errors against an even split."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.columns_data import people, shares

import sfumato as sf
from measure import Row, table
from sfumato.certification.together import certify_bundle
from sfumato.composing.answers import Answer
from sfumato.composing.sharing import Spec, TurnLayout, error_together
from sfumato.designers.worth import Z95

ROWS, COLUMNS, LABELS, EPSILON, RUNS = 100_000, 10, 8, 1.0, 20
NAMES = [f"c{j}" for j in range(COLUMNS)]


def naive() -> float:
    """Every column and the secret by GRR with an even part of ε: √n times the root mean square error of a share."""
    layout = TurnLayout(2, (LABELS,) * COLUMNS, (1.0,) * COLUMNS)
    specs = [Spec((), True), *(Spec((c,)) for c in range(COLUMNS))]
    each = EPSILON / len(specs)
    answers = [Answer(2, 1, each), *(Answer(1, LABELS, each) for _ in range(COLUMNS))]
    return float(np.sqrt(error_together(specs, answers, layout)))


def points(error: float) -> str:
    """A root mean square error of a share as the product tells it: 95 % lie within so many points."""
    return f"{100 * Z95 * error:.3g}"


def realised(rows: pa.Table, bundle: sf.Bundle, runs: int) -> tuple[float, float, float]:
    """Root mean squared error of a share, share of runs with every interval right, CPU seconds of one run.

    Tables of one column and of two count alike, as when a bundle is designed.
    """
    squared: dict[int, list[float]] = {1: [], 2: []}
    covered, start = 0, time.process_time()
    for seed in range(runs):
        found = sf.estimate(sf.release(rows, bundle, seed=seed), bundle)
        right = True
        for names, (low, high) in found.intervals(0.95).items():
            one = found.table(*names)
            truth = shares(rows, one)
            squared[len(names)] += ((one.raw - truth) ** 2).ravel().tolist()
            right &= bool(np.all((low <= truth) & (truth <= high)))
        covered += right
    error = np.sqrt(np.mean([np.mean(x) for x in squared.values()]))
    return float(error), covered / runs, (time.process_time() - start) / runs


def results() -> list[Row]:
    rows, out = people(ROWS), []
    size = f"{ROWS:,} rows, {LABELS**COLUMNS:,} cells"
    base = naive() / np.sqrt(ROWS)
    for options in ({"asking": "together"}, {}, {"assuming": "tree"}, {"assuming": "tables"}):
        start = time.process_time()
        made = sf.bundle(rows, "secret", NAMES, EPSILON, **options)
        designing = time.process_time() - start
        start = time.process_time()
        certify_bundle(made.bundle)
        proving = time.process_time() - start
        error, covered, running = realised(rows, made.bundle, RUNS)
        name = ", ".join(options.values()) or "in turn"
        expected = made.error / np.sqrt(ROWS)
        out.append(Row(
            f"bundle, {name}", base / error, "× smaller error", "≥ 1", base >= error,
            f"level {made.certificate.level:.6f}; a share ± {points(error)} points, expected ± {points(expected)}; "
            f"naive ± {points(base)}", size,
            f"design {designing:.1f} s, proof {proving:.2f} s, release and all tables {running:.2f} s of CPU; all "
            f"intervals right in {covered:.0%} of {RUNS} runs",
        ))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    out.append(Row("bundle, peak memory", peak, "MB", "< 600 MB", peak < 600, "whole run", size))
    return out


if __name__ == "__main__":
    print(table(results()))
