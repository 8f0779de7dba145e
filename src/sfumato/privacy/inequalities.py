"""Which measure is never larger than which, when, and why: data, checked by tests, drawn by reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.privacy.alpha_beta import Leakage, WorstInputLeakage
from sfumato.privacy.beliefs import LIP
from sfumato.privacy.gain import BayesLeakage, MaximalLeakage, PointwiseLeakage
from sfumato.privacy.ldp import LDP, RenyiLDP
from sfumato.privacy.measures import Measure, Reading, as_channel, as_prior, live
from sfumato.privacy.mutual_information import (
    Arimoto,
    Contraction,
    MaximalAlphaLeakage,
    MaximalCorrelation,
    Shannon,
    Sibson,
    TotalVariation,
)

Values = Mapping[str, float]

AT_PRIOR: dict[str, Measure] = {
    "I": Shannon(),
    "I_2": Sibson(2.0),
    "I_5": Sibson(5.0),
    "A_2": Arimoto(2.0),
    "bayes": BayesLeakage(),
    "pml": PointwiseLeakage(),
    "lip": LIP(),
    "tv": TotalVariation(),
    "rho": MaximalCorrelation(),
}
WORST: dict[str, Measure] = {
    "capacity": Shannon(),
    "L_2": MaximalAlphaLeakage(2.0),
    "L_5": MaximalAlphaLeakage(5.0),
    "maxl": MaximalLeakage(),
    "L_inf_2": WorstInputLeakage(2.0),
    "L_5_2": Leakage(5.0, 2.0),
    "L_5_3": Leakage(5.0, 3.0),
    "kl": RenyiLDP(1.0),
    "rdp_2": RenyiLDP(2.0),
    "rdp_5": RenyiLDP(5.0),
    "ldp": LDP(),
    "dobrushin": Contraction(),
    "rho*": MaximalCorrelation(),
}


@dataclass(frozen=True, slots=True)
class Edge:
    """left(values) ≤ right(values) for every channel and every prior that meets the condition."""

    smaller: str
    larger: str
    condition: str
    reason: str
    left: Callable[[Values], float]
    right: Callable[[Values], float]


def _plain(smaller: str, larger: str, reason: str, condition: str = "always") -> Edge:
    return Edge(smaller, larger, condition, reason, lambda v: v[smaller], lambda v: v[larger])


def _through(smaller: str, larger: str, formula: str, reason: str, right: Callable[[Values], float]) -> Edge:
    return Edge(smaller, f"{formula} of {larger}", "always", reason, lambda v: v[smaller], right)


def _tanh_half(v: Values) -> float:
    return float(np.tanh(v["ldp"] / 2))


EDGES: tuple[Edge, ...] = (
    _plain("I", "I_2", "Rényi divergence grows with its order, so does its minimum over output laws"),
    _plain("I_2", "I_5", "the same"),
    _plain("I", "capacity", "the capacity is the worst prior"),
    _plain("I_2", "L_2", "maximal α-leakage is Sibson's information at the worst prior [004, (2)]"),
    _plain("A_2", "L_2", "Arimoto's information is Sibson's at the tilted prior"),
    _plain("capacity", "L_2", "orders again, at the worst prior"),
    _plain("L_2", "L_5", "orders again"),
    _plain("L_5", "maxl", "orders again, up to α = ∞"),
    _plain("bayes", "maxl", "guessing X is one of the functions that maximal leakage allows"),
    _plain("maxl", "L_inf_2", "monotone in β [004, Thm 2]"),
    _plain("L_inf_2", "ldp", "monotone in β, up to β = ∞"),
    _plain("L_5", "L_5_2", "monotone in β"),
    _plain("L_5_2", "L_5_3", "monotone in β"),
    _plain("L_5_3", "rdp_5", "monotone in β, up to β = α"),
    _plain("capacity", "kl", "Σ p D(Q_x‖Qp) ≤ Σ p p' D(Q_x‖Q_x') by convexity of D in its second argument"),
    _plain("kl", "rdp_2", "orders again"),
    _plain("L_2", "rdp_2", "τ from 1 to 0 [004, Remark 1]"),
    _plain("rdp_2", "rdp_5", "orders again"),
    _plain("rdp_5", "ldp", "orders again, up to ∞"),
    _plain("pml", "lip", "the upper half of the absolute value"),
    _plain("I", "pml", "I is the mean of log Q(y|x)/P(y), pml its largest value"),
    _through(
        "pml",
        "ldp",
        "−log(m + (1−m)e^{−x})",
        "P(y) ≥ Q(y|x)(p(x) + (1 − p(x))e^{−ε}), and p(x) ≥ m, the least of the prior",
        lambda v: -float(np.log(v["least"] + (1 - v["least"]) * np.exp(-v["ldp"]))),
    ),
    _plain("maxl", "pml", "e^maxl is the mean of e^{ℓ(Y)}, pml its logarithm's largest value"),
    _plain("lip", "ldp", "P(y) is between min and max of Q(y|x)"),
    Edge(
        "ldp",
        "twice lip",
        "every input has mass",
        "Q(y|x)/Q(y|x') = Q(y|x)/P(y) · P(y)/Q(y|x')",
        lambda v: v["ldp"],
        lambda v: 2 * v["lip"],
    ),
    _plain("rho", "rho*", "the worst prior"),
    _through("tv", "I", "√(x/2)", "Pinsker on p(x,y) against p(x)p(y)", lambda v: float(np.sqrt(v["I"] / 2))),
    _through(
        "tv",
        "dobrushin",
        "(1 − 1/n)·x",
        "TV(Q_x, Qp) ≤ Σ p_x' TV(Q_x, Q_x')",
        lambda v: (1 - 1 / v["inputs"]) * v["dobrushin"],
    ),
    _through(
        "tv",
        "rho",
        "½√(k−1)·x",
        "Cauchy–Schwarz, and χ² has k − 1 terms of at most ρ²",
        lambda v: 0.5 * float(np.sqrt(v["rank"] - 1)) * v["rho"],
    ),
    _through(
        "I_2",
        "rho",
        "log(1 + (k−1)x²)",
        "I_2 ≤ D_2(p(x,y)‖p(x)p(y)) = log(1 + χ²)",
        lambda v: float(np.log1p((v["rank"] - 1) * v["rho"] ** 2)),
    ),
    _through(
        "rho*",
        "dobrushin",
        "√x",
        "χ² contracts at least as fast as total variation",
        lambda v: float(np.sqrt(v["dobrushin"])),
    ),
    _through("rho*", "ldp", "tanh(x/2)", "contraction of ε-LDP channels in χ²", _tanh_half),
    _through(
        "dobrushin",
        "ldp",
        "tanh(x/2)",
        "two laws within e^ε of each other: binary randomised response is worst",
        _tanh_half,
    ),
    _through(
        "kl",
        "ldp",
        "x·tanh(x/2)",
        "the same pair is worst for Kullback–Leibler",
        lambda v: v["ldp"] * _tanh_half(v) if np.isfinite(v["ldp"]) else np.inf,
    ),
    _through(
        "maxl",
        "ldp",
        "log n/(1 + (n−1)e^{−x})",
        "a row with maximum M sums to at least M(1 + (n−1)e^{−ε})",
        lambda v: float(np.log(v["inputs"] / (1 + (v["inputs"] - 1) * np.exp(-v["ldp"])))),
    ),
    Edge(
        "maxl",
        "log of the smaller alphabet",
        "always",
        "Σ_y max_x Q is at most |Y| terms of 1 and at most Σ_x 1",
        lambda v: v["maxl"],
        lambda v: float(np.log(v["rank"])),
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Every measure that the edges mention, read for one channel, and the inequalities between them with both sides."""

    readings: dict[str, Reading]
    names: dict[str, str]
    values: dict[str, float]

    @property
    def sides(self) -> list[tuple[Edge, float, float]]:
        """Each inequality with its left and right side here."""
        return [(edge, edge.left(self.values), edge.right(self.values)) for edge in EDGES]


def lattice(channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Lattice:
    """The lattice of inequalities for Q[y, x] with values on it; inputs without mass are left out.

    >>> found = lattice([[0.75, 0.25], [0.25, 0.75]])
    >>> all(left <= right + 1e-9 for _, left, right in found.sides)
    True
    """
    q = as_channel(channel)
    p = np.full(q.shape[1], 1 / q.shape[1]) if prior is None else as_prior(prior, q.shape[1])
    seen = live(q, p)
    readings = {key: measure.of(seen.q, seen.p) for key, measure in AT_PRIOR.items()}
    readings |= {key: measure.of(seen.q) for key, measure in WORST.items()}
    names = {key: f"{m.name}, at the prior" for key, m in AT_PRIOR.items()}
    names |= {key: m.name for key, m in WORST.items()}
    names |= {"capacity": "capacity", "rho*": "maximal correlation, at the worst prior"}
    values = {key: found.value for key, found in readings.items()}
    return Lattice(readings, names, values | {
        "inputs": float(seen.q.shape[1]), "rank": float(min(seen.q.shape)), "least": float(seen.p.min()),
    })
