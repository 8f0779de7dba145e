"""Glance: the four answers of the first screen. What can an attacker learn, what can analysts, what is it worth, and
what is public now."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.certification.linear import about_anything
from sfumato.certification.outward import log_up
from sfumato.decimals import in_a_hundred
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.reporting.attack import bounded, most_guessed
from sfumato.reporting.figures import Guesser, PrecisionFigures, Worth


def guessers_of(mechanism: Mechanism, joint: Joint | None, certificate: Any) -> tuple[Guesser, ...]:
    """Somebody who knows the shares, and somebody who knows the person's useful values as well.

    The first is held by the promise, because the design distribution lies in every set it speaks of. Who knows u looks
    at the distribution given u, which no ball holds: only the level for any distribution limits what they learn. Both
    see what the mechanism file tells with noise, which adds its ε_d.
    """
    claim = mechanism.claim
    if joint is None or claim is None or joint.secret.size < 2:
        return ()
    known, spent = bounded(claim.notion), 0.0 if joint.noise is None else joint.noise.epsilon
    level = spent + (claim.epsilon if certificate is None else min(claim.epsilon, float(certificate.level)))
    first = in_a_hundred(most_guessed(joint.p_secret, level, claim.notion)) if known else None
    anywhere = level if claim.within is None and claim.notion == "ldp" else spent + _anywhere(mechanism, certificate)
    given = [(float(p), column / p) for p, column in zip(joint.p_useful, joint.p.T, strict=True) if p > 0]
    second = math.fsum(p * most_guessed(q, anywhere, "rldp") for p, q in given)
    before = float(joint.p.max(axis=0).sum())
    useful = ", ".join(mechanism.useful.names)
    return (
        Guesser("statistics", round(100 * float(joint.p_secret.max())), first, level),
        Guesser(f"the person: {useful}", round(100 * before), in_a_hundred(second), anywhere),
    )


def _anywhere(mechanism: Mechanism, certificate: Any) -> float:
    """What is proved for any distribution: `certificate.elsewhere` has it too, beside levels that take longer."""
    if certificate is None or mechanism.claim is None or mechanism.claim.notion == "leakage":
        return math.inf
    ratio = about_anything(mechanism).ratio
    return math.inf if ratio == math.inf else log_up(ratio)


def worth_of(exact: tuple[PrecisionFigures, ...]) -> Worth | None:
    """That of the useful columns."""
    if not exact:
        return None
    useful = exact[-1]
    fixed = useful.error is None or bool(np.isfinite(useful.error))
    return Worth(useful.name, useful.n, useful.equal if fixed else 0.0, fixed)


def imprint_of(manifest: Any) -> tuple[tuple[str, str], ...]:
    """What the manifest says about who made the release, when and how."""
    if manifest is None:
        return ()
    told = (("Published by", manifest.publisher), ("Date", manifest.date), ("Made with", manifest.command))
    return tuple((name, text) for name, text in told if text)
