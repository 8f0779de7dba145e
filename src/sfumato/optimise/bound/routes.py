"""The routes to a bound: chain, split, where rows are a product over secrets again, and split for two useful values."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy import sparse

from sfumato.joint import Joint, entropy
from sfumato.libraries import scipy
from sfumato.optimise.all_levels import NUMBERS, meet
from sfumato.optimise.arrays import GHOST, SEALING, Floats, Ints, xlogx
from sfumato.optimise.bound.channels import about_secret
from sfumato.optimise.bound.dual import Queries
from sfumato.optimise.bound.prices import ASIDE, BLOCK_SETTLED, STRAND, Block, Corridor, Prices, sums
from sfumato.optimise.budget import FREE, PASS, Budget, spend
from sfumato.optimise.cone import Cone, Coordinates, Cuts, RatioCone, settled
from sfumato.optimise.linear import INFINITY, LinearProgramme
from sfumato.optimise.search import InformationAim
from sfumato.optimise.starts import merged
from sfumato.tolerances import LEAST, SLIP
from sfumato.uncertainty.balls import RenyiBall, SharedRadius
from sfumato.uncertainty.power_tilting import divergence_at, greatest_mean

# --- chain: max I(B;Y) + Σ_B P̂_B D_B, where D_B bounds what a few secrets alone let Y tell ----------------------------


PRICE_STEPS, BRANCHINGS = 10, 60  # of prices at most, and of branch and bound at the prices that are kept
DETAIL_MEANS = 16  # blocks of c: each loses by the tangent of φ, as the square of its width
MET = 1e-5  # relative gap at which a group counts as met: as many rays are held as memory and time allow
WHOLE = 1e-3  # the same, for a group whose proof by branch and bound would gain nothing


class OwnCone:
    """The rows of one secret with M(v) ≤ ρ·m(v) over the laws within a radius of its own: any other secret between them
    asks for ρ = E²."""

    PASSES = 400  # over the values of a row

    def __init__(self, q: Floats, radius: float, alpha: float, ratio: float) -> None:
        self.coordinates = Coordinates.of(Joint.from_probabilities(q[None]))
        self.radius, self.alpha, self.rise = radius, alpha, ratio - 1.0

    def cuts(self, x: Floats, *, loose: bool = False, room: float = 0.0) -> Cuts:
        q, limit = np.broadcast_to(self.coordinates.p, x.shape), np.full(len(x), self.radius)
        spend(self.PASSES, 2 * x.size)
        most, least = (greatest_mean(v, q, limit, self.alpha).r for v in (x, -x))
        normals = most - (1.0 + self.rise) * least
        return Cuts(np.arange(len(x)), normals, (normals * x).sum(1)).above(-room)


def met(cone: Cone, budget: Budget) -> tuple[float, float]:
    """What a mixture of the cone's rows keeps, and what none exceeds, by cuts from outside; ∞ for many numbers."""
    master = InformationAim(cone.coordinates)
    master.add(settled(cone, np.eye(len(cone.coordinates.p)) + GHOST))
    least, _ = meet(cone, cone, master, budget, gap=MET)
    return master.value, least


class Detail:
    """I(U;Y|s) over the rows v of an `OwnCone` with too many values to be met: at most q·y + sup Σ q(φ(w) − y·w), w =
    v/c, for any prices y, bounded in blocks of c = q·v (docs/robust.md, section 14, chain)."""

    def __init__(self, block: Block, ratio: float, budget: Budget) -> None:
        """Prices of a proximal bundle."""
        self.block, self.ratio, corridor = block, ratio, Corridor(block, 1.0, ratio, scaled=True)
        prices = Prices(np.ones(1), [[corridor]], np.zeros((1, 1), dtype=np.int64), 1.0, 1.0, budget.part())
        prices.fit(PRICE_STEPS, budget)
        self.y = prices.y + prices.height(prices.y)
        self.promised = float(block.q @ self.y)

    def proved(self, budget: Budget) -> float:
        """What branch and bound proves at these prices."""
        asked = Queries.by_mean(1.0, self.ratio, DETAIL_MEANS, tilted=True)
        middle, tree = asked.mean.mean(1), None
        enough, worth = BLOCK_SETTLED * asked.mean[:, 0] - middle, np.full(DETAIL_MEANS, np.inf)
        for rounds in (0, BRANCHINGS):  # multipliers that are known are looked for nearby: better ones are found
            found, tree = self.block.price(self.y, asked, enough, rounds, budget, tree)
            worth = np.minimum(worth, found)
        return self.promised + float(((worth + middle)[:, None] / asked.mean).max())


