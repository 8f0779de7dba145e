"""The source sets of paper 003, its printed formula for Class II, and curves over the distortion."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers import least_epsilon
from sfumato.reproduce.drawing import lines, verdict, write_csv

SIX = np.array([[0.7, 0.15, 0.06, 0.04, 0.03, 0.02]])  # Table I
TEN = np.array([  # Table II: the segment between the two
    [0.3, 0.2, 0.15, 0.08, 0.07, 0.06, 0.05, 0.04, 0.03, 0.02],
    [0.35, 0.16, 0.12, 0.10, 0.09, 0.09, 0.05, 0.02, 0.01, 0.01],
])


def permuted(base: Floats, swaps: int) -> Floats:
    """Tables III and IV: the set with its first entry swapped with the second, the third, … as well."""
    rows = [base]
    for k in range(1, swaps + 1):
        other = base.copy()
        other[:, [0, k]] = other[:, [k, 0]]
        rows.append(other)
    return np.vstack(rows)


def class_one(m: int, budget: float) -> float:
    """ε* = ln[(M−1)(1−D)/D] [003, Thm 1]."""
    return max(0.0, math.log((m - 1) * (1 - budget) / budget))


def printed(p: Floats, budget: float) -> float:
    """[003, (10) and (11)] as printed, without D₁ ≤ … ≤ D_{M−l}: too small where that order would bind."""
    from scipy.optimize import linprog

    m = p.shape[1]
    tails = np.array([0.0, *(p[:, m - k :].sum(axis=1).max() for k in range(1, m + 1))])
    if budget >= tails[m - 1]:
        return 0.0
    if budget < tails[1]:
        return class_one(m, budget)
    best = math.inf
    for dropped in range(int(np.searchsorted(tails, budget, side="right"))):
        k, room = m - dropped, budget - tails[dropped]
        cost = np.append(-np.ones(k), k - 1.0)  # z = D/D₁ and t = 1/D₁
        cost[0] = 0.0
        rows = np.vstack([
            np.hstack([np.eye(k), -np.ones((k, 1))]), np.append(np.ones(k), 1.0 - k)[None],
            np.hstack([p[:, :k], np.full((len(p), 1), -room)]),
        ])
        first = np.eye(k + 1)[:1]
        found = linprog(cost, rows, np.zeros(len(rows)), first, [1.0], bounds=(0, None), method="highs")
        if found.status == 0:
            best = min(best, math.log(max(1.0, found.fun)))
    return best


def leakage_curves(name: str, base: Floats, folder: Path, points: int) -> str:
    """ε* against D for Class I, II and III sets: data, picture and what the corrected program changes."""
    budgets = np.linspace(0.01, 0.95, points)
    m = base.shape[1]
    curves = {
        "Class I": [class_one(m, d) for d in budgets],
        "Class II": [least_epsilon(base, d).epsilon for d in budgets],
        "Class II as printed": [printed(base, d) for d in budgets],
    }
    for swaps, letter in ((1, "a"), (2, "b"), (3, "c")):
        curves[f"Class III:{letter}"] = [least_epsilon(permuted(base, swaps), d).epsilon for d in budgets]
    short = np.array(curves["Class II"]) - np.array(curves["Class II as printed"])
    text = (
        "The order is Class II ≤ III:a ≤ III:b ≤ III:c ≤ Class I at every D. The printed (11) is below the least ε by "
        f"up to {short.max():.4g} nats (at D = {budgets[int(short.argmax())]:.3f}; at "
        f"{int((short > 1e-6).sum())} of {len(budgets)} points); Class III is exact here, where the paper has bounds."
    )
    at = budgets.tolist()
    write_csv(folder / f"{name}.csv", ["distortion", *curves], list(zip(at, *curves.values(), strict=True)))
    panel = (f"M = {m}", "Hamming distortion D", "least ε (nats)", {k: (at, y) for k, y in curves.items()})
    remark = lines(folder / f"{name}.svg", [panel], style="-", ends=False)
    return verdict(name, {"the order of the classes": _ordered(curves)}, text, remark, corrected=True)


def _ordered(curves: dict[str, list[float]]) -> bool:
    chain = [np.array(curves[k]) for k in ("Class II", "Class III:a", "Class III:b", "Class III:c", "Class I")]
    return all(bool((a <= b + 1e-9).all()) for a, b in itertools.pairwise(chain))
