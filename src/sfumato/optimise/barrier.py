"""Rows over a ball by Newton's method on a barrier: all rows at once, to the optimum of each.

For a pair of secrets and multipliers μ ≥ max v₁, m ≤ min v₂ write L₁ = Σ P̂(s₁,u)(μ − v₁)^κ, L₂ = Σ P̂(s₂,u)(v₂ −
m)^κ with κ = (α − 1)/α (½ for a χ² ball). R₁·v₁ ≤ μ − (L₁/β₁)^{1/κ} and R₂·v₂ ≥ m + (L₂/β₂)^{1/κ} where β₁ + β₂ = C
is shared (docs/robust.md, sections 5, 6 and 11; uncertainty/power_tilting.py), so the pair is private as soon as

    μ − E·m ≤ Φ(L₁, L₂) = min over β of (L₁/β₁)^{1/κ} + E·(L₂/β₂)^{1/κ}.

This is convex in (v, μ, m) jointly and exact at the best (μ, m). The cone is curved, so cuts approach it slowly; a few
dozen steps of Newton's method end at the maximiser.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.optimise.arrays import EMPTY, REPAIRED, Bools, Floats, Ints
from sfumato.optimise.budget import NUMBER, Budget, spend
from sfumato.optimise.cone import Cap, RatioCone, repaired
from sfumato.tolerances import BLOCK, LEAST
from sfumato.uncertainty import ChiSquareBall, RenyiBall
from sfumato.uncertainty.balls import SharedRadius
from sfumato.uncertainty.power_tilting import kappa

COLD, HEATING = 5.0, 8.0  # weight of the aim against the barrier: first, when rows are in the middle, and its growth
HOT, HOTTEST = 3e3, 1e6  # the last weight for each pair, which costs its inverse; and for all of them, in a calm search
NEWTON_STEPS, NEEDED = 70, 45  # of Newton's method at most, and about
STEP, SQUARED, PAIRED = 90, 13, 1200  # what a step takes: passes of its own, and over the squares and the pairs of rows
DECREMENT = 0.5  # of a step: below it the barrier problem is close enough to solved to be heated
DOMAIN = 0.01  # weight of log(μ − v) and log(v − m), which keep steps inside the domain of the roots
NEARER = 0.2  # of a slack, that one step must leave: from a hair's breadth off the boundary each step only doubles it
MINOR = 0.1  # weight of the logarithms of a row's numbers, and of a cap: they are many, and what they cost stays
GRID = np.geomspace(1e-2, 1e2, 7)  # distances of the first μ from the values it bounds, in units of a row
LEANS = (0.3, 1.0, 3.0)  # those of m, relative to them

Slopes = Callable[[Floats, Ints], Floats]
"""From unit rows [y, i], and which of the starts they come from, to the tangents of the aim there, less prices."""


def smooth(cone: RatioCone) -> bool:
    """Balls whose Φ is known: χ², Rényi of order above 1, and order ½."""
    within = cone.within
    if isinstance(within, RenyiBall):
        return within.budget > 0 and (within.alpha > 1 or within.alpha == 0.5)
    return isinstance(within, ChiSquareBall) and within.slack > 0


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Rows with the multipliers of their pairs."""

    v: Floats  # [y, i]
    mu: Floats  # [y, k]
    m: Floats

    def moved(self, step: Floats, t: Floats) -> State:
        n, k = self.v.shape[1], self.mu.shape[1]
        dv, dmu, dm = np.split(t[:, None] * step, [n, n + k], axis=1)
        return State(self.v + dv, self.mu + dmu, self.m + dm)

    def where(self, at: Bools | Ints) -> State:
        return State(self.v[at], self.mu[at], self.m[at])


