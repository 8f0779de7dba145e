"""[002, Fig. 2]: realised privacy and distortion of the four problems at the true distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers import design
from sfumato.joint import Joint
from sfumato.optimise.loss.cones import solve_by_cones
from sfumato.optimise.loss.problem import LossProblem
from sfumato.reproduce.drawing import OTHERS, draw, verdict, write_csv
from sfumato.uncertainty import ChiSquareBall

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SECRETS, USEFUL, EPSILON = 3, 5, 0.5
PROBLEMS = {"NUNP": (False, False), "RUNP": (False, True), "NURP": (True, False), "RURP": (True, True)}
SIZES = (5, 20, 100, 1000)  # n = size · |S||U|
SHOWN = (0.01, 10.0)  # levels of the picture: constant mechanisms have none, and some of the others are infinite
COLOUR = dict(zip(PROBLEMS, OTHERS, strict=False))
MARKERS = {"NUNP": "o", "RUNP": "x", "NURP": "s", "RURP": "+"}  # points of two problems often coincide
Row = dict[str, Any]


def run(out: Path, *, full: bool = False, sizes: tuple[int, ...] = SIZES) -> str:
    """[002, Fig. 2]: realised privacy and distortion of the four problems at the true distribution."""
    instances = 100 if full else 8
    rng = np.random.default_rng(2)
    rows = [row for size in sizes for _ in range(instances) for row in _instance(rng, size)]
    write_csv(out / "002-fig2.csv", list(rows[0]), [list(r.values()) for r in rows])
    remark = draw(out / "002-fig2.svg", 4, lambda axes: _paint(axes, rows, sizes))
    return _verdict(rows, remark)


def _instance(rng: np.random.Generator, size: int) -> list[Row]:
    n = size * SECRETS * USEFUL
    truth = rng.dirichlet(np.full(SECRETS * USEFUL, 0.5)).reshape(SECRETS, USEFUL)
    ball = ChiSquareBall(Joint.from_counts(rng.multinomial(n, truth.ravel()).reshape(truth.shape)), confidence=0.95)
    inside = bool((ball.joint.p**2 / truth).sum() <= 1 + ball.radius)
    squares = np.subtract.outer(np.arange(USEFUL), np.arange(USEFUL)) ** 2.0
    out = []
    for name, (privacy, utility) in PROBLEMS.items():
        made = design(ball, EPSILON, "distortion", values=range(USEFUL), robust_privacy=privacy, robust_utility=utility)
        q = made.mechanism.matrix
        assert q is not None
        points = np.array([int(x or 0) for x in made.mechanism.symbols.labels])
        raw = math.nan
        if privacy:
            problem = LossProblem(ball.joint.p, ball.radius, EPSILON, squares, privacy, utility)
            unmended = solve_by_cones(problem).unmended
            assert unmended is not None
            raw = _level(unmended, truth)
        cost = float(np.einsum("ysu,su,uy->", q.reshape(-1, *truth.shape), truth, squares[:, points]))
        out.append({"n": n, "problem": name, "level": _level(q, truth), "distortion": cost, "certified":
                    made.certificate.level, "truth_in_ball": inside, "level_of_raw_solution": raw})
    return out


def _level(q: Floats, p: Floats) -> float:
    """ε* at the true distribution [002, (32)]."""
    laws = np.einsum("ysu,su->ys", q.reshape(-1, *p.shape), p / p.sum(axis=1, keepdims=True))
    live = laws.max(axis=1) > 0
    with np.errstate(divide="ignore"):
        return float(np.log(laws[live].max(axis=1) / laws[live].min(axis=1)).max())


def _verdict(rows: list[Row], remark: str) -> str:
    lines, kept = [], True
    for name in PROBLEMS:
        mine = [r for r in rows if r["problem"] == name]
        over = sum(r["level"] > EPSILON for r in mine)
        inside = sum(r["level"] > EPSILON and r["truth_in_ball"] for r in mine)
        kept = kept and (inside == 0 or not PROBLEMS[name][0])
        raw = sum(r["level_of_raw_solution"] > EPSILON for r in mine)
        lines.append(
            f"{name}: ε* > {EPSILON} in {over} of {len(mine)} instances, in {inside} with the truth in the ball"
            + (f"; the solver's own mechanism in {raw}" if PROBLEMS[name][0] else "") + "."
        )
    claims = {"robust privacy holds wherever the truth is in the ball": kept}
    return verdict("002-fig2", claims, " ".join(lines), remark)


def _paint(axes: Sequence[Axes], rows: list[Row], sizes: tuple[int, ...]) -> None:
    for panel, size in ((0, sizes[0]), (1, sizes[-1])):
        for name in PROBLEMS:
            mine = [r for r in rows if r["problem"] == name and r["n"] == size * SECRETS * USEFUL]
            levels = np.clip([r["level"] for r in mine], *SHOWN)
            spent = [r["distortion"] for r in mine]
            axes[panel].scatter(levels, spent, s=26, alpha=0.8, marker=MARKERS[name], color=COLOUR[name], label=name)
        axes[panel].set(title=f"n = {size * SECRETS * USEFUL}", ylabel="D*", xscale="log")
        axes[panel].set(xlabel=f"ε* at the truth, those outside [{SHOWN[0]:g}, {SHOWN[1]:g}] at its ends")
        axes[panel].axvline(EPSILON, color="grey", linewidth=1)
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    for panel, key in ((2, "level"), (3, "distortion")):
        for name in PROBLEMS:
            n = [s * SECRETS * USEFUL for s in sizes]
            means = [_mean([r[key] for r in rows if r["problem"] == name and r["n"] == x]) for x in n]
            axes[panel].plot(n, means, marker=MARKERS[name], color=COLOUR[name], label=name)
        axes[panel].set(xscale="log", xlabel="n", ylabel="mean ε*" if key == "level" else "mean D*")
        if key == "level":
            axes[panel].axhline(EPSILON, color="grey", linewidth=1)


def _mean(values: list[float]) -> float:
    """The mean without infinite values and outliers by the 1.5·IQR rule, as the paper has it."""
    x = np.array([v for v in values if math.isfinite(v)])
    if not x.size:
        return math.nan
    low, high = np.quantile(x, [0.25, 0.75])
    return float(x[(x >= low - 1.5 * (high - low)) & (x <= high + 1.5 * (high - low))].mean())


