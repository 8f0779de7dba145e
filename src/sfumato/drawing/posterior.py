"""Posterior: the input behind an output, as the likeliest or as a draw, under the design distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Floats, Ints
from sfumato.drawing.cells_posterior import CellsPosterior
from sfumato.drawing.randomness import Lane, WordSource
from sfumato.errors import InputError
from sfumato.mechanism.cells import Cells
from sfumato.mechanism.constant import Constant
from sfumato.mechanism.mechanism import Mechanism
from sfumato.mechanism.table import whole_weights
from sfumato.mechanism.unary import Unary

LISTED = 4_000_000  # the most entries of a posterior that is listed as [y, x]
DRAW_BITS = 40  # a listed posterior is drawn with integer weights that sum to 2^40 for each output
SET_ROWS = 4096  # records of a unary law decoded at a time
Drawn = npt.NDArray[Any]
Turn = Callable[[Drawn, int], Drawn]


def likeliest(mechanism: Mechanism) -> Turn:
    """arg max_x Q(y|x) p(x)."""
    law, p = mechanism.law, _prior(mechanism)
    if isinstance(law, Unary):
        return _by_sets(law, p, lambda weights, first_row: weights.argmax(1))
    listed = _listed(mechanism)
    best = _cells_posterior(mechanism).likeliest() if listed is None else listed.argmax(1)
    table = best.astype(np.int32)
    return lambda drawn, first_row: np.asarray(table[drawn])


def posterior_draw(mechanism: Mechanism, stream: WordSource) -> Turn:
    """x with probability P(x|y), by one more word, from the lane for it."""
    law, p = mechanism.law, _prior(mechanism)

    def words(first_row: int, rows: int) -> Any:
        out = np.empty(rows, np.uint64)
        stream.words(first_row, out, lane=Lane.DECODE())
        return out

    if isinstance(law, Unary):
        return _by_sets(law, p, lambda w, first_row: _inverse(w, unit(words(first_row, len(w)))))
    listed = _listed(mechanism)
    if listed is None:
        cells = _cells_posterior(mechanism)
        return lambda drawn, first_row: cells.draw(drawn, words(first_row, len(drawn)))
    ends, inputs = listed_ends(listed), listed.shape[1]
    low = np.uint64((1 << DRAW_BITS) - 1)

    def turn(drawn: Drawn, first_row: int) -> Drawn:
        y = drawn.astype(np.int64)
        at = (y << DRAW_BITS) + (words(first_row, len(y)) & low).astype(np.int64)
        return np.asarray(np.searchsorted(ends, at, side="right") - y * inputs).astype(np.int32)

    return turn


def listed_ends(posterior: Floats) -> Ints:
    """Where each x ends in y's stretch of 2^40 words, all stretches one after the other."""
    weights = whole_weights(posterior.T, DRAW_BITS).T
    return np.cumsum(weights.ravel(), dtype=np.int64)


def unit(words: Any) -> Floats:
    """Words as floats in [0, 1) with 53 bits."""
    return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _prior(mechanism: Mechanism) -> Floats:
    assert mechanism.joint is not None
    return mechanism.input_law(mechanism.joint)


def _listed(mechanism: Mechanism) -> Floats | None:
    """P(x|y) as [y, x], the prior where y never occurs; None when that is too much to list."""
    if mechanism.outputs * mechanism.inputs > LISTED:
        return None
    q, p = mechanism.matrix, _prior(mechanism)
    if q is None:
        return None
    weight = q * p
    total = weight.sum(1, keepdims=True)
    prior = np.broadcast_to(p, weight.shape).copy()
    return np.asarray(np.divide(weight, total, out=prior, where=total > 0))


def _cells_posterior(mechanism: Mechanism) -> CellsPosterior:
    law, joint = mechanism.law, mechanism.joint
    assert joint is not None
    four: tuple[Any, ...]
    if isinstance(law, Constant):
        four = (1, 1, 1, 1)
    elif isinstance(law, Cells):
        four = law.four
    else:
        raise InputError(
            f"{mechanism.outputs:,} outputs of {mechanism.inputs:,} inputs are too many to decode with this "
            "law. Use decode='symbols'."
        )
    counts = joint.counts
    if counts is None:
        counts = np.rint(joint.p * 2.0**DRAW_BITS).astype(np.int64)
    return CellsPosterior(tuple(map(float, four)), counts if law.rows > 1 else counts.sum(0, keepdims=True))


def _by_sets(law: Unary, p: Floats, choose: Callable[[Floats, int], Ints]) -> Turn:
    """For answers that are sets: P(x|y) ∝ p(x) times `high` inside the set and `low` outside."""
    high, low = (float(w) for w in law.odds)
    top = max(high, low)

    def turn(drawn: Drawn, first_row: int) -> Drawn:
        out = np.empty(len(drawn), np.int32)
        for start in range(0, len(drawn), SET_ROWS):
            bits = drawn[start : start + SET_ROWS]
            weights = p * np.where(bits != 0, high / top, low / top)
            weights[weights.sum(1) <= 0] = p
            out[start : start + SET_ROWS] = choose(weights, first_row + start)
        return out

    return turn


def _inverse(weights: Floats, at: Floats) -> Ints:
    """The index at which the running sum of each row passes at · total."""
    ends = np.cumsum(weights, axis=1)
    return np.asarray((ends > (at * ends[:, -1])[:, None]).argmax(1))
