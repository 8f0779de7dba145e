"""Collected answers as the table that a release of them would be, and the estimates from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.atomic import check_target
from sfumato.drawing import bundle_draws as bundled
from sfumato.drawing.decoding import decoder
from sfumato.drawing.manifest import OutputColumn, manifest_of, manifest_path
from sfumato.drawing.randomness import Stream
from sfumato.errors import InputError
from sfumato.mechanism import Bundle, Mechanism
from sfumato.releasing.targets import all_drafted, publish_all
from sfumato.releasing.writing import output, writer_for

if TYPE_CHECKING:
    from sfumato.alphabet import Floats, Label
    from sfumato.frames import Record

ENGINE, RANDOMNESS = "collected", "drawn by the respondents"


def drawn_of(counts: dict[str, int], mechanism: Mechanism | Bundle) -> Any:
    """Outputs as a sampler gives them, one row for each answer, sorted: no order of arrival is left."""
    fields = [a.split(".") for a in counts]
    once: Any
    times = np.array(list(counts.values()), np.int64)
    if isinstance(mechanism, Bundle) and mechanism.turns is not None:
        turn = [next(i for i, f in enumerate(row) if f) for row in fields]
        once = np.array([[i, int(row[i])] for i, row in zip(turn, fields, strict=True)], np.int32).reshape(-1, 2)
    elif isinstance(mechanism, Bundle):
        once = np.array([[int(f) for f in row] for row in fields], np.int32).reshape(-1, len(mechanism.parts))
    elif mechanism.law.meaning == "subset":
        once = np.array([[int(c) for c in row[0]] for row in fields], np.int64).reshape(-1, mechanism.inputs)
    else:
        once = np.array([int(row[0]) for row in fields], np.int32)
    return np.repeat(once, times, axis=0)


def table_of(counts: dict[str, int], mechanism: Mechanism | Bundle) -> tuple[pa.Table, list[OutputColumn]]:
    """The answers as a released table, with what its columns are."""
    if isinstance(mechanism, Bundle):
        made = bundled.decoder_of(mechanism, "symbols")
    else:
        made = decoder(mechanism, "symbols", Stream.of())
    arrays = made.arrays(drawn_of(counts, mechanism), 0)
    return pa.table(arrays, names=[c.name for c in made.columns]), list(made.columns)


def export(counts: dict[str, int], mechanism: Mechanism | Bundle, to: Path, *, force: bool = False) -> Path:
    """Write the answers as a .csv or .parquet table, with its manifest and the mechanism file beside it."""
    if not counts:
        raise InputError("no answers have arrived yet: there is nothing to export.")
    table, columns = table_of(counts, mechanism)
    note = manifest_path(to)
    check_target(to, None, force=force)
    mechanism.save(to.with_name(f"{note.name.removesuffix('.manifest.json')}.mechanism.json"), force=force)
    with all_drafted([note, to], folder=None) as (told, draft):
        with output(writer_for(to, ()), draft.open, to) as write:
            for batch in table.to_batches():
                write(batch)
        draft.settle()
        described = manifest_of(
            mechanism, rows=table.num_rows, columns=columns, decode="symbols", engine=ENGINE, randomness=RANDOMNESS,
            size=draft.size,
        )
        told.fill(described.encoded())
        publish_all([told, draft], replace=force)
    return to


def one_way(counts: dict[str, int], mechanism: Mechanism | Bundle, level: float = 0.95) -> list[Record]:
    """The estimated table of every question with intervals; those of one table hold at once.

    A mechanism that answers with one value is looked at as a bundle of one part, whose tables of single columns are
    estimated one by one; one that answers with a set tells the table of all its inputs.
    """
    from sfumato.estimation import estimate

    if isinstance(mechanism, Mechanism) and mechanism.law.words == 1:
        mechanism = Bundle((mechanism,), mechanism.secret)
    table, _ = table_of(counts, mechanism)
    found: Any = estimate(table, mechanism)
    if isinstance(mechanism, Bundle):
        tables = [found.table(name) for name in found.columns]
        return [_told(t.columns[0].name, t.columns[0].labels, t.p, t.interval(level)) for t in tables]
    name = ", ".join(c.name for c in mechanism.reading)
    texts = [mechanism.input_text(x) for x in range(mechanism.inputs)]
    return [_told(name, texts, found.p, found.interval(level))]


def _told(name: str, labels: Sequence[Label], p: Floats, interval: tuple[Floats, Floats]) -> Record:
    low, high = interval
    return {"name": name, "labels": list(labels), "p": p.ravel(), "low": low.ravel(), "high": high.ravel()}
