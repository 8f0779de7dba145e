"""Facts: the figures of a release. Public facts come from the mechanism file and the released rows alone;
nothing here opens the private table."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.certification.promises import sentences
from sfumato.decimals import BIT
from sfumato.errors import InputError
from sfumato.estimation import Estimate, Marginal, numbers
from sfumato.joint import Joint
from sfumato.mechanism import Bundle, Mechanism
from sfumato.privacy import LDP
from sfumato.reporting.attack import attack_of, guessers_of, leaks_of, outputs_by_secret, promised
from sfumato.reporting.bundle_figures import bundle_facts, design_data, worth_of
from sfumato.reporting.drawn_figures import curve_of, heat_of, most_bits, precision_of
from sfumato.reporting.figures import USUAL_ROWS, Cost, Facts, Private, PromiseFigures, RowFigures, Seal, SideFigures
from sfumato.tolerances import PICTURED
from sfumato.uncertainty import Anything
from sfumato.utility import mutual_information

if TYPE_CHECKING:
    from sfumato.alphabet import Floats
    from sfumato.certification.certificate import Certificate
    from sfumato.drawing.manifest import Manifest
    from sfumato.estimation import BundleEstimate
    from sfumato.estimation.numbers import Figure
    from sfumato.reporting.bundle_figures import Truth

QUANTILES = {0.25: "lower quartile", 0.5: "median", 0.75: "upper quartile"}


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
    whole = (joint.entropy if mechanism.reads == "both" else joint.entropy_useful) / BIT
    kept = limit = None
    with contextlib.suppress(InputError):  # too large to tell
        kept = mutual_information(mechanism, joint) / BIT
    claim = mechanism.claim
    if claim is not None and claim.notion != "leakage":
        limit = most_bits(mechanism, claim, joint, claim.epsilon)
    return Cost(kept, whole, limit, None if kept is None or whole <= 0 else kept / whole)


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


def numbers_of(found: Estimate, level: float) -> tuple[tuple[str, Figure], ...]:
    """Mean and quantiles, when the useful values are numbers."""
    if found.useful.alphabet.numbers() is None:
        return ()
    told = numbers(found, level=level)
    return ("mean", told.mean), *((QUANTILES.get(q, f"quantile {q:g}"), x) for q, x in told.quantiles.items())


def rows_of(found: Estimate, level: float, truth: Joint | None = None) -> RowFigures:
    true = (None, None) if truth is None else (truth.p_secret, truth.p_useful)
    sides = zip((found.secret, found.useful), ("secret", "useful"), true, strict=True)
    return RowFigures(
        found.n, found.decode, level,
        tuple(side_of(side, role, level, p) for side, role, p in sides if side is not None), found.notes,
        None if found.secret is None or found.p.ndim != 2 else cells_of(found, level, truth),
        numbers_of(found, level),
    )


def private_part(mechanism: Mechanism, truth: Joint, found: Estimate | None, level: float) -> Private:
    if truth.shape != (mechanism.secret.size, mechanism.useful.size):
        raise InputError(f"the true table has shape {truth.shape}, which is not that of the mechanism.")
    cost, cells = cost_of(mechanism, truth), None if found is None else cells_of(found, level, truth)
    compared = (None, None) if cells is None else (cells.distance, cells.covered)
    return Private(truth.n, cost.kept, cost.whole, *compared)


def facts_of(
    made: Mechanism | Bundle, certificate: Certificate | None, released: Estimate | BundleEstimate | None = None, *,
    truth: Joint | Truth | None = None, manifest: Manifest | None = None, title: str | None = None,
    level: float = 0.95, file: str = "released.mechanism.json",
) -> Facts:
    """The facts of a public report, or of a private one when the true table is given: of a bundle, its tables."""
    secret, useful = (", ".join(side.names) for side in (made.secret, made.useful))
    columns = () if manifest is None else manifest.columns
    imprint = () if manifest is None else (
        ("Published by", manifest.publisher), ("Date", manifest.date), ("Made with", manifest.command)
    )
    common = Facts(
        title or f"Release of {useful} with {secret} protected", made.method, made.reads, secret, useful,
        made.secret.size, file, tuple(c.name for c in columns), tuple(c.name for c in columns if c.role == "kept"),
        tuple((name, text) for name, text in imprint if text), manifest is not None and manifest.randomness != "system",
    )
    if isinstance(made, Bundle):
        assert not isinstance(released, Estimate) and not isinstance(truth, Joint)
        return bundle_facts(common, made, certificate, released, truth, level)
    assert released is None or isinstance(released, Estimate)
    assert truth is None or isinstance(truth, Joint)
    return _mechanism_facts(common, made, certificate, released, truth, level)


def _mechanism_facts(
    common: Facts, mechanism: Mechanism, certificate: Certificate | None, released: Estimate | None,
    truth: Joint | None, level: float,
) -> Facts:
    private = None if truth is None else private_part(mechanism, truth, released, level)
    joint, bits, promise = mechanism.joint, mechanism.law.bits, promise_of(mechanism, certificate)
    found = replace(
        common, promise=promise, guessers=guessers_of(mechanism, joint, certificate), heat=heat_of(mechanism),
        rows=None if released is None else rows_of(released, level, truth), record_level=LDP().level(mechanism),
        columns=() if released is None else tuple(side_of(m, "useful", level) for m in released.useful.by_column()),
        seal=None if bits is None or promise is None else Seal(
            mechanism.checksum, None if joint is None else joint.fingerprint, bits
        ),
        private=private,
    )
    return found if joint is None else _by_design(found, mechanism, joint, released)


def _by_design(facts: Facts, mechanism: Mechanism, joint: Joint, released: Estimate | None) -> Facts:
    """With what is told about the secret and what is left for analysts, under the design distribution."""
    seen, cost = outputs_by_secret(mechanism, joint), cost_of(mechanism, joint)
    attack = None if seen is None else attack_of(mechanism, joint, seen)
    n, decode = (joint.n or USUAL_ROWS, "symbols") if released is None else (released.n, released.decode)
    exact = precision_of(mechanism, joint, n, decode)
    return replace(
        facts, cost=cost, design=design_data(mechanism.source, [joint]), attack=attack,
        leaks=() if seen is None else leaks_of(joint, seen), precision=exact, worth=worth_of(exact[-1:]),
        curve=curve_of(mechanism, joint, n, cost, exact[-1].error, attack.suspects if attack else ()),
    )
