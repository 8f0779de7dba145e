"""Source: a table that can be read in batches, whatever holds it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from sfumato import sources
from sfumato.alphabet import Column, Ints, find_column
from sfumato.errors import DataError, InputError, listed
from sfumato.libraries import pyarrow
from sfumato.sources.dialect import Said
from sfumato.sources.meaning import VERBATIM, Meaning
from sfumato.sources.places import Place, Where, located
from sfumato.tolerances import ROWS_AT_ONCE

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset


BATCH_ROWS = 1 << 17  # large enough to forget the cost of a call, small enough to keep memory flat
Reader = Callable[[Sequence[str], Sequence[str]], Iterable[pa.RecordBatch]]
Metadata = Mapping[bytes, bytes]
DATASET = ("pyarrow._dataset", "Dataset")  # known by its name: its module is loaded by whoever has one
Part = Callable[[pa.RecordBatch, int, Ints | None], pa.Table]  # (rows, number of the first, how often each occurs where
# that is not once) → keys and their weights n
Frame: TypeAlias = Any  # of a library that is not imported for it: pandas, Polars, Spark


@dataclass(frozen=True, slots=True, eq=False)
class RowSource:
    """Released rows on their way back to the caller: batches that can be taken once, and what is said about them."""

    batches: Iterator[pa.RecordBatch]
    kept: tuple[str, ...]  # the columns that came through untouched
    metadata: Callable[[int | None], Metadata]  # for a number of rows, or for rows still to come

    def table(self) -> pa.Table:
        """Every row as one Arrow table."""
        held = list(self.batches)
        return pa.Table.from_batches(held).replace_schema_metadata(self.metadata(sum(b.num_rows for b in held)))

    def reader(self) -> pa.RecordBatchReader:
        """The rows as they come; an error in a later row is raised where that row would have been."""
        first = next(self.batches)

        def following() -> Iterator[pa.RecordBatch]:
            yield first
            yield from self.batches

        schema = first.schema.with_metadata(self.metadata(None))
        return pa.RecordBatchReader.from_batches(schema, following())


class ArrowStream(Protocol):
    """Whatever exports Arrow's C stream, as frames of many libraries do."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


