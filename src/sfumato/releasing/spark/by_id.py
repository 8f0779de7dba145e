"""A Spark release row by row, for a table whose rows have names: no row is counted, and none is moved.

The noise of a row is a pseudorandom function of its name and its input under the key of the release. Names are unique,
so no two rows share a place, and no random word is used twice; where a row is computed, and how often, does not matter.
The multiset of a release that keeps the name alone is that of the counting way (`release`): n-th equal rows are all
first ones.

What must hold is looked at before anything is drawn: that names are unique, because rows of one name and one input
would answer alike; and that rows do not change from one computation to the next, because a row whose name is drawn anew
has its noise drawn anew. Rows stay in the parts and in the order of the source, as in the local engine; so a source
that is sorted or divided by what is protected is refused where its plan or its folders say so.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from sfumato.errors import DataError, InputError
from sfumato.releasing.flow import Flow
from sfumato.releasing.spark import worker
from sfumato.releasing.spark.digest import digest
from sfumato.releasing.spark.reading import answer_keys, job_of, kept_fields, looked_at
from sfumato.sources.spark_frames import column, map_in_arrow, plain_columns

RANDOM = re.compile(r"\b(uuid|rand|randn|random|shuffle|monotonically_increasing_id|spark_partition_id)\(")
MIXED = re.compile(r"^\W*Repartition \d+, true")  # by turns: where a row stood before does not matter
MOVED = re.compile(r"^\W*(Sort|RepartitionByExpression|Aggregate|Window|Deduplicate|Distinct)\b")


def named_rows(flow: Flow) -> Any:
    """The rows as columns c… (read), k… (kept) and d (a digest of the name)."""
    frame, coded = flow.source.cluster, looked_at(flow)
    inner = [f"i{i}" for i in range(len(flow.id))]
    named = frame.select(*(column(n) for n in flow.id)).schema.fields
    rows = frame.select(
        *plain_columns(coded), *plain_columns(flow.kept, "k"), *plain_columns(flow.id, "i")
    )
    return rows.withColumn("d", digest(dict(zip(inner, named, strict=True)))).drop(*inner)


def answered(flow: Flow) -> Any:
    """Released rows, lazily: columns k…, y…"""
    from pyspark.sql.types import StringType, StructField, StructType

    fields = [StructField(name, field.dataType) for name, field in kept_fields(flow).items()]
    fields += [StructField(name, StringType()) for name in answer_keys(flow)]
    return map_in_arrow(named_rows(flow), partial(worker.answer, job_of(flow)), StructType(fields))


def check_names(flow: Flow) -> None:
    """Refuse a table in which two rows have one name. Where all hashes of 64 bits differ, so do the names."""
    from pyspark.sql import functions as F

    hashes = flow.source.cluster.select(F.xxhash64(*(column(n) for n in flow.id)).alias("h"))
    total, distinct = hashes.agg(F.count(F.lit(1)), F.count_distinct("h")).first()
    if total != distinct and (names := named_rows(flow).select("d").distinct().count()) != total:
        raise DataError(
            f"{', '.join(flow.id)}: {total:,} rows have {names:,} names. Give id= columns that no two rows share, or "
            "leave it out: then rows are counted."
        )


def check_repeatable(flow: Flow) -> None:
    """Refuse rows that Spark would make anew, and otherwise, at each computation: uuid(), rand() and their like."""
    asked, plan = _plans(flow)
    found = RANDOM.search(plan) or (RANDOM.search(asked) if "LocalRelation" in plan else None)  # evaluated at planning
    if found:
        raise InputError(
            f"the Spark data frame is drawn anew at each computation ({found[1]}): a repeated task would release other "
            "rows with other noise. Write it to files first and release from these, or checkpoint it."
        )


def check_order(flow: Flow) -> None:
    """Refuse rows that stand where they do because of what is protected: they are released where they stand."""
    lines = _plans(flow)[1].split("\n")
    mixed = next((i for i, line in enumerate(lines) if MIXED.search(line)), None)
    for name in flow.private:
        moved = any(MOVED.search(x) and re.search(rf"\b{re.escape(name)}#", x) for x in lines[:mixed])
        divided = mixed is None and any(f"/{name}=" in file for file in flow.source.cluster.inputFiles())
        if moved or divided:
            raise InputError(
                f"the Spark data frame is sorted, grouped or divided by {name!r}, and with id= rows stay where they "
                "are, which would tell it. Mix it first (frame.repartition(n)), or leave id= out."
            )


def _plans(flow: Flow) -> tuple[str, str]:
    """The plan for the columns that are used, as text: as it was asked for, and optimised."""
    used = dict.fromkeys((*looked_at(flow), *flow.kept, *flow.id))
    frame = flow.source.cluster.select(*(column(n) for n in used))
    classic = type(frame).__module__.startswith("pyspark.sql.classic")
    text = str(frame._jdf.queryExecution().toString() if classic else frame._explain_string(extended=True))
    asked, _, rest = text.partition("== Optimized Logical Plan ==")
    return asked, rest.partition("== Physical Plan ==")[0]
