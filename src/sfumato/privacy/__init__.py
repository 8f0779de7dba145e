"""Privacy: notions of what a release may tell about an input or a secret; and what it keeps for an analyst.

All have `level(mechanism)`; measures also have `reading(mechanism, prior)` with bound, worst prior and witness, and
`of(channel, prior)` for a bare matrix Q[y, x].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.privacy.beliefs import LIP, PML, SRLIP, BayesLeakage, GainLeakage, MaximalLeakage, PointwiseLeakage
    from sfumato.privacy.ceilings import (
        LeastInformation,
        Recovery,
        ceiling,
        expected_distortion,
        least_information,
        recovery,
    )
    from sfumato.privacy.dependence import (
        Arimoto,
        Contraction,
        Leakage,
        MaximalAlphaLeakage,
        MaximalCorrelation,
        Shannon,
        Sibson,
        TiltedLeakage,
        TotalVariation,
        WorstInputLeakage,
        dual_laws,
    )
    from sfumato.privacy.information import Information, information, mutual_information, nmi
    from sfumato.privacy.ldp import LDP, RLDP, RenyiLDP
    from sfumato.privacy.measures import Measure, Notion, Reading, Witness, apart, level, measure, together
    from sfumato.privacy.overview import (
        EDGES,
        Lattice,
        LeakageMap,
        about_one_person,
        lattice,
        leakage_map,
        map_of,
        overview,
    )

__all__ = on_demand(__name__)
