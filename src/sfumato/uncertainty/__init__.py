"""Uncertainty sets: the distributions the data may have come from."""

from sfumato.uncertainty.anything import Anything
from sfumato.uncertainty.base import Extreme, UncertaintySet, Worst
from sfumato.uncertainty.chi_square import ChiSquareBall
from sfumato.uncertainty.exactly import Exactly

__all__ = ["Anything", "ChiSquareBall", "Exactly", "Extreme", "UncertaintySet", "Worst"]
