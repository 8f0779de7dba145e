"""The most informative mechanisms of one table at several ε: one search for all of them, then bounds from above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.optimise.all_levels import Level, Together, joinable
from sfumato.optimise.arrays import Floats
from sfumato.optimise.budget import Budget
from sfumato.optimise.carrying import Carried
from sfumato.optimise.informative import Chain, InformativeRows, Ordered

MOVES = 0.9  # of the time that is left: moves of all levels that were not met
RAYS = 8_000  # of a cone that is cut at from outside, at most
EACH = 2.0  # times its even share of the time that is left, which a level may take to be met from outside
CLOSER = 0.5  # of the gap: where cuts are few another round costs little
WORTH = 0.05  # relative gap above which cuts from outside are not likely to say more than other bounds do


def informative_along(
    within: Any, epsilons: Sequence[float], budget: Budget, *, reads: str, starts: Sequence[Sequence[Floats]],
    gap: float,
) -> list[InformativeRows] | None:
    """Rows and bounds at increasing ε; None where levels are not searched together.

    The largest ε is met from outside first: there little is curved, and its worst cases are cut at again at the next.
    Levels that are not met are moved together; their bounds hold as they are.
    """
    own = Ordered.of(within, reads)
    chains = [Chain(own.within, x, reads, budget, gap=CLOSER * gap, rays=RAYS) for x in epsilons]
    if not all(joinable(x.cone) for x in chains) or (own.within.joint.p_secret <= 0).any():
        return None
    last: Carried | None = None
    for i, (chain, rows) in enumerate(zip(reversed(chains), reversed(starts), strict=True)):
        chain.pool(np.concatenate([own.there(start) for start in rows]))
        if last is None or last.gap < WORTH:
            chain.carried, chain.budget = last, budget.part(min(1.0, EACH / (len(chains) - i)))
            chain.attempt("carried", chain.begin)
            chain.attempt("outside", chain.outside)
        last = chain.handed()
    levels = [Level(x.cone, x.master, met=x.bound - x.master.value <= gap * x.master.value) for x in chains]
    Together(levels).run(budget.part(MOVES))
    return [own.back(x.finished()) for x in chains]