class Barrier:
    """The barrier of given rows under all pairs of secrets: under a few, rows come to break the others, and repairing
    that leaves nothing of them."""

    def __init__(self, mover: BallMover, E: Floats) -> None:
        self.e, self.E = mover, E  # e^ε of each row [y, 1]
        self.s1, self.s2 = s1, s2 = np.nonzero(mover.cone.compared)
        self.at1, self.at2 = mover.cells[s1], mover.cells[s2]  # [k, u] → coordinate
        self.p1, self.p2 = mover.mass[s1], mover.mass[s2]  # 0 where a cell fills the place of none
        self.share = mover.share[s1], mover.share[s2]

    def where(self, rows: Bools | Ints) -> Barrier:
        return Barrier(self.e, self.E[rows])

    def lengths(self, x: State) -> tuple[Floats, Floats, Floats, Floats]:
        """μ − v₁ and v₂ − m [y, k, u], 1 where there is no cell, and the terms of L₁ and L₂."""
        a = np.where(self.p1 > 0, x.mu[:, :, None] - x.v[:, self.at1], 1.0)
        d = np.where(self.p2 > 0, x.v[:, self.at2] - x.m[:, :, None], 1.0)
        with np.errstate(invalid="ignore"):
            return a, d, self.p1 * a**self.e.kappa, self.p2 * d**self.e.kappa

    def slack(self, x: State, lengths: tuple[Floats, Floats, Floats, Floats] | None = None) -> tuple[Floats, Bools]:
        """Φ − μ + E·m of every constraint [y, j]; and whether a row is strictly inside."""
        a, d, of1, of2 = self.lengths(x) if lengths is None else lengths
        fine = np.asarray((a > 0).all((1, 2)) & (d > 0).all((1, 2)) & (x.v > 0).all(1))
        if self.e.cap is not None:
            fine &= (self.e.cap.room(x.v) > 0).all((1, 2))
        with np.errstate(invalid="ignore", divide="ignore"):
            s = self.e.phi(of1.sum(2), of2.sum(2), self.share, self.E)[0] - np.tile(x.mu - self.E * x.m, self.e.kinds)
        s = np.where(fine[:, None], s, -1.0)
        return s, np.asarray(fine & (s > 0).all(1))

    def value(self, x: State, costs: Floats, heat: Floats) -> tuple[Floats, Floats]:
        """The aim with the barrier, −∞ outside; and the slack of every constraint."""
        a, d, *_ = lengths = self.lengths(x)
        s, inside = self.slack(x, lengths)
        spend(18, a.size + d.size)
        terms = [(1.0, s), (DOMAIN, a * d), (MINOR, x.v)]
        if self.e.cap is not None:
            terms.append((MINOR / x.v.shape[1], self.e.cap.room(x.v)))
        logs = sum(w * np.log(np.where(inside, y.reshape(len(y), -1).T, 1.0)).sum(0) for w, y in terms)
        return np.where(inside, heat * (costs * x.v).sum(1) + logs, -np.inf), s

    def newton(self, x: State, costs: Floats, heat: Floats) -> tuple[Floats, Floats]:
        """The step that keeps the mass of each row, and its decrement.

        Of a pair only r₁·v, r₂·v (slopes of the L) and T₁·v, T₂·v (their curvature, tied to μ and m) enter: with (μ, m)
        eliminated a pair adds a form of rank 4 to a diagonal, and the system is as large as the row.
        """
        spend(STEP)
        spend(1, len(x.v) * (SQUARED * x.v.shape[1] ** 2 + PAIRED * len(self.s1)))
        vectors, form, pull = self._forms(x)
        solved, small, slant = _eliminated(form, pull)
        each, n = np.arange(x.v.shape[1]), x.v.shape[1]
        hessian, (r1, r2, t1, t2, first, second) = self._squares(vectors, small), vectors
        c1, c2, d1, d2 = np.moveaxis(slant[..., None], 2, 0)
        hessian[:, each, each] += self._gathered(t1, t2) + MINOR / x.v**2
        own = heat[:, None] * costs + MINOR / x.v + self._gathered(first, second)
        if self.e.cap is not None:
            slope, curve = self.e.cap.push(x.v)
            own, hessian = own + MINOR / n * slope, hessian + MINOR / n * curve
        hessian[:, each, each] += REPAIRED * hessian[:, each, each] + LEAST  # so that it can be inverted
        dv = self._solved(hessian, own + self._gathered(c1 * r1 + d1 * t1, c2 * r2 + d2 * t2))
        one, two = dv[:, self.at1], dv[:, self.at2]
        along = np.stack([(r1 * one).sum(2), (r2 * two).sum(2), (t1 * one).sum(2), (t2 * two).sum(2)], -1)
        moved = solved[..., 4] - (solved[..., :4] * along[:, :, None]).sum(3)
        step = np.concatenate([dv, moved[..., 0], moved[..., 1]], 1)
        return step, (own * dv).sum(1) + (pull * moved).sum((1, 2))

    def _tabled(self, of: Floats) -> Floats:
        """What is known of pairs [y, k, …] as [y, s₁, s₂, …]."""
        out = np.zeros((len(of), len(self.e.mass), len(self.e.mass), *of.shape[2:]))
        out[:, self.s1, self.s2] = of
        return out

    def _gathered(self, first: Floats, second: Floats) -> Floats:
        """Sums over pairs of what they add to the numbers of their first and of their second secret [y, i]."""
        both = self._tabled(first).sum(2) + self._tabled(second).sum(1)
        return self.e.shown(both.reshape(len(both), -1), 1)

    def _squares(self, vectors: tuple[Floats, ...], small: Floats) -> Floats:
        """The forms of all pairs as one form in the numbers of a row [y, i, i], block by block: a pair has two."""
        (y, _, U), S = vectors[0].shape, len(self.e.mass)
        one, two = (self._tabled(np.stack(vectors[i:4:2], 2)) for i in (0, 1))  # r and T [y, s₁, s₂, 2, u]
        weights = self._tabled(small)
        out = np.matmul(one.swapaxes(3, 4), np.matmul(weights[..., ::2, 1::2], two)).transpose(0, 1, 3, 2, 4)
        out = out + out.transpose(0, 3, 4, 1, 2)  # [y, s, u, s', u']
        for side, own in ((one, weights[..., ::2, ::2]), (two.swapaxes(1, 2), weights.swapaxes(1, 2)[..., 1::2, 1::2])):
            turned = np.matmul(own, side).reshape(y, S, 2 * S, U)
            of = np.matmul(side.reshape(y, S, 2 * S, U).swapaxes(2, 3), turned)
            out[:, np.arange(S), :, np.arange(S)] += of.swapaxes(0, 1)
        return self.e.shown(self.e.shown(out.reshape(y, S * U, S * U), 1), 2)

    def _forms(self, x: State) -> tuple[tuple[Floats, ...], Floats, Floats]:
        """Of every pair the vectors r₁, r₂, T₁, T₂ and the slopes by v₁, v₂ [y, k, u], the form in (r₁·v, r₂·v, μ, m),
        and the slopes by μ and m [y, k, 2]."""
        a, d, of1, of2 = self.lengths(x)
        kappa, E, shape = self.e.kappa, self.E[:, None], (len(x.v), self.e.kinds, x.mu.shape[1])
        phi, slopes, curves = self.e.phi(of1.sum(2), of2.sum(2), self.share, self.E)
        over = 1 / (phi - np.tile(x.mu - self.E * x.m, self.e.kinds)).reshape(shape)
        f1, f2, f11, f12, f22 = (f.reshape(shape) * over for f in (*slopes, *curves))
        r1, r2 = kappa * of1 / a, kappa * of2 / d
        c1, c2 = np.where(self.p1 > 0, DOMAIN / a, 0.0), np.where(self.p2 > 0, DOMAIN / d, 0.0)
        w1, w2 = f1.sum(1), f2.sum(1)
        t1, t2 = (w1[..., None] * (1 - kappa) * r1 + c1) / a, (w2[..., None] * (1 - kappa) * r2 + c2) / d
        R1, R2 = r1.sum(2)[:, None], r2.sum(2)[:, None]
        # L₁ moves by R₁μ − r₁·v, L₂ by r₂·v − R₂m, and the slack, relative to itself, by f₁L₁ + f₂L₂ − (μ − E·m)/slack
        l1, l2, slope = (-1, 0, R1, 0), (0, 1, 0, -R2), (-f1, f2, R1 * f1 - over, E * over - R2 * f2)
        form = np.empty((shape[0], shape[2], 4, 4))
        for i, j in itertools.combinations_with_replacement(range(4), 2):
            bend = l1[i] * l1[j] * f11 + (l1[i] * l2[j] + l2[i] * l1[j]) * f12 + l2[i] * l2[j] * f22
            form[..., i, j] = form[..., j, i] = (slope[i] * slope[j] - bend).sum(1)
        form[..., 2, 2] += t1.sum(2)
        form[..., 3, 3] += t2.sum(2)
        pull = np.stack([slope[2].sum(1) + c1.sum(2), slope[3].sum(1) - c2.sum(2)], -1)
        return (r1, r2, t1, t2, -w1[..., None] * r1 - c1, w2[..., None] * r2 + c2), form, pull

    def _solved(self, hessian: Floats, slope: Floats) -> Floats:
        """The step of rows that keeps their mass; one that is not finite is not taken."""
        p = self.e.p
        free, mass = np.moveaxis(np.linalg.solve(hessian, np.stack([slope, np.broadcast_to(p, slope.shape)], 2)), 2, 0)
        dv = free - (free @ p / (mass @ p))[:, None] * mass
        return np.where(np.isfinite(dv).all(1, keepdims=True), dv, 0.0)


