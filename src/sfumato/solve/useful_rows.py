"""Robust optimal designs that read U alone: every secret shares one row v ∈ R^U."""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass, field

import highspy
import numpy as np

from sfumato.solve.arrays import Floats, Ints, xlogx
from sfumato.solve.engine import simplex
from sfumato.solve.layout import Layout
from sfumato.solve.margin import with_margin
from sfumato.solve.mixture import Mixture
from sfumato.solve.worst_rows import Compared, compared, inside

_TICKET = itertools.count()  # breaks ties in the heap


@dataclass(eq=False)
class Cone:
    """{v ≥ 0 : p_U·v = 1, R1·v ≤ E·R2·v for every pair in F}, known through cuts (R1 − E·R2)·v ≤ 0 (ours)."""

    p: Floats
    b: float
    E: float
    cuts: list[Floats] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shares = self.p.sum(axis=1)
        self.q = self.p / self.shares[:, None]
        self.marginal = self.p.sum(axis=0)
        lp = simplex()
        none, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        for _ in self.marginal:
            lp.addCol(0.0, 0.0, highspy.kHighsInf, 0, none, nothing)
        self._columns: Ints = np.arange(len(self.marginal), dtype=np.int32)
        lp.addRow(1.0, 1.0, len(self.marginal), self._columns, self.marginal)
        self._lp = lp
        for s1 in range(len(self.q)):
            for s2 in range(len(self.q)):
                if s1 != s2:
                    self._cut(self.q[s1] - self.E * self.q[s2])

    def _cut(self, row: Floats) -> None:
        self.cuts.append(row)
        self._lp.addRow(-highspy.kHighsInf, 0.0, len(row), self._columns, row)

    def relaxed(self, cost: Floats, box: tuple[Floats, Floats] | None = None) -> tuple[Floats, float]:
        """max cost·v under the cuts so far (and low ≤ v ≤ top), and a proved upper bound from the LP's duals.

        Weak duality: for cut multipliers π ≥ 0 and any μ, cost·v ≤ μ + Σ_u max over v_u in its range of (cost −
        Σπ·cut − μ p)_u v_u.
        """
        low, top = (np.zeros(len(cost)), np.full(len(cost), highspy.kHighsInf)) if box is None else box
        self._lp.changeColsBounds(len(cost), self._columns, low, top)
        self._lp.changeColsCost(len(cost), self._columns, cost)
        self._lp.run()
        if self._lp.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return np.ones(len(cost)), -np.inf
        solution = self._lp.getSolution()
        pi = np.maximum(np.array(solution.row_dual)[1:], 0.0)
        left = cost - pi @ np.array(self.cuts)
        if box is None:
            top = 1.0 / np.maximum(self.marginal, 1e-300)
            mu = float((left * top).max())  # makes every coefficient ≤ 0
        else:
            mu = float(solution.row_dual[0])
        slack = left - mu * self.marginal
        return np.maximum(np.array(solution.col_value), 0.0), mu + float(
            np.maximum(slack * low, slack * top).sum()
        ) if box else mu

    def compared(self, v: Floats) -> Compared:
        """The row against every pair: all secrets share it."""
        return compared(np.tile(v, len(self.q))[None], self.p, self.b)

    def separate(self, v: Floats, tolerance: float) -> bool:
        """Cut v off if a pair in F violates it; True when it was cut."""
        known = self.compared(v)
        i = int(known.ratio.argmax())
        if known.ratio[i] <= self.E * (1.0 + tolerance):
            return False
        self._cut(known.first[i] - self.E * known.second[i])
        return True

    def linear(self, cost: Floats, tolerance: float, rounds: int = 60) -> Floats:
        """argmax cost·v over the cone, by cutting planes."""
        for _ in range(rounds):
            v, _ = self.relaxed(cost)
            if not self.separate(v, tolerance):
                break
        return v

    def inside(self, v: Floats) -> Floats:
        """v mixed with the constant row until it is private."""
        known = self.compared(v)
        return inside(known.rows.reshape(1, -1), known, self.p, self.b, float(np.log(self.E)))[0, : len(v)]


@dataclass(frozen=True, slots=True, eq=False)
class UsefulDesign:
    """Rows Q[y, u] with I(U;Y) and a proved bound."""

    rows: Floats
    value: float
    bound: float


