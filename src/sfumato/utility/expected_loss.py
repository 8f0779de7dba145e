"""Expected distortion of a mechanism: at one distribution, or at the worst of a set."""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.uncertainty import ChiSquareBall, UncertaintySet
from sfumato.uncertainty.tilting import greatest_mean

ROUNDING = 2.0**-46  # relative room for the rounding of sums of a few thousand products


def loss_of(mechanism: Mechanism, distance: Floats) -> Floats:
    """E[d(u, Y) | s, u] as [s, u] (one row for a mechanism that reads U alone); distance[u, y]."""
    q = mechanism.matrix
    if q is None:
        raise InputError(f"{mechanism.outputs} outputs of {mechanism.inputs} inputs are too many to list.")
    if distance.shape != (mechanism.useful.size, mechanism.outputs):
        raise InputError(
            f"distance must be a matrix of {mechanism.useful.size} useful values by {mechanism.outputs} outputs, got "
            f"shape {distance.shape}."
        )
    rows = q.reshape(len(q), mechanism.law.rows, mechanism.law.useful)
    return np.asarray(np.einsum("ysu,uy->su", rows, distance))


def expected_distortion(mechanism: Mechanism, source: Joint | UncertaintySet, distance: Floats) -> float:
    """E d(U, Y) under a joint, or the greatest over a set of them (never too small: a dual point bounds it).

    Over a χ² ball the greatest ⟨c, P⟩ is min_{μ ≥ max c} μ − (Σ P̂√(μ − c))²/(B + 1) [002, Thm 2, simplified].
    """
    joint = source if isinstance(source, Joint) else source.joint
    c = np.broadcast_to(loss_of(mechanism, np.asarray(distance, float)), joint.shape)
    if isinstance(source, Joint):
        return float((c * joint.p).sum())
    if not isinstance(source, ChiSquareBall) or source.radius == 0:
        return source.support(c).value
    flat, p = c.reshape(1, -1), joint.p.reshape(1, -1)
    mu = max(float(greatest_mean(flat, p, np.array([1 + source.radius])).tau[0]), float(c.max()))
    dual = mu - float((p * np.sqrt(mu - flat)).sum()) ** 2 / (1 + source.radius)
    return min(float(c.max()), dual + ROUNDING * max(abs(mu), float(np.abs(c).max())))
