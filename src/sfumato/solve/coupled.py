"""Column generation on the product of the secrets' point sets, for few or dominating secrets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats, Ints, xlogx
from sfumato.solve.layout import layout_of_rows
from sfumato.solve.mixture import Mixture
from sfumato.solve.watch import FREE, Watch

HEADS = 30_000  # combinations of the dominating secrets that are listed


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """The points of one secret with gain Σ_u p_su φ(h_u) and height z = Σ_u p_su h_u."""

    heights: Floats
    gain: Floats
    z: Floats

    @classmethod
    def of(cls, heights: Floats, p: Floats) -> Points:
        return cls(heights, xlogx(heights) @ p, heights @ p)


@dataclass(frozen=True, slots=True, eq=False)
class Coupled:
    """Rows Q[y, x] with their value and a proved bound for all mixtures of the product's points."""

    rows: Floats
    value: float
    bound: float
    duals: Floats
    status: str


def frontier(a: Floats, z: Floats) -> Ints:
    """Indices of the points no other beats in both a (more) and z (less)."""
    order = np.lexsort((-a, z))
    best = np.maximum.accumulate(a[order])
    keep = np.concatenate([[True], a[order][1:] > best[:-1]])
    return np.asarray(order[keep])


class Product:
    """Pricing over ∏_s points: max Σ_s a_s(h_s) − φ(Σ_s z_s(h_s)), a_s(h) = gain − λ_s·h.

    z ≥ 1, where φ rises, so only each secret's frontier in (a, z) matters. The dominating secrets are listed
    jointly. For the others
    φ(z) ≥ (1 + log τ) z − τ for every τ, so Σ_others max_h [a − (1 + log τ) z] + τ bounds them together: any grid of
    τ is valid (ours).
    """

    def __init__(self, points: list[Points], most: int = 99) -> None:
        self.points = points
        self.most = most
        self.sequence = np.argsort([-float(x.z.max() - x.z.min()) for x in points])
        top = sum(float(x.z.max()) for x in points)
        low = sum(float(x.z.min()) for x in points)
        self.tau = np.geomspace(max(low, 1.0), max(top, 1.0 + 1e-9), 160)
        self.slope = 1.0 + np.log(self.tau)

    def price(self, duals: Floats, count: int) -> tuple[Ints, Floats, float]:
        """Rows with high reduced cost [i, s] as point indices, their reduced costs, and an upper bound on all."""
        a = [x.gain - x.heights @ duals[s] for s, x in enumerate(self.points)]
        fronts = [frontier(a[s], x.z) for s, x in enumerate(self.points)]
        heads, combos, value, z = self._heads(a, fronts)
        tails = [int(s) for s in self.sequence if s not in heads]
        if not tails:
            exact = value - xlogx(z)
            best = np.argsort(-exact)[:count]
            return self._choice(heads, combos[best], [], None), exact[best], float(exact[best[0]])
        keep = frontier(value, z)
        combos, value, z = combos[keep], value[keep], z[keep]
        shifted = [a[s][fronts[s], None] - self.points[s].z[fronts[s], None] * self.slope for s in tails]
        tail = np.sum([x.max(axis=0) for x in shifted], axis=0)
        over = value[:, None] - z[:, None] * self.slope + (self.tau + tail)
        at = over.argmin(axis=1)
        upper = over[np.arange(len(at)), at]
        best = np.argsort(-upper)[:count]
        picks = np.array([[fronts[s][x[:, at[i]].argmax()] for s, x in zip(tails, shifted, strict=True)] for i in best])
        choice = self._choice(heads, combos[best], tails, picks)
        choice, exact = self._ascend(choice, a, fronts)
        return choice, exact, float(upper.max())

    def _heads(self, a: list[Floats], fronts: list[Ints]) -> tuple[list[int], Ints, Floats, Floats]:
        heads: list[int] = []
        combos = np.zeros((1, 0), dtype=np.int64)
        value, z = np.zeros(1), np.zeros(1)
        for s in self.sequence:
            front = fronts[s]
            if heads and (len(value) * len(front) > HEADS or len(heads) >= self.most):
                break
            left, right = np.divmod(np.arange(len(value) * len(front)), len(front))
            combos = np.concatenate([combos[left], front[right][:, None]], axis=1)
            value = value[left] + a[s][front[right]]
            z = z[left] + self.points[s].z[front[right]]
            heads.append(int(s))
            if len(self.points) > max(6, self.most):
                keep = frontier(value, z)
                combos, value, z = combos[keep], value[keep], z[keep]
        return heads, combos, value, z

    def _choice(self, heads: list[int], combos: Ints, tails: list[int], picks: Ints | None) -> Ints:
        choice = np.zeros((len(combos), len(self.points)), dtype=np.int64)
        choice[:, heads] = combos
        if picks is not None:
            choice[:, tails] = picks
        return choice

    def _ascend(self, choice: Ints, a: list[Floats], fronts: list[Ints]) -> tuple[Ints, Floats]:
        """Coordinate ascent on the true reduced cost of every chosen row."""
        z = np.sum([x.z[choice[:, s]] for s, x in enumerate(self.points)], axis=0)
        for _ in range(3):
            for s in self.sequence:
                front, zs = fronts[s], self.points[s].z
                rest = z - zs[choice[:, s]]
                new = front[(a[s][front] - xlogx(rest[:, None] + zs[front])).argmax(axis=1)]
                z = rest + zs[new]
                choice[:, s] = new
        exact = np.sum([a[s][choice[:, s]] for s in range(len(a))], axis=0) - xlogx(z)
        return choice, exact

    def rows(self, choice: Ints) -> tuple[Floats, Floats]:
        """Vectors v ∈ ∏ K_s and their μ(v)."""
        vectors = np.concatenate([x.heights[choice[:, s]] for s, x in enumerate(self.points)], axis=1)
        gain = np.sum([x.gain[choice[:, s]] for s, x in enumerate(self.points)], axis=0)
        z = np.sum([x.z[choice[:, s]] for s, x in enumerate(self.points)], axis=0)
        return vectors, gain - xlogx(z)


