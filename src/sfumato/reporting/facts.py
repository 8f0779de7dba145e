"""Facts: the figures of a release. Public facts come from the mechanism file and the released rows alone;
nothing here opens the private table."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Alphabet, Floats
from sfumato.certification.certificate import witnessed
from sfumato.certification.promises import sentences
from sfumato.certification.together import about_record, drawn_for
from sfumato.decimals import BIT, at_most, in_a_hundred
from sfumato.decimals import level as level_text
from sfumato.decimals import total as summed
from sfumato.errors import InputError
from sfumato.estimation import BundleEstimate, Estimate, Marginal, TableEstimate, numbers
from sfumato.estimation.bundle_tables import expected_estimate
from sfumato.estimation.estimates import spread, spread_untouched
from sfumato.joint import SMALL, Joint
from sfumato.mechanism import Bundle, Claim, Mechanism, Promise
from sfumato.privacy import LDP, mutual_information
from sfumato.reporting import figures
from sfumato.reporting import mechanism_figures as single
from sfumato.sources import Source
from sfumato.sources.tabulation import counted_groups
from sfumato.tolerances import DRAWN, EXPONENT, PICTURED
from sfumato.uncertainty import Anything

if TYPE_CHECKING:
    from sfumato.certification.certificate import Certificate
    from sfumato.drawing.manifest import Manifest
    from sfumato.estimation.numbers import Figure

QUANTILES = {0.25: "lower quartile", 0.5: "median", 0.75: "upper quartile"}
Truth = Mapping[tuple[str, ...], Floats]  # the true tables, by their columns


def facts_of(
    made: Mechanism | Bundle, certificate: Certificate | None, released: Estimate | BundleEstimate | None = None, *,
    truth: Joint | Truth | None = None, manifest: Manifest | None = None, title: str | None = None,
    level: float = 0.95, file: str = "released.mechanism.json",
) -> figures.Facts:
    """The facts of a public report, or of a private one when the true table is given: of a bundle, its tables."""
    secret, useful = (", ".join(side.names) for side in (made.secret, made.useful))
    columns = () if manifest is None else manifest.columns
    imprint = () if manifest is None else (
        ("Published by", manifest.publisher), ("Date", manifest.date), ("Made with", manifest.command)
    )
    common = figures.Facts(
        title or f"Release of {useful} with {secret} protected", made.method, made.reads, secret, useful,
        made.secret.size, file, tuple(c.name for c in columns), tuple(c.name for c in columns if c.role == "kept"),
        tuple((name, text) for name, text in imprint if text), manifest is not None and manifest.randomness != "system",
    )
    if isinstance(made, Bundle):
        assert not isinstance(released, Estimate) and not isinstance(truth, Joint)
        return _bundle_facts(common, made, certificate, released, truth, level)
    assert released is None or isinstance(released, Estimate)
    assert truth is None or isinstance(truth, Joint)
    return _mechanism_facts(common, made, certificate, released, truth, level)


def design_data(source: str, joints: Sequence[Joint], spent: float | None = None) -> figures.DesignData:
    """What is told of the tables that a mechanism, or the parts of a bundle, were designed from."""
    noises = [joint.noise.epsilon for joint in joints if joint.noise is not None]
    counts = np.concatenate([np.zeros(0), *(j.counts.ravel() for j in joints if j.counts is not None)])
    people = counts[counts > 0]
    return figures.DesignData(
        source, next((joint.n for joint in joints if joint.n is not None), None), sum(j.p.size for j in joints),
        bool(counts.size), 0 if noises else int((people < SMALL).sum()), int(people.min()) if people.size else None,
        int((counts == 0).sum()), spent if spent is not None else max(noises, default=None),
    )


def worth_of(alone: Sequence[figures.PrecisionFigures], name: str | None = None) -> figures.Worth | None:
    """That of the useful columns: as one variable, or one by one and on average."""
    if not alone:
        return None
    fixed = all(p.error is None or math.isfinite(p.error) for p in alone)
    equal = [p.equal for p in alone if p.equal is not None]
    mean = float(np.mean(equal)) if len(equal) == len(alone) else None
    return figures.Worth(name or alone[0].name, alone[0].n, mean if fixed else 0.0, fixed)


def promised(
    claim: Claim | Promise, within: str, certificate: Certificate | None, confidence: float | None,
    told: tuple[str, ...] = (), capped: float | None = None,
) -> figures.PromiseFigures:
    """A claim and what was proved of it, with what it allows of beliefs."""
    usual = single.USUAL_BELIEFS if single.bounded(claim.notion) else ()
    told_alone = figures.PromiseFigures(
        claim.notion, within, claim.epsilon, math.exp(claim.epsilon), claim.epsilon, False, confidence,
        tuple((b, single.worst_belief(b, claim.epsilon, claim.notion)) for b in usual), (), (),
        claim.sentence, claim.title, told, capped,
    )
    if certificate is None:
        return told_alone
    elsewhere = ((at, float(x), math.exp(x) if x < EXPONENT else math.inf) for at, x in certificate.elsewhere.items())
    also = (f"{c.title or c.notion.upper()}: {level_text(c.level)} proved, {at_most(c.epsilon)} promised"
            for c in certificate.also)
    return replace(told_alone, level=float(certificate.level), holds=certificate.holds, elsewhere=tuple(elsewhere),
                   witness=witnessed(certificate), basis=certificate.basis, also=tuple(also))


# --- of one mechanism -------------------------------------------------------------------------------------------------


def promise_of(mechanism: Mechanism, certificate: Certificate | None) -> figures.PromiseFigures | None:
    claim = mechanism.claim
    if claim is None:
        return None
    return promised(
        claim, "everything" if claim.within is None else claim.within.kind, certificate,
        getattr(claim.within, "confidence", None),
        sentences(mechanism, certificate),
        next((c.epsilon for c in claim.also if c.notion == "rldp" and isinstance(c.within, Anything)), None),
    )


def cost_of(mechanism: Mechanism, joint: Joint) -> figures.Cost:
    """I(X;Y), H(X) and the ceiling H(U|S) + min{H(S), κ − 1 − log κ}; ε-LIP implies 2ε between two secrets."""
    whole = (joint.entropy if mechanism.reads == "both" else joint.entropy_useful) / BIT
    kept = limit = None
    with contextlib.suppress(InputError):  # too large to tell
        kept = mutual_information(mechanism, joint) / BIT
    claim = mechanism.claim
    if claim is not None and claim.notion != "leakage":
        limit = single.most_bits(mechanism, claim, joint, claim.epsilon)
    return figures.Cost(kept, whole, limit, None if kept is None or whole <= 0 else kept / whole)


def side_of(marginal: Marginal, role: str, level: float, truth: Floats | None = None) -> figures.SideFigures:
    known, text = marginal.identified, marginal.alphabet.text
    return figures.SideFigures.of(
        ", ".join(marginal.alphabet.names), role, known, text, marginal.p, marginal.interval(level), truth
    )


def cells_of(found: Estimate, level: float, truth: Joint | None = None) -> figures.SideFigures:
    """The table of all that is read, the largest cells first."""
    m = found.mechanism
    name = f"{', '.join(m.secret.names)} by {', '.join(m.useful.names)}"
    known, true = bool(found.identifiable.cells.all()), None
    if truth is not None:
        true = truth.p if m.reads == "both" else truth.p_useful
    return figures.SideFigures.of(name, "cells", known, m.input_text, found.p, found.interval(level), true, PICTURED)


def numbers_of(found: Estimate, level: float) -> tuple[tuple[str, Figure], ...]:
    """Mean and quantiles, when the useful values are numbers."""
    if found.useful.alphabet.numbers() is None:
        return ()
    told = numbers(found, level=level)
    return ("mean", told.mean), *((QUANTILES.get(q, f"quantile {q:g}"), x) for q, x in told.quantiles.items())


def rows_of(found: Estimate, level: float, truth: Joint | None = None) -> figures.RowFigures:
    true = (None, None) if truth is None else (truth.p_secret, truth.p_useful)
    sides = zip((found.secret, found.useful), ("secret", "useful"), true, strict=True)
    return figures.RowFigures(
        found.n, found.decode, level,
        tuple(side_of(side, role, level, p) for side, role, p in sides if side is not None), found.notes,
        None if found.secret is None or found.p.ndim != 2 else cells_of(found, level, truth),
        numbers_of(found, level),
    )


def private_part(mechanism: Mechanism, truth: Joint, found: Estimate | None, level: float) -> figures.Private:
    if truth.shape != (mechanism.secret.size, mechanism.useful.size):
        raise InputError(f"the true table has shape {truth.shape}, which is not that of the mechanism.")
    cost, cells = cost_of(mechanism, truth), None if found is None else cells_of(found, level, truth)
    compared = (None, None) if cells is None else (cells.distance, cells.covered)
    return figures.Private(truth.n, cost.kept, cost.whole, *compared)


def _mechanism_facts(
    common: figures.Facts, mechanism: Mechanism, certificate: Certificate | None, released: Estimate | None,
    truth: Joint | None, level: float,
) -> figures.Facts:
    private = None if truth is None else private_part(mechanism, truth, released, level)
    joint, bits, promise = mechanism.joint, mechanism.law.bits, promise_of(mechanism, certificate)
    found = replace(
        common, promise=promise, guessers=single.guessers_of(mechanism, joint, certificate),
        heat=single.heat_of(mechanism), rows=None if released is None else rows_of(released, level, truth),
        record_level=LDP().level(mechanism),
        columns=() if released is None else tuple(side_of(m, "useful", level) for m in released.useful.by_column()),
        seal=None if bits is None or promise is None else figures.Seal(
            mechanism.checksum, None if joint is None else joint.fingerprint, bits
        ),
        private=private,
    )
    return found if joint is None else _by_design(found, mechanism, joint, released)


def _by_design(facts: figures.Facts, mechanism: Mechanism, joint: Joint, released: Estimate | None) -> figures.Facts:
    """With what is told about the secret and what is left for analysts, under the design distribution."""
    seen, cost = single.outputs_by_secret(mechanism, joint), cost_of(mechanism, joint)
    attack = None if seen is None else single.attack_of(mechanism, joint, seen)
    n, decode = (joint.n or figures.USUAL_ROWS, "symbols") if released is None else (released.n, released.decode)
    exact = single.precision_of(mechanism, joint, n, decode)
    return replace(
        facts, cost=cost, design=design_data(mechanism.source, [joint]), attack=attack,
        leaks=() if seen is None else single.leaks_of(joint, seen), precision=exact, worth=worth_of(exact[-1:]),
        curve=single.curve_of(mechanism, joint, n, cost, exact[-1].error, attack.suspects if attack else ()),
    )


# --- of a bundle: what its parts are, what is told of every column, and of every two ----------------------------------


def _bundle_facts(
    common: figures.Facts, bundle: Bundle, certificate: Certificate | None, released: BundleEstimate | None,
    truth: Truth | None, level: float,
) -> figures.Facts:
    """The facts that are a bundle's own, beside those of any release."""
    exact = _precision(bundle, figures.USUAL_ROWS if released is None else released.n)
    rows = None if released is None else _rows(bundle, released, level, truth)
    whole = about_record(bundle).ratio
    bits = max(part.law.bits or 0 for part in bundle.parts)
    return replace(
        common, promise=_promise(bundle, certificate), design=_design(bundle), rows=rows, precision=exact,
        record_level=math.inf if whole == math.inf else math.log(whole),
        seal=None if bundle.claim is None else figures.Seal(bundle.checksum, None, bits),
        guessers=_guessers(bundle, certificate), parts=_parts(bundle),
        worth=worth_of([p for p in exact if p.role == "useful" and " × " not in p.name], "each column"),
        columns=() if rows is None else tuple(side for side in rows.sides if side.role == "useful"),
        private=None if truth is None or released is None else _private(released, truth, level),
    )


