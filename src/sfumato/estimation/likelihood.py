"""Maximum likelihood by expectation–maximisation, for any law that can be applied forwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError

Apply = Callable[[Floats], Floats]
ROUNDS = 20_000
WORK = 500_000_000  # rounds times cells; a table of a million cells gets 500 rounds
ENOUGH = 1e-2  # stop when the log-likelihood of all rows together is proved to be this near its maximum (nats)


@dataclass(frozen=True, eq=False)
class Fit:
    """The fitted law, with a proved bound on how far its total log-likelihood is from the maximum."""

    p: Floats
    gap: float
    rounds: int


def most_likely(forward: Apply, adjoint: Apply, f: Floats, n: int, start: Floats) -> Fit:
    """argmax_p Σ_y f(y) log (Qp)(y) over the simplex.

    p ← p·g with g = Qᵀ(f / Qp). The log-likelihood is concave with gradient g and Σ p·g = 1, so the maximum
    is at most max g − 1 away per row: the loop stops on a proof and not on slow progress. Every other
    round tries a longer step along the change of log p (over-relaxed EM), kept only if it is better.
    """
    p, best, stretch = start / start.sum(), -np.inf, 1.0
    seen = f > 0
    gap = np.inf
    for count in range(1, max(100, min(ROUNDS, WORK // p.size)) + 1):  # noqa: B007 - the number of rounds is part of the answer
        q = forward(p)
        if np.any(q[seen] <= 0):
            raise InputError("these counts are impossible under this mechanism: an output it never gives occurs.")
        value = float((f[seen] * np.log(q[seen])).sum())
        g = adjoint(np.divide(f, q, out=np.zeros_like(f), where=seen))
        if value >= best:
            best, kept, slope, stretch = value, p, g, stretch * 1.3
            gap = n * float(max(g.max() - 1, 0.0))
            if gap <= ENOUGH:
                break
        else:
            stretch = 1.0
        p = kept * np.maximum(slope, 0.0) ** stretch
        p = p / p.sum()
    return Fit(kept, gap, count)
