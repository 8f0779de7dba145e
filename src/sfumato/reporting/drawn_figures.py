"""Figures that are drawn: what estimates will be worth and other levels would cost, and a mechanism as a few cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.decimals import BIT, percent
from sfumato.designers.choose import most_kept
from sfumato.errors import LARGEST_EPSILON
from sfumato.estimation.estimates import foreseen_errors
from sfumato.joint import Joint
from sfumato.mechanism import Claim, Mechanism, Unary
from sfumato.privacy import ceiling
from sfumato.reporting.attack import USUAL_BELIEFS, bounded, worst_belief
from sfumato.reporting.figures import Cost, Curve, Heat, PrecisionFigures, Series, Suspect
from sfumato.tolerances import PICTURED
from sfumato.uncertainty import Exactly


def precision_of(mechanism: Mechanism, joint: Joint, n: int, decode: str = "symbols") -> tuple[PrecisionFigures, ...]:
    """What the rows are worth: errors with the protection and without it, p(1 − p)/n."""
    errors = foreseen_errors(mechanism, joint, n, decode)
    sides = [("secret", mechanism.secret, joint.p_secret), ("useful", mechanism.useful, joint.p_useful)]
    return tuple(
        PrecisionFigures(", ".join(alphabet.names), role, n, error, _plain(p, n))
        for (role, alphabet, p), error in zip(sides, errors, strict=True)
        if role == "useful" or (mechanism.reads == "both" and joint.secret.size > 1)
    )


def _plain(p: Floats, n: int) -> float:
    return float(np.sqrt((p * (1 - p)).mean() / n))


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
    def at(epsilon: float) -> tuple[float | None, float | None]:
        if here is not None and mechanism.claim is not None and epsilon == mechanism.claim.epsilon:
            return here
        found = _best(mechanism, joint, epsilon, methods, notion)
        return (None, None) if found is None else (found[1] / BIT, precision_of(found[0], joint, n)[-1].error)

    bits, errors = zip(*(at(epsilon) for epsilon in stops), strict=True)
    return Series(key, label, bits, errors)


def _best(
    mechanism: Mechanism, joint: Joint, epsilon: float, methods: tuple[str, ...], notion: str | None
) -> tuple[Mechanism, float] | None:
    claim = mechanism.claim
    assert claim is not None
    notion = claim.notion if notion is None else notion
    within = Exactly(joint) if claim.within is None or notion == "lip" else claim.within  # LIP: at P̂, as designed
    return most_kept(methods, within, epsilon, notion, mechanism.reads)


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
