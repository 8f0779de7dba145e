"""A lower bound on leakage by guessing the secret, or a function of the input, from each output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.auditing.binomial import at_least, at_most
from sfumato.auditing.counts import Halves


@dataclass(frozen=True, slots=True, eq=False)
class Guessing:
    """With probability ≥ 1 − risk the gain in guessing is at least `leakage` nats.

    It bounds min-entropy leakage at the sampled prior from below, hence maximal leakage, hence ε of LDP.
    """

    leakage: float
    accuracy: float  # lower bound on the probability of a right guess after seeing the output
    blind: float  # upper bound on the best probability without seeing it
    guess: Ints  # [y]
    risk: float


def guessing(
    halves: Halves, function: Ints | None = None, prior: Floats | None = None, risk: float = 1e-3
) -> Guessing:
    """Maximum a posteriori guessing of f(x) from y: rule from the exploring half, score from the judging half.

    Records are independent draws of (x, y). `prior` is the known law of f(x); without it the blind guess is bounded
    from the judging half as well, at half the risk split over the values of f.
    """
    explore, judge = _merged(halves.explore, function), _merged(halves.judge, function)
    guess = np.argmax(explore, axis=1)
    total = int(judge.sum())
    right = int(judge[np.arange(len(guess)), guess].sum())
    share = risk if prior is not None else risk / 2
    accuracy = float(at_least(right, total, share))
    if prior is not None:
        blind = float(np.max(prior))
    else:
        blind = float(np.max(at_most(judge.sum(axis=0), total, risk / 2 / judge.shape[1])))
    leakage = max(0.0, float(np.log(accuracy / blind))) if accuracy > 0 else 0.0
    return Guessing(leakage, accuracy, blind, guess.astype(np.int64), risk)


def _merged(counts: Ints, function: Ints | None) -> Ints:
    """Counts [y, f(x)]."""
    if function is None:
        return counts
    merged = np.zeros((counts.shape[0], int(np.max(function)) + 1), dtype=np.int64)
    np.add.at(merged.T, np.asarray(function), counts.T)
    return merged
