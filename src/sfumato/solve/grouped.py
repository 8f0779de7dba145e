"""Several groups of rows at once: within a group the secrets are decoupled, between groups they share the column
sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np
import numpy.typing as npt

from sfumato.solve.arrays import Floats
from sfumato.solve.engine import simplex
from sfumato.solve.layout import Layout
from sfumato.solve.levelling import level
from sfumato.solve.pricing import Family
from sfumato.solve.watch import FREE, Watch

_INF = highspy.kHighsInf
Places = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A grouped design: one layout over all groups, the LP's objective, and a proved bound."""

    layout: Layout
    objective: float
    bound: float
    duals: Floats
    totals: Floats
    group: list[Layout]


class Grouped:
    """max Σ_s Σ_k Σ_h θ g_s(h) − Σ_k T_k φ(Z_k/T_k): rows of group k take their blocks from the families of group k
    (ours).

    Rows θ[s, k, h] ≥ 0 with Σ_{k,h} θ h = 1 for every s and Σ_h θ[s, k, h] = T_k; Z_k = Σ θ z. Jensen within each
    group makes this a bound
    for every mechanism whose rows lie in the union of the groups' products, and levelling within groups attains it
    nearly.
    −Tφ(Z/T) = min_τ τT − (1 + log τ)Z is kept as cuts.
    """

    def __init__(self, p: Floats) -> None:
        self.p = p
        self.shares = p.sum(axis=1)
        self.S, self.U = p.shape
        lp = simplex()
        none, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        for _ in range(p.size):
            lp.addRow(1.0, 1.0, 0, none, nothing)
        self._lp = lp
        self._rows = p.size
        self.families: list[Sequence[Family]] = []
        self._link: list[int] = []  # first link row of the group; its height row follows the S links
        self._columns = 0
        self._of: list[tuple[int, int]] = []  # (s, k) per column, (-1, k) for T, Z, w
        self._vector: list[Floats | None] = []
        self._cuts: list[list[float]] = []
        self._t: list[int] = []  # column of T_k; Z_k and w_k follow

    def add_group(self, families: Sequence[Family], start: bool = True) -> int:
        k = len(self.families)
        none, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        for _ in range(self.S + 1):
            self._lp.addRow(0.0, 0.0, 0, none, nothing)
        first = self._rows
        self._rows += self.S + 1
        self._link.append(first)
        links = np.arange(first, first + self.S, dtype=np.int32)
        self._put((-1, k), 0.0, 0.0, links, -np.ones(self.S))
        self._put((-1, k), 0.0, 0.0, np.array([first + self.S], dtype=np.int32), np.array([-1.0]))
        self._put((-1, k), 1.0, -_INF, none, nothing)
        self.families.append(families)
        self._cuts.append([])
        self._t.append(self._columns - 3)
        for tau in (1.0, 1.1, 1.25, 1.5, 2.0):
            self.add_cut(k, tau)
        if start:
            for s, family in enumerate(families):
                columns = family.start()[:2]  # the constants keep every total feasible
                self.add(s, k, columns, family.gain(columns))
        return k

    def add_cut(self, k: int, tau: float) -> None:
        """w_k ≤ τ·T_k − (1 + log τ)·Z_k."""
        at = self._t[k]
        self._lp.addRow(
            -_INF, 0.0, 3, np.array([at, at + 1, at + 2], dtype=np.int32), np.array([-tau, 1.0 + np.log(tau), 1.0])
        )
        self._rows += 1
        self._cuts[k].append(tau)

    def _put(self, of: tuple[int, int], cost: float, low: float, rows: Places, values: Floats) -> None:
        self._lp.addCol(cost, low, _INF, len(rows), rows, values)
        self._columns += 1
        self._of.append(of)
        self._vector.append(None)

    def add(self, s: int, k: int, columns: Floats, gains: Floats) -> None:
        """Columns of secret s in group k; gains are per unit of P̂_s."""
        count = len(columns)
        if not count:
            return
        first = self._link[k]
        z = columns @ self.p[s]
        full = np.concatenate([columns, np.ones((count, 1)), z[:, None]], axis=1)
        rows = np.concatenate([np.arange(s * self.U, (s + 1) * self.U), [first + s, first + self.S]]).astype(np.int32)
        self._lp.addCols(
            count,
            gains * self.shares[s],
            np.zeros(count),
            np.full(count, _INF),
            full.size,
            np.arange(count, dtype=np.int32) * full.shape[1],
            np.tile(rows, count),
            full.ravel(),
        )
        self._columns += count
        self._of += [(s, k)] * count
        self._vector += list(columns)

    def solve(self, method: int = 4) -> bool:
        self._lp.setOptionValue("simplex_strategy", method)
        self._lp.run()
        if self._lp.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            self._lp.clearSolver()
            self._lp.setOptionValue("simplex_strategy", 1)
            self._lp.run()
            if self._lp.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                return False
        solution = self._lp.getSolution()
        self.theta = np.array(solution.col_value)
        self.dual = np.array(solution.row_dual)
        self.objective = float(self._lp.getInfo().objective_function_value)
        return True

    def totals(self) -> Floats:
        return np.array([self.theta[t] for t in self._t])

    def true_objective(self) -> float:
        """The objective with −Tφ(Z/T) itself instead of its cuts."""
        total = self.objective
        for t in self._t:
            T, Z, w = self.theta[t : t + 3]
            total += -w - (Z * np.log(Z / T) if T > 1e-12 and Z > 0 else 0.0)
        return float(total)

    def tighten(self, tolerance: float) -> int:
        """Add the tangent at the current level of every group whose cuts are not tight."""
        added = 0
        for k, t in enumerate(self._t):
            T, Z, w = self.theta[t], self.theta[t + 1], self.theta[t + 2]
            if T > 1e-9 and w + Z * np.log(max(Z / T, 1e-300)) > tolerance * T:
                self.add_cut(k, Z / T)
                added += 1
        return added

    def duals(self) -> Floats:
        return self.dual[: self.p.size].reshape(self.p.shape)

    def extend(self, tolerance: float) -> int:
        """Price every (secret, group) at the LP's duals; returns how many columns came in."""
        lam, added = self.duals(), 0
        for k, families in enumerate(self.families):
            first = self._link[k]
            slope = float(self.dual[first + self.S])  # what a unit of height costs: 1 + log τ
            for s, family in enumerate(families):
                y = (lam[s] + slope * self.p[s]) / self.shares[s]
                priced = family.price(y, float(self.dual[first + s]) / self.shares[s], tolerance)
                self.add(s, k, priced.columns, priced.gains)
                added += len(priced.gains)
        return added

    def bound(self, lam: Floats | None = None) -> float:
        """Σλ + max_k max(0, τ_k + Σ_s max_h [g − λ·h − (1 + log τ_k) z]): weak duality, valid for any λ and τ_k > 0,
        because Σθ ≤ 1."""
        lam = self.duals() if lam is None else lam
        worst = 0.0
        for k, families in enumerate(self.families):
            slope = float(self.dual[self._link[k] + self.S])
            price = float(np.exp(slope - 1.0))
            for s, family in enumerate(families):
                price += self.shares[s] * family.ceiling((lam[s] + slope * self.p[s]) / self.shares[s], 0.0)
            worst = max(worst, price)
        return float(lam.sum()) + worst

    def run(self, *, gap: float = 1e-6, rounds: int = 200, tolerance: float = 1e-6, watch: Watch = FREE) -> None:
        """Column generation until the LP's objective stops moving by more than the gap."""
        last, still = -np.inf, 0
        for _ in range(rounds):
            if not self.solve():
                break
            cuts = self.tighten(1e-7)
            added = self.extend(tolerance)
            now = self.true_objective()
            still = still + 1 if now - last <= gap * abs(now) and cuts == 0 else 0
            last = max(now, last)
            if (added == 0 and cuts == 0) or still >= 8 or watch.over:
                break

    def layouts(self) -> list[Layout]:
        """One layout per group in use, in the order of the groups."""
        out = []
        for k, T in enumerate(self.totals()):
            if T < 1e-10:
                continue
            lengths, heights = [], []
            for s in range(self.S):
                at = [
                    j for j, of in enumerate(self._of) if j < len(self.theta) and of == (s, k) and self.theta[j] > 1e-13
                ]
                lengths.append(self.theta[at])
                heights.append(np.array([self._vector[j] for j in at]))
            out.append(Layout(float(T), tuple(lengths), tuple(heights)))
        return out


def concatenated(layouts: list[Layout], p: Floats) -> Layout:
    """Groups side by side, each levelled by itself."""
    parts = [level(x, p) for x in layouts]
    S = len(p)
    return Layout(
        sum(x.total for x in parts),
        tuple(np.concatenate([x.lengths[s] for x in parts]) for s in range(S)),
        tuple(np.concatenate([x.heights[s] for x in parts]) for s in range(S)),
    )
