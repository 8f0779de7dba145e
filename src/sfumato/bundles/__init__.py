"""Bundles: many columns under one promise about the secret."""

from sfumato.bundles.designing import BundleDesign, bundle
from sfumato.bundles.fitting import ModelFit

__all__ = ["BundleDesign", "ModelFit", "bundle"]