def useful(
    p: Floats,
    b: float,
    epsilon: float,
    *,
    rounds: int = 40,
    starts: int = 6,
    tolerance: float = 1e-6,
    deadline: float = np.inf,
) -> UsefulDesign:
    """max I(U;Y) over mechanisms that read U alone and are (ε, F)-private (ours).

    Rows are scaled to p_U·v = 1, so μ(v) = Σ p_u φ(v_u). Pricing climbs: linearise the convex gain at v, move to the
    LP's optimum, repeat.
    """
    cone = Cone(p, b, float(np.exp(epsilon)))
    marginal = cone.marginal
    rng = np.random.default_rng(0)
    lp = Mixture(p.shape[1], None)
    seeds = [np.ones(p.shape[1])]
    for u in range(p.shape[1]):
        seeds += [cone.inside(cone.linear(sign * np.eye(p.shape[1])[u], tolerance)) for sign in (1.0, -1.0)]
        if time.monotonic() > deadline:
            break
    _bring(lp, np.array(seeds), marginal)
    for _ in range(rounds):
        lp.solve()
        duals = lp.dual[:-1]
        begin = [lp.columns[j] for j in np.flatnonzero(lp.theta > 1e-10)]
        begin += [rng.dirichlet(np.full(len(marginal), 0.5)) / np.maximum(marginal, 1e-12) for _ in range(starts)]
        found = [cone.inside(_climb(cone, v, duals, tolerance, deadline)) for v in begin]
        new = np.array([v for v in found if marginal @ xlogx(v) - duals @ v > tolerance])
        if not len(new) or time.monotonic() > deadline:
            break
        _bring(lp, new, marginal)
    lp.solve()
    on = lp.theta > 1e-12
    bound = min(proved(cone, lp.dual[:-1]), -float(xlogx(marginal).sum()))
    layout = Layout(float(lp.theta[on].sum()), (lp.theta[on],) * len(p), (lp.columns[on],) * len(p))
    safe = with_margin(layout, p, b, epsilon)
    rows = safe.lengths[0][:, None] * safe.heights[0]
    value = float((xlogx(rows) @ marginal - xlogx(rows @ marginal)).sum())
    return UsefulDesign(rows / rows.sum(axis=0), value, bound)


def _bring(lp: Mixture, rows: Floats, marginal: Floats) -> None:
    unit = rows / (rows @ marginal)[:, None]
    lp.add(unit, xlogx(unit) @ marginal)


def _climb(cone: Cone, v: Floats, duals: Floats, tolerance: float, deadline: float) -> Floats:
    last = -np.inf
    for _ in range(12):
        cost = cone.marginal * (1.0 + np.log(np.maximum(v, 1e-6))) - duals
        v = cone.linear(cost, tolerance)
        now = float(cone.marginal @ xlogx(v) - duals @ v)
        if now <= last + 1e-9 or time.monotonic() > deadline:
            break
        last = now
    return v


def proved(cone: Cone, duals: Floats, budget: int = 400, enough: float = 1e-4) -> float:
    """Σλ + max(0, max_v Σ p φ(v) − λ·v): on a box φ lies below its chord; the box with the greatest bound is halved
    next."""
    eye = np.eye(len(duals))
    top = np.array([cone.relaxed(e)[1] for e in eye])
    low = np.maximum(np.array([-cone.relaxed(-e)[1] for e in eye]), 0.0)
    heap: list[tuple[float, int, Floats, Floats, Floats]] = []
    _push(heap, cone, duals, low, np.maximum(top, low))
    for _ in range(budget):
        if not heap or -heap[0][0] <= enough:
            break
        _, _, v, low, top = heapq.heappop(heap)
        chord = xlogx(low) + np.where(
            top > low, (xlogx(top) - xlogx(low)) / np.where(top > low, top - low, 1.0), 0.0
        ) * (v - low)
        u = int((cone.marginal * (chord - xlogx(v))).argmax())
        at = (
            v[u]
            if low[u] + 0.1 * (top[u] - low[u]) < v[u] < top[u] - 0.1 * (top[u] - low[u])
            else (low[u] + top[u]) / 2
        )
        for side in (0, 1):
            new_low, new_top = low.copy(), top.copy()
            (new_top if side == 0 else new_low)[u] = at
            _push(heap, cone, duals, new_low, new_top)
    return float(duals.sum()) + max(-heap[0][0] if heap else 0.0, 0.0)


def _push(
    heap: list[tuple[float, int, Floats, Floats, Floats]], cone: Cone, duals: Floats, low: Floats, top: Floats
) -> None:
    slope = np.where(top > low, (xlogx(top) - xlogx(low)) / np.where(top > low, top - low, 1.0), 0.0)
    constant = float(cone.marginal @ (xlogx(low) - slope * low))
    v, limit = cone.relaxed(cone.marginal * slope - duals, (low, top))
    if limit > -np.inf:
        heapq.heappush(heap, (-(constant + limit), next(_TICKET), v, low, top))
