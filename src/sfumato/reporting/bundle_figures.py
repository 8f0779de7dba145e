"""Facts about a bundle: what its parts are, what is told of every column, and of every two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Alphabet, Floats
from sfumato.bundles.counting import joint_codes
from sfumato.certification.together import about_record, drawn_for
from sfumato.decimals import in_a_hundred
from sfumato.decimals import total as summed
from sfumato.errors import InputError
from sfumato.estimation import BundleEstimate, TableEstimate
from sfumato.estimation.bundle_tables import expected_estimate
from sfumato.mechanism import Bundle
from sfumato.reporting.attack import imprint_of, most_guessed, promised
from sfumato.reporting.figures import (
    USUAL_ROWS,
    DesignData,
    Facts,
    Glance,
    Guesser,
    PartFact,
    PrecisionFigures,
    Private,
    PromiseFigures,
    RowFigures,
    Seal,
    SideFigures,
    Worth,
)
from sfumato.sources import Source
from sfumato.tolerances import DRAWN

if TYPE_CHECKING:
    from sfumato.certification.certificate import Certificate
    from sfumato.drawing.manifest import Manifest

Truth = Mapping[tuple[str, ...], Floats]  # the true tables, by their columns


def bundle_facts(
    bundle: Bundle, certificate: Certificate | None, released: BundleEstimate | None = None, *,
    truth: Truth | None = None, manifest: Manifest | None = None, title: str | None = None, level: float = 0.95,
    file: str = "released.mechanism.json",
) -> Facts:
    """The facts of a public report, or of a private one when the true tables are given."""
    secret, useful = ", ".join(bundle.secret.names), ", ".join(bundle.useful.names)
    kept = [] if manifest is None else [c.name for c in manifest.columns if c.role == "kept"]
    exact = _precision(bundle, USUAL_ROWS if released is None else released.n)
    rows = None if released is None else _rows(bundle, released, level, truth)
    columns = () if rows is None else tuple(side for side in rows.sides if side.role == "useful")
    table = () if manifest is None else tuple(c.name for c in manifest.columns)
    return Facts(
        title or f"Release of {useful} with {secret} protected", bundle.method, bundle.reads, secret, useful,
        bundle.secret.size, bundle.useful.size, _promise(bundle, certificate), None, _design(bundle), None, rows,
        tuple(kept), manifest is not None and manifest.randomness != "system", file, None, (),
        _log(about_record(bundle).ratio), exact, None, _seal(bundle, certificate),
        Glance(_guessers(bundle, certificate), columns, _worth(exact), table, imprint_of(manifest)),
        None if truth is None or released is None else _private(released, truth, level), _parts(bundle),
    )


def _log(ratio: Fraction | float) -> float:
    return math.inf if ratio == math.inf else math.log(ratio)


def _promise(bundle: Bundle, certificate: Certificate | None) -> PromiseFigures | None:
    if bundle.claim is None:
        return None
    within = {"nothing": "anything"}.get(bundle.claim.assuming, f"bundle of {bundle.claim.assuming}")
    return promised(bundle.claim, within, certificate, bundle.confidence)


def _design(bundle: Bundle) -> DesignData:
    """What of rows is in the file: nothing, or a table for each part."""
    joints = [part.joint for part in bundle.parts if part.joint is not None]
    counted = [joint for joint in joints if joint.counts is not None]
    spent = drawn_for([bundle])[0]
    drawn = spent > 0
    source = "noisy" if drawn else bundle.source if counted else "public"
    counts = np.concatenate([j.counts.ravel() for j in counted if j.counts is not None]) if counted else np.zeros(0)
    small = 0 if drawn else int(((counts > 0) & (counts < 5)).sum())
    least = int(counts[counts > 0].min()) if counted else None
    return DesignData(
        source, counted[0].n if counted else None, sum(j.p.size for j in joints), bool(counted), small, least,
        int((counts == 0).sum()), spent or None,
    )


def _parts(bundle: Bundle) -> tuple[PartFact, ...]:
    turns = (1,) * len(bundle.parts) if bundle.turns is None else bundle.turns
    whole = 1 if bundle.turns is None else sum(turns)
    return tuple(
        PartFact(name, part.method, part.outputs, turn / whole)
        for name, part, turn in zip(bundle.names, bundle.parts, turns, strict=True)
    )


def _precision(bundle: Bundle, n: int) -> tuple[PrecisionFigures, ...]:
    """Errors of every table that will be known, with the protection and without it; the columns first."""
    try:
        expected = expected_estimate(bundle, n)
        return tuple(_exactness(bundle, expected.table(*names), names, n) for names in expected.names)
    except InputError:
        return ()


def _exactness(bundle: Bundle, table: TableEstimate, names: tuple[str, ...], n: int) -> PrecisionFigures:
    p = table.raw.ravel()
    error = float(np.sqrt(np.mean(table.inversion.variance))) if table.identified else math.inf
    role = "secret" if set(names) <= set(bundle.secret.names) else "useful"
    return PrecisionFigures(" × ".join(names), role, n, error, float(np.sqrt(np.maximum(p * (1 - p), 0).mean() / n)))


def _worth(exact: tuple[PrecisionFigures, ...]) -> Worth | None:
    """That of the useful columns one by one, on average."""
    alone = [p for p in exact if p.role == "useful" and " × " not in p.name]
    if not alone:
        return None
    fixed = all(p.error is not None and math.isfinite(p.error) for p in alone)
    equal = float(np.mean([p.equal or 0.0 for p in alone])) if fixed else 0.0
    return Worth("each column", alone[0].n, equal, fixed)


def _guessers(bundle: Bundle, certificate: Certificate | None) -> tuple[Guesser, ...]:
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
    after = [in_a_hundred(most_guessed(even, x, "rldp")) for x in (level, anywhere)]
    return (
        Guesser("statistics", round(100 / size), after[0], level),
        Guesser("every other column of the person", round(100 / size), after[1], anywhere),
    )


def _rows(bundle: Bundle, found: BundleEstimate, level: float, truth: Truth | None) -> RowFigures:
    sides = {names: _side(bundle, found.table(*names), level, truth) for names in found.names}
    pairs = sorted((n for n in sides if len(n) == 2), key=lambda n: -_dependence(found.table(*n).p))
    left = len(pairs) - DRAWN
    told = f"{left} tables of two columns that tell less are not listed here; NAME.tables.csv has all."
    return RowFigures(
        found.n, "symbols", "inverse", level, tuple(side for names, side in sides.items() if len(names) == 1),
        (told,) if left > 0 else (),
        tables=tuple(sides[names] for names in pairs[:DRAWN]),
    )


def _dependence(p: Floats) -> float:
    return float(((p - np.outer(p.sum(1), p.sum(0))) ** 2).sum())


def _side(bundle: Bundle, table: TableEstimate, level: float, truth: Truth | None) -> SideFigures:
    role = "secret" if set(table.names) <= set(bundle.secret.names) else "useful"
    known, text = None if truth is None else truth[table.names], Alphabet(table.columns).text
    return SideFigures.of(" × ".join(table.names), role, table.identified, text, table.p, table.interval(level), known)


def _private(found: BundleEstimate, truth: Truth, level: float) -> Private:
    """The mean distance of the tables from the true ones, and whether every interval of every table holds."""
    away, held = [], True
    for names, (low, high) in found.intervals(level).items():
        away.append(float(np.abs(found.table(*names).p - truth[names]).sum() / 2))
        held &= bool(((low <= truth[names]) & (truth[names] <= high)).all())
    return Private(found.n, None, None, float(np.mean(away)), held)


def _seal(bundle: Bundle, certificate: Certificate | None) -> Seal | None:
    if bundle.claim is None:
        return None
    bits = max(part.law.bits or 0 for part in bundle.parts)
    basis = "" if certificate is None else certificate.basis
    return Seal(bundle.checksum, None, bits, bundle.claim.sentence, basis, ())


def counted_tables(source: Source, bundle: Bundle, names: Mapping[str, str]) -> Truth:
    """The true table of every column of a bundle and of every two, as shares, in one pass."""
    columns = list({c.name: c for part in bundle.parts for c in bundle.reading(part)}.values())
    groups = [*((c,) for c in columns), *combinations(columns, 2)]
    totals = [np.zeros(math.prod(c.size for c in group), np.int64) for group in groups]
    row = 0
    for batch in source.batches([names.get(c.name, c.name) for c in columns]):
        codes = {c.name: c.encode(batch.column(names.get(c.name, c.name)), first_row=row) for c in columns}
        row += batch.num_rows
        for total, group in zip(totals, groups, strict=True):
            total += np.bincount(joint_codes(group, codes, batch.num_rows), minlength=len(total))
    found = {tuple(c.name for c in group): total / row for group, total in zip(groups, totals, strict=True)}
    return {key: p.reshape([c.size for c in group]) for (key, p), group in zip(found.items(), groups, strict=True)}
