"""Attacks: what inputs and outputs prove against a promise, with exact confidence bounds, and so against a claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc, betaincinv

from sfumato.alphabet import Floats, Ints
from sfumato.decimals import sure
from sfumato.mechanism import Claim
from sfumato.privacy import Leakage
from sfumato.privacy.measures import as_channel
from sfumato.tolerances import LEAST, SLIP, UNIT


def at_least(successes: npt.ArrayLike, trials: npt.ArrayLike, risk: float) -> Floats:
    """A lower bound on the success probability that fails with probability at most `risk`."""
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    bound = betaincinv(np.maximum(k, LEAST), n - k + 1, risk)
    return np.where(k > 0, bound, 0.0)


def at_most(successes: npt.ArrayLike, trials: npt.ArrayLike, risk: float) -> Floats:
    """An upper bound on the success probability that fails with probability at most `risk`."""
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    bound = betaincinv(k + 1, np.maximum(n - k, LEAST), 1 - risk)
    return np.where(k < n, bound, 1.0)


# --- how often each output came for each input, from records that choose an attack and others that judge it -----------


@dataclass(frozen=True, slots=True)
class Exploring:
    """How an attack is chosen before it is tried."""

    one_in: int = 3  # one record in three chooses the attack
    # inputs up to which every pair is tried; beyond it, the pairs that some single output suggests
    every_pair: int = 128
    deviations: float = 3.0  # by which a candidate's counts are moved against it before candidates are compared
    support: float = 1e-3  # inputs of a suggested prior below this are left out: each costs a share of the risk


EXPLORING = Exploring()


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """Counts [y, x] from two disjoint sets of records: one to choose an attack, one to judge it."""
    explore: Ints
    judge: Ints


def tally(inputs: Ints, outputs: Ints, shape: tuple[int, int]) -> Ints:
    """Counts [y, x] of pairs."""
    flat = np.asarray(outputs, dtype=np.int64) * shape[1] + np.asarray(inputs, dtype=np.int64)
    return np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)


def split(inputs: Ints, outputs: Ints, shape: tuple[int, int], rng: np.random.Generator) -> Halves:
    """A random third to explore and the rest to judge: the order of the records does not matter."""
    explore = rng.integers(EXPLORING.one_in, size=len(inputs)) == 0
    return Halves(tally(inputs[explore], outputs[explore], shape), tally(inputs[~explore], outputs[~explore], shape))


# --- find an event that tells two inputs apart, then test it on fresh records -----------------------------------------


@dataclass(frozen=True, slots=True)
class Odds:
    """But for the risk, P(event | input) ≥ likely and P(event | other) ≤ unlikely."""
    likely: float
    unlikely: float
    input: int
    other: int
    event: tuple[int, ...]

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
    return Odds(float(low), float(high), x, other, tuple(int(y) for y in event))


def _candidates(explore: Ints, pairs: list[tuple[int, int]] | None) -> list[tuple[int, Ints]]:
    seen = np.flatnonzero(explore.sum(axis=0) > 0)
    if pairs is None and seen.size <= EXPLORING.every_pair:
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
    far = EXPLORING.deviations
    spread = np.sqrt(np.maximum(k * (1 - k / n), 0) + far**2 / 4)
    return np.maximum(k + far**2 / 2 + far * spread if sign > 0 else k - far * spread, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Guessing:
    """But for the risk, the gain in guessing is at least `leakage` nats.

    It bounds min-entropy leakage at the sampled prior from below, hence maximal leakage, hence ε of LDP.
    """
    leakage: float
    accuracy: float  # lower bound on the probability of a right guess after seeing the output
    blind: float  # upper bound on the best probability without seeing it


def guessing(halves: Halves, risk: float, prior: Floats | None = None) -> Guessing:
    """Maximum a posteriori guessing of x from y: rule from the exploring half, score from the judging half.

    Records are independent draws of (x, y). `prior` is the known law of x; without it the blind guess is bounded from
    the judging half as well, at half the risk split over the values of x.
    """
    guess, judge = np.argmax(halves.explore, axis=1), halves.judge
    total, right = int(judge.sum()), int(judge[np.arange(len(guess)), guess].sum())
    accuracy = float(at_least(right, total, risk / 2 if prior is None else risk))
    known = at_most(judge.sum(axis=0), total, risk / 2 / judge.shape[1]) if prior is None else prior
    blind = float(np.max(known))
    return Guessing(max(0.0, float(np.log(accuracy / blind))) if accuracy > 0 else 0.0, accuracy, blind)


@dataclass(frozen=True, slots=True)
class Conformity:
    """The smallest p-value over cells, corrected for their number, and the cell."""
    p_value: float
    output: int
    input: int
    seen: int
    expected: float

    def refuted(self, risk: float = 1e-3) -> bool:
        return self.p_value < risk


def conformity(counts: Ints, channel: npt.ArrayLike) -> Conformity:
    """min over cells of the two-sided exact binomial p-value of counts[y, x] under Q[y, x], times the number of cells.

    A sampler off by a label moves whole cells, which this sees at once; a deviation far below 1/√n stays unseen, and
    one random word in 2^64 needs the exhaustive tests of the sampler instead.
    """
    q = as_channel(channel)
    trials = np.broadcast_to(counts.sum(axis=0), q.shape)
    below = np.asarray(bdtr(counts, trials, q))
    above = np.where(counts > 0, bdtrc(np.maximum(counts - 1, 0), trials, q), 1.0)
    cells = np.where(trials > 0, np.minimum(1.0, 2 * np.minimum(below, above)), 1.0)
    cells = np.where((q == 0) & (counts > 0), 0.0, cells)
    y, x = np.unravel_index(int(np.argmin(cells)), cells.shape)
    p_value = min(1.0, float(cells[y, x]) * cells.size)
    return Conformity(p_value, int(y), int(x), int(counts[y, x]), float(trials[y, x] * q[y, x]))


# --- from counts to a proved lower bound on what a claim limits, one way per notion -----------------------------------


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


def _ratios(evidence: AuditCounts, claim: Claim, risk: float) -> Judgement:
    """LDP about the input, RLDP about the secret: odds of one event, and guessing that pools all pairs.

    Under ε and n uniform inputs a guess that is right on D_x leaves wrong mass Σ_{x'≠x} Q(D_x|x') ≥ (n−1) e^{−ε}
    Q(D_x|x), so accuracy a means e^ε ≥ (n−1) a / (1 − a) (ours). Without uniform inputs guessing bounds maximal
    leakage, which is at most ε.
    """
    single = odds(evidence.halves, risk / 2)
    guess = guessing(evidence.halves, risk / 2, evidence.prior)
    pooled, a = guess.leakage, min(guess.accuracy, 1 - UNIT)
    drawn = np.zeros(0) if evidence.prior is None else evidence.prior[evidence.prior > 0]
    if drawn.size > 1 and np.ptp(drawn) < SLIP and a > 0:
        pooled = max(pooled, math.log(a * (drawn.size - 1) / (1 - a)))
    if pooled > single.epsilon:
        return Judgement(claim.title, claim.epsilon, pooled, f"guessing, right {sure(guess.accuracy, 3)}", risk)
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
        guess = guessing(evidence.halves, risk / 3, evidence.prior)
        tried.append((guess.leakage, f"guessing, right {sure(guess.accuracy, 3)}"))
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
    p = np.full(seen.size, 1 / seen.size) if p is None else np.where(p > EXPLORING.support, p, 0.0)
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
    return max(0.0, scale * math.log(max(float(total.sum()), LEAST)))


JUDGES: dict[str, Callable[[AuditCounts, Claim, float], Judgement]] = {
    "ldp": _ratios, "rldp": _ratios, "lip": _beliefs, "pml": _beliefs, "leakage": _leakage,
}
