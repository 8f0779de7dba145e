"""Measuring: the design of one method at one ε, with every figure that a comparison shows."""

from __future__ import annotations

import math
from typing import Any

from sfumato.comparing.field import ENTRANTS, Entrant
from sfumato.comparing.olh import olh_precision
from sfumato.comparing.points import Missing, Point
from sfumato.comparing.precision import precision
from sfumato.comparing.truths import realised
from sfumato.designers import design
from sfumato.errors import SfumatoError
from sfumato.joint import Joint
from sfumato.uncertainty import Exactly, UncertaintySet


def measured(
    within: UncertaintySet, epsilon: float, method: str, *, n: int | None, time_limit: float | None = None,
    at_most: float | None = None,
) -> Point | Missing:
    """The design of one method at one ε with its figures, or the reason why there is none."""
    entrant = ENTRANTS[method]
    try:
        if entrant.designer == "olh":
            return _olh(within.joint, epsilon, method, n)
        return _designed(within, epsilon, method, entrant, n, time_limit, at_most)
    except SfumatoError as error:
        return Missing(method, epsilon, str(error))


def _designed(
    within: UncertaintySet, epsilon: float, method: str, entrant: Entrant, n: int | None, time_limit: float | None,
    at_most: float | None,
) -> Point:
    options = dict(entrant.options)
    if at_most is not None:
        options["at_most"] = at_most
    if time_limit is not None and entrant.timed:
        options["time_limit"] = time_limit
    joint = within.joint
    made = design(Exactly(joint) if entrant.known else within, epsilon, entrant.designer, **options)
    mechanism, told = made.mechanism, made.information
    kept, useful, secret = (None,) * 3 if told is None else (float(x) for x in (told.both, told.useful, told.secret))
    return Point(
        method, epsilon, _promise(made), float(made.certificate.level), mechanism.reads,
        kept, None if kept is None or joint.entropy == 0 else kept / joint.entropy, useful, secret,
        float(made.bound) if entrant.informs else None, float(made.ceiling) if entrant.informs else None,
        None if n is None else precision(mechanism, joint, n), realised(mechanism, joint, epsilon),
        mechanism.outputs if mechanism.law.meaning != "subset" else None, made.seconds,
    )


def _promise(made: Any) -> str:
    claim = made.mechanism.claim
    where = {None: "any distribution", "exactly": "at the counts", "anything": "any distribution",
             "chi-square-ball": "in the ball", "renyi-ball": "in the Rényi ball"}
    kind = None if claim.within is None else claim.within.kind
    about = {"ldp": "record", "leakage": "record" if kind is None else "secret"}.get(claim.notion, "secret")
    second = "".join(f"; at most {c.epsilon:g} for any distribution" for c in claim.also if c.notion == "rldp")
    return f"{claim.title} of the {about}, {where.get(kind, 'in the set')}{second}"


def _olh(joint: Joint, epsilon: float, method: str, n: int | None) -> Point:
    """OLH by formula: errors and promise, no information (its outputs are hash functions)."""
    found = None if n is None else olh_precision(joint, math.exp(epsilon), n)
    return Point(
        method, epsilon, "LDP of the record, any distribution", epsilon, "both", None, None, None, None, None, None,
        found, None, None, 0.0,
    )
