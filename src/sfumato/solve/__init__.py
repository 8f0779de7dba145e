"""Numeric engines that know nothing of privacy: linear and conic programmes, column generation, layouts, saddles."""
