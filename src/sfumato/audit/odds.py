"""A lower bound on ε by attack: find an event that tells two inputs apart, then test it on fresh records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.audit.binomial import at_least, at_most
from sfumato.audit.counts import Halves


@dataclass(frozen=True, slots=True)
class Odds:
    """With probability ≥ 1 − risk, log P(event | input) / P(event | other) ≥ epsilon: no smaller ε is kept."""

    epsilon: float
    input: int
    other: int
    event: tuple[int, ...]
    risk: float

    def refutes(self, claim: float) -> bool:
        """The claim ε ≤ claim is false, at this risk of saying so wrongly."""
        return self.epsilon > claim


def odds(halves: Halves, risk: float = 1e-3) -> Odds:
    """max over pairs and events of a proved lower bound on the log odds.

    The adversary guesses by likelihood: for a pair (x, x') the candidate events collect outputs in falling order of
    the estimated ratio. The exploring half picks the pair and event with the best lower bound; the judging half,
    independent of that choice, gives P(E|x) ≥ a and P(E|x') ≤ b, each at half the risk (Clopper–Pearson), so ε ≥ log
    a/b.
    """
    explore, judge = halves.explore, halves.judge
    inputs = explore.shape[1]
    best: tuple[float, int, int, Ints] = (-np.inf, 0, min(1, inputs - 1), np.arange(1))
    for x in range(inputs):
        for other in range(inputs):
            if x != other:
                score, event = _best_event(explore[:, x], explore[:, other], risk)
                if score > best[0]:
                    best = (score, x, other, event)
    _, x, other, event = best
    low, high = _ends(
        judge[event, x].sum(), judge[:, x].sum(), judge[event, other].sum(), judge[:, other].sum(), risk
    )
    epsilon = float(np.log(low) - np.log(high)) if low > 0 else 0.0
    return Odds(max(0.0, epsilon), x, other, tuple(int(y) for y in event), risk)


def _ends(k: Ints, n: Ints, k_other: Ints, n_other: Ints, risk: float) -> tuple[Floats, Floats]:
    return at_least(k, n, risk / 2), at_most(k_other, n_other, risk / 2)


def _best_event(mine: Ints, theirs: Ints, risk: float) -> tuple[float, Ints]:
    """The prefix of outputs, by estimated ratio, with the best lower bound on exploring counts: a score only."""
    n, n_other = int(mine.sum()), int(theirs.sum())
    if n == 0 or n_other == 0:
        return -np.inf, np.arange(1)
    order = np.argsort(-(mine + 0.5) / n * n_other / (theirs + 0.5))
    low, high = _ends(np.cumsum(mine[order]), np.array(n), np.cumsum(theirs[order]), np.array(n_other), risk)
    with np.errstate(divide="ignore"):
        scores = np.log(low) - np.log(high)
    best = int(np.argmax(scores))
    return float(scores[best]), order[: best + 1]
