"""sfumato: release categorical data so that a secret cannot be inferred beyond a proved limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:  # what a type checker sees; at run time the table below says where a name lives
    from sfumato import datasets
    from sfumato.alphabet import Alphabet, Column
    from sfumato.auditing import audit
    from sfumato.certification import certify, seal, verify
    from sfumato.certification.promises import promises
    from sfumato.composing import BundleDesign, Composition, Waves, bundle, compose, waves
    from sfumato.designers import (
        Design,
        Draft,
        Task,
        design,
        designs,
        least_epsilon,
        least_leakage,
        methods,
        register,
        tradeoff,
    )
    from sfumato.errors import BudgetError, ClaimError, DataError, InputError, SfumatoError
    from sfumato.estimation import estimate, synthesise
    from sfumato.estimation.numbers import numbers
    from sfumato.joint import Joint
    from sfumato.ledgers import Ledger
    from sfumato.mechanism import Bundle, Claim, Mechanism, Promise, Table, Tabular, load, load_counts, save_counts
    from sfumato.noise import noisy_counts
    from sfumato.privacy import (
        LDP,
        LIP,
        PML,
        RLDP,
        SRLIP,
        Arimoto,
        BayesLeakage,
        Contraction,
        GainLeakage,
        Leakage,
        MaximalAlphaLeakage,
        MaximalCorrelation,
        MaximalLeakage,
        PointwiseLeakage,
        RenyiLDP,
        Shannon,
        Sibson,
        TiltedLeakage,
        TotalVariation,
        WorstInputLeakage,
        about_one_person,
        expected_distortion,
        lattice,
        leakage_map,
        least_information,
        level,
        measure,
        mutual_information,
        nmi,
        recovery,
    )
    from sfumato.releasing import Plan, Release, plan, publish, release
    from sfumato.reporting import compare
    from sfumato.sources import Place, open_source
    from sfumato.sources.tabulation import tabulate
    from sfumato.survey import Question, Survey
    from sfumato.uncertainty import Anything, ChiSquareBall, Custom, Exactly, Polytope, RenyiBall, covering

__version__ = "0.1.0"

_HOMES = {  # where each public name lives; loaded on first use so that importing sfumato is quick
    "alphabet": "Alphabet Column",
    "joint": "Joint",
    "sources.tabulation": "tabulate",
    "datasets": "datasets",
    "sources": "Place open_source",
    "uncertainty": "Anything ChiSquareBall Custom Exactly Polytope RenyiBall covering",
    "noise": "noisy_counts",
    "mechanism": "Bundle Claim Mechanism Promise Table Tabular load load_counts save_counts",
    "privacy": (
        "LDP LIP PML RLDP SRLIP Arimoto BayesLeakage Contraction GainLeakage Leakage MaximalAlphaLeakage "
        "MaximalCorrelation MaximalLeakage PointwiseLeakage RenyiLDP Shannon Sibson TiltedLeakage TotalVariation "
        "WorstInputLeakage about_one_person expected_distortion lattice leakage_map least_information level measure "
        "mutual_information nmi recovery"
    ),
    "certification": "certify seal verify",
    "certification.promises": "promises",
    "designers": "Design Draft Task design designs least_epsilon least_leakage methods register tradeoff",
    "composing": "BundleDesign Composition Waves bundle compose waves",
    "releasing": "Plan Release plan publish release",
    "estimation": "estimate synthesise",
    "estimation.numbers": "numbers",
    "reporting": "compare",
    "auditing": "audit",
    "survey": "Question Survey",
    "errors": "BudgetError ClaimError DataError InputError SfumatoError",
    "ledgers": "Ledger",
}

__all__ = ["__version__", *on_demand(__name__, {f"sfumato.{home}": names for home, names in _HOMES.items()})]
