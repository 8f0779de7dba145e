"""Counts: how often each output came for each input, from records that choose an attack and others that judge it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Ints

EXPLORE = 3  # one record in three chooses the attack


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """Counts [y, x] from two disjoint sets of records: one to choose an attack, one to judge it."""

    explore: Ints
    judge: Ints

    @property
    def all(self) -> Ints:
        return self.explore + self.judge


def tally(inputs: Ints, outputs: Ints, shape: tuple[int, int]) -> Ints:
    """Counts [y, x] of pairs."""
    flat = np.asarray(outputs, dtype=np.int64) * shape[1] + np.asarray(inputs, dtype=np.int64)
    return np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)


def split(inputs: Ints, outputs: Ints, shape: tuple[int, int], rng: np.random.Generator) -> Halves:
    """A random third to explore and the rest to judge: the order of the records does not matter."""
    explore = rng.integers(EXPLORE, size=len(inputs)) == 0
    return Halves(tally(inputs[explore], outputs[explore], shape), tally(inputs[~explore], outputs[~explore], shape))
