"""Answers: a list of what respondents sent, as the table that a release of them would be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.alphabet import Column
from sfumato.errors import DataError, InputError
from sfumato.mechanism import Bundle, Mechanism
from sfumato.mechanism.bundle import ANSWER, TURN


def are_answers(source: object) -> bool:
    """Whether a list holds answers and not counts: counts are numbers, all the way down."""
    return isinstance(source, (list, tuple)) and len(source) > 0 and not _numeric(source[0])


def _numeric(x: object) -> bool:
    if isinstance(x, (list, np.ndarray)):
        return len(x) > 0 and all(_numeric(v) for v in x)
    return (isinstance(x, tuple) and len(x) > 0 and all(_numeric(v) for v in x)) or (
        isinstance(x, (int, float, np.number)) and not isinstance(x, bool)
    )


def table_of(answers: Sequence[object], mechanism: Mechanism | Bundle) -> pa.Table:
    """The released table of some answers, as `respond` gives them or as dictionaries by column."""
    if isinstance(mechanism, Bundle):
        return _of_bundle(answers, mechanism)
    if isinstance(answers[0], Mapping):
        names = list(answers[0])
        return pa.table({name: pa.array([_at(a, name, i) for i, a in enumerate(answers)]) for name in names})
    return _KINDS[mechanism.law.meaning](answers, mechanism)


def _at(answer: object, name: str, i: int) -> object:
    if not isinstance(answer, Mapping) or name not in answer:
        raise DataError(f"answer {i + 1} has no {name!r}, which the first one has.")
    return answer[name]


def _of_bundle(answers: Sequence[object], bundle: Bundle) -> pa.Table:
    if bundle.turns is None:
        return pa.table({name: pa.array([_at(a, name, i) for i, a in enumerate(answers)]) for name in bundle.names})
    told = [a for a in answers if isinstance(a, Mapping) and len(a) == 1]
    if len(told) < len(answers):
        raise DataError("each answer must be a dictionary with the one part that was answered.")
    pairs = [next(iter(a.items())) for a in told]
    return pa.table({TURN: [name for name, _ in pairs], ANSWER: pa.array([x for _, x in pairs], pa.string())})


def _labels(answers: Sequence[object], columns: Sequence[Column]) -> pa.Table:
    """A column for each part of an answer; pairs of tuples are told flat."""
    rows = [tuple(_flat(a)) for a in answers]
    for i, row in enumerate(rows):
        if len(row) != len(columns):
            raise DataError(f"answer {i + 1} has {len(row)} value(s), but there are {len(columns)} columns.")
    return pa.table({c.name: pa.array([row[k] for row in rows], pa.string()) for k, c in enumerate(columns)})


def _flat(answer: object) -> Iterator[object]:
    if isinstance(answer, (tuple, list)):
        for x in answer:
            yield from _flat(x)
    else:
        yield answer


def _sets(answers: Sequence[object], mechanism: Mechanism) -> pa.Table:
    """Sets of inputs as strings of zeros and ones; such strings are taken as they are."""
    place = {mechanism.input_label(x): x for x in range(mechanism.inputs)}
    texts = []
    for i, answer in enumerate(answers):
        if isinstance(answer, str) and len(answer) == len(place) and set(answer) <= {"0", "1"}:
            texts.append(answer)
            continue
        if isinstance(answer, str) or not isinstance(answer, Iterable) or not all(x in place for x in answer):
            raise DataError(f"answer {i + 1} is no set of this mechanism's labels, nor {len(place)} zeros and ones.")
        held = {place[x] for x in answer}
        texts.append("".join("01"[x in held] for x in range(len(place))))
    return pa.table({"bits": texts})


_KINDS: dict[str, Callable[[Sequence[object], Mechanism], pa.Table]] = {
    "symbol": lambda answers, m: _labels(answers, [m.symbols]),
    "useful": lambda answers, m: _labels(answers, m.useful.columns),
    "cell": lambda answers, m: _labels(answers, [*m.secret.columns, *m.useful.columns]),
    "subset": _sets,
}


def checked_answers(source: Any, mechanism: Mechanism | Bundle) -> Any:
    """The source, as a table if it is a list of answers."""
    if not are_answers(source):
        return source
    try:
        return table_of(source, mechanism)
    except (pa.ArrowException, TypeError):
        raise InputError(
            "the answers are not of one kind", next="Give what respond returned, or counts by output."
        ) from None