Group: TypeAlias = tuple[Ints, float]  # secrets, and what they tell of themselves and of U at most, times their share


class ChainRule:
    """I(X;Y) = I(B;Y) + Σ_B P̂_B I(X;Y|B) for groups B of secrets: the first is about a secret with fewer values, and a
    group is a table of its own, around which the same slack leaves a larger ball (docs/robust.md, section 14, chain).
    """

    def __init__(self, p: Floats, ball: SharedRadius, epsilon: float, budget: Budget) -> None:
        self.p, self.ball, self.epsilon, self.shares = p, ball, epsilon, p.sum(axis=1)
        self.details, self.told = dict[int, Detail](), np.zeros(len(p))
        self.weight = np.array([share * entropy(row / share) for row, share in zip(p, self.shares, strict=True)])
        promised, ratio = self.weight.copy(), float(np.exp(2.0 * epsilon))
        for s in np.argsort(-self.weight).tolist():
            q, mine, given = p[s][p[s] > 0] / self.shares[s], self._part(s, budget), ball.budget / self.shares[s]
            self.told[s], attained = self._met(np.array([s]), mine.part())
            promised[s] = self.told[s]
            if self.told[s] > attained * (1.0 + WHOLE) and len(q) > 2 and mine.fits(STRAND * len(q)):
                self.details[s] = Detail(Block(q, ball, given, given), ratio, mine)
                promised[s] = min(promised[s], self.shares[s] * self.details[s].promised)
        pair = np.argsort(-self.shares)[:2]
        joinable = np.count_nonzero(p[pair]) <= NUMBERS  # two secrets may tell as little together as one of them alone
        self.promised = about_secret(self.shares, epsilon) + float(promised.sum()) * (0.5 if joinable else 1.0)

    def _part(self, s: int, budget: Budget) -> Budget:
        """Of the time, by what a secret weighs among those that are left."""
        return budget.part(float(self.weight[s] / max(self.weight[self.weight <= self.weight[s]].sum(), LEAST)))

    def _met(self, members: Ints, budget: Budget) -> tuple[float, float]:
        """What a group tells at most, times its share, and what is attained of that. Of many cells the rarest of each
        secret are one: what they would tell of themselves is added."""
        share = float(self.shares[members].sum())
        radius = float(divergence_at((1.0 - ASIDE) * self.ball.budget, share, self.ball.alpha))
        table = Joint.from_probabilities(self.p[members][:, self.p[members].any(0)] / share)
        whole, lost, several = entropy(table.p.ravel()), 0.0, len(members) > 1
        if budget.over or whole <= 0.0 or (several and not np.isfinite(radius)):
            return share * whole, 0.0
        if np.count_nonzero(table.p) > NUMBERS:
            table, _ = merged(table, NUMBERS - len(members))
            lost = whole - entropy(table.p.ravel())
        if several:
            ball = RenyiBall(table, alpha=self.ball.alpha, radius=radius)
            attained, least = met(RatioCone(ball, self.epsilon + SEALING), budget)
        else:
            own = OwnCone(table.p[0], radius, self.ball.alpha, float(np.exp(2.0 * self.epsilon)))
            attained, least = met(own, budget)
        return share * min(whole, least + lost), share * attained

    def proved(self, budget: Budget) -> float:
        for s, detail in self.details.items():
            if not budget.over:
                self.told[s] = min(self.told[s], self.shares[s] * detail.proved(self._part(s, budget.part())))
        order = np.argsort(-self.shares, kind="stable")
        groups: list[Group] = [(order[i : i + 1], float(self.told[s])) for i, s in enumerate(order)]
        while len(joined := self._joined(groups, budget.part())) < len(groups):
            groups = joined
        shares = np.array([self.shares[members].sum() for members, _ in groups])
        return about_secret(shares, self.epsilon) + sum(told for _, told in groups)

    def _joined(self, groups: list[Group], budget: Budget) -> list[Group]:
        """Neighbours as one, where that tells less and there is time."""
        out: list[Group] = []
        for i in range(0, len(groups), 2):
            apart = groups[i : i + 2]
            members = np.concatenate([own for own, _ in apart])
            if len(apart) > 1 and len(members) < NUMBERS:
                told, _ = self._met(members, budget.part(2.0 / (len(groups) - i)))
                apart = [(members, told)] if told < sum(x for _, x in apart) else apart
            out += apart
        return out


