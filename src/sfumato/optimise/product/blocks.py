"""Two-level blocks: a linear programme for each secret, whole designs under one profile, and rows by price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from sfumato.optimise.arrays import DUST, REPAIRED, TINY, Floats, Ints, greatest_gap, xlogx
from sfumato.optimise.budget import Budget, spend
from sfumato.optimise.linear import DUAL, PRIMAL, Mixture
from sfumato.optimise.product.profiles import Arrangement, level, relaxed, windows
from sfumato.optimise.product.two_level import LISTED, NODES, BlockBall, Heights, Profile, TwoLevel, bend, possible

# --- a programme for each secret, max Σ θ_h g(h) with Σ θ_h h = 1 and Σ θ_h = T, tied by T alone ----------------------


KEPT = 12  # columns kept for each row of a programme
GRID = 4001  # places at which T is looked for


class Strand:
    """One secret's programme: its columns so far and its last solution; before the first, a mixture of constants."""

    mixture: Mixture | None = None

    def __init__(self, family: TwoLevel, total: float) -> None:
        self.family, self.constants = family, family.ends
        low, high = self.constants[:, 0]
        share = float(np.clip((1.0 - total * low) / max(high - low, TINY), 0.0, total))
        theta = np.array([total - share, share])
        self.used, self.value = (self.constants, theta), float(family.gain(self.constants) @ theta)
        self.dual = np.zeros(self.constants.shape[1] + 1)

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

    def solve(self) -> None:
        assert self.mixture is not None
        found, of = self.mixture.lp.solve(self._strategy), self.mixture
        if found.optimal:
            of.weights, self.dual, self.value = found.x, found.row_dual, float(of.worth @ found.x)
            self.used = of.points[:, :-1], found.x

    def advance(self, tolerance: float, rounds: int, budget: Budget) -> None:
        """Solve, and then price until no column is worth the tolerance or another turn would not fit into the time."""
        assert self.mixture is not None
        for turn in range(rounds):
            started = budget.clock()
            self.solve()
            if turn == rounds - 1 or budget.left <= budget.clock() - started:
                return
            blocks = self.family.price(self.dual[:-1], float(self.dual[-1]), tolerance)
            if not len(blocks):
                return
            self.mixture.forget(KEPT * len(self.dual), self.dual, firm=len(self.constants))
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
            if not step and left.left <= took / max(i, 1):
                break
            strands[s].at(total)
            part = left.part(1.0 / (len(order) - i))
            strands[s].advance(tolerance, turns, part)
            took, done = budget.clock() - started, max(done, i + 1)
        value = float(np.log(total) + shares @ [s.value for s in strands])
        if layout is None or value > best:
            best, layout = value, laid(strands, total)
        budget.tell("product", best)
        if step == 0 and done == len(order) and budget.left > each * done:
            continue
        duals = shares @ np.array([[s.dual[:-1].sum(), s.dual[-1]] for s in strands])
        roof = np.minimum(roof, duals[0] + duals[1] * grid)
        after = float(grid[int(np.argmax(np.log(grid) + roof))])
        if abs(after - total) <= grid[1] - grid[0] or done < len(order) or budget.left - each * done <= took:
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


STEPS = 512  # of the budget at which a finished layout is compared
PROOF = 3e-6  # nats left for the proof on a grid and the rounding
LEVEL = 5e-3  # of the value: what a total that is not level may lose before rows are grouped
WIDE = 2_000  # cells beyond which heights are tabled more coarsely and T stays what the relaxation says


class Families:
    """The two-level blocks of every secret under a profile, and a first total T."""

    def __init__(self, ball: BlockBall, p: Floats, epsilon: float, profile: Profile) -> None:
        E, self.p, self.shares = math.exp(epsilon), p, p.sum(1)
        self.wide = p.size > WIDE
        self.low, self.high = 1 / E, 1 / (1 + profile.drop)
        laws, secrets = p / self.shares[:, None], np.arange(len(p))
        measures = [ball.measure(s) if hasattr(ball, "measure") else laws[s] for s in secrets]
        masses = [bend(129) if self.wide else possible(*x) for x in zip(laws, measures, strict=True)]
        heights = Heights.several(ball, secrets, self.shares, E, profile, 17 if self.wide else NODES, masses)
        envelopes, self.total, _ = relaxed(heights, self.shares, self.low, self.high)
        rng, few = np.random.default_rng(0), p.shape[1] <= LISTED
        self.blocks = [
            TwoLevel(q, h, None if few else partial(windows, q, env.support(self.total), rng))
            for q, h, env in zip(laws, heights, envelopes, strict=True)
        ]


