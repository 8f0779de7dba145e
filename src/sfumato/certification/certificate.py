"""Certificates: the level of the integers, proved, and what is left of it elsewhere."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sfumato.certification.atoms import COARSE, GRID
from sfumato.certification.linear import about_anything, about_input, about_secret
from sfumato.certification.outward import log_up
from sfumato.certification.robust import over_ball
from sfumato.certification.witness import Found
from sfumato.errors import ClaimError, InputError
from sfumato.mechanism import Claim, Mechanism, load
from sfumato.uncertainty import Anything, ChiSquareBall, Exactly, UncertaintySet

LARGE = 100_000  # cells beyond which a promise that holds for any distribution is not made closer for the ball
WIDER = (2.0, 4.0)  # times the radius, at which the level is stated as well


@dataclass(frozen=True, slots=True)
class Certificate:
    """A proved statement about a sealed mechanism: its level is at most `level` nats."""

    notion: str
    within: str
    epsilon: float  # what is claimed
    level: float  # what is proved, rounded up
    witness: dict[str, Any] = field(default_factory=dict)  # where the level is attained or approached
    elsewhere: dict[str, float] = field(default_factory=dict)  # proved levels outside the claimed set

    @property
    def holds(self) -> bool:
        return self.level <= self.epsilon


def _over_exactly(mechanism: Mechanism, within: Any, notion: str, target: float) -> Found:
    return about_secret(mechanism, within.joint, notion)


def _over_anything(mechanism: Mechanism, within: Any, notion: str, target: float) -> Found:
    return about_anything(mechanism)


def _over_ball(mechanism: Mechanism, within: Any, notion: str, target: float, steps: int = GRID) -> Found:
    if within.radius == 0:
        return about_secret(mechanism, within.joint, notion)
    everywhere = about_anything(mechanism)
    if everywhere.ratio <= target and within.joint.p.size > LARGE:
        return everywhere
    found = over_ball(mechanism, within.joint, within.radius, target, steps)
    return found if found.ratio < everywhere.ratio else everywhere


_OVER: dict[str, Callable[[Mechanism, Any, str, float], Found]] = {
    Exactly.kind: _over_exactly, Anything.kind: _over_anything, ChiSquareBall.kind: _over_ball,
}


def proved(
    mechanism: Mechanism, notion: str, within: UncertaintySet | None, target: float = math.inf
) -> Found:
    """The proved worst ratio e^level of a sealed mechanism under a notion; close to it beyond what `target` needs."""
    if not mechanism.sealed:
        raise InputError("only a sealed mechanism can be certified: its weights must be integers. Call sf.seal first.")
    if notion == "ldp" or within is None:
        return about_input(mechanism)
    if within.kind not in _OVER:
        raise InputError(f"levels over a set of kind {within.kind!r} cannot be proved yet.")
    if notion == "lip" and not isinstance(within, Exactly):
        # ε-RLDP at P implies ε-LIP at P, so a level over the set for RLDP is one for LIP.
        return _OVER[within.kind](mechanism, within, "rldp", target)
    return _OVER[within.kind](mechanism, within, notion, target)


def certificate(mechanism: Mechanism, claim: Claim | None = None, *, wider: bool = True) -> Certificate:
    """The certificate of a claim, whether or not it holds."""
    claim = mechanism.claim if claim is None else claim
    if claim is None:
        raise InputError("the mechanism carries no claim. Give one, or design it with sf.design.")
    found = proved(mechanism, claim.notion, claim.within, math.exp(claim.epsilon) * (1 - 1e-15))
    level = math.inf if found.ratio == math.inf else log_up(found.ratio)
    kind = "everything" if claim.within is None else claim.within.kind
    outside = elsewhere(mechanism, claim) if wider else {}
    return Certificate(claim.notion, kind, claim.epsilon, level, _named(mechanism, found), outside)


def elsewhere(mechanism: Mechanism, claim: Claim | None = None) -> dict[str, float]:
    """Proved levels about the secret when the truth lies outside the claimed set."""
    claim = mechanism.claim if claim is None else claim
    out: dict[str, float] = {}
    if claim is not None and isinstance(claim.within, ChiSquareBall) and claim.within.radius > 0:
        for times in WIDER:
            ball = ChiSquareBall(claim.within.joint, radius=times * claim.within.radius)
            found = _over_ball(mechanism, ball, "rldp", math.exp(claim.epsilon), COARSE).ratio
            out[f"{times:g} times the radius"] = math.inf if found == math.inf else log_up(found)
    found = about_anything(mechanism).ratio
    out["any distribution"] = math.inf if found == math.inf else log_up(found)
    return out


def _named(mechanism: Mechanism, found: Found) -> dict[str, Any]:
    """The witness in labels."""
    name: dict[str, Callable[[int], Any]] = {
        "output": mechanism.answer, "useful": mechanism.useful.text,
        "first": mechanism.secret.text, "second": mechanism.secret.text,
    }
    return {key: name[key](value) for key, value in found.where.items()}


def certify(mechanism: Mechanism, claim: Claim | None = None) -> Certificate:
    """Prove the claim from the integer weights alone, or raise ClaimError with a witness."""
    made = certificate(mechanism, claim)
    if not made.holds:
        where = ", ".join(f"{key} = {value!r}" for key, value in made.witness.items())
        raise ClaimError(
            f"claimed ε ≤ {made.epsilon:.10g} ({made.notion.upper()}), proved only ε ≤ {made.level:.10g}"
            f"{' at ' + where if where else ''}. Nothing was released."
        )
    return made


def verify(path: str | os.PathLike[str]) -> Certificate:
    """Read a mechanism file and prove its claim anew, from the file alone."""
    return certify(load(path))
