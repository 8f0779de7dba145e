"""Models: how each kind of law, decoded or not, is inverted and applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.estimation.bits import BitsInversion
from sfumato.estimation.cells import CellsInversion, forward
from sfumato.estimation.decoding import decoded_law
from sfumato.estimation.dense import DenseInversion
from sfumato.estimation.inversion import Inversion
from sfumato.mechanism import Cells, Constant, Mechanism, Unary
from sfumato.mechanism.law import scale


@dataclass(frozen=True, eq=False)
class Model:
    """A law as estimation sees it: how counts are inverted, expected, and made likely."""

    outputs: int  # how many counts there are
    invert: Callable[[Floats, int], Inversion]
    forward: Callable[[Floats], Floats]  # p, flat → what each count is expected to be, as a share of n
    adjoint: Callable[[Floats], Floats] | None = None  # Qᵀ·w, flat; None when the counts are not the whole output
    matrix: Callable[[], Floats | None] = lambda: None  # Q[y, x], when it can be listed


def prior(mechanism: Mechanism) -> Floats:
    """The design distribution of the input when the file has one, else the uniform: known before any row."""
    if mechanism.joint is not None:
        return mechanism.input_law(mechanism.joint)
    return np.full(mechanism.inputs, 1 / mechanism.inputs)


def input_shape(mechanism: Mechanism) -> tuple[int, ...]:
    law = mechanism.law
    return (law.rows, law.useful) if mechanism.reads == "both" else (law.useful,)


def _cells(mechanism: Mechanism, law: Cells) -> Model:
    shape, kept = (law.rows, law.useful), None if mechanism.reads == "both" else 1
    four = forward(law)

    def apply(p: Floats) -> Floats:
        return four.apply(p.reshape(shape)).ravel()

    return Model(
        law.outputs, lambda c, n: CellsInversion(law, c.reshape(shape) / n, n, kept), apply, apply,
        law.matrix,
    )


def _constant(mechanism: Mechanism, law: Constant) -> Model:
    even = 1 / law.outputs
    return _cells(mechanism, Cells(law.rows, law.useful, even, even, even, even))


def _unary(mechanism: Mechanism, law: Unary) -> Model:
    shape, on, off = input_shape(mechanism), float(law.on) / scale(law.bits), float(law.off) / scale(law.bits)
    return Model(
        law.inputs, lambda ones, n: BitsInversion.of(law, ones.reshape(shape) / n, n), lambda p: off + (on - off) * p
    )


_STRUCTURED: dict[str, Callable[[Mechanism, Any], Model]] = {
    Cells.kind: _cells, Constant.kind: _constant, Unary.kind: _unary,
}


def listed(mechanism: Mechanism, q: Floats) -> Model:
    """The model of a matrix Q[y, x]."""
    shape, design = input_shape(mechanism), prior(mechanism)
    return Model(
        len(q), lambda c, n: cast(Inversion, DenseInversion.of(q, c / n, n, shape, design)),
        lambda p: q @ p, lambda w: q.T @ w, lambda: q,
    )


def model_of(mechanism: Mechanism, decode: str = "symbols") -> Model:
    """The model of what was released: the law itself, or the law followed by decoding."""
    decoded = decoded_law(mechanism, decode)
    if decoded is not None:
        return listed(mechanism, decoded)
    if mechanism.law.kind in _STRUCTURED:
        return _STRUCTURED[mechanism.law.kind](mechanism, mechanism.law)
    q = mechanism.matrix
    if q is None:
        raise InputError(
            f"this mechanism has {mechanism.outputs} outputs for {mechanism.inputs} inputs and no closed form: its "
            "matrix is too large to invert. Group rare labels before designing."
        )
    return listed(mechanism, q)
