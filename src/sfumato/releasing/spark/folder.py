"""A release into a folder of Parquet files by many workers, all or nothing.

On a path that driver and workers share, workers write parts into a hidden folder under names of their own, and tell
which they finished. Only the parts of the attempts that Spark accepted are moved into a second hidden folder, which
then takes the name in one step: a part of a failed, repeated or speculative attempt is never among them. On an object
store or HDFS Spark's own committer does the work, and the folder is whole when it holds `_SUCCESS`.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa

from sfumato.atomic import as_output_error, drafts
from sfumato.drawing.manifest import Manifest, manifest_path
from sfumato.errors import DataError, InputError, OutputError, option
from sfumato.releasing.flow import Flow
from sfumato.releasing.spark import answering, by_id, by_place, driver
from sfumato.releasing.spark.reading import output_names
from sfumato.releasing.spark.worker import Batches
from sfumato.releasing.writing import GROUP_ROWS
from sfumato.sources.spark_frames import map_in_arrow, worker_errors

if TYPE_CHECKING:
    from sfumato.sources.source import Frame

URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
OTHERWISE = f"Choose another name, or replace it with {option('--force', 'force=True')}."
WRITTEN = pa.schema([("file", pa.string()), ("rows", pa.int64())])


class Written(NamedTuple):
    """What was written: where, how many rows, and their manifest."""

    path: Path | str  # a URL stays text: a Path would lose one of its slashes
    rows: int
    manifest: Manifest


def write_folder(
    flow: Flow, counts: Callable[[], Frame], rows: Callable[[], Frame], to: str | os.PathLike[str], *, force: bool
) -> Written:
    """Write counted answers out as rows under a path or a URL, and the manifest beside them."""
    text = os.fspath(to)
    suffix = Path(text).suffix.lower()
    if suffix not in ("", ".parquet"):
        raise InputError("a Spark release is a folder of Parquet files; its name must end in .parquet", value=text)
    if URL.match(text) and not text.startswith("file://"):
        return _to_url(flow, rows(), text, force=force)
    target = Path(unquote(urlparse(text).path) if text.startswith("file://") else text).absolute()
    for path in (target, manifest_path(target)):
        _check_target(path, flow.source.cluster, force=force)
    return _to_path(flow, counts, target, force=force)


def _check_target(target: Path, frame: Frame, *, force: bool) -> None:
    """Refuse to write over the input ever, over anything else without force, or into a missing folder."""
    inputs = [Path(unquote(urlparse(x).path)) for x in frame.inputFiles()] if target.exists() else []
    if any(target.resolve() in (x.resolve(), *x.resolve().parents) for x in inputs):
        next = "Choose another name for the output; nothing was released."
        raise OutputError("is the input", next=next, where=target)
    if target.exists() and not force:
        raise OutputError("exists", next=OTHERWISE, where=target)
    if not target.parent.is_dir():
        raise OutputError("does not exist", next="Create the folder first.", where=target.parent)


def _to_path(flow: Flow, counts: Callable[[], Frame], target: Path, *, force: bool) -> Written:
    with _hidden(target) as (staging, whole):
        told = _parts(flow, counts, partial(_write, str(staging), output_names(flow)))
        total = int(np.asarray(told.column(1)).sum())
        if not total:
            raise DataError("has no rows: there is nothing to tabulate or release", where=flow.source.name)
        for at, name in enumerate(told.column("file").to_pylist()):
            if not (staging / name).exists():
                raise OutputError(
                    f"parts of {target} were written on other machines and cannot be seen from here",
                    next="Give a folder that all machines share, or a URL such as hdfs:// or s3a://. Nothing was "
                    "released.",
                )
            os.rename(staging / name, whole / f"part-{at:05}.parquet")
        with drafts(manifest_path(target)) as (note,), as_output_error(target):
            manifest = flow.manifest(total, engine="spark")
            os.write(note.descriptor, manifest.encoded())
            note.settle()
            note.publish(replace=force)
            _publish(whole, target, force=force)
    return Written(target, total, manifest)


def _parts(flow: Flow, counts: Callable[[], Frame], write: partial[Batches]) -> pa.Table:
    """What the tasks that wrote the rows tell: answered where they are, moved by what they are, or counted."""
    if flow.id:
        return by_id.written(flow, partial(_write_part, write))
    if by_place.suits(flow):
        return by_place.written(flow, write, WRITTEN)
    write = partial(_expand_and_write, write)
    return driver.written(flow, write, WRITTEN) if driver.suits(flow) else map_in_arrow(
        counts(), write, WRITTEN).toArrow()


def _write_part(write: partial[Batches], batches: Batches) -> Batches:
    """In a worker: rows into a file that every attempt of this task calls the same, and fills the same. What is told of
    it passes through a shuffle, and Spark fails a job whose shuffled rows are others when they are computed again."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    for note in write(batches):
        staging, own = Path(write.args[0]), f"{task.partitionId()}.parquet"
        os.replace(staging / note.column("file")[0].as_py(), staging / own)
        yield note.set_column(0, "file", pa.array([own]))


