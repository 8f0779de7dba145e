"""sfumato: release categorical data so that a secret cannot be inferred beyond a proved limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:  # what a type checker sees; at run time the table below says where a name lives
    from sfumato import datasets
    from sfumato.alphabet import Alphabet, Column
    from sfumato.auditing import audit
    from sfumato.bundles import BundleDesign, bundle
    from sfumato.certification import certify, seal, verify
    from sfumato.certification.promises import promises
    from sfumato.comparing import compare
    from sfumato.composing import Composition, Waves, compose, waves
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
        lattice,
        leakage_map,
        level,
        measure,
    )
    from sfumato.releasing import Plan, Release, plan, publish, release
    from sfumato.sources import Place, open_source
    from sfumato.sources.tabulation import tabulate
    from sfumato.survey import Question, Survey
    from sfumato.uncertainty import Anything, ChiSquareBall, Custom, Exactly, Polytope, RenyiBall, covering
    from sfumato.utility import expected_distortion, least_information, mutual_information, nmi, recovery

__version__ = "0.1.0"

_HOME = {
    "Alphabet": "alphabet", "Column": "alphabet", "Joint": "joint", "tabulate": "sources.tabulation",
    "datasets": "datasets", "Place": "sources", "open_source": "sources",
    "ChiSquareBall": "uncertainty", "Exactly": "uncertainty", "Anything": "uncertainty",
    "RenyiBall": "uncertainty", "Polytope": "uncertainty", "Custom": "uncertainty",
    "covering": "uncertainty", "noisy_counts": "noise",
    "Mechanism": "mechanism", "Tabular": "mechanism", "load": "mechanism",
    "save_counts": "mechanism", "load_counts": "mechanism",
    "LDP": "privacy", "LIP": "privacy", "PML": "privacy", "RLDP": "privacy", "SRLIP": "privacy",
    "level": "privacy", "measure": "privacy",
    "Leakage": "privacy", "TiltedLeakage": "privacy", "MaximalLeakage": "privacy", "MaximalAlphaLeakage": "privacy",
    "WorstInputLeakage": "privacy", "RenyiLDP": "privacy", "Sibson": "privacy", "Arimoto": "privacy",
    "Shannon": "privacy", "BayesLeakage": "privacy", "GainLeakage": "privacy", "PointwiseLeakage": "privacy",
    "TotalVariation": "privacy", "Contraction": "privacy", "MaximalCorrelation": "privacy",
    "about_one_person": "privacy", "lattice": "privacy", "leakage_map": "privacy",
    "mutual_information": "utility", "nmi": "utility", "least_information": "utility", "recovery": "utility",
    "expected_distortion": "utility",
    "seal": "certification", "certify": "certification", "verify": "certification",
    "promises": "certification.promises",
    "design": "designers", "methods": "designers", "Design": "designers", "Draft": "designers", "Task": "designers",
    "register": "designers", "Claim": "mechanism", "Table": "mechanism",
    "least_epsilon": "designers", "least_leakage": "designers", "tradeoff": "designers", "designs": "designers",
    "compose": "composing", "Composition": "composing", "Waves": "composing", "waves": "composing",
    "bundle": "bundles", "BundleDesign": "bundles", "Bundle": "mechanism", "Promise": "mechanism",
    "release": "releasing", "plan": "releasing", "Plan": "releasing", "publish": "releasing", "Release": "releasing",
    "estimate": "estimation", "synthesise": "estimation", "numbers": "estimation.numbers", "compare": "comparing",
    "audit": "auditing", "Survey": "survey", "Question": "survey",
    "SfumatoError": "errors", "InputError": "errors", "DataError": "errors", "ClaimError": "errors",
    "BudgetError": "errors", "Ledger": "ledgers",
}
# Where each public name lives; loaded on first use so that importing sfumato is quick.

__all__ = [
    "LDP",
    "LIP",
    "PML",
    "RLDP",
    "SRLIP",
    "Alphabet",
    "Anything",
    "Arimoto",
    "BayesLeakage",
    "BudgetError",
    "Bundle",
    "BundleDesign",
    "ChiSquareBall",
    "Claim",
    "ClaimError",
    "Column",
    "Composition",
    "Contraction",
    "Custom",
    "DataError",
    "Design",
    "Draft",
    "Exactly",
    "GainLeakage",
    "InputError",
    "Joint",
    "Leakage",
    "Ledger",
    "MaximalAlphaLeakage",
    "MaximalCorrelation",
    "MaximalLeakage",
    "Mechanism",
    "Place",
    "Plan",
    "PointwiseLeakage",
    "Polytope",
    "Promise",
    "Question",
    "Release",
    "RenyiBall",
    "RenyiLDP",
    "SfumatoError",
    "Shannon",
    "Sibson",
    "Survey",
    "Table",
    "Tabular",
    "Task",
    "TiltedLeakage",
    "TotalVariation",
    "Waves",
    "WorstInputLeakage",
    "__version__",
    "about_one_person",
    "audit",
    "bundle",
    "certify",
    "compare",
    "compose",
    "covering",
    "datasets",
    "design",
    "designs",
    "estimate",
    "expected_distortion",
    "lattice",
    "leakage_map",
    "least_epsilon",
    "least_information",
    "least_leakage",
    "level",
    "load",
    "load_counts",
    "measure",
    "methods",
    "mutual_information",
    "nmi",
    "noisy_counts",
    "numbers",
    "open_source",
    "plan",
    "promises",
    "publish",
    "recovery",
    "register",
    "release",
    "save_counts",
    "seal",
    "synthesise",
    "tabulate",
    "tradeoff",
    "verify",
    "waves",
]

on_demand(__name__, {name: f"sfumato.{home}" for name, home in _HOME.items()})
