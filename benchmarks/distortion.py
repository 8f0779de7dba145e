"""Distortion designs and Hamming budgets: times with values, bounds and certified levels."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sfumato as sf
from measure import Row, table
from sfumato.designers.base import Task
from sfumato.designers.distances import measured
from sfumato.designers.distortion import problem_of
from sfumato.optimise.loss.least_loss import least_loss

PROBLEMS = {"NUNP": (False, False), "RUNP": (False, True), "NURP": (True, False), "RURP": (True, True)}


def drawn(rng: Any, s: int, u: int, n: int, weight: float) -> sf.ChiSquareBall:
    """The ball around a sample of n rows from a random distribution."""
    counts = rng.multinomial(n, rng.dirichlet(np.full(s * u, weight))).reshape(s, u)
    return sf.ChiSquareBall(sf.Joint.from_counts(counts), confidence=0.95)


def timed(run: Any, repeats: int, clock: Any = time.process_time) -> tuple[Any, float]:
    """The last answer and the median of the processor's seconds; the first of several runs counts for nothing."""
    made, seconds = run() if repeats > 1 else None, []
    for _ in range(repeats):
        start = clock()
        made = run()
        seconds.append(clock() - start)
    return made, statistics.median(seconds)


def four(rng: Any) -> list[Row]:
    """The paper's setting: the whole design with sealing and certificate, and the solver alone."""
    rows = []
    for n in (75, 300, 15000):
        ball = drawn(rng, 3, 5, n, 0.5)
        for name, robust in PROBLEMS.items():
            problem = problem_of(Task(ball, 0.5), measured(ball.joint.useful, "squared", range(5)), robust)
            _, alone = timed(lambda p=problem: least_loss(p), 9)
            made, seconds = timed(lambda b=ball, r=robust: sf.design(
                b, 0.5, "distortion", values=range(5), robust_privacy=r[0], robust_utility=r[1]), 9)
            rows.append(Row(f"{name}, sealed and certified", seconds * 1e3, "ms CPU", "< 50 ms", seconds < 0.05,
                            f"D = {made.value:.6f}, bound {made.bound:.6f}, level {made.certificate.level:.9f}",
                            f"3 × 5, n = {n}", f"{alone * 1e3:.0f} ms of them the solver"))
    return rows


def large(count: int = 4) -> list[Row]:
    """Several tables of each shape, so that no setting fits one of them by chance: the slowest and the widest gap."""
    rows = []
    for (s, u, n), limit in (((10, 20, 200_000), 20.0), ((5, 50, 100_000), 60.0)):
        found = []
        for seed in range(1, count + 1):
            ball = drawn(np.random.default_rng(seed), s, u, n, 1.0)
            found.append(timed(lambda b=ball, k=u, t=limit: sf.design(
                b, 0.5, "distortion", values=range(k), tolerance=1e-4, time_limit=10.0 * t), 1))
            made, seconds = found[-1]
            print(f"{s} × {u}: {seconds:.1f} s CPU, gap {made.gap:.1e}", file=sys.stderr)
        slowest, gap = max(seconds for _, seconds in found), max(made.gap for made, _ in found)
        level = max(made.certificate.level for made, _ in found)
        rows.append(Row("NURP, sealed and certified", slowest, "s CPU", f"< {limit:g} s, gap ≤ 1e-4",
                        slowest < limit and gap <= 1e-4, f"greatest gap {gap:.1e}, greatest level {level:.9f}",
                        f"{s} × {u}, n = {n:,}, slowest of {count}", found[0][0].details["engine"]))
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
    """Against `sf.design` at every ε, which also seals and certifies: in seconds of the wall, and of the processor."""
    ball, levels = drawn(rng, 4, 6, 20_000, 1.0), np.geomspace(0.1, 2, 12)

    def whole() -> Any:
        return sf.tradeoff(ball, levels, values=range(6))

    def each() -> Any:
        return [sf.design(ball, e, "distortion", values=range(6), tolerance=1e-4) for e in levels]

    found, quick = timed(whole, 3, time.perf_counter)
    points, slow = timed(each, 3, time.perf_counter)
    work = timed(each, 3)[1] / timed(whole, 3)[1]
    off = max(abs(a - b.value) / b.value for a, b in zip(found.value, points, strict=True))
    gap = float(((found.value - found.bound) / found.value).max())
    return [Row("curve against point by point", slow / quick, "times faster", "> 3", slow / quick > 3,
                f"greatest gap {gap:.1e} and {max(p.gap for p in points):.1e}, values agree to {off:.1e}",
                "4 × 6, 12 points", f"{quick:.2f} s and {slow:.2f} s; {work:.2f} times less work of the processor; "
                f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")]


def hamming(rng: Any) -> list[Row]:
    rows = []
    for m, k, limit in ((10, 5, 0.005), (1000, 50, 10.0)):
        sources = rng.dirichlet(np.ones(m), size=k)
        from sfumato.optimise.loss.problem import Sources
        from sfumato.optimise.loss.sources import least_epsilon_hamming

        _, alone = timed(lambda p=sources: least_epsilon_hamming(Sources.of(p), 0.3), 5)
        made, seconds = timed(lambda p=sources: sf.least_epsilon(p, 0.3), 3)
        rows.append(Row("least ε for a Hamming budget", alone * 1e3, "ms", f"< {limit * 1e3:g} ms", alone < limit,
                        f"ε = {made.epsilon:.9f}, gap {made.epsilon - made.bound:.1e}", f"M = {m}, {k} sources",
                        f"{seconds * 1e3:.0f} ms sealed and certified"))
    return rows


PARTS: dict[str, Callable[[], list[Row]]] = {
    "four": lambda: four(np.random.default_rng(2026)), "large": large, "curve": lambda: curve(np.random.default_rng(7)),
    "hamming": lambda: hamming(np.random.default_rng(2026)),
}


def results(count: int = 20) -> list[Row]:
    return [*(row for part in PARTS.values() for row in part()), *many(np.random.default_rng(2027), count)]


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--only", choices=PARTS, help="one part alone")
    asked.add_argument("--instances", type=int, help="only the random instances, so many for each n")
    given = asked.parse_args()
    if given.instances is not None:
        print(table(many(np.random.default_rng(2027), given.instances)))
    else:
        print(table(results() if given.only is None else PARTS[given.only]()))
