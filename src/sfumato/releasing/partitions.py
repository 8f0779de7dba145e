"""Partitions: a folder of Parquet files, by hive's names (year=2026/part-0.parquet) where columns are given."""

from __future__ import annotations

import contextlib
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import At, InputError
from sfumato.releasing.writing import GROUP_BYTES, Open, ParquetOutput
from sfumato.sources.parquet import NULL_PARTITION

MOST_PARTITIONS = 1024  # files that may be open at once
FILE_ROWS = 1 << 25  # of a file in a folder without partitions


class PartitionedOutput:
    """One file for each combination of values of the partition columns, which are left out of the files."""

    def __init__(self, opened: Open, schema: pa.Schema, columns: tuple[str, ...]) -> None:
        for name in columns:
            kind = schema.field(name).type
            if pa.types.is_nested(kind) or pa.types.is_floating(kind):
                raise InputError(
                    f"holds {kind}", next="Partition by text, whole numbers, dates or booleans.", where=At(name)
                )
        if columns and set(columns) == set(schema.names):
            raise InputError("at least one column must be left to write: not all of them can be partitions.")
        self.opened, self.columns = opened, columns
        self.rest = pa.schema([f for f in schema if f.name not in columns])
        self.files: dict[str, ParquetOutput] = {}
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if not self.columns:
            self._whole(batch)
            return
        keys = pa.table([_names(batch.column(c), c) for c in self.columns], names=list(self.columns))
        places, rest = _combined(keys), batch.select(self.rest.names)
        order = np.argsort(places.indices.to_numpy(), kind="stable")
        counts = np.bincount(places.indices.to_numpy(), minlength=len(places.dictionary))
        sorted_rows, start = rest.take(pa.array(order)), 0
        for place, count in zip(places.dictionary.to_pylist(), counts.tolist(), strict=True):
            self._file(f"{place}/part-0.parquet").write(sorted_rows.slice(start, count))
            start += count
        self._relieve()

    def _whole(self, batch: pa.RecordBatch) -> None:
        self._file(f"part-{self.rows // FILE_ROWS}.parquet").write(batch)
        before, self.rows = self.rows, self.rows + batch.num_rows
        if before // FILE_ROWS != self.rows // FILE_ROWS:
            self.close()

    def _file(self, name: str) -> ParquetOutput:
        if name not in self.files:
            if len(self.files) >= MOST_PARTITIONS:
                raise InputError(
                    f"there are more than {MOST_PARTITIONS:,} partitions by {', '.join(self.columns)}",
                    next="Partition by columns with fewer values.",
                )
            self.files[name] = ParquetOutput(self.opened, self.rest, name)
        return self.files[name]

    def _relieve(self) -> None:
        """Keep what waits in all files together within what one file may hold."""
        while sum(f.held for f in self.files.values()) > GROUP_BYTES:
            max(self.files.values(), key=lambda f: f.held).flush()

    def close(self) -> None:
        files, self.files = self.files, {}
        with contextlib.ExitStack() as stack:  # all of them, also when one cannot be closed
            for file in files.values():
                stack.callback(file.close)


def _names(values: pa.Array, column: str) -> pa.Array:
    """'column=value' as hive writes it."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    coded = pc.cast(values, pa.string()).dictionary_encode()
    texts = [f"{quote(column)}={quote(x, safe='') or NULL_PARTITION}" for x in coded.dictionary.to_pylist()]
    return pc.fill_null(pa.array(texts, pa.string()).take(coded.indices), f"{quote(column)}={NULL_PARTITION}")


def _combined(keys: pa.Table) -> pa.DictionaryArray:
    """The folder of each row, as a dictionary."""
    joined = pc.binary_join_element_wise(*keys.columns, "/") if keys.num_columns > 1 else keys.column(0)
    return pc.dictionary_encode(joined).combine_chunks()
