"""Claims, and the sets they hold over, as the mechanism file holds them."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from sfumato.errors import FileFormatError, InputError
from sfumato.joint import Joint
from sfumato.mechanism.mechanism import Claim
from sfumato.uncertainty import Anything, ChiSquareBall, Custom, Exactly, Polytope, RenyiBall, UncertaintySet


class SetRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The distributions a claim covers, around the design distribution."""

    kind: str
    radius: float | None = None
    confidence: float | None = None
    calibration: str | None = None  # how the radius of a χ² ball follows from the confidence; null: asymptotic
    alpha: float | None = None  # the order of a Rényi ball
    vertices: list[list[list[float]]] | None = None  # of a polytope, [vertex][s][u]
    name: str | None = None  # of a set defined by code, which the file does not hold


class ClaimRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A promise; orders of leakage are numbers, or "inf", which JSON has no number for."""

    notion: str
    epsilon: float
    within: SetRecord | None = None
    alpha: float | str | None = None
    beta: float | str | None = None
    also: list[ClaimRecord] = []


def set_record(within: UncertaintySet) -> SetRecord:
    """The record of a set."""
    match within:
        case ChiSquareBall():
            how = None if within.calibration == "asymptotic" else within.calibration
            return SetRecord(within.kind, within.radius, within.confidence, how)
        case RenyiBall():
            return SetRecord(within.kind, within.radius, within.confidence, alpha=within.alpha)
        case Polytope(vertices=vertices) if vertices is not None:
            return SetRecord(within.kind, vertices=vertices.tolist())
        case Polytope():
            raise InputError("a claim over a polytope given by inequalities cannot be saved. List its vertices.")
        case Custom():
            return SetRecord(within.kind, name=within.name)
    return SetRecord(within.kind)


def set_of(record: SetRecord, joint: Joint) -> UncertaintySet:
    """The set of a record around the design distribution."""
    if record.kind == ChiSquareBall.kind and record.radius is not None:
        ball = ChiSquareBall(joint, radius=record.radius)
        object.__setattr__(ball, "confidence", record.confidence)
        how = record.calibration or (None if record.confidence is None else "asymptotic")
        object.__setattr__(ball, "calibration", how)
        return ball
    if record.kind == RenyiBall.kind and record.radius is not None and record.alpha is not None:
        renyi = RenyiBall(joint, alpha=record.alpha, radius=record.radius)
        object.__setattr__(renyi, "confidence", record.confidence)
        return renyi
    if record.kind == Polytope.kind and record.vertices is not None:
        return Polytope(joint, vertices=record.vertices)
    if record.kind == Custom.kind:
        return Custom(joint, None, trusted=True, name=record.name or "custom")
    plain: dict[str, Any] = {Exactly.kind: Exactly, Anything.kind: Anything}
    if record.kind in plain:
        made: UncertaintySet = plain[record.kind](joint)
        return made
    raise FileFormatError(f"the claim is about a set of kind {record.kind!r}, which this version does not know.")


def _order_record(order: float | None) -> float | str | None:
    return "inf" if order is not None and math.isinf(order) else order


def _order(record: float | str | None) -> float | None:
    if isinstance(record, str) and record != "inf":
        raise FileFormatError(f"an order of leakage is a number or 'inf', got {record!r}.")
    return None if record is None else float(record)


def claim_record(claim: Claim) -> ClaimRecord:
    """A claim as the file holds it; equal claims have equal records."""
    return ClaimRecord(
        claim.notion, float(claim.epsilon), None if claim.within is None else set_record(claim.within),
        _order_record(claim.alpha), _order_record(claim.beta), [claim_record(c) for c in claim.also],
    )


def claim_of(record: ClaimRecord, joint: Joint | None) -> Claim:
    """The claim of a record; one about a set needs the design distribution."""
    within = None
    if record.within is not None:
        if joint is None:
            raise FileFormatError("the claim is about a set of distributions, but the design data are missing.")
        within = set_of(record.within, joint)
    also = tuple(claim_of(r, joint) for r in record.also)
    return Claim(record.notion, record.epsilon, within, _order(record.alpha), _order(record.beta), also)