def _promise(bundle: Bundle, certificate: Certificate | None) -> figures.PromiseFigures | None:
    if bundle.claim is None:
        return None
    within = {"nothing": "anything"}.get(bundle.claim.assuming, f"bundle of {bundle.claim.assuming}")
    return promised(bundle.claim, within, certificate, bundle.confidence)


def _design(bundle: Bundle) -> figures.DesignData:
    """What of rows is in the file: nothing, or a table for each part."""
    joints = [part.joint for part in bundle.parts if part.joint is not None]
    spent = drawn_for([bundle])[0]
    counted = any(joint.counts is not None for joint in joints)
    return design_data("noisy" if spent else bundle.source if counted else "public", joints, spent or None)


def _parts(bundle: Bundle) -> tuple[figures.PartFact, ...]:
    turns = (1,) * len(bundle.parts) if bundle.turns is None else bundle.turns
    whole = 1 if bundle.turns is None else sum(turns)
    return tuple(
        figures.PartFact(name, part.method, part.outputs, turn / whole)
        for name, part, turn in zip(bundle.names, bundle.parts, turns, strict=True)
    )


def _precision(bundle: Bundle, n: int) -> tuple[figures.PrecisionFigures, ...]:
    """Errors of every table that will be known, with the protection and without it; the columns first."""
    try:
        expected = expected_estimate(bundle, n)
        return tuple(
            figures.PrecisionFigures(
                " × ".join(x.names), _role(bundle, x.names), n, spread(x.inversion), spread_untouched(x.raw, n)
            ) for x in expected.tables
        )
    except InputError:
        return ()


