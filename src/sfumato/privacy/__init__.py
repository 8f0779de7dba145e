"""Privacy: notions of what a release may tell about an input or a secret.

All have `level(mechanism)`; measures also have `reading(mechanism, prior)` with bound, worst prior and witness, and
`of(channel, prior)` for a bare matrix Q[y, x].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy.typing as npt

from sfumato.demand import on_demand
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism

if TYPE_CHECKING:
    from sfumato.privacy.alpha_beta import Leakage, TiltedLeakage, WorstInputLeakage
    from sfumato.privacy.beliefs import LIP, PML, SRLIP, BayesLeakage, GainLeakage, MaximalLeakage, PointwiseLeakage
    from sfumato.privacy.ldp import LDP, RLDP, RenyiLDP
    from sfumato.privacy.measures import Measure, Reading, Witness, apart, together
    from sfumato.privacy.mutual_information import (
        Arimoto,
        Contraction,
        MaximalAlphaLeakage,
        MaximalCorrelation,
        Shannon,
        Sibson,
        TotalVariation,
    )
    from sfumato.privacy.overview import EDGES, Lattice, LeakageMap, about_one_person, lattice, leakage_map


class Notion(Protocol):
    """A measure of leakage in nats."""

    def level(self, mechanism: Mechanism) -> float:
        """The least ε for which the mechanism satisfies the notion."""


def level(mechanism: Mechanism, notion: Notion) -> float:
    """The least ε for which the mechanism satisfies the notion, in floats; `certify` proves it from the integers.

    >>> from sfumato.mechanism import Tabular
    >>> mechanism = Tabular([[0.75, 0.25], [0.25, 0.75]])
    >>> [round(level(mechanism, Leakage(a, b)), 6) for a, b in ((1, 1), (2, 2), (float("inf"), 1))]
    [0.130812, 0.847298, 0.405465]
    """
    return notion.level(mechanism)


def measure(
    mechanism: Mechanism, notion: Measure | RLDP, prior: Joint | npt.ArrayLike | None = None
) -> Reading:
    """Value, bound, prior and witness of a measure for a mechanism, at a prior or at the worst one.

    >>> from sfumato.mechanism import Tabular
    >>> found = measure(Tabular([[0.75, 0.25], [0.25, 0.75]]), Leakage(4, 2))
    >>> round(found.value, 6), found.gap <= 1e-10, found.witness.other is not None
    (0.57983, True, True)
    """
    from sfumato.privacy.ldp import RLDP

    if isinstance(notion, RLDP):
        if prior is not None:
            raise InputError("RLDP holds for every distribution in its set; it takes no prior.")
        return notion.reading(mechanism)
    return notion.reading(mechanism, prior)


__all__ = [
    "EDGES", "LDP", "LIP", "PML", "RLDP", "SRLIP", "Arimoto", "BayesLeakage", "Contraction", "GainLeakage",
    "Lattice", "Leakage", "LeakageMap", "MaximalAlphaLeakage", "MaximalCorrelation", "MaximalLeakage", "Measure",
    "Notion", "PointwiseLeakage", "Reading", "RenyiLDP", "Shannon", "Sibson", "TiltedLeakage", "TotalVariation",
    "Witness", "WorstInputLeakage", "about_one_person", "apart", "lattice", "leakage_map", "level", "measure",
    "together",
]

on_demand(__name__, {
    "Arimoto": ".mutual_information", "BayesLeakage": ".beliefs", "Contraction": ".mutual_information",
    "EDGES": ".overview", "GainLeakage": ".beliefs", "LDP": ".ldp", "LIP": ".beliefs", "Lattice": ".overview",
    "Leakage": ".alpha_beta", "LeakageMap": ".overview", "MaximalAlphaLeakage": ".mutual_information",
    "MaximalCorrelation": ".mutual_information", "MaximalLeakage": ".beliefs", "Measure": ".measures",
    "PML": ".beliefs", "PointwiseLeakage": ".beliefs", "RLDP": ".ldp", "Reading": ".measures", "RenyiLDP": ".ldp",
    "SRLIP": ".beliefs", "Shannon": ".mutual_information", "Sibson": ".mutual_information",
    "TiltedLeakage": ".alpha_beta", "TotalVariation": ".mutual_information", "Witness": ".measures",
    "WorstInputLeakage": ".alpha_beta", "about_one_person": ".overview", "apart": ".measures",
    "lattice": ".overview", "leakage_map": ".overview", "together": ".measures",
})
