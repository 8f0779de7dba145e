"""The most informative mechanism under a limit on maximal leakage, and under local differential privacy for small
alphabets.

I(X;Y) is convex in Q and a sum over outputs of a function homogeneous in the row, so an optimum mixes extreme rows:

    maximal leakage   rows with max_x v_x = 1: subsets H, v = 1_H, worth P(H) log 1/P(H), total weight Σθ ≤
    e^ℓ
    ε-LDP             rows in {1, e^ε}^X: subsets again, worth Σ p_x v_x log(v_x / p·v)

Either is a linear programme over subsets; both limits together are not of this form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.privacy.channel import as_channel, as_prior
from sfumato.privacy.ldp import LDP
from sfumato.privacy.maximal import MaximalLeakage
from sfumato.privacy.shannon import Shannon

MOST_INPUTS = 16  # 2^16 columns: beyond it a pricing step would be needed


@dataclass(frozen=True, slots=True, eq=False)
class MostInformation:
    """A channel within the level, I(X;Y) there, and a proved upper bound for every channel within the level."""

    channel: Floats
    value: float
    bound: float
    level: float


def under_maximal_leakage(prior: npt.ArrayLike, level: float) -> MostInformation:
    """max I(X;Y) subject to log Σ_y max_x Q(y|x) ≤ level.

    Rows are θ·v with max v = 1, so v ∈ [0, 1]^X, a cube whose vertices are the indicators of subsets.
    """
    p = np.asarray(prior, dtype=np.float64)
    p = as_prior(p, p.size)
    rows = _subsets(p.size)
    best = _mixture(p, rows, weight=np.ones(len(rows)), limit=float(np.exp(level)))
    found = MaximalLeakage().of(best.channel).value
    if found > level:  # rounding: a touch of the constant law brings it back
        best = _softened(best, p, MaximalLeakage(), level)
        found = MaximalLeakage().of(best.channel).value
    return MostInformation(best.channel, best.value, best.bound, found)


def under_ldp(prior: npt.ArrayLike, epsilon: float) -> MostInformation:
    """max I(X;Y) over ε-LDP channels: a mixture of two-level rows."""
    p = np.asarray(prior, dtype=np.float64)
    p = as_prior(p, p.size)
    rows = 1 + _subsets(p.size) * np.expm1(epsilon)
    best = _mixture(p, rows, weight=None, limit=0.0)
    if LDP().of(best.channel).value > epsilon:
        best = _softened(best, p, LDP(), epsilon)
    return MostInformation(best.channel, best.value, best.bound, LDP().of(best.channel).value)


def _softened(
    best: MostInformation, p: Floats, measure: MaximalLeakage | LDP, level: float
) -> MostInformation:
    share, law = 1e-15, best.channel @ p
    while True:
        channel = (1 - share) * best.channel + share * law[:, None]
        if measure.of(channel).value <= level:
            return MostInformation(channel, Shannon().of(channel, p).value, best.bound, level)
        share *= 2


def _subsets(size: int) -> Floats:
    """Indicators of all nonempty subsets, a row each."""
    if size > MOST_INPUTS:
        raise InputError(f"subsets are listed up to {MOST_INPUTS} inputs, got {size}.")
    numbers = np.arange(1, 2**size)
    return ((numbers[:, None] >> np.arange(size)) & 1).astype(np.float64)


def _worth(p: Floats, rows: Floats) -> Floats:
    """Σ_x p_x v_x log(v_x / p·v): what a row of weight 1 adds to I(X;Y)."""
    mean = rows @ p
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(rows > 0, p * rows * np.log(rows / mean[:, None]), 0.0).sum(axis=1))


def _mixture(p: Floats, rows: Floats, weight: Floats | None, limit: float) -> MostInformation:
    """max Σ θ·worth subject to Σ θ v = 1 and Σ θ·weight ≤ limit. Bound: any λ, ν ≥ 0 made feasible by lifting λ."""
    worth = _worth(p, rows)
    upper = {} if weight is None else {"A_ub": weight[None, :], "b_ub": [limit]}
    solved = linprog(-worth, A_eq=rows.T, b_eq=np.ones(p.size), method="highs-ds", **upper)
    if solved.status != 0:
        raise ArithmeticError(f"the linear programme over subsets ended with: {solved.message}")
    used = np.flatnonzero(solved.x > 1e-12)
    channel = solved.x[used, None] * rows[used]
    channel = as_channel(channel / channel.sum(axis=0))
    lift, price = -np.asarray(solved.eqlin.marginals), 0.0
    slack = worth - rows @ lift
    if weight is not None:
        price = max(0.0, -float(solved.ineqlin.marginals[0]))
        slack = slack - price * weight
    lift = lift + max(0.0, float((slack / rows.sum(axis=1)).max()))
    return MostInformation(channel, Shannon().of(channel, p).value, float(lift.sum() + price * limit), np.nan)
