"""sfumato report and synthesise: the public page again, or records of the original columns, from a release alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.console import document, pairs, progress, story
from sfumato.cli.option_texts import Location
from sfumato.cli.options import force_option, json_option, table_source
from sfumato.decimals import LEVEL, level
from sfumato.errors import ClaimError, InputError

if TYPE_CHECKING:
    from sfumato.drawing.manifest import Manifest
    from sfumato.estimation.bundle_tables import BundleEstimate
    from sfumato.estimation.result import Estimate
    from sfumato.mechanism import Bundle, Mechanism
    from sfumato.sources import Where


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--released", type=click.Path(path_type=Path), metavar="TABLE",
              help="The released table; its manifest is read if it lies beside it.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="PAGE.html", help="Where the page goes.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of the intervals of a variable.")
@click.option("--title", help="The heading of the page.")
@force_option
@json_option
def report(
    file: Path, released: Path | None, out: Path, confidence: float, title: str | None, force: bool, as_json: bool
) -> None:
    """Write the public report of a mechanism FILE and, with --released, of what was released with it.

    It needs nothing else, so the page of a release can be made again by anyone and compared byte by byte. The proof
    is worked out anew; the page says so if it fails, and the command then ends with 5.

    \b
    Examples:
      sfumato report released.mechanism.json --released released.csv --out page.html
      sfumato report m.json --out m.html
    """
    from sfumato.atomic import check_target
    from sfumato.certification import certificate
    from sfumato.certification.together import bundle_certificate
    from sfumato.mechanism import Bundle, load
    from sfumato.reporting import write_reports

    if not 0 < confidence < 1:
        raise InputError("confidence must lie strictly between 0 and 1", value=confidence)
    mechanism = load(file)
    for given in (file, released):
        check_target(out, given, force=force)
    with progress("certifying the mechanism"):
        if mechanism.claim is None:
            proof = None
        else:
            proof = bundle_certificate(mechanism) if isinstance(mechanism, Bundle) else certificate(mechanism)
    found, manifest = (None, None) if released is None else _read(released, mechanism)
    with progress("writing the report"):
        write_reports(
            out, mechanism, proof, found, manifest=manifest, title=title, level=confidence, file=file.name, force=force
        )
    if as_json:
        document({
            "file": file, "released": released, "rows": None if found is None else found.n,
            "level": None if proof is None else proof.level, "holds": proof is not None and proof.holds,
            "files": {"report": out},
        })
    else:
        pairs([
            ("report", str(out)), ("made from", f"{file}{'' if released is None else f' and {released}'}"),
            *([("proved", level(proof.level, LEVEL))] if proof is not None and proof.holds else []),
        ])
    if proof is not None and not proof.holds:
        raise ClaimError(
            f"claims {mechanism.claim.sentence if mechanism.claim else ''}, which was not proved", where=file
        )


def _read(released: Path, mechanism: Mechanism | Bundle) -> tuple[Estimate | BundleEstimate | None, Manifest | None]:
    """The estimate from a released table, and the manifest beside it if there is one.

    A law too large to invert gives no estimate, as in the release itself.
    """
    from sfumato.drawing.manifest import manifest_path, read_manifest
    from sfumato.estimation import estimate
    from sfumato.estimation.models import model_of
    from sfumato.mechanism import Mechanism

    beside = manifest_path(released)
    manifest = read_manifest(beside) if beside.exists() else None
    try:
        if isinstance(mechanism, Mechanism):
            model_of(mechanism, "symbols" if manifest is None else manifest.decode)
    except InputError:
        return None, manifest
    with progress(f"estimating from {released.name}"):
        return estimate(released, mechanism), manifest


@click.command()
@click.argument("released", type=Location())
@click.option("--rows", type=click.IntRange(1), required=True, help="Records to draw.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FILE",
              help="Where they go: .csv, .tsv or .parquet. NAME.manifest.json beside it says that they are synthetic.")
@click.option("--mechanism", type=Location(), metavar="FILE",
              help="The mechanism file of the release.  [default: the one beside RELEASED]")
@click.option("--decode", type=click.Choice(["symbols", "likely", "sample"]),
              help="How the rows were written, when there is no manifest beside them.")
@click.option("--seed", type=int, help="Draw the same records again.")
@force_option
def synthesise(
    released: Where, rows: int, out: Path, mechanism: Where | None, decode: str | None, seed: int | None, force: bool
) -> None:
    """Draw records of the original columns from the distribution estimated from a RELEASED table.

    Of a bundle they follow a model of all columns that has the estimated tables of two columns which tell most. Nobody
    is among them: each is drawn from the estimate, whose errors are in all of them. They are for trying out
    programmes; intervals come from sfumato estimate.

    \b
    Example:
      sfumato synthesise released.csv --rows 10000 --out synthetic.csv
    """
    from sfumato.cli.estimate import mechanism_of
    from sfumato.estimation import estimate
    from sfumato.estimation.result import NOTE
    from sfumato.mechanism.bundle import any_record
    from sfumato.releasing.files import Files

    law = mechanism_of(released, mechanism)
    files = Files.beside(out, mechanism=False, report=False)
    files.check([released, mechanism], force=force)
    with progress(f"estimating from {released.name}"):
        found = estimate(table_source(released), law, decode=decode)
    table = found.synthesise(rows, seed=seed)
    told = {
        "format": "sfumato/synthetic", "version": 1, "rows": rows, "columns": table.column_names,
        "estimated_from": found.n, "mechanism": any_record(law).checksum, "note": NOTE,
    }
    files.publish(table, lambda size: (json.dumps(told, indent=1, ensure_ascii=False) + "\n").encode(), force=force)
    story(f"{rows:,} synthetic records with {', '.join(table.column_names)}: {out}. {NOTE}")
