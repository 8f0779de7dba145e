"""From one ε to the next: what a search found at one level, as the beginning of a search at another.

A row that is mixed with the constant row until it is private at a smaller ε loses what it told of U at no cost.
So two things are changed apart: how far the means of the secrets lie from each other, which is what ε pays for, and how
much each secret's part is mixed with its own mean, which is what the set's radius asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.optimise.arrays import Floats
from sfumato.optimise.cone import MIXINGS, SPARE, RatioCone, repaired, steepened

POWERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)  # of the means of the secrets: nearer to each other, and further apart
WORTH = 0.1  # relative gap up to which it is likely that cuts from outside meet at the next ε too
INSIDE = 0.999  # of ε, that means alone may take: something is left to mix with


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """Rows over the coordinates that a search ended with, the worst cases that it cut at, and how far it came."""

    rows: Floats
    normals: Floats  # of R₁·v_{s₁} − E·R₂·v_{s₂}
    E: float
    gap: float  # relative, between value and what was met from outside

    @property
    def near(self) -> bool:
        """Whether cuts from outside are likely to meet at the next level: elsewhere other bounds say as much."""
        return self.gap < WORTH

    def cuts(self, E: float) -> Floats:
        """The same worst cases at another level: s₁ ≠ s₂, so that the sign of a number says on which side it is."""
        return np.where(self.normals < 0.0, self.normals * (E / self.E), self.normals)


def rows_for(cone: RatioCone, rows: Floats) -> Floats:
    """Private rows of a level from those of another: each as steep as may be, and with its means nearer or further
    apart."""
    out = steepened(cone, rows)
    if cone.reads == "both" and cone.cap is None:
        out = np.concatenate([out, _spread(cone, cone.coordinates.unit(rows))])
    return repaired(cone, out)


def _spread(cone: RatioCone, rows: Floats) -> Floats:
    """Rows v_s·c_s^{k−1} mixed with c_s^k, c_s the mean of each secret, for several powers k."""
    p, of = cone.coordinates.p, cone.coordinates.cell // cone.within.joint.shape[1]
    each = np.equal.outer(of, np.unique(of)) * p[:, None]
    means = np.maximum(rows @ (each / np.maximum(each.sum(0), 1e-300)), 1e-12)
    means[:, each.sum(0) <= 0.0] = 1.0
    level, place = np.log(means), np.searchsorted(np.unique(of), of)
    most = INSIDE * np.log(cone.E) / np.maximum(np.ptp(level, axis=1), 1e-12)
    flat = np.concatenate([np.exp(np.minimum(power, most)[:, None] * level) for power in POWERS])
    again = len(POWERS), 1
    return _mixed(cone, (flat / np.tile(means, again))[:, place] * np.tile(rows, again), flat[:, place])


def _mixed(cone: RatioCone, rows: Floats, flat: Floats) -> Floats:
    """About the least mixture with private rows that is private: each worst case says what it needs at least."""
    unit = cone.coordinates.unit
    rows, flat = unit(rows), unit(flat)
    share, live = np.zeros(len(rows)), np.arange(len(rows))
    for _ in range(MIXINGS):
        now = (1 - share[live, None]) * rows[live] + share[live, None] * flat[live]
        cuts = cone.cuts(now).above(0.0)
        if not len(cuts.y):
            break
        at = live[cuts.y]
        over, under = (cuts.normals * rows[at]).sum(1), (cuts.normals * flat[at]).sum(1)
        asked = np.where(under < 0.0, over / np.where(under < 0.0, over - under, 1.0), 1.0)
        np.maximum.at(share, at, np.minimum(asked * (1 + SPARE) + 1e-12, 1.0))
        live = np.unique(at)
    return np.asarray((1 - share[:, None]) * rows + share[:, None] * flat)