# --- split: families of rows, each with a distinguished secret --------------------------------------------------------


LEAN = 0.42  # of the slack for M, the rest for m: M grows faster with its part
EDGES = np.array([0.0, 0.04, 0.12, 0.25, 0.45, 0.7, 1.0])  # of log t in units of ε: families of a distinguished secret
PRICES = 24  # steps of prices at most
REFINED = 4  # rounds of branch and bound at a time
WIDEST_GAPS = 0.5  # of the widest: tables with gaps as wide are worked on in a turn
TOTALS, SHIFTS = 61, 12  # totals τ of a row that are tried, and common shifts of prices
BESIDE_BEST = 0.02  # from the best shift, where the families are seen that hold it


def _halves(p: Floats, ball: SharedRadius) -> list[Block]:
    """Secrets with about half of the slack each, less for M than for m: any M and m have all of it together."""
    parts = ball.budget / p.sum(axis=1)
    return [Block(x[x > 0] / x.sum(), ball, LEAN * k, (1.0 - LEAN) * k) for x, k in zip(p, parts, strict=True)]


class Split:
    """Rows with a distinguished secret s0 and t in [t₁, t₂] are a family: roof E/t₁ for the others, floor 1/t₂ for s0.

    A table made for a higher roof or a lower floor serves for the tighter family too.
    """

    def __init__(self, p: Floats, ball: SharedRadius, epsilon: float, budget: Budget) -> None:
        self.shares, E, self.epsilon = p.sum(axis=1), float(np.exp(epsilon)), epsilon
        self.t, self.count, S = np.exp(epsilon * EDGES), len(EDGES) - 1, len(p)
        ends = [(1.0, E / t) for t in self.t[:-1].tolist()]  # of the others, then of s0: [kind · interval]
        ends += [(1.0 / t, E) for t in self.t[1:].tolist()]
        corridors = [[Corridor(block, *x) for x in ends] for block in _halves(p, ball)]
        kinds = np.arange(self.count)[:, None] + self.count * np.eye(S, dtype=np.int64)[:, None]  # [s0, k, s]
        self.prices = Prices(self.shares, corridors, kinds.reshape(-1, S), E**-0.5, 1.0 / E, budget.part())
        self.prices.fit(PRICES, budget)
        height, self.constant = self.prices.height(self.prices.y), float(self.prices.weight @ self.prices.y) - 1.0
        self.promised = self.constant - float(np.log(-height)) if height < 0.0 else np.inf
        self.tables = [[np.full((1, 3), np.inf)] * len(ends) for _ in corridors]  # [s][kind · interval]

    def proved(self, budget: Budget) -> float:
        """Tables of the widest corridors for all, then of all corridors; then better ones in the worst families, where
        they are farthest from what is attained, while time is left."""
        S, each = len(self.shares), list(zip(self.prices.corridors, self.prices.of(self.prices.y), strict=True))
        attained = np.array([[x.worth(y).max() for x in own] for own, y in each])
        for k in sorted(range(2 * self.count), key=lambda k: 0 < k < 2 * self.count - 1):
            for s in range(S):
                self._tighten(s, k, 0, budget if 0 < k < 2 * self.count - 1 else FREE)
        while True:
            value, places = self.assembled()
            asked = {(s, k + self.count * (s == s0)) for s0, k in places for s in range(S)}
            tops = {(s, k): self.tables[s][k][:, 2].max() for s, k in sorted(asked)}
            gaps = {(s, k): self.shares[s] * (top - attained[s, k]) for (s, k), top in tops.items()}
            most = max(gaps.values())
            if budget.over or most < BLOCK_SETTLED / S:
                return value
            for s, k in gaps:
                if gaps[s, k] > WIDEST_GAPS * most:
                    self._tighten(s, k, REFINED, budget)

    def _tighten(self, s: int, k: int, rounds: int, budget: Budget) -> None:
        """A table that may serve for the tighter families too."""
        if budget.over:
            return
        table = self.prices.corridors[s][k].table(self.prices.of(self.prices.y)[s], rounds, budget)
        for i in range(k, self.count) if k < self.count else range(self.count, k + 1):
            if table[:, 2].max() < self.tables[s][i][:, 2].max():  # both hold; a hasty one may be the looser
                self.tables[s][i] = table

    def assembled(self) -> tuple[float, set[tuple[int, int]]]:
        """Σλ + max(0, price/z) over all families, at the best common shift of the prices, and the families that keep
        the shift from going either way: it is convex in the shift."""
        widest = (-self.epsilon, self.epsilon)  # as far apart as means of rows may lie
        best = scipy.optimize.minimize_scalar(
            lambda x: self._price(x)[0] - x, bounds=widest, method="bounded", options={"maxiter": SHIFTS}
        ).x
        value = self.constant + float(np.log(self.prices.T)) - float(best) + self._price(best)[0]
        return value, {self._price(best + side)[1] for side in (-BESIDE_BEST, BESIDE_BEST)}

    def _price(self, shift: float) -> tuple[float, tuple[int, int]]:
        """The greatest price/z of a family, z at least the largest secret's mean and the floors of the others."""
        d, shares, count, tables = int(self.shares.argmax()), self.shares, self.count, np.array(self.tables)
        taus = np.exp(np.linspace(-self.epsilon, self.epsilon, TOTALS))
        tilts, means = np.log(taus * self.prices.T) - shift, tables[..., None]
        heights = means[:, :, :, 2] - np.minimum(means[:, :, :, 0] * tilts, means[:, :, :, 1] * tilts)  # [s, k, c, τ]
        spend(3, heights.size)
        tops = shares[:, None, None] * heights.max(2)
        rest, own, chosen = tops[:, :count], tops[:, count:], np.arange(len(shares)) == d
        of = np.arange(count) + count * chosen[:, None]  # [s0, k]: the corridor of the largest secret
        total = taus + rest.sum(0) - rest + own - tops[d][of]
        price = (total[:, :, None] + shares[d] * heights[d][of]).min(3)  # [s0, k, c]
        floors = 1.0 / self.t[1:]
        least = 1.0 - shares[:, None] * (1.0 - floors) - shares[d] * np.where(chosen[:, None], floors, 1.0)
        at = price / (least[:, :, None] + shares[d] * tables[d][of][..., 0])
        top, where = float(at.max()), divmod(int(at.max(2).argmax()), count)
        return (max(top, 0.0) if top < np.inf else np.inf), where  # what is no number proves nothing


