"""sfumato: release categorical data so that a secret cannot be inferred beyond a proved limit."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Alphabet": "alphabet", "Column": "alphabet", "Joint": "joint", "tabulate": "tabulation", "datasets": "datasets",
    "Place": "sources", "open_source": "sources",
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
    "least_epsilon": "designers", "least_leakage": "designers", "tradeoff": "designers",
    "compose": "composing", "Composition": "composing", "Waves": "composing", "waves": "composing",
    "bundle": "bundles", "BundleDesign": "bundles", "Bundle": "mechanism", "Promise": "mechanism",
    "release": "releasing", "plan": "releasing", "Plan": "releasing", "publish": "releasing", "Release": "releasing",
    "estimate": "estimation", "synthesise": "estimation", "numbers": "estimation", "compare": "comparing",
    "audit": "auditing", "Survey": "survey", "Question": "survey",
    "SfumatoError": "errors", "InputError": "errors", "DataError": "errors", "ClaimError": "errors",
    "BudgetError": "errors", "Ledger": "ledgers",
}
# Where each public name lives; loaded on first use so that importing sfumato is quick. No module may bear the name of
# a function here: importing a submodule sets it as an attribute of the package and would hide the function.

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    module = importlib.import_module(f"sfumato.{_HOME[name]}")
    value = module if name == "datasets" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
