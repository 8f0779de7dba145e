"""What estimates will be worth before any row is seen, and what other levels of the promise would cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import Draft, Task
from sfumato.designers.choose import designer
from sfumato.errors import LARGEST_EPSILON, InputError
from sfumato.estimation.estimates import foreseen
from sfumato.estimation.inversion import Inversion
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.reporting.attack import PRIORS, bounded, worst_belief
from sfumato.reporting.figures import Curve, PrecisionFigures, Series, Suspect
from sfumato.uncertainty import Exactly
from sfumato.utility import ceiling, mutual_information

# --- how exact the shares are that an analyst can estimate, before any row is seen ------------------------------------


LISTED = 400_000  # outputs × inputs up to which a law without a closed form is inverted for this


def errors_of(mechanism: Mechanism, joint: Joint, n: int, decode: str = "symbols") -> tuple[float | None, ...]:
    """Root mean square standard errors of the shares of the secret and of the useful variable from n rows.

    They are those of the unbiased linear estimate when the rows follow the joint, so they are known before a row is
    released. ∞ where the rows do not fix the shares, however many there are; None where the law is too large to tell.
    """
    closed = mechanism.law.kind in ("cells", "constant", "unary")
    if not closed and mechanism.outputs * mechanism.inputs > LISTED:
        return (None, None)
    whole = foreseen(mechanism, joint, n, decode)
    if whole is None:
        return (None, None)
    secret = None if mechanism.reads != "both" or joint.secret.size < 2 else _spread(whole.marginal(0))
    return secret, _spread(whole.marginal(1))


def _spread(side: Inversion) -> float:
    return float(np.sqrt(np.maximum(side.variance, 0).mean())) if side.identified.all() else math.inf


def precision_of(mechanism: Mechanism, joint: Joint, n: int, decode: str = "symbols") -> tuple[PrecisionFigures, ...]:
    """What the rows are worth: errors with the protection and without it, p(1 − p)/n."""
    errors = errors_of(mechanism, joint, n, decode)
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


BIT = math.log(2)
STOPS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0)
POINTS = 61  # of the line of the limit
FEW_CELLS = 10  # cells up to which the optimum is designed at every stop: about 0.07 s each
SOME_CELLS = 300  # cells up to which ir and cr are calibrated at every stop: about 0.05 s each
MANY_CELLS = 200_000  # beyond which closed forms are left out
CLOSED = ("grr", "srr", "ir", "cr")  # the information of sue and oue takes too long to sum at every stop
OPTIMISED = ("ballopt", "polyopt", "nr")
SEARCHED = ("ballopt", "polyopt")  # by work, not by time: the same curve on every machine
NAMED = 4  # values of the secret whose shares are offered as beliefs


def curve_of(
    mechanism: Mechanism, joint: Joint, n: int, kept: float | None, error: float | None, suspects: Sequence[Suspect]
) -> Curve | None:
    """The trade-off around a mechanism's promise, or None for a promise that has no such curve."""
    claim = mechanism.claim
    if claim is None or claim.notion == "leakage":
        return None
    stops = _stops(claim.epsilon)
    ends = np.linspace(0, stops[-1], POINTS)
    whole = joint.entropy if mechanism.reads == "both" else joint.entropy_useful

    def limit(epsilon: float) -> float:
        return ceiling(joint, epsilon, reads=mechanism.reads, notion=claim.notion) / BIT

    priors = [(f"{p:.0%}", p) for p in PRIORS]
    priors += [(f"{s.label}: {_percent(s.before)}, its share in the design data", s.before) for s in suspects[:NAMED]]
    return Curve(
        stops, stops.index(claim.epsilon), whole / BIT, tuple(limit(x) for x in stops),
        tuple((float(x), limit(float(x))) for x in ends), _series(mechanism, joint, stops, n, (kept, error)),
        kept, error, n,
        tuple(priors) if bounded(claim.notion) else (),
        tuple(tuple(worst_belief(p, x, claim.notion) for x in stops) for _, p in priors)
        if bounded(claim.notion) else (),
    )


def _percent(x: float) -> str:
    return f"{100 * x:.1f} %"


def _stops(epsilon: float) -> tuple[float, ...]:
    """Levels to look at, with the promised one among them and room above it."""
    more = tuple(epsilon * x for x in (1.5, 2.0) if STOPS[-1] < epsilon * x <= LARGEST_EPSILON)
    return tuple(sorted({*STOPS, epsilon, *more}))


def _series(
    mechanism: Mechanism, joint: Joint, stops: tuple[float, ...], n: int, here: tuple[float | None, float | None]
) -> tuple[Series, ...]:
    claim, method = mechanism.claim, mechanism.method
    assert claim is not None
    if claim.notion not in ("rldp", "ldp", "lip") or joint.p.size > MANY_CELLS or len(joint.p_secret.nonzero()[0]) < 2:
        return ()
    cells, both = joint.p.size, mechanism.reads == "both"
    quick = method in CLOSED and (cells <= SOME_CELLS or method in ("grr", "srr"))
    out = []
    if quick or (method in OPTIMISED and both and cells <= FEW_CELLS):
        out.append(_along(mechanism, joint, stops, n, "own", "this method", (method,), here=here))
    elif claim.notion != "ldp":
        names = ("grr",) if not both else ("ir", "srr", "cr") if cells <= SOME_CELLS else ("srr",)
        label = "the best simple method" if cells <= SOME_CELLS else "a simple method"
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
        return (None, None) if found is None else (found[1] / BIT, errors_of(found[0], joint, n)[1])

    bits, errors = zip(*(at(epsilon) for epsilon in stops), strict=True)
    return Series(key, label, bits, errors)


def _best(
    mechanism: Mechanism, joint: Joint, epsilon: float, methods: tuple[str, ...], notion: str | None
) -> tuple[Mechanism, float] | None:
    claim = mechanism.claim
    assert claim is not None
    notion = claim.notion if notion is None else notion
    within = Exactly(joint) if claim.within is None or notion == "lip" else claim.within  # LIP: at P̂, as designed
    task = Task(within, epsilon, notion, mechanism.reads)
    tried: list[tuple[Mechanism, float]] = []
    for method in methods:
        try:
            made: Draft = designer(method)(task, **({"quick": True} if method in SEARCHED else {}))
            law = Mechanism(made.law, joint.secret, joint.useful, task.reads)
            tried.append((law, float(mutual_information(law, joint))))
        except InputError:
            continue  # this method has no calibration for this set or notion
    return max(tried, key=lambda pair: pair[1]) if tried else None
