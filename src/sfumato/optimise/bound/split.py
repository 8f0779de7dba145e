"""The split bound: every pair of secrets shares the slack in one way, and rows are a product over secrets again."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import Floats, entropy, xlogx
from sfumato.optimise.bound.slack import Slack, reach
from sfumato.optimise.bound.strand import STRAND, BoundStrand, begin
from sfumato.optimise.budget import FREE, PASS, Budget, spend
from sfumato.optimise.linear import INFINITY, LinearProgramme
from sfumato.tolerances import SLIP

LARGE = 0.35  # share from which one secret dominates: prices that fit t = 1 fail for its own families
LEAN = 0.42  # of the slack for M, the rest for m: M grows faster with its part
EDGES = np.array([0.0, 0.008, 0.04, 0.12, 0.3, 0.6, 1.0])  # of log t in units of ε: families of a distinguished secret
PRICES = 12  # steps of prices at most
WORTHWHILE = 0.3  # of what secrets stand to gain on average, from which one is looked at again
CLOSE = 2e-3  # nats that prices stand to gain when they are left
REFINED, MOST = 3, 16  # rounds of branch and bound at first, and for the worst family twice as many each time it is
WORTHLESS = 2e-4  # relative: what many rounds must gain
NEAR = 1.1  # t from which cells made for the own roof or floor say more than those of t = 1
ROOTS = 0.35  # of the time, for tables at t = 1
SPARE = 2.0  # times what the own table of a family gains: what the others have to lose there
ASIDE = 0.02  # from the best shift, where the families are seen that hold it


class Split:
    """Secrets with about half of the slack each, less for M than for m: any M and m have all of it together.

    Rows with a distinguished secret s0 and t in [t₁, t₂] are a family: roof E/t₁ for the others, floor 1/t₂ for s0. A
    table made for a higher roof or a lower floor serves for the tighter family too.
    """

    def __init__(self, p: Floats, slack: Slack, epsilon: float) -> None:
        self.shares, self.E, self.epsilon = p.sum(axis=1), float(np.exp(epsilon)), epsilon
        self.largest, self.T = int(self.shares.argmax()), float(np.exp(-0.5 * epsilon))
        self.strands = [
            BoundStrand(
                row[row > 0] / share, slack.kappa, slack.given(share, LEAN), slack.given(share, 1.0 - LEAN), self.E
            )
            for row, share in zip(p, self.shares.tolist(), strict=True)
        ]
        self.t, self.order = np.exp(epsilon * EDGES), np.argsort(-self.shares).tolist()
        self.rest: list[list[Floats]] = [[] for _ in self.strands]  # tables [s][interval of t], s not distinguished
        self.own: list[list[Floats]] = [[] for _ in self.strands]  # and distinguished
        self.need = [0.0] * (len(self.t) - 1)  # per interval, what the others' tables need not tell apart
        self.rounds = [REFINED] * (len(self.t) - 1)  # of the next refinement of an interval

    def improve(self, budget: Budget) -> None:
        """Prices of all secrets at the length T that balances them, as long as there is much to gain.

        T·R + log T is greatest at T = −1/R, R = Σ P̂_s r_s. A secret is looked at again where it stands to gain a good
        part of what the others do.
        """
        gain = np.full(len(self.strands), np.inf)
        for _ in range(PRICES):
            for s in np.flatnonzero(gain >= WORTHWHILE * gain.mean()):
                self.strands[s].judge(self.T)
            slope = float(self.shares @ [s.r for s in self.strands])
            self.T = float(np.clip(-1.0 / min(slope, -1.0), 1.0 / self.E, 1.0))
            if budget.over:
                break
            gain = self.shares * [s.steer(self.T) for s in self.strands]
            if gain.sum() < CLOSE:
                break

    def families(self, budget: Budget) -> float:
        """Tables at t = 1, those of all families from what they know, then better ones for the worst family, while time
        is left and it gains."""
        count = len(self.t) - 1
        self._roots(budget.part(ROOTS))
        self.own = [[self._table(s, 1, count - 1, 0, FREE)] * count for s in range(len(self.strands))]
        for k in range(count - 1, -1, -1):  # far ones first: near ones are little worse than t = 1 without
            for s in self.order if k < count - 1 else []:
                self._tighten(s, 1, k, 0, budget)
            rise = self.shares * [_top(own[k]) - _top(rest[0]) for own, rest in zip(self.own, self.rest, strict=True)]
            self.need[k] = SPARE * float((rise / (1.0 - self.shares)).max())
            for s in self.order if k else []:
                self._tighten(s, 0, k, 0, budget)
        best = np.inf
        while True:
            value, places = self.assembled()
            if budget.over or (value > best * (1.0 - WORTHLESS) and max(self.rounds[k] for _, k in places) > MOST):
                return min(best, value)
            best = min(best, value)
            for s0, k in sorted(places, key=lambda x: -x[1]):
                self._refine(s0, k, budget)

    def _roots(self, budget: Budget) -> None:
        """Tables at floor 1 and roof E; the one that is farthest from what is attained is made better."""
        for s in self.order:
            self.rest[s] = [self._table(s, 0, 0, 0, FREE)] * (len(self.t) - 1)
        gap = self.shares * [_top(rest[0]) - s.r for rest, s in zip(self.rest, self.strands, strict=True)]
        while not budget.over and gap.max() > CLOSE / len(gap):
            s = int(gap.argmax())
            self._tighten(s, 0, 0, REFINED, budget)
            now = self.shares[s] * (_top(self.rest[s][0]) - self.strands[s].r)
            gap[s] = now if now < gap[s] else 0.0  # no more to be had so soon

    def _refine(self, s0: int, k: int, budget: Budget) -> None:
        """Better tables for a family."""
        for s in self.order:
            self._tighten(s, int(s == s0), k, self.rounds[k], budget)
        self.rounds[k] *= 2

    def _table(self, s: int, kind: int, k: int, rounds: int, budget: Budget) -> Floats:
        """Of secret s in interval k, distinguished (kind 1) or not; others begin with what was found at t = 1."""
        floor, roof = (1.0 / float(self.t[k + 1]), self.E) if kind else (1.0, self.E / float(self.t[k]))
        strand, root = self.strands[s], (kind, k) == (0, 0)
        least = strand.r  # at t = 1 as good as can be: every family rests on it
        if not root:
            least = _top(self.rest[s][0]) - (0.0 if kind else self.need[k])
        tree = strand.tree if float(self.t[k + kind]) < NEAR else None
        table = strand.table(strand.y, floor, roof, least, rounds, budget, tree)
        if root and len(strand.q) > 1:
            strand.tree = strand.found.items
        return table

    def _tighten(self, s: int, kind: int, k: int, rounds: int, budget: Budget) -> None:
        """A table that may serve for the tighter families too."""
        if budget.over:
            return
        known, table = (self.own if kind else self.rest)[s], self._table(s, kind, k, rounds, budget)
        for i in range(k + 1) if kind else range(k, len(known)):
            if _top(table) < _top(known[i]):  # both hold; a hasty one may be the looser
                known[i] = table

    def assembled(self) -> tuple[float, set[tuple[int, int]]]:
        """Σλ + max(0, price/z) over all families, at the best common shift of the prices, and the families that keep
        the shift from going either way: it is convex in the shift."""
        constant = sum(x * float(s.q @ s.y) for x, s in zip(self.shares, self.strands, strict=True))

        def at(shift: float) -> tuple[float, tuple[int, int]]:
            worst, where = self._price(shift)
            return constant - 1.0 + float(np.log(self.T)) - shift + worst, where

        from scipy.optimize import minimize_scalar

        widest = (-self.epsilon, self.epsilon)  # as far apart as means of rows may lie
        found = minimize_scalar(lambda x: at(x)[0], bounds=widest, method="bounded", options={"maxiter": 12})
        return at(float(found.x))[0], {at(float(found.x) + side)[1] for side in (-ASIDE, ASIDE)}

    def _price(self, shift: float) -> tuple[float, tuple[int, int]]:
        """The greatest price/z of a family, z at least the largest secret's mean and the floors of the others."""
        d, shares = self.largest, self.shares
        taus = np.exp(np.linspace(-self.epsilon, self.epsilon, 61))
        tilts = np.log(taus * self.T) - shift
        worst, where = 0.0, (0, 0)

        def heights(table: Floats) -> Floats:
            tilted = tilts[:, None, None] * table[None, :, :2]  # [τ, block, end]
            return np.asarray(table[:, 2] - tilted.min(2))

        for k in range(len(self.t) - 1):
            rest = [heights(self.rest[s][k]) for s in range(len(shares))]
            tops = np.array([x * r.max(1) for x, r in zip(shares, rest, strict=True)])
            for s0 in range(len(shares)):
                mine = heights(self.own[s0][k])
                total = taus + tops.sum(0) - tops[d]
                if s0 != d:
                    total = total + shares[s0] * mine.max(1) - tops[s0]
                blocks, table = (mine, self.own[s0][k]) if s0 == d else (rest[d], self.rest[d][k])
                price = (total[:, None] + shares[d] * blocks).min(0)
                floor = np.ones(len(shares))
                floor[s0] = 1.0 / float(self.t[k + 1])
                at = price / (shares[d] * (table[:, 0] - floor[d]) + float(shares @ floor))
                if not at.max() < np.inf:  # what is no number proves nothing
                    return np.inf, (s0, k)
                if at.max() > worst:
                    worst, where = float(at.max()), (s0, k)
        return worst, where


