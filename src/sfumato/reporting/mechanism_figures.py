"""Figures of one mechanism: what its level means for somebody who believes something, what one released row tells about
the secret, what estimates will be worth and other levels would cost, and the mechanism as a few cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.certification.certificate import level_anywhere
from sfumato.decimals import BIT, in_a_hundred, percent, total
from sfumato.designers.choose import most_kept
from sfumato.errors import LARGEST_EPSILON, InputError
from sfumato.estimation.estimates import foreseen_errors, spread_untouched
from sfumato.joint import Joint
from sfumato.mechanism import Claim, Layout, Mechanism, Unary
from sfumato.mechanism.law import scale
from sfumato.privacy import LDP, LIP, BayesLeakage, Contraction, MaximalLeakage, PointwiseLeakage, Shannon, ceiling
from sfumato.privacy.measures import Measure, lines_of, seen_from_secret
from sfumato.reporting.figures import Attack, Cost, Curve, Guesser, Heat, Leak, PrecisionFigures, Series, Suspect
from sfumato.tolerances import AT_A_GLANCE, CHANNEL, EXPONENT, PICTURED
from sfumato.uncertainty import Exactly

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


# --- what estimates will be worth -------------------------------------------------------------------------------------


def precision_of(mechanism: Mechanism, joint: Joint, n: int, decode: str = "symbols") -> tuple[PrecisionFigures, ...]:
    """What the rows are worth: errors with the protection and without it, p(1 − p)/n."""
    errors = foreseen_errors(mechanism, joint, n, decode)
    sides = [("secret", mechanism.secret, joint.p_secret), ("useful", mechanism.useful, joint.p_useful)]
    return tuple(
        PrecisionFigures(", ".join(alphabet.names), role, n, error, spread_untouched(p, n))
        for (role, alphabet, p), error in zip(sides, errors, strict=True)
        if role == "useful" or (mechanism.reads == "both" and joint.secret.size > 1)
    )


# --- what other levels of the same promise would keep and cost, quick enough to come with every report ----------------
# The limit of every mechanism is a formula. Closed forms are calibrated anew at each stop, which takes milliseconds.
# The optimum is designed anew only for the smallest tables. All of it follows from the mechanism file, so that anyone
# can draw the same curve.


@dataclass(frozen=True, slots=True)
class CurveShown:
    """What a page shows of the trade-off."""

    stops: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0)
    points: int = 61  # of the line of the limit
    few: int = 10  # cells up to which the optimum is designed at every stop: about 0.07 s each
    some: int = 300  # cells up to which ir and cr are calibrated at every stop: about 0.05 s each
    most: int = 200_000  # beyond which closed forms are left out
    named: int = 4  # values of the secret whose shares are offered as beliefs


CURVE = CurveShown()
CLOSED = ("grr", "srr", "ir", "cr")  # the information of sue and oue takes too long to sum at every stop
OPTIMISED = ("ballopt", "polyopt", "nr")


def most_bits(mechanism: Mechanism, claim: Claim, joint: Joint, epsilon: float) -> float:
    """No mechanism with this promise at a level keeps more of a record."""
    return ceiling(joint, epsilon, reads=mechanism.reads, notion=claim.notion) / BIT


def curve_of(
    mechanism: Mechanism, joint: Joint, n: int, cost: Cost, error: float | None, suspects: Sequence[Suspect]
) -> Curve | None:
    """The trade-off around a mechanism's promise, or None for a promise that has no such curve."""
    claim = mechanism.claim
    if claim is None or claim.notion == "leakage":
        return None
    stops = _stops(claim.epsilon)
    ends = np.linspace(0, stops[-1], CURVE.points)

    def limit(epsilon: float) -> float:
        return most_bits(mechanism, claim, joint, epsilon)

    shares = [(f"{s.label}: ", ", its share in the design data", 1, s.before) for s in suspects[:CURVE.named]]
    usual = [("", "", 0, p) for p in USUAL_BELIEFS]
    priors = [(f"{lead}{percent(p, digits)}{more}", p) for lead, more, digits, p in (*usual, *shares)]
    return Curve(
        stops, stops.index(claim.epsilon), cost.whole, tuple(limit(x) for x in stops),
        tuple((float(x), limit(float(x))) for x in ends), _series(mechanism, joint, stops, n, (cost.kept, error)),
        cost.kept, error, n,
        tuple(priors) if bounded(claim.notion) else (),
        tuple(tuple(worst_belief(p, x, claim.notion) for x in stops) for _, p in priors)
        if bounded(claim.notion) else (),
    )


def _stops(epsilon: float) -> tuple[float, ...]:
    """Levels to look at, with the promised one among them and room above it."""
    more = tuple(epsilon * x for x in (1.5, 2.0) if CURVE.stops[-1] < epsilon * x <= LARGEST_EPSILON)
    return tuple(sorted({*CURVE.stops, epsilon, *more}))


def _series(
    mechanism: Mechanism, joint: Joint, stops: tuple[float, ...], n: int, here: tuple[float | None, float | None]
) -> tuple[Series, ...]:
    claim, method = mechanism.claim, mechanism.method
    assert claim is not None
    if claim.notion not in ("rldp", "ldp", "lip") or joint.p.size > CURVE.most or len(joint.p_secret.nonzero()[0]) < 2:
        return ()
    cells, both = joint.p.size, mechanism.reads == "both"
    quick = method in CLOSED and (cells <= CURVE.some or method in ("grr", "srr"))
    out = []
    if quick or (method in OPTIMISED and both and cells <= CURVE.few):
        out.append(_along(mechanism, joint, stops, n, "own", "this method", (method,), here=here))
    elif claim.notion != "ldp":
        names = ("grr",) if not both else ("ir", "srr", "cr") if cells <= CURVE.some else ("srr",)
        label = "the best simple method" if cells <= CURVE.some else "a simple method"
        out.append(_along(mechanism, joint, stops, n, "simple", label, names))
    if (method, claim.notion) != ("grr", "ldp"):
        out.append(_along(mechanism, joint, stops, n, "plain", "plain randomised response", ("grr",), "ldp"))
    return tuple(series for series in out if any(x is not None for x in series.bits))


