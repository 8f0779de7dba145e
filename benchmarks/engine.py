"""The engine against what was there before it, and the laws that any correct search obeys.

    python benchmarks/engine.py routes [FIRST LAST]   # random tables: ballopt now against the best of the old routes
    python benchmarks/engine.py laws [COUNT] [FIRST]  # laws of any correct search over random tables (make laws)
    python benchmarks/engine.py adult                 # pairs of Adult columns on which the old routes lost most

Old values are those of old_routes.json. Every design is sealed and certified.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from tests.random_tables import random_counts

import sfumato as sf
from sfumato.errors import InputError

OLD = pathlib.Path(__file__).with_name("old_routes.json")
SECONDS = 6.0  # for one design
WITHIN = 2e-3  # relative: laws of optima, asked of a search
ADULT = (  # secret, useful, ε and what the old routes reached at best (NMI)
    ("sex", "native-country", 0.1, 0.170), ("sex", "native-country", 0.5, 0.385), ("sex", "native-country", 1.5, 0.600),
    ("education", "sex", 1.5, 0.3178), ("occupation", "income", 1.5, 0.2374),
    ("sex", "race", 0.5, 0.4818), ("sex", "race", 1.5, 0.6197),
    ("race", "sex", 0.5, 0.5393), ("race", "sex", 1.5, 0.6161),
    ("native-country", "relationship", 0.5, 0.6012), ("native-country", "relationship", 1.5, 0.6610),
    ("occupation", "education", 0.5, 0.1832), ("occupation", "education", 1.5, 0.3768),
)


def kept(counts: Any, epsilon: float, radius: float | None = None, seconds: float = SECONDS) -> Any:
    joint = sf.Joint.from_counts(counts)
    ball = sf.ChiSquareBall(joint) if radius is None else sf.ChiSquareBall(joint, radius=radius)
    return sf.design(ball, epsilon, "ballopt", time_limit=seconds)


def routes(first: int, last: int) -> None:
    """One line a table, then how often the engine is at or above the best of the old routes, within 0.2 %."""
    gains = []
    for row in json.loads(OLD.read_text())["tables"][first:last]:
        old = [x for x in row["values"].values() if not isinstance(x, str)]
        if not old:
            continue
        counts, epsilon = random_counts(row["number"])
        started = time.perf_counter()
        found = kept(counts, epsilon)
        gain = found.value / max(max(old), 1e-12) - 1
        gains.append(gain)
        print(
            f"{row['number']:4d} {counts.shape[0]:2d} × {counts.shape[1]:2d} n = {row['n']:7d} ε = {epsilon:g}: old "
            f"{max(old):.6f}, now {found.value:.6f} ({gain:+.3%}), bound {found.bound:.6f}, "
            f"{time.perf_counter() - started:.1f} s",
            flush=True,
        )
    below = [x for x in gains if x < -WITHIN]
    print(f"{len(gains)} tables: {len(below)} below the old routes by more than 0.2 % (worst {min(gains):+.3%}), "
          f"median {np.median(gains):+.3%}, best {max(gains):+.3%}")


def law_gaps(number: int) -> dict[str, float]:
    """By how much (relative) each law is broken on one table; 0 or less where it holds."""
    counts, epsilon = random_counts(number)
    rng = np.random.default_rng([number, 7])
    base = kept(counts, epsilon)
    value, radius = max(base.value, 1e-9), base.mechanism.claim.within.radius
    gaps = {"bound": base.value / base.bound - 1}
    joint = base.mechanism.joint
    for method in ("srr", "ir", "grr"):
        other = sf.design(sf.ChiSquareBall(joint), epsilon, method).value
        gaps["methods"] = max(gaps.get("methods", -1.0), other / value - 1)
    groups = rng.integers(0, max(2, counts.shape[1] // 2), counts.shape[1])
    merged = np.stack([counts[:, groups == g].sum(1) for g in np.unique(groups)], 1)
    if merged.shape[1] > 1:
        gaps["merged"] = kept(merged, epsilon, radius).value / value - 1
    gaps["epsilon"] = kept(counts, epsilon * 0.9).value / value - 1
    gaps["radius"] = kept(counts, epsilon, radius * 1.2).value / value - 1
    mixed = counts[rng.permutation(len(counts))][:, rng.permutation(counts.shape[1])]
    gaps["permuted"] = abs(kept(mixed, epsilon).value / value - 1)
    return gaps


def laws(count: int, first: int) -> None:
    worst: dict[str, list[tuple[float, int]]] = {}
    failed = 0
    for number in range(first, first + count):
        try:
            gaps = law_gaps(number)
        except InputError as error:  # tables that say in words why nothing can be designed
            print(f"{number}: {error}")
            continue
        except Exception as error:  # what law 6 forbids
            failed += 1
            print(f"{number}: {type(error).__name__}: {error}", flush=True)
            continue
        for law, gap in gaps.items():
            worst.setdefault(law, []).append((gap, number))
        print(number, " ".join(f"{law} {gap:+.4%}" for law, gap in gaps.items()), flush=True)
    print("| law | tables | held within 0.2 % | worst | at table |\n|---|---|---|---|---|")
    for law, seen in worst.items():
        top = max(seen)
        print(f"| {law} | {len(seen)} | {sum(g <= WITHIN for g, _ in seen)} | {top[0]:+.3%} | {top[1]} |")
    print(f"| no Python error | {count} | {count - failed} | | |")


def adult() -> None:
    print("| secret × useful | ε | wanted | value (NMI) | bound | value/bound | s |\n|---|---|---|---|---|---|---|")
    for secret, useful, epsilon, wanted in ADULT:
        joint, started = sf.datasets.adult(secret, useful), time.perf_counter()
        d = sf.design(sf.ChiSquareBall(joint), epsilon, "ballopt", time_limit=30)
        value, bound = d.value / joint.entropy, d.bound / joint.entropy
        print(
            f"| {secret} × {useful} | {epsilon:g} | {wanted:.4f} | {value:.5f} | {bound:.5f} | {value / bound:.3f} | "
            f"{time.perf_counter() - started:.1f} |", flush=True,
        )


def main() -> int:
    what, *rest = [*sys.argv[1:], "adult"][: max(len(sys.argv) - 1, 1)]
    numbers = [int(x) for x in rest]
    if what == "routes":
        routes(*(numbers or [0, 200]))
    elif what == "laws":
        laws(numbers[0] if numbers else 2_000, numbers[1] if len(numbers) > 1 else 0)
    else:
        adult()
    return 0


if __name__ == "__main__":
    sys.exit(main())
