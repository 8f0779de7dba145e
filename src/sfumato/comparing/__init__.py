"""Comparing: every mechanism over a grid of ε, what it keeps and how well one can estimate from it."""

from sfumato.comparing.comparison import Comparison
from sfumato.comparing.entry import compare, curve
from sfumato.comparing.points import Missing, Point, Precision, Realised, Spread

__all__ = ["Comparison", "Missing", "Point", "Precision", "Realised", "Spread", "compare", "curve"]
