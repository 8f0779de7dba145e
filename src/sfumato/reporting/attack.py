"""Attack: what a level means for somebody who believes something, and what one released row tells about the secret."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification.certificate import level_anywhere
from sfumato.decimals import at_most, in_a_hundred, total
from sfumato.decimals import level as limit
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Claim, Layout, Mechanism, Promise
from sfumato.mechanism.law import scale
from sfumato.privacy import LDP, LIP, BayesLeakage, Contraction, MaximalLeakage, PointwiseLeakage, Shannon
from sfumato.privacy.measures import Measure, lines_of, seen_from_secret
from sfumato.reporting.figures import Attack, Guesser, Leak, PromiseFigures, Suspect, witnessed
from sfumato.tolerances import AT_A_GLANCE, CHANNEL, EXPONENT

if TYPE_CHECKING:
    from sfumato.certification.certificate import Certificate

USUAL_BELIEFS = (0.01, 0.1, 0.25, 0.5, 0.75)
UNBOUNDED = ("mi", "leakage")  # averages and sums over outputs bound no single belief


def bounded(notion: str) -> bool:
    """Whether the notion bounds what one released row can do to one belief."""
    return notion not in UNBOUNDED


def most_guessed(shares: Floats, epsilon: float, notion: str) -> float:
    """How often a guess of the secret is right at most after a released row, when its values have these shares.

    A guess is a partition of the outputs into D_s, right with probability Σ p_s a_s, a_s = P(D_s|s). If odds change by
    e^ε at most, P(D_s|s') ≥ e^{−ε} a_s, so a_{s'} + e^{−ε} Σ_{s≠s'} a_s ≤ 1 for every s'. With t = Σ a_s every a_s is
    at most (1 − e^{−ε} t)/(1 − e^{−ε}); the best are the commonest values at that limit, and that is linear in t
    between the numbers m of values that are full. So it is the greatest of e^ε/(e^ε − 1 + m) times the shares of the
    m commonest values. Where only beliefs are bounded, no guess is righter than the greatest belief.

    >>> p = np.array([0.67, 0.33])
    >>> round(most_guessed(p, 1.0, "rldp"), 4), round(most_guessed(p, 0.1, "rldp"), 4), most_guessed(p, 9.0, "mi")
    (0.7311, 0.67, 1.0)
    """
    p = np.sort(np.asarray(shares, float))[::-1]
    p = p[p > 0]
    if notion not in ("rldp", "ldp"):
        return max(worst_belief(float(x), epsilon, notion) for x in p)
    full = np.arange(1, p.size + 1)
    return float(min((np.cumsum(p) / (1 + (full - 1) * math.exp(-epsilon))).max(), 1.0))


def worst_belief(prior: float, epsilon: float, notion: str) -> float:
    """The greatest belief in a value of the secret after seeing a released row, from a belief before it.

    RLDP and LDP bound the odds, whatever the belief before: odds after ≤ e^ε · odds before. LIP bounds the belief
    itself where it is the value's share in the data: after ≤ e^ε · before, and because the other values keep at least
    e^{−ε} of theirs, after ≤ 1 − e^{−ε}(1 − before). PML lets the other values fall to nothing: after ≤ e^ε · before.

    >>> round(worst_belief(0.5, math.log(3), "rldp"), 6), round(worst_belief(0.5, math.log(3), "lip"), 6)
    (0.75, 0.833333)
    """
    if not bounded(notion):
        return 1.0
    if notion == "pml":
        return min(math.exp(min(epsilon, EXPONENT)) * prior, 1.0)
    if notion in ("lip", "srlip"):
        return min(math.exp(min(epsilon, EXPONENT)) * prior, 1 - math.exp(-epsilon) * (1 - prior))
    if prior <= 0 or prior >= 1:
        return prior
    return 1 / (1 + math.exp(-epsilon) * (1 - prior) / prior)


# --- what one released row tells about the secret when the data follow the design distribution ------------------------


def promised(
    claim: Claim | Promise, within: str, certificate: Certificate | None, confidence: float | None,
    told: tuple[str, ...] = (), capped: float | None = None,
) -> PromiseFigures:
    """A claim and what was proved of it, with what it allows of beliefs."""
    level = claim.epsilon if certificate is None else float(certificate.level)
    elsewhere = {} if certificate is None else certificate.elsewhere
    return PromiseFigures(
        claim.notion, within, claim.epsilon, math.exp(claim.epsilon), level,
        certificate is not None and certificate.holds, confidence,
        tuple((b, worst_belief(b, claim.epsilon, claim.notion)) for b in USUAL_BELIEFS if bounded(claim.notion)),
        tuple((where, float(x), math.exp(x) if x < EXPONENT else math.inf) for where, x in elsewhere.items()),
        () if certificate is None else witnessed(certificate), claim.sentence, claim.title, told, capped,
        "" if certificate is None else certificate.basis,
        () if certificate is None else tuple(
            f"{c.title or c.notion.upper()}: {limit(c.level)} proved, {at_most(c.epsilon)} promised"
            for c in certificate.also
        ),
    )


MEASURES: dict[Measure, str] = {
    LDP(): "the most that an output changes the odds between two values",
    LIP(): "the most that an output changes the belief in a value, up or down",
    PointwiseLeakage(): "the most that an output helps the best guess of anything about the person",
    MaximalLeakage(): "the same, on average over the outputs",
    BayesLeakage(): "how much likelier a guess of the value in one try becomes",
    Shannon(): "what is told on average",
    Contraction(): "the advantage in telling the two most different values apart",
}


def outputs_by_secret(mechanism: Mechanism, joint: Joint) -> Floats | None:
    """P(y|s) as [y, s] over the outputs that occur, or None when they are too many to list."""
    law = mechanism.law
    if isinstance(law, Layout):
        if law.outputs * law.rows > CHANNEL:
            return None
        given = zip(law.heights, law.atoms_at.T, joint.useful_given_secret, strict=True)
        laws = [(np.asarray(h, float) @ u)[at] for h, at, u in given]
        return np.stack(laws, 1) * (np.asarray(law.widths, float) / scale(law.bits))[:, None]
    try:
        return seen_from_secret(mechanism, joint)[0]
    except InputError:
        return None


def attack_of(mechanism: Mechanism, joint: Joint, seen: Floats) -> Attack | None:
    """Bayes' rule for every output, under the design distribution.

    P(s|y) = P(y|s) p(s) / P(y). The best guess in one try is right with probability Σ_y max_s P(y|s) p(s).
    """
    ps, claim = joint.p_secret, mechanism.claim
    order = [int(s) for s in np.argsort(-ps, kind="stable") if ps[s] > 0]
    if len(order) < 2:
        return None
    weight = seen * ps
    told = weight.sum(1) > 0
    after = weight[told] / weight[told].sum(1, keepdims=True)
    high, low = seen[told][:, order].max(1), seen[told][:, order].min(1)
    odds = np.divide(high, low, out=np.full(high.shape, np.inf), where=low > 0)
    limited = claim is not None and bounded(claim.notion)
    suspects = tuple(
        Suspect(
            joint.secret.text(s), float(ps[s]), float(after[:, s].min()), float(after[:, s].max()),
            worst_belief(float(ps[s]), claim.epsilon, claim.notion) if claim is not None and limited else None,
        ) for s in order[:AT_A_GLANCE]
    )
    return Attack(
        suspects, len(order) - len(suspects), float(ps.max()), float(weight.max(1).sum()), float(odds.max()),
    )


def leaks_of(joint: Joint, seen: Floats) -> tuple[Leak, ...]:
    """The measures of leakage about the secret that a reader can put into words."""
    ps = joint.p_secret
    kept = np.flatnonzero(ps > 0)
    if len(kept) < 2:
        return ()
    q, p = seen[:, kept], ps[kept]
    found = zip(lines_of(MEASURES, "secret", q, p), MEASURES.values(), strict=True)
    return tuple(
        Leak(line.name, meaning, line.at_joint.value, line.worst.value, line.unit)
        for line, meaning in found if line.at_joint is not None
    )


def guessers_of(mechanism: Mechanism, joint: Joint | None, certificate: Certificate | None) -> tuple[Guesser, ...]:
    """Somebody who knows the shares, and somebody who knows the person's useful values as well.

    The first is held by the promise, because the design distribution lies in every set it speaks of. Who knows u looks
    at the distribution given u, which no ball holds: only the level for any distribution limits what they learn. Both
    see what the mechanism file tells with noise, which adds its ε_d.
    """
    claim = mechanism.claim
    if joint is None or claim is None or joint.secret.size < 2:
        return ()
    known, spent = bounded(claim.notion), 0.0 if joint.noise is None else joint.noise.epsilon
    level = total(spent, claim.epsilon if certificate is None else min(claim.epsilon, float(certificate.level)))
    first = in_a_hundred(most_guessed(joint.p_secret, level, claim.notion)) if known else None
    wider = claim.within is not None or claim.notion != "ldp"
    anywhere = total(spent, _anywhere(mechanism, certificate)) if wider else level
    given = [(float(p), column / p) for p, column in zip(joint.p_useful, joint.p.T, strict=True) if p > 0]
    second = math.fsum(p * most_guessed(q, anywhere, "rldp") for p, q in given)
    before = float(joint.p.max(axis=0).sum())
    useful = ", ".join(mechanism.useful.names)
    return (
        Guesser("statistics", round(100 * float(joint.p_secret.max())), first, level),
        Guesser(f"the person: {useful}", round(100 * before), in_a_hundred(second), anywhere),
    )


def _anywhere(mechanism: Mechanism, certificate: Certificate | None) -> float:
    """What is proved for any distribution: `certificate.elsewhere` has it too, beside levels that take longer."""
    if certificate is None or mechanism.claim is None or mechanism.claim.notion == "leakage":
        return math.inf
    return level_anywhere(mechanism)
