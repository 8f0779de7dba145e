"""Every source gives the same rows; every bad source says what is wrong and never what is in it."""

from __future__ import annotations

import gzip
from collections import Counter

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.releasing.basis import divided as split
from sfumato.sources import open_source

ROWS = {
    "sex": ["F", "M", "F", None, "M", "F"],
    "age": [31, 45, 31, 60, None, 45],
    "weight": [1.0, 0.5, 2.25, 1.0, 0.5, 2.25],
    "member": [True, False, True, True, False, False],
    "name": ["a,b", 'q"q', "two\nlines", "plain", "é", ""],
}


def table() -> pa.Table:
    return pa.table(ROWS)


def as_csv(path, delimiter=","):
    pacsv.write_csv(table(), path, pacsv.WriteOptions(delimiter=delimiter))
    return path


def as_gzip(path):
    path.write_bytes(gzip.compress(as_csv(path.with_suffix("")).read_bytes()))
    return path


def as_parquet(path):
    pq.write_table(table(), path)
    return path


MAKERS = {
    "csv": lambda d: as_csv(d / "t.csv"),
    "csv as text": lambda d: str(as_csv(d / "t.csv")),
    "tsv": lambda d: as_csv(d / "t.tsv", "\t"),
    "gzip": lambda d: as_gzip(d / "t.csv.gz"),
    "parquet": lambda d: as_parquet(d / "t.parquet"),
    "pandas": lambda d: pd.DataFrame(ROWS),
    "pandas categories": lambda d: pd.DataFrame(ROWS).astype({"sex": "category"}),
    "polars": lambda d: pl.DataFrame(ROWS),
    "polars lazy": lambda d: pl.DataFrame(ROWS).lazy(),
    "polars categories": lambda d: pl.DataFrame(ROWS).with_columns(pl.col("sex").cast(pl.Categorical)),
    "arrow table": lambda d: table(),
    "arrow batch": lambda d: table().to_batches()[0],
    "arrow reader": lambda d: table().to_reader(),
    "arrow dictionaries": lambda d: table().set_column(0, "sex", table()["sex"].dictionary_encode()),
    "duckdb": lambda d: duckdb.from_arrow(table()),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_every_source_tabulates_to_the_same_joint(kind, tmp_path):
    joint = sf.tabulate(MAKERS[kind](tmp_path), secret=["sex"], useful=["age", "weight", "member"])

    reference = sf.tabulate(table(), secret="sex", useful=["age", "weight", "member"])

    assert joint.secret.columns[0].labels == ("F", "M", None)
    assert joint.useful.columns[0].labels == ("31", "45", "60", None)
    assert [c.dtype for c in joint.useful.columns] == ["number", "number", "boolean"]
    assert (joint.counts == reference.counts).all()
    assert joint.n == 6


@pytest.mark.parametrize("kind", MAKERS)
def test_every_source_encodes_alike_whatever_the_alphabet_was_counted_from(kind, tmp_path):
    for counted_from in ("parquet", "csv", "pandas"):
        columns = sf.tabulate(MAKERS[counted_from](tmp_path), "sex", ["age", "weight", "member"]).useful.columns
        batches = open_source(MAKERS[kind](tmp_path)).batches([c.name for c in columns])
        batch = pa.Table.from_batches(list(batches)).combine_chunks()

        codes = [c.encode(batch.column(c.name)).tolist() for c in columns]

        assert codes == [[0, 1, 0, 2, 3, 1], [1, 0, 2, 1, 0, 2], [1, 0, 1, 1, 0, 0]]


@pytest.mark.parametrize("kind", ["csv", "tsv", "gzip", "parquet", "polars", "duckdb"])
def test_kept_columns_come_back_as_they_are(kind, tmp_path):
    batches = open_source(MAKERS[kind](tmp_path)).batches(["sex"], ["name"])

    names = [x or "" for b in batches for x in b.column("name").to_pylist()]

    assert names == ROWS["name"]


def refusal(make, match, error=sf.InputError):
    with pytest.raises(error, match=match) as caught:
        source = make()
        sf.tabulate(source, "sex", "race")
    assert "s3cret" not in str(caught.value)
    chain = caught.value.__cause__, caught.value.__suppress_context__
    assert chain == (None, True) or caught.value.__context__ is None  # nor in what a traceback prints


@pytest.mark.parametrize(("name", "content", "match"), [
    ("empty.csv", b"", "empty.csv is empty"),
    ("blank.csv", b"\n\n", "first line must name the columns"),
    ("header.csv", b"sex,race\n", "header.csv has no rows"),
    ("headeronly.csv", b"sex,race", "headeronly.csv has no rows"),
    ("near.csv", b"sex,raec\nF,x\n", "'race' is not a column of near.csv .*Did you mean 'raec'"),
    ("twice.csv", b"sex,race,sex\nF,x,M\n", "more than one column named 'sex'"),
    ("ragged.csv", b"sex,race\nF,x\nM,s3cret,y\nF,x\n", "ragged.csv, line 3: 2 fields expected, 3 found"),
    ("lines.csv", b'# s3cret\n\nsex,race\nF,"x\ny"\n# s3cret\nM,s3cret,y\n', "lines.csv, line 7: 2 fields expected, 3 found"),
    ("bytes.csv", b"sex,race\nF,s3cret\xff\x81\nM,x\n", "bytes.csv is not written in UTF-8 or cp1252 throughout.*encoding="),
    ("not.parquet", b"PAR1 s3cret, no it is not", "not.parquet is not a Parquet file"),
    ("what.doc", b"s3cret", "cannot tell the format of what.doc"),
    ("what.xlsx", b"s3cret", "what.xlsx is not a workbook"),
    ("what.dta", b"s3cret", "what.dta is not a file of dta"),
    ("bad.csv.gz", b"sex,race\nF,s3cret\n", "bad.csv.gz could not be read"),
])
def test_bad_files_are_refused_without_their_content(name, content, match, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)

    refusal(lambda: path, match)


def test_an_open_quote_over_many_rows_is_an_error(tmp_path):
    path = tmp_path / "quote.csv"
    path.write_bytes(b'sex,race\nF,"s3cret\n' + b"M,x\n" * 600_000)

    refusal(lambda: path, "quote")


def test_a_truncated_parquet_file_is_an_error(tmp_path):
    whole = as_parquet(tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])

    refusal(lambda: tmp_path / "cut.parquet", "cut.parquet is not a Parquet file, or it is damaged")