TableLike: TypeAlias = "Source | Place | str | os.PathLike[str] | ArrowStream | pa.Table"  # what open_source takes


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Rows by column name. `read(coded, kept)` gives batches: coded columns as text or dictionaries where the
    source has a choice, kept columns as they are; `batches` gives the text of coded columns its meaning. `back` makes
    of released rows what the source is."""

    name: str  # as messages call it
    columns: tuple[str, ...]
    read: Reader
    path: Where | None = None
    once: bool = False  # it can be read only once
    back: Callable[[RowSource], Frame] = RowSource.table
    metadata: Metadata = field(default_factory=dict)
    rows: int | None = None  # how many there are, where that is known before reading
    share: Callable[[], float] | None = None  # else, how much of it has been read, from 0 to 1
    cluster: Frame = None  # the frame of a cluster on which the rows live
    reading: Meaning = VERBATIM  # what the text of coded columns means

    def __post_init__(self) -> None:
        odd = [c for c in self.columns if not isinstance(c, str)]
        if odd:
            raise InputError("has a column name that is no text", value=odd[0], next="Rename it.", where=self.name)
        twice = [c for c, k in Counter(self.columns).items() if k > 1]
        if twice:
            raise InputError(f"has more than one column named {twice[0]!r}", next="Rename one.", where=self.name)

    def find(self, *names: str) -> list[str]:
        """The columns by these names, or an error that suggests the nearest."""
        return [find_column(name, self.columns, self.name) for name in names]

    def batches(self, coded: Sequence[str], kept: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Batches with the columns asked for; an error if one does not exist or there are no rows."""
        self.find(*coded, *kept)
        rows = 0
        for batch in self.read(coded, kept):
            if batch.num_rows:
                rows += batch.num_rows
                yield batch if self.reading is VERBATIM else self._meant(batch, set(coded))
        if not rows:
            raise DataError("has no rows: there is nothing to tabulate or release", where=self.name)

    def summed(
        self, columns: Sequence[str], part: Part, keys: pa.Schema, *, few: bool,
        check: Callable[[pa.Table], None] = lambda table: None,
    ) -> pa.Table:
        """Distinct keys with the sums of their weights n, which `part` makes of batches, where the rows are, which are
        `few` different ones or many. What there is so far passes `check` before it grows further."""
        if self.cluster is not None:
            return sources.sums_there(self.cluster, columns, part, keys, few=few)
        held: list[pa.Table] = []
        row = 0
        for batch in self.batches(columns):
            held.append(part(batch, row, None))
            row += batch.num_rows
            if sum(table.num_rows for table in held) > ROWS_AT_ONCE:
                held = [_added_up(held, keys.names)]
                check(held[0])
        return _added_up(held, keys.names)

    def _meant(self, batch: pa.RecordBatch, coded: set[str]) -> pa.RecordBatch:
        names = batch.schema.names
        held = zip(names, batch.columns, strict=True)
        return pa.RecordBatch.from_arrays(
            [self.reading.meant(x, name) if name in coded else x for name, x in held], names=names
        )

    @property
    def said(self) -> tuple[str, ...]:
        """What was found out about the file, for whoever gave it."""
        return self.reading.said

    def check_reading(self, names: Collection[str]) -> None:
        """Refuse columns that are not there, and to read rows that are to be released by what they look like: one of
        them could change how all others are read, and tell of itself in their answers."""
        self.find(*names)
        if found := [x for x in self.reading.guessed if x.column is None or x.column in names]:
            what = listed([x.what if x.column is None else f"{x.what} in column {x.column!r}" for x in found])
            raise InputError(
                f"looks like {what}",
                next="How a private table is read must not rest on its rows, as one of them could change it: say so "
                f"({' '.join(dict.fromkeys(x.saying for x in found))}).", where=self.name,
            )

    def check_release(
        self, read: Collection[str], keep: str | Sequence[str], private: Collection[str], named: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """The columns that pass untouched: there, each once, and none of those that are protected. Those that are read
        may be, and all that are named otherwise are there."""
        self.check_reading(read)
        self.find(*named)
        names = [keep] if isinstance(keep, str) else list(keep)
        for name in self.find(*names):
            if name in private:
                raise InputError(f"{name!r} is protected by the mechanism; keeping it untouched would undo that.")
        if len(set(names)) != len(names):
            raise InputError(f"a column is named twice in keep ({', '.join(names)})", next="Name each once.")
        return tuple(names)

    def watched(self, tell: Callable[[int], None]) -> Source:
        """The same source, telling how many rows have been read in each pass."""
        def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
            rows = 0
            for batch in self.read(coded, kept):
                rows += batch.num_rows
                tell(rows)
                yield batch

        return replace(self, read=read)

    def verbatim(self) -> Source:
        """The same rows with nothing but empty fields missing, as released tables are read."""
        return replace(self, reading=VERBATIM)

    def knowing(self, columns: Iterable[Column]) -> Source:
        """The same source, in which no label of these columns means that a value is missing."""
        labels = {x for c in columns for x in c.labels}
        na = tuple(x for x in self.reading.na if x not in labels)
        return self if na == self.reading.na else replace(self, reading=replace(self.reading, na=na))

    def expected(self, done: int) -> int | None:
        """How many rows there will be, told or guessed from the share that `done` rows were."""
        if self.rows is not None or self.share is None:
            return self.rows
        share = self.share()
        return round(done / share) if done and share > 0 else None

    def count(self) -> int | None:
        """How many rows there are: known, or counted in a pass; None where there is only one pass, and on a cluster."""
        if self.rows is not None or self.once or self.cluster is not None:
            return self.rows
        return sum(int(batch.num_rows) for batch in self.read(self.columns[:1], ()))

    def settled(self, columns: Sequence[str]) -> Source:
        """A source that can be read again; what can be read only once is held in memory."""
        if not self.once:
            return self
        table = pa.Table.from_batches(list(self.batches(columns)))
        held = table_source(table, self.name)
        return replace(held, metadata=self.metadata, reading=Meaning(guessed=self.reading.guessed))


def _added_up(tables: list[pa.Table], names: list[str]) -> pa.Table:
    """Distinct keys with the sums of their weights, which are in the last column."""
    *keys, weight = names
    return pa.concat_tables(tables).group_by(keys, use_threads=False).aggregate([(weight, "sum")]).rename_columns(names)


def open_source(
    source: TableLike, *, na: str | Iterable[str] | None = None, delimiter: str | None = None,
    encoding: str | None = None, decimal: str | None = None, dates: str | None = None, sheet: str | None = None,
    counts: str | None = None,
) -> Source:
    """Whatever holds rows, as a Source: a path or address of a .csv, .tsv, .txt or .parquet file (text also packed, as
    .gz, .zst or .bz2), of a spreadsheet (.xlsx, .ods), of a file of Stata, SPSS or SAS, or of a folder of Parquet
    files; a pandas or Polars frame; an Arrow table, batch, reader or dataset, or anything else that streams Arrow; a
    DuckDB relation or the result of a query; a Spark data frame.

    What text means is found out and told (`.said`), unless it is said: delimiter and encoding, the mark of decimals
    ('.' or ','), the order of dates ('dmy', 'mdy' or 'ymd'), missing values.
    na are the spellings of missing values instead of '', 'NA', 'N/A', 'n/a', '#N/A', 'NaN', 'nan', 'NULL', 'null', '.'
    and '-' (typed sources have nulls of their own, so that for them only na= counts); counts names the column of a
    table that is counted already: each of its rows is then as many people.

    >>> open_source(pa.table({"sex": ["F", "M"]})).columns
    ('sex',)
    """
    spelled = None if na is None else (na,) if isinstance(na, str) else tuple(na)
    said = Said(delimiter, encoding, spelled, decimal, dates)
    if isinstance(source, (str, os.PathLike, Place)):
        found: Source | None = sources.file_source(located(source), said, sheet)
    else:
        if not isinstance(source, Source) and {delimiter, encoding, decimal, dates, sheet} != {None}:
            asked = "delimiter=, encoding=, decimal=, dates= and sheet="
            raise InputError(f"{asked} are for files", next="Leave them out.")
        found = next((opened(source) for fits, opened in OPENERS if fits(source)), None)
        if found is not None and spelled is not None:
            found = replace(found, reading=replace(found.reading, na=("", *spelled)))
    if found is not None and counts is not None:
        return sources.expanded(found, counts)
    if found is not None:
        return found
    kind = type(source)
    raise InputError(
        f"cannot read rows from a {kind.__module__}.{kind.__qualname__}",
        next="Give a path to a .csv, .tsv or .parquet file or to a folder of Parquet files, a pandas or Polars frame, "
        "an Arrow table, batch, reader or dataset, a DuckDB relation or a Spark data frame.",
    )


def table_source(table: pa.Table, name: str = "the table") -> Source:
    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterable[pa.RecordBatch]:
        return table.select([*coded, *kept]).to_batches(max_chunksize=BATCH_ROWS)  # type: ignore[no-any-return]

    return Source(name, tuple(table.column_names), read, metadata=table.schema.metadata or {}, rows=table.num_rows)


def _batch_source(batch: pa.RecordBatch) -> Source:
    def back(rows: RowSource) -> pa.RecordBatch:
        whole = rows.table().unify_dictionaries().combine_chunks()
        return whole.to_batches()[0].replace_schema_metadata(whole.schema.metadata)

    return replace(table_source(pa.Table.from_batches([batch]), "the record batch"), back=back)


def _reader_source(reader: pa.RecordBatchReader, name: str = "the record batch reader") -> Source:
    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in reader:
            chosen = batch.select([*coded, *kept])
            yield from (chosen.slice(i, BATCH_ROWS) for i in range(0, chosen.num_rows, BATCH_ROWS))

    return Source(
        name, tuple(reader.schema.names), read, once=True, back=RowSource.reader, metadata=reader.schema.metadata or {}
    )


def _dataset_source(dataset: Dataset) -> Source:
    """An Arrow dataset, scanned in order with little read ahead."""
    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = [*coded, *kept]
        try:
            yield from dataset.scanner(
                columns=wanted, batch_size=BATCH_ROWS, batch_readahead=4, fragment_readahead=1
            ).to_batches()
        except (pa.ArrowInvalid, OSError):
            raise DataError("the Arrow dataset could not be read to its end: a file of it is damaged.") from None

    def back(rows: RowSource) -> Dataset:
        return pyarrow.dataset.InMemoryDataset(rows.table())

    metadata = dataset.schema.metadata or {}
    return Source("the Arrow dataset", tuple(dataset.schema.names), read, back=back, metadata=metadata)


def _of_package(*names: str) -> Callable[[object], bool]:
    return lambda source: any(k.__module__.split(".")[0].lstrip("_") in names for k in type(source).mro())


OPENERS: tuple[tuple[Callable[[object], bool], Callable[[Frame], Source]], ...] = (
    (lambda x: isinstance(x, Source), lambda source: source),
    (lambda x: isinstance(x, pa.Table), table_source),
    (lambda x: isinstance(x, pa.RecordBatch), _batch_source),
    (lambda x: isinstance(x, pa.RecordBatchReader), _reader_source),
    (lambda x: any((k.__module__, k.__name__) == DATASET for k in type(x).mro()), _dataset_source),
    (_of_package("pyspark"), lambda x: sources.spark_source(x)),
    (_of_package("duckdb"), lambda x: sources.relation_source(x)),
    (_of_package("pandas", "polars", "modin", "cudf"), lambda x: sources.frame_source(x)),
    (lambda x: hasattr(x, "__arrow_c_stream__"),  # taken as one that can be read once
     lambda x: _reader_source(pa.RecordBatchReader.from_stream(x), f"the {type(x).__name__}")),
)
