"""Asking a black box: how often each output came for each input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Ints
from sfumato.errors import InputError

Sampler = Callable[[Ints], npt.ArrayLike]  # inputs, one per record → outputs, one per record


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """Counts [y, x] from two disjoint sets of records: one to choose an attack, one to judge it."""

    explore: Ints
    judge: Ints


def tally(inputs: Ints, outputs: Ints, shape: tuple[int, int]) -> Ints:
    """Counts [y, x] of pairs."""
    flat = np.asarray(outputs, dtype=np.int64) * shape[1] + np.asarray(inputs, dtype=np.int64)
    return np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)


def questioned(sampler: Sampler, inputs: int, outputs: int, records: int, rng: np.random.Generator) -> Halves:
    """Query with inputs drawn uniformly and independently, a third to explore and the rest to judge.

    Outputs outside 0 … outputs−1 raise: a box that invents labels has failed already.
    """
    asked = rng.integers(inputs, size=records)
    heard = np.asarray(sampler(asked), dtype=np.int64)
    if heard.shape != asked.shape or heard.min() < 0 or heard.max() >= outputs:
        raise InputError("the sampler must answer every input with one output of the alphabet.")
    return split(asked, heard, (outputs, inputs))


def split(secrets: Ints, outputs: Ints, shape: tuple[int, int]) -> Halves:
    """Counts of the first third and of the rest: records must be in an order that does not depend on their content."""
    cut = len(secrets) // 3
    return Halves(tally(secrets[:cut], outputs[:cut], shape), tally(secrets[cut:], outputs[cut:], shape))
