"""Leakage saddles: levels of maximal (α, β)-leakage, and the best channels below them."""
