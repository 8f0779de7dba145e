"""Numeric engines that know nothing of privacy: linear programmes, column generation, layouts."""
