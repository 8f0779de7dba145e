"""Composing: several releases of the same rows as one mechanism, and the level of the whole."""

from sfumato.composing.composition import Composition, Level, compose
from sfumato.composing.joining import joined
from sfumato.composing.repeating import Waves, waves
from sfumato.composing.totals import Total, total_levels

__all__ = ["Composition", "Level", "Total", "Waves", "compose", "joined", "total_levels", "waves"]
