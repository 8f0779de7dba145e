"""Two-level blocks side by side: arrangements, a linear programme for each secret, whole designs under one profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from sfumato.mechanism.table import pieces_at
from sfumato.optimise.arrays import DUST, REPAIRED, Floats, Ints, xlogx
from sfumato.optimise.budget import FREE, NUMBER, Budget, spend
from sfumato.optimise.linear import DUAL, LP_PASSES, PRIMAL, Mixture
from sfumato.optimise.product.two_level import BlockBall, BlockSet, Heights, Profile, TwoLevel, bend, possible, relaxed
from sfumato.tolerances import LEAST
from sfumato.uncertainty.sets import greatest_gap


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """A mechanism as intervals: output y is a cell of the common refinement of |S| partitions of [0, T].

    Q(dt | s, u) = heights[s][i, u] dt for t in the i-th interval of secret s, so Σ_i lengths[s][i]·heights[s][i, u] is
    1. Numbers kept: about |S||U|² instead of |Y||S||U| (ours).
    """

    total: float
    lengths: tuple[Floats, ...]  # per secret [i]
    heights: tuple[Floats, ...]  # per secret [i, u]

    def cells(self) -> tuple[Floats, npt.NDArray[np.int32]]:
        """Lengths of the common refinement and, per cell and secret, the index of the atom there."""
        ends = [np.cumsum(w) for w in self.lengths]
        ends = [e * (self.total / e[-1]) for e in ends]
        cuts = np.unique(np.concatenate([[0.0, self.total], *ends]))
        apart = np.concatenate([[True], np.diff(cuts) > DUST * self.total])  # LP lengths carry as much noise
        cuts = cuts[apart]
        cuts[-1] = self.total
        middle = (cuts[1:] + cuts[:-1]) / 2
        return np.diff(cuts), pieces_at(ends, middle, "right")

    def rows(self) -> Floats:
        """Q[y, s·|U| + u]; at most Σ_s (atoms of s − 1) + 1 rows."""
        length, index = self.cells()
        rows = length[:, None] * np.concatenate([h[index[:, s]] for s, h in enumerate(self.heights)], axis=1)
        lost = rows.sum(axis=0) <= 0  # atoms too short to be told apart carried all of a column
        rows[:, lost] = length[:, None]
        return np.asarray(rows / rows.sum(axis=0))

    def gain(self, p: Floats) -> float:
        """What I(X;Y) would be if the total height were 1 throughout."""
        atoms = zip(self.lengths, self.heights, p, strict=True)
        return sum(float(w @ (xlogx(h) @ row)) for w, h, row in atoms)

    def value(self, p: Floats) -> float:
        """I(X;Y) in nats without building the rows."""
        length, index = self.cells()
        z = np.zeros(len(length))
        for s, h in enumerate(self.heights):
            z += (h @ p[s])[index[:, s]]
        return self.gain(p) - float(length @ xlogx(z))


# --- order the atoms of every secret so that the total height Σ_s z_s is as level as possible -------------------------


AT_ONCE = 4096  # atoms of all secrets that are looked at together
CELLS = 4096  # of [0, T], on which the total is kept: a secret costs its own atoms only


def level(
    layout: Arrangement, p: Floats, *, passes: int = 4, trials: int = 400, budget: Budget = FREE
) -> Arrangement:
    """Reorder atoms to raise −∫φ(Σ_s z_s), by coordinate descent on ∫(Σ_s z_s)²: docs/robust.md, section 3 (ours)."""
    rng, z = np.random.default_rng(0), [h @ p[s] for s, h in enumerate(layout.heights)]
    knots = np.linspace(0.0, layout.total, CELLS + 1)
    spread = [float(w @ (x - w @ x / layout.total) ** 2) for w, x in zip(layout.lengths, z, strict=True)]
    orders: list[Ints] = [np.argsort(x) for x in z]

    def shown(s: int) -> Floats:
        ends, middle = np.cumsum(layout.lengths[s][orders[s]]), (knots[1:] + knots[:-1]) / 2
        return np.asarray(z[s][orders[s]][np.minimum(np.searchsorted(ends, middle), len(ends) - 1)])

    best, total = layout, np.full(CELLS, sum(float(x[0]) for x in z if len(x) == 1))
    for turn in range(passes):
        for s in (int(s) for s in np.argsort(-np.array(spread)) if len(z[s]) > 1):
            if budget.over:
                return best
            total = total - shown(s) if turn else total
            rest = np.append(0.0, np.cumsum(total)) * (layout.total / CELLS)
            orders[s] = _best_order(layout.lengths[s], z[s], orders[s], knots, rest, trials, rng)
            total = total + shown(s)
        candidate = Arrangement(
            layout.total,
            tuple(w[o] for w, o in zip(layout.lengths, orders, strict=True)),
            tuple(h[o] for h, o in zip(layout.heights, orders, strict=True)),
        )
        if candidate.value(p) > best.value(p) + DUST:
            best = candidate
        elif turn:
            break
    return best


def _best_order(
    w: Floats, z: Floats, old: Ints, knots: Floats, rest: Floats, trials: int, rng: np.random.Generator
) -> Ints:
    """The order with the least Σ_i z_i ∫_{interval i} rest: the old one, those by height, and random ones."""
    tries = np.argsort(rng.random((trials, len(z))), axis=1)
    tries = np.vstack([old, np.argsort(z), np.argsort(-z), tries])
    spend(10, tries.size)
    below = np.interp(np.cumsum(w[tries], axis=1), knots, rest)
    score = (z[tries] * np.diff(below, axis=1, prepend=0.0)).sum(axis=1)
    return np.asarray(tries[int(np.argmin(score))])


# --- a programme for each secret, max Σ θ_h g(h) with Σ θ_h h = 1 and Σ θ_h = T, tied by T alone ----------------------


COLUMNS_KEPT = 12  # columns kept for each row of a programme
GRID = 4001  # places at which T is looked for


class Strand:
    """One secret's programme: its columns so far and its last solution; before the first, a mixture of constants."""

    mixture: Mixture | None = None

    def __init__(self, family: TwoLevel, total: float) -> None:
        self.family, self.constants = family, family.ends
        low, high = self.constants[:, 0]
        share = float(np.clip((1.0 - total * low) / max(high - low, LEAST), 0.0, total))
        theta = np.array([total - share, share])
        self.used, self.value = (self.constants, theta), float(family.gain(self.constants) @ theta)
        self.dual = np.zeros(self.constants.shape[1] + 1)

    @property
    def foretold(self) -> float:
        """Seconds of its first programme, about: to make its columns takes as long as to solve it."""
        k = len(self.dual) - 1
        return 2 * LP_PASSES * NUMBER * k**2 * (2 + 2 * max(2, WINDOWS // k))

    def _offer(self, blocks: Floats) -> None:
        assert self.mixture is not None
        self.mixture.offer(np.pad(blocks, ((0, 0), (0, 1)), constant_values=1.0), self.family.gain(blocks))
        self._strategy = PRIMAL

    def at(self, total: float) -> None:
        """Another T, or the first one."""
        k = len(self.dual) - 1
        if self.mixture is None:
            self.mixture = Mixture(np.append(np.ones(k), total), accuracy=REPAIRED)
            self._offer(self.family.start())
        else:
            self.mixture.lp.h.changeRowBounds(k, total, total)
        self._strategy = DUAL

    def advance(self, tolerance: float, rounds: int, budget: Budget, whole: Budget) -> None:
        """Solve, and then price until no column is worth the tolerance or another turn would not fit into the time; a
        programme that takes all of the `whole` is broken off."""
        of = self.mixture
        assert of is not None
        for turn in range(rounds):
            started, found = budget.clock(), of.lp.solve(self._strategy, whole)
            if found.optimal:
                of.weights, self.dual, self.value = found.x, found.row_dual, float(of.worth @ found.x)
                self.used = of.points[:, :-1], found.x
            if turn == rounds - 1 or budget.left <= budget.clock() - started:
                return
            blocks = self.family.best(self.dual[:-1], above=float(self.dual[-1]) + tolerance)
            if not len(blocks):
                return
            of.forget(COLUMNS_KEPT * len(self.dual), self.dual, firm=len(self.constants))
            self._offer(blocks)


def decoupled(
    families: Sequence[TwoLevel], shares: Floats, total: float, low: float, high: float, budget: Budget, *,
    tolerance: float = 1e-5, rounds: int = 30, steps: int = 8, each: float = 0.0,
) -> Arrangement:
    """max over T of log T + Σ_s P̂_s G_s(T): each solution is a line over ΣG, the next T maximises log T under them.

    All are solved once before any is priced, common secrets first, each with an equal part of the time that is left;
    those that it does not reach keep their constants, and a step of T for which it does not suffice is not begun.
    `each` are the seconds that every secret with more than constants costs later: they are kept.
    """
    strands, order = [Strand(family, total) for family in families], np.argsort(-shares, kind="stable")
    best, layout, grid = -np.inf, None, np.geomspace(low, high, GRID)
    roof, took, done = np.full(GRID, np.inf), 0.0, 0
    for step in range(steps + 1):
        started, turns = budget.clock(), 1 if step == 0 else rounds if step == 1 else max(rounds // 3, 2)
        for i, s in enumerate(order):
            left = budget.less(each * (i + 1 if not step else done))
            if not step and (left.left <= took / max(i, 1) or not left.firm.fits(strands[s].foretold)):
                break
            strands[s].at(total)
            strands[s].advance(tolerance, turns, left.part(1.0 / (len(order) - i)), left)
            took, done = budget.clock() - started, max(done, i + 1)
        value = float(np.log(total) + shares @ [s.value for s in strands])
        if layout is None or value > best:
            best, layout = value, laid(strands, total)
        budget.tell("product", best)
        if step == 0 and done == len(order) and not budget.less(each * done).over:
            continue
        duals = shares @ np.array([[s.dual[:-1].sum(), s.dual[-1]] for s in strands])
        roof = np.minimum(roof, duals[0] + duals[1] * grid)
        after = float(grid[int(np.argmax(np.log(grid) + roof))])
        if abs(after - total) <= grid[1] - grid[0] or done < len(order) or budget.less(each * done).left <= took:
            break
        total = after
    assert layout is not None
    return layout


def laid(strands: list[Strand], total: float) -> Arrangement:
    """The atoms in use, side by side on [0, T]."""
    lengths, heights = [], []
    for s in strands:
        blocks, theta = s.used
        on = theta * blocks.max(1) > DUST  # a short atom may be a tall one
        lengths.append(theta[on] * (total / theta[on].sum()))
        heights.append(blocks[on] / (lengths[-1] @ blocks[on]))
    return Arrangement(total, tuple(lengths), tuple(heights))


# --- whole designs of two-level blocks under one profile, for tables of any size --------------------------------------


BUDGET_STEPS = 512  # of the budget at which a finished layout is compared
PROOF = 3e-6  # nats left for the proof and the rounding
NEARLY_LEVEL = 5e-3  # of the value: what a total that is not level may lose before rows are grouped
WINDOWS = 250  # sets of each mass that start a programme: runs of a few circular orders of U
WIDE = 2_000  # cells beyond which heights are tabled more coarsely and T stays what the relaxation says


def windows(q: Floats, masses: Floats, rng: np.random.Generator) -> Floats:
    """Runs of values in several circular orders, each of a mass near one asked for; single values, and all but one."""
    k = len(q)
    out = [np.eye(k), 1.0 - np.eye(k)]
    for turn in range(max(2, WINDOWS // k)):
        order = rng.permutation(k) if turn else np.argsort(-q)
        ends = np.concatenate([[0.0], np.cumsum(np.tile(q[order], 2))])
        start, place = np.arange(k), np.argsort(order)
        for w in np.unique(masses):
            if not 0 < w < 1:
                continue
            goal = ends[start] + w
            stop = np.minimum(np.searchsorted(ends, goal), 2 * k)
            stop -= (goal - ends[stop - 1] < ends[stop] - goal) & (stop - 1 > start)
            size = np.clip(stop - start, 1, max(k - 1, 1))
            out.append(((place[None, :] - start[:, None]) % k < size[:, None]).astype(float))
    sets = np.unique(np.concatenate(out), axis=0)
    return np.asarray(sets[sets.any(1) & (sets < 1).any(1)])


class Families:
    """The two-level blocks of every secret under a profile, and a first total T."""

    def __init__(self, ball: BlockSet, p: Floats, epsilon: float, profile: Profile, budget: Budget = FREE) -> None:
        E, self.p, self.shares = math.exp(epsilon), p, p.sum(1)
        self.wide = p.size > WIDE
        self.low, self.high = 1 / E, 1 / (1 + profile.drop)
        laws, secrets = p / self.shares[:, None], np.arange(len(p))
        measures = [ball.measure(s) if hasattr(ball, "measure") else laws[s] for s in range(len(p))]
        masses = [bend(129) if self.wide else possible(*x) for x in zip(laws, measures, strict=True)]
        nodes = 17 if self.wide else Heights.nodes
        heights = Heights.several(ball, secrets, self.shares, E, profile, nodes, masses, budget)
        envelopes, self.total, _ = relaxed(heights, self.shares, self.low, self.high, budget)
        rng = np.random.default_rng(0)
        self.blocks = [
            TwoLevel(q, h, partial(windows, q, env.support(self.total), rng))
            for q, h, env in zip(laws, heights, envelopes, strict=True)
        ]


def two_level(families: Families, budget: Budget, *, rough: bool = False, each: float = 0.0) -> Arrangement:
    """The best two-level blocks found under a profile, their atoms ordered so that the total is level.

    Where one secret dominates it cannot be: rows are grouped by its block. rough=True: enough to compare profiles.
    """
    p, less = families.p, rough or families.wide
    more = {"tolerance": 1e-3, "rounds": 8, "steps": 3 if rough else 1} if less else {}
    apart = decoupled(
        families.blocks, families.shares, families.total, families.low, families.high, budget, each=each,
        **more,  # type: ignore[arg-type]
    )
    layout = level(apart, p, passes=2, trials=60, budget=budget.firm) if less else level(apart, p, budget=budget.firm)
    lost = apart.gain(p) + float(np.log(apart.total)) - layout.value(p)  # against a total that could be made level
    if less or lost <= NEARLY_LEVEL * layout.value(p) or budget.over or len(p) < 2:
        return layout
    other = Groups(families, layout).best(budget)
    return other if other.value(p) > layout.value(p) else layout


# --- rows grouped by the block of one dominating secret, whose height the other secrets cannot make level -------------
# max Σ_s Σ_k Σ_h θ g_s(h) − Σ_k T_k φ(Z_k/T_k), θ[s, k, h] ≥ 0 with Σ_{k,h} θ h = 1 for every s and Σ_h θ[s, k, h] =
# T_k: in group k the dominating secret has one block, so its weight there is T_k itself (docs/robust.md, section 4).
# Levelling groups nearly attains that value. Tφ(Z/T) is the least Σ_τ t_τ φ(τ) with Σ t_τ = T and Σ t_τ τ = Z: columns.


LEVELS = 25  # τ of a group's first columns; the mean that it comes to have joins them
ROUND_GAIN = 2e-5  # of the value: a round that gains less opens groups, and is the last where none pays
OPENED, MOST_ROUNDS = 6, 40  # groups at a time, and rounds at most


class Groups:
    """A group for each block that a layout has of the dominating secret, the head, and for others that pay."""

    def __init__(self, families: Families, seed: Arrangement) -> None:
        self.of, self.p, self.seed, (S, U) = families, families.p, seed, families.p.shape
        self.head = int(np.argmax([np.ptp(x.start() @ row) for x, row in zip(families.blocks, self.p, strict=True)]))
        blocks, self.others = seed.heights[self.head], [s for s in range(S) if s != self.head]
        self.heads, self.tau = np.zeros((0, U)), np.geomspace(1.0, 1.0 / families.low, LEVELS)
        self.pool = Mixture(np.ones(S * U), accuracy=REPAIRED)
        self.owner: Ints = np.zeros((0, 2), int)  # secret and group of each column
        self._open(blocks[np.unique(blocks.round(9), axis=0, return_index=True)[1]])

    def _open(self, heads: Floats) -> None:
        first, self.heads = len(self.heads), np.concatenate([self.heads, heads])
        self.pool.ask(np.zeros(len(heads) * len(self.p)))
        for k in range(first, len(self.heads)):
            self._level(k, self.tau)
            for s in self.others:
                self._offer(s, k, np.concatenate([self.of.blocks[s].ends, self.seed.heights[s]]))

    def _level(self, k: int, tau: Floats) -> None:
        self._offer(self.head, k, np.tile(self.heads[k], (len(tau), 1)), tau)

    def _offer(self, s: int, k: int, blocks: Floats, tau: Floats | float = 0.0) -> None:
        """Columns: blocks, what they add to a secret's length in the group, less T, and, at the head's place, to Z."""
        U, start = self.p.shape[1], self.p.size + k * len(self.p)
        points = np.zeros((len(blocks), len(self.pool.mean)))
        points[:, s * U : (s + 1) * U] = blocks
        points[:, start : start + len(self.p)] = -1.0 if s == self.head else np.arange(len(self.p)) == s
        points[:, start + self.head] = blocks @ self.p[s] - tau
        self.pool.offer(points, xlogx(blocks) @ self.p[s] - xlogx(tau))
        self.owner = np.concatenate([self.owner, np.tile([s, k], (len(blocks), 1))])

    def best(self, budget: Budget) -> Arrangement:
        """Blocks by price until nothing gains; then the groups side by side, each levelled by itself."""
        value = -np.inf
        for _ in range(MOST_ROUNDS):
            if not (found := self.pool.lp.solve(PRIMAL, budget)).optimal:
                break
            self.pool.weights, gained, value = found.x, found.value - value, found.value
            still = gained <= ROUND_GAIN * abs(value)
            more = self._paying(found.row_dual) if still else self.heads[:0]
            if budget.over or (still and not len(more)):
                break
            for k in range(len(self.heads)):
                self._priced(k, found.row_dual)
            self._open(more)
        groups = [self._group(k) for k in range(len(self.heads))]
        parts = [level(x, self.p) for x in groups if x.total > 1e-10]
        return self.seed if not parts else Arrangement(
            sum(x.total for x in parts),
            tuple(np.concatenate([x.lengths[s] for x in parts]) for s in range(len(self.p))),
            tuple(np.concatenate([x.heights[s] for x in parts]) for s in range(len(self.p))),
        )

    def _priced(self, k: int, dual: Floats) -> None:
        group, (S, U) = self._group(k), self.p.shape
        if group.total > REPAIRED:
            mean = sum(float(w @ (h @ q)) for w, h, q in zip(group.lengths, group.heights, self.p, strict=True))
            self._level(k, np.array([mean / group.total]))
        links = dual[S * U + k * S :][:S]
        for s in self.others:
            y = dual[s * U : (s + 1) * U] + links[self.head] * self.p[s]
            share = self.of.shares[s]
            self._offer(s, k, self.of.blocks[s].best(y / share, above=float(links[s]) / share + ROUND_GAIN))

    def _paying(self, dual: Floats) -> Floats:
        """Blocks of the head that would pay as groups, the other secrets having what is best at each level τ."""
        worth, slopes = self.tau[:, None], 1.0 + np.log(self.tau)
        for s in [*self.others, self.head]:
            family, y, share = self.of.blocks[s], dual[s * self.p.shape[1] :][: self.p.shape[1]], self.of.shares[s]
            blocks = family.best_of_means(y / share, slopes, OPENED)
            reduced = xlogx(blocks) @ self.p[s] - blocks @ y - slopes[:, None] * (blocks @ self.p[s])
            worth = worth + (reduced if s == self.head else reduced.max(1, keepdims=True))
        new = np.abs(blocks[:, None] - self.heads).max(2).min(1) > REPAIRED
        order = np.argsort(-np.where(new, worth.min(0), -np.inf))[:OPENED]
        return np.asarray(blocks[order[(new & (worth.min(0) > ROUND_GAIN))[order]]])

    def _group(self, k: int) -> Arrangement:
        """What is in use of a group, its lengths those of the head."""
        S, U = self.p.shape
        on = [(self.pool.weights > DUST) & (self.owner == (s, k)).all(1) for s in range(S)]
        theta = [self.pool.weights[x] for x in on]
        total = float(theta[self.head].sum())
        heights = tuple(self.pool.points[x, s * U : (s + 1) * U] for s, x in enumerate(on))
        return Arrangement(total, tuple(x * (total / max(x.sum(), LEAST)) for x in theta), heights)


def _two_levels(h: Floats, p: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Of a secret's atoms: the lower level, how far the upper one is above it, with which chance, and P̂(s)."""
    least, share = h.min(axis=1), float(p.sum())
    rise = h.max(axis=1) - least
    w = np.clip((h > (least + rise / 2)[:, None]) @ (p / share), 0.0, 1.0)
    return least, rise, w, np.full(len(h), share)


def safe(layout: Arrangement, ball: BlockBall, p: Floats, epsilon: float) -> Arrangement:
    """The layout, mixed with the constant law so that any two of its atoms are ε-private at every step of the budget.

    Two-level atoms have their extreme means in closed form; the greatest at the right end of a step is compared with
    the least at its left end.
    """
    E, grid = math.exp(epsilon - PROOF), ball.budget * bend(BUDGET_STEPS + 1)
    top, low = np.zeros((len(p), BUDGET_STEPS)), np.zeros((len(p), BUDGET_STEPS))
    for some in np.array_split(np.arange(len(p)), sum(map(len, layout.heights)) // AT_ONCE + 1):
        parts = [_two_levels(layout.heights[s], p[s]) for s in some]
        least, rise, w, share = (np.concatenate(x)[:, None] for x in zip(*parts, strict=True))
        begins, i = np.cumsum([0, *(len(x) for x, *_ in parts[:-1])]), np.flatnonzero(rise > 0)
        lower, upper = (np.repeat(least, BUDGET_STEPS, 1) for _ in range(2))  # constants stay what they are
        for at, mass in zip((lower, upper), ball.masses(w[i], share[i], grid[None, 1:]), strict=True):
            at[i] += rise[i] * mass
        top[some] = np.maximum.reduceat(upper, begins)
        low[some] = np.minimum.reduceat(lower, begins)[:, ::-1]  # what the first leaves is on the grid as well
    excess = greatest_gap(top, low, E).max() if len(p) > 1 else -1.0
    if excess <= 0:
        return layout
    odds = 1.001 * float(excess) * layout.total / (E - 1.0)
    mixed = odds / (1.0 + odds)
    heights = tuple((1.0 - mixed) * h + mixed / layout.total for h in layout.heights)
    return Arrangement(layout.total, layout.lengths, heights)
