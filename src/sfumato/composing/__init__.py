"""Composing: several releases of the same rows as one mechanism, and bundles: many columns under one promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.composing.composition import Composition, Level, compose
    from sfumato.composing.designing import BundleDesign, bundle
    from sfumato.composing.joining import Total, joined, total_levels
    from sfumato.composing.repeating import Waves, waves
    from sfumato.composing.trees import ModelFit

__all__ = on_demand(__name__)