def _expand_and_write(write: Callable[[Batches], Batches], batches: Batches) -> Batches:
    """In a worker: counted answers to rows, and these to a file."""
    return write(answering.expand(_as_codes(batches)))


def _as_codes(batches: Batches) -> Batches:
    """The same batches with answers as dictionaries: repeated and written as numbers, as the local engine does."""
    for batch in batches:
        *answers, counts = batch.columns
        yield pa.RecordBatch.from_arrays([*(a.dictionary_encode() for a in answers), counts], names=batch.schema.names)


@contextlib.contextmanager
def _hidden(target: Path) -> Iterator[tuple[Path, Path]]:
    """Two hidden folders beside the target, gone afterwards whatever happens."""
    token = secrets.token_hex(6)
    made = [target.with_name(f".{target.name}.{token}.{end}") for end in ("parts", "part")]
    try:
        with as_output_error(target):
            for folder in made:
                folder.mkdir()
        yield made[0], made[1]
    finally:
        for folder in made:
            shutil.rmtree(folder, ignore_errors=True)


def _publish(whole: Path, target: Path, *, force: bool) -> None:
    """Give the folder its name. What had it before is moved away first and deleted after."""
    old = whole.with_suffix(".old")
    if force and target.exists():
        os.rename(target, old)
    try:
        os.rename(whole, target)
    except OSError:
        if old.exists():
            os.rename(old, target)
        raise
    if old.is_dir():
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.unlink(missing_ok=True)


def _write(staging: str, names: list[tuple[str, str]], batches: Batches) -> Batches:
    """In a worker: rows into a file of this attempt's own, its name told only when it is safely on the disk."""
    from pyarrow import parquet

    name, writer, rows = f"{secrets.token_hex(16)}.parquet", None, 0
    path = Path(staging, name)
    with worker_errors(), as_output_error(Path(staging)):
        for group in _row_groups(batches):
            part = pa.table([group.column(i) for i, _ in names], names=[n for _, n in names])
            writer = writer or parquet.ParquetWriter(str(path), part.schema)
            writer.write_table(part)
            rows += part.num_rows
        if writer is not None:
            writer.close()
            with open(path, "rb") as file:
                os.fsync(file.fileno())
    if rows:
        yield pa.record_batch({"file": [name], "rows": [rows]}, schema=WRITTEN)


def _row_groups(batches: Batches) -> Iterator[pa.Table]:
    """Batches gathered to row groups of GROUP_ROWS."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(b.num_rows for b in waiting) >= GROUP_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _to_url(flow: Flow, rows: Frame, url: str, *, force: bool) -> Written:
    """By Spark's writer and committer; the manifest as one text file in a folder beside, by the same road."""
    from pyspark.errors import AnalysisException

    session = rows.sparkSession
    mode = "overwrite" if force else "errorifexists"
    try:
        rows.write.mode(mode).parquet(url)
    except AnalysisException as error:
        if "ALREADY_EXISTS" not in str(error.getCondition()):
            raise
        raise OutputError("exists", next=OTHERWISE, where=url) from None
    written = session.read.parquet(url).count()
    manifest = flow.manifest(written, engine="spark")
    note = session.createDataFrame([(manifest.encoded().decode(),)], "value string")
    beside = re.sub(r"(\.parquet)?/*$", ".manifest.json", url, count=1)
    note.coalesce(1).write.mode(mode).text(beside)
    return Written(url, written, manifest)
