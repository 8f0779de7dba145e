"""The best mechanism whose rows Q(y|·) lie in a cone, for any utility that adds up over outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.posteriors import xlogx

if TYPE_CHECKING:
    from sfumato.solve.cover import Cover


def conditional_gain(context: Floats) -> Callable[[Floats], Floats]:
    """For context[k, x] = P(k, x): the map from rows r = Q(y|·) to what y adds to I(X;Y|K).

    Σ_k Σ_x r_x P(k,x) log(r_x / Σ_x' r_x' P(x'|k)): convex and homogeneous in r, so extreme rows suffice.
    """
    weight, mass = context.sum(axis=0), context.sum(axis=1)
    log_mass = np.log(np.where(mass > 0.0, mass, 1.0))

    def gain(rows: Floats) -> Floats:
        seen = rows @ context.T
        return np.asarray(xlogx(rows) @ weight - xlogx(seen).sum(axis=1) + seen @ log_mass)

    return gain


def best_rows(
    rows: Floats, gain: Callable[[Floats], Floats], *, dimension: int, limit: int = 200_000, deadline: float = np.inf
) -> Cover:
    """max Σ_y gain(r_y) over r_y ∈ {r ≥ 0 : A r ≤ 0} with Σ_y r_y = 1, by all extreme rays and an LP."""
    from sfumato.solve.cover import best_cover
    from sfumato.solve.rays import extreme_rays

    rays = extreme_rays(rows, dimension=dimension, limit=limit, deadline=deadline).vectors
    points = np.concatenate([rays, np.full((1, dimension), 1.0 / dimension)])
    return best_cover(np.ones(dimension), points, gain(points))


def as_matrix(cover: Cover) -> Floats:
    """Q[y, x] from a cover of the all-ones row, columns scaled to sum 1."""
    matrix = cover.weights[:, None] * cover.points
    return np.asarray(matrix / matrix.sum(axis=0))