def _top(table: Floats) -> float:
    """What a block of a table is worth at most."""
    return float(table[:, 2].max())


def split(p: Floats, slack: Slack, epsilon: float, budget: Budget) -> float:
    """The bound with half of the slack for every secret; ∞ where it would say nothing or time does not suffice."""
    if p.sum(axis=1).max() > LARGE or p.shape[1] < 3:  # one secret dominates, or `two_values` says more
        return np.inf
    if budget.left < STRAND * np.count_nonzero(p):
        return np.inf
    half, start = Split(p, slack, epsilon), budget.part(0.2)
    half.T = begin(half.strands, half.shares, half.T, 1.0 / half.E, start)
    if start.over:
        return np.inf
    half.improve(budget.part(0.35))
    return min(half.families(budget), entropy(p.ravel()))


# --- two useful values: all extreme rows are listed, and prices fitted to all families at once ------------------------


INTERVALS = 12  # of t, narrow ones first
STRIPS = 8  # of the mean of a secret that holds everything, each with its own tangent of φ(z); others have their share
SECRETS = 60  # at most: the programme has about 100 rows for each secret and interval where one dominates
EACH = 1e-3  # seconds of the programme, for each secret, interval and strip


def extreme(q: Floats, low: Floats, high: Floats, floor: float, roof: float) -> Floats:
    """The extreme blocks of {m ≥ floor, M ≤ roof} for two values, of which any block is a two-level one.

    lo + d·1_u, d ≥ 0, needs lo ≥ 0, lo + d·r₋ ≥ floor, lo + d·r₊ ≤ roof: a polygon whose corners are the two constants
    and either the steepest, or 0 off u with d = roof/r₊ and d = floor/r₋ (docs/robust.md, section 5).
    """
    rows = [np.full(len(q), floor), np.full(len(q), roof)]
    for u in range(len(q) if len(q) > 1 else 0):
        d = (roof - floor) / (high[u] - low[u])
        start = floor - d * low[u]
        one = np.eye(len(q))[u]
        rows += [start + d * one] if start >= 0.0 else [roof / high[u] * one, floor / low[u] * one]
    return np.array(rows)


