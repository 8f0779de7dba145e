"""The compiled loops themselves; importing this module loads numba."""
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-any-return"

from __future__ import annotations

import numpy as np
from numba import njit, uint64


@njit(nogil=True, cache=True)
def fill_table(codes, words, out, entries, bucket_bits, threshold_bits, bits):
    """Walker's alias method: one word, one look-up."""
    within = (uint64(1) << uint64(threshold_bits)) - uint64(1)
    whole = (uint64(1) << uint64(bits)) - uint64(1)
    for i in range(len(codes)):
        word = words[i] & whole
        bucket = word >> uint64(threshold_bits)
        entry = entries[(uint64(codes[i]) << uint64(bucket_bits)) + bucket]
        out[i] = bucket if (word & within) < (entry >> uint64(16)) else entry & uint64(0xFFFF)


@njit(nogil=True, cache=True)
def fill_cells(codes, words, out, useful, ends, weights, bits):
    """The word's range cut into four runs: the truth, the same secret, the same useful value, neither."""
    whole = (uint64(1) << uint64(bits)) - uint64(1)
    for i in range(len(codes)):
        word = np.int64(words[i] & whole)
        x = np.int64(codes[i])
        if word < ends[0]:
            out[i] = x
            continue
        s, u = x // useful, x % useful
        if word < ends[1]:
            at = (word - ends[0]) // weights[1]
            u = at + (at >= u)
        elif word < ends[2]:
            at = (word - ends[1]) // weights[2]
            s = at + (at >= s)
        else:
            at = (word - ends[2]) // weights[3]
            row, column = at // (useful - 1), at % (useful - 1)
            s, u = row + (row >= s), column + (column >= u)
        out[i] = s * useful + u
