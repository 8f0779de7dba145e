"""sfumato: release categorical data so that a secret cannot be inferred beyond a proved limit."""

from __future__ import annotations

from sfumato.demand import on_demand

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
    "promises": "certification",
    "design": "designers", "methods": "designers", "Design": "designers", "Draft": "designers", "Task": "designers",
    "register": "designers", "Claim": "mechanism", "Table": "mechanism",
    "least_epsilon": "designers", "least_leakage": "designers", "tradeoff": "designers", "designs": "designers",
    "compose": "composing", "Composition": "composing", "Waves": "composing", "waves": "composing",
    "bundle": "bundles", "BundleDesign": "bundles", "Bundle": "mechanism", "Promise": "mechanism",
    "release": "releasing", "plan": "releasing", "Plan": "releasing", "publish": "releasing", "Release": "releasing",
    "estimate": "estimation", "synthesise": "estimation", "numbers": "estimation", "compare": "comparing",
    "audit": "auditing", "Survey": "survey", "Question": "survey",
    "SfumatoError": "errors", "InputError": "errors", "DataError": "errors", "ClaimError": "errors",
    "BudgetError": "errors", "Ledger": "ledgers",
}
# Where each public name lives; loaded on first use so that importing sfumato is quick.

__all__ = ["__version__", *sorted(_HOME)]

on_demand(__name__, {name: f"sfumato.{home}" for name, home in _HOME.items()})
