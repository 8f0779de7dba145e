"""Linear functions over a χ² ball, with a dual bound."""

from __future__ import annotations

import numpy as np

from sfumato.solve.arrays import Floats
from sfumato.uncertainty.tilting import greatest_mean

ROUNDING = 2.0**-48  # relative room for the rounding of a sum of a few thousand products


def support(c: Floats, p: Floats, radius: float) -> tuple[float, Floats, float]:
    """max ⟨c, P⟩ over {P : Σ p²/P ≤ 1 + B}, a maximiser, and an upper bound by duality.

    max = min_{μ ≥ max c} μ − (Σ p √(μ − c))²/(B + 1) [002, Thm 2, simplified]: any μ bounds it from above.
    """
    flat, centre = c.ravel(), p.ravel()
    if radius <= 0.0:
        value = float(flat @ centre)
        return value, p.copy(), value
    best = greatest_mean(flat[None, :], centre[None, :], np.array([1.0 + radius]))
    mu = max(float(best.tau[0]), float(flat.max()))
    dual = mu - float(centre @ np.sqrt(mu - flat)) ** 2 / (1.0 + radius)
    upper = min(dual + ROUNDING * max(abs(mu), float(np.abs(flat).max())), float(flat.max()))
    return float(best.value[0]), best.r[0].reshape(p.shape), upper
