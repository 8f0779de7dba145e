"""Total variation: the mean distance of posteriors from the prior, and the largest between two inputs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats
from sfumato.joint import Joint
from sfumato.privacy.channel import live
from sfumato.privacy.reading import Measure, Reading

ROUNDS = 400


def distances(q: Floats) -> Floats:
    """TV(Q_x, Q_x') for all pairs."""
    return np.array([0.5 * np.abs(q - column[:, None]).sum(axis=0) for column in q.T])


@dataclass(frozen=True, slots=True, eq=False)
class TotalVariation(Measure):
    """½ Σ_{x,y} p_x |Q(y|x) − P(y)|, a number in [0, 1). Without a prior: a value and a bound that may differ.

    Bound: Σ p_x TV(Q_x, Qp) ≤ pᵀDp with D the distances between columns. ℓ₁ distances are of negative type, so pᵀDp
    is concave on the simplex and 2 max(Dp) − pᵀDp bounds it at any p. Two equal points attain half the largest D.
    """

    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return "total variation"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        seen = live(channel, prior)
        if prior is not None:
            value = _level(seen.q, seen.p)
            return Reading(value, value, seen.on_inputs(seen.p))
        d = distances(seen.q)
        if not d.any():
            return Reading(0.0, 0.0)
        p = np.full(d.shape[0], 1 / d.shape[0])
        for _ in range(ROUNDS):
            p = p * (d @ p)
            p /= p.sum()
        bound = float(2 * (d @ p).max() - p @ d @ p)
        pair = np.zeros_like(p)
        pair[list(np.unravel_index(int(np.argmax(d)), d.shape))] = 0.5
        value, best = max(((_level(seen.q, r), r) for r in (p, pair)), key=lambda found: found[0])
        return Reading(value, max(value, bound), seen.on_inputs(best))


@dataclass(frozen=True, slots=True, eq=False)
class Contraction(Measure):
    """Dobrushin's coefficient max_{x,x'} TV(Q_x, Q_x'): the best advantage in telling two inputs apart."""

    about: Joint | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return "largest total variation"

    def of(self, channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Reading:
        seen = live(channel, prior)
        d = distances(seen.q)
        x, other = np.unravel_index(int(np.argmax(d)), d.shape)
        return Reading(float(d[x, other]), float(d[x, other]), None, seen.witness(int(x), int(other)))


def _level(q: Floats, p: Floats) -> float:
    return float(0.5 * np.abs(q - (q @ p)[:, None]).sum(axis=0) @ p)
