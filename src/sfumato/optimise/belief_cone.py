"""Rows that move no belief about the secret too far: pointwise maximal leakage, and LIP as its two-sided form."""

from __future__ import annotations

import numpy as np

from sfumato.optimise.arrays import Floats, Ints
from sfumato.optimise.cone import Cap, Coordinates, Cuts
from sfumato.uncertainty import ChiSquareBall, UncertaintySet
from sfumato.uncertainty.shifts import CLOSE, ROUGH, Shifts, others, worst_shifts


class BeliefCone:
    """P(y|s) ≤ E·P(y) for every secret and every P in the set; with `below` also P(y) ≤ E·P(y|s).

    Every P in the set is a cut: a = P(·|s) − E·P has a·1 = 1 − E, so a constant row mixed in lowers each of them alike.
    At one distribution the cuts are one for each secret; over a χ² ball the worst P of each is searched.
    """

    MARGIN = 2e-6  # nats: less than a proof by intervals can be relied on to find

    def __init__(
        self, within: UncertaintySet, epsilon: float, reads: str = "both", *, below: bool = False,
        at_most: float | None = None,
    ) -> None:
        joint = within.joint
        self.within, self.reads, self.coordinates = within, reads, Coordinates.of(joint, reads)
        self.E = float(np.exp(epsilon - min(self.MARGIN, epsilon / 2)))
        self.rise, self.halves = self.E - 1.0, (True, False) if below else (True,)
        seen, empty = np.flatnonzero(joint.p_secret > 0), np.flatnonzero(joint.p_secret <= 0)
        self.ball = within if isinstance(within, ChiSquareBall) and within.radius > 0 else None
        # secrets that never occur are alike, and share a number
        self.secrets = np.concatenate([seen, empty[:1]]) if self.ball else seen
        self.secrets = self.secrets if joint.secret.size > 1 else self.secrets[:0]
        self.fixed = None if self.ball else self._fixed()
        self.cap = None if at_most is None else Cap.of(joint, self.coordinates, at_most, reads)

    def cuts(self, x: Floats, *, loose: bool = False, room: float = 0.0) -> Cuts:
        found = self._over_the_set(x, loose, room)
        return found if self.cap is None else found.and_also(self.cap.cuts(x, self.rise, room))

    def _over_the_set(self, x: Floats, loose: bool, room: float) -> Cuts:
        if self.fixed is not None:
            excess = x @ self.fixed.T
            y, k = np.nonzero(excess > -room)
            return Cuts(y, self.fixed[k], excess[y, k])
        assert self.ball is not None
        y, s, half = (i.ravel() for i in np.indices((len(x), len(self.secrets), len(self.halves))))
        if not len(y):
            return Cuts(y, np.zeros((0, x.shape[1])), np.zeros(0))
        rows = x if self.reads == "useful" else self.coordinates.full(x).reshape(-1, *self.within.joint.shape)
        s, up = self.secrets[s], np.array(self.halves)[half]
        normals = self._normals(worst_shifts(self.ball, rows[y], s, up, ROUGH if loose else CLOSE), s, up)
        return Cuts(y, normals, np.einsum("ki,ki->k", normals, x[y])).above(-room)

    def _normals(self, found: Shifts, s: Ints, up: Floats) -> Floats:
        """P(·|s) − E·P, or P − E·P(·|s), in the coordinates of rows."""
        pi, up = found.share[:, None], up[:, None]
        own = np.where(up, 1 - self.E * pi, pi - self.E) * found.given
        rest = np.where(up, -self.E, 1.0) * (1 - pi) * found.rest
        if self.reads == "useful":
            return np.asarray(own + rest)
        S, U = self.within.joint.shape
        normal, k = np.zeros((len(s), S, U)), np.arange(len(s))
        normal[k, s] = own
        away = others(np.arange(S)[:, None], s)  # [k, s'], s' ≠ s
        normal[k[:, None], away] = rest.reshape(len(s), S - 1, U)
        return self.coordinates.normals(normal)

    def _fixed(self) -> Floats:
        """All cuts at the one distribution."""
        joint = self.within.joint
        S, U = joint.shape
        given = np.zeros((len(self.secrets), S, U))
        given[np.arange(len(self.secrets)), self.secrets] = joint.useful_given_secret[self.secrets]
        own, all_of_it = self.coordinates.normals(given), self.coordinates.normals(joint.p[None])
        return np.concatenate([own - self.E * all_of_it if up else all_of_it - self.E * own for up in self.halves])
