"""Facts: the figures of a release. Public facts come from the mechanism file and the released rows alone;
nothing here opens the private table."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sfumato.certification.promises import sentences
from sfumato.decimals import BIT, at_most
from sfumato.decimals import level as limit
from sfumato.errors import InputError
from sfumato.estimation import Estimate, Marginal, numbers
from sfumato.joint import SMALL, Joint
from sfumato.mechanism import Mechanism
from sfumato.privacy import LDP
from sfumato.reporting.attack import (
    attack_of,
    guessers_of,
    imprint_of,
    leaks_of,
    outputs_by_secret,
    promised,
)
from sfumato.reporting.attack import worth_of as glanced_worth
from sfumato.reporting.drawn_figures import curve_of, heat_of, most_bits, precision_of
from sfumato.reporting.figures import (
    USUAL_ROWS,
    Attack,
    Cost,
    Curve,
    DesignData,
    Facts,
    Glance,
    Leak,
    Number,
    PrecisionFigures,
    Private,
    PromiseFigures,
    RowFigures,
    Seal,
    SideFigures,
)
from sfumato.tolerances import PICTURED
from sfumato.uncertainty import Anything
from sfumato.utility import mutual_information

if TYPE_CHECKING:
    from sfumato.alphabet import Floats
    from sfumato.certification.certificate import Certificate
    from sfumato.drawing.manifest import Manifest



def _bits(nats: float) -> float:
    return nats / BIT


def promise_of(mechanism: Mechanism, certificate: Certificate | None) -> PromiseFigures | None:
    claim = mechanism.claim
    if claim is None:
        return None
    return promised(
        claim, "everything" if claim.within is None else claim.within.kind, certificate,
        getattr(claim.within, "confidence", None),
        sentences(mechanism, certificate),
        next((c.epsilon for c in claim.also if c.notion == "rldp" and isinstance(c.within, Anything)), None),
    )


def cost_of(mechanism: Mechanism, joint: Joint) -> Cost:
    """I(X;Y), H(X) and the ceiling H(U|S) + min{H(S), κ − 1 − log κ}; ε-LIP implies 2ε between two secrets."""
    whole = _bits(joint.entropy if mechanism.reads == "both" else joint.entropy_useful)
    kept = limit = None
    with contextlib.suppress(InputError):  # too large to tell
        kept = _bits(mutual_information(mechanism, joint))
    claim = mechanism.claim
    if claim is not None and claim.notion != "leakage":
        limit = most_bits(mechanism, claim, joint, claim.epsilon)
    share = None if kept is None or whole <= 0 else kept / whole
    return Cost(kept, whole, limit, share, None if kept is None or not limit else kept / limit)


def design_data(mechanism: Mechanism, joint: Joint) -> DesignData:
    counts = joint.counts
    if counts is None:
        return DesignData(mechanism.source, joint.n, joint.p.size, False, 0, None, int((joint.p == 0).sum()))
    small = counts[(counts > 0) & (counts < SMALL) & (joint.noise is None)]  # noisy counts are of nobody
    positive = counts[counts > 0]
    return DesignData(
        mechanism.source, joint.n, joint.p.size, True, int(small.size), int(positive.min()), int((counts == 0).sum()),
        None if joint.noise is None else joint.noise.epsilon,
    )


def side_of(marginal: Marginal, role: str, level: float, truth: Floats | None = None) -> SideFigures:
    known, text = marginal.identified, marginal.alphabet.text
    return SideFigures.of(
        ", ".join(marginal.alphabet.names), role, known, text, marginal.p, marginal.interval(level), truth
    )


def cells_of(found: Estimate, level: float, truth: Joint | None = None) -> SideFigures:
    """The table of all that is read, the largest cells first."""
    m = found.mechanism
    name = f"{', '.join(m.secret.names)} by {', '.join(m.useful.names)}"
    known, true = bool(found.identifiable.cells.all()), None
    if truth is not None:
        true = truth.p if m.reads == "both" else truth.p_useful
    return SideFigures.of(name, "cells", known, m.input_text, found.p, found.interval(level), true, PICTURED)


def numbers_of(found: Estimate, level: float) -> tuple[Number, ...]:
    """Mean and quantiles, when the useful values are numbers."""
    if found.useful.alphabet.numbers() is None:
        return ()
    told = numbers(found, level=level)
    named = [("mean", told.mean), *((_quantile(q), figure) for q, figure in told.quantiles.items())]
    return tuple(Number(name, f.estimate, f.low, f.high) for name, f in named)


def _quantile(q: float) -> str:
    return {0.25: "lower quartile", 0.5: "median", 0.75: "upper quartile"}.get(q, f"quantile {q:g}")


def rows_of(found: Estimate, level: float, truth: Joint | None = None) -> RowFigures:
    sides = [] if found.secret is None else [
        side_of(found.secret, "secret", level, None if truth is None else truth.p_secret)
    ]
    sides.append(side_of(found.useful, "useful", level, None if truth is None else truth.p_useful))
    return RowFigures(
        found.n, found.decode, found.method, level, tuple(sides), found.notes,
        None if found.secret is None or found.p.ndim != 2 else cells_of(found, level, truth),
        numbers_of(found, level),
    )


def private_part(mechanism: Mechanism, truth: Joint, found: Estimate | None, level: float) -> Private:
    cost, cells = cost_of(mechanism, truth), None if found is None else cells_of(found, level, truth)
    compared = (None, None) if cells is None else (cells.distance, cells.covered)
    return Private(truth.n, cost.kept, cost.whole, *compared)


def seal_of(mechanism: Mechanism, promise: PromiseFigures | None, certificate: Certificate | None) -> Seal | None:
    """What tells this file from every other, and what its proof rests on."""
    bits = mechanism.law.bits
    if bits is None or promise is None:
        return None
    record = mechanism.record
    return Seal(
        record.checksum, None if record.design is None else record.design.fingerprint, bits,
        promise.sentence, "" if certificate is None else certificate.basis,
        () if certificate is None else tuple(
            f"{c.title or c.notion.upper()}: {limit(c.level)} proved, {at_most(c.epsilon)} promised"
            for c in certificate.also
        ),
    )


def worth_of(
    mechanism: Mechanism, joint: Joint, cost: Cost, released: Estimate | None
) -> tuple[Attack | None, tuple[Leak, ...], tuple[PrecisionFigures, ...], Curve | None]:
    """What is told about the secret and what is left for analysts, under the design distribution."""
    seen = outputs_by_secret(mechanism, joint)
    attack = None if seen is None else attack_of(mechanism, joint, seen)
    leaks = () if seen is None else leaks_of(joint, seen)
    n, decode = (joint.n or USUAL_ROWS, "symbols") if released is None else (released.n, released.decode)
    exact = precision_of(mechanism, joint, n, decode)
    curve = curve_of(mechanism, joint, n, cost, exact[-1].error, attack.suspects if attack else ())
    return attack, leaks, exact, curve


def facts_of(
    mechanism: Mechanism, certificate: Certificate | None, released: Estimate | None = None, *,
    truth: Joint | None = None, manifest: Manifest | None = None, title: str | None = None, level: float = 0.95,
    file: str = "released.mechanism.json",
) -> Facts:
    """The facts of a public report, or of a private one when the true table is given."""
    secret, useful = ", ".join(mechanism.secret.names), ", ".join(mechanism.useful.names)
    if truth is not None and truth.shape != (mechanism.secret.size, mechanism.useful.size):
        raise InputError(f"the true table has shape {truth.shape}, which is not that of the mechanism.")
    joint = mechanism.joint
    columns = [] if manifest is None else [c.name for c in manifest.columns if c.role == "kept"]
    cost = None if joint is None else cost_of(mechanism, joint)
    attack, leaks, exact, curve = (
        (None, (), (), None) if joint is None or cost is None else worth_of(mechanism, joint, cost, released)
    )
    sides = () if released is None else tuple(side_of(m, "useful", level) for m in released.useful.by_column())
    table = () if manifest is None else tuple(c.name for c in manifest.columns)
    promise = promise_of(mechanism, certificate)
    glance = Glance(
        guessers_of(mechanism, joint, certificate), sides, glanced_worth(exact), table, imprint_of(manifest)
    )
    return Facts(
        title or f"Release of {useful} with {secret} protected", mechanism.method, mechanism.reads, secret, useful,
        mechanism.secret.size, mechanism.useful.size, promise, cost,
        None if joint is None else design_data(mechanism, joint),
        heat_of(mechanism), None if released is None else rows_of(released, level, truth), tuple(columns),
        manifest is not None and manifest.randomness != "system", file, attack, leaks, LDP().level(mechanism), exact,
        curve, seal_of(mechanism, promise, certificate),
        glance, None if truth is None else private_part(mechanism, truth, released, level),
    )