def two_level(families: Families, budget: Budget, *, rough: bool = False, each: float = 0.0) -> Arrangement:
    """The best two-level blocks found under a profile, their atoms ordered so that the total is level.

    Where one secret dominates the total cannot be level, and rows are grouped by its block. rough=True does a part of
    the work: enough to compare profiles. `each` are the seconds that a secret costs later.
    """
    p, less = families.p, rough or families.wide
    more = {"tolerance": 1e-3, "rounds": 8, "steps": 3 if rough else 1} if less else {}
    apart = decoupled(
        families.blocks, families.shares, families.total, families.low, families.high, budget, each=each,
        **more,  # type: ignore[arg-type]
    )
    layout = level(apart, p, passes=2, trials=60) if less else level(apart, p)
    lost = apart.if_level(p) - layout.value(p)
    if less or lost <= LEVEL * layout.value(p) or budget.over or len(p) < 2:
        return layout
    other = Groups(families, layout).best(budget)
    return other if other.value(p) > layout.value(p) else layout


# --- rows grouped by the block of one dominating secret, whose height the other secrets cannot make level -------------
# max Σ_s Σ_k Σ_h θ g_s(h) − Σ_k T_k φ(Z_k/T_k), θ[s, k, h] ≥ 0 with Σ_{k,h} θ h = 1 for every s and Σ_h θ[s, k, h] =
# T_k: in group k the dominating secret has one block, so its weight there is T_k itself, and the others are decoupled
# as in docs/robust.md, section 3. Jensen within each group makes this a bound for mixtures of these rows, and levelling
# within groups nearly attains it. Tφ(Z/T) is the least Σ_τ t_τ φ(τ) with Σ t_τ = T and Σ t_τ τ = Z: columns.


LEVELS = 25  # τ of a group's first columns; the mean that it comes to have joins them
GAIN = 2e-5  # of the value: a round that gains less is the last


class Groups:
    """A group for each block that a layout has of the dominating secret, the head."""

    def __init__(self, families: Families, seed: Arrangement) -> None:
        self.of, self.p, self.seed, (S, U) = families, families.p, seed, families.p.shape
        self.head = int(np.argmax([np.ptp(x.start() @ row) for x, row in zip(families.blocks, self.p, strict=True)]))
        blocks, self.others = seed.heights[self.head], [s for s in range(S) if s != self.head]
        self.heads = blocks[np.unique(blocks.round(9), axis=0, return_index=True)[1]]
        self.pool = Mixture(np.repeat([1.0, 0.0], [S * U, len(self.heads) * S]), accuracy=REPAIRED)
        self.owner: Ints = np.zeros((0, 2), int)  # secret and group of each column
        for k in range(len(self.heads)):
            self._level(k, np.geomspace(1.0, 1.0 / families.low, LEVELS))
            for s in self.others:
                self._offer(s, k, np.concatenate([families.blocks[s].ends, seed.heights[s]]))

    def _level(self, k: int, tau: Floats) -> None:
        self._offer(self.head, k, np.tile(self.heads[k], (len(tau), 1)), tau)

    def _offer(self, s: int, k: int, blocks: Floats, tau: Floats | float = 0.0) -> None:
        """Columns: blocks, what they add to a secret's length in the group, less T, and, at the head's place, to Z."""
        U, start = self.p.shape[1], self.p.size + k * len(self.p)
        points = np.zeros((len(blocks), len(self.pool.mean)))
        points[:, s * U : (s + 1) * U] = blocks
        points[:, start : start + len(self.p)] = -1.0 if s == self.head else np.arange(len(self.p)) == s
        points[:, start + self.head] = blocks @ self.p[s] - tau
        self.pool.offer(points, xlogx(blocks) @ self.p[s] - xlogx(np.asarray(tau)))
        self.owner = np.concatenate([self.owner, np.tile([s, k], (len(blocks), 1))])

    def best(self, budget: Budget) -> Arrangement:
        """Blocks by price until nothing gains; then the groups side by side, each levelled by itself."""
        value = -np.inf
        while (found := self.pool.lp.solve(PRIMAL)).optimal:
            self.pool.weights, gained, value = found.x, found.value - value, found.value
            if budget.over or gained <= GAIN * abs(value):
                break
            for k in range(len(self.heads)):
                self._priced(k, found.row_dual)
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
            self._offer(s, k, self.of.blocks[s].price(y / share, float(links[s]) / share, GAIN))

    def _group(self, k: int) -> Arrangement:
        """What is in use of a group, its lengths those of the head."""
        S, U = self.p.shape
        on = [(self.pool.weights > DUST) & (self.owner == (s, k)).all(1) for s in range(S)]
        theta = [self.pool.weights[x] for x in on]
        total = float(theta[self.head].sum())
        heights = tuple(self.pool.points[x, s * U : (s + 1) * U] for s, x in enumerate(on))
        return Arrangement(total, tuple(x * (total / max(x.sum(), TINY)) for x in theta), heights)


