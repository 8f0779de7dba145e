"""Uncertainty sets: the distributions the data may have come from."""

from sfumato.uncertainty.anything import Anything
from sfumato.uncertainty.base import Extreme, UncertaintySet, Worst
from sfumato.uncertainty.chi_square import ChiSquareBall
from sfumato.uncertainty.covering import covering
from sfumato.uncertainty.custom import Custom
from sfumato.uncertainty.exactly import Exactly
from sfumato.uncertainty.polytope import Polytope
from sfumato.uncertainty.renyi import RenyiBall

__all__ = [
    "Anything", "ChiSquareBall", "Custom", "Exactly", "Extreme", "Polytope", "RenyiBall", "UncertaintySet", "Worst",
    "covering",
]
