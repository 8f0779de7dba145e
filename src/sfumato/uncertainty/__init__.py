"""Uncertainty sets: the distributions the data may have come from."""

from sfumato.uncertainty.balls import ChiSquareBall, RenyiBall, covering
from sfumato.uncertainty.polytope import Polytope
from sfumato.uncertainty.sets import Anything, Custom, Exactly, Extreme, UncertaintySet, Worst

__all__ = [
    "Anything", "ChiSquareBall", "Custom", "Exactly", "Extreme", "Polytope", "RenyiBall", "UncertaintySet", "Worst",
    "covering",
]
