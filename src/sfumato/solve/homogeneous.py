"""Linear objectives over laws, under sums of homogeneous power and entropy terms: solved by Clarabel, bounded by hand.

    minimise  c·x   over  groups of x that are laws, other x in [0, 1]
    subject to  G x ≤ h   and   Σ_j f_j(x) ≤ limit   for sums of terms
        power:    (κ u)^a / (v^b w^d)  with a = 1 + b + d      entropy:  u log(u / v)

u, v, w are entries of x. The solver's duals only suggest: the bound is the Lagrangian at repaired multipliers,
minimised in closed form, which holds for any numbers λ ≥ 0 and any tangents (each term is convex and homogeneous):

    (κu)^a v^{−b} w^{−d} ≥ a·A^{b/a} C^{d/a}·κu − b·A·v − d·C·w     for all A, C ≥ 0
    u log(u/v)           ≥ (1 + log A)·u − A·v                       for all A > 0
"""

from __future__ import annotations

from dataclasses import dataclass

import clarabel
import numpy as np
from scipy import sparse

from sfumato.alphabet import Floats, Ints
from sfumato.solve.programme import EntropySum, Lagrangian, PowerSum, Programme, limit

TOLERANCE = 1e-10
EPSILON = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The solver's point, its objective, and the bound recomputed from repaired multipliers."""

    x: Floats
    value: float
    bound: float
    status: str


class _Assembly:
    """Rows of A x + s = b, cone by cone."""

    def __init__(self, variables: int) -> None:
        self.i: list[Ints] = []
        self.j: list[Ints] = []
        self.a: list[Floats] = []
        self.b: list[Floats] = []
        self.cones: list[object] = []
        self.height, self.variables = 0, variables

    def put(self, rows: Ints, names: Ints, values: Floats, right: Floats, cones: list[object]) -> int:
        """s = right − A x for the new rows (numbered from 0 here); returns the number of the first."""
        first = self.height
        self.i.append(rows + first)
        self.j.append(names)
        self.a.append(values)
        self.b.append(right)
        self.cones += cones
        self.height += right.size
        return first

    def matrix(self) -> sparse.csc_matrix:
        entries = (np.concatenate(self.a), (np.concatenate(self.i), np.concatenate(self.j)))
        return sparse.csc_matrix(entries, shape=(self.height, self.variables))


def solve(programme: Programme, time_limit: float = 60.0) -> Solved:
    """Clarabel's answer with a bound that does not trust it."""
    slots = [part.u.size for part in programme.sums]
    total = programme.size + sum(slots)
    place = _Assembly(total)
    for group in programme.groups:
        zero = np.zeros(group.size, dtype=np.int64)
        place.put(zero, group, np.ones(group.size), np.ones(1), [clarabel.ZeroConeT(1)])
    everything = np.arange(programme.size)
    place.put(
        everything,
        everything,
        -np.ones(programme.size),
        np.zeros(programme.size),
        [clarabel.NonnegativeConeT(programme.size)],
    )
    row_at = _put_rows(programme, place)
    sums_at, cones_at, first = [], [], programme.size
    for part, slot in zip(programme.sums, slots, strict=True):
        terms = np.arange(first, first + slot)
        first += slot
        nothing = np.zeros(slot, dtype=np.int64)
        sums_at.append(
            place.put(nothing, terms, np.ones(slot), np.array([limit(part)]), [clarabel.NonnegativeConeT(1)])
        )
        cones_at.append(_put_cones(part, terms, place))
    cost = np.zeros(total)
    cost[: programme.size] = np.concatenate(programme.cost)
    x, z, status = _clarabel(place, cost, time_limit)
    bound = _bound(programme, cost[: programme.size], z, row_at, sums_at, cones_at)
    return Solved(x[: programme.size], float(cost @ x), bound, status)


def _put_rows(programme: Programme, place: _Assembly) -> int:
    if not programme.rows:
        return place.height
    count = len(programme.rows)
    rows = np.concatenate([np.full(names.size, k) for k, (names, _, _) in enumerate(programme.rows)])
    names = np.concatenate([names for names, _, _ in programme.rows])
    values = np.concatenate([weights for _, weights, _ in programme.rows])
    right = np.array([end for _, _, end in programme.rows])
    return place.put(rows, names, values, right, [clarabel.NonnegativeConeT(count)])


