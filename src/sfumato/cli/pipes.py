"""Pipes: a table from standard input, and a release into standard output. A pipe cannot be all or nothing."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sfumato.cli.console import listed, progress, story
from sfumato.cli.plan import Plan
from sfumato.cli.road import Wanted
from sfumato.errors import InputError, OutputError, SfumatoError
from sfumato.releasing.engine import Flow
from sfumato.releasing.randomness import Stream
from sfumato.releasing.writing import output, stream_writer
from sfumato.sources import Source, open_source
from sfumato.sources.delimited import stream_source

PIPE = "-"
DELIMITERS = {"csv": ",", "tsv": "\t"}
NOT_ATOMIC = (
    "Rows go to standard output as they are drawn. A pipe cannot be all or nothing: if this ends with an error, "
    "discard what was written."
)
HALF = "What was written is not the whole table: discard it."


def is_pipe(where: Any) -> bool:
    """Whether an argument means standard input or output."""
    return str(where) == PIPE


def table_source(where: Any, form: str | None = None) -> Source:
    """A table on the command line: a file, a folder, an address, or '-' for standard input, which is read once."""
    if not is_pipe(where):
        return open_source(where)
    stream = sys.stdin.buffer
    if form != "arrow":
        return stream_source(stream, DELIMITERS[form or "csv"])
    try:
        return replace(open_source(pa.ipc.open_stream(stream)), name="standard input")
    except pa.ArrowInvalid:
        raise InputError("standard input is not a stream of Arrow's. Is it CSV? Then leave out --format.") from None


class Through(io.RawIOBase):
    """Standard output as a file that is flushed with every write and never closed."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.stream.write(data)
        self.stream.flush()
        return len(data)


def streamed(source: Source, plan: Plan, wanted: Wanted, form: str | None) -> None:
    """Release into standard output; what is said about it goes to stderr."""
    flow = Flow.of(
        source, plan.mechanism, wanted.decode, wanted.keep, wanted.secret, wanted.useful, Stream.of(wanted.seed)
    )
    story(NOT_ATOMIC, err=True)
    out = Through(sys.stdout.buffer)
    rows = 0
    try:
        with (
            progress(f"releasing {source.name}", source.expected, rows=True) as tell,
            output(stream_writer(form or "csv", wanted.raw_cells), lambda name: pa.PythonFile(out, "w")) as write,
        ):
            for batch in flow.batches(tell):
                write(batch)
                rows += batch.num_rows
    except (BrokenPipeError, SfumatoError) as error:  # whoever reads has seen enough, or it is said already
        if isinstance(error, BrokenPipeError) or not rows:
            raise
        raise type(error)(f"{error} {HALF}") from None
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else "the system gave no reason"
        raise OutputError(f"standard output could not be written: {why}. {HALF}") from None
    columns = listed([c.name for c in flow.columns])
    story(f"Released {rows:,} rows with {columns}: {plan.mechanism.claim.sentence}.", err=True)
    if wanted.decode != "symbols":
        story(f"There is no manifest: whoever estimates from them must say --decode {wanted.decode}.", err=True)
    if wanted.seed is not None:
        story("Seeded: not for release, whoever knows the seed can undo the randomness.", err=True)
