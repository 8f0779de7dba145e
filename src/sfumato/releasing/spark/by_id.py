"""A Spark release row by row, for a table whose rows have names: no row is counted, and none is moved.

The noise of a row is a pseudorandom function of its name and its input under the key of the release. Names are unique,
so no two rows share a place, and no random word is used twice; where a row is computed, and how often, does not matter.
The multiset of a release that keeps the name alone is that of the other way (`by_value`): n-th equal rows are all
first ones.

What must hold is looked at before anything is given away: that names are unique, because rows of one name and one
input would answer alike, by digests that are sent along while rows are written into a hidden folder; and that rows do
not change from one computation to the next, because a row whose name is drawn anew has its noise drawn anew. Rows stay
in the parts and in the order of the source, as in the local engine; so a source that is sorted or divided by what is
protected is refused where its plan or its folders say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.drawing.randomness import Blocks, distinct
from sfumato.errors import DataError, InputError
from sfumato.mechanism.law import Words
from sfumato.releasing.flow import Flow
from sfumato.releasing.spark import answering
from sfumato.releasing.spark.answering import BUCKETS, PIECES, exchanged
from sfumato.releasing.spark.reading import RowsRead, answer_schema, job_of, looked_at, rows_of, shuffle_parts
from sfumato.releasing.spark.tasks import Batches, Job, Opened, PlacedDraws, Write
from sfumato.sources.data_frames import column, map_in_arrow
from sfumato.tolerances import ROWS_AT_ONCE

if TYPE_CHECKING:
    from sfumato.sources.source import Frame

TOLD = pa.schema([*PIECES, ("file", pa.string()), ("count", pa.int64()), ("names", pa.int64())])

RANDOM = re.compile(r"\b(uuid|rand|randn|random|shuffle|monotonically_increasing_id|spark_partition_id)\(")
CLOCK = re.compile(r"\b(now|current_timestamp|current_date|current_time|localtimestamp|curdate|unix_timestamp)\(\s*\)")
MIXED = re.compile(r"^\W*Repartition \d+, true")  # by turns: where a row stood before does not matter
MOVED = re.compile(r"^\W*(Sort|RepartitionByExpression|Aggregate|Window|Deduplicate|Distinct)\b")


def answered(flow: Flow) -> Frame:
    """Released rows, lazily: columns k…, y…; a table in which two rows have one name is refused before."""
    rows, parts = rows_of(flow), shuffle_parts(flow)
    names = rows.names
    told = map_in_arrow(names.frame, partial(_tell, job_of(flow), names.opened, parts), TOLD)
    _check(flow, rows, map_in_arrow(exchanged(told, parts), _compare, TOLD).toArrow())
    return map_in_arrow(rows.frame, partial(_answer_plainly, job_of(flow), rows.opened), answer_schema(flow))


def written(flow: Flow, write: Write) -> pa.Table:
    """What `write` tells of the rows that every task wrote, once no two of all rows have one name. One pass."""
    rows, parts = rows_of(flow), shuffle_parts(flow)
    told = map_in_arrow(rows.frame, partial(_write_and_tell, job_of(flow), rows.opened, write, parts), TOLD)
    found = map_in_arrow(exchanged(told, parts), _compare, TOLD).toArrow()
    _check(flow, rows, found)
    return found.filter(pc.is_valid(found.column("file"))).select(["file", "count"])


def _check(flow: Flow, rows: RowsRead, found: pa.Table) -> None:
    """Refuse names that are not unique. Where all first halves of digests differ, so do the names; where some agree,
    whole digests are compared, those by which rows find their noise. So no two equal names are ever missed, and n
    different ones are refused with a chance of n² / 2^129."""
    total, halves = _numbers(found)
    if total == halves:
        return
    names, parts = rows.names, shuffle_parts(flow)
    whole = map_in_arrow(names.frame, partial(_tell_all, job_of(flow), names.opened, parts), PIECES)
    total, different = _numbers(map_in_arrow(exchanged(whole, parts), _compare_all, TOLD).toArrow())
    if total != different:
        raise DataError(
            f"{', '.join(flow.id)}: {total:,} rows have {different:,} names",
            next="Give id= columns that no two rows share, or leave it out: then rows are moved by what they are.",
        )


def _numbers(found: pa.Table) -> tuple[int, int]:
    """Of rows, and of what differs among them."""
    compared = found.filter(pc.is_null(found.column("file")))
    total, different = (pc.sum(compared.column(n)).as_py() or 0 for n in ("count", "names"))
    return total, different


def _answer_plainly(job: Job, opened: Opened, batches: Batches) -> Batches:
    for batch, _ in answering.answer(job, opened(batches)):
        yield answering.plain(batch)


def _digests(job: Job, batches: Batches) -> Iterator[Blocks]:
    own = PlacedDraws(job)
    return (own.named(batch) for batch in batches)


def _tell(job: Job, opened: Opened, parts: int, batches: Batches) -> Batches:
    """In a worker: the first halves of digests of names, in pieces."""
    return _pieces([d[:, 0] for d in _digests(job, opened(batches))], parts)


def _tell_all(job: Job, opened: Opened, parts: int, batches: Batches) -> Batches:
    """In a worker: whole digests of names, in pieces."""
    each = _digests(job, opened(batches))
    rows = ((pa.RecordBatch.from_arrays([*map(pa.array, d.T)], names=["d0", "d1"]), d[:, 0]) for d in each)
    return answering.cut(rows, parts)


def _write_and_tell(job: Job, opened: Opened, write: Write, parts: int, batches: Batches) -> Batches:
    """In a worker: rows to answers, and these to a file; then the first halves of digests of names, in pieces.

    What was written goes to the first bucket: a task that is run again tells it to whom it told it before.
    """
    halves: list[Words] = []

    def rows() -> Batches:
        for batch, names in answering.answer(job, opened(batches)):
            halves.append(names[:, 0].copy())
            yield batch

    for note in write(rows()):
        yield _told(bucket=[0], file=note.column("file"), count=note.column("rows"))
    yield from _pieces(halves, parts)


def _pieces(halves: Sequence[Words], parts: int) -> Batches:
    """Words as bytes, in the order of their buckets: that of the words themselves."""
    words = np.sort(np.concatenate([*halves, np.zeros(0, np.uint64)]))
    edges = np.searchsorted(words, [answering.first_of(bucket, parts) for bucket in range(1, parts * BUCKETS)]).tolist()
    for bucket, (start, stop) in enumerate(pairwise([0, *edges, len(words)])):
        for low in range(start, stop, ROWS_AT_ONCE):
            yield _told(bucket=[bucket], rows=[words[low : min(stop, low + ROWS_AT_ONCE)].tobytes()])


def _compare(batches: Batches) -> Batches:
    """In a worker: pieces as the numbers of words and of different ones; what is told of files passes by."""
    files: list[pa.RecordBatch] = []

    def pieces() -> Batches:
        for batch in batches:
            written = pc.is_valid(batch.column("file"))
            files.append(batch.filter(written))
            yield batch.filter(pc.invert(written))

    for held in answering.bucket_by_bucket(pieces()):
        words = np.sort(np.concatenate([np.frombuffer(x, np.uint64) for x in held]))
        yield _told(count=[len(words)], names=[1 + int((words[1:] != words[:-1]).sum())])
    yield from files


def _compare_all(batches: Batches) -> Batches:
    """In a worker: pieces as the numbers of rows and of different names."""
    for table in answering.joined(batches):
        digests = np.stack([np.asarray(table.column(n)) for n in ("d0", "d1")], 1)
        yield _told(count=[len(digests)], names=[distinct(digests)])


def _told(**columns: Sequence[object] | pa.Array) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    held = {f.name: columns.get(f.name, pa.nulls(rows, f.type)) for f in TOLD}
    return pa.record_batch(held, schema=TOLD)


def check_repeatable(flow: Flow) -> None:
    """Refuse rows that Spark would make anew, and otherwise, at each computation: uuid(), rand() and their like, the
    clock, and whatever Spark itself does not call deterministic. What a function of the user's does it cannot know."""
    asked, plan, repeats = _plans(flow)
    found = RANDOM.search(plan) or (RANDOM.search(asked) if "LocalRelation" in plan else None)  # evaluated at planning
    found = found or CLOCK.search(asked)  # a literal once it is optimised, and another at the next computation
    if found or not repeats:
        raise InputError(
            f"the Spark data frame is drawn anew at each computation ({found[1] if found else 'as Spark says'}): a "
            "repeated task would release other rows with other noise",
            next="Write it to files first and release from these, or checkpoint it.",
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
                "are, which would tell it", next="Mix it first (frame.repartition(n)), or leave id= out.",
            )


def _plans(flow: Flow) -> tuple[str, str, bool]:
    """The plan for the columns that are used, as text: as it was asked for, and optimised; and whether Spark calls it
    deterministic, where it can be asked."""
    used = dict.fromkeys((*looked_at(flow), *flow.kept, *flow.id))
    frame = flow.source.cluster.select(*(column(n) for n in used))
    classic = type(frame).__module__.startswith("pyspark.sql.classic")
    execution = frame._jdf.queryExecution() if classic else None
    text = str(execution.toString() if execution else frame._explain_string(extended=True))
    asked, _, rest = text.partition("== Optimized Logical Plan ==")
    plan = rest.partition("== Physical Plan ==")[0]
    if execution is None:
        return asked, plan, True
    judged = execution.analyzed() if "LocalRelation" in plan else execution.optimizedPlan()  # evaluated at planning
    return asked, plan, bool(judged.deterministic())
