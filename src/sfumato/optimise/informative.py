"""The most informative mechanism under a promise: a table in an order of its own, without what never occurs, through
the stages of the chain. Tables whose rows cannot be listed are designed as whole layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.joint import Joint
from sfumato.optimise.all_levels import Carried, OneLevel, Together, joinable
from sfumato.optimise.arrays import Floats, Ints, canonical
from sfumato.optimise.budget import Budget
from sfumato.optimise.chain import GAP, Chain, InformativeRows
from sfumato.optimise.cone import Coordinates, RatioCone
from sfumato.optimise.master import last_rows
from sfumato.optimise.product.blocks import Families, safe, two_level
from sfumato.optimise.product.profiles import Arrangement, liked
from sfumato.optimise.product.two_level import Profile

LISTED = 600  # numbers in a row up to which rows are listed: the master is a dense programme with so many equations
DIGITS = 12  # of starts: sums over labels in another order differ after these, and a search magnifies it
EACH = 2.0  # times its even share of the time that is left, which a level of a curve may take to be met from outside


def most_informative(
    within: Any, epsilon: float, budget: Budget, *, reads: str = "both", starts: Sequence[Floats] = (),
    others: Sequence[Floats] = (), profile: Profile | None = None, gap: float = GAP, quick: bool = False,
    at_most: float | None = None, carried: Carried | None = None, bounding: bool = True,
) -> InformativeRows:
    """Rows that keep most of I(X;Y) under ε-RLDP over the set and at_most-RLDP over any distribution; starts are
    private rows over all inputs, others those of other designs of this table, private or not; `carried` is what the
    same search ended with at another ε, bounding=False for whoever has a bound and no time.

    The table is put into an order of its own first, so that the answer does not depend on the order of its labels.
    """
    within, order = _in_own_order(within, reads)
    first = [x[:, order].round(DIGITS) for x in starts]
    chain = Chain(
        within, epsilon, reads, budget, gap=gap, profile=profile, quick=quick, at_most=at_most, carried=carried,
        bounding=bounding,
    )
    return _back(chain.run([x[np.lexsort(x.T)] for x in first], [x[:, order] for x in others]), order)


def informative_along(
    within: Any, epsilons: Sequence[float], budget: Budget, *, reads: str, starts: Sequence[Sequence[Floats]],
    gap: float, once: float | None = None,
) -> list[InformativeRows] | None:
    """Rows and bounds at increasing ε; None where levels are not searched together.

    The largest ε is met from outside first: there little is curved, and its worst cases are cut at again at the next.
    Levels that are not met are moved together, `once` as in `Together.run`; their bounds hold as they are.
    """
    within, order = _in_own_order(within, reads)
    chains = [Chain(within, x, reads, budget, gap=gap) for x in epsilons]
    if not all(joinable(x.cone) for x in chains) or (within.joint.p_secret <= 0).any():
        return None
    last: Carried | None = None
    for i, (chain, rows) in enumerate(zip(reversed(chains), reversed(starts), strict=True)):
        chain.pool(np.concatenate(rows)[:, order])
        chain.carried, chain.budget = last, budget.part(min(1.0, EACH / (len(chains) - i)))
        chain.begin()
        last = chain.handed()
    levels = [OneLevel(x.cone, x.master, enough=x.bound / (1 + gap)) for x in chains]
    Together(levels).run(budget, once=once)
    return [_back(x.finished(), order) for x in chains]


def _in_own_order(within: Any, reads: str) -> tuple[Any, Ints]:
    """A set around its table in an order of its own, and the place of each input there in the table as given."""
    joint = within.joint
    s, u = canonical(joint.p) if hasattr(within, "around") else map(np.arange, joint.shape)
    if hasattr(within, "around"):
        within = within.around(Joint.from_probabilities(joint.p[s][:, u], n=joint.n))
    return within, u if reads == "useful" else (s[:, None] * len(u) + u).ravel()


def _back(found: InformativeRows, order: Ints) -> InformativeRows:
    found.rows = found.rows[:, : len(order)][:, np.argsort(order)]
    return found


def listable(within: Any, reads: str, budget: Budget) -> bool:
    """Whether rows are few enough to be listed, and time suffices to make them private to the last pair twice over."""
    numbers = len(Coordinates.of(within.joint, reads).p)
    if numbers > LISTED:
        return False
    return 2.0 * RatioCone(within, 1.0, reads, closely=True).cost(last_rows(numbers)) <= budget.left


def widest(
    within: Any, epsilon: float, budget: Budget, profile: Profile | None = None, at_most: float | None = None,
    each: float = 0.0,
) -> tuple[Arrangement, Profile]:
    """A layout for a table whose rows are not listed: two-level blocks under the profile that a relaxation likes.

    `each` are the seconds that a secret with more than constants costs later.
    """
    p = within.joint.p
    chosen = liked(within, p, epsilon, at_most, budget.part())[0] if profile is None else profile
    return safe(two_level(Families(within, p, epsilon, chosen), budget, each=each), within, p, epsilon), chosen
