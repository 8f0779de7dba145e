"""How ε is spent where nothing exact may be told: on noisy counts and rows, or on rows for any distribution.

Looking at the table costs ε_d, so this is decided from the number of rows, the numbers of labels and ε alone: by the
expected errors of estimates from a table of the same size that stands in for it. Counts leave less for the rows: of
two secrets told apart at level ε, the variance goes with 1/tanh²(ε/2). They bring information about useful values,
whose variance goes with one over it where it is little. The mean over the secret, the useful value and both decides.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from sfumato import optimise
from sfumato.alphabet import Floats
from sfumato.designers.closed_forms import srr_response
from sfumato.joint import Joint, Noise
from sfumato.mechanism import Mechanism
from sfumato.optimise.arrays import most_told
from sfumato.privacy import information
from sfumato.uncertainty import RenyiBall
from sfumato.uncertainty.balls import distances

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)  # of ε, that the counts may take; with less, designs were worse on real tables
STANDING_TIE = 0.5  # how far the secret moves the odds between useful values in the table that stands in, in nats
STANDING_DRAWS, COVERAGE = 200, 0.95
STANDING = 40  # labels of each side of the table that stands in, at most


@dataclass(frozen=True, slots=True)
class Spending:
    """ε_d for the design counts, 0 for none, and what is left for the rows."""

    counts: float
    rows: float
    why: str
    times: float = 1.0  # what is kept, in units of what rows for any distribution keep


@functools.lru_cache(maxsize=1_000)
def split(n: int, secrets: int, useful: int, epsilon: float, at_most: float) -> Spending:
    """How to spend ε in all on a table of n rows."""
    if not epsilon > 0:
        return Spending(0.0, 0.0, "nothing may be told at ε = 0: designed for any distribution, from no counts")
    p = standing(min(secrets, STANDING), min(useful, STANDING))
    few = max(1, round(n * p.size / (secrets * useful)))  # rows for so many cells
    free = _free(p, epsilon)
    kept = {part: _kept(p, few, part * epsilon, (1 - part) * epsilon, at_most) / free for part in SHARES}
    errors = {part: _error(epsilon, part, kept[part]) for part in SHARES}
    best = min(SHARES, key=lambda part: errors[part])
    shown = f"{n:,} rows in {secrets:,} × {useful:,} cells"
    if errors[best] >= 1:
        return Spending(0.0, epsilon, f"{shown} are few for noisy counts: designed for any distribution, from none")
    counts = round(best * epsilon, 6)
    why = f"{shown}: ε_d = {counts:g} of {epsilon:g} goes to noisy counts"
    return Spending(counts, epsilon - counts, why, kept[best])


def _error(epsilon: float, part: float, times: float) -> float:
    """The mean variance, relative to rows for any distribution, if counts take a part and `times` as much is kept."""
    secret = (math.tanh(epsilon / 2) / math.tanh((1 - part) * epsilon / 2)) ** 2
    return (secret + 2 / times) / 3 if times > 0 else math.inf


def _free(p: Floats, epsilon: float) -> float:
    """About what rows for any distribution keep: secret randomised response, or a response to all cells alike, of which
    `most_told` is the most for cells that are all rare [Kairouz et al.]."""
    joint = Joint.from_probabilities(p)
    rows, useful = joint.shape
    lies = information(Mechanism(srr_response(rows, useful, epsilon), joint.secret, joint.useful), joint).both
    return max(lies, min(joint.entropy, most_told(epsilon)))


def standing(secrets: int, useful: int) -> Floats:
    """A table with evenly many people of every secret, and useful values that depend on it a little."""
    sign = np.where((np.arange(secrets)[:, None] + np.arange(useful)) % 2, 1.0, -1.0)
    weight = np.exp(0.5 * STANDING_TIE * sign) / (1.0 + np.arange(useful))  # the commonest value is the first
    return np.asarray(weight / weight.sum(1, keepdims=True) / secrets)


def _kept(p: Floats, n: int, spent: float, left: float, at_most: float) -> float:
    """What the best two-level rows keep over the set around noisy counts of such a table."""
    noise = Noise(spent, n, counts=spent)
    radius = float(np.quantile(distances(p.ravel(), noise, np.random.default_rng(1), STANDING_DRAWS), COVERAGE))
    ball = RenyiBall(Joint.from_probabilities(p), alpha=0.5, radius=radius)
    return optimise.liked(ball, p, left, at_most)[1]
