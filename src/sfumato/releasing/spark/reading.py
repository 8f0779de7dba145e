"""What a release on Spark reads, and under which names: the part that every way of releasing shares."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from sfumato.drawing.decoding import GUESS
from sfumato.mechanism import Bundle
from sfumato.mechanism.bundle_file import any_record
from sfumato.releasing.flow import Flow
from sfumato.releasing.spark import worker
from sfumato.sources.spark_frames import WEIGHT, column, grouped, map_in_arrow, plain_columns


def job_of(flow: Flow) -> worker.Job:
    """What the workers must know of a release."""
    record = msgspec.json.encode(any_record(flow.mechanism))
    guessed = any(c.role == "guess" for c in flow.decoder.columns)
    inputs = len(worker.coded_apart(flow.mechanism))
    decode, compared = GUESS if guessed else flow.decode, tuple(flow.compared)
    return worker.Job(record, flow.stream.key, decode, len(flow.kept), inputs, compared)


def looked_at(flow: Flow) -> list[str]:
    """The columns that workers look at: those of the input code in its order, then those that are only compared."""
    return [*(flow.coded[c.name] for c in worker.reading(flow.mechanism)), *flow.compared.values()]


def encoded(flow: Flow) -> Any:
    """The rows as columns k… (kept), x… (input code) and n (how often). One code may come in several rows."""
    from pyspark.sql.types import LongType, StructField, StructType

    passed = [StructField(name, field.dataType) for name, field in kept_fields(flow).items()]
    schema = StructType([*passed, *(StructField(name, LongType()) for name in (*job_of(flow).codes, WEIGHT))])
    frame, coded = flow.source.cluster, looked_at(flow)
    if counted_first(flow):
        rows = grouped(frame, coded)
    else:
        rows = frame.select(*plain_columns(coded), *plain_columns(flow.kept, "k"))
    return map_in_arrow(rows, partial(worker.encode, job_of(flow)), schema)


def counted_first(flow: Flow) -> bool:
    """Whether rows take few distinct values, so that Spark counts these before Python sees them."""
    if isinstance(flow.mechanism, Bundle):  # of many columns nearly every row has values of its own
        return False
    alphabets = (flow.mechanism.secret, flow.mechanism.useful)
    return not flow.kept and all(c.cuts is None for a in alphabets for c in a.columns)


def shuffle_parts(flow: Flow) -> int:
    """The number of parts that the session asks for."""
    return int(flow.source.cluster.sparkSession.conf.get("spark.sql.shuffle.partitions"))


def kept_fields(flow: Flow) -> dict[str, Any]:
    """Kept columns by their internal names, with their fields in the source's schema."""
    fields = flow.source.cluster.select(*(column(name) for name in flow.kept)).schema.fields if flow.kept else []
    return {f"k{i}": field for i, field in enumerate(fields)}


def answer_keys(flow: Flow) -> list[str]:
    """The internal names of the released columns: y0, y1, …"""
    return [f"y{i}" for i in range(len(flow.decoder.columns))]


def output_names(flow: Flow) -> list[tuple[str, str]]:
    """(internal name, released name) in the order of the released table. Inside, kept columns come first."""
    inner = [*answer_keys(flow), *(f"k{i}" for i in range(len(flow.kept)))]
    named = list(zip(inner, [*(c.name for c in flow.decoder.columns), *flow.kept], strict=True))
    return [named[i] for i in flow.order]
