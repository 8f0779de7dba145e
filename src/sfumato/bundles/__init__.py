"""Bundles: many columns under one promise about the secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.bundles.designing import BundleDesign, bundle
    from sfumato.bundles.trees import ModelFit

__all__ = on_demand(__name__, {
    ".designing": "BundleDesign bundle",
    ".trees": "ModelFit",
})
