"""Tolerances that several solvers share, each with its reason; what a search may try and how often stands with it."""

MARGIN = 1e-10  # nats below ε at which a repair aims where the level is searched for: the search is good to 1e-11
SUMMED = 1e-14  # the same where the level is a closed form: only sums in another order may differ
GHOST = 1e-7  # an output never sent with more than this probability is the dust of a solver [errata 002]
DUST = 1e-12  # of a mixture, a price or a column: below it a number stands for zero
TIDY = 1e-11  # of a posterior: digits that HiGHS has
SOLVED = 1e-10  # accuracy asked of Clarabel where its point is nearly the answer
REPAIRED = 1e-9  # accuracy asked of Clarabel where mending takes what is missing
UNIT = 2.0**-52  # of rounding in floats
TINY = 1e-300  # in place of zero, under a logarithm or a division
