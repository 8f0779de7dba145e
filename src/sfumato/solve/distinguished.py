"""Rows with one distinguished secret s0: its row may rise above what two ordinary secrets may show (ours; section 6).

m_{s0} ≥ 1, M_{s0} ≤ E·t and m_s ≥ t, M_s ≤ E for the others, 1 ≤ t ≤ E. No secret is compared with itself, so t > 1
is private.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sfumato.solve.arrays import Floats, xlogx
from sfumato.solve.coupled import Coupled, Points, Product
from sfumato.solve.mixture import Mixture
from sfumato.solve.watch import FREE, Watch

Block = Callable[[int, float, float], Floats]
"""(s, floor, roof) → extreme points of {v ≥ 0 : m_s(v) ≥ floor, M_s(v) ≤ roof}."""


@dataclass(eq=False)
class Families:
    """The products of all (s0, t) met so far; `t_own` > `t_others` gives a relaxation that holds for every t between
    them."""

    block: Block
    p: Floats
    E: float
    known: dict[tuple[int, float, float], Product] = field(default_factory=dict)
    parts: dict[tuple[int, float, float], Points] = field(default_factory=dict)

    def product(self, s0: int, t_others: float, t_own: float) -> Product:
        """m_{s0} ≥ 1, M_{s0} ≤ E·t_own and m_s ≥ t_others, M_s ≤ E."""
        key = (s0, t_others, t_own)
        if key not in self.known:
            self.known[key] = Product(
                [
                    self._points(s, *((1.0, self.E * t_own) if s == s0 else (t_others, self.E)))
                    for s in range(len(self.p))
                ]
            )
        return self.known[key]

    def _points(self, s: int, floor: float, roof: float) -> Points:
        key = (s, floor, roof)
        if key not in self.parts:
            self.parts[key] = Points.of(self.block(s, floor, roof), self.p[s])
        return self.parts[key]

    def limit(self, duals: Floats, enough: float, budget: int) -> float:
        """An upper bound on the price over every s0 and t in [1, E]: the interval of t with the greatest relaxation
        is halved next."""
        heap: list[tuple[float, int, float, float]] = []
        for s0 in range(len(self.p)):
            heapq.heappush(heap, (-self.product(s0, 1.0, self.E).price(duals, 1)[2], s0, 1.0, self.E))
        for _ in range(budget):
            if -heap[0][0] <= enough:
                break
            _, s0, low, high = heapq.heappop(heap)
            middle = float(np.sqrt(low * high))
            for a, c in ((low, middle), (middle, high)):
                heapq.heappush(heap, (-self.product(s0, a, c).price(duals, 1)[2], s0, a, c))
        return -heap[0][0]


def distinguish(
    block: Block,
    p: Floats,
    E: float,
    *,
    start: Floats | None = None,
    gap: float = 1e-4,
    budget: int = 400,
    watch: Watch = FREE,
) -> Coupled:
    """The best mechanism with rows in the union of the (s0, t) families, for few secrets and small |U|.

    Column generation on a grid of t that is refined around the rows in use. Duals λ prove Σλ + max(0, price) with
    the price bounded
    over every t, because every row has z ≥ 1 after scaling.
    """
    families = Families(block, p, E)
    flat = p.ravel()
    lp = Mixture(p.size, None)
    unit = np.ones((1, p.size)) if start is None else start / (start @ flat)[:, None]
    lp.add(unit, xlogx(unit) @ flat)
    origin: list[tuple[int, float]] = [(0, 1.0)] * len(unit)
    ratio = E ** (1.0 / 8.0)
    nodes = {(0, 1.0)} | {(s, float(ratio**i)) for s in range(len(p)) for i in range(1, 9)}
    last = -np.inf
    for _ in range(60):
        _complete(lp, origin, families, sorted(nodes), flat, gap / 10, watch)
        watch.tell("distinguished", lp.value)
        # The optimum is flat in t, so t must be found to about √gap before the value stops moving.
        small = lp.value - last <= gap / 20 * lp.value
        if (small and np.log(ratio) < np.sqrt(gap)) or watch.over:
            break
        last = lp.value
        if small or len(nodes) > 8 * len(p):
            ratio = ratio ** (1.0 / 3.0)
        used = {origin[j] for j in np.flatnonzero(lp.theta > 1e-10)}
        nodes = used | {(s, float(np.clip(t * ratio**i, 1.0, E))) for s, t in used for i in range(-4, 5)}
    duals = lp.dual[:-1].reshape(p.shape)
    bound = float(duals.sum()) + max(families.limit(duals, gap / 2 * lp.value, budget), 0.0)
    on = lp.theta > 1e-13
    status = "optimal" if bound - lp.value <= 2 * gap * lp.value else "stopped"
    return Coupled(lp.theta[on, None] * lp.columns[on], lp.value, bound, duals, status)


def _complete(
    lp: Mixture,
    origin: list[tuple[int, float]],
    families: Families,
    nodes: list[tuple[int, float]],
    flat: Floats,
    gap: float,
    watch: Watch,
) -> None:
    """Column generation over the given (s0, t)."""
    for _ in range(100):
        if not lp.solve() or watch.over:
            return
        duals = lp.dual[:-1].reshape(families.p.shape)
        found = []
        for s0, t in nodes:
            product = families.product(s0, t, t)
            choice, exact, _ = product.price(duals, 4)
            if exact.max() > gap * lp.value:
                found.append(((s0, t), *product.rows(choice[exact > 1e-10])))
        if not found:
            return
        for node, vectors, mu in found:
            z = vectors @ flat
            lp.add(vectors / z[:, None], mu / z)
            origin += [node] * len(mu)
    lp.solve()
