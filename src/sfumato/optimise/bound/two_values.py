"""The split bound where there are two useful values: all extreme rows listed, prices fitted to all families at once."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sfumato.optimise.arrays import Floats, xlogx
from sfumato.optimise.bound.slack import Slack, reach
from sfumato.optimise.budget import Budget
from sfumato.optimise.linear import INFINITY, LinearProgramme

EDGES = np.array([0.0, 0.02, 0.05, 0.1, 0.16, 0.24, 0.34, 0.46, 0.6, 0.78, 1.0])  # of log t in units of ε
PARTS = (0.5, 0.35, 0.65, 0.8, 0.9)  # of the slack for the largest secret, the others having the rest
LARGE = 0.3  # share from which a secret may be worth more or less than half of the slack
LEANS = (0.0, 0.16)  # of the smaller part: what m has more and M less
TRIES = 7  # of τ
SECRETS = 60  # at most: the programme has about 20 rows for each secret and family


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


class Listed:
    """All families of a distinguished secret s0 and t in [t₁, t₂], each secret with its part of the slack."""

    def __init__(self, p: Floats, slack: Slack, epsilon: float, part: float, lean: float) -> None:
        self.shares, self.t = p.sum(axis=1), np.exp(epsilon * EDGES)
        parts = np.full(len(p), min(1.0 - part, 0.5))
        parts[int(self.shares.argmax())] = part
        off, E = lean * float(parts.min()), float(np.exp(epsilon))
        self.q, self.rows = [], []  # rows: per secret, the families of the others' floors, then those of s0's roofs
        for row, share, x in zip(p, self.shares.tolist(), parts.tolist(), strict=True):
            q = row[row > 0] / share
            low = reach(q, slack.given(share, x + off), slack.kappa)[0]
            high = reach(q, slack.given(share, x - off), slack.kappa)[1]
            self.q.append(q)
            self.rows.append(
                [extreme(q, low, high, float(t), E) for t in self.t[:-1]]
                + [extreme(q, low, high, 1.0, E * float(t)) for t in self.t[1:]]
            )

    def programme(self) -> LinearProgramme:
        """min Σ P̂ q·y over prices y and the greatest worth r of each secret in each family.

        r ≥ φ − y·h for its rows, and ρ ≥ Σ P̂_s r_s where one r is s0's own, ρ being the last variable (see `bound`).
        """
        families, secrets = len(self.t) - 1, len(self.q)
        rows = [np.concatenate(groups) * q for q, groups in zip(self.q, self.rows, strict=True)]
        group = [np.repeat(np.eye(2 * families), [len(x) for x in groups], axis=0) for groups in self.rows]
        least = [xlogx(np.concatenate(groups)) @ q for q, groups in zip(self.q, self.rows, strict=True)]
        each = sparse.hstack([sparse.block_diag(rows), sparse.block_diag(group)])
        k, s0, s = (x.ravel() for x in np.indices((families, secrets, secrets)))
        size, width = sum(map(len, self.q)), each.shape[1]
        place = size + 2 * families * s + k + families * (s == s0)
        others = sparse.csr_matrix((-self.shares[s], (k * secrets + s0, place)), (families * secrets, width))
        cost = np.zeros(width + 1)
        cost[:size] = np.concatenate([x * q for x, q in zip(self.shares, self.q, strict=True)])
        free = np.full(len(cost), INFINITY)
        lp = LinearProgramme(cost, -free, free)
        lp.at_least(sparse.hstack([each, np.zeros((each.shape[0], 1))]), np.concatenate(least))
        lp.at_least(sparse.hstack([others, np.ones((families * secrets, 1))]))
        return lp

    def proved(self, y: list[Floats]) -> float:
        """min over τ of Σλ + max(0, price)/1 at any prices y: weak duality, z ≥ 1 in every family.

        The total z enters through φ(z) ≥ (1 + log τ)z − τ. With λ = P̂(y − 1 − log τ) the price is τ + Σ P̂_s r_s.
        """
        families = len(self.t) - 1
        worth = np.array([
            [x * float((xlogx(rows) @ q - rows @ (q * prices)).max()) for rows in groups]
            for x, q, groups, prices in zip(self.shares, self.q, self.rows, y, strict=True)
        ])
        rest, own = worth[:, :families], worth[:, families:]
        top = float((rest.sum(0) - rest + own).max())
        constant = float(sum(x * float(q @ prices) for x, q, prices in zip(self.shares, self.q, y, strict=True)))
        tau = max(-top, 1.0)  # where the price is 0, if it can be
        return constant - 1.0 - float(np.log(tau)) + max(tau + top, 0.0)

    def bound(self) -> float:
        """The best prices: for a fixed τ they are a linear programme with ρ + τ ≤ 0."""
        from scipy.optimize import minimize_scalar

        lp, at = self.programme(), np.cumsum([len(q) for q in self.q])
        last = lp.h.getNumCol() - 1

        def at_tau(log_tau: float) -> float:
            lp.h.changeColBounds(last, -INFINITY, -float(np.exp(log_tau)))
            found = lp.solve()
            return self.proved(np.split(found.x[: at[-1]], at[:-1])) if found.optimal else np.inf

        widest = (0.0, float(np.log(self.t[-1])))
        return float(minimize_scalar(at_tau, bounds=widest, method="bounded", options={"maxiter": TRIES}).fun)


def two_values(p: Floats, slack: Slack, epsilon: float, budget: Budget) -> float:
    """The least bound over some parts of the slack for the largest secret; ∞ where it does not apply."""
    if (p > 0).sum(axis=1).max() > 2 or len(p) > SECRETS:
        return np.inf
    best = np.inf
    for part in PARTS if p.sum(axis=1).max() > LARGE else PARTS[:1]:
        for lean in LEANS:
            if budget.over:
                return best
            best = min(best, Listed(p, slack, epsilon, part, lean).bound())
    return best
