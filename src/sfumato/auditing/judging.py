"""Judging: from counts to a proved lower bound on what a claim limits, one way per notion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats
from sfumato.auditing.attacks import Halves, Odds, at_least, at_most, guessing, odds
from sfumato.mechanism import Claim
from sfumato.privacy import Leakage

SUPPORT = 1e-3  # inputs of a suggested prior below this are left out: each costs a share of the risk


@dataclass(frozen=True, slots=True)
class Judgement:
    """With probability ≥ 1 − risk the true level is at least `found`; a claim below that is false."""

    title: str
    claimed: float
    found: float
    attack: str  # how it was found
    risk: float
    odds: Odds | None = None

    @property
    def refuted(self) -> bool:
        return self.found > self.claimed


@dataclass(frozen=True, slots=True, eq=False)
class AuditCounts:
    """Counts [y, x] of records; `prior` is the law of x when the auditor chose it, None when it was not known."""

    halves: Halves
    prior: Floats | None

    @property
    def uniform(self) -> bool:
        return self.prior is not None and bool(np.ptp(self.prior[self.prior > 0]) < 1e-12)


def _ratios(evidence: AuditCounts, claim: Claim, risk: float) -> Judgement:
    """LDP about the input, RLDP about the secret: odds of one event, and guessing that pools all pairs.

    Under ε and n uniform inputs a guess that is right on D_x leaves wrong mass Σ_{x'≠x} Q(D_x|x') ≥ (n−1) e^{−ε}
    Q(D_x|x), so accuracy a means e^ε ≥ (n−1) a / (1 − a) (ours). Without uniform inputs guessing bounds maximal
    leakage, which is at most ε.
    """
    single = odds(evidence.halves, risk / 2)
    guess = guessing(evidence.halves, prior=evidence.prior, risk=risk / 2)
    pooled = guess.leakage
    n = 0 if evidence.prior is None else int((evidence.prior > 0).sum())
    if evidence.uniform and n > 1 and guess.accuracy > 0:
        a = min(guess.accuracy, 1 - 1e-16)
        pooled = max(pooled, math.log(a * (n - 1) / (1 - a)))
    if pooled > single.epsilon:
        return Judgement(claim.title, claim.epsilon, pooled, f"guessing, right {guess.accuracy:.1%}", risk)
    return Judgement(claim.title, claim.epsilon, single.epsilon, "odds of an event", risk, single)


def _beliefs(evidence: AuditCounts, claim: Claim, risk: float) -> Judgement:
    """LIP: P(E|s) against P(E), both ways; PML: from above. Records follow p(s), so all of them are a column for P."""
    explore, judge = (np.column_stack([c, c.sum(axis=1)]) for c in (evidence.halves.explore, evidence.halves.judge))
    n = explore.shape[1] - 1
    pairs = [*((s, n) for s in range(n)), *((n, s) for s in range(n) if claim.notion == "lip")]
    found = odds(Halves(explore, judge), risk, pairs)
    return Judgement(claim.title, claim.epsilon, found.epsilon, "odds of an event against its mean", risk, found)


def _leakage(evidence: AuditCounts, claim: Claim, risk: float) -> Judgement:
    """L_{α,β} from below, three ways that share the risk.

    An event and its complement for two inputs are a processed channel, which leaks no more; ends that move towards each
    other process it further. Entries of the channel bounded one by one bound the formula of Theorem 1, which grows in
    Q(y|x) and falls in Q(y|x'). At α = ∞ the gain in guessing is a bound as well.
    """
    assert claim.alpha is not None and claim.beta is not None
    single = odds(evidence.halves, risk / 3)
    a, b = single.likely, single.unlikely
    pair = Leakage(claim.alpha, claim.beta).of([[a, b], [1 - a, 1 - b]]).value if a > b else 0.0
    tried = [(pair, "odds of an event"), (entrywise(evidence.halves, claim.alpha, claim.beta, risk / 3), "every cell")]
    if math.isinf(claim.alpha):  # maximal leakage is the least of the (∞, β)
        guess = guessing(evidence.halves, prior=evidence.prior, risk=risk / 3)
        tried.append((guess.leakage, f"guessing, right {guess.accuracy:.1%}"))
    found, attack = max(tried)
    return Judgement(claim.title, claim.epsilon, found, attack, risk, single)


def entrywise(halves: Halves, alpha: float, beta: float, risk: float) -> float:
    """Theorem 1 at a prior and a reference that the exploring records suggest, with proved ends of each entry."""
    if alpha == 1 or math.isinf(beta):
        return 0.0  # a capacity needs logarithms of entries, a ratio one entry: the pair does that
    seen = np.flatnonzero((halves.explore.sum(axis=0) > 0) & (halves.judge.sum(axis=0) > 0))
    explore, judge = halves.explore[:, seen], halves.judge[:, seen]
    rough = (explore + 0.5) / (explore.sum(axis=0) + 0.5 * len(explore))
    worst = Leakage(alpha, beta, gap=1e-6).of(rough / rough.sum(axis=0))
    p = np.eye(seen.size)[worst.witness.input] if worst.witness.input is not None else worst.prior
    p = np.full(seen.size, 1 / seen.size) if p is None else np.where(p > SUPPORT, p, 0.0)
    used = np.flatnonzero(p) if math.isfinite(alpha) else np.arange(seen.size)
    entries = len(explore) * (1 + (used.size if math.isfinite(alpha) else 1))
    low = at_least(judge[:, used], judge[:, used].sum(axis=0), risk / entries)
    if math.isinf(alpha):
        means = low[np.arange(len(low)), rough.argmax(axis=1)]
    else:
        means = (low**alpha @ (p[used] / p.sum())) ** (1 / alpha)
    total = means**beta
    if beta > 1:
        other = worst.witness.other or 0
        total = total * at_most(judge[:, other], judge[:, other].sum(), risk / entries) ** (1 - beta)
    scale = 1 / beta if math.isinf(alpha) else alpha / ((alpha - 1) * beta)
    return max(0.0, scale * math.log(max(float(total.sum()), 1e-300)))


JUDGES: dict[str, Callable[[AuditCounts, Claim, float], Judgement]] = {
    "ldp": _ratios, "rldp": _ratios, "lip": _beliefs, "pml": _beliefs, "leakage": _leakage,
}
