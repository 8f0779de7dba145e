"""Proving: which proof answers for which notion and set; and the kernel, which has the last word.

Every mechanism passes the kernel's admission (fields, ranges, shapes, sums, confidences) as the bytes it is saved as.
Where the kernel's own proof takes a fraction of a second it alone decides; larger laws rest on the fast proofs,
which tests hold to the kernel on every pair of law, notion and set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

import sfumato_kernel as kernel
from sfumato import certification
from sfumato.certification.ball import ChiSquareBounds
from sfumato.certification.outward import log_up, up_any
from sfumato.certification.over_sets import RangeBounds, VertexBounds, over_bounds
from sfumato.certification.rationals import Attained, about_anything, about_input, about_secret, alone
from sfumato.certification.renyi_proofs import RenyiBounds
from sfumato.certification.shift_proofs import shifts_over_ball
from sfumato.errors import ClaimError, InputError
from sfumato.mechanism import Bundle, Claim, Mechanism, Product
from sfumato.tolerances import EXPONENT
from sfumato.uncertainty import Anything, ChiSquareBall, Custom, Exactly, Polytope, RenyiBall, UncertaintySet
from sfumato.uncertainty.balls import simulated_radius

UNSEALED = "only a sealed mechanism can be certified: its weights must be integers. Call sf.seal first."
LARGE_TABLE = 100_000  # cells beyond which a promise that holds for any distribution is not made closer for a set
BELIEFS = ("lip", "pml")  # notions about P(y|s)/P(y), which RLDP implies at every P: P(y) is a mean of the P(y|s)


def proved(mechanism: Mechanism, notion: str, within: UncertaintySet | None, target: float = math.inf) -> Attained:
    """The proved worst ratio e^level of a sealed mechanism under a notion; close to it beyond what `target` needs.

    LIP and PML over a ball are proved at the target or, if that fails, bounded by RLDP.
    """
    if not mechanism.sealed:
        raise InputError(UNSEALED)
    if notion == "ldp" or within is None:
        return about_input(mechanism)
    if within.kind not in _OVER:
        raise InputError(f"levels over a set of kind {within.kind!r} cannot be proved yet.")
    if unlisted(mechanism):
        notions = (notion, "rldp") if notion in BELIEFS else (notion,)
        return min((_of_releases(mechanism, n, within) for n in notions), key=lambda found: found.ratio)
    if notion == "srlip":
        if not isinstance(within, Exactly):
            raise InputError(f"SRLIP can be proved at a known distribution, not over a set of kind {within.kind!r}.")
        return certification.about_side_channels(mechanism, within.joint)
    if is_known(within) or notion not in BELIEFS:
        return over_set(mechanism, within, notion, target)
    found = over_set(mechanism, within, "rldp", target)
    if not isinstance(within, ChiSquareBall) or found.ratio <= target or not math.isfinite(target):
        return found
    return shifts_over_ball(mechanism, within.joint, within.radius, target, found, notion)


def _of_releases(mechanism: Mechanism, notion: str, within: UncertaintySet) -> Attained:
    return certification.bounded(mechanism, lambda m: proved(m, notion, within), whole_record=notion != "rldp")


def unlisted(mechanism: Mechanism) -> bool:
    """Whether it stands for several releases whose joint outputs are too many to list, so that levels are bounds."""
    return isinstance(mechanism.law, Product) and not mechanism.law.listed


def is_known(within: UncertaintySet) -> bool:
    """Whether a set holds one distribution alone."""
    return isinstance(within, Exactly) or getattr(within, "radius", None) == 0


def over_set(mechanism: Mechanism, within: UncertaintySet, notion: str, target: float) -> Attained:
    """The worst ratio over a set, which what any distribution allows bounds too."""
    if is_known(within):
        return about_secret(mechanism, within.joint, notion)
    everywhere = about_anything(mechanism)
    if isinstance(within, Anything) or (everywhere.ratio <= target and within.joint.p.size > LARGE_TABLE):
        return everywhere
    found = _OVER[within.kind](mechanism, within, target)
    return found if found.ratio < everywhere.ratio else everywhere


def _over_one_or_all(mechanism: Mechanism, within: UncertaintySet, target: float) -> Attained:
    raise AssertionError(f"{within.kind} needs no proof of its own")


# By the kind of a set: (mechanism, set of this kind, target) → the worst ratio over it.
_OVER: dict[str, Callable[..., Attained]] = {
    Exactly.kind: _over_one_or_all, Anything.kind: _over_one_or_all,
    ChiSquareBall.kind: lambda m, ball, z: over_bounds(m, ChiSquareBounds.around(ball.joint, ball.radius), z),
    RenyiBall.kind: lambda m, ball, z: over_bounds(m, RenyiBounds.around(ball.joint, ball.alpha, ball.radius), z),
    Polytope.kind: lambda m, within, z: over_bounds(m, VertexBounds.around(within), z),
    Custom.kind: lambda m, within, z: over_bounds(m, RangeBounds(within), z),
}


def level_of(mechanism: Mechanism, claim: Claim) -> tuple[float, dict[str, int]]:
    """The proved level under what a claim is about, in nats, and where it is attained, as codes."""
    if not mechanism.sealed:
        raise InputError(UNSEALED)
    return _MEASURES.get(claim.notion, _ratio)(mechanism, claim)


def _ratio(mechanism: Mechanism, claim: Claim) -> tuple[float, dict[str, int]]:
    found = proved(mechanism, claim.notion, claim.within, target_of(claim.epsilon))
    return log_up(found.ratio), found.where


def target_of(epsilon: float) -> float:
    """A little below e^ε, as far as floats hold that."""
    return math.exp(min(epsilon, EXPONENT)) * (1 - 1e-15)


def _leakage(mechanism: Mechanism, claim: Claim) -> tuple[float, dict[str, int]]:
    assert claim.alpha is not None and claim.beta is not None
    if isinstance(mechanism.law, Product) and unlisted(mechanism):
        return _leakage_of_parts(mechanism, mechanism.law, claim), {}

    at = None if claim.within is None else claim.within.joint
    found = certification.leakage_level(mechanism, claim.alpha, claim.beta, at)
    return found.level, found.where


def _leakage_of_parts(mechanism: Mechanism, law: Product, claim: Claim) -> float:
    """The sum over the releases bounds leakage about the record: in every form of `leakage_level` the laws q, the
    maxima and the sums over outputs of a product are at most products. About the secret nothing is known. [ours]"""
    if claim.within is not None:
        return math.inf
    total = 0.0
    for part in law.parts:
        level = _leakage(alone(mechanism, part), claim)[0]
        total = float(up_any(total + float(up_any(part.times * level))))
    return total


def _average(mechanism: Mechanism, claim: Claim) -> tuple[float, dict[str, int]]:
    """A bound of I(S;Y); what a single output may tell stands beside it, in `elsewhere`."""
    if not isinstance(claim.within, Exactly):
        raise InputError("I(S;Y) can be proved at a known distribution only", next="Claim it within sf.Exactly(joint).")
    if unlisted(mechanism):  # I(S;Y) is a mean of logarithms that LIP bounds one by one
        return log_up(proved(mechanism, "lip", claim.within).ratio), {}

    return certification.secret_information(mechanism, claim.within.joint), {}


_MEASURES: dict[str, Callable[[Mechanism, Claim], tuple[float, dict[str, int]]]] = {
    "mi": _average, "leakage": _leakage,
}


# --- the kernel's word: what it refuses is refused here, whatever the fast proofs say ---------------------------------


@dataclass(frozen=True, slots=True)
class Quickly:
    """What the kernel proves in a fraction of a second."""

    cells: int = 20_000  # outputs × inputs for which rationals take about a tenth of a second
    pairs: int = 64  # outputs × secrets² that may each need a dual point of some milliseconds
    leaks: int = 400  # outputs × inputs², each a power of 40 digits


QUICKLY = Quickly()
REPEATED = 0.95  # of a simulated radius: other versions of NumPy may draw otherwise, and then quantiles differ a little
BALLS = (ChiSquareBall.kind, RenyiBall.kind)


def check_confidence(ball: object) -> None:
    """A ball that says how confident it is must be as large as that: a smaller one would be proved all too easily.

    It is recomputed from the counts; a confidence without counts, or of a calibration nobody knows, is refused. What a
    bootstrap adds cannot be recomputed, so its ball is only held to the asymptotic radius.
    """
    if not isinstance(ball, ChiSquareBall | RenyiBall) or ball.confidence is None:
        return
    how, alpha = (ball.calibration, None) if isinstance(ball, ChiSquareBall) else (None, ball.alpha)
    counts = None if ball.joint.counts is None else ball.joint.counts.tolist()
    try:
        kernel.check_radius(ball.kind, ball.confidence, how, ball.radius, alpha, ball.joint.p.size, counts)
    except kernel.Refused as error:
        way_out = "" if counts is not None else "Give the counts (Joint.from_counts), or radius= for confidence=. "
        raise ClaimError(str(error), next=way_out + "Nothing was released.") from None


def confirm(made: Mechanism | Bundle) -> bool:
    """Whether the kernel proves every claim of the mechanism or bundle; not, if that is too much for it or would take
    long. ClaimError if it refuses them, or a claim that is quick to prove."""
    for part in made.parts if isinstance(made, Bundle) else (made,):
        check_coverage(part)
    try:
        found = kernel.admitted(msgspec.json.encode(made.record))
        for own in [found] if isinstance(found, kernel.verdict.Admitted) else found.parts:
            if not all(_quick(own, claim) for claim in own.claims):
                return False
        kernel.judged(found)
    except kernel.Beyond:
        return False  # nothing is said against it
    except kernel.Refused as error:
        raise ClaimError(str(error), next="Nothing was released.") from None
    return True


def check_coverage(mechanism: Mechanism) -> None:
    """Whether the set around noisy counts is as large as the simulation of its coverage asks for, repeated here."""
    noise, within = mechanism.noise, None if mechanism.claim is None else mechanism.claim.within
    if noise is None or noise.coverage is None:
        return
    assert isinstance(within, RenyiBall) and within.joint.counts is not None  # else no coverage is told
    asked = simulated_radius(within.joint.counts.astype(float), noise, noise.coverage)
    if within.radius < REPEATED * asked:
        raise ClaimError(
            f"the set around the noisy counts has the radius {within.radius:.4g}; for a coverage of "
            f"{noise.coverage:g} simulations ask for {asked:.4g}", next="Nothing was released.",
        )


def _quick(part: kernel.verdict.Admitted, claim: kernel.verdict.Claim) -> bool:
    """Whether the kernel's proof of a claim takes well under a second."""
    law = part.law
    if law.kind == "product":
        return law.bits <= 400 and law.inputs <= 12 and len(law.releases) == 1
    if law.kind == "unary" and not law.listable:
        return claim["notion"] in ("ldp", "rldp") and law.inputs <= 64
    outputs = law.outputs
    if outputs * law.inputs > QUICKLY.cells:
        return False
    if claim["notion"] == "leakage":
        return bool(outputs * law.inputs**2 <= QUICKLY.leaks)
    ball = claim["within"] is not None and claim["within"]["kind"] in BALLS
    return not ball or bool(outputs * part.secrets**2 <= QUICKLY.pairs)