class Capped:
    """The cap of a promise for any distribution: K·v_j − v_i of all numbers i, j of different secrets."""

    def __init__(self, cap: Cap, size: int) -> None:
        self.K, self.compared = cap.K, np.zeros((size, size), bool)
        for first, second in itertools.permutations(cap.numbers, 2):
            self.compared[np.ix_(first, second)] = True
        np.fill_diagonal(self.compared, False)  # a number that all secrets show

    def room(self, v: Floats) -> Floats:
        """[y, i, j], 1 where i and j are not compared."""
        return np.where(self.compared, self.K * v[:, None, :] - v[:, :, None], 1.0)

    def push(self, v: Floats) -> tuple[Floats, Floats]:
        """Slopes of the sum of its logarithms [y, i], and minus the second derivatives [y, i, j]."""
        over, each = np.where(self.compared, 1 / self.room(v), 0.0), np.arange(v.shape[1])
        square = over**2
        curve = -self.K * (square + square.transpose(0, 2, 1))
        curve[:, each, each] += self.K**2 * square.sum(1) + square.sum(2)
        return self.K * over.sum(1) - over.sum(2), curve


class BallMover:
    """Rows that maximise tangents of the aim over the private rows of a ball."""

    def __init__(self, cone: RatioCone) -> None:
        within = cone.within
        assert isinstance(within, SharedRadius)  # `smooth` says so
        self.cone, self.p = cone, cone.coordinates.p
        self.kappa = kappa(within.alpha)
        self.kinds = 1 if self.kappa > 0 else 2
        self.budget = within.budget  # T(B)
        self.cap = None if cone.cap is None or len(cone.cap.numbers) < 2 else Capped(cone.cap, len(self.p))
        pairs = float(np.count_nonzero(cone.compared))
        self.hot = HOT * pairs
        self.pace = NEEDED * NUMBER * (SQUARED * len(self.p) ** 2 + PAIRED * pairs)  # seconds that one row more takes
        self._layout(cone)

    def _layout(self, cone: RatioCone) -> None:
        """Coordinates and masses of every compared secret; where it has fewer than others one of its own stands for
        none, without mass and before itself, so that what is put there last is its own."""
        joint = cone.within.joint
        S, U = joint.shape
        names = np.tile(np.arange(U), S) if cone.reads == "useful" else np.full(S * U, -1)
        names[cone.coordinates.cell] = np.arange(len(self.p))
        names = names.reshape(S, U)[cone.secrets]
        mass = joint.p[cone.secrets].copy()
        for s in np.flatnonzero(mass.sum(1) <= 0):
            names[s, 1:], mass[s, 0] = -1, EMPTY
        self.share = mass.sum(1)
        order = np.argsort(names, axis=1, kind="stable")[:, -int((names >= 0).sum(1).max()) :]
        names, mass = (np.take_along_axis(x, order, 1) for x in (names, mass))
        own = np.where(names >= 0, names, len(self.p)).min(1, keepdims=True)
        self.cells, self.mass = np.where(names >= 0, names, own), np.where(names >= 0, mass, 0.0)
        own = np.flatnonzero(names >= 0)
        self.order = own[np.argsort(self.cells.ravel()[own], kind="stable")]  # places of cells, by their coordinates
        self.starts = np.searchsorted(self.cells.ravel()[self.order], np.arange(len(self.p)))

    def sharper(self) -> None:
        """Rows come nearer to the boundary from now on."""
        self.hot = min(HEATING * self.hot, HOTTEST)

    def shown(self, cells: Floats, axis: int) -> Floats:
        """Sums over the cells of secrets that show the same number, one in most cases, along an axis."""
        out = cells.take(self.order, axis)
        return np.asarray(out if len(self.order) == len(self.p) else np.add.reduceat(out, self.starts, axis))

    def phi(
        self, l1: Floats, l2: Floats, share: tuple[Floats, Floats], E: Floats
    ) -> tuple[Floats, tuple[Floats, ...], tuple[Floats, ...]]:
        """Φ [y, j], its slopes and its curvatures. κ > 0: by Hölder; κ = −1: linear in β, so at both of its ends."""
        kappa = self.kappa
        total = share[0] + share[1] + kappa * self.budget
        if kappa > 0:
            q, e = 1 / (1 + kappa), (1 + kappa) / kappa
            scale, weight = total ** (-1 / kappa), E ** (1 / e)
            A, B = l1**q, weight * l2**q
            a1, b1 = q * A / l1, q * B / l2
            a2, b2 = (q - 1) * a1 / l1, (q - 1) * b1 / l2
            low = scale * e * (A + B) ** (e - 2)
            f1, f2 = low * (A + B) * a1, low * (A + B) * b1
            f11, f22 = (low * ((e - 1) * x**2 + (A + B) * y) for x, y in ((a1, a2), (b1, b2)))
            return low * (A + B) ** 2 / e, (f1, f2), (f11, low * (e - 1) * a1 * b1, f22)
        most1, most2 = np.minimum(share[0], total), np.minimum(share[1], total)
        beta1 = np.concatenate([most1, total - most2], -1)
        beta2 = np.concatenate([total - most1, most2], -1)
        l1, l2 = np.tile(l1, 2), np.tile(l2, 2)
        h1, h2 = beta1 / l1, E * beta2 / l2
        return h1 + h2, (-h1 / l1, -h2 / l2), (2 * h1 / l1**2, np.zeros_like(h1), 2 * h2 / l2**2)

    def rows(self, slopes: Slopes, starts: Floats, budget: Budget) -> Floats:
        """The maximisers, private under all pairs of secrets but for what the repair mends."""
        out = [np.zeros((0, len(self.p)))]
        step = max(1, BLOCK // max(8 * self.mass.size**2 // len(self.mass), self.mass.size**2))
        for at in np.split(np.arange(len(starts)), range(step, len(starts), step)):
            if not budget.over:
                barrier = Barrier(self, np.full((len(at), 1), self.cone.E))
                inside = repaired(self.cone, starts[at], loose=True)
                out.append(self.solved(barrier, inside, slopes(starts[at], at), slopes, at, budget))
        return np.concatenate(out)

    @np.errstate(over="ignore", invalid="ignore")  # a step that overflows is not taken
    def solved(
        self, barrier: Barrier, v: Floats, costs: Floats, slopes: Slopes, at: Ints, budget: Budget, most: float = 0.0
    ) -> Floats:
        """Newton's method from inside; once the row is nearly there its tangent is taken anew, which cannot lose.
        It ends with a share `most` of the rows left: they are private too, and the last take longest."""
        x, heat = self._inside(barrier, v), np.full(len(v), COLD)
        out, live, costs, hot = x.v.copy(), np.arange(len(v)), costs.copy(), self.hot
        for _ in range(NEWTON_STEPS):
            step, decrement = barrier.newton(x, costs[live], heat[live])
            x, t = _searched(barrier, x, step, decrement, costs[live], heat[live])
            out[live] = x.v
            ready = (decrement < DECREMENT) | (t == 0)
            done = ready & (heat[live] >= hot)
            warm = live[ready & ~done]
            heat[warm] *= HEATING
            again = warm[heat[warm] ** 2 > COLD * hot]  # half of the way by its logarithm
            if len(again):
                costs[again] = slopes(out[again], at[again])
            if np.count_nonzero(~done) <= most * len(v) or budget.over:
                break
            if 4 * np.count_nonzero(done) >= len(live):
                stay = ~done
                live, x, barrier = live[stay], x.where(stay), barrier.where(stay)
        return np.where(np.isfinite(out).all(1, keepdims=True), out, 1.0)  # the constant row is private

    def _inside(self, barrier: Barrier, v: Floats) -> State:
        """Rows mixed with the constant until multipliers on a grid prove them strictly private."""
        x, fine = self._multipliers(barrier, 0.9 * v + 0.1)
        for _ in range(40):
            late = np.flatnonzero(~fine)
            if not len(late):
                break
            again, fine[late] = self._multipliers(barrier.where(late), 0.7 * x.v[late] + 0.3)
            for old, new in zip((x.v, x.mu, x.m), (again.v, again.mu, again.m), strict=True):
                old[late] = new
        return x

    def _multipliers(self, barrier: Barrier, v: Floats) -> tuple[State, Bools]:
        top = np.where(barrier.p1 > 0, v[:, barrier.at1], -np.inf).max(2)
        low = np.where(barrier.p2 > 0, v[:, barrier.at2], np.inf).min(2)
        best, mu, m = np.full(top.shape, -np.inf), top, low
        for above, lean in itertools.product(GRID, LEANS):
            x = State(v, top + above, low - above * lean)
            spend(15, 2 * len(v) * barrier.at1.shape[-2] * barrier.at1.shape[-1])
            s = barrier.slack(x)[0].reshape(len(v), self.kinds, -1).min(1)
            mu, m, best = np.where(s > best, x.mu, mu), np.where(s > best, x.m, m), np.maximum(best, s)
        return State(v, mu, m), np.asarray((best > 0).all(1))


def _eliminated(form: Floats, pull: Floats) -> tuple[Floats, Floats, Floats]:
    """The multipliers of a pair by (r₁·v, r₂·v, T₁·v, T₂·v) and without them [y, k, 2, 5]; the form in these four that
    is left, and its slopes."""
    cross = np.zeros((*pull.shape, 5))
    cross[..., :2], cross[..., 0, 2], cross[..., 1, 3], cross[..., 4] = form[..., 2:, :2], -1.0, -1.0, pull
    solved = _divided(form[..., 2:, 2:], cross)
    both = -(cross[..., 0, :4, None] * solved[..., 0, None, :] + cross[..., 1, :4, None] * solved[..., 1, None, :])
    small = both[..., :4].copy()
    small[..., :2, :2] += form[..., :2, :2]
    return solved, small, both[..., 4]


def _divided(forms: Floats, by: Floats) -> Floats:
    """forms⁻¹·by for forms in two multipliers [..., 2, 2]; nothing where a form cannot be inverted, as where both
    multipliers are far away from every value and no longer matter."""
    (a, b), (c, d) = (np.moveaxis(forms[..., i, :], -1, 0)[..., None] for i in (0, 1))
    with np.errstate(all="ignore"):
        out = np.stack([d * by[..., 0, :] - b * by[..., 1, :], a * by[..., 1, :] - c * by[..., 0, :]], -2)
        out = out / (a * d - b * c)[..., None, :]
    return np.where(np.isfinite(out), out, 0.0)


def _searched(
    barrier: Barrier, x: State, step: Floats, decrement: Floats, costs: Floats, heat: Floats
) -> tuple[State, Floats]:
    """As far along the step as the barrier's value rises enough and the boundary is not near; 0 where it never does."""
    n = x.v.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(step[:, :n] < 0, -x.v / step[:, :n], np.inf).min(1)
    t, (before, room) = np.minimum(1.0, 0.95 * reach), barrier.value(x, costs, heat)
    enough, late = before - REPAIRED * np.abs(before), np.arange(len(t))  # rounding of the value
    while (t[late] > REPAIRED).any():
        there = x.where(late).moved(step[late], t[late])
        after, left = barrier.where(late).value(there, costs[late], heat[late])
        good = (after >= enough[late] + 1e-4 * t[late] * decrement[late]) & (left >= NEARER * room[late]).all(1)
        late = late[~good]
        t[late] /= 2
    t[late] = 0.0
    return x.moved(step, t), t
