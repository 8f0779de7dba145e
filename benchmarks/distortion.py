"""Distortion designs and Hamming budgets: times with values, bounds and certified levels."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

import numpy as np

import sfumato as sf
from measure import Row, table
from sfumato.designers.base import Task
from sfumato.designers.distances import measured
from sfumato.designers.distortion import problem_of
from sfumato.solve.distortion import least_loss

PROBLEMS = {"NUNP": (False, False), "RUNP": (False, True), "NURP": (True, False), "RURP": (True, True)}


def drawn(rng: Any, s: int, u: int, n: int, weight: float) -> sf.ChiSquareBall:
    """The ball around a sample of n rows from a random distribution."""
    counts = rng.multinomial(n, rng.dirichlet(np.full(s * u, weight))).reshape(s, u)
    return sf.ChiSquareBall(sf.Joint.from_counts(counts), confidence=0.95)


def timed(run: Any, repeats: int) -> tuple[Any, float]:
    made, seconds = None, []
    for _ in range(repeats):
        start = time.perf_counter()
        made = run()
        seconds.append(time.perf_counter() - start)
    return made, statistics.median(seconds)


def four(rng: Any) -> list[Row]:
    """The paper's setting: the solver alone, and the whole design with sealing and certificate."""
    rows = []
    for n in (75, 300, 15000):
        ball = drawn(rng, 3, 5, n, 0.5)
        for name, robust in PROBLEMS.items():
            problem = problem_of(Task(ball, 0.5), measured(ball.joint.useful, "squared", range(5)), robust)
            _, alone = timed(lambda p=problem: least_loss(p), 5)
            made, seconds = timed(lambda b=ball, r=robust: sf.design(
                b, 0.5, "distortion", values=range(5), robust_privacy=r[0], robust_utility=r[1]), 5)
            rows.append(Row(f"{name}, solved", alone * 1e3, "ms", "< 50 ms", alone < 0.05,
                            f"D = {made.value:.6f}, bound {made.bound:.6f}, level {made.certificate.level:.9f}",
                            f"3 × 5, n = {n}", f"{seconds * 1e3:.0f} ms sealed and certified"))
    return rows


def large(rng: Any) -> list[Row]:
    rows = []
    for (s, u, n), limit in (((10, 20, 200_000), 20.0), ((5, 50, 100_000), 60.0)):
        ball = drawn(rng, s, u, n, 1.0)
        made, seconds = timed(lambda b=ball, k=u, t=limit: sf.design(
            b, 0.5, "distortion", values=range(k), tolerance=1e-4, time_limit=t * 0.9), 1)
        rows.append(Row("NURP, sealed and certified", seconds, "s", f"< {limit:g} s", seconds < limit,
                        f"D = {made.value:.6f}, gap {made.gap:.1e}, level {made.certificate.level:.9f}",
                        f"{s} × {u}, n = {n:,}", made.details["engine"]))
    return rows


def many(rng: Any, count: int) -> list[Row]:
    """Random instances: no level above ε, and what sealing and merging can have cost at most (the proved gap)."""
    rows = []
    for n in (75, 300, 15000):
        start = time.process_time()
        level, cost = np.zeros(count), np.zeros(count)
        for i in range(count):
            made = sf.design(
                drawn(rng, 3, 5, n, 0.5), 0.5, "distortion", values=range(5), robust_utility=bool(i % 2)
            )
            level[i], cost[i] = made.certificate.level, made.gap
        over = int((level > 0.5).sum())
        rows.append(Row(f"levels above ε of {count}", over, "", "0, cost ≤ 1e-4", over == 0 and cost.max() <= 1e-4,
                        f"greatest cost of sealing and merging {cost.max():.1e}, median {np.median(cost):.1e}",
                        f"3 × 5, n = {n}", f"greatest level/ε = {level.max() / 0.5:.10f}; "
                        f"{(time.process_time() - start) / count * 1e3:.0f} ms CPU each"))
        print(f"n = {n}: {rows[-1].figure} of {count} above ε; {rows[-1].answer}; {rows[-1].detail}", file=sys.stderr)
    return rows


def curve(rng: Any) -> list[Row]:
    ball, levels = drawn(rng, 4, 6, 20_000, 1.0), np.geomspace(0.1, 2, 12)
    found, whole = timed(lambda: sf.tradeoff(ball, levels, values=range(6)), 1)
    points, each = timed(lambda: [sf.design(ball, e, "distortion", values=range(6)) for e in levels], 1)
    off = max(abs(a - b.value) / b.value for a, b in zip(found.value, points, strict=True))
    return [Row("curve against point by point", each / whole, "times faster", "> 1", whole < each,
                f"values agree to {off:.1e}", "4 × 6, 12 points", f"{whole:.2f} s and {each:.2f} s")]


def hamming(rng: Any) -> list[Row]:
    rows = []
    for m, k, limit in ((10, 5, 0.005), (1000, 50, 10.0)):
        sources = rng.dirichlet(np.ones(m), size=k)
        from sfumato.designers.hamming import sources_of
        from sfumato.solve.hamming import least_epsilon_hamming

        _, alone = timed(lambda p=sources: least_epsilon_hamming(sources_of(p), 0.3), 5)
        made, seconds = timed(lambda p=sources: sf.least_epsilon(p, 0.3), 3)
        rows.append(Row("least ε for a Hamming budget", alone * 1e3, "ms", f"< {limit * 1e3:g} ms", alone < limit,
                        f"ε = {made.epsilon:.9f}, gap {made.epsilon - made.bound:.1e}", f"M = {m}, {k} sources",
                        f"{seconds * 1e3:.0f} ms sealed and certified"))
    return rows


def results(count: int = 20) -> list[Row]:
    rng = np.random.default_rng(2026)
    return [*four(rng), *large(rng), *many(rng, count), *curve(rng), *hamming(rng)]


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--instances", type=int, help="only the random instances, so many for each n")
    given = asked.parse_args()
    print(table(results() if given.instances is None else many(np.random.default_rng(2027), given.instances)))
