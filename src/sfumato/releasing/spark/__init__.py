"""The Spark engine: a release whose noise repeats with every recomputed, speculative or second run of a task.

A release is a function of one secret key and of the multiset of rows, or of the files that rows are read from: the
noise of a row is found by its place (`drawing.randomness`). So nothing depends on the order in which files are listed,
shuffles arrive or tasks are retried, and two actions on one lazy result see the same noise. Rows with names are
answered where they are (`by_id`), others are moved by what they are, or counted (`by_value`).

On a path that driver and workers share, workers write parts into a hidden folder under names of their own, and tell
which they finished. Only the parts of the attempts that Spark accepted are moved into a second hidden folder, which
then takes the name in one step: a part of a failed, repeated or speculative attempt is never among them. On an object
store or HDFS Spark's own committer does the work, and the folder is whole when it holds `_SUCCESS`.
"""

from __future__ import annotations

import os
import re
import secrets
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa

from sfumato.atomic import (
    ELSEWHERE,
    OTHERWISE,
    FileDraft,
    FolderDraft,
    as_output_error,
    check_folder,
    drafts,
    publish_all,
)
from sfumato.drawing.manifest import Manifest, manifest_path
from sfumato.errors import DataError, InputError, OutputError
from sfumato.libraries import pyspark
from sfumato.mechanism.file import encoded
from sfumato.releasing.flow import Flow
from sfumato.releasing.spark import by_id, by_value
from sfumato.releasing.spark.by_id import check_order, check_repeatable
from sfumato.releasing.spark.reading import as_columns, check_kinds, output_names
from sfumato.releasing.spark.tasks import Batches
from sfumato.releasing.writing import ParquetOutput, output
from sfumato.sources.data_frames import clear_errors, worker_errors

if TYPE_CHECKING:
    from sfumato.sources.source import Frame

URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
WRITTEN = pa.schema([("file", pa.string()), ("rows", pa.int64())])


Written = tuple[Path | str, int, Manifest]  # where (a URL stays text: a Path would lose a slash), and how many rows


def cluster_release(flow: Flow, to: str | os.PathLike[str] | None, *, force: bool) -> Frame | Written:
    """The released rows as a lazy Spark data frame, or written to a folder of Parquet files."""
    with clear_errors():
        if flow.kept or flow.id:
            check_repeatable(flow)
            check_kinds(flow)
        if flow.id:
            check_order(flow)
        return _rows(flow) if to is None else _folder(flow, os.fspath(to), force=force)


def _rows(flow: Flow) -> Frame:
    """The released rows, lazily, with the source's names and types."""
    return as_columns(flow, by_id.answered(flow) if flow.id else by_value.answered(flow))


def _folder(flow: Flow, to: str, *, force: bool) -> Written:
    """The rows under a path or a URL, and the manifest beside them."""
    if Path(to).suffix.lower() not in ("", ".parquet"):
        raise InputError("a Spark release is a folder of Parquet files; its name must end in .parquet", value=to)
    if URL.match(to) and not to.startswith("file://"):
        return _to_url(flow, _rows(flow), to, force=force)
    target = Path(unquote(urlparse(to).path) if to.startswith("file://") else to).absolute()
    for path in (target, manifest_path(target)):
        _check_target(path, flow.source.cluster, force=force)
    return _to_path(flow, target, force=force)


def _check_target(target: Path, frame: Frame, *, force: bool) -> None:
    """Refuse to write over the input ever, over anything else without force, or where nothing can be."""
    inputs = [Path(unquote(urlparse(x).path)) for x in frame.inputFiles()] if target.exists() else []
    if any(target.resolve() in (x.resolve(), *x.resolve().parents) for x in inputs):
        raise OutputError("is the input", next=ELSEWHERE, where=target)
    if target.exists() and not force:
        raise OutputError("exists", next=OTHERWISE, where=target)
    check_folder(target)


def _to_path(flow: Flow, target: Path, *, force: bool) -> Written:
    with drafts([(target, partial(FolderDraft.beside, target))] * 2) as (parts, whole):  # the former is never named
        staging, write = parts.hidden, partial(_write, str(parts.hidden), output_names(flow))
        told = by_id.written(flow, partial(_write_part, write)) if flow.id else by_value.written(flow, write, WRITTEN)
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
            os.rename(staging / name, whole.hidden / f"part-{at:05}.parquet")
        manifest = flow.manifest(total, engine="spark")
        beside = manifest_path(target)
        with drafts([(beside, partial(FileDraft.beside, beside))]) as (note,):
            note.fill(encoded(manifest))
            publish_all([note, whole], replace=force)
    return target, total, manifest


def _write_part(write: partial[Batches], batches: Batches) -> Batches:
    """In a worker: rows into a file that every attempt of this task calls the same, and fills the same. What is told of
    it passes through a shuffle, and Spark fails a job whose shuffled rows are others when they are computed again."""
    task = pyspark.TaskContext.get()
    assert task is not None
    for note in write(batches):
        staging, own = Path(write.args[0]), f"{task.partitionId()}.parquet"
        os.replace(staging / note.column("file")[0].as_py(), staging / own)
        yield note.set_column(0, "file", pa.array([own]))


def _write(staging: str, names: list[tuple[str, str]], batches: Batches) -> Batches:
    """In a worker: rows into a file of this attempt's own, its name told only when it is safely on the disk."""
    path, rows = Path(staging, f"{secrets.token_hex(16)}.parquet"), 0
    with worker_errors():
        with output(ParquetOutput, lambda name: pa.OSFile(str(path), "wb"), Path(staging)) as write:
            for batch in batches:
                columns = [batch.column(inner) for inner, _ in names]
                write(pa.RecordBatch.from_arrays(columns, names=[name for _, name in names]))
                rows += batch.num_rows
        if rows:
            with as_output_error(Path(staging)), open(path, "rb") as file:
                os.fsync(file.fileno())
    if rows:
        yield pa.record_batch({"file": [path.name], "rows": [rows]}, schema=WRITTEN)


def _to_url(flow: Flow, rows: Frame, url: str, *, force: bool) -> Written:
    """By Spark's writer and committer; the manifest as one text file in a folder beside, by the same road."""
    session = rows.sparkSession
    mode = "overwrite" if force else "errorifexists"
    try:
        rows.write.mode(mode).parquet(url)
    except pyspark.errors.AnalysisException as error:
        if "ALREADY_EXISTS" not in str(error.getCondition()):
            raise
        raise OutputError("exists", next=OTHERWISE, where=url) from None
    written = session.read.parquet(url).count()
    manifest = flow.manifest(written, engine="spark")
    note = session.createDataFrame([(encoded(manifest).decode(),)], "value string")
    beside = re.sub(r"(\.parquet)?/*$", ".manifest.json", url, count=1)
    note.coalesce(1).write.mode(mode).text(beside)
    return url, written, manifest