# --- two useful values: all extreme rows are listed, and prices fitted to all families at once ------------------------


INTERVALS, NARROW_FIRST = 12, 1.5  # of t, and the power of their ends
STRIPS = 8  # of the mean of a secret that holds everything, each with its own tangent of φ(z); others have their share
SECRETS = 60  # at most: the programme has about 100 rows for each secret and interval where one dominates
STRIP_SECONDS = 1e-3  # seconds of the programme, for each secret, interval and strip


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


def two_values(p: Floats, ball: SharedRadius, epsilon: float, budget: Budget) -> float:
    """The bound where no secret has more than two values; ∞ where it does not apply (docs/robust.md, section 14).

    Each interval of t and strip of the largest secret's mean has its own τ, about what the total is there, the other
    secrets being half way between their floor and roof.
    """
    shares, E, S, count = p.sum(axis=1), float(np.exp(epsilon)), len(p), INTERVALS
    if (p > 0).sum(axis=1).max() > 2 or S > SECRETS:
        return np.inf
    d, share, strips = int(shares.argmax()), float(shares.max()), 1 + int(STRIPS * shares.max())
    strips = strips if budget.fits(STRIP_SECONDS * S * count * strips) else 1
    spend(STRIP_SECONDS / PASS * S * count * strips)
    t = np.exp(epsilon * np.linspace(0.0, 1.0, count + 1) ** NARROW_FIRST)
    cuts = np.geomspace(1.0 / t[1:], E, strips + 1, axis=1)  # of the largest secret's mean [k, end]
    tau = share * np.sqrt(cuts[:, 1:] * cuts[:, :-1]) + (1.0 - share) * np.sqrt(E / t[:-1, None])  # [k, strip]
    corners, halves = [], _halves(p, ball)
    for s, block in enumerate(halves):
        ends = [*zip(np.ones(count), E / t[:-1], strict=True), *zip(1.0 / t[1:], np.full(count, E), strict=True)]
        own = [floor * block.family(roof / floor).start() for floor, roof in ends]
        strip = [cuts[k, i : i + 2] for k in range(count) for i in range(strips)] * 2
        own = [h for h in own for _ in range(strips)]
        corners.append([stripped(h, block.q, *x) for h, x in zip(own, strip, strict=True)] if s == d else own)
    cost = np.concatenate([x * block.q for x, block in zip(shares, halves, strict=True)])
    value = _over_families(shares, [block.q for block in halves], corners, cost, tau, E)
    return value if np.isfinite(value) else np.inf