def _put_cones(part: PowerSum | EntropySum, t: Ints, place: _Assembly) -> int:
    """One cone a term; square terms use the second-order cone, which the solver likes best."""
    k = np.arange(t.size)
    one = np.ones(t.size)
    if isinstance(part, EntropySum):  # (−t, u, v) in the exponential cone
        rows, names = np.concatenate([3 * k, 3 * k + 1, 3 * k + 2]), np.concatenate([t, part.u, part.v])
        values = np.concatenate([one, -one, -one])
        return place.put(rows, names, values, np.zeros(3 * t.size), [clarabel.ExponentialConeT()] * t.size)
    if part.d == 0 and part.b == 1:  # (t + v, 2κu, t − v)
        rows = np.concatenate([3 * k, 3 * k, 3 * k + 1, 3 * k + 2, 3 * k + 2])
        names = np.concatenate([t, part.v, part.u, t, part.v])
        values = np.concatenate([-one, -one, -2 * part.scale * one, -one, one])
        return place.put(rows, names, values, np.zeros(3 * t.size), [clarabel.SecondOrderConeT(3)] * t.size)
    if part.d == 0:  # t^{1/a} v^{b/a} ≥ κu
        rows, names = np.concatenate([3 * k, 3 * k + 1, 3 * k + 2]), np.concatenate([t, part.v, part.u])
        values = np.concatenate([-one, -one, -part.scale * one])
        return place.put(
            rows, names, values, np.zeros(3 * t.size), [clarabel.PowerConeT(1 / part.a)] * t.size
        )
    rows = np.concatenate([4 * k + r for r in range(4)])
    names = np.concatenate([t, part.v, part.w, part.u])
    values = np.concatenate([-one, -one, -one, -part.scale * one])
    cone = clarabel.GenPowerConeT([1 / part.a, part.b / part.a, 1 - (1 + part.b) / part.a], 1)
    return place.put(rows, names, values, np.zeros(4 * t.size), [cone] * t.size)


def _clarabel(place: _Assembly, cost: Floats, time_limit: float) -> tuple[Floats, Floats, str]:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.time_limit = time_limit
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    settings.max_iter = 200
    quadratic = sparse.csc_matrix((cost.size, cost.size))
    right = np.concatenate(place.b)
    answer = clarabel.DefaultSolver(quadratic, cost, place.matrix(), right, place.cones, settings).solve()
    return np.array(answer.x), np.array(answer.z), str(answer.status)


def _bound(
    programme: Programme, cost: Floats, z: Floats, row_at: int, sums_at: list[int], cones_at: list[int]
) -> float:
    """The Lagrangian at the repaired multipliers, minimised over laws and boxes."""
    if not np.all(np.isfinite(z)):
        z = np.zeros_like(z)
    found = Lagrangian(cost)
    for k, (names, weights, right) in enumerate(programme.rows):
        multiplier = max(0.0, z[row_at + k])
        found.add(names, multiplier * weights)
        found.less(multiplier * right)
    for part, at, cone_at in zip(programme.sums, sums_at, cones_at, strict=True):
        multiplier = max(0.0, z[at])
        found.less(multiplier * limit(part))
        if multiplier > 0:
            _tangents(part, multiplier, z[cone_at:], found)
    return found.least(programme)


def _tangents(part: PowerSum | EntropySum, multiplier: float, z: Floats, found: Lagrangian) -> None:
    """Add multiplier × (tangents read off the cone duals) to the reduced costs."""
    count = part.u.size
    if isinstance(part, EntropySum):
        tail = z[: 3 * count].reshape(count, 3)
        slope = np.maximum(tail[:, 2], EPSILON) / np.maximum(-tail[:, 0], EPSILON)
        slope = np.clip(slope, 1e-12, 1e12)
        found.add(part.u, multiplier * (1 + np.log(slope)))
        found.add(part.v, -multiplier * slope)
        return
    if part.d == 0:
        tail = z[: 3 * count].reshape(count, 3)
        square = part.b == 1
        zt, zv = (tail[:, 0] + tail[:, 2], tail[:, 0] - tail[:, 2]) if square else (tail[:, 0], tail[:, 1])
        zw = np.zeros(count)
    else:
        tail = z[: 4 * count].reshape(count, 4)
        zt, zv, zw = tail[:, 0], tail[:, 1], tail[:, 2]
    zt = np.maximum(zt, EPSILON)
    first = np.maximum(zv, 0) / zt / part.b
    second = np.maximum(zw, 0) / zt / part.d if part.d > 0 else np.ones(count)
    lift = part.a * first ** (part.b / part.a) * second ** (part.d / part.a) * part.scale
    found.add(part.u, multiplier * lift)
    found.add(part.v, -multiplier * part.b * first)
    if part.d > 0:
        found.add(part.w, -multiplier * part.d * second)
