"""Kernels: the draws of the commonest laws, compiled. For the same words they give what `law.draw` gives.

numba is loaded only where it pays, because loading it takes longer than drawing ten million rows without it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.alphabet import Ints
from sfumato.mechanism.cells import Cells
from sfumato.mechanism.law import Law, Words
from sfumato.mechanism.table import Table

Kernel = Callable[[Any, Words, Any], None]  # (codes, words, out): fills out


def numba_allowed() -> bool:
    """False when SFUMATO_NO_NUMBA=1 is set or numba is not there."""
    if os.environ.get("SFUMATO_NO_NUMBA", "0") not in ("", "0"):
        return False
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def plain_kernel(law: Law) -> Kernel:
    """The law's own draw in numpy."""
    width = law.words

    def fill(codes: Ints, words: Words, out: Any) -> None:
        out[:] = law.draw(codes, words.reshape(-1, width))

    return fill


def compiled_kernel(law: Law) -> Kernel:
    """A compiled draw where there is one, else the law's own."""
    made = COMPILED.get(type(law))
    return plain_kernel(law) if made is None else made(law)


def _table_kernel(law: Any) -> Kernel:
    from sfumato.releasing.compiled import fill_table

    table, bucket_bits, threshold_bits = law.alias
    flat = np.ascontiguousarray(table.reshape(-1))

    def run(codes: Ints, words: Words, out: Any) -> None:
        fill_table(codes, words, out, flat, bucket_bits, threshold_bits, law.bits)

    return run


def _cells_kernel(law: Any) -> Kernel:
    from sfumato.releasing.compiled import fill_cells

    ends, weights = np.zeros(4, np.int64), np.ones(4, np.int64)
    for i, (weight, copies) in enumerate(zip(law.four, law.copies, strict=True)):
        ends[i] = (ends[i - 1] if i else 0) + int(weight) * copies
        weights[i] = max(int(weight), 1)

    def run(codes: Ints, words: Words, out: Any) -> None:
        fill_cells(codes, words, out, law.useful, ends, weights, law.bits)

    return run


COMPILED: dict[type, Callable[[Any], Kernel]] = {Table: _table_kernel, Cells: _cells_kernel}