def _along(
    mechanism: Mechanism, joint: Joint, stops: tuple[float, ...], n: int, key: str, label: str,
    methods: tuple[str, ...], notion: str | None = None, here: tuple[float | None, float | None] | None = None,
) -> Series:
    """Bits and errors of the most informative of some methods at every stop; `here` are those of the mechanism."""
    claim = mechanism.claim
    assert claim is not None
    promised, asked = claim.epsilon, notion or claim.notion
    within = Exactly(joint) if claim.within is None or asked == "lip" else claim.within  # LIP: at P̂, as designed

    def at(epsilon: float) -> tuple[float | None, float | None]:
        if here is not None and epsilon == promised:
            return here
        found = most_kept(methods, within, epsilon, asked, mechanism.reads)
        return (None, None) if found is None else (found[1] / BIT, precision_of(found[0], joint, n)[-1].error)

    bits, errors = zip(*(at(epsilon) for epsilon in stops), strict=True)
    return Series(key, label, bits, errors)


# --- a mechanism as a few cells to look at ----------------------------------------------------------------------------


def heat_of(mechanism: Mechanism) -> Heat:
    """Q(y|x) for the likeliest inputs and outputs, with what is left of each column in a row of its own."""
    inputs, outputs = mechanism.inputs, mechanism.outputs
    columns = _likeliest_inputs(mechanism, inputs)
    names = tuple(mechanism.input_text(int(x)) for x in columns)
    shares = () if mechanism.joint is None else tuple(mechanism.input_law(mechanism.joint)[columns].tolist())
    law = mechanism.law
    if isinstance(law, Unary):
        return _heat_of_bits(law, names, inputs, shares)
    rows, mean = _shown_outputs(mechanism, columns, inputs, outputs)
    values = mechanism.rows_of(rows)[:, columns]
    if law.meaning == "symbol":
        order = np.lexsort((-values.max(1), values.argmax(1)))  # symbols have no order of their own: near a diagonal
        rows, values = rows[order], values[order]
    cells = law.meaning == "cell" and np.array_equal(rows, columns)  # outputs are inputs, and have their names
    labels = list(names) if cells else _output_texts(mechanism, rows)
    seen = () if mean is None else tuple(mean[rows].tolist())
    if len(rows) < outputs:
        values = np.vstack([values, np.maximum(0.0, 1 - values.sum(0))])
        labels.append(f"the other {outputs - len(rows):,}")
        seen = (*seen, max(0.0, 1 - sum(seen))) if seen else ()
    return Heat(
        tuple(labels), names, _nested(values), inputs, outputs,
        "the probability of each output (rows) for each input (columns)", len(rows) < outputs, shares, seen,
    )


def _heat_of_bits(law: Unary, names: tuple[str, ...], inputs: int, shares: tuple[float, ...]) -> Heat:
    on, off = law.chances
    values = np.where(np.eye(len(names), dtype=bool), on, off)
    seen = tuple(off + (on - off) * x for x in shares)
    what = "the probability that the bit of a value (rows) is 1 for each input (columns)"
    return Heat(names, names, _nested(values), inputs, None, what, False, shares, seen)


def _nested(values: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(x) for x in row) for row in values)


def _likeliest_inputs(mechanism: Mechanism, inputs: int) -> Ints:
    if inputs <= PICTURED:
        return np.arange(inputs)
    if mechanism.joint is None:
        return np.arange(PICTURED)
    p = mechanism.input_law(mechanism.joint)
    return np.sort(np.argsort(-p, kind="stable")[:PICTURED])


def _shown_outputs(mechanism: Mechanism, columns: Ints, inputs: int, outputs: int) -> tuple[Ints, Floats | None]:
    """The outputs of the picture, and P(y) of all of them."""
    mean = None if mechanism.joint is None else mechanism.mean_law(mechanism.joint)
    if outputs <= PICTURED:
        return np.arange(outputs), mean
    if mechanism.law.meaning in ("cell", "useful") and outputs == inputs:
        return columns, mean
    return np.arange(PICTURED) if mean is None else np.sort(np.argsort(-mean, kind="stable")[:PICTURED]), mean


def _output_texts(mechanism: Mechanism, rows: Ints) -> list[str]:
    """Outputs by what they stand for: a cell, a value, or the input that a symbol most often comes from."""
    if mechanism.law.meaning == "useful":
        return [mechanism.useful.text(int(y)) for y in rows]
    if mechanism.law.meaning != "symbol":
        return [mechanism.input_text(int(y)) for y in rows]
    names = [str(mechanism.symbols.labels[int(y)]) for y in rows]
    if mechanism.joint is None or not all(name == f"y{y}" for name, y in zip(names, rows, strict=True)):
        return names  # nothing is known of where they come from, or they have names of their own
    p = mechanism.input_law(mechanism.joint)
    return [f"{stands_for(mechanism, q * p)} ({name})" for q, name in zip(mechanism.rows_of(rows), names, strict=True)]


def stands_for(mechanism: Mechanism, weights: Floats) -> str:
    """The input that an output most often comes from, with how often, by the weights Q(y|x) p(x)."""
    best = int(weights.argmax())
    return f"{mechanism.input_text(best)} {percent(weights[best] / weights.sum(), 0)}"