def _over_families(
    shares: Floats, laws: list[Floats], corners: list[list[Floats]], cost: Floats, tau: Floats, E: float
) -> float:
    """min Σ P̂ q·y over prices y and the greatest worth r of each secret by kind, interval and strip: r ≥ Σ q(φ(h) − (y
    + log τ)·h) for its corners h, and τ + Σ P̂_s r_s ≤ 0 where one r is s0's own. Any y prove Σλ + max(0, price)/z, λ =
    P̂(y − 1) and z ≥ 1/E, so the interior method, which ends sooner than the simplex method, will do."""
    S, logs, sizes = len(shares), np.tile(np.log(tau).ravel(), 2), [len(h) for own in corners for h in own]
    gain = np.concatenate([
        xlogx(h) @ q - x * (h @ q) for q, own in zip(laws, corners, strict=True) for h, x in zip(own, logs, strict=True)
    ])
    rows = [np.concatenate(own) * q for q, own in zip(laws, corners, strict=True)]
    each, at = sparse.block_diag(rows, format="csr"), np.repeat(np.arange(len(sizes)), sizes)
    k, i, s0, s = np.indices((*tau.shape, S, S)).reshape(4, -1, S)
    total = sums(np.ravel_multi_index((s, (s == s0).astype(int), k, i), (S, 2, *tau.shape)), shares)
    free, right = np.full(len(cost) + len(sizes), INFINITY), np.repeat(tau.ravel(), S)
    lp = LinearProgramme(np.append(cost, np.zeros(len(sizes))), -free, free)
    for option, setting in (("solver", "ipm"), ("run_crossover", "off")):
        lp.option(option, setting)
    lp.at_most(-sparse.hstack([each, sums(at[:, None])]), -gain)
    lp.at_most(sparse.hstack([sparse.csr_matrix((len(right), len(cost))), total]), -right)
    found, r = lp.solve(), np.full(len(sizes), -np.inf)
    y = found.x[: len(cost)] if found.optimal else np.zeros(len(cost))
    np.maximum.at(r, at, gain - each @ y)
    return float(cost @ y) - 1.0 + E * max(float((right + total @ r).max()), 0.0)
