"""Heat: the mechanism as a picture's numbers, few enough to look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.mechanism import Mechanism, Unary
from sfumato.mechanism.law import scale
from sfumato.mechanism.mechanism import mean_law

MOST = 24  # rows and columns of the picture


@dataclass(frozen=True)
class Heat:
    """values[output][input] with labels; `inputs` and `outputs` say how many there are in truth."""

    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    inputs: int
    outputs: int | None  # None: too many to count in figures
    what: str
    rest: bool = False  # the last row adds up the outputs that are not shown

    @property
    def most(self) -> float:
        """The greatest value among the outputs that are shown."""
        rows = self.values[:-1] if self.rest else self.values
        return max(max(row) for row in rows)

    @property
    def sampled(self) -> bool:
        return self.inputs > len(self.column_labels)


def heat_of(mechanism: Mechanism) -> Heat:
    """Q(y|x) for the likeliest inputs and outputs, with what is left of each column in a row of its own."""
    columns = _likeliest_inputs(mechanism)
    names = tuple(_input_text(mechanism, int(x)) for x in columns)
    law = mechanism.law
    if isinstance(law, Unary):
        on, off = float(law.on) / scale(law.bits), float(law.off) / scale(law.bits)
        values = np.where(np.eye(len(columns), dtype=bool), on, off)
        return Heat(names, names, _nested(values), mechanism.inputs, None, "the probability that a value's bit is 1")
    rows = _shown_outputs(mechanism, columns)
    values = np.stack([np.asarray(law.row(int(y)), float).ravel()[columns] for y in rows]) / scale(law.bits)
    labels = [_output_text(mechanism, int(y)) for y in rows]
    if len(rows) < mechanism.outputs:
        values = np.vstack([values, np.maximum(0.0, 1 - values.sum(0))])
        labels.append(f"the other {mechanism.outputs - len(rows):,}")
    return Heat(
        tuple(labels), names, _nested(values), mechanism.inputs, mechanism.outputs,
        "the probability of each output (rows) for each input (columns)", len(rows) < mechanism.outputs,
    )


def _nested(values: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(x) for x in row) for row in values)


def _likeliest_inputs(mechanism: Mechanism) -> Ints:
    if mechanism.inputs <= MOST:
        return np.arange(mechanism.inputs)
    if mechanism.joint is None:
        return np.arange(MOST)
    p = mechanism.input_law(mechanism.joint)
    return np.sort(np.argsort(-p, kind="stable")[:MOST])


def _shown_outputs(mechanism: Mechanism, columns: Ints) -> Ints:
    if mechanism.outputs <= MOST:
        return np.arange(mechanism.outputs)
    if mechanism.law.meaning in ("cell", "useful") and mechanism.outputs == mechanism.inputs:
        return columns
    mean = None if mechanism.joint is None else mean_law(mechanism, mechanism.joint)
    return np.arange(MOST) if mean is None else np.sort(np.argsort(-mean, kind="stable")[:MOST])


def _input_text(mechanism: Mechanism, x: int) -> str:
    s, u = divmod(x, mechanism.useful.size)
    useful = mechanism.useful.text(u)
    return f"{mechanism.secret.text(s)} · {useful}" if mechanism.reads == "both" else useful


def _output_text(mechanism: Mechanism, y: int) -> str:
    if mechanism.law.meaning == "symbol":
        return str(mechanism.symbols.labels[y])
    if mechanism.law.meaning == "useful":
        return mechanism.useful.text(y)
    return _input_text(mechanism, y)
