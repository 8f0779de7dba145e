"""sfumato estimate: what the true table looks like, from the released one."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

import sfumato as sf
from sfumato import drawing, releasing, sources
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
from sfumato.cli.wording import HEAD, estimate_document, show_tables, table_rows
from sfumato.decimals import MISSING, near, percent, sure
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.alphabet import Label
    from sfumato.estimation.numbers import Figure, Numbers
    from sfumato.estimation.result import Estimate, Marginal
    from sfumato.estimation.tables import TableEstimate
    from sfumato.frames import Datum, Record
    from sfumato.mechanism import Bundle, Mechanism
    from sfumato.releasing.wishes import Values
    from sfumato.sources import Where
    from sfumato.sources.source import Source

FIGURES = ("estimate", "low", "high", "error")
DOCUMENTS = (".mechanism.json", ".manifest.json", ".report.html")  # which hold no rows


class CellRow(NamedTuple):
    """A cell of the whole table, as it was estimated."""
    labels: tuple[Label, ...]
    estimate: float
    low: float
    high: float
    error: float | None  # None: the rows do not tell it


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
    if not 0 < confidence < 1:
        raise InputError("confidence must lie strictly between 0 and 1", value=confidence)
    law = mechanism_of(released, mechanism)
    if csv_file is not None:
        check_target(csv_file, released if isinstance(released, Path) else None, force=force)
    source = table_source(released, form)
    if isinstance(law, sf.Bundle):
        return _estimate_bundle(source, law, confidence, method, decode, most, csv_file, force, as_json, wanted)
    with progress(f"estimating from {source.name}", source.expected, rows=True) as tell:
        found = sf.estimate(source.watched(tell), law, method=method, decode=decode)
        names, rows = _cells(found, confidence)
        told, asked = _numbers(found, confidence, values), [found.table(*some) for some in wanted]
    if csv_file is not None:
        _write_csv(csv_file, ([*names, *FIGURES], [[*row.labels, *row[1:]] for row in rows]), force)
    if as_json:
        document(_document(found, names, rows, told, confidence, csv_file))
        return None
    story(f"Estimated from {found.n:,} released rows ({found.method}); all intervals of a table hold at once with "
          f"{sure(confidence)} confidence.")
    for side in (found.secret, found.useful):
        if side is not None and len(side.alphabet.columns) == 1:
            _show_side(side, confidence, most)
        elif side is not None:
            for column in side.alphabet.columns:
                _show_table(found.table(column.name), confidence, most)
    _show_numbers(found, told)
    for table in asked:
        _show_table(table, confidence, most)
    if joint and len(names) > 1:
        texts = ([MISSING if x is None else x for x in row.labels] for row in rows)
        cells = ((text, x.estimate, x.low, x.high, x.error is not None) for text, x in zip(texts, rows, strict=True))
        _listed(names, names, cells, most)
    elif len(names) > 1:
        story("\nAll columns together: --joint; two of them: --table A,B.")
    if not found.identifiable:
        story("\nFigures in brackets cannot be identified from the released rows: there the estimate follows the "
              "design distribution, and only the interval is known.")
    for note in found.notes:
        story(f"Note: {note}")
    if csv_file is not None:
        story(f"All cells: {csv_file}")
    return None


def _estimate_bundle(
    released: Source, bundle: Bundle, confidence: float, method: str, decode: str | None, most: int,
    csv_file: Path | None, force: bool, as_json: bool, wanted: Sequence[Sequence[str]],
) -> None:
    with progress(f"estimating from {released.name}"):
        found = sf.estimate(released, bundle, method=method, decode=decode)
        rows, asked = table_rows(found, confidence), [found.table(*names) for names in wanted]
    if csv_file is not None:
        _write_csv(csv_file, (HEAD, rows), force)
    if as_json:
        document(estimate_document(found, rows, confidence, csv_file))
        return
    which = "the intervals of each table" if asked else f"all intervals of all {len(found.names)} tables"
    story(f"Estimated from {found.n:,} released rows; {which} hold at once with {sure(confidence)} confidence.")
    if not asked:
        show_tables(found, rows, most)
    for table in asked:
        _show_table(table, confidence, most)
    if asked:
        story("Those of all tables together would be wider.")
    if csv_file is not None:
        story(f"All cells: {csv_file}")


def mechanism_of(released: Where, mechanism: Where | None) -> Mechanism | Bundle:
    """The mechanism of a release: in the file named, or in the one beside it."""
    if released.name.endswith(DOCUMENTS):
        raise InputError("is a file beside a released table", next="Give the table itself.", where=released)
    path = drawing.mechanism_beside(released) if mechanism is None else mechanism
    if mechanism is None and isinstance(released, Path) and not released.exists():
        raise InputError("could not be read: No such file or directory", where=released)
    if mechanism is None and not path.exists():
        raise InputError(f"there is no mechanism file beside {released} ({path})", next="Name it with --mechanism.")
    return sf.load(path)


def _cells(found: Estimate, confidence: float) -> tuple[list[str], list[CellRow]]:
    """The columns, and every cell: labels, estimate, interval, standard error of the raw estimate."""
    m = found.mechanism
    low, high = found.interval(confidence)
    p, spread = found.p.ravel(), found.variance.ravel() ** 0.5
    low, high = low.ravel(), high.ravel()
    known = found.identifiable.cells.ravel()
    both = m.reads == "both"
    rows = []
    for x in range(p.size):
        s, u = divmod(x, m.useful.size)
        labels = (*(m.secret.label(s) if both else ()), *m.useful.label(u))
        error = float(spread[x]) if known[x] else None
        rows.append(CellRow(labels, float(p[x]), float(low[x]), float(high[x]), error))
    return [c.name for c in m.reading], rows


Shown = tuple[Sequence[str], float, float, float, bool]  # labels, estimate, low, high, whether the rows tell it


def _listed(names: Sequence[str], heads: Sequence[str], cells: Iterable[Shown], most: int) -> None:
    """Shares with their intervals, the largest first."""
    order = sorted(cells, key=lambda cell: -cell[1])
    heading("\n" + " × ".join(names))
    rows = [[*texts, percent(p) if known else f"({percent(p)})", percent(low), percent(high)]
            for texts, p, low, high, known in order[:most]]
    _table(list(heads), rows, [(low, p, high) for _, p, low, high, _ in order[:most]])
    if len(order) > most:
        story(f"… and {len(order) - most:,} more (--rows, --csv)")


def _show_side(side: Marginal, confidence: float, most: int) -> None:
    texts = ([side.alphabet.text(i)] for i in range(side.p.size))
    cells = zip(texts, side.p, *side.interval(confidence), side.inversion.identified, strict=True)
    _listed([", ".join(side.alphabet.names)], ["value"], cells, most)


def _show_table(table: TableEstimate, confidence: float, most: int) -> None:
    """A table of some columns; of two, also the shares of the first within the second."""
    low, high = (x.ravel() for x in table.interval(confidence))
    names = list(table.names)
    texts = ([str(record[n]) for n in names] for record in table.records(confidence))
    _listed(names, names, zip(texts, table.p.ravel(), low, high, repeat(table.identified)), most)
    if len(names) == 2 and table.identified:
        within = table.shares(names[1], confidence, together=True)
        heading(f"\n{names[0]} within {names[1]}")
        rows = [[*(str(x[n]) for n in names), percent(e), percent(a), percent(b)] for x, e, a, b in zip(
            within.labels, within.estimate, within.low, within.high, strict=True) if e == e][:most]
        columns([*names, "estimate", "from", "to"], rows, numbers=3)
        story(repr(table.independence()).strip("<>"))


def _numbers(found: Estimate, confidence: float, values: Values | None) -> Numbers | None:
    """Mean and quantiles, when the useful values are numbers or some are given for them."""
    try:
        return sf.numbers(found, releasing.numbered(values, found.useful.alphabet), level=confidence)
    except InputError:
        if values is not None:
            raise
        return None


def _show_numbers(found: Estimate, told: Numbers | None) -> None:
    if told is None:
        return
    named = [("mean", told.mean), *((f"quantile {percent(q, 0)}", figure) for q, figure in told.quantiles.items())]
    heading("\n" + ", ".join(found.useful.alphabet.names) + " as a number")
    rows = [[name, *(near(x, 5) for x in (f.estimate, f.low, f.high))] for name, f in named]
    columns(["", "estimate", "from", "to"], rows, numbers=3)


SPAN_WIDTH = 20  # cells of a drawn interval; beyond it takes what the window has left


def _table(names: list[str], rows: list[list[str]], spans: list[tuple[float, float, float]]) -> None:
    """Estimates with their intervals, drawn beside them where somebody looks and there is room."""
    heads = [*names, "estimate", "from", "to"]
    if not plots_fit():
        columns(heads, rows, numbers=3)
        return
    top = max((high for _, _, high in spans), default=1.0)
    taken = [max(map(len, cells)) + 2 for cells in zip(heads, *rows, strict=True)]
    cells = max(SPAN_WIDTH, width(wide=True) - sum(taken))
    drawn = [[*row, span(*three, top, cells)] for row, three in zip(rows, spans, strict=True)]
    columns([*heads, f"0 to {percent(top)}"], drawn, numbers=3, plots=1)


def _write_csv(path: Path, table: tuple[Sequence[str], Sequence[Sequence[Datum]]], force: bool) -> None:
    text = io.StringIO()
    cells = ([sources.guarded(x) if isinstance(x, str) else x for x in row] for row in (table[0], *table[1]))
    csv.writer(text, lineterminator="\n").writerows(cells)
    write_all({path: text.getvalue().encode()}, replace=force)


def _document(
    found: Estimate, names: Sequence[str], rows: Sequence[CellRow], told: Numbers | None, confidence: float,
    csv_file: Path | None,
) -> Record:
    def side(marginal: Marginal) -> Record:
        low, high = marginal.interval(confidence)
        labels = [list(marginal.alphabet.label(i)) for i in range(marginal.p.size)]
        cells: list[Record] = [
            {"values": values, "estimate": p, "low": a, "high": b} for values, p, a, b in
            zip(labels, marginal.p.tolist(), low.tolist(), high.tolist(), strict=True)
        ]
        return {"columns": list(marginal.alphabet.names), "cells": cells}

    return {
        "n": found.n, "method": found.method, "decode": found.decode, "confidence": confidence,
        "identifiable": bool(found.identifiable), "notes": list(found.notes),
        "secret": None if found.secret is None else side(found.secret), "useful": side(found.useful),
        "numbers": _numbers_document(told),
        "cells": [
            {"values": dict(zip(names, row.labels, strict=True)), **dict(zip(FIGURES, row[1:], strict=True))}
            for row in rows
        ],
        "files": {} if csv_file is None else {"csv": csv_file},
    }


def _numbers_document(told: Numbers | None) -> Record | None:
    if told is None:
        return None

    def figure(f: Figure) -> dict[str, float]:
        return {"estimate": f.estimate, "low": f.low, "high": f.high}

    return {"mean": figure(told.mean), "quantiles": {str(q): figure(f) for q, f in told.quantiles.items()}}
