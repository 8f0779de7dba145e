"""What the experiments of paper 000 share: its tables, draws from the Jeffreys prior, and its methods by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.designers import Design, design
from sfumato.designers.base import Task
from sfumato.designers.closed_forms import grr, srr
from sfumato.designers.ir import ir
from sfumato.joint import Joint
from sfumato.uncertainty import ChiSquareBall

# Examples 1–5: the estimate from 100 rows, and the truth behind it.
ESTIMATE = Joint.from_counts([[7, 10], [26, 57]])
TRUTH = Joint.from_probabilities([[0.1, 0.1], [0.2, 0.6]])
BALL = ChiSquareBall(ESTIMATE, confidence=0.95)
LOG2 = math.log(2)

# Section 8: panels (a)–(d), |S| × |U|.
CENSUS = (
    ("sex", "race"), ("race", "sex"), ("occupation", "education"), ("native-country", "relationship"),
)
Shape = tuple[int, int]
SHAPES = ((2, 5), (5, 2), (15, 16), (42, 6))
ROWS = 32_561
SMALL = 10  # cells of the shapes for which the paper could run PolyOpt and NR

CLOSED = ("srr", "ir", "ir (tight)", "grr")
SEARCHED = ("polyopt", "ballopt", "nr")
METHODS = CLOSED + SEARCHED
ROBUST = ("srr", "ir", "ir (tight)", "polyopt", "ballopt")  # promise ε for every P in F
_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "ir": ("ir", {"rule": "paper"}), "ir (tight)": ("ir", {"rule": "tight"}),
    "grr": ("grr", {"notion": "ldp"}),  # the paper's GRR is LDP about the whole record
}


def made(name: str, ball: ChiSquareBall, epsilon: float, seconds: float | None = None) -> Design:
    """The sealed and certified design of a method; `seconds` limits those that search."""
    method, options = _OPTIONS.get(name, (name, {}))
    limit: dict[str, Any] = {"time_limit": seconds} if seconds is not None and name in SEARCHED else {}
    return design(ball, epsilon, method, **options, **limit)


def kept(name: str, ball: ChiSquareBall, epsilon: float, seconds: float | None = None) -> tuple[float, float]:
    """NMI at P̂ and the method's bound in the same unit. Closed forms as they are, searched ones sealed."""
    entropy = ball.joint.entropy
    if name in CLOSED:
        task = Task(ball, epsilon, "ldp" if name == "grr" else "rldp")
        method, options = _OPTIONS.get(name, (name, {}))
        draft = ir(task, **options) if method == "ir" else grr(task) if method == "grr" else srr(task)
        value = draft.value(task)
        return value / entropy, (value if draft.bound is None else draft.bound) / entropy
    found = made(name, ball, epsilon, seconds)
    return found.value / entropy, found.bound / entropy


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """A truth P* from the Jeffreys prior and the ball around the estimate from 32,561 rows of it."""

    truth: Joint
    ball: ChiSquareBall

    @property
    def covered(self) -> bool:
        """P* ∈ F."""
        off = (self.ball.joint.p - self.truth.p) ** 2 / self.truth.p
        return float(off.sum()) <= self.ball.radius

    def at(self, beta: float) -> ChiSquareBall:
        """The ball of the same estimate at another significance."""
        return ChiSquareBall(self.ball.joint, confidence=1 - beta)


def draw(shape: tuple[int, int], index: int, beta: float = 0.05) -> Draw:
    """The index-th draw of a shape, the same in every figure [000, §8.2]."""
    rng = np.random.default_rng([8, *shape, index])
    p = rng.dirichlet(np.full(shape[0] * shape[1], 0.5))
    p = np.maximum(p, 1e-300)
    joint = Joint.from_counts(rng.multinomial(ROWS, p / p.sum()).reshape(shape))
    return Draw(Joint.from_probabilities((p / p.sum()).reshape(shape)), ChiSquareBall(joint, confidence=1 - beta))


def titled(shape: tuple[int, int]) -> str:
    return f"|S| = {shape[0]}, |U| = {shape[1]}"


def small(shape: tuple[int, int]) -> bool:
    return shape[0] * shape[1] <= SMALL
