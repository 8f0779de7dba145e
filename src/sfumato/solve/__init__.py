"""Solve: numeric engines that know nothing of privacy."""
