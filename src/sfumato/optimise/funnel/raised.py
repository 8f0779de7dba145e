"""The best mechanism at one distribution under P(y|s) ≤ E·P(y): pointwise maximal leakage about the secret.

I(S,U;Y) = I(S;Y) + I(U;Y|S). Y may tell U in full once S is given: split every output y of a response to S into as many
as the secrets' partitions of [0, 1) by P(u|s) have cells, and send u where its own interval lies; P(y|s) is shared out
alike for all secrets, so no ratio changes and U is known given S and Y. So the optimum is H(U|S) + max I(S;Y).

For the response, posteriors of S lie in {q : 0 ≤ q_s ≤ E·p_s, Σq = 1}, and I(S;Y) is the mean of D(q‖p), convex in q:
extreme points suffice, at which all secrets but one are at 0 or at E·p_s. D(q‖p) = Σ q log(q/p) ≤ log E.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.optimise.arrays import Floats, xlogx
from sfumato.optimise.linear import Cover, best_cover

LISTED_SECRETS = 12  # up to which all extreme points are listed: at most |S|·2^|S|
FILLINGS = 64  # for each secret beyond: orders in which secrets are raised until nothing is left
NEGLIGIBLE = 1e-12  # of a cell or a remainder


def best_response(p: Floats, E: float) -> Cover:
    """Posteriors of S, with weights, that have the mean p and tell most; all extreme points, or many."""
    points = _extreme(p, E) if len(p) <= LISTED_SECRETS else _filled(p, E)
    points = np.concatenate([points, p[None]])
    gains = xlogx(points).sum(1) - points @ np.log(p)
    return best_cover(p, points, gains)


def response_bound(p: Floats, epsilon: float) -> float:
    """No response to S under ε tells more: exact for few secrets, min{H(S), ε} for many."""
    p = p[p > 0]
    most = min(float(-xlogx(p).sum()), epsilon)
    if len(p) > LISTED_SECRETS or len(p) < 2 or epsilon == 0:
        return most
    return min(most, best_response(p, math.exp(min(epsilon, 700.0))).bound + 1e-10)


def _extreme(p: Floats, E: float) -> Floats:
    """Sets of secrets at E·p_s, and one secret that takes what is left of 1."""
    inside = ((np.arange(2 ** len(p))[:, None] >> np.arange(len(p))) & 1).astype(bool)
    left = 1 - E * (inside @ p)
    inside, left = inside[left >= -NEGLIGIBLE], left[left >= -NEGLIGIBLE]
    fits = ~inside & (E * p >= left[:, None] - NEGLIGIBLE)
    full = left <= NEGLIGIBLE
    k, j = np.nonzero(fits & ~full[:, None])
    out = np.where(inside, E * p, 0.0)
    last = out[k].copy()
    last[np.arange(len(k)), j] = left[k]
    points = np.concatenate([last, out[full]])
    return np.asarray(points / points.sum(1, keepdims=True))


def _filled(p: Floats, E: float) -> Floats:
    """Extreme points that raise secrets in some order, the likeliest ones among them."""
    rng = np.random.default_rng(0)
    orders = np.stack([rng.permutation(len(p)) for _ in range(FILLINGS * len(p))])
    before = np.cumsum(np.minimum(E * p, 1.0)[orders], 1)
    taken = np.minimum(before, 1.0) - np.minimum(np.concatenate([np.zeros((len(orders), 1)), before[:, :-1]], 1), 1.0)
    out = np.zeros(orders.shape)
    np.put_along_axis(out, orders, taken, 1)
    return out


def telling_rows(p: Floats, E: float) -> Floats:
    """Rows [y, s·|U| + u] of the best mechanism at P̂, P̂ [s, u]; secrets that never occur are answered by chance."""
    seen = np.flatnonzero(p.sum(1) > 0)
    ps = p[seen].sum(1)
    found = best_response(ps / ps.sum(), E)
    given = p[seen] / ps[:, None]
    ends = np.minimum(np.cumsum(given, 1), 1.0)
    ends[:, -1] = 1.0
    cuts = np.unique(np.concatenate([[0.0, 1.0], ends.ravel()]))
    cuts = cuts[np.append(np.diff(cuts) > NEGLIGIBLE, True)]
    cuts[0] = 0.0
    middle, length = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)
    told = np.stack([np.searchsorted(e, middle) for e in ends])  # [s, cell] → u
    answers = found.weights[:, None] * found.points / (ps / ps.sum())  # P(y|s)
    rows = np.zeros((len(answers), len(length), *p.shape))
    cell = np.arange(len(length))
    for i, s in enumerate(seen):
        u = told[i]
        rows[:, cell, s, u] = answers[:, i, None] * (length / given[i, u])
        blank = p[s] <= 0
        rows[:, :, s, blank] = (answers[:, i, None] * length)[..., None]
    rows[:, :, p.sum(1) <= 0] = (found.weights[:, None] * length)[..., None, None]
    return np.asarray(rows.reshape(-1, p.size))
