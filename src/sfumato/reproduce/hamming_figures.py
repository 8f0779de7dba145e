"""Distortion: figures 4 to 7 of paper 003, and figure 2 of paper 002."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers import design, least_epsilon, least_leakage
from sfumato.joint import Joint
from sfumato.optimise.loss.least_loss import solve_by_cones
from sfumato.optimise.loss.problem import LossProblem
from sfumato.reproduce import papers
from sfumato.reproduce.drawing import OTHERS, draw, verdict, write_csv, written
from sfumato.tolerances import ALIKE
from sfumato.uncertainty import ChiSquareBall, Exactly
from sfumato.uncertainty.polytope import least_cost

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
        if (x := least_cost(cost, rows, np.zeros(len(rows)), np.eye(k + 1)[:1], [1.0]).x) is not None:
            best = min(best, math.log(max(1.0, float(cost @ x))))
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
    rows = list(zip(at, *curves.values(), strict=True))
    panel = (f"M = {m}", "Hamming distortion D", "least ε (nats)", {k: (at, y) for k, y in curves.items()})
    remark = written(folder, name, ["distortion", *curves], rows, [panel], style="-", ends=False)
    return verdict(name, {"the order of the classes": _ordered(curves)}, text, remark, corrected=True)


def _ordered(curves: dict[str, list[float]]) -> bool:
    chain = [np.array(curves[k]) for k in ("Class II", "Class III:a", "Class III:b", "Class III:c", "Class I")]
    return all(bool((a <= b + ALIKE).all()) for a, b in itertools.pairwise(chain))


def both_leakages(name: str, sources: Floats, budgets: Floats, title: str, folder: Path) -> str:
    """ε* and the least worst-case I(X; Y) against D, both proved: data, picture and what was found."""
    dp = [least_epsilon(sources, d).epsilon for d in budgets]
    found = [least_leakage(sources, d) for d in budgets]
    told = [x.information for x in found]
    gap = max(x.gap for x in found)
    second = np.diff(np.interp(np.linspace(budgets[0], budgets[-1], 41), budgets, told), 2)
    below = all(a <= b + ALIKE for a, b in zip(told, dp, strict=True))
    text = (
        f"Mutual information is convex in D up to {max(0.0, -float(second.min())):.1e}; "
        f"its proved gap is at most {gap:.1e} nats."
    )
    at = budgets.tolist()
    rows = list(zip(at, dp, told, [x.bound for x in found], strict=True))
    panel = (title, "Hamming distortion D", "leakage (nats)", {"DP leakage": (at, dp), "MI leakage": (at, told)})
    header = ("distortion", "epsilon", "information", "bound")
    remark = written(folder, name, header, rows, [panel], style="-", ends=False)
    return verdict(name, {"mutual information stays below ε": below}, text, remark)


def fig4(out: Path, *, full: bool = False) -> str:
    """[003, Fig. 4]: the least ε for a Hamming budget, for sources of the three classes with M = 6."""
    return leakage_curves("003-fig4", SIX, out, papers()["003-fig4"].run(full).count)


def fig5(out: Path, *, full: bool = False) -> str:
    """[003, Fig. 5]: the least ε for a Hamming budget, for sources of the three classes with M = 10."""
    return leakage_curves("003-fig5", TEN, out, papers()["003-fig5"].run(full).count)


def fig6(out: Path, *, full: bool = False) -> str:
    """[003, Fig. 6]: DP and mutual-information leakage of a Class I set with M = 10 (the uniform law is the worst)."""
    points = papers()["003-fig6"].run(full).count
    return both_leakages("003-fig6", np.full((1, 10), 0.1), np.linspace(0.02, 0.92, points), "Class I, M = 10", out)


def fig7(out: Path, *, full: bool = False) -> str:
    """[003, Fig. 7]: DP and mutual-information leakage of the Class II set of Table II."""
    points = papers()["003-fig7"].run(full).count
    return both_leakages("003-fig7", TEN, np.linspace(0.02, 0.72, points), "Class II, M = 10", out)


SHAPE = (3, 5)  # |S| × |U|
PROBLEMS = {"NUNP": (False, False), "RUNP": (False, True), "NURP": (True, False), "RURP": (True, True)}
SIZES = (5, 20, 100, 1000)  # n = size · |S||U|
SHOWN_LEVELS = (0.01, 10.0)  # levels of the picture: constant mechanisms have none, and some of the others are infinite
COLOUR = dict(zip(PROBLEMS, OTHERS, strict=False))
MARKERS = {"NUNP": "o", "RUNP": "x", "NURP": "s", "RURP": "+"}  # points of two problems often coincide


class Instance(NamedTuple):
    """One problem solved on one table."""

    n: int
    problem: str
    level: float  # ε* at the truth
    distortion: float
    certified: float
    truth_in_ball: bool
    level_of_raw_solution: float


def fig2(out: Path, *, full: bool = False, sizes: tuple[int, ...] = SIZES) -> str:
    """[002, Fig. 2]: realised privacy and distortion of the four problems at the true distribution."""
    run = papers()["002-fig2"].run(full)
    rng, (allowed,) = np.random.default_rng(2), run.epsilons
    rows = [row for size in sizes for _ in range(run.count) for row in _instance(rng, size, allowed)]
    write_csv(out / "002-fig2.csv", Instance._fields, rows)
    remark = draw(out / "002-fig2.svg", 4, lambda axes: _paint(axes, rows, sizes, allowed))
    return _verdict(rows, remark, allowed)


def _instance(rng: np.random.Generator, size: int, allowed: float) -> list[Instance]:
    n, k = size * math.prod(SHAPE), SHAPE[1]
    truth = rng.dirichlet(np.full(math.prod(SHAPE), 0.5)).reshape(SHAPE)
    ball = ChiSquareBall(Joint.from_counts(rng.multinomial(n, truth.ravel()).reshape(truth.shape)), confidence=0.95)
    inside = bool((ball.joint.p**2 / truth).sum() <= 1 + ball.radius)
    squares = np.subtract.outer(np.arange(k), np.arange(k)) ** 2.0
    out = []
    for name, (privacy, utility) in PROBLEMS.items():
        made = design(ball, allowed, "distortion", values=range(k), robust_privacy=privacy, robust_utility=utility)
        q = made.mechanism.matrix
        assert q is not None
        points = np.array([int(x or 0) for x in made.mechanism.symbols.labels])
        raw = math.nan
        if privacy:
            problem = LossProblem(ball, ball if utility else Exactly(ball.joint), allowed, squares)
            unmended = solve_by_cones(problem).unmended
            assert unmended is not None
            raw = _level(unmended, truth)
        cost = float(np.einsum("ysu,su,uy->", q.reshape(-1, *truth.shape), truth, squares[:, points]))
        out.append(Instance(n, name, _level(q, truth), cost, made.certificate.level, inside, raw))
    return out


def _level(q: Floats, p: Floats) -> float:
    """ε* at the true distribution [002, (32)]."""
    laws = np.einsum("ysu,su->ys", q.reshape(-1, *p.shape), p / p.sum(axis=1, keepdims=True))
    live = laws.max(axis=1) > 0
    with np.errstate(divide="ignore"):
        return float(np.log(laws[live].max(axis=1) / laws[live].min(axis=1)).max())


def _verdict(rows: list[Instance], remark: str, allowed: float) -> str:
    lines, kept = [], True
    for name in PROBLEMS:
        mine = [r for r in rows if r.problem == name]
        over = sum(r.level > allowed for r in mine)
        inside = sum(r.level > allowed and r.truth_in_ball for r in mine)
        kept = kept and (inside == 0 or not PROBLEMS[name][0])
        raw = sum(r.level_of_raw_solution > allowed for r in mine)
        lines.append(
            f"{name}: ε* > {allowed} in {over} of {len(mine)} instances, in {inside} with the truth in the ball"
            + (f"; the solver's own mechanism in {raw}" if PROBLEMS[name][0] else "") + "."
        )
    claims = {"robust privacy holds wherever the truth is in the ball": kept}
    return verdict("002-fig2", claims, " ".join(lines), remark)


def _paint(axes: Sequence[Axes], rows: list[Instance], sizes: tuple[int, ...], allowed: float) -> None:
    for panel, size in ((0, sizes[0]), (1, sizes[-1])):
        for name in PROBLEMS:
            mine = [r for r in rows if r.problem == name and r.n == size * math.prod(SHAPE)]
            levels = np.clip([r.level for r in mine], *SHOWN_LEVELS)
            spent = [r.distortion for r in mine]
            axes[panel].scatter(levels, spent, s=26, alpha=0.8, marker=MARKERS[name], color=COLOUR[name], label=name)
        axes[panel].set(title=f"n = {size * math.prod(SHAPE)}", ylabel="D*", xscale="log")
        axes[panel].set(xlabel=f"ε* at the truth, those outside [{SHOWN_LEVELS[0]:g}, {SHOWN_LEVELS[1]:g}] at its ends")
        axes[panel].axvline(allowed, color="grey", linewidth=1)
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    for panel, key in ((2, "level"), (3, "distortion")):
        for name in PROBLEMS:
            n = [s * math.prod(SHAPE) for s in sizes]
            means = [_mean([getattr(r, key) for r in rows if r.problem == name and r.n == x]) for x in n]
            axes[panel].plot(n, means, marker=MARKERS[name], color=COLOUR[name], label=name)
        axes[panel].set(xscale="log", xlabel="n", ylabel="mean ε*" if key == "level" else "mean D*")
        if key == "level":
            axes[panel].axhline(allowed, color="grey", linewidth=1)


def _mean(values: list[float]) -> float:
    """The mean without infinite values and outliers by the 1.5·IQR rule, as the paper has it."""
    x = np.array([v for v in values if math.isfinite(v)])
    if not x.size:
        return math.nan
    low, high = np.quantile(x, [0.25, 0.75])
    return float(x[(x >= low - 1.5 * (high - low)) & (x <= high + 1.5 * (high - low))].mean())