def _role(bundle: Bundle, names: Sequence[str]) -> str:
    return "secret" if set(names) <= set(bundle.secret.names) else "useful"


def _guessers(bundle: Bundle, certificate: Certificate | None) -> tuple[figures.Guesser, ...]:
    """Somebody who knows the shares of the secret, and somebody who knows all other columns of the person too.

    The file tells no shares of the secret, so all values are taken to be equally common before.
    """
    claim, size = bundle.claim, bundle.secret.size
    if claim is None or size < 2:
        return ()
    spent = drawn_for([bundle])[0]
    level = summed(spent, claim.epsilon if certificate is None else min(claim.epsilon, float(certificate.level)))
    found = None if certificate is None else certificate.elsewhere.get("any distribution")
    anywhere = level if found is None else summed(spent, float(found))
    even = np.full(size, 1 / size)
    after = [in_a_hundred(single.most_guessed(even, x, "rldp")) for x in (level, anywhere)]
    return (
        figures.Guesser("statistics", round(100 / size), after[0], level),
        figures.Guesser("every other column of the person", round(100 / size), after[1], anywhere),
    )


def _rows(bundle: Bundle, found: BundleEstimate, level: float, truth: Truth | None) -> figures.RowFigures:
    sides = {names: _side(bundle, found.table(*names), level, truth) for names in found.names}
    pairs = sorted((n for n in sides if len(n) == 2), key=lambda n: -_dependence(found.table(*n).p))
    left = len(pairs) - DRAWN
    told = f"{left} tables of two columns that tell less are not listed here; NAME.tables.csv has all."
    return figures.RowFigures(
        found.n, "symbols", level, tuple(side for names, side in sides.items() if len(names) == 1),
        (told,) if left > 0 else (),
        tables=tuple(sides[names] for names in pairs[:DRAWN]),
    )


