"""The saddle point behind maximal (α, β)-leakage, with a certificate: for one reference law c, and for the worst.

    V* = max_p min_q  1/(α−1) · log Σ_x p_x Σ_y Q_yx^α (q_y^τ c_y^{1−τ})^{1−α},   α ≥ 1, 0 < τ ≤ 1   [004, (84)]

p is a law on inputs, q a law on outputs. Any p bounds V* from below (the inner minimum has a closed form) and any q
bounds it from above (the outer maximum is then over single x). α = 1 is the limit τ I(p) + (1−τ) Σ p_x D(Q_x‖c): the
capacity when τ = 1. Every formula below is written so that it stays accurate as α → 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sfumato.optimise.arrays import REPAIRED, Floats, log_or_minus_infinity, log_sum_exp, room
from sfumato.tolerances import LEAST, NEAR_ONE


@dataclass(frozen=True, slots=True)
class Orders:
    """α and τ, and what follows from them: β = α / (1 + τ(α−1)), θ = β/α."""

    alpha: float
    tau: float

    @property
    def beta(self) -> float:
        return self.alpha / (1 + self.tau * (self.alpha - 1))

    @property
    def theta(self) -> float:
        return 1 / (1 + self.tau * (self.alpha - 1))

    @property
    def near_one(self) -> bool:
        return self.alpha < 1 + NEAR_ONE


@dataclass(frozen=True, slots=True)
class Saddle:
    """value ≤ V* ≤ bound, with the laws p and q that prove the two sides."""

    value: float
    bound: float
    p: Floats
    q: Floats
    reference: int | None = None  # the worst of many
    crowd: Floats = field(default_factory=lambda: np.zeros(0))  # [reference, x]: where all had got to, to start from


class SaddleProblem:
    """One channel, one pair of orders, one reference law (None when τ = 1): values, gradients, curvature.

    With many references [k, y] the laws p[k, x] of all of them are looked at together, where that is said.
    """

    def __init__(self, channel: Floats, orders: Orders, reference: Floats | None) -> None:
        self.channel, self.orders = channel, orders
        top = channel.max(axis=1)
        self.powers = (channel / top[:, None]) ** orders.alpha
        self.log_channel = log_or_minus_infinity(channel)
        self.log_reference = np.zeros(len(channel)) if reference is None else np.log(reference)
        self.log_weight = orders.beta * np.log(top) + (1 - orders.beta) * self.log_reference

    def best_output(self, p: Floats) -> tuple[Floats, Floats, Floats]:
        """The q that attains the inner minimum for p [004, (89)], the means v = Σ p A, and θ(α−1) times the value;
        for many references too."""
        means = np.maximum(p @ self.powers.T, LEAST)
        logs = self.log_weight + self.orders.theta * np.log(means)
        total = log_sum_exp(logs)
        return np.exp(logs - total[..., None]), means, total

    def divergences(self, q: Floats) -> Floats:
        """D_x = 1/(α−1) log Σ_y Q_yx^α (q^τ c^{1−τ})^{1−α}: the largest bounds V* from above, whatever q is."""
        tau = self.orders.tau
        log_mix = tau * np.log(np.maximum(q, LEAST)) + (1 - tau) * self.log_reference
        return tilted(self.channel, np.where(self.channel > 0, self.log_channel - log_mix[:, None], 0.0), self.orders)

    def excess(self, p: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Gradient e (Σ p e = 0), best q, means v, and the certified gap at p."""
        (q, means, _), alpha = self.best_output(p), self.orders.alpha
        if not self.orders.near_one:
            r = self.powers.T @ (q / means)
            return (r - 1) / (alpha - 1), q, means, float(np.log(max(float(r.max()), LEAST)) / (alpha - 1))
        d = self.divergences(q)
        shifted = d - tilted(p, d, self.orders)
        e = shifted if alpha == 1 else np.expm1((alpha - 1) * shifted) / (alpha - 1)
        return e, q, means, float(shifted.max())

    def curvature(self, e: Floats, q: Floats, means: Floats) -> Floats:
        """Minus the Hessian on Σ dp = 0: τθ BᵀΠB + θ(α−1) e eᵀ with B = A/v. Both parts stay finite as α → 1."""
        scaled = self.powers * (np.sqrt(q) / means)[:, None]
        hessian = (self.orders.tau * self.orders.theta) * (scaled.T @ scaled)
        hessian += (self.orders.theta * (self.orders.alpha - 1)) * np.outer(e, e)
        return np.asarray(hessian, dtype=np.float64)

    def saddle(self, p: Floats) -> Saddle:
        """Both sides evaluated afresh from p alone: its value is 1/(α−1) log Σ p_x exp((α−1) D_x) at its best q."""
        q = self.best_output(p)[0]
        d = self.divergences(q)
        value = float(tilted(p, d, self.orders))
        return Saddle(value, max(value, float(d.max())), p, q)


