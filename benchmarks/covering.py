"""How often the set around noisy counts covers the truth: ten tables, with and without empty cells, 1,000 draws each.

    python benchmarks/covering.py [draws [which,which,…]] [--write]
"""

from __future__ import annotations

import sys
import time
from functools import partial

import numpy as np

import sfumato as sf
from parts import run
from sfumato.joint import Joint, Noise
from sfumato.noise import projected
from sfumato.uncertainty.balls import simulated_radius

NOMINAL, LEAST = 0.95, 0.936  # .95 less two standard errors of 1,000 draws


def tables() -> list[tuple[str, np.ndarray, int, float]]:
    """(name, distribution, rows, ε_d)."""
    rng = np.random.default_rng(5)
    race, occupation, country = (sf.datasets.adult("sex", u).p for u in ("race", "occupation", "native-country"))
    even = np.full((2, 2), 0.25)
    skewed = rng.dirichlet(np.full(240, 0.3)).reshape(15, 16)
    holed = skewed * (rng.random(skewed.shape) < 0.5)
    sparse = rng.dirichlet(np.ones(60)).reshape(5, 12) * (rng.random((5, 12)) < 0.3)
    return [
        ("2 × 2 even", even, 200, 0.2), ("2 × 2, one cell empty", np.array([[0.5, 0.3], [0.2, 0.0]]), 500, 0.1),
        ("sex × race", race, 32_561, 0.05), ("sex × race, few rows", race, 1_500, 0.2),
        ("sex × occupation", occupation, 5_000, 0.1), ("sex × country", country, 32_561, 0.1),
        ("5 × 12, most cells empty", sparse / sparse.sum(), 2_000, 0.1),
        ("15 × 16 skewed", skewed, 32_561, 0.2), ("15 × 16, half empty", holed / holed.sum(), 32_561, 0.1),
        ("15 × 16, half empty, many rows", holed / holed.sum(), 10**6, 0.05),
    ]


def covered(p: np.ndarray, n: int, epsilon: float, draws: int, seed: int = 11) -> tuple[float, float]:
    """The share of draws in which the ball holds the truth, and the mean n·radius."""
    rng, flat, noise = np.random.default_rng(seed), p.ravel(), Noise(epsilon, n, counts=epsilon)
    stop, hits, radii = -np.expm1(-1 / noise.scale), 0, []
    for _ in range(draws):
        drawn = rng.multinomial(n, flat) + rng.geometric(stop, flat.size) - rng.geometric(stop, flat.size)
        near = projected(drawn[None].astype(float), float(n))[0].round()
        joint = Joint.from_counts(near.reshape(p.shape).astype(int))
        radius = simulated_radius(near, noise, NOMINAL)
        hits += -2 * np.log(np.sqrt(joint.p.ravel() * flat).sum()) <= radius
        radii.append(n * radius)
    return hits / draws, float(np.mean(radii))


def main(draws: int = 1_000, which: str = "") -> None:
    print(f"| table | n | ε_d | empty cells | covered, nominal {NOMINAL:g} | n·radius | seconds |")
    print("|---|---|---|---|---|---|---|")
    chosen = which.split(",") if which else []
    for name, p, n, epsilon in [x for i, x in enumerate(tables()) if not chosen or str(i) in chosen]:
        began = time.perf_counter()
        share, radius = covered(p, n, epsilon, draws)
        mark = "" if share >= LEAST else " **low**"
        taken = time.perf_counter() - began
        print(f"| {name} | {n:,} | {epsilon:g} | {(p == 0).sum()} of {p.size} | {share:.3f}{mark} | {radius:.3g} | "
              f"{taken:.0f} |", flush=True)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--write"]
    run("covering", partial(main, *map(int, words[:1]), *words[1:]), write="--write" in sys.argv)
