"""The search for mechanisms: one engine for rows under a promise, and the problems that truly differ.

`linear` (with the best mixture of listed points) and `conic` speak to the solvers, `arrays` makes an answer private,
`budget` says how long a search may take. What truly differs: `loss`, `funnel`, `saddle`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:  # what others ask for now and then
    from sfumato.optimise.estimates.goal import Goal, goal
    from sfumato.optimise.estimates.searching import filled, searched
    from sfumato.optimise.product.two_level import liked
    from sfumato.optimise.saddle import Orders, SaddleProblem, freely, worst_reference

__all__ = on_demand(__name__)