def test_missing_files_and_folders_are_named(tmp_path):
    refusal(lambda: tmp_path / "gone.csv", r"gone.csv could not be read: No such file")
    (tmp_path / "folder.csv").mkdir()
    refusal(lambda: tmp_path / "folder.csv", "is a folder")


@pytest.mark.parametrize(("make", "match"), [
    (lambda: pd.DataFrame({"sex": ["F", 1, 2.5], "race": list("xyz")}), r"'sex' mixes .*\(float, int, str\)"),
    (lambda: pd.DataFrame({"sex": ["F", "s3cret", b"x"], "race": list("xyz")}), "'sex' holds binary"),
    (lambda: pd.DataFrame({"sex": list("FMF"), "race": [[1], "s3cret", 2]}), "'race' mixes"),
    (lambda: pd.DataFrame([["F", "x"]], columns=["sex", "sex"]), "more than one column named 'sex'"),
    (lambda: pd.DataFrame([["F", "x"]]), "a column name that is no text, got 0"),
    (lambda: pd.DataFrame({"sex": [], "race": []}), "the pandas frame has no rows"),
    (lambda: pl.DataFrame({"sex": ["F"], "race": [["s3cret"]]}), "'race' holds large_list|'race' holds list"),
    (lambda: pa.table({"sex": ["F"], "race": [b"s3cret"]}), "'race' holds binary"),
    (lambda: pd.Series(["F", "M"]), "is a Series"),
    (lambda: {"sex": ["s3cret"]}, "cannot read rows from a builtins.dict"),
])
def test_bad_frames_are_refused_without_their_content(make, match):
    refusal(make, match)


def test_a_reader_is_read_once():
    source = open_source(table().to_reader())
    assert sum(b.num_rows for b in source.batches(["sex"])) == 6

    with pytest.raises(sf.DataError, match="no rows"):
        list(source.batches(["sex"]))


def test_what_comes_from_spark_and_is_no_frame_is_refused():
    grouped = type("GroupedData", (), {"__module__": "pyspark.sql.group"})

    with pytest.raises(sf.InputError, match=r"pyspark\.sql\.group\.GroupedData is not a Spark data frame"):
        open_source(grouped())


def test_the_two_parts_of_a_split_are_the_table_whatever_is_read():
    table = pa.table({"a": [str(i) for i in range(5000)], "b": ["x"] * 5000})
    first, second = split(open_source(table), 0.2)

    def values(part, kept=()):
        return [x for batch in part.batches(["a"], kept) for x in batch.column("a").to_pylist()]

    assert values(first) == values(first, ["b"])
    assert Counter(values(first) + values(second)) == Counter(table.column("a").to_pylist())
    assert 800 < len(values(first)) < 1200
    assert values(split(open_source(table), 0.2)[0]) != values(first)
