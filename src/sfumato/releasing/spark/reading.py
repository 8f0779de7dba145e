"""What a release on Spark reads, and under which names: the part that every way of releasing shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from sfumato.drawing.decoding import GUESS
from sfumato.drawing.manifest import SPARK_KEY, Told
from sfumato.errors import At, InputError
from sfumato.mechanism.bundle import any_record
from sfumato.releasing.flow import Flow, reading
from sfumato.releasing.spark import worker
from sfumato.releasing.spark.scanning import scan_of
from sfumato.releasing.spark.worker import Batches
from sfumato.sources.spark_frames import WEIGHT, column, grouped, map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType

    from sfumato.sources.source import Frame

Opened = Callable[[Batches], Batches]
SPELLED = (
    "string", "char", "varchar", "boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "date",
    "timestamp", "timestamp_ntz", "binary", "void",
)  # types whose values have one spelling in bytes


def job_of(flow: Flow, *, numbered: bool = False) -> worker.Job:
    """What the workers must know of a release; `numbered` rows have a number in files."""
    record = msgspec.json.encode(any_record(flow.mechanism))
    guessed = any(c.role == "guess" for c in flow.decoder.columns)
    inputs = len(worker.coded_apart(flow.mechanism))
    decode, compared = GUESS if guessed else flow.decode, tuple(flow.compared)
    return worker.Job(record, flow.stream.key, decode, len(flow.kept), len(flow.id), inputs, compared, numbered)


def looked_at(flow: Flow) -> list[str]:
    """The columns that workers look at: those of the input code in its order, then those that are only compared."""
    return [*(flow.coded[c.name] for c in reading(flow.mechanism)), *flow.compared.values()]


def rows_of(flow: Flow) -> tuple[Frame, Opened]:
    """A frame and what a worker does to get, from its batches, those of the rows: columns c… (looked at), k… (kept) and
    i… (names). Where the frame is nothing but files, workers read these themselves."""
    kept = _inner("k", flow.kept) | _inner("i", flow.id)
    return _opened(flow.source.cluster, _inner("c", looked_at(flow)), kept)


def names_of(flow: Flow) -> tuple[Frame, Opened]:
    """The same for the names of rows alone."""
    return _opened(flow.source.cluster, {}, _inner("i", flow.id))


def _opened(frame: Frame, coded: dict[str, str], kept: dict[str, str]) -> tuple[Frame, Opened]:
    scan = scan_of(frame, coded, kept)
    if scan is not None:
        parts = len(scan.shares)
        return frame.sparkSession.range(0, parts, 1, parts), scan.read
    return frame.select(*(column(name).alias(inner) for inner, name in (coded | kept).items())), iter


def _inner(prefix: str, names: Sequence[str]) -> dict[str, str]:
    """Names inside for those of the source."""
    return {f"{prefix}{i}": name for i, name in enumerate(names)}


def encoded(flow: Flow) -> Frame:
    """The rows of a release that keeps nothing, as columns x0 (input code) and n (how often); a code may come twice."""
    schema = pa.schema([(name, pa.int64()) for name in (*job_of(flow).codes, WEIGHT)])
    frame, opened = rows_of(flow)
    columns = [c for a in (flow.mechanism.secret, flow.mechanism.useful) for c in a.columns]
    if opened is iter and all(c.cuts is None for c in columns):  # few distinct values: Spark counts them first
        frame = grouped(flow.source.cluster, looked_at(flow))
    return map_in_arrow(frame, partial(worker.encode, job_of(flow), opened), schema)


def check_kinds(flow: Flow) -> None:
    """Refuse to tell rows apart by values whose bytes may differ where they are the same."""
    for field in flow.source.cluster.select(*(column(n) for n in (*flow.kept, *flow.id))).schema.fields:
        if not _spelled(field.dataType):
            raise InputError(
                f"of Spark type {field.dataType.typeName()} cannot be kept: its values have no spelling to tell rows "
                "apart by", next="Cast it to text first.", where=At(field.name),
            )


def _spelled(kind: DataType) -> bool:
    inner = [getattr(kind, n) for n in ("elementType", "keyType", "valueType") if hasattr(kind, n)]
    inner += [f.dataType for f in getattr(kind, "fields", ())]
    return all(map(_spelled, inner)) if kind.typeName() in ("array", "map", "struct") else kind.typeName() in SPELLED


def shuffle_parts(flow: Flow) -> int:
    """The number of parts that the session asks for."""
    return int(flow.source.cluster.sparkSession.conf.get("spark.sql.shuffle.partitions"))


def as_columns(flow: Flow, rows: Frame) -> Frame:
    """Released rows of columns k…, y… under the names and in the order of the release."""
    from pyspark.sql import functions as F

    told = Told(any_record(flow.mechanism).checksum, flow.decode, flow.stream.description)
    fields, ours = kept_fields(flow), {SPARK_KEY: told._asdict()}
    return rows.select(*(
        F.col(inner).alias(name, metadata=fields[inner].metadata if inner in fields else ours)
        for inner, name in output_names(flow)
    ))


def kept_fields(flow: Flow) -> dict[str, StructField]:
    """Kept columns by their internal names, with their fields in the source's schema."""
    fields = flow.source.cluster.select(*(column(name) for name in flow.kept)).schema.fields if flow.kept else []
    return {f"k{i}": field for i, field in enumerate(fields)}


def answer_keys(flow: Flow) -> list[str]:
    """The internal names of the released columns: y0, y1, …"""
    return [f"y{i}" for i in range(len(flow.decoder.columns))]


def answer_schema(flow: Flow) -> StructType:
    """Spark's schema of released rows inside: columns k…, y…"""
    from pyspark.sql.types import StringType, StructField, StructType

    fields = [StructField(name, field.dataType) for name, field in kept_fields(flow).items()]
    return StructType([*fields, *(StructField(name, StringType()) for name in answer_keys(flow))])


def output_names(flow: Flow) -> list[tuple[str, str]]:
    """(internal name, released name) in the order of the released table. Inside, kept columns come first."""
    inner = [*answer_keys(flow), *(f"k{i}" for i in range(len(flow.kept)))]
    named = list(zip(inner, [*(c.name for c in flow.decoder.columns), *flow.kept], strict=True))
    return [named[i] for i in flow.order]
