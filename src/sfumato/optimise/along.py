"""The most informative mechanisms of one table at several ε: one search for all of them, then bounds from above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.optimise.arrays import Floats
from sfumato.optimise.budget import Budget
from sfumato.optimise.informative import Chain, InformativeRows, Ordered
from sfumato.optimise.together import Level, Together, joinable

MOVES, OUTSIDE = 0.6, 0.25  # of the time: moves of all levels, and cuts from outside of one, of what is left for them
WORTH = 0.05  # relative gap above which cuts from outside are not likely to say more than other bounds do


def informative_along(
    within: Any, epsilons: Sequence[float], budget: Budget, *, reads: str, starts: Sequence[Sequence[Floats]],
    gap: float,
) -> list[InformativeRows] | None:
    """Rows and bounds at increasing ε; None where levels are not searched together.

    The largest ε is met from outside first: there little is curved, and its worst cases are cut at again at the next.
    """
    own = Ordered.of(within, reads)
    chains = [Chain(own.within, x, reads, budget, gap=gap) for x in epsilons]
    if not all(joinable(x.cone) for x in chains) or (own.within.joint.p_secret <= 0).any():
        return None
    for chain, rows in zip(chains, starts, strict=True):
        for start in rows:
            chain.pool(own.there(start))
    Together([Level(x.cone, x.master) for x in chains]).run(budget.part(MOVES))
    found: list[InformativeRows] = []
    for i, chain in enumerate(reversed(chains)):
        last = found[-1].carried if found else None
        chain.carried, chain.budget = last, budget.part(min(1.0, 2.0 / (len(chains) - i)))
        if last is None or last.gap < WORTH:
            chain.attempt("outside", chain.outside)
        found.append(chain.finished())
    return [own.back(x) for x in reversed(found)]
