"""The most informative mechanism under a promise: a table in an order of its own, without what never occurs, through
the stages of the chain. Tables whose rows cannot be listed are designed as whole layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.joint import Joint
from sfumato.optimise.arrays import Floats, Ints, canonical
from sfumato.optimise.budget import Budget
from sfumato.optimise.carrying import Carried
from sfumato.optimise.chain import GAP, Chain, InformativeRows
from sfumato.optimise.cone import Coordinates, RatioCone
from sfumato.optimise.master import last_rows
from sfumato.optimise.product.blocks import Families, safe, two_level
from sfumato.optimise.product.profiles import Arrangement, liked
from sfumato.optimise.product.two_level import Profile
from sfumato.optimise.search import CALM

LISTED = 600  # numbers in a row up to which rows are listed: the master is a dense programme with so many equations
DIGITS = 12  # of starts: sums over labels in another order differ after these, and a search magnifies it


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
    own = Ordered.of(within, reads)
    within, first = own.within, [own.there(x).round(DIGITS) for x in starts]
    first = [x[np.lexsort(x.T)] for x in first]
    chain = Chain(
        within, epsilon, reads, budget, gap=gap, profile=profile, quick=quick, at_most=at_most, carried=carried,
        bounding=bounding, calm=CALM if bounding and carried is None else 1,
    )
    return own.back(chain.run(first, [own.there(x) for x in others]))


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """A table in an order of its own, and rows on the way there and back."""

    within: Any
    reads: str
    s: Ints
    u: Ints

    @classmethod
    def of(cls, within: Any, reads: str) -> Ordered:
        joint = within.joint
        if not hasattr(within, "around"):
            return cls(within, reads, np.arange(joint.shape[0]), np.arange(joint.shape[1]))
        s, u = canonical(joint.p)
        return cls(within.around(Joint.from_probabilities(joint.p[s][:, u], n=joint.n)), reads, s, u)

    def there(self, rows: Floats) -> Floats:
        return self._moved(rows, self.s, self.u)

    def back(self, found: InformativeRows) -> InformativeRows:
        rows = found.rows if self.reads == "both" else found.rows[:, : len(self.u)]
        found.rows = self._moved(rows, np.argsort(self.s), np.argsort(self.u))
        return found

    def _moved(self, x: Floats, s: Ints, u: Ints) -> Floats:
        if self.reads != "both":
            return np.asarray(x[:, u])
        return np.asarray(x.reshape(-1, len(s), len(u))[:, s][:, :, u].reshape(len(x), -1))


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
