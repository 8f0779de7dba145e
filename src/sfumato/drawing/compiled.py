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
        partner = entry & uint64(0xFFFF)
        stays = uint64((word & within) < (entry >> uint64(16)))
        out[i] = partner + (bucket - partner) * stays  # without a branch, which would be guessed wrong half the time


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


@njit(nogil=True, cache=True)
def fill_layout(
    codes, words, out, useful, bits, below, heights, starts, guide, guide_shift, cuts, cut_guide, cut_shift
):
    """The atom that holds the word, the place of the word in it, and the output at that place.

    Both are searched only between what the guides say for the first bits, which is one candidate or a few.
    """
    whole = (uint64(1) << uint64(bits)) - uint64(1)
    for i in range(len(codes)):
        word = np.int64(words[i] & whole)
        x = np.int64(codes[i])
        at = word >> guide_shift
        low, high = np.int64(guide[x, at]), np.int64(guide[x, at + 1])
        while low < high:
            middle = (low + high + 1) >> 1
            if below[x, middle] <= word:
                low = middle
            else:
                high = middle - 1
        place = starts[x // useful, low] + (word - below[x, low]) // heights[x, low]
        at = place >> cut_shift
        low, high = np.int64(cut_guide[at]), np.int64(cut_guide[at + 1])
        while low < high:
            middle = (low + high) >> 1
            if cuts[middle] <= place:
                low = middle + 1
            else:
                high = middle
        out[i] = low


@njit(nogil=True, cache=True)
def fill_text_codes(words, ends, masks, slots, shift, factors, label_words, label_sizes, out):
    """The code of each text by a hash without collisions among the labels; False at the first that is no label.

    words[i] are the eight bytes from i on. Every text is read as the same number of words, zero behind its end,
    because a loop of varying length costs a wrong guess of the processor at every row.
    """
    shift, width = uint64(shift), label_words.shape[1]
    for i in range(len(ends) - 1):
        start, size = ends[i], ends[i + 1] - ends[i]
        h = factors[width] * uint64(size)
        for k in range(width):
            h += (words[start + 8 * k] & masks[max(0, min(8, size - 8 * k))]) * factors[k]
        code = slots[h >> shift]
        different = uint64(size ^ label_sizes[code])
        for k in range(width):
            different |= label_words[code, k] ^ (words[start + 8 * k] & masks[max(0, min(8, size - 8 * k))])
        if different:
            return False
        out[i] = code
    return True


@njit(nogil=True, cache=True)
def place_labels(label_words, label_sizes, slots, shift, factors):
    """Give every label a slot of its own; False when two would share one."""
    shift, width = uint64(shift), label_words.shape[1]
    taken = np.zeros(len(slots), np.uint8)
    for code in range(len(label_sizes)):
        h = factors[width] * uint64(label_sizes[code])
        for k in range(width):
            h += label_words[code, k] * factors[k]
        if taken[h >> shift]:
            return False
        taken[h >> shift] = 1
        slots[h >> shift] = code
    return True
