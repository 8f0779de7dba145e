"""The two doors for Python: `release` for rows and a mechanism, `publish` for a plan with all of its files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, overload

from sfumato.drawing.manifest import Imprint
from sfumato.errors import InputError
from sfumato.releasing.files import Files
from sfumato.releasing.flow import Account, Book, DrawOptions, Progress
from sfumato.releasing.planning import Plan
from sfumato.releasing.session import Order, Release, Released
from sfumato.releasing.wishes import Names, Silent, named
from sfumato.sources import Place, located, open_source

if TYPE_CHECKING:
    from sfumato.sources.source import Frame, TableLike


@overload
def release(
    source: TableLike, mechanism: Released, to: None = None, *, decode: str = ..., keep: Sequence[str] = ...,
    secret: Names = ..., useful: Names = ..., partition: Sequence[str] = ..., seed: int | None = ...,
    force: bool = ..., allow_unclaimed: bool = ..., progress: Progress | None = ..., ledger: Book | None = ...,
    people: str | None = ..., budget: float | None = ..., same_values: bool = ..., memoise: str | None = ...,
    person: str | None = ..., raw_cells: bool = ..., id: Names = ...,
) -> Frame: ...


@overload
def release(
    source: TableLike, mechanism: Released, to: str | os.PathLike[str] | Place, *, decode: str = ...,
    keep: Sequence[str] = ..., secret: Names = ..., useful: Names = ..., partition: Sequence[str] = ...,
    seed: int | None = ..., force: bool = ..., allow_unclaimed: bool = ..., progress: Progress | None = ...,
    ledger: Book | None = ..., people: str | None = ..., budget: float | None = ..., same_values: bool = ...,
    memoise: str | None = ..., person: str | None = ..., raw_cells: bool = ..., id: Names = ...,
) -> Release: ...


def release(
    source: TableLike, mechanism: Released, to: str | os.PathLike[str] | Place | None = None, *,
    decode: str = "symbols", keep: Sequence[str] = (), secret: Names = None, useful: Names = None,
    partition: Sequence[str] = (), seed: int | None = None, force: bool = False, allow_unclaimed: bool = False,
    progress: Progress | None = None, ledger: Book | None = None, people: str | None = None,
    budget: float | None = None, same_values: bool = False, memoise: str | None = None,
    person: str | None = None, raw_cells: bool = False, id: Names = None,
) -> Frame:
    """Randomise every row of a source, into a file or folder or into what the source is.

    `mechanism` may be the path of its file. The claim is certified first. Columns that the mechanism does not read are
    left out unless `keep` names them; kept columns are not protected. `secret` and `useful` name the columns to read
    when the source calls them otherwise than the mechanism, in its order.

    `to` is a .csv, .tsv (also packed: .csv.gz, .csv.zst, .csv.bz2) or .parquet file, or a folder of Parquet files (a
    name without suffix; `partition` names columns of the output by which it is divided), here or in a store
    (s3://…, sfumato.Place). It appears complete or not at all, with a manifest beside it. Without `to` the rows come
    back as what they came in: a pandas or Polars frame, an Arrow table, batch, reader or dataset, a DuckDB relation;
    the rows of a file come back as an Arrow table. They are drawn once, also where the frame is lazy. A Spark data
    frame is released on its cluster: into a lazy Spark data frame, or into a folder of Parquet files. There `id` may
    name columns that no two rows share, by which rows are released one by one instead of counted (docs/spark.md).

    In CSV, a cell that a spreadsheet would run as a formula is written with an apostrophe in front, which sfumato takes
    away when it reads the file, and text with control characters is refused; `raw_cells=True` writes cells as they are.

    With `ledger=sf.Ledger(path)` the release is entered as one about `people`, and refused if all releases about them
    together would exceed `budget` (docs/ledger.md has person, same_values and memoise).
    """
    opened, divided, listener = open_source(source), named(partition), Silent(progress)
    options = DrawOptions(decode, keep, secret, useful, seed, id=id)
    account = Account(ledger, people, budget, same_values, memoise, person)
    order = Order(opened, None, mechanism, options, account, allow_unclaimed=allow_unclaimed, force=force)
    if opened.cluster is not None:
        if divided or memoise is not None:
            raise InputError("a release on a cluster can neither be divided by columns nor remember answers.")
        if isinstance(to, Place):
            raise InputError("a cluster writes to paths and addresses that it knows itself", next="Give to= as text.")
        return order.checked(listener).on_its_cluster(to, force=force)
    if to is None:
        if divided:
            raise InputError("partition divides a folder of files", next="Say which with to=.")
        return order.checked(listener).returned()
    files = Files.beside(
        located(to), mechanism=False, report=False, partition=divided, raw_cells=raw_cells, inputs=[opened.path],
        force=force,
    )
    with replace(order, files=files).released(listener, estimating=False) as done:
        return done


def publish(
    plan: Plan, to: str | os.PathLike[str] | Place, *, decode: str = "guess", keep: Sequence[str] = (),
    partition: Sequence[str] = (), report: str | os.PathLike[str] | bool = True,
    private_report: str | os.PathLike[str] | None = None, seed: int | None = None, force: bool = False,
    progress: Progress | None = None, ledger: Book | None = None, people: str | None = None,
    budget: float | None = None, same_values: bool = False, memoise: str | None = None, person: str | None = None,
    raw_cells: bool = False, publisher: str | None = None, anyway: bool = False,
) -> Release:
    """Release the rows of a plan into files that may be given away, as `sfumato release` does.

    Beside the table there are its manifest, the mechanism (anyone can verify it), the public report and the estimated
    tables for a spreadsheet; the estimate is in what is returned. Symbols have the likeliest value of every useful
    column beside them (decode='symbols' leaves it out). All files appear, or none. `private_report` compares with the
    true table and is not for publication; `publisher` is who answers for the release, named on the page. Read
    `plan.notices()` first: they say what becomes public, the exact counts of a plan with design='exact' too. A design
    that is worth less than 1 % of its rows to whoever estimates from it (`plan.foreseen()`) needs `anyway=True`.
    """
    files = Files.beside(
        located(to), mechanism=plan.file is None, report=report if isinstance(report, bool) else Path(report),
        private_report=None if private_report is None else Path(private_report), partition=named(partition),
        raw_cells=raw_cells, tables=True, inputs=[plan.source.path], force=force,
    )
    account = Account(ledger, people, budget, same_values, memoise, person)
    options = DrawOptions(decode, keep, seed=seed, imprint=Imprint(publisher))
    order = Order(plan.source, files, plan, options, account, anyway=anyway, force=force)
    with order.released(Silent(progress)) as done:
        return done
