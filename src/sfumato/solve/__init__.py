"""Numeric engines that know nothing of privacy: extreme rays, covers, column generation, branch and bound."""
