"""Levels at one known distribution: I(S;Y), and SRLIP for whoever knows some of the columns."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.certification.rationals import CANDIDATES, about_input, ratio_of
from sfumato.certification.witness import Attained
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism, Rows
from sfumato.mechanism.product import LISTED_SUBSETS, part_bits
from sfumato.privacy.beliefs import side_channels

if TYPE_CHECKING:
    from sfumato.alphabet import BigInts, Floats


# --- a proved upper bound of I(S;Y), for claims about the average case ------------------------------------------------


DIGITS = 50  # of the logarithms; a result is rounded up by far more than their error


def secret_information(mechanism: Mechanism, joint: Joint) -> float:
    """A float at or above I(S;Y) = Σ P(s,y) log P(s,y) / (P(s) P(y)), from the integers, with 50-digit logarithms."""
    law = mechanism.law
    if law.outputs * joint.secret.size > 1_000_000:
        raise InputError("I(S;Y) is certified for at most a million pairs of secret and output.")
    exact, total = joint.weights()
    secrets = [int(n) for n in exact.sum(1)]
    scale = total << part_bits(law)
    with localcontext() as context:
        context.prec = DIGITS
        sum_, related = Decimal(0), False
        for y in range(law.outputs):
            row: BigInts = np.broadcast_to(np.asarray(law.row(y), object), joint.shape)
            part = [int((row[s] * exact[s]).sum()) for s in range(len(secrets))]
            mass = sum(part)
            for s, k in enumerate(part):
                if k:
                    ratio = Fraction(k * total, mass * secrets[s])
                    related |= ratio != 1
                    log = Decimal(ratio.numerator).ln() - Decimal(ratio.denominator).ln()
                    sum_ += Decimal(k) / Decimal(scale) * log
    return 0.0 if not related else float(np.nextafter(max(0.0, float(sum_)) + 1e-30, np.inf))


# --- SRLIP in rationals, over every J, x^J, y and s -------------------------------------------------------------------
# Floats only choose where to look: sums of products that are not negative lose at most (|U| + 16) half-units of
# relative precision, and every place within that of the best float is evaluated as a rational.


CELLS = 20_000_000  # outputs × secrets × values that a certificate will look at


def about_side_channels(mechanism: Mechanism, joint: Joint) -> Attained:
    """max of P(y|s,x^J) / P(y|x^J) and its inverse over J, x^J, y, s under one exact joint."""
    law = mechanism.law
    if law.meaning == "subset" and mechanism.inputs > LISTED_SUBSETS:
        return about_input(mechanism)  # sets too many to list: ε-LDP is ε-SRLIP
    if law.outputs * joint.p.size > CELLS:
        raise InputError(f"SRLIP certificates look at every cell; {law.outputs} outputs × {joint.p.size} are too many.")
    exact, _ = joint.weights()
    sizes = tuple(column.size for column in joint.useful.columns)
    table = exact.reshape(-1, *sizes)
    rows = np.stack([np.broadcast_to(np.asarray(law.row(y), object), joint.shape) for y in range(law.outputs)])
    rows = rows.reshape(law.outputs, -1, *sizes)
    floats = Rows(rows).floats
    slip = 1 + (joint.useful.size + joint.secret.size + 16) * 2.0**-49
    best = Attained(Fraction(1), {})
    for known in side_channels(len(sizes)):
        best = best.or_worse(_one_channel(table, rows, floats, known, sizes, slip, float(best.ratio)))
    return best


def _one_channel(
    table: BigInts, rows: BigInts, floats: Floats, known: tuple[int, ...], sizes: tuple[int, ...], slip: float,
    found: float,
) -> Attained:
    hidden = tuple(j + 1 for j in range(len(sizes)) if j not in known)
    prior = table.sum(axis=hidden) if hidden else table  # [s, x^J]
    seen = (floats * table.astype(float)).sum(axis=tuple(j + 1 for j in hidden))  # [y, s, x^J]
    rough = _rough(prior.astype(float), seen)
    worst = float(rough.max(initial=1.0))
    if worst * slip * slip < found:
        return Attained(Fraction(1), {})
    near = np.argwhere(rough * slip * slip >= worst) if math.isfinite(worst) else np.argwhere(np.isinf(rough))
    best = Attained(Fraction(1), {})
    for y, s, *place in near[:CANDIDATES].tolist():
        best = best.or_worse(_exactly(table, rows[y], prior, known, tuple(place), y, s, sizes))
    if len(near) > CANDIDATES:
        best = best.or_worse(Attained(Fraction(worst * slip * slip) if math.isfinite(worst) else math.inf, {}))
    return best


def _rough(prior: Floats, seen: Floats) -> Floats:
    """max of the ratio and its inverse in floats; 1 where nothing can be said."""
    total, mass = seen.sum(axis=1, keepdims=True), prior.sum(axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (seen * mass) / (prior * total)
        either = np.maximum(ratio, 1 / ratio)
    return np.where((prior > 0) & (total > 0), either, 1.0)


def _exactly(
    table: BigInts, row: BigInts, prior: BigInts, known: tuple[int, ...], place: tuple[int, ...], y: int, s: int,
    sizes: tuple[int, ...],
) -> Attained:
    """P(y|s,x^J) / P(y|x^J) and its inverse as rationals."""
    index: list[slice | int] = [slice(None)] * len(sizes)
    for j, value in zip(known, place, strict=True):
        index[j] = value
    part = [int((row[(k, *index)] * table[(k, *index)]).sum()) for k in range(len(table))]
    mine, all_mine = part[s], int(prior[(s, *place)])
    total, mass = sum(part), sum(int(prior[(k, *place)]) for k in range(len(table)))
    where = {"output": y, "first": s}
    if known:  # the useful value is named by x^J; the others are shown at their first label
        whole = [0] * len(sizes)
        for j, value in zip(known, place, strict=True):
            whole[j] = value
        where["known"] = _code(known, whole, sizes)
    above = Attained(ratio_of(mine * mass, total * all_mine), where)
    return above.or_worse(Attained(ratio_of(total * all_mine, mine * mass), where))


def _code(known: tuple[int, ...], whole: list[int], sizes: tuple[int, ...]) -> int:
    """J and x^J as one number: a mixed-radix code in which digit 0 means 'not known'."""
    code = 0
    for j, size in enumerate(sizes):
        code = code * (size + 1) + (whole[j] + 1 if j in known else 0)
    return code