def tilted(weights: Floats, values: Floats, orders: Orders) -> Floats:
    """1/(α−1) log Σ w exp((α−1) v) along the first axis for laws w: their mean at α = 1, and accurate next to it."""
    scale = orders.alpha - 1
    if scale == 0:
        return np.asarray((weights * values).sum(axis=0))
    if orders.near_one:
        return np.asarray(np.log1p((weights * np.expm1(scale * values)).sum(axis=0)) / scale)
    return log_sum_exp(log_or_minus_infinity(weights) + scale * values, axis=0) / scale


def _newton(hessian: Floats, slope: Floats, p: Floats, z: Floats, mu: float) -> Floats:
    """dp of the primal-dual system with Σ dp = 0."""
    system = hessian + np.diag(z / p + 1e-15 * np.diagonal(hessian).max())
    right = np.column_stack([slope + mu / p, np.ones_like(p)])
    solved = cho_solve(cho_factor(system, check_finite=False), right, check_finite=False)
    return np.asarray(solved[:, 0] - solved[:, 1] * (solved[:, 0].sum() / solved[:, 1].sum()))


def _inside(p: Floats, least: float) -> Floats:
    p = np.maximum(p, least)
    return np.asarray(p / p.sum())


CLIMB_STEPS = 80  # of Newton's method at most: a dozen are the rule


def climb(problem: SaddleProblem, p: Floats, gap: float) -> Saddle:
    """Primal-dual Newton from any interior p until the certified gap is met or no step helps."""
    n = p.size
    p = _inside(p, REPAIRED / n)
    e, q, means, found = problem.excess(p)
    best, nearest = p, found
    z = np.maximum(-e, max(found, 1e-14))
    for _ in range(CLIMB_STEPS if n > 1 else 0):
        if nearest <= gap:
            break
        mu = float(p @ z) / n
        target = mu * min(0.2, max(mu**0.5, 1e-3))
        try:
            dp = _newton(problem.curvature(e, q, means), e, p, z, target)
        except LinAlgError:
            break
        dz = (target - z * dp) / p - z
        keep = max(0.995, 1 - mu)
        p = _inside(p + room(p, dp, keep) * dp, 1e-40)
        z = np.maximum(z + room(z, dz, keep) * dz, 1e-40)
        e, q, means, found = problem.excess(p)
        if found < nearest:
            best, nearest = p, found
    return problem.saddle(best)


def freely(channel: Floats, orders: Orders, gap: float) -> Saddle:
    """The saddle at τ = 1, where no reference has a say, from an even law."""
    n = channel.shape[1]
    return climb(SaddleProblem(channel, orders, None), np.full(n, 1 / n), gap / 4)


# --- the largest saddle value over all reference columns of a channel: many concave problems, most of them skipped ----


CROWD_ROUNDS = 24  # multiplicative rounds before Newton takes over: about the cost of two Newton solves at 100 × 100


def worst_reference(channel: Floats, orders: Orders, gap: float, start: Floats | None = None) -> Saddle:
    """max over x' of the saddle value with c = Q(·|x'), 0 < τ < 1. The channel must be positive.

    All climb together, then Newton on the reference with the largest bound, until none exceeds the best value.
    """
    n = channel.shape[1]
    p = np.full((n, n), 1 / n) if start is None else 0.999 * start + 0.001 / n
    upper = _climbed_together(channel, orders, p)
    solved, who = dict[int, Saddle](), 0
    while len(solved) < n:
        x = max(set(range(n)) - set(solved), key=lambda x: upper[x])
        if solved and upper[x] <= solved[who].value + gap / 2:
            break
        found = solved[x] = climb(SaddleProblem(channel, orders, channel[:, x]), p[x], gap / 4)
        p[x], upper[x] = found.p, found.bound
        who = max(solved, key=lambda x: solved[x].value)
    return replace(solved[who], bound=max(solved[who].value, float(upper.max())), reference=who, crowd=p)


def _climbed_together(channel: Floats, orders: Orders, p: Floats) -> Floats:
    """Upper bounds of all references after a few steps of p[reference, x], each moved in place while it may be best.

    A multiplicative step p ← p·r^{1/(1−θ)} raises the value (Jensen on each concave power) and needs no solve: that of
    Arimoto's algorithm where τ = 1. Near α = 1 the digits of r − 1 that are lost are magnified: bounds are looser by as
    much, and Newton does the rest, or all at α = 1.
    """
    problem, scale, upper = SaddleProblem(channel, orders, channel.T), orders.alpha - 1, np.full(len(p), np.inf)
    for _ in range(CROWD_ROUNDS if scale > 0 else 0):
        q, means, total = problem.best_output(p)
        r, value = (q / means) @ problem.powers, total / orders.theta / scale
        above = np.log(np.maximum(r.max(axis=1), 1.0)) + 1e-14
        upper = value + above / scale + 1e-14
        still = upper > value.max()
        if np.count_nonzero(still) <= 1:
            break
        logs = np.log(p[still]) + np.log(np.maximum(r[still], 1e-15)) / (scale * orders.tau * orders.theta)
        grown = np.exp(np.maximum(logs - logs.max(axis=1, keepdims=True), -60))
        p[still] = grown / grown.sum(axis=1, keepdims=True)
    return upper
