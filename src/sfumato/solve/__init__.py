"""Numeric engines that know nothing of privacy: programmes, columns, layouts, rays, covers, lattices, saddles."""
