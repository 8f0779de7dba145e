"""Limits that several packages share, each once and with its reason: of floats, memory, time, and what is shown."""

from __future__ import annotations

LEAST = 1e-300  # stands for zero below a fraction, a root or a logarithm, which then stay floats
EXPONENT = 700.0  # e to the power of it, and of minus it, are floats with room for a few factors more
UNIT = 2.0**-52  # of rounding in floats, relative: a sum of k of them is off by k units at most
SLIP = 1e-12  # relative: sums of a million floats lose less to rounding
ALIKE = 1e-9  # relative: what two searches in floats find of one number differs by less
SUMS_TO_ONE = 1e-9  # by which probabilities that are given may miss a sum of 1: files carry decimal digits
NEAR_ONE = 1e-2  # of an order above 1: nearer, powers are 1 + expm1, to keep the digits that 1/(α − 1) magnifies
RANK = 1e-8  # singular values below this share of the largest count as zero: n = 10^16 rows would be needed
HALVINGS = 60  # of a bracket: then floats have nothing left between its ends
SUBSETS = 12  # values whose sets are listed, all 4096 of them
SQUARE = 3000  # rows of a square matrix that is made and inverted: 72 MB, and some seconds
CHANNEL = 4_000_000  # outputs × inputs that are looked at one by one: some seconds
LISTED = 20_000_000  # numbers of a table that is written out: 160 MB
BLOCK = 4_000_000  # numbers of a stretch of work on something longer: 32 MB
TABLE = 1_000_000  # cells of a table of a few columns that somebody asks for
ROWS_AT_ONCE = 1 << 20  # rows gathered before they are written, merged or sent
BYTES_AT_ONCE = 1 << 26  # and the bytes that they may take
BUSY = 120.0  # seconds to wait for others who write to the same file
NAMED = 6  # of a list in a sentence, or on a first screen
AT_A_GLANCE = 12  # of a list at a glance
PICTURED = 24  # rows, or columns, of a table as a picture
LINES = 40  # of a list on a page
DRAWN = 60  # bars of one picture, or records in a notebook
SEED = 20_260_101  # of simulations that everybody who repeats them must find alike