def safe(layout: Arrangement, ball: BlockBall, p: Floats, epsilon: float) -> Arrangement:
    """The layout, mixed with the constant law so that any two of its atoms are ε-private at every step of the budget.

    Two-level atoms have their extreme means in closed form; comparing the greatest at the right end of a step with the
    least at its left end is what a proof on a grid will do.
    """
    E, grid = math.exp(epsilon - PROOF), ball.budget * bend(STEPS + 1)
    top, low = np.zeros((len(p), STEPS)), np.zeros((len(p), STEPS))
    for s, h in enumerate(layout.heights):
        share, lo = float(p[s].sum()), h.min(axis=1)
        d = h.max(axis=1) - lo
        w = np.clip((h > (lo + d / 2)[:, None]) @ (p[s] / share), 0.0, 1.0)[:, None]
        top[s] = (lo[:, None] + d[:, None] * ball.masses(w, share, grid[None, 1:])[1]).max(axis=0)
        low[s] = (lo[:, None] + d[:, None] * ball.masses(w, share, ball.budget - grid[None, :-1])[0]).min(axis=0)
    excess = greatest_gap(top, low, E).max() if len(p) > 1 else -1.0
    if excess <= 0:
        return layout
    odds = 1.001 * float(excess) * layout.total / (E - 1.0)
    share = odds / (1.0 + odds)
    heights = tuple((1.0 - share) * h + share / layout.total for h in layout.heights)
    return Arrangement(layout.total, layout.lengths, heights)


# ----------------------------------------------------------------------------------------------------------------------
# Rows of two-level blocks by price: the secrets of a row are tied by its mean alone, through a tangent of φ
# The reduced gain of a row is Σ_s a_s(h_s) − φ(Σ_s z_s(h_s)), a_s = g_s − λ_s·h. As φ(z) ≥ (1 + log τ)z − τ for every
# τ, the blocks that are best for a slope 1 + log τ are found secret by secret; exchanging one secret's block at a time
# among all that were found then raises the reduced gain itself.


SLOPES = 12  # tangents of φ between the least and the greatest mean of a row
NEXT = 3  # blocks of a secret for each slope
PASSES = 3  # over the secrets
STRANGERS = 48  # rows of any blocks that are exchanged too: tangents do not reach rows between two corners


class ProductMover:
    """The rows of product form under one profile."""

    def __init__(self, families: Families) -> None:
        self.p, self.shares, self.families = families.p, families.shares, families.blocks
        self.rng = np.random.default_rng(1)
        self.slopes = 1.0 + np.log(np.geomspace(1.0 / families.high, 1.0 / families.low, SLOPES))

    def rows(self, prices: Floats, budget: Budget) -> Floats:
        """Rows over all cells for prices λ[s, u]; none once the time is over."""
        blocks, a, z = [], [], []
        for s in range(len(self.p)):
            if budget.over:
                return np.zeros((0, self.p.size))
            h = self._blocks(s, prices[s])
            blocks.append(h)
            a.append(xlogx(h) @ self.p[s] - h @ prices[s])
            z.append(h @ self.p[s])
        first = self._chosen(a, z)
        random = np.stack([self.rng.integers(0, len(gain), STRANGERS) for gain in a], axis=1)
        better = self._exchanged(np.concatenate([first, random]), a, z)
        both = np.unique(np.concatenate([first, better]), axis=0)
        return np.concatenate([h[both[:, s]] for s, h in enumerate(blocks)], axis=1)

    def _blocks(self, s: int, prices: Floats) -> Floats:
        """Candidates of one secret: the best few for every slope."""
        family, y = self.families[s], prices / self.shares[s]
        if family.every is None:
            return np.concatenate([family.best(y + c * family.q, NEXT) for c in self.slopes])
        h = family.every
        spend(12, h.size)
        reduced = family.worth - h @ y - self.slopes[:, None] * (h @ family.q)
        few = min(NEXT, len(h))
        return np.asarray(h[np.unique(np.argpartition(-reduced, few - 1, axis=1)[:, :few])])

    def _chosen(self, a: list[Floats], z: list[Floats]) -> Ints:
        """A row for each slope and rank: every secret's block of that rank for that slope [row, s]."""
        ranks = []
        for gain, mean in zip(a, z, strict=True):
            order = np.argsort(self.slopes[:, None] * mean - gain, axis=1)
            ranks.append(order[:, np.minimum(np.arange(NEXT), order.shape[1] - 1)].ravel())
        return np.stack(ranks, axis=1)

    def _exchanged(self, choice: Ints, a: list[Floats], z: list[Floats]) -> Ints:
        total = np.sum([mean[choice[:, s]] for s, mean in enumerate(z)], axis=0)
        for s in (*range(len(a)),) * PASSES:
            spend(8, len(choice) * len(a[s]))
            rest = total - z[s][choice[:, s]]
            choice[:, s] = (a[s] - xlogx(rest[:, None] + z[s])).argmax(1)
            total = rest + z[s][choice[:, s]]
        return choice
