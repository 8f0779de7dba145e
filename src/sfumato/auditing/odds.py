"""A lower bound on ε by attack: find an event that tells two inputs apart, then test it on fresh records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.auditing.binomial import at_least, at_most
from sfumato.auditing.counts import Halves

EVERY_PAIR = 128  # inputs up to which every pair is tried; beyond it, the pairs that some single output suggests
DEVIATIONS = 3.0  # by which a candidate's counts are moved against it before candidates are compared


@dataclass(frozen=True, slots=True)
class Odds:
    """With probability ≥ 1 − risk, P(event | input) ≥ likely and P(event | other) ≤ unlikely."""

    likely: float
    unlikely: float
    input: int
    other: int
    event: tuple[int, ...]
    risk: float

    @property
    def epsilon(self) -> float:
        """log P(event | input) / P(event | other) is at least this: no smaller ε is kept."""
        return max(0.0, float(np.log(self.likely) - np.log(self.unlikely))) if self.likely > 0 else 0.0


def odds(halves: Halves, risk: float, pairs: list[tuple[int, int]] | None = None) -> Odds:
    """The best pair and event on the exploring records, and proved ends of its two probabilities on the others.

    The adversary guesses by likelihood: for a pair (x, x') the candidate events collect outputs in falling order of the
    estimated ratio. The judging records are independent of that choice, so Clopper–Pearson bounds at half the risk
    each hold for both ends.
    """
    explore, judge = halves.explore, halves.judge
    best: tuple[float, int, int, Ints] = (-np.inf, 0, min(1, explore.shape[1] - 1), np.arange(1))
    for x, others in _candidates(explore, pairs):
        score, other, event = _best_event(explore, x, others)
        if score > best[0]:
            best = (score, x, other, event)
    _, x, other, event = best
    low = at_least(judge[event, x].sum(), judge[:, x].sum(), risk / 2)
    high = at_most(judge[event, other].sum(), judge[:, other].sum(), risk / 2)
    return Odds(float(low), float(high), x, other, tuple(int(y) for y in event), risk)


def _candidates(explore: Ints, pairs: list[tuple[int, int]] | None) -> list[tuple[int, Ints]]:
    seen = np.flatnonzero(explore.sum(axis=0) > 0)
    if pairs is None and seen.size <= EVERY_PAIR:
        return [(int(x), seen[seen != x]) for x in seen if seen.size > 1]
    if pairs is None:
        rate = (explore[:, seen] + 0.5) / explore[:, seen].sum(axis=0)
        pairs = [(int(seen[i]), int(seen[j])) for i, j in zip(rate.argmax(1), rate.argmin(1), strict=True) if i != j]
    grouped: dict[int, set[int]] = {}
    for x, other in pairs:
        if {x, other} <= set(seen.tolist()):
            grouped.setdefault(x, set()).add(other)
    return [(x, np.array(sorted(others))) for x, others in grouped.items()]


def _best_event(explore: Ints, x: int, others: Ints) -> tuple[float, int, Ints]:
    """The prefix of outputs, by estimated ratio, that looks best against some other input: a score, not a claim."""
    mine, theirs = explore[:, x, None], explore[:, others]
    n, n_other = mine.sum(), theirs.sum(axis=0)
    order = np.argsort(-(mine + 0.5) / n * n_other / (theirs + 0.5), axis=0)
    k = np.cumsum(np.take_along_axis(np.broadcast_to(mine, theirs.shape), order, axis=0), axis=0)
    k_other = np.cumsum(np.take_along_axis(theirs, order, axis=0), axis=0)
    with np.errstate(divide="ignore"):
        scores = np.log(_moved(k, n, -1) / n) - np.log(_moved(k_other, n_other, 1) / n_other)
    i, j = np.unravel_index(int(np.argmax(scores)), scores.shape)
    return float(scores[i, j]), int(others[j]), order[: i + 1, j]


def _moved(k: Ints, n: Ints, sign: int) -> Floats:
    """A count moved down or up by a few of its standard deviations."""
    spread = np.sqrt(np.maximum(k * (1 - k / n), 0) + DEVIATIONS**2 / 4)
    return np.maximum(k + DEVIATIONS**2 / 2 + sign * DEVIATIONS * spread, 0.0) if sign > 0 else np.maximum(
        k - DEVIATIONS * spread, 0.0
    )
