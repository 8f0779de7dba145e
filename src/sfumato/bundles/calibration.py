"""Calibration: the strongest answers for which the promise about the secret is proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sfumato.alphabet import Alphabet
from sfumato.bundles.answers import Answer, best_answer
from sfumato.bundles.sharing import PartAnswer
from sfumato.certification import certificate, seal
from sfumato.certification.outward import log_up
from sfumato.certification.rationals import about_input
from sfumato.certification.sealing import MARGINS
from sfumato.certification.together import bundle_certificate
from sfumato.mechanism import Bundle, Claim, Law, Mechanism
from sfumato.privacy import RLDP, level
from sfumato.uncertainty import UncertaintySet

STRONGEST = 12.0  # nats about a part's own columns, beyond which an answer is the truth for all purposes
STEPS = 18
SPLITS = 20  # of ε between the secret and the useful values
CLOSE = 0.005  # relative room that is left to the answer
SEALED = 2.0**-28  # the margin that rounding needs where no claim has to be met by a part of its own


def each_of(confidence: float, sets: int) -> float:
    """The confidence that each of several sets needs so that all hold together (Bonferroni).

    The sets must hold theirs at every n: an asymptotic radius is least true far out in the tail, where an equal share
    of a small risk lies. So bundles take the finite-sample balls of order 1, whose radius grows like log(sets).
    """
    return 1 - (1 - confidence) / sets


def unsealed(answer: PartAnswer, claim: Claim, law: Law | None = None) -> Mechanism:
    """The part that gives an answer about the table its claim is for."""
    assert claim.within is not None
    joint = claim.within.joint
    reads = "both" if answer.rows > 1 else "useful"
    return Mechanism(law or answer.law(), joint.secret, joint.useful, reads, answer.method, claim, joint)


def sealed_part(answer: PartAnswer, claim: Claim) -> Mechanism:
    """The part with integer weights, its own claim about the secret proved."""
    made = unsealed(answer, claim)
    if made.sealed:
        return made
    for margin in MARGINS:  # as sf.seal does, without the levels outside the set, which the bundle states as a whole
        tried = replace(made, law=made.law.rounded(None, margin))
        if certificate(tried, wider=False).holds:
            return tried
    return seal(made, claim)[0]  # which says what is wrong


def strongest(within: UncertaintySet, epsilon: float, most: float = STRONGEST) -> Answer:
    """The answer that does not read the secret with the greatest parameter, `most` at most, whose level about the
    secret over the set is ε, by chords and halving on floats.

    Sealing proves it afterwards, so a slip of the search costs a little strength and no privacy.
    """
    joint = within.joint
    notion = RLDP(within)

    def told(answer: Answer) -> float:
        return level(Mechanism(answer.law(), joint.secret, joint.useful, "useful"), notion)

    if epsilon >= most:
        return best_answer(1, joint.useful.size, epsilon)
    # At ε about its own columns an answer is ε-private for every distribution, so the search starts there.
    low, high = (epsilon, -epsilon), (most, told(best_answer(1, joint.useful.size, most)) - epsilon)
    if high[1] <= 0:
        return best_answer(1, joint.useful.size, most)
    for step in range(STEPS):
        if high[0] - low[0] <= CLOSE * high[0]:
            break
        chord = (low[0] * high[1] - high[0] * low[1]) / (high[1] - low[1])
        middle = round(chord if step % 3 else (low[0] + high[0]) / 2, 9)
        over = told(best_answer(1, joint.useful.size, middle)) - epsilon * (1 - 1e-9)
        low, high = ((middle, over), high) if over <= 0 else (low, (middle, over))
    return best_answer(1, joint.useful.size, low[0])


def side_by_side(within: UncertaintySet, epsilon: float, at_most: float | None = None) -> list[Law]:
    """Responses about the secret and, independently, about the useful values (IR), ε divided between them in several
    ways: over a set of distributions the useful values may be told far more clearly than the secret [000, Thm 5]."""
    from sfumato.designers.base import Task
    from sfumato.designers.splitting import response, strength_rule

    task = Task(within, epsilon, at_most=at_most)
    strength, (r, k) = strength_rule(task, "tight"), within.joint.shape
    return [response(r, k, epsilon - e, float(strength(e))) for e in epsilon * np.linspace(0.0, 0.95, SPLITS)]


def tree_part(answer: Answer, within: UncertaintySet) -> Mechanism:
    """A part of a tree: sealed, with a claim that names the set of its table with its parent and holds in any."""
    made = unsealed(answer, Claim("rldp", answer.epsilon, within), answer.law().rounded(None, SEALED))
    return replace(made, claim=Claim("rldp", log_up(about_input(made).ratio), within))


def greatest_scale(made: Callable[[float], Bundle], epsilon: float) -> tuple[Bundle, float]:
    """The bundle with the greatest scale of its levels whose promise is proved; `made(1)` need not hold."""
    low, best = 0.0, made(0.0)
    high = 1.0
    while high < 64 and bundle_certificate(trial := made(high)).level <= epsilon:
        low, best, high = high, trial, 2 * high
    for _ in range(STEPS):
        middle = (low + high) / 2
        trial = made(middle)
        if bundle_certificate(trial).level <= epsilon:
            low, best = middle, trial
        else:
            high = middle
        if high - low < 1e-4 * high:
            break
    return best, low


def nothing_useful() -> Alphabet:
    """The useful side of a part that reads the secret alone."""
    return Alphabet(())
