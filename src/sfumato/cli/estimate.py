"""sfumato estimate: what the true table looks like, from the released one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import click

import sfumato as sf
from sfumato import drawing, estimation
from sfumato.atomic import check_target, write_all
from sfumato.cli.console import columns, document, heading, plots_fit, progress, span, story, width
from sfumato.cli.options import (
    Location,
    Names,
    decode_option,
    force_option,
    format_option,
    json_option,
    mechanism_option,
    table_source,
    values_option,
)
from sfumato.decimals import MISSING, near, percent, sure
from sfumato.errors import InputError
from sfumato.libraries import numpy as np
from sfumato.tolerances import AT_A_GLANCE, PICTURED

if TYPE_CHECKING:
    from sfumato.alphabet import Array, Column, Floats
    from sfumato.estimation.bundle_tables import BundleEstimate
    from sfumato.estimation.numbers import Numbers
    from sfumato.estimation.result import Estimate, Marginal
    from sfumato.estimation.tables import TableEstimate
    from sfumato.frames import Record
    from sfumato.releasing.wishes import Values
    from sfumato.sources import Where


@click.command()
@click.argument("released", type=Location())
@mechanism_option
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of all intervals together.")
@click.option("--method", type=click.Choice(["auto", "inverse", "em"]), default="auto", show_default=True,
              help="Unbiased inversion, or the maximum of the likelihood.")
@decode_option
@click.option("--rows", "most", type=click.IntRange(1), default=30, show_default=True,
              help="Rows to show of each table.")
@click.option("--table", "wanted", type=Names(), multiple=True, metavar="A,B", help="Show the table of these columns "
              "together, with the shares of the first within the others; may be repeated.")
@click.option("--joint", is_flag=True, help="Show also the table of all columns together.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Write every cell to a CSV file.")
@values_option
@format_option
@force_option
@json_option
def estimate(
    released: Where, mechanism: Where | None, confidence: float, method: str, decode: str | None, most: int,
    wanted: tuple[tuple[str, ...], ...], joint: bool, csv_file: Path | None, values: Values | None, form: str | None,
    force: bool, as_json: bool,
) -> None:
    """Estimate the distribution behind a RELEASED table, with intervals that hold for all cells of a table at once.

    Shows every column by itself; tables of several with --table and --joint.

    \b
    Examples:
      sfumato estimate released.csv
      sfumato estimate released.csv --table income,sex --csv estimates.csv
    """
    checked_confidence(confidence)
    law = drawing.mechanism_of(released, mechanism)
    if csv_file is not None:
        check_target(csv_file, released if isinstance(released, Path) else None, force=force)
    source = table_source(released, form)
    with progress(f"estimating from {source.name}", source.expected, rows=True) as tell:
        found = sf.estimate(source.watched(tell), law, method=method, decode=decode)
        asked = [found.table(*some) for some in wanted]
        told = _numbers(found, confidence, values) if isinstance(found, estimation.Estimate) else None
    if csv_file is not None:
        write_all({csv_file: estimation.cells_csv(found, confidence).encode()}, replace=force)
    if as_json:
        files = {} if csv_file is None else {"csv": csv_file}
        document({**_document(found, told, confidence), "files": files})
        return
    if isinstance(found, estimation.Estimate):
        _show(found, told, asked, confidence, most, joint=joint)
    else:
        _show_bundle(found, asked, confidence, most)
    if csv_file is not None:
        story(f"All cells: {csv_file}")


def checked_confidence(confidence: float) -> None:
    """Refuse what is no confidence."""
    if not 0 < confidence < 1:
        raise InputError("confidence must lie strictly between 0 and 1", value=confidence)


def _listed(*arrays: Array) -> list[list[float]]:
    return [x.ravel().tolist() for x in arrays]


def _numbers(found: Estimate, confidence: float, values: Values | None) -> Numbers | None:
    """Mean and quantiles, when the useful values are numbers or some are given for them."""
    told = values is not None or found.useful.alphabet.numbers() is not None
    return sf.numbers(found, values, level=confidence) if told else None


def _document(found: Estimate | BundleEstimate, told: Numbers | None, confidence: float) -> Record:
    heads, cells = estimation.cells(found, confidence)
    if not isinstance(found, estimation.Estimate):
        return {"n": found.n, "confidence": confidence, "simultaneous": "all cells of all tables",
                "cells": [dict(zip(heads, cell, strict=True)) for cell in cells]}

    def side(marginal: Marginal) -> Record:
        figures = zip(*_listed(marginal.p, *marginal.interval(confidence)), strict=True)
        return {"columns": list(marginal.alphabet.names), "cells": [
            {"values": list(marginal.alphabet.label(i)), "estimate": p, "low": low, "high": high}
            for i, (p, low, high) in enumerate(figures)
        ]}

    names, k = [c.name for c in found.columns], len(found.columns)
    return {
        "n": found.n, "method": found.method, "decode": found.decode, "confidence": confidence,
        "identifiable": bool(found.identifiable), "notes": list(found.notes),
        "secret": None if found.secret is None else side(found.secret), "useful": side(found.useful),
        "numbers": None if told is None else {
            "mean": asdict(told.mean), "quantiles": {str(q): asdict(x) for q, x in told.quantiles.items()}
        },
        "cells": [{"values": dict(zip(names, cell, strict=False)), **dict(zip(heads[k:], cell[k:], strict=True))}
                  for cell in cells],
    }


def _show(
    found: Estimate, told: Numbers | None, asked: Sequence[TableEstimate], confidence: float, most: int, *, joint: bool
) -> None:
    """Every column by itself, then what was asked for."""
    story(f"Estimated from {found.n:,} released rows ({found.method}); all intervals of a table hold at once with "
          f"{sure(confidence)} confidence.")
    for side in (found.secret, found.useful):
        for one in () if side is None else side.by_column():
            texts, told_of = _texts(one.alphabet.columns), one.inversion.identified
            _list(one.alphabet.names, texts, one.p, one.interval(confidence), told_of, most)
    if told is not None:
        _show_numbers(", ".join(found.useful.alphabet.names), told)
    for table in asked:
        _show_table(table, confidence, most)
    names = [c.name for c in found.columns]
    if joint and len(names) > 1:
        _list(names, _texts(found.columns), found.p, found.interval(confidence), found.identifiable.cells, most)
    elif len(names) > 1:
        story("\nAll columns together: --joint; two of them: --table A,B.")
    if not found.identifiable:
        story("\nFigures in brackets cannot be identified from the released rows: there the estimate follows the "
              "design distribution, and only the interval is known.")
    for note in found.notes:
        story(f"Note: {note}")


def _show_bundle(found: BundleEstimate, asked: Sequence[TableEstimate], confidence: float, most: int) -> None:
    """The tables asked for; otherwise those of single columns in full, and the largest cells of some of two."""
    which = "the intervals of each table" if asked else f"all intervals of all {len(found.names)} tables"
    story(f"Estimated from {found.n:,} released rows; {which} hold at once with {sure(confidence)} confidence.")
    for table in asked:
        _show_table(table, confidence, most)
    if asked:
        story("Those of all tables together would be wider.")
        return
    together = found.intervals(confidence)
    pairs = [names for names in found.names if len(names) == 2]
    for names in [*(x for x in found.names if len(x) == 1), *pairs[:AT_A_GLANCE]]:
        table, few = found.table(*names), most if len(names) == 1 else min(most, AT_A_GLANCE)
        _list(names, _texts(table.columns), table.p, together[names], np.full(table.p.shape, True), few)
    if len(pairs) > AT_A_GLANCE:
        story(f"… and {len(pairs) - AT_A_GLANCE} more tables of two columns (--csv, --json)")


def _texts(columns: Sequence[Column]) -> Iterator[list[str]]:
    """The labels of every cell, as they are shown."""
    return ([MISSING if x is None else x for x in labels] for labels in product(*(c.labels for c in columns)))


def _list(
    names: Sequence[str], texts: Iterable[Sequence[str]], p: Floats, interval: tuple[Floats, Floats], known: Array,
    most: int,
) -> None:
    """Shares with their intervals, the largest first; those that the rows do not tell in brackets."""
    order = sorted(zip(texts, *_listed(p, *interval, known), strict=True), key=lambda cell: -cell[1])
    heading("\n" + " × ".join(names))
    rows = [[*text, percent(p) if told else f"({percent(p)})", percent(low), percent(high)]
            for text, p, low, high, told in order[:most]]
    heads = ["value"] if len(names) == 1 else list(names)
    _table(heads, rows, [(low, p, high) for _, p, low, high, _ in order[:most]])
    if len(order) > most:
        story(f"… and {len(order) - most:,} more (--rows, --csv)")


def _show_table(table: TableEstimate, confidence: float, most: int) -> None:
    """A table of some columns; of two, also the shares of the first within the second."""
    names, told = table.names, np.full(table.p.shape, table.identified)
    _list(names, _texts(table.columns), table.p, table.interval(confidence), told, most)
    if len(names) == 2 and table.identified:
        within = table.shares(names[1], confidence, together=True)
        heading(f"\n{names[0]} within {names[1]}")
        rows = [[*(x[n] for n in names), *map(percent, three)] for x, *three in within.each() if three[0] == three[0]]
        columns([*names, "estimate", "from", "to"], rows[:most], numbers=3)
        story(repr(table.independence()).strip("<>"))


def _show_numbers(name: str, told: Numbers) -> None:
    named = [("mean", told.mean), *((f"quantile {percent(q, 0)}", figure) for q, figure in told.quantiles.items())]
    heading(f"\n{name} as a number")
    rows = [[name, *(near(x, 5) for x in (f.estimate, f.low, f.high))] for name, f in named]
    columns(["", "estimate", "from", "to"], rows, numbers=3)


def _table(names: list[str], rows: list[list[str]], spans: list[tuple[float, float, float]]) -> None:
    """Estimates with their intervals, drawn beside them where somebody looks and there is room."""
    heads = [*names, "estimate", "from", "to"]
    if not plots_fit():
        columns(heads, rows, numbers=3)
        return
    top = max((high for _, _, high in spans), default=1.0)
    taken = [max(map(len, cells)) + 2 for cells in zip(heads, *rows, strict=True)]
    cells = max(PICTURED, width(wide=True) - sum(taken))
    drawn = [[*row, span(*three, top, cells)] for row, three in zip(rows, spans, strict=True)]
    columns([*heads, f"0 to {percent(top)}"], drawn, numbers=3, plots=1)
