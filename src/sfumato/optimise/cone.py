"""Private rows as a convex cone: coordinates that matter, cuts at the worst cases, and mixing until private.

A row v = Q(y|·) keeps a promise iff a·v ≤ 0 for every a of a family that the promise knows through its worst cases.
What the search needs of a promise is here; what is sealed is proved elsewhere, from the integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sfumato.joint import Joint
from sfumato.libraries import scipy
from sfumato.optimise.arrays import DUST, SEALING, Floats, Ints
from sfumato.optimise.budget import NUMBER, spend
from sfumato.uncertainty import ChiSquareBall
from sfumato.uncertainty.sets import Anything, WorstPairs
from sfumato.uncertainty.shifts import CLOSE, ROUGH, Shifts, others, worst_shifts

MIXINGS = 8  # the first leaves a row private at the pairs found, the others at the pairs which that uncovers
NEAR = 0.05  # of a unit row: worst cases of the first rows this close to binding are cut at from the start
SETTLED = 1e-4  # of a unit row: the excess at which rows are left to the repair
SPARE = 1e-6  # of what is mixed in, so that rounding does not leave a row outside by a digit


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """The numbers that a row consists of, with their mass under P̂, and how they spread over all cells.

    Cells of a secret that never occur take the mean of its other cells: nothing is lost (docs/robust.md, section 6).
    Secrets that never occur share one number of mass 0: their conditionals are free within a ball, so only a constant
    is private for them. A mechanism that reads the useful variable alone has one number for each of its values.
    """

    p: Floats  # [i], sums to 1
    lift: scipy.sparse.csr_array  # [i, cell]: rows over all cells are x @ lift
    cell: Ints  # a cell that shows each number

    @staticmethod
    def of(joint: Joint, reads: str = "both") -> Coordinates:
        S, U = joint.shape
        if reads == "useful":
            return Coordinates(joint.p_useful, scipy.sparse.csr_array(np.tile(np.eye(U), (1, S))), np.arange(U))
        p, seen = joint.p, (joint.p.sum(1) > 0)[:, None]
        cell, empty = np.flatnonzero(p.ravel() > 0), np.flatnonzero(np.repeat(~seen, U))
        blank_s, blank_u = np.nonzero((p <= 0) & seen)
        start, stop = np.searchsorted(cell, np.stack([blank_s, blank_s + 1]) * U)  # the numbers of each one's secret
        blank = np.repeat(np.arange(len(blank_s)), stop - start)
        k = np.arange(len(blank)) + (stop - np.cumsum(stop - start))[blank]
        i = np.concatenate([np.arange(len(cell)), k, np.full(len(empty), len(cell))])
        j = np.concatenate([cell, (blank_s * U + blank_u)[blank], empty])
        mean = joint.useful_given_secret[blank_s[blank], cell[k] % U]
        share = np.concatenate([np.ones(len(cell)), mean, np.ones(len(empty))])
        cell = np.append(cell, empty[:1])
        return Coordinates(p.ravel()[cell], scipy.sparse.csr_array((share, (i, j)), shape=(len(cell), p.size)), cell)

    @staticmethod
    def count(joint: Joint, reads: str = "both") -> int:
        """How many numbers that would be."""
        if reads == "useful":
            return joint.useful.size
        return int(np.count_nonzero(joint.p > 0)) + bool((joint.p_secret <= 0).any())

    @property
    def whole(self) -> bool:
        """Whether every cell is a number of its own: then there is nothing to spread."""
        return len(self.cell) == self.lift.shape[1] and bool((self.cell == np.arange(len(self.cell))).all())

    def full(self, x: Floats) -> Floats:
        """Rows over all cells [y, cell]."""
        return x if self.whole else np.asarray(x @ self.lift)

    def taken(self, rows: Floats) -> Floats:
        """The coordinates of rows over all cells."""
        return np.asarray(rows[:, self.cell])

    def normals(self, laws: Floats) -> Floats:
        """What weights of all cells [k, s, u] are as weights of the numbers: a·v is the same in both."""
        flat = laws.reshape(len(laws), self.lift.shape[1])
        return flat if self.whole else np.asarray((self.lift @ flat.T).T)

    def unit(self, x: Floats) -> Floats:
        """Rows scaled to mass 1 under P̂."""
        return np.asarray(x / (x @ self.p)[:, None])


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """Inequalities a·v ≤ 0 that hold for every private row, and by how much row y[k] of those asked exceeds them."""

    y: Ints
    normals: Floats  # [k, i]
    excess: Floats  # a·v of the unit row

    def above(self, least: float) -> Cuts:
        """Those whose excess is greater."""
        k = np.flatnonzero(self.excess > least)
        return Cuts(self.y[k], self.normals[k], self.excess[k])

    def and_also(self, more: Cuts) -> Cuts:
        return Cuts(*(np.concatenate([getattr(self, k), getattr(more, k)]) for k in ("y", "normals", "excess")))

    def greatest(self, count: int) -> Floats:
        """Per row the greatest excess; 0 where no cut was found."""
        out = np.zeros(count)
        np.maximum.at(out, self.y, self.excess)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Cap:
    """Level ≤ κ for any distribution: v_i ≤ K·v_j, K = e^κ, for numbers i and j of different secrets.

    Cells that never occur count too, as their `Coordinates` do: means lie between the cells that they are means of. A
    mechanism that reads the useful variable alone shows every number with every secret.
    """

    K: float
    numbers: tuple[Ints, ...]  # of each secret

    @staticmethod
    def of(joint: Joint, coordinates: Coordinates, kappa: float, reads: str) -> Cap:
        (S, U), own = joint.shape, coordinates.cell // joint.shape[1]
        alike = (np.arange(U),) * min(S, 2)  # any two secrets are
        each = alike if reads == "useful" else tuple(np.flatnonzero(own == s) for s in np.unique(own))
        return Cap(float(np.exp(kappa - SEALING)), each)

    def cuts(self, x: Floats, rise: float, room: float) -> Cuts:
        """For every secret of a row its greatest number against the least of another, and the other way round; scaled
        so that adding the constant row once takes `rise` from each, as from all cuts of the cone."""
        top = np.stack([n[x[:, n].argmax(1)] for n in self.numbers], 1)  # [y, s]
        bottom = np.stack([n[x[:, n].argmin(1)] for n in self.numbers], 1)
        high, low = np.take_along_axis(x, top, 1), np.take_along_axis(x, bottom, 1)
        gap = high[:, :, None] - self.K * low[:, None, :]
        gap[:, np.arange(len(self.numbers)), np.arange(len(self.numbers))] = -np.inf
        worst = (gap == gap.max(2, keepdims=True)) | (gap == gap.max(1, keepdims=True))
        scale = rise / (self.K - 1.0)
        k, s1, s2 = np.nonzero(worst & np.isfinite(gap) & (scale * gap > -room))
        normals, each = np.zeros((len(k), x.shape[1])), np.arange(len(k))
        normals[each, top[k, s1]] += scale
        normals[each, bottom[k, s2]] -= scale * self.K
        return Cuts(k, normals, scale * gap[k, s1, s2])


class Cone(Protocol):
    """The private rows of a promise."""

    coordinates: Coordinates
    rise: float  # every cut loses this much when the constant row is added once: e^ε − 1 in the cones here

    def cuts(self, x: Floats, *, loose: bool = False, room: float = 0.0) -> Cuts:
        """The worst cases of each row whose excess is above −room, `loose` for pairs that are nearly the worst."""


def repaired(cone: Cone, x: Floats, flat: Floats | None = None, *, loose: bool = False) -> Floats:
    """Rows of mass 1, each mixed with the constant row until it is private: an excess e is gone after adding e/rise.

    `flat` are private rows to mix with instead. loose=True asks for pairs that are nearly the worst: enough for a pool
    whose rows are repaired once more when used.
    """
    x, live = cone.coordinates.unit(x), np.arange(len(x))
    flat = None if flat is None else cone.coordinates.unit(flat)
    for _ in range(MIXINGS):
        cuts, odds = cone.cuts(x[live], loose=loose), np.zeros(len(live))
        fall = cone.rise if flat is None else np.maximum(-(cuts.normals * flat[live[cuts.y]]).sum(1), DUST)
        np.maximum.at(odds, cuts.y, cuts.excess / fall)
        live, odds = live[odds > 0.0], odds[odds > 0.0, None] * (1 + SPARE) + DUST
        if not len(live):
            break
        x[live] = (x[live] + odds * (1.0 if flat is None else flat[live])) / (1 + odds)
    return x


def settled(cone: Cone, x: Floats) -> Floats:
    """Rows of mass 1 on the boundary of the cone: as much of the constant row as they need, or less of it.

    A row is a mixture of the steeper one and the constant, so an aim that is convex in rows does not lose.
    """
    x = cone.coordinates.unit(x)
    worst = cone.cuts(x, room=np.inf)
    excess = np.full(len(x), -np.inf)
    np.maximum.at(excess, worst.y, worst.excess)
    odds = np.where(np.isfinite(excess), excess, 0.0) / cone.rise * (1.0 + SPARE * np.sign(excess))
    odds = np.maximum(odds, np.maximum(-x.min(1), -0.999))[:, None]
    return repaired(cone, np.maximum(x + odds, 0.0))


class _OverSet:
    """What cones over a set share: the level that is aimed at, and a cap for any distribution or none."""

    free = False  # whether the cap is the promise

    def __init__(
        self, within: WorstPairs, epsilon: float, reads: str, at_most: float | None, margin: float = SEALING
    ) -> None:
        self.within, self.reads, self.coordinates = within, reads, Coordinates.of(within.joint, reads)
        self.E = float(np.exp(epsilon - min(margin, epsilon / 2)))
        self.rise = self.E - 1.0
        self.cap = None if at_most is None else Cap.of(within.joint, self.coordinates, at_most, reads)

    def cells(self, x: Floats) -> Floats:
        """Rows over all cells [y, s, u]."""
        return self.coordinates.full(x).reshape(-1, *self.within.joint.shape)

    def cuts(self, x: Floats, *, loose: bool = False, room: float = 0.0) -> Cuts:
        if self.cap is None:
            return self._over_the_set(x, loose, room)
        capped = self.cap.cuts(x, self.rise, room)
        return capped if self.free else capped.and_also(self._over_the_set(x, loose, room))

    def _over_the_set(self, x: Floats, loose: bool, room: float) -> Cuts:
        raise NotImplementedError


class RatioCone(_OverSet):
    """ε-RLDP over a set: R₁·v_{s₁} ≤ E·R₂·v_{s₂} for all s₁ ≠ s₂ and conditionals that occur together in it."""

    NODES, MOST = 9, 12  # splits of the budget in the screen; pairs of a row to search exactly, or twice as many
    FINE, LAST = 33, 40  # the same where a row shall be private to the last pair
    ROUGH = 1e-3  # of a step of Newton's method, in the screen
    NEARLY = 1e-2  # of the split, for loose pairs: a pair near the worst is as good a cut
    DOUBT = 2e-2  # nats by which the screen may be off
    SEARCHED, SCREENED = 400, 100  # passes over the values of all pairs, and over those of all secrets and splits

    def __init__(
        self, within: WorstPairs, epsilon: float, reads: str = "both", at_most: float | None = None, *,
        closely: bool = False,
    ) -> None:
        joint, self.free = within.joint, isinstance(within, Anything)
        super().__init__(within, epsilon, reads, epsilon if self.free else at_most)
        nodes, self.most = (self.FINE, self.LAST) if closely else (self.NODES, self.MOST)
        seen, empty = np.flatnonzero(joint.p_secret > 0), np.flatnonzero(joint.p_secret <= 0)
        self.screening, spread = hasattr(within, "means"), getattr(within, "budget", 0.0) > 0.0
        free = spread or hasattr(within, "extreme")  # what never occurs may do anything, in balls and simplices
        empty = empty[: (2 if reads == "useful" else 1) if free else 0]  # they share a number, or any two are alike
        self.secrets = np.concatenate([seen, empty])
        self.compared = ~np.eye(len(self.secrets), dtype=bool) | getattr(within, "same_secret", False)
        self.part = np.sin(np.linspace(0.0, np.pi / 2, nodes)) ** 2 if spread else np.ones(1)

    def cost(self, rows: int) -> float:
        """Seconds that it takes to repair so many rows: they are looked at twice, before and after the mixing."""
        count, U = len(self.secrets), self.within.joint.shape[1]
        few = min(count * (count - 1), 2 * self.most)
        screen = 0 if few < 2 * self.most or not self.screening else self.SCREENED * count * len(self.part)
        return 2.0 * rows * NUMBER * 2 * U * (screen + self.SEARCHED * few)

    def _over_the_set(self, x: Floats, loose: bool, room: float) -> Cuts:
        S, U = self.within.joint.shape
        v = self.cells(x)
        y, s1, s2 = self._pairs(x, self.most if loose else 2 * self.most, room)
        if not len(y):
            return Cuts(y, np.zeros((0, len(self.coordinates.p))), np.zeros(0))
        close = {"close": self.NEARLY} if loose else {}
        found = self.within.pairs(v[y, s1], v[y, s2], s1, s2, **close)
        spend(self.SEARCHED, 2 * len(y) * U)
        excess = (found.first * v[y, s1]).sum(1) - self.E * (found.second * v[y, s2]).sum(1)
        k = np.flatnonzero(excess > -room)
        normal = np.zeros((len(k), S, U))
        at = np.arange(len(k))
        normal[at, s1[k]] += found.first[k]
        normal[at, s2[k]] -= self.E * found.second[k]  # of the same secret where simplices ask for that too
        return Cuts(y[k], self.coordinates.normals(normal), excess[k])

    def with_empty(self, x: Floats) -> Floats:
        """Unit rows with the least and the greatest number that secrets which never occur may answer, and with their
        own brought in between: hardly any of the budget goes to such a secret, so all of it may go to another one, s,
        and M_s ≤ E·x and x ≤ E·m_s must hold there."""
        seen = self.secrets[self.within.joint.p_secret[self.secrets] > 0]
        if not self.screening or len(seen) == len(self.secrets):
            return x
        values, whole = self.cells(x)[:, seen, None, :], np.full(1, self.within.budget)  # type: ignore[attr-defined]
        means = self.within.means  # type: ignore[attr-defined]
        most, least = means(values, seen[:, None], whole).max((1, 2)), -means(-values, seen[:, None], whole).max((1, 2))
        low, high = most / self.E, least * self.E
        if self.cap is not None:
            low = np.maximum(low, x[:, :-1].max(1) / self.cap.K)
            high = np.minimum(high, x[:, :-1].min(1) * self.cap.K)
        low, high = low * (1.0 + SPARE), high * (1.0 - SPARE)
        low, high = np.where(low > high, 0.5 * (low + high), [low, high])
        own = np.clip(x[:, -1], low, high)
        return np.concatenate([np.column_stack([x[:, :-1], number]) for number in (own, low, high)])

    def _pairs(self, x: Floats, most: int, room: float) -> tuple[Ints, Ints, Ints]:
        """Rows and pairs of secrets to look at: all while they are few, else those that the screen finds worst."""
        count, worst = len(self.secrets), np.broadcast_to(self.compared, (len(x), *self.compared.shape))
        if count * (count - 1) > most and self.screening and len(x):
            flat = self.screened(x).reshape(len(x), -1)
            worst, best = np.zeros(flat.shape, bool), np.argpartition(-flat, most, axis=1)[:, :most]
            np.put_along_axis(worst, best, np.take_along_axis(flat, best, 1) > -room - self.DOUBT, 1)
        y, first, second = np.nonzero(worst.reshape(len(x), count, count))
        return y, self.secrets[first], self.secrets[second]

    def screened(self, x: Floats) -> Floats:
        """About the greatest M_{s₁} − E·m_{s₂} of every pair [y, s₁, s₂], relative to the mean of the row, over a grid
        of splits of the budget, even in the angle, in which both sides are smooth; −∞ where two are not compared."""
        values, s = self.cells(x)[:, self.secrets, None, :], self.secrets[:, None]
        taken = self.within.budget * self.part  # type: ignore[attr-defined]
        spend(self.SCREENED, 2 * values.size * len(taken))
        means = self.within.means  # type: ignore[attr-defined]
        top, low = means(values, s, taken, close=self.ROUGH), -means(-values, s, taken, close=self.ROUGH)
        out = np.full((len(x), len(s), len(s)), -np.inf)
        for k in range(len(taken)):
            np.maximum(out, top[:, :, None, k] - self.E * low[:, None, :, -1 - k], out=out)
        return np.where(self.compared, out, -np.inf)


# --- rows that move no belief about the secret too far: pointwise maximal leakage, and LIP as its two-sided form ------


class BeliefCone(_OverSet):
    """P(y|s) ≤ E·P(y) for every secret and every P in the set; with `below` also P(y) ≤ E·P(y|s).

    Every P in the set is a cut: a = P(·|s) − E·P has a·1 = 1 − E, so a constant row mixed in lowers each of them alike.
    At one distribution the cuts are one for each secret; over a χ² ball the worst P of each is searched.
    """

    MARGIN = 2e-6  # nats: less than a proof by intervals can be relied on to find
    SEARCHED = 3_500  # passes over the values of a row for each secret and half

    def __init__(
        self, within: WorstPairs, epsilon: float, reads: str = "both", *, below: bool = False,
        at_most: float | None = None,
    ) -> None:
        super().__init__(within, epsilon, reads, at_most, self.MARGIN)
        joint, self.halves = within.joint, (True, False) if below else (True,)
        seen, empty = np.flatnonzero(joint.p_secret > 0), np.flatnonzero(joint.p_secret <= 0)
        self.ball = within if isinstance(within, ChiSquareBall) and within.radius > 0 else None
        self.secrets = np.concatenate([seen, empty[:1]]) if self.ball else seen  # those that never occur are alike
        self.secrets = self.secrets if joint.secret.size > 1 else self.secrets[:0]
        self.fixed = None if self.ball else self._fixed()

    def _over_the_set(self, x: Floats, loose: bool, room: float) -> Cuts:
        if self.fixed is not None:
            excess = x @ self.fixed.T
            y, k = np.nonzero(excess > -room)
            return Cuts(y, self.fixed[k], excess[y, k])
        assert self.ball is not None
        y, s, half = (i.ravel() for i in np.indices((len(x), len(self.secrets), len(self.halves))))
        if not len(y):
            return Cuts(y, np.zeros((0, x.shape[1])), np.zeros(0))
        rows = x if self.reads == "useful" else self.cells(x)
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

    def cost(self, rows: int) -> float:
        """Seconds that it takes to repair so many rows over a ball."""
        every = rows * len(self.secrets) * len(self.halves) * len(self.coordinates.p)
        return 0.0 if self.ball is None else 2.0 * NUMBER * self.SEARCHED * every

    def _fixed(self) -> Floats:
        """All cuts at the one distribution."""
        joint = self.within.joint
        S, U = joint.shape
        given = np.zeros((len(self.secrets), S, U))
        given[np.arange(len(self.secrets)), self.secrets] = joint.useful_given_secret[self.secrets]
        own, all_of_it = self.coordinates.normals(given), self.coordinates.normals(joint.p[None])
        return np.concatenate([own - self.E * all_of_it if up else all_of_it - self.E * own for up in self.halves])
