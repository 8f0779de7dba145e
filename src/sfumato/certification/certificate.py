"""Certificates: the level of the integers, proved, and what is left of it elsewhere."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from sfumato.certification.confirming import confirm
from sfumato.certification.outward import log_up, up_any
from sfumato.certification.rationals import about_anything, about_input, about_secret, alone
from sfumato.certification.witness import Attained, DeferredLevel, DeferredLevels, known_text
from sfumato.errors import ClaimError, InputError
from sfumato.frames import Framed
from sfumato.mechanism import Bundle, Claim, Mechanism, Product, load
from sfumato.uncertainty import Anything, ChiSquareBall, Custom, Exactly, Polytope, RenyiBall, UncertaintySet
from sfumato_kernel import Refused, check_radius

if TYPE_CHECKING:
    from sfumato.certification.witness import Witness
    from sfumato.frames import Datum, Record

UNSEALED = "only a sealed mechanism can be certified: its weights must be integers. Call sf.seal first."
LARGE = 100_000  # cells beyond which a promise that holds for any distribution is not made closer for the ball
PROVED, GIVEN = "proved from the integers", "as given by the set"  # what a level rests on
BOUNDED = "bounded from the integers of each release"
LARGEST_EXPONENT = 709.0  # of e that floats hold
BELIEFS = ("lip", "pml")  # notions about P(y|s)/P(y), which RLDP implies at every P: P(y) is a mean of the P(y|s)
WIDER = (2.0, 4.0)  # times the radius, at which the level is stated as well


@dataclass(frozen=True, slots=True, repr=False)
class Certificate(Framed):
    """A proved statement about a sealed mechanism: its level is at most `level` nats."""

    notion: str
    within: str
    epsilon: float  # what is claimed
    proof: DeferredLevel  # of the least level proved; where the kernel proved the claim, made when first read
    elsewhere: Mapping[str, float] = field(default_factory=dict)  # levels outside the set, proved when first read
    title: str = ""  # the notion's name, with its orders
    also: tuple[Certificate, ...] = ()  # of the further promises of the claim
    basis: str = PROVED

    @property
    def level(self) -> float:
        """What is proved, rounded up."""
        return self.proof.made[0]

    @property
    def witness(self) -> Witness:
        """Where the level is attained or approached."""
        return self.proof.made[1]

    @property
    def holds(self) -> bool:
        proved = self.proof.confirmed is not None or self.level <= self.epsilon
        return proved and all(other.holds for other in self.also)

    def records(self) -> Iterator[Record]:
        """One record for each promise: what is claimed, and what is proved."""
        for one in (self, *self.also):
            yield {"notion": one.title or one.notion.upper(), "within": one.within, "claimed": one.epsilon,
                   "proved": one.level, "holds": one.level <= one.epsilon, "basis": one.basis}

    def __repr__(self) -> str:
        state = "holds" if self.holds else "does NOT hold"
        return (f"<Certificate: {self.title or self.notion.upper()} {state}, ε = {self.epsilon:g} nats claimed, "
                f"{self.level:.6g} {self.basis}, {self.within}>")


def _over_exactly(mechanism: Mechanism, within: Exactly, notion: str, target: float) -> Attained:
    return about_secret(mechanism, within.joint, notion)


def _over_anything(mechanism: Mechanism, within: Anything, notion: str, target: float) -> Attained:
    return about_anything(mechanism)


def _over_ball(
    mechanism: Mechanism, within: ChiSquareBall, notion: str, target: float, coarse: bool = False
) -> Attained:
    from sfumato.certification.over_balls import over_ball

    if within.radius == 0:
        return about_secret(mechanism, within.joint, notion)
    everywhere = about_anything(mechanism)
    if everywhere.ratio <= target and within.joint.p.size > LARGE:
        return everywhere
    found = over_ball(mechanism, within.joint, within.radius, target, coarse)
    return found if found.ratio < everywhere.ratio else everywhere


def _over_ball_coarsely(mechanism: Mechanism, within: ChiSquareBall, notion: str, target: float) -> Attained:
    """For levels that are told but promise nothing."""
    return _over_ball(mechanism, within, notion, target, coarse=True)


def _over_renyi(mechanism: Mechanism, within: RenyiBall, notion: str, target: float) -> Attained:
    from sfumato.certification.over_balls import over_bounds
    from sfumato.certification.renyi_proofs import RenyiBounds

    if within.radius == 0:
        return about_secret(mechanism, within.joint, notion)
    everywhere = about_anything(mechanism)
    found = over_bounds(mechanism, RenyiBounds.around(within.joint, within.alpha, within.radius), target)
    return found if found.ratio < everywhere.ratio else everywhere


def _over_polytope(mechanism: Mechanism, within: Polytope, notion: str, target: float) -> Attained:
    from sfumato.certification.stated_sets import over_vertices

    everywhere, found = about_anything(mechanism), over_vertices(mechanism, within, target)
    return found if found.ratio < everywhere.ratio else everywhere


def _over_custom(mechanism: Mechanism, within: Custom, notion: str, target: float) -> Attained:
    from sfumato.certification.stated_sets import over_ranges

    everywhere, found = about_anything(mechanism), over_ranges(mechanism, within)
    return found if found.ratio < everywhere.ratio else everywhere


# By the kind of a set: (mechanism, set of this kind, notion, target) → the worst ratio over it.
_OVER: dict[str, Callable[..., Attained]] = {
    Exactly.kind: _over_exactly, Anything.kind: _over_anything, ChiSquareBall.kind: _over_ball,
    RenyiBall.kind: _over_renyi, Polytope.kind: _over_polytope, Custom.kind: _over_custom,
}


def proved(
    mechanism: Mechanism, notion: str, within: UncertaintySet | None, target: float = math.inf
) -> Attained:
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
        from sfumato.certification.together import bounded

        found = bounded(mechanism, lambda m: proved(m, notion, within), whole_record=notion != "rldp")
        if notion in BELIEFS:
            other = bounded(mechanism, lambda m: proved(m, "rldp", within), whole_record=False)
            return found if found.ratio <= other.ratio else other
        return found
    if notion == "srlip":
        if not isinstance(within, Exactly):
            raise InputError(f"SRLIP can be proved at a known distribution, not over a set of kind {within.kind!r}.")
        from sfumato.certification.leakage_proofs import about_side_channels

        return about_side_channels(mechanism, within.joint)
    if notion in BELIEFS and not (isinstance(within, Exactly) or getattr(within, "radius", None) == 0):
        found = _OVER[within.kind](mechanism, within, "rldp", target)
        if not isinstance(within, ChiSquareBall) or found.ratio <= target or not math.isfinite(target):
            return found
        from sfumato.certification.shift_proofs import shifts_over_ball

        return shifts_over_ball(mechanism, within.joint, within.radius, target, found, notion)
    return _OVER[within.kind](mechanism, within, notion, target)


def unlisted(mechanism: Mechanism) -> bool:
    """Whether it stands for several releases whose joint outputs are too many to list, so that levels are bounds."""
    return isinstance(mechanism.law, Product) and not mechanism.law.listed


def certificate(
    mechanism: Mechanism, claim: Claim | None = None, *, wider: bool = True, confirmed: bool = False
) -> Certificate:
    """The certificate of a claim, whether or not it holds; if the kernel confirmed it, its level is found when read."""
    claim = mechanism.claim if claim is None else claim
    if claim is None:
        raise InputError("the mechanism carries no claim", next="Give one, or design it with sf.design.")
    if not confirmed:
        check_confidence(claim)
    proof = DeferredLevel(partial(_proof, mechanism, claim), claim.epsilon if confirmed else None)
    if not confirmed:
        _ = proof.made
    kind = "everything" if claim.within is None else claim.within.kind
    outside = outlook(mechanism, claim) if wider else {}
    also = tuple(certificate(mechanism, other, wider=False, confirmed=confirmed) for other in claim.also)
    basis = GIVEN if isinstance(claim.within, Custom) else BOUNDED if unlisted(mechanism) else PROVED
    return Certificate(claim.notion, kind, claim.epsilon, proof, outside, claim.title, also, basis)


def _proof(mechanism: Mechanism, claim: Claim) -> tuple[float, Witness]:
    level, where = _MEASURES.get(claim.notion, _ratio)(mechanism, claim)
    return level, _named(mechanism, where, claim.within is not None)


def _ratio(mechanism: Mechanism, claim: Claim) -> tuple[float, dict[str, int]]:
    found = proved(mechanism, claim.notion, claim.within, target_of(claim.epsilon))
    return (math.inf if found.ratio == math.inf else log_up(found.ratio)), found.where


def target_of(epsilon: float) -> float:
    """A little below e^ε; the greatest float where that is one beyond it."""
    return math.exp(min(epsilon, LARGEST_EXPONENT)) * (1 - 1e-15)


def _leakage(mechanism: Mechanism, claim: Claim) -> tuple[float, dict[str, int]]:
    if not mechanism.sealed:
        raise InputError(UNSEALED)
    assert claim.alpha is not None and claim.beta is not None
    joint = None if claim.within is None else claim.within.joint
    if isinstance(mechanism.law, Product) and unlisted(mechanism):
        return _leakage_of_parts(mechanism, mechanism.law, claim), {}
    from sfumato.certification.leakage_proofs import leakage_level

    found = leakage_level(mechanism, claim.alpha, claim.beta, joint)
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
    if not mechanism.sealed:
        raise InputError(UNSEALED)
    if not isinstance(claim.within, Exactly):
        raise InputError("I(S;Y) can be proved at a known distribution only", next="Claim it within sf.Exactly(joint).")
    if unlisted(mechanism):  # I(S;Y) is a mean of logarithms that LIP bounds one by one
        worst = proved(mechanism, "lip", claim.within).ratio
        return (math.inf if worst == math.inf else log_up(worst)), {}
    from sfumato.certification.leakage_proofs import secret_information

    return secret_information(mechanism, claim.within.joint), {}


_MEASURES: dict[str, Callable[[Mechanism, Claim], tuple[float, dict[str, int]]]] = {
    "mi": _average, "leakage": _leakage,
}


def elsewhere(mechanism: Mechanism, claim: Claim | None = None) -> dict[str, float]:
    """Proved levels about the secret when the truth lies outside the claimed set."""
    claim = mechanism.claim if claim is None else claim
    out: dict[str, float] = {}
    if claim is not None and claim.notion == "leakage":
        return out  # levels of another measure would mislead beside this one
    told = claim is not None and claim.notion != "pml"  # which lets odds be infinite: their level would mislead too
    if claim is not None and told and isinstance(claim.within, ChiSquareBall | RenyiBall) and claim.within.radius > 0:
        for times in WIDER:
            wide = claim.within.widened(times)
            asked = "rldp", target_of(claim.epsilon)
            if isinstance(wide, ChiSquareBall):
                found = _over_ball_coarsely(mechanism, wide, *asked).ratio
            else:
                found = _over_renyi(mechanism, wide, *asked).ratio
            out[f"{times:g} times the radius"] = math.inf if found == math.inf else log_up(found)
    if claim is not None and claim.notion == "mi" and claim.within is not None:
        worst = proved(mechanism, "lip", claim.within).ratio
        out["the worst output (LIP)"] = math.inf if worst == math.inf else log_up(worst)
    if mechanism.secret.size < 2:
        return out  # nothing is secret but the record itself
    found = about_anything(mechanism).ratio
    out["any distribution"] = math.inf if found == math.inf else log_up(found)
    return out


def outlook(mechanism: Mechanism, claim: Claim | None = None) -> Mapping[str, float]:
    """`elsewhere`, proved when it is first read."""
    return DeferredLevels(partial(elsewhere, mechanism, claim))


def _named(mechanism: Mechanism, where: dict[str, int], about_secret: bool) -> Witness:
    """The witness in labels."""
    own = mechanism.secret.text if about_secret else mechanism.input_text
    name: dict[str, Callable[[int], Datum]] = {
        "output": mechanism.answer, "useful": mechanism.useful.text,
        "first": mechanism.secret.text, "second": mechanism.secret.text, "input": own, "other": own,
        "known": lambda code: known_text(code, mechanism.useful.columns),
    }
    return {key: name[key](value) for key, value in where.items()}


def certify(mechanism: Mechanism, claim: Claim | None = None) -> Certificate:
    """Prove the claim from the integer weights alone, or raise ClaimError with a witness.

    What is small enough for the kernel it proves alone; what is not rests on the fast proofs.
    """
    claim, refused = mechanism.claim if claim is None else claim, None
    if claim is not None and mechanism.sealed:
        try:
            if confirm(replace(mechanism, claim=claim)):
                return certificate(mechanism, claim, confirmed=True)
        except ClaimError as error:
            refused = error  # the fast proof may say where
    made = certificate(mechanism, claim)
    if not made.holds:
        made = next((c for c in (made, *made.also) if c.level > c.epsilon), made)
        where = ", ".join(f"{key} = {value!r}" for key, value in made.witness.items())
        raise ClaimError(
            f"claimed ε ≤ {made.epsilon:.10g} ({made.title}), proved only ε ≤ "
            f"{made.level:.10g}{' at ' + where if where else ''}", next="Nothing was released.",
        )
    if refused is not None:
        raise refused
    return made


def check_confidence(claim: Claim) -> None:
    """A ball that says how confident it is must be as large as that: a smaller one would be proved all too easily.

    It is recomputed from the counts; a confidence without counts, or of a calibration nobody knows, is refused. What a
    bootstrap adds cannot be recomputed, so its ball is only held to the asymptotic radius.
    """
    ball = claim.within
    if not isinstance(ball, ChiSquareBall | RenyiBall) or ball.confidence is None:
        return
    how, alpha = (ball.calibration, None) if isinstance(ball, ChiSquareBall) else (None, ball.alpha)
    try:
        counts = None if ball.joint.counts is None else ball.joint.counts.tolist()
        check_radius(ball.kind, ball.confidence, how, ball.radius, alpha, ball.joint.p.size, counts)
    except Refused as error:
        raise ClaimError(str(error), next="Nothing was released.") from None


def verify(path: str | os.PathLike[str]) -> Certificate:
    """Read a mechanism file and prove its claim anew, from the file alone."""
    return certify_any(load(path))


def certify_any(made: Mechanism | Bundle) -> Certificate:
    """Prove the claim of a mechanism, or the promise of a bundle."""
    if isinstance(made, Bundle):
        from sfumato.certification.together import certify_bundle

        return certify_bundle(made)
    return certify(made)