def stripped(blocks: Floats, q: Floats, low: float, high: float) -> Floats:
    """The corners of a polygon where its mean is in [low, high]: its own there, and mixtures of two at the ends."""
    mean, parts, (i, j) = blocks @ q, [], np.triu_indices(len(blocks), 1)
    rise = np.where(mean[j] == mean[i], np.inf, mean[j] - mean[i])
    for end in (low, high):
        share = (end - mean[i]) / rise
        on = (share > 0.0) & (share < 1.0)
        parts.append(blocks[i[on]] + share[on, None] * (blocks[j[on]] - blocks[i[on]]))
    inside = (mean >= low * (1.0 - SLIP)) & (mean <= high * (1.0 + SLIP))
    return np.concatenate([blocks[inside], *parts])


class Listed:
    """All families of a distinguished secret s0 and t in [t₁, t₂], each secret with its part of the slack.

    The total of a row is compared with the tangent of φ at a τ of its own for each interval of t and each strip of the
    largest secret's mean: about what the total is there, the other secrets being half way between their floor and roof.
    """

    def __init__(self, p: Floats, slack: Slack, epsilon: float, strips: int) -> None:
        self.shares, E, count = p.sum(axis=1), float(np.exp(epsilon)), INTERVALS
        d, share = int(self.shares.argmax()), float(self.shares.max())
        t = np.exp(epsilon * np.linspace(0.0, 1.0, count + 1) ** 1.5)
        cuts = np.geomspace(1.0 / t[1:], E, strips + 1, axis=1)  # of the largest secret's mean [k, end]
        self.tau = share * np.sqrt(cuts[:, 1:] * cuts[:, :-1]) + (1.0 - share) * np.sqrt(E / t[:-1, None])  # [k, strip]
        self.shape, self.least = (len(p), 2, *self.tau.shape), 1.0 / E  # of r: secret, whether s0, interval, strip
        self.q, self.rows = [], []  # rows: of each secret, those of every r of it
        for s, own in enumerate(self.shares.tolist()):
            q = p[s][p[s] > 0] / own
            low = reach(q, slack.given(own, 1.0 - LEAN), slack.kappa)[0]
            high = reach(q, slack.given(own, LEAN), slack.kappa)[1]
            rest = [extreme(q, low, high, 1.0, E / a) for a in t[:-1]]
            blocks = [h for h in rest + [extreme(q, low, high, 1.0 / a, E) for a in t[1:]] for _ in range(strips)]
            if s == d:
                ends = [x for k in [*range(count)] * 2 for x in zip(cuts[k, :-1], cuts[k, 1:], strict=True)]
                blocks = [stripped(h, q, *x) for h, x in zip(blocks, ends, strict=True)]
            self.q.append(q)
            self.rows.append(blocks)

    def _worth(self, s: int) -> list[Floats]:
        """Σ q(φ(h) − log τ·h) of the rows of every r of a secret."""
        logs, q = np.tile(np.log(self.tau).ravel(), 2), self.q[s]
        return [xlogx(h) @ q - log * (h @ q) for h, log in zip(self.rows[s], logs, strict=True)]

    def prices(self) -> list[Floats]:
        """min Σ P̂ q·y over prices y and the greatest worth r of each secret in each family and strip.

        r ≥ Σ q(φ(h) − (y + log τ)·h) for its rows, and τ + Σ P̂_s r_s ≤ 0 where one r is s0's own. The interior method
        ends sooner than the simplex method, and any prices prove a bound.
        """
        secrets, _, count, strips = self.shape
        spend(EACH / PASS * secrets * count * strips)
        each = sparse.block_diag([np.concatenate(rows) * q for q, rows in zip(self.q, self.rows, strict=True)])
        sizes = [len(h) for rows in self.rows for h in rows]
        at = np.repeat(np.arange(len(sizes)), sizes)
        which = sparse.csr_matrix((np.ones(len(at)), at, np.arange(len(at) + 1)))
        k, i, s0, s = (x.ravel() for x in np.indices((count, strips, secrets, secrets)))
        place = each.shape[1] + np.ravel_multi_index((s, (s == s0).astype(int), k, i), self.shape)
        total = sparse.csr_matrix((-self.shares[s], place, np.arange(0, len(s) + 1, secrets)))
        cost = np.concatenate([*(x * q for x, q in zip(self.shares, self.q, strict=True)), np.zeros(len(sizes))])
        free = np.full(len(cost), INFINITY)
        lp = LinearProgramme(cost, -free, free)
        lp.option("solver", "ipm")
        lp.option("run_crossover", "off")
        lp.at_least(sparse.hstack([each, which]), np.concatenate([x for s in range(secrets) for x in self._worth(s)]))
        lp.at_least(total, np.repeat(self.tau.ravel(), secrets))
        found = lp.solve()
        y = found.x[: each.shape[1]] if found.optimal else np.zeros(each.shape[1])
        return np.split(y, np.cumsum([len(q) for q in self.q])[:-1])

    def bound(self) -> float:
        """Σλ + max(0, price)/z at the best prices, λ = P̂(y − 1) and z ≥ 1/E: weak duality, as any y are valid."""
        y = self.prices()
        worth = np.reshape([
            x * float((own - h @ (q * prices)).max(initial=-np.inf))
            for s, (x, q, prices) in enumerate(zip(self.shares, self.q, y, strict=True))
            for h, own in zip(self.rows[s], self._worth(s), strict=True)
        ], self.shape)
        rest, own = worth[:, 0], worth[:, 1]
        families = np.stack([np.delete(rest, s, axis=0).sum(0) + own[s] for s in range(len(own))])
        top = float((self.tau + families).max())
        constant = sum(x * float(q @ prices) for x, q, prices in zip(self.shares, self.q, y, strict=True))
        return constant - 1.0 + max(top, 0.0) / self.least if np.isfinite(top + constant) else np.inf


def two_values(p: Floats, slack: Slack, epsilon: float, budget: Budget) -> float:
    """The bound where no secret has more than two values; ∞ where it does not apply."""
    if (p > 0).sum(axis=1).max() > 2 or len(p) > SECRETS:
        return np.inf
    strips = 1 + int(STRIPS * p.sum(axis=1).max())
    return Listed(p, slack, epsilon, strips if EACH * len(p) * INTERVALS * strips < budget.left else 1).bound()
