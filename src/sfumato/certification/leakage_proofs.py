"""Proved levels of leakage from integer weights: maximal (α, β)-leakage, and I(S;Y) and SRLIP at one distribution.

(∞, 1) and β = ∞ are exact in rationals. For other orders every power is bounded outward. Where the definition asks for
a supremum over priors (1 ≤ β < α < ∞, and the capacity) the proof is a law q on outputs for each x': by [004, (84)]

    L_{α,β} ≤ max_{x'} max_x 1/(α−1) · log Σ_y Q_x^α q^{1−α/β} Q_x'^{α/β−α}      for any laws q,

so floats may suggest q, and nothing about how they were found has to be believed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato import privacy
from sfumato.alphabet import Floats
from sfumato.certification.outward import (
    EXACT_DIGITS,
    down,
    float_range,
    log_above,
    log_below,
    log_sum_above,
    log_up,
    up,
    up_any,
)
from sfumato.certification.rationals import Attained, about_input, worst_output
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism, Rows
from sfumato.mechanism.law import listed_laws
from sfumato.mechanism.product import part_bits
from sfumato.privacy.beliefs import side_channels
from sfumato.tolerances import CHANNEL, LISTED, SUBSETS, UNIT

if TYPE_CHECKING:
    from sfumato.alphabet import BigInts


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """A channel of rationals weights[y, x] / totals[x], with floats below and above each entry."""

    weights: BigInts  # [y, x] of Python integers; outputs that never occur are left out
    totals: list[int]
    outputs: list[int]
    inputs: list[int]

    @property
    def ends(self) -> tuple[Floats, Floats]:
        low, high = float_range(self.weights)
        least, most = float_range(np.array(self.totals, object))
        zero = self.weights == 0
        return np.where(zero, 0.0, down(low / most)), np.where(zero, 0.0, np.minimum(up(high / least), 1.0))

    @property
    def rationals(self) -> list[list[Fraction]]:
        return [[Fraction(int(w), t) for w, t in zip(row, self.totals, strict=True)] for row in self.weights]

    @property
    def flat(self) -> bool:
        """Whether all columns are one law, exactly."""
        first, total = self.weights[:, 0], self.totals[0]
        return all(
            np.array_equal(self.weights[:, x] * total, first * self.totals[x]) for x in range(len(self.totals))
        )


def exact_channel(mechanism: Mechanism, joint: Joint | None) -> Exact:
    """Q(y|x) of a sealed mechanism, or P(y|s) through the exact p(x|s) of a joint, for secrets that occur."""
    law = mechanism.law
    if law.meaning == "subset" or mechanism.outputs * mechanism.inputs > CHANNEL:
        raise InputError(
            f"leakage is proved for laws whose outputs can be listed, at most {CHANNEL:,} cells; this one is of "
            f"kind {law.kind!r} for {mechanism.inputs:,} inputs",
            next="Claim LDP instead: it bounds leakage for β ≤ α.",
        )
    assert law.bits is not None
    rows = np.stack([np.asarray(law.row(y), object) for y in range(mechanism.outputs)])  # [y, s, u]
    if joint is None:
        weights, totals = rows.reshape(len(rows), -1), [2**law.bits] * mechanism.inputs
        inputs = list(range(mechanism.inputs))
    else:
        counts, _ = joint.weights()
        inputs = [s for s in range(len(counts)) if counts[s].sum() > 0]
        columns = [(rows[:, min(s, law.rows - 1)] * counts[s]).sum(axis=1) for s in inputs]
        weights = np.stack(columns, axis=1)
        totals = [2**law.bits * int(counts[s].sum()) for s in inputs]
    outputs = [y for y in range(len(weights)) if any(weights[y])]
    return Exact(weights[outputs], totals, outputs, inputs)


@dataclass(frozen=True, slots=True)
class Proved:
    """A level in nats, rounded up, and the inputs and the output behind it, as codes."""
    level: float
    where: dict[str, int]


def leakage_level(mechanism: Mechanism, alpha: float, beta: float, joint: Joint | None = None) -> Proved:
    """An upper bound of L_{α,β} of the integers, about the input or, through a joint, about the secret."""
    q = exact_channel(mechanism, joint)
    if q.flat:
        return Proved(0.0, {})
    if beta == 1 and math.isinf(alpha):
        return Proved(log_up(sum((max(row) for row in q.rationals), Fraction(0))), {})
    if beta > 1 and (alpha == 1 or bool((q.weights == 0).any())):
        return Proved(math.inf, _first_zero(q) if alpha > 1 else {})
    if math.isinf(beta):
        found = _ratio(q)
        return found if math.isinf(alpha) else Proved(_times(found.level, alpha, 1, alpha - 1, 1), found.where)
    if math.isinf(alpha):
        return _row_maxima(q, beta)
    if beta >= alpha and beta > 1:
        return _pairs(q, alpha, beta)
    return _capacity(q) if alpha == 1 else _by_laws(q, alpha, beta)


def _times(level: float, *factors: float) -> float:
    """level · factors[0]·factors[1] / (factors[2]·factors[3]), rounded up; α − 1 of a float α ≥ 1 is exact."""
    a, b, c, d = (Fraction(x) for x in factors)
    return float(up_any(float(Fraction(max(level, 0.0)) * a * b / (c * d))))


def _first_zero(q: Exact) -> dict[str, int]:
    y, x = (int(i) for i in np.argwhere(q.weights == 0)[0])
    return {"output": q.outputs[y], "other": q.inputs[x]}


def _ratio(q: Exact) -> Proved:
    best, where = Fraction(1), {}
    for y, row in enumerate(q.rationals):
        top, low = max(row), min(row)
        if top / low > best:
            best = top / low
            where = {"output": q.outputs[y], "input": q.inputs[row.index(top)], "other": q.inputs[row.index(low)]}
    return Proved(log_up(best), where)


def _row_maxima(q: Exact, beta: float) -> Proved:
    """max_{x'} (1/β) log Σ_y Q(y|x')^{1−β} max_x Q(y|x)^β [004, (15)]."""
    low, high = q.ends
    found = _worst(q, up_any(beta * log_above(high.max(axis=1, keepdims=True))), up_any((beta - 1) * -log_below(low)))
    return Proved(_times(found.level, 1, 1, beta, 1), {"other": found.where["other"]})


def _pairs(q: Exact, alpha: float, beta: float) -> Proved:
    """β ≥ α: max_{x, x'} α/((α−1)β) · log Σ_y Q_x^β Q_x'^{1−β} [004, (11)]."""
    low, high = q.ends
    found = _worst(q, up_any(beta * log_above(high)), up_any((beta - 1) * -log_below(low)), apart=True)
    return Proved(_times(found.level, alpha, 1, alpha - 1, beta), found.where)


def _worst(q: Exact, mine: Floats, theirs: Floats, *, apart: bool = False) -> Proved:
    """The greatest log Σ_y e^{mine[y, x] + theirs[y, x']}, at least 0, which x' = x has where that is told `apart`."""
    best, where = 0.0, {"input": q.inputs[0], "other": q.inputs[0]}
    for other in range(theirs.shape[1]):
        found = log_sum_above(up_any(mine + theirs[:, other, None]))
        if apart:
            found[other] = 0.0
        x = int(np.argmax(found))
        if found[x] > best:
            best, where = float(found[x]), {"input": q.inputs[x], "other": q.inputs[other]}
    return Proved(best, where)


def _laws(q: Exact, alpha: float, beta: float) -> Floats:
    """Suggested laws q[x', y] (one for all when β = 1), positive, with sums proved to be at most 1."""
    low, high = q.ends
    middle = (low + high) / 2
    laws = np.maximum(privacy.dual_laws(middle / middle.sum(axis=0), alpha, beta), UNIT)
    total = laws.sum(axis=1, keepdims=True) * (1 + (laws.shape[1] + 4) * 2.0**-52)
    return down(laws / total)


def _by_laws(q: Exact, alpha: float, beta: float) -> Proved:
    low, high = q.ends
    over, rest = Fraction(alpha) / Fraction(beta) - 1, Fraction(alpha) - Fraction(alpha) / Fraction(beta)
    theirs = up_any(float(up_any(float(over))) * -log_below(_laws(q, alpha, beta).T))
    if rest:
        theirs = up_any(theirs + up_any(float(up_any(float(rest))) * -log_below(low)))
    found = _worst(q, up_any(alpha * log_above(high)), theirs)
    where = found.where if rest else {"input": found.where["input"]}
    return Proved(_times(found.level, 1, 1, alpha - 1, 1), where)


def _capacity(q: Exact) -> Proved:
    """max_x Σ_y Q log Q/q for a law q bounds the capacity."""
    low, high = q.ends
    law = _laws(q, 1.0, 1.0)[0]
    gain = np.where(high > 0, up_any(log_above(high) - log_below(law)[:, None]), 0.0)
    terms = np.where(gain > 0, up(high * np.maximum(gain, 0)), up_any(low * np.minimum(gain, 0)))
    total = np.zeros(terms.shape[1])
    for row in terms:
        total = up_any(total + row)
    x = int(np.argmax(total))
    return Proved(max(0.0, float(total[x])), {"input": q.inputs[x]})


# --- levels at one known distribution: I(S;Y), and SRLIP for whoever knows some of the columns ------------------------


def secret_information(mechanism: Mechanism, joint: Joint) -> float:
    """A float at or above I(S;Y) = Σ P(s,y) log P(s,y) / (P(s) P(y)), from the integers."""
    law = mechanism.law
    if law.outputs * joint.secret.size > 1_000_000:
        raise InputError("I(S;Y) is certified for at most a million pairs of secret and output.")
    exact, total = joint.weights()
    secrets = [int(n) for n in exact.sum(1)]
    scale = total << part_bits(law)
    with localcontext() as context:
        context.prec = EXACT_DIGITS
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


def about_side_channels(mechanism: Mechanism, joint: Joint) -> Attained:
    """max of P(y|s,x^J) / P(y|x^J) and its inverse over J, x^J, y, s under one exact joint: LIP given every x^J."""
    law = mechanism.law
    if law.meaning == "subset" and mechanism.inputs > SUBSETS:
        return about_input(mechanism)  # sets too many to list: ε-LDP is ε-SRLIP
    if law.outputs * joint.p.size > LISTED:
        raise InputError(f"SRLIP certificates look at every cell; {law.outputs} outputs × {joint.p.size} are too many.")
    exact, _ = joint.weights()
    sizes = tuple(column.size for column in joint.useful.columns)
    digits = np.stack(np.unravel_index(np.arange(joint.useful.size), sizes))
    rows = np.stack([np.broadcast_to(np.asarray(law.row(y), object), joint.shape) for y in range(law.outputs)])
    floats, best = Rows(rows).floats, Attained(Fraction(1), {})
    for known in side_channels(len(sizes)):
        for place in np.ndindex(*(sizes[j] for j in known)):
            cells = (digits[list(known)] == np.array(place, int)[:, None]).all(0)
            p = joint.p[:, cells]
            ps = p.sum(1, keepdims=True)
            if not p.any():
                continue
            given = np.divide(p, ps, out=np.zeros(p.shape), where=ps > 0)
            laws, own = listed_laws(floats[:, :, cells], given, ps[:, 0] / ps.sum()), rows[:, :, cells]
            found = worst_output(laws, own.__getitem__, exact[:, cells], "lip", float(best.ratio))
            told = {"known": _code(known, place, sizes)} if known else {}
            best = best.or_worse(Attained(found.ratio, {**found.where, **told}))
    return best


def _code(known: tuple[int, ...], place: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    """J and x^J as one number: a mixed-radix code in which digit 0 means 'not known'."""
    code, values = 0, dict(zip(known, place, strict=True))
    for j, size in enumerate(sizes):
        code = code * (size + 1) + (values[j] + 1 if j in values else 0)
    return code
