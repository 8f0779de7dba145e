"""Protocols of multi-freq-ldpy for many columns: what their errors are by formula, and what they are when run.

Each answers for d columns at a level of ε about the whole record. SPL answers every column at ε/d, SMP one column
drawn at random at ε, RS+FD one at ε' and draws the others evenly. `adaptive` is GRR or OUE, whichever has the smaller
variance at share 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Bits:
    """How often a cell is supported by those who have it (own) and by others, and what an estimate is divided by."""

    own: float
    other: float

    def error(self, f: Any, n: float) -> float:
        """Σ over cells of the variance of (support − other)/(own − other), for rows that are fixed."""
        spread = f * self.own * (1 - self.own) + (1 - f) * self.other * (1 - self.other)
        return float(spread.sum() / (n * (self.own - self.other) ** 2))

    def estimate(self, support: Any) -> Any:
        return (support - self.other) / (self.own - self.other)


def oracles(k: int, epsilon: float) -> list[Bits]:
    """GRR and OUE."""
    e = math.exp(epsilon)
    return [Bits(e / (e + k - 1), 1 / (e + k - 1)), Bits(0.5, 1 / (e + 1))]


def at_zero(bits: Bits) -> float:
    return bits.other * (1 - bits.other) / (bits.own - bits.other) ** 2


def spl(k: int, d: int, epsilon: float) -> Bits:
    return min(oracles(k, epsilon / d), key=at_zero)


def smp(k: int, d: int, epsilon: float) -> Bits:
    """One column of d is told, with all of ε, by so many of the rows."""
    return min(oracles(k, epsilon), key=at_zero)


def rs_fd(k: int, d: int, epsilon: float) -> Bits:
    """One column of d is told at ε; the others are even draws (GRR), or OUE of no value at all."""
    grr, oue = oracles(k, epsilon)
    faked = Bits((grr.own + (d - 1) / k) / d, (grr.other + (d - 1) / k) / d)
    zero = Bits((oue.own + (d - 1) * oue.other) / d, oue.other)
    return min((faked, zero), key=at_zero)


PROTOCOLS: dict[str, tuple[Callable[[int, int, float], Bits], str]] = {
    "SPL, adaptive": (spl, "SPL"), "SMP, adaptive": (smp, "SMP"),
    "RS+FD, adaptive, at the same level": (rs_fd, "RSpFD"),
}


def expected(name: str, truth: Sequence[Any], n: int, epsilon: float) -> float:
    """√Σ E‖p̂ − p‖² over tables that are asked for as columns."""
    total, d = 0.0, len(truth)
    for f in truth:
        bits, rows = PROTOCOLS[name][0](f.size, d, epsilon), n / d if name.startswith("SMP") else n
        drawn = float((f * (1 - f)).sum()) * (1 / rows - 1 / n)  # which rows tell this column
        total += bits.error(f.ravel(), rows) + drawn
    return math.sqrt(total)


def run(
    name: str, codes: Sequence[Any], sizes: Sequence[int], epsilon: float, seed: int
) -> tuple[list[Any], list[Any]]:
    """Tables by the protocol's own clients: as its aggregator has them, and unbiased, from the same answers."""
    import multi_freq_ldpy.mdim_freq_est.RSpFD_solution as rsfd_module
    import multi_freq_ldpy.mdim_freq_est.SMP_solution as smp_module
    import multi_freq_ldpy.mdim_freq_est.SPL_solution as spl_module

    bits_of, short = PROTOCOLS[name]
    module: Any = {"SPL": spl_module, "SMP": smp_module, "RSpFD": rsfd_module}[short]
    d, ks = len(sizes), [int(k) for k in sizes]
    lowered = math.log((math.exp(epsilon) - 1) / d + 1)  # which RS+FD raises to ε again
    level = lowered if short == "RSpFD" else epsilon
    _seeded(seed)
    client = getattr(module, f"{short}_ADP_Client")
    said = [client([int(x) for x in row], ks, d, level) for row in zip(*codes, strict=True)]
    shown = getattr(module, f"{short}_ADP_Aggregator_MI")(said, ks, d, level)
    raw = []
    for j, k in enumerate(ks):
        own = [x[1] for x in said if x[0] == j] if short == "SMP" else [x[j] for x in said]
        raw.append(bits_of(k, d, epsilon).estimate(_supports(own, k) / len(own)))
    return [np.asarray(x, float) for x in shown], raw


def _supports(answers: Sequence[Any], k: int) -> Any:
    if np.ndim(answers[0]) == 0:
        return np.bincount(np.asarray(answers, int), minlength=k)
    return np.sum(np.asarray(answers, np.float32), 0, dtype=float)


def _seeded(seed: int) -> None:
    """numba's generator is another than numpy's."""
    from numba import njit

    @njit
    def inside(x: int) -> None:
        np.random.seed(x)  # noqa: NPY002

    np.random.seed(seed)  # noqa: NPY002
    inside(seed)


def true_level(columns: int, labels: int, epsilon: float) -> float:
    """The level of RS+FD with GRR about the whole record, by enumeration of all outputs for two opposite records.

    Each output is one column's answer at ε' = ln(d(e^ε − 1) + 1) and even draws for the others. Where all of them agree
    with one record and none with the other, every term of the sum over the column drawn has the ratio e^ε'.
    """
    raised = math.log(columns * (math.exp(epsilon) - 1) + 1)
    hit, miss = (x / (math.exp(raised) + labels - 1) for x in (math.exp(raised), 1.0))
    worst = 0.0
    for y in np.ndindex(*(labels,) * columns):
        chances = [sum((hit if a == r else miss) for a in y) / columns / labels ** (columns - 1) for r in (0, 1)]
        worst = max(worst, chances[0] / chances[1])
    return math.log(worst)
