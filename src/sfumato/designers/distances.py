"""Distances between useful values and outputs: by name, as a matrix d[u, y], or as a function of two values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.alphabet import Alphabet, Column, Floats
from sfumato.errors import InputError, option, unknown
from sfumato.tolerances import ALIKE

NUMERIC: dict[str, Callable[[Floats, Floats], Floats]] = {
    "squared": lambda u, y: (u - y) ** 2, "absolute": lambda u, y: np.abs(u - y),
}
NAMES: dict[str, Callable[..., Any]] = {**NUMERIC, "hamming": lambda u, y: str(u) != str(y)}
Outputs = int | Iterable[object] | None  # how many points, or which, or the useful values themselves


@dataclass(frozen=True, slots=True, eq=False)
class Distance:
    """A distance as numbers d[u, y], and what the outputs are called."""

    matrix: Floats
    answers: Column
    values: Floats | None = None  # of the useful letters, when they are numbers
    points: Floats | None = None  # of the outputs, when they are numbers
    name: str = "matrix"

    def seen(self, q: Floats) -> tuple[Floats, Distance]:
        """Q[y, x] without the outputs that never occur, and the distance to the others."""
        live = np.flatnonzero(q.max(axis=1) > ALIKE)
        answers = replace(self.answers, labels=tuple(self.answers.labels[int(y)] for y in live))
        points = None if self.points is None else self.points[live]
        return q[live] / q[live].sum(axis=0), replace(self, matrix=self.matrix[:, live], answers=answers, points=points)

    def at(self, points: Floats) -> Distance:
        """The same distance to other points."""
        assert self.values is not None
        matrix = NUMERIC[self.name](self.values[:, None], points[None, :])
        return Distance(matrix, named(self.answers.name, points), self.values, points, self.name)


def measured(useful: Alphabet, distance: object, values: object = None, outputs: Outputs = None) -> Distance:
    """The distance for a useful variable and outputs that may differ from it.

    `outputs` is a list of numbers, the number of points of an even grid, or None for the useful values themselves;
    for a matrix and for a function of labels it may name the outputs.
    """
    name = distance if isinstance(distance, str) else "function" if callable(distance) else "matrix"
    if isinstance(distance, str) and name not in NAMES:
        raise unknown("a distance", name, NAMES)
    given = letters(useful) if values is None and name in NUMERIC else values
    numbers = None if given is None else finite(given, "values")
    if numbers is not None and len(numbers) != useful.size:
        raise InputError(f"values must hold a number for each of the {useful.size} useful values, got {len(numbers)}.")
    points = None if numbers is None or name in ("hamming", "matrix") else _grid(outputs, numbers)
    if callable(of := NAMES.get(name, distance)):
        labels = [None if x is None else str(x) for x in useful.labels]
        first: Iterable[object] = labels if points is None or numbers is None else numbers
        second: Iterable[object] = _named_by(labels, outputs) if points is None else points
        try:
            matrix = np.array([[float(of(u, y)) for y in second] for u in first])
        except (TypeError, ValueError) as error:
            raise InputError(f"the distance function must return a number for every pair of values: {error}.") from None
    else:
        matrix = finite(distance, "distance", 2)
    if len(matrix) != useful.size:
        raise InputError(f"distance must have {useful.size} rows, one for each useful value, got shape {matrix.shape}.")
    if not np.all(np.isfinite(matrix)) or (matrix < 0).any():
        raise InputError("distances must be finite and not negative.")
    return Distance(matrix, _labels(useful, outputs, points, matrix.shape[1]), numbers, points, name)


def letters(useful: Alphabet) -> Floats:
    """The numbers that the labels of one column spell, or that stand for its bins."""
    if (found := useful.numbers()) is not None:
        return found
    name, labels, cuts = useful.columns[0].name, useful.columns[0].labels, useful.columns[0].cuts
    what = f"useful columns {', '.join(useful.names)} are no number together" if len(useful.columns) != 1 else (
        f"column {name!r} has missing values, which are no number" if None in labels else
        f"two bins of {name!r} have no middle" if cuts is not None else f"the labels of {name!r} are no numbers"
    )
    example = ",".join(f"{useful.text(i)}={i + 1}" for i in range(min(useful.size, 3)))
    more = ",…" if useful.size > 3 else ""
    way_out = option(
        f"say what each stands for (--values '{example}{more}'), or ask for the same label as often as possible "
        "(--distance hamming)", "give values=, or give distance= as a matrix or a function of labels"
    )
    raise InputError(f"{what}: {way_out}.")


def named(column: str, points: Floats) -> Column:
    """A column of numbers, written as briefly as tells them apart."""
    for digits in (6, 9, 12, 17):
        labels = [str(int(x)) if x == int(x) and abs(x) < 1e15 else f"{x:.{digits}g}" for x in points]
        if len(set(labels)) == len(labels):
            return Column.of(column, labels, dtype="number")
    raise InputError("outputs must be different numbers.")


def _labels(useful: Alphabet, outputs: Outputs, points: Floats | None, size: int) -> Column:
    column = useful.columns[0].name if len(useful.columns) == 1 else "output"
    if outputs is not None and points is not None:
        return named(column, points)
    if outputs is None and size == useful.size and len(useful.columns) == 1:
        return replace(useful.columns[0], cuts=None, other=None)
    own = [useful.text(i) if size == useful.size else f"y{i}" for i in range(size)]
    shown = [str(x) for x in _named_by(own, outputs)]
    if len(shown) != size:
        raise InputError(f"outputs must name each of the {size} outputs, got {len(shown)}.")
    return Column.of(column, shown)


def _named_by(labels: Sequence[object], outputs: Outputs) -> Sequence[object]:
    if isinstance(outputs, int):
        raise InputError(f"outputs must be listed where values are no numbers, got {outputs}.")
    return labels if outputs is None else list(outputs)


def _grid(outputs: Outputs, values: Floats) -> Floats:
    if outputs is None:
        return values
    if isinstance(outputs, int) and not isinstance(outputs, bool):
        if outputs < 1:
            raise InputError(f"outputs must be at least one point, got {outputs}.")
        return np.linspace(values.min(), values.max(), outputs)
    return finite(outputs, "outputs")


def finite(given: object, what: str, dimensions: int = 1) -> Floats:
    """A list or a matrix of finite numbers."""
    try:
        found = np.asarray(given, float)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if found.ndim != dimensions or not found.size or not np.all(np.isfinite(found)):
        shape = "a list of finite numbers" if dimensions == 1 else "a matrix d[u, y] of finite numbers"
        raise InputError(f"{what} must be {shape}, got {given!r:.80}.")
    return found
