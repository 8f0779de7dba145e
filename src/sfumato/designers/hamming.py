"""hamming: the response that lies least often, for any set of sources, under LDP about the input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.alphabet import Column, Floats
from sfumato.designers.base import Draft, Task
from sfumato.designers.distances import measured
from sfumato.errors import InputError
from sfumato.mechanism import Mechanism, Table
from sfumato.optimise.loss.hamming import class_of, least_hamming
from sfumato.optimise.loss.sources import Sources
from sfumato.uncertainty import ChiSquareBall, UncertaintySet
from sfumato.utility import expected_distortion

GHOST = 1e-11  # an output less likely than this whatever the input is given to the likeliest one


def sources_of(given: Any) -> Sources:
    """A set of source distributions: an array of them, or an uncertainty set (its marginal of U).

    The marginals on U of a χ² ball are the χ² ball around P̂_U with the same radius (joining cells lowers the distance,
    and copying P̂(s|u) attains it).
    """
    if isinstance(given, Sources):
        return given
    if isinstance(given, ChiSquareBall):
        return Sources.chi_square(given.joint.p_useful, given.radius)
    if hasattr(given, "joint") and hasattr(given, "support"):
        return Sources(given.joint.p_useful[None, :], lambda c: _marginal(given, c))
    try:
        rows = np.atleast_2d(np.asarray(given, float))
    except (TypeError, ValueError):
        raise InputError(f"sources must be distributions or an uncertainty set, got {str(given)[:60]!r}.") from None
    return Sources.listed(rows)


def _marginal(within: UncertaintySet, c: Floats) -> tuple[float, Floats]:
    found = within.support(np.broadcast_to(c, within.joint.shape).copy())
    return found.value, found.p.sum(axis=0)


def tidy(q: Floats, answers: Column) -> tuple[Floats, Column]:
    """Q without outputs that never occur; their traces go to the likeliest output."""
    ghost = q.max(axis=1) < GHOST
    if not ghost.any():
        return q, answers
    kept = q[~ghost].copy()
    kept[int(np.argmax(kept.sum(axis=1)))] += q[ghost].sum(axis=0)
    return kept, replace(answers, labels=tuple(x for x, gone in zip(answers.labels, ghost, strict=True) if not gone))


def hamming(task: Task) -> Draft:
    """Least worst-case P(Y ≠ U) over the set, for a mechanism that reads U and is ε-LDP about it [003, corrected].

    One LP in M + 2 variables for every class of sources: min max_P P·D with (e^ε − 1)·min D + ΣD ≥ M − 1. The claim is
    LDP about the input, which covers every secret behind it.
    """
    if task.notion == "lip":
        raise InputError("hamming promises LDP about the input; ask for notion='ldp'.")
    wide = Task(task.within, task.epsilon, "ldp", "useful")
    sources = sources_of(task.within)
    found = least_hamming(sources, task.epsilon)
    measure = measured(task.joint.useful, "hamming")
    q, answers = tidy(found.q, measure.answers)
    kept = np.array([measure.answers.labels.index(x) for x in answers.labels])

    def loss(mechanism: Mechanism) -> float:
        return expected_distortion(mechanism, task.within, measure.matrix[:, kept])

    details = {"class": class_of(sources), "levels": found.levels}
    return Draft(Table(q, 1), "hamming", found.bound, (), details, score=loss, answers=answers, task=wide,
                 unit="of distance")