def couple(
    points: list[Points],
    p: Floats,
    start: Floats,
    *,
    duals: Floats | None = None,
    gap: float = 1e-8,
    smoothing: float = 0.0,
    batch: int = 40,
    rounds: int = 400,
    watch: Watch = FREE,
) -> Coupled:
    """max Σ_y θ_y μ(v^y), Σ θ v = 1, over rows in the product (docs/robust.md, section 4).

    `start` are rows (any scale) that make the LP feasible. Duals are smoothed towards the best ones seen [Wentges];
    any duals λ give
    the bound Σλ + max(0, price), because Σ_y θ_y ≤ 1.
    """
    product = Product(points)
    flat = p.ravel()
    lp = Mixture(p.size, None)
    # Scale rows to z = 1 so that weights are comparable.
    unit = start / (start @ flat)[:, None]
    lp.add(unit, xlogx(unit) @ flat)
    best_bound, centre = np.inf, duals
    for _ in range(rounds):
        if not lp.solve():
            break
        current = lp.dual[:-1].reshape(p.shape)
        if watch.over:
            break
        fresh = 0
        weight = smoothing if centre is not None else 0.0
        while True:
            trial = current if centre is None else weight * centre + (1.0 - weight) * current
            choice, _, upper = product.price(trial, batch)
            bound = float(trial.sum()) + max(upper, 0.0)
            if bound < best_bound:
                best_bound, centre = bound, trial
            vectors, mu = product.rows(choice)
            new = mu - vectors @ current.ravel() > 1e-10
            if new.any() or weight == 0.0:
                break
            weight = 0.0  # a smoothed point that yields nothing: price at the LP's own duals
        if watch is not FREE:
            on = lp.theta > 1e-13
            watch.keep(layout_of_rows(lp.theta[on, None] * lp.columns[on], p), lp.value, best_bound)
        watch.tell("coupled", lp.value, best_bound)
        fresh = int(new.sum())
        if best_bound - lp.value <= gap * max(abs(lp.value), 1e-9) or fresh == 0:
            break
        z = vectors[new] @ flat
        lp.forget(6 * p.size)
        lp.add(vectors[new] / z[:, None], mu[new] / z)
    on = lp.theta > 1e-13
    rows = lp.theta[on, None] * lp.columns[on]
    status = "optimal" if best_bound - lp.value <= gap * max(abs(lp.value), 1e-9) else "stopped"
    assert centre is not None
    return Coupled(rows, lp.value, best_bound, centre, status)
