"""The most informative mechanisms of one table at several ε: one search for all of them, then bounds from above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.optimise.arrays import Floats
from sfumato.optimise.budget import Budget
from sfumato.optimise.informative import Chain, InformativeRows, Ordered
from sfumato.optimise.together import Level, Together, joinable

MOVES = 0.6  # of the time that is left: moves of all levels that were not met
EACH = 2.0  # times its even share of the time that is left, which a level may take to be met from outside
CLOSER = 0.5  # of the gap: where cuts are few another round costs little
WORTH = 0.05  # relative gap above which cuts from outside are not likely to say more than other bounds do


def informative_along(
    within: Any, epsilons: Sequence[float], budget: Budget, *, reads: str, starts: Sequence[Sequence[Floats]],
    gap: float,
) -> list[InformativeRows] | None:
    """Rows and bounds at increasing ε; None where levels are not searched together.

    The largest ε is met from outside first: there little is curved, and its worst cases are cut at again at the next.
    The first level that is not met, and those below it, are moved together, and looked at from outside once more.
    """
    own = Ordered.of(within, reads)
    chains = [Chain(own.within, x, reads, budget, gap=CLOSER * gap) for x in epsilons]
    if not all(joinable(x.cone) for x in chains) or (own.within.joint.p_secret <= 0).any():
        return None
    for chain, rows in zip(chains, starts, strict=True):
        for start in rows:
            chain.pool(own.there(start))
    left = list(chains)
    found: list[InformativeRows] = []
    while left and _met(left[-1], found, budget.part(EACH / len(left)), gap):
        found.append(left.pop().finished())
    if left:
        Together([Level(x.cone, x.master) for x in chains[: len(left) + 1]]).run(budget.part(MOVES))
        found.append(left.pop().finished())  # cut at already
    while left:
        _met(left[-1], found, budget.part(min(1.0, EACH / len(left))), gap)
        found.append(left.pop().finished())
    return [own.back(x) for x in reversed(found)]


def _met(chain: Chain, found: list[InformativeRows], budget: Budget, gap: float) -> bool:
    """Whether value and bound are close, after cuts from outside that begin with the worst cases of the level above."""
    chain.budget, chain.carried = budget, found[-1].carried if found else None
    if chain.carried is not None and chain.carried.gap > WORTH:
        return False
    if chain.carried is not None:
        chain.master.add(chain.carried.rows_for(chain.cone))
    chain.attempt("outside", chain.outside)
    return chain.bound - chain.master.value <= gap * chain.master.value
