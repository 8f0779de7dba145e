"""The cap of a promise for any distribution, as a part of the barrier: a roof and a floor for every secret of a row.

v_i ≤ K·v_j for all numbers i, j of different secrets are as many inequalities as pairs of numbers. With a roof above
and a floor below the numbers of each secret they are roof_s ≤ K·floor_s' and as many bounds as numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.optimise.arrays import Bools, Floats
from sfumato.optimise.cone import Cap

MINOR = 0.1  # weight of the logarithms of a row's numbers, and of these: there are many, and their sum over the last
# heat is what a row stays short of


class Push(NamedTuple):
    """What the cap adds to a step: slopes by numbers and by roofs and floors, and the curvatures."""

    v: Floats  # [y, i]
    z: Floats  # [y, 2S]
    own: Floats  # the diagonal [y, i]
    cross: Floats  # [y, i, 2S]
    both: Floats  # [y, 2S, 2S]


class Roofs:
    """Logarithms of the distances to roofs and floors z = (roofs, floors), and between those of different secrets."""

    def __init__(self, cap: Cap, numbers: int) -> None:
        self.K, self.S, self.n = cap.K, len(cap.numbers), numbers
        self.who = np.repeat(np.arange(self.S), [len(x) for x in cap.numbers])
        self.number = np.concatenate(cap.numbers)
        self.member = np.zeros((len(self.who), self.S))
        self.member[np.arange(len(self.who)), self.who] = 1.0
        self.apart = ~np.eye(self.S, dtype=bool)

    def begun(self, v: Floats) -> tuple[Floats, Bools]:
        """Roofs and floors half way between the numbers and what the cap allows; and whether there is room for them."""
        values = v[:, self.number]
        top = np.stack([values[:, self.who == s].max(1) for s in range(self.S)], 1)
        low = np.stack([values[:, self.who == s].min(1) for s in range(self.S)], 1)
        room = np.where(self.apart, self.K * low[:, None, :] - top[:, :, None], np.inf).min((1, 2))
        step = room[:, None] / (2 * (1 + self.K))
        return np.concatenate([top + step, low - step], 1), np.asarray(room > 0)

    def distances(self, v: Floats, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Below the roofs, above the floors [y, k], and K·floor − roof of every pair [y, s, s'], 1 for the same one."""
        roof, floor = z[:, : self.S], z[:, self.S :]
        values = v[:, self.number]
        pair = np.where(self.apart, self.K * floor[:, None, :] - roof[:, :, None], 1.0)
        return roof[:, self.who] - values, values - floor[:, self.who], pair

    def inside(self, v: Floats, z: Floats) -> Bools:
        return np.asarray(np.all([(d > 0).reshape(len(v), -1).all(1) for d in self.distances(v, z)], axis=0))

    def value(self, v: Floats, z: Floats, inside: Bools) -> Floats:
        logs = [np.log(np.where(inside[:, None], d.reshape(len(v), -1), 1.0)).sum(1) for d in self.distances(v, z)]
        return np.asarray(MINOR * sum(logs))

    def push(self, v: Floats, z: Floats) -> Push:
        """Slopes, and minus the second derivatives."""
        below, above, pair = (1 / d for d in self.distances(v, z))
        pair = np.where(self.apart, pair, 0.0)
        S, y = self.S, len(v)
        slope_z = np.concatenate([below @ self.member - pair.sum(2), self.K * pair.sum(1) - above @ self.member], 1)
        slope_v, own, cross = np.zeros((y, self.n)), np.zeros((y, self.n)), np.zeros((y, self.n, 2 * S))
        at = np.arange(y)[:, None], self.number[None]
        np.add.at(slope_v, at, above - below)
        np.add.at(own, at, above**2 + below**2)
        np.add.at(cross, (*at, self.who[None]), -(below**2))
        np.add.at(cross, (*at, S + self.who[None]), -(above**2))
        both, each = np.zeros((y, 2 * S, 2 * S)), np.arange(S)
        both[:, :S, S:], both[:, S:, :S] = -self.K * pair**2, -self.K * (pair**2).transpose(0, 2, 1)
        both[:, each, each] = below**2 @ self.member + (pair**2).sum(2)
        both[:, S + each, S + each] = above**2 @ self.member + self.K**2 * (pair**2).sum(1)
        return Push(*(MINOR * x for x in (slope_v, slope_z, own, cross, both)))
