"""sfumato synthesise: records of the original columns from an estimated distribution."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.console import progress, story
from sfumato.cli.options import Location, force_option, table_source

if TYPE_CHECKING:
    from sfumato.sources import Where


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
    from sfumato.estimation.exports import NOTE
    from sfumato.mechanism.bundle_file import any_record
    from sfumato.releasing.files import Files
    from sfumato.releasing.targets import publish_all
    from sfumato.releasing.writing import output

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
    with files.drafts() as made:
        with output(files.writer, made["table"].open, made["table"].target) as write:
            for batch in table.to_batches():
                write(batch)
        made["table"].settle()
        made["manifest"].fill((json.dumps(told, indent=1, ensure_ascii=False) + "\n").encode())
        publish_all(list(made.values()), replace=force)
    story(f"{rows:,} synthetic records with {', '.join(table.column_names)}: {out}. {NOTE}")
