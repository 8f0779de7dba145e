"""Exact worst cases over the χ² ball, in floats: one secret, a pair of secrets, a whole mechanism."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.solve.arrays import Floats, Ints

_STEPS = 60


def greatest(v: Floats, q: Floats, C: Floats) -> Floats:
    """M[i, j] = max {R·v_i : Σ_u q_u²/R_u ≤ C_j} for rows v[i, u].

    = min over τ ≥ max v of τ − (Σ_u q_u √(τ − v_u))²/C  [002, Thm 2, simplified]. The derivative vanishes where
    (Σ q√(τ−v))(Σ q/√(τ−v)) = C; the left side falls in τ and Kantorovich's inequality bounds the root from above.
    Every τ gives a valid upper bound, so rounding errs on the safe side only by the last evaluation. Zero cells stay
    in through τ ≥ max v.
    """
    v, C = np.atleast_2d(v), np.atleast_1d(C)
    top = v.max(axis=1, keepdims=True)
    below = top - v  # [i, u] ≥ 0
    span = below.max(axis=1)[:, None]
    k2 = (np.sqrt(C) + np.sqrt(np.maximum(C - 1.0, 0.0))) ** 4
    high = span / np.maximum(k2 - 1.0, 1e-300)
    # A point ball (C = 1) has its root at infinity; far out the error is Var/(4τ), here below 1e-9 of the span.
    high = np.minimum(np.where(high > 0, high, 1.0), 1e8 * np.maximum(span, 1e-300))
    high = np.maximum(high, 1e-200)
    low = high * 1e-22
    t, aim = high, np.log(np.maximum(C - 1.0, 1e-300))
    # Constant rows and roots at τ = max v (an empty cell on top) need no search.
    x = low[:, :, None] + below[:, None, :]
    x = np.maximum(x, 1e-300)
    settled = (span <= 0.0) | (C <= 1.0 + 1e-15) | ((np.sqrt(x) @ q) * ((1.0 / np.sqrt(x)) @ q) <= C)
    for _ in range(_STEPS):
        x = t[:, :, None] + below[:, None, :]
        inverse = 1.0 / np.sqrt(np.maximum(x, 1e-300))
        first, second = (x * inverse) @ q, inverse @ q
        excess = first * second - 1.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # log(AB − 1) is nearly linear in log t, slope −2 far out: Newton there, kept inside the bracket.
            slope = 0.5 * t * (second * second - first * ((inverse / x) @ q)) / excess
            step = t * np.exp(np.clip((aim - np.log(excess)) / slope, -30.0, 30.0))
        left = excess > C - 1.0
        low, high = np.where(left, t, low), np.where(left, high, t)
        new = np.where((step >= low * (1 - 1e-9)) & (step <= high * (1 + 1e-9)), step, np.sqrt(low * high))
        done = np.all(settled | (np.abs(new - t) <= 1e-7 * t))
        t = new
        if done:
            break
    value = t - (np.sqrt(t[:, :, None] + below[:, None, :]) @ q) ** 2 / C
    at_zero = -((np.sqrt(below) @ q) ** 2)[:, None] / C
    found = top + np.minimum(np.minimum(value, at_zero), 0.0)
    return np.asarray(np.where(C <= 1.0 + 1e-15, (v @ q)[:, None], found))


def maximiser(v: Floats, q: Floats, C: float) -> Floats:
    """The R that attains max {R·v : Σ_u q_u²/R_u ≤ C}: R ∝ q/√(τ − v), and what is left on an empty cell where v is
    greatest."""
    top = float(v.max())
    if C <= 1.0 + 1e-15 or float(v.min()) == top:
        return q.copy()
    value = float(greatest(v, q, np.array([C]))[0, 0])
    low, high = 1e-22 * (top - float(v.min())), float(1e8 * (top - v.min()))
    on = q > 0
    for _ in range(200):
        t = np.sqrt(low * high)
        x = np.sqrt(t + top - v[on])
        low, high = (t, high) if (q[on] @ x) * (q[on] @ (1.0 / x)) > C else (low, t)
    x = np.sqrt(high + top - v[on])
    R = np.zeros(len(q))
    R[on] = q[on] / x
    if (q[on] @ x) * (q[on] @ (1.0 / x)) < C * (1.0 - 1e-6) and not on[int(v.argmax())]:
        R[on] *= (q[on] @ x) / C
        R[int(v.argmax())] = max(1.0 - float(R.sum()), 0.0)
    R /= R.sum()
    assert R @ v <= value + 1e-6 * max(1.0, abs(value))
    return R


def least(v: Floats, q: Floats, C: Floats) -> Floats:
    """m[i, j] = min {R·v_i : Σ_u q_u²/R_u ≤ C_j}."""
    return np.maximum(-greatest(-np.atleast_2d(v), q, C), 0.0)


def radius(share: float, slack: Floats) -> Floats:
    """C_s = (1 + b'/P̂_s)²: the conditional ball of a secret that is given the part b' of the slack [000, Thm 1;
    002, Thm 3]."""
    return np.asarray((1.0 + slack / share) ** 2)


@dataclass(frozen=True, slots=True)
class Worst:
    """The worst ratio of a mechanism over F and where it is: output y, secrets s1 over s2, slack given to s1."""

    log_ratio: float
    y: int
    s1: int
    s2: int
    split: float


def split_grid(b: float, nodes: int) -> Floats:
    """Splits of the slack, dense at both ends where the extremes move like √b'."""
    return np.asarray(b * np.sin(np.linspace(0.0, np.pi / 2, nodes)) ** 2)


def pair_ratio(v1: Floats, q1: Floats, P1: float, v2: Floats, q2: Floats, P2: float, b: float) -> tuple[float, float]:
    """max (R1·v1)/(R2·v2) over b1(R1) + b2(R2) ≤ b, and the split b1 that attains it.

    log M(b1) − log m(b − b1) is quasi-concave in b1; refined grids of 17 nodes shrink the bracket about eightfold
    each [errata 002].
    """
    low, high = 0.0, b
    best, at = -np.inf, 0.0
    for _ in range(5):
        grid = low + split_grid(high - low, 17)
        ratio = greatest(v1, q1, radius(P1, grid))[0] / np.maximum(least(v2, q2, radius(P2, b - grid))[0], 1e-300)
        j = int(np.argmax(ratio))
        if ratio[j] > best:
            best, at = float(ratio[j]), float(grid[j])
        low, high = float(grid[max(j - 1, 0)]), float(grid[min(j + 1, 16)])
    return best, at


def worst_of_atoms(atoms: list[Floats], index: Ints, p: Floats, b: float, *, nodes: int = 33, refine: int = 4) -> Worst:
    """Worst ratio over rows given as atoms: row y is atoms[s][index[y, s]] for every s (ours).

    Extremes are evaluated once per atom; per row and split only the two greatest M and the two least m matter,
    because s1 ≠ s2.
    The best few (y, s1, s2) are then refined in the split.
    """
    grid = split_grid(b, nodes)
    shares = p.sum(axis=1)
    rows = len(index)
    if rows == 0 or len(atoms) < 2:
        return Worst(0.0, 0, 0, 0, 0.0)
    first = np.full((rows, nodes), -1.0)
    second = first.copy()
    arg = np.zeros((rows, nodes), dtype=np.int64)
    low1 = np.full((rows, nodes), np.inf)
    low2 = low1.copy()
    arg_low = arg.copy()
    for s, h in enumerate(atoms):
        q = p[s] / shares[s]
        up = greatest(h, q, radius(shares[s], grid))[index[:, s]]
        down = least(h, q, radius(shares[s], b - grid))[index[:, s]]
        better = up > first
        second = np.where(better, first, np.maximum(second, up))
        arg, first = np.where(better, s, arg), np.where(better, up, first)
        worse = down < low1
        low2 = np.where(worse, low1, np.minimum(low2, down))
        arg_low, low1 = np.where(worse, s, arg_low), np.where(worse, down, low1)
    same = arg == arg_low
    ratio = np.where(
        same,
        np.maximum(first / np.maximum(low2, 1e-300), second / np.maximum(low1, 1e-300)),
        first / np.maximum(low1, 1e-300),
    )
    return _refined(ratio, atoms, index, p, shares, b, refine)


def _refined(
    ratio: Floats, atoms: list[Floats], index: Ints, p: Floats, shares: Floats, b: float, refine: int
) -> Worst:
    """Polish the `refine` worst rows: at the best grid split list the pairs again, then search the split of each
    exactly."""
    grid = split_grid(b, ratio.shape[1])
    peak = ratio.argmax(axis=1)
    order = np.argsort(-ratio.max(axis=1))[:refine]
    best = Worst(-np.inf, 0, 0, 0, 0.0)
    for y in order:
        y = int(y)
        at = grid[peak[y]]
        ups = np.array(
            [greatest(h[index[y, s]], p[s] / shares[s], radius(shares[s], at))[0, 0] for s, h in enumerate(atoms)]
        )
        downs = np.array(
            [least(h[index[y, s]], p[s] / shares[s], radius(shares[s], b - at))[0, 0] for s, h in enumerate(atoms)]
        )
        table = ups[:, None] / np.maximum(downs[None, :], 1e-300)
        np.fill_diagonal(table, -1.0)
        for flat in np.argsort(-table.ravel())[:2]:
            s1, s2 = divmod(int(flat), len(atoms))
            value, split = pair_ratio(
                atoms[s1][index[y, s1]],
                p[s1] / shares[s1],
                shares[s1],
                atoms[s2][index[y, s2]],
                p[s2] / shares[s2],
                shares[s2],
                b,
            )
            if np.log(value) > best.log_ratio:
                best = Worst(float(np.log(value)), y, s1, s2, split)
    return best


def worst_of_rows(rows: Floats, p: Floats, b: float, **options: int) -> Worst:
    """Worst ratio of Q[y, s·|U| + u] over F."""
    S, U = p.shape
    blocks = rows.reshape(len(rows), S, U)
    scale = blocks.max(axis=(1, 2), keepdims=True)
    unit = blocks / np.maximum(scale, 1e-300)
    keep = np.flatnonzero(scale.ravel() > 0)
    index = np.repeat(keep[:, None], S, axis=1)
    return worst_of_atoms([unit[:, s] for s in range(S)], index, p, b, **options)