def _dependence(p: Floats) -> float:
    return float(((p - np.outer(p.sum(1), p.sum(0))) ** 2).sum())


def _side(bundle: Bundle, table: TableEstimate, level: float, truth: Truth | None) -> figures.SideFigures:
    name, text, ends = " × ".join(table.names), Alphabet(table.columns).text, table.interval(level)
    known = None if truth is None else truth[table.names]
    return figures.SideFigures.of(name, _role(bundle, table.names), table.identified, text, table.p, ends, known)


def _private(found: BundleEstimate, truth: Truth, level: float) -> figures.Private:
    """The mean distance of the tables from the true ones, and whether every interval of every table holds."""
    away, held = [], True
    for names, (low, high) in found.intervals(level).items():
        away.append(float(np.abs(found.table(*names).p - truth[names]).sum() / 2))
        held &= bool(((low <= truth[names]) & (truth[names] <= high)).all())
    return figures.Private(found.n, None, None, float(np.mean(away)), held)


def counted_tables(source: Source, bundle: Bundle, names: Mapping[str, str]) -> Truth:
    """The true table of every column of a bundle and of every two, as shares, in one pass."""
    columns = list({c.name: c for part in bundle.parts for c in bundle.reading(part)}.values())
    groups = [*((c,) for c in columns), *combinations(columns, 2)]
    batches = source.batches([names.get(c.name, c.name) for c in columns])
    totals, rows = counted_groups(batches, groups, names)
    return {
        tuple(c.name for c in group): (total / rows).reshape([c.size for c in group])
        for group, total in zip(groups, totals, strict=True)
    }
