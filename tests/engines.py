"""Engines: everything that holds rows, each as one entry that makes it from an Arrow table and reads it back.

A new engine is one more entry: `made` gets an Arrow table (in the chunks it should keep, where it can) and an empty
folder, `kind` is the type that must come back from a release without `to`, `rows` turns that into an Arrow table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

import sfumato as sf


@dataclass(frozen=True)
class Engine:
    """How a kind of frame is made, known and read."""

    made: Callable[[pa.Table, Path], Any]
    kind: type
    rows: Callable[[Any], pa.Table] = lambda frame: frame
    nested: bool = True  # it can hold lists and structs
    text_only: bool = False  # it holds text, so types are not kept
    carries: bool = True  # its frames carry the manifest


class Stream:
    """Something unknown that exports Arrow's C stream."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested)


def _written(write: Callable[[pa.Table, Path], None], name: str) -> Callable[[pa.Table, Path], Path]:
    def made(table: pa.Table, folder: Path) -> Path:
        write(table, folder / name)
        return folder / name

    return made


def _parquet(table: pa.Table, path: Path) -> None:
    """A row group for each chunk."""
    with pq.ParquetWriter(path, table.schema) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)


def _folder(table: pa.Table, path: Path) -> None:
    """A file for each chunk."""
    path.mkdir()
    for i, batch in enumerate(table.to_batches()):
        pq.write_table(pa.Table.from_batches([batch]), path / f"part-{i:05}.parquet")


def _csv(packing: str | None) -> Callable[[pa.Table, Path], None]:
    def write(table: pa.Table, path: Path) -> None:
        text = pa.table([c.cast(pa.string()) for c in table.columns], names=table.column_names)
        with pa.output_stream(str(path), compression=packing) as stream:
            pacsv.write_csv(text, stream)

    return write


def _in_store(table: pa.Table, folder: Path) -> Any:
    _parquet(table, folder / "stored.parquet")
    return sf.Place("stored.parquet", SubTreeFileSystem(str(folder), LocalFileSystem()))


def _address(table: pa.Table, folder: Path) -> str:
    _parquet(table, folder / "at an address.parquet")
    return (folder / "at an address.parquet").as_uri()


def _relation(table: pa.Table, folder: Path) -> Any:
    con = duckdb.connect()
    con.register("people", table)
    return con.sql("SELECT * FROM people")


def _from_duckdb(relation: Any) -> pa.Table:
    return relation.to_arrow_table()


FILES: dict[str, Engine] = {
    "csv": Engine(_written(_csv(None), "t.csv"), pa.Table, nested=False, text_only=True),
    "csv.gz": Engine(_written(_csv("gzip"), "t.csv.gz"), pa.Table, nested=False, text_only=True),
    "csv.zst": Engine(_written(_csv("zstd"), "t.csv.zst"), pa.Table, nested=False, text_only=True),
    "csv.bz2": Engine(_written(_csv("bz2"), "t.csv.bz2"), pa.Table, nested=False, text_only=True),
    "parquet": Engine(_written(_parquet, "t.parquet"), pa.Table),
    "parquet folder": Engine(_written(_folder, "folder"), pa.Table),
    "place in a store": Engine(_in_store, pa.Table),
    "address": Engine(_address, pa.Table),
}
FRAMES: dict[str, Engine] = {
    "pandas": Engine(lambda t, d: t.to_pandas(), pd.DataFrame, lambda f: pa.Table.from_pandas(f, preserve_index=False)),
    "pandas of Arrow": Engine(
        lambda t, d: t.to_pandas(types_mapper=pd.ArrowDtype), pd.DataFrame,
        lambda f: pa.Table.from_pandas(f, preserve_index=False),
    ),
    "polars": Engine(lambda t, d: pl.from_arrow(t, rechunk=False), pl.DataFrame, pl.DataFrame.to_arrow, carries=False),
    "polars lazy": Engine(
        lambda t, d: pl.from_arrow(t, rechunk=False).lazy(), pl.LazyFrame, lambda f: f.collect().to_arrow(),
        carries=False,
    ),
    "arrow table": Engine(lambda t, d: t, pa.Table),
    "arrow batch": Engine(
        lambda t, d: t.combine_chunks().to_batches()[0], pa.RecordBatch, lambda b: pa.Table.from_batches([b])
    ),
    "arrow reader": Engine(lambda t, d: t.to_reader(), pa.RecordBatchReader, lambda r: r.read_all()),
    "arrow dataset": Engine(lambda t, d: pads.dataset(t), pads.Dataset, lambda d: d.to_table()),
    "arrow stream": Engine(lambda t, d: Stream(t), pa.RecordBatchReader, lambda r: r.read_all()),
    "duckdb": Engine(_relation, duckdb.DuckDBPyRelation, _from_duckdb, carries=False),
}
ENGINES = {**FRAMES, **FILES}
