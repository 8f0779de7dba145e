"""sfumato: release categorical data so that a secret cannot be inferred beyond a proved limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:  # it says at run time, too, where a name lives: there it is loaded on first use
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

__all__ = ["__version__", *on_demand(__name__)]
