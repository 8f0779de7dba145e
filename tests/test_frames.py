"""One contract for every engine: the same plan, seed and rows give the same release, whatever holds the rows."""

from __future__ import annotations

import functools
import itertools
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.engines import ENGINES, FRAMES

import sfumato as sf
from sfumato.alphabet import Alphabet, Column
from sfumato.mechanism import Cells, Claim, Mechanism, Table

N, SEED = 700, 11
SECRET = Alphabet.of(Column.of("ill", ["no", "yes"]))
USEFUL = Alphabet.of(Column.of("town", ["A, north", "B", "C"], missing=True), Column.of("age", cuts=[30, 65]))
COUNTS = np.random.default_rng(3).integers(1, 60, (2, 12))
Q = np.random.default_rng(8).random((5, 24)) + 0.2


@functools.cache
def mechanism(name: str) -> Mechanism:
    law = {"cells": Cells(2, 12, 0.3, 0.02, 0.03, 0.45 / 11), "symbols": Table(Q / Q.sum(0), 2)}[name]
    joint = sf.Joint.from_counts(COUNTS, SECRET, USEFUL)
    return Mechanism(law.rounded(None, 1e-9), SECRET, USEFUL, "both", "test", Claim("ldp", 4.0), joint, "private")


def people(cuts=(), n=N) -> pa.Table:
    """Rows with nulls among the useful values, in chunks that end at the cuts."""
    rng = np.random.default_rng(0)
    town = rng.choice(["A, north", "B", "C", None], n)
    table = pa.table({
        "id": pa.array(np.arange(n)), "ill": pa.array(rng.choice(["no", "yes"], n)),
        "town": pa.array(town, pa.string()), "age": pa.array(rng.integers(10, 90, n)),
    })
    ends = [0, *cuts, n]
    return pa.concat_tables([table.slice(a, b - a) for a, b in itertools.pairwise(ends)])


def multiset(table: pa.Table, names=("ill", "town", "age")) -> Counter:
    columns = [[None if x is None else str(x) for x in table.column(n).to_pylist()] for n in names]
    return Counter(zip(*columns, strict=True))


@functools.cache
def expected(name: str = "cells", decode: str = "symbols") -> Counter:
    out = sf.release(people(), mechanism(name), decode=decode, seed=SEED)
    return multiset(out, out.column_names)


def same(engine, found) -> pa.Table:
    assert isinstance(found, engine.kind)
    return engine.rows(found)


@pytest.mark.parametrize("cuts", [(), (1, 2, 300), (350,)], ids=["whole", "uneven", "halves"])
@pytest.mark.parametrize("name", ENGINES)
def test_any_split_into_batches_gives_the_same_rows_in_the_same_kind_of_frame(name, cuts, tmp_path):
    engine = ENGINES[name]

    out = same(engine, sf.release(engine.made(people(cuts), tmp_path), mechanism("cells"), seed=SEED))

    assert out.column_names == ["ill", "town", "age"]
    assert multiset(out) == expected()


@pytest.mark.parametrize("decode", ["symbols", "likely", "sample"])
@pytest.mark.parametrize("name", ENGINES)
def test_every_decoding_is_the_same(name, decode, tmp_path):
    engine = ENGINES[name]

    found = sf.release(engine.made(people((100,)), tmp_path), mechanism("symbols"), decode=decode, seed=SEED)

    out = same(engine, found)
    assert multiset(out, out.column_names) == expected("symbols", decode)


@pytest.mark.parametrize("name", ENGINES)
def test_counts_are_the_same(name, tmp_path):
    source = ENGINES[name].made(people((5, 6, 650)), tmp_path)

    joint = sf.tabulate(source, "ill", ["town", "age"], bins={"age": [30, 65]})

    reference = sf.tabulate(people(), "ill", ["town", "age"], bins={"age": [30, 65]})
    assert joint.useful == reference.useful
    assert (joint.counts == reference.counts).all()


@pytest.mark.parametrize("name", ENGINES)
def test_estimates_are_the_same(name, tmp_path):
    released = sf.release(people(), mechanism("cells"), seed=SEED)
    labels = pa.table([c.cast(pa.string()) for c in released.columns], names=released.column_names)

    found = sf.estimate(ENGINES[name].made(labels, tmp_path), mechanism("cells"), decode="symbols")

    assert np.array_equal(found.p, sf.estimate(released, mechanism("cells")).p)
    assert found.n == N


@pytest.mark.parametrize("name", [n for n, e in FRAMES.items() if e.carries])
def test_a_frame_that_can_carries_its_manifest_to_the_estimate(name, tmp_path):
    found = sf.release(FRAMES[name].made(people(), tmp_path), mechanism("symbols"), decode="likely", seed=SEED)

    assert sf.estimate(found, mechanism("symbols")).decode == "likely"
    again = sf.release(FRAMES[name].made(people(), tmp_path), mechanism("symbols"), decode="likely", seed=SEED)
    with pytest.raises(sf.InputError, match="another mechanism"):
        sf.estimate(again, mechanism("cells"))


TEXT = {
    "string": pa.string(), "large_string": pa.large_string(), "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()), "small dictionary": pa.dictionary(pa.int8(), pa.string()),
    "large dictionary": pa.dictionary(pa.uint32(), pa.large_string()),
}


@pytest.mark.parametrize("text", TEXT)
@pytest.mark.parametrize("name", [n for n, e in ENGINES.items() if not e.text_only])
def test_text_may_be_stored_in_any_way(name, text, tmp_path):
    engine, source = ENGINES[name], people((300,))
    for at in (1, 2):
        column = source.column(at)
        column = column.cast(TEXT[text].value_type).dictionary_encode() if "dictionary" in text else column
        source = source.set_column(at, source.column_names[at], column.cast(TEXT[text]))
    made = [engine.made(source, _empty(tmp_path / str(i))) for i in range(2)]

    joint = sf.tabulate(made[0], "ill", "town")
    out = same(engine, sf.release(made[1], mechanism("cells"), seed=SEED, keep=["id"]))

    assert (joint.counts == sf.tabulate(people(), "ill", "town").counts).all()
    assert multiset(out) == expected()
    assert sorted(out.column("id").to_pylist()) == list(range(N))


def _empty(folder):
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", ENGINES)
def test_two_hundred_columns_pass_through(name, tmp_path):
    engine, source = ENGINES[name], people((333,))
    kinds = [pa.int32(), pa.float64(), pa.string(), pa.bool_(), pa.timestamp("us")]
    wide = [f"c{i}" for i in range(200)]
    for i, key in enumerate(wide):
        values = pa.array([None if (r + i) % 7 == 0 else (r * i) % (i + 2) for r in range(N)], pa.int64())
        source = source.append_column(key, values.cast(kinds[i % 5]))

    made = engine.made(source, tmp_path)
    out = same(engine, sf.release(made, mechanism("cells"), keep=[*wide, "id"], seed=SEED))

    assert out.num_columns == 204
    assert multiset(out) == expected()
    order = np.argsort(np.asarray(out.column("id").cast(pa.int64())))
    for key in wide:
        kind = pa.string() if engine.text_only else source.schema.field(key).type
        values, before = out.column(key).take(order), source.column(key).cast(kind)
        assert values.cast(kind).to_pylist() == before.to_pylist(), key


@pytest.mark.parametrize("name", [n for n, e in ENGINES.items() if e.nested])
def test_nested_columns_pass_through(name, tmp_path):
    engine = ENGINES[name]
    visits = pa.array([None if r % 5 == 0 else list(range(r % 4)) for r in range(N)], pa.list_(pa.int64()))
    home = pa.array([{"street": f"s{r}", "number": r} for r in range(N)])
    source = people((200,)).append_column("visits", visits).append_column("home", home)

    made = engine.made(source, tmp_path)
    out = same(engine, sf.release(made, mechanism("cells"), keep=["visits", "home", "id"], seed=SEED))

    assert multiset(out) == expected()
    order = np.argsort(np.asarray(out.column("id")))
    for key in ("visits", "home"):
        assert out.column(key).take(order).to_pylist() == source.column(key).to_pylist()


@pytest.mark.parametrize("name", ENGINES)
def test_an_unseen_label_is_named_by_its_row_and_never_shown(name, tmp_path):
    source = people((100,)).to_pydict()
    source["town"][432] = "s3cret"
    made = ENGINES[name].made(pa.table(source), tmp_path)

    with pytest.raises(sf.DataError, match="column 'town', row 433: the value is not in the alphabet") as caught:
        ENGINES[name].rows(sf.release(made, mechanism("cells")))

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("name", ENGINES)
def test_a_missing_column_is_named(name, tmp_path):
    made = ENGINES[name].made(people().rename_columns(["id", "ill", "twon", "age"]), tmp_path)

    with pytest.raises(sf.InputError, match=r"'town' is not a column of .*Did you mean 'twon'"):
        sf.release(made, mechanism("cells"))


# What each library expects of its own frames


def test_released_columns_are_categories_and_kept_ones_keep_their_types():
    frame = pd.DataFrame(people().to_pandas()).assign(
        when=pd.date_range("2026-01-01", periods=N, tz="Europe/Amsterdam"), few=pd.array([1, None] * (N // 2), "Int8"),
        odd=[{"any": i} for i in range(N)],
    )

    out = sf.release(frame, mechanism("cells"), keep=["when", "few", "odd", "id"], seed=SEED)

    assert list(out.columns) == ["id", "ill", "town", "age", "when", "few", "odd"]
    for name in ("when", "few", "odd", "id"):
        pd.testing.assert_series_equal(out[name], frame[name])
    assert isinstance(out["town"].dtype, pd.CategoricalDtype)
    assert list(out["town"].cat.categories) == ["A, north", "B", "C"]


def test_an_index_does_not_slip_through():
    frame = people().to_pandas().set_index(pd.Index([f"name {i}" for i in range(N)], name="who"))

    out = sf.release(frame, mechanism("cells"), keep=["id"], seed=SEED)

    assert isinstance(out.index, pd.RangeIndex) and out.index.name is None
    assert out["id"].tolist() == list(range(N))


def test_polars_types_are_kept():
    frame = pl.from_arrow(people()).with_columns(
        grade=pl.Series(["low", "high"] * (N // 2), dtype=pl.Enum(["low", "high"])),
        kind=pl.Series(["x", "y"] * (N // 2), dtype=pl.Categorical), small=pl.col("id").cast(pl.Int16),
    )
    keep = ["grade", "kind", "small"]

    for out in (sf.release(frame, mechanism("cells"), keep=keep, seed=SEED),
                sf.release(frame.lazy(), mechanism("cells"), keep=keep, seed=SEED).collect()):
        assert out.select(keep).equals(frame.select(keep))
        assert out.select(keep).schema == frame.select(keep).schema


def test_a_lazy_release_is_drawn_once():
    lazy = sf.release(pl.from_arrow(people()).lazy(), mechanism("cells"))

    assert lazy.collect().equals(lazy.collect())


def test_a_relation_is_drawn_once_and_stays_with_its_connection():
    import duckdb

    con = duckdb.connect()
    con.register("people", people())
    released = sf.release(con.sql("SELECT ill, town, age FROM people WHERE id < 500"), mechanism("cells"))

    assert released.fetchall() == released.fetchall()
    joined = con.sql("SELECT count(*) FROM released, (SELECT 1)")
    assert joined.fetchall() == [(500,)]


def test_a_reader_is_released_as_it_comes():
    taken = []

    def batches():
        for i in range(40):
            taken.append(i)
            yield people().to_batches()[0]

    reader = sf.release(pa.RecordBatchReader.from_batches(people().schema, batches()), mechanism("cells"), seed=SEED)

    assert len(taken) < 40
    assert reader.read_next_batch().num_rows == N
    assert reader.read_all().num_rows == 39 * N
    assert len(taken) == 40


def test_a_reader_that_is_given_up_stops_its_threads():
    import gc
    import threading

    before = threading.active_count()
    source = pa.RecordBatchReader.from_batches(people().schema, (people().to_batches()[0] for _ in range(1000)))
    reader = sf.release(source, mechanism("cells"))
    reader.read_next_batch()
    del reader
    gc.collect()

    assert threading.active_count() == before


def test_what_holds_no_rows_is_refused():
    import duckdb

    with pytest.raises(sf.InputError, match=r"Give a relation, such as con\.sql"):
        sf.release(duckdb.connect(), mechanism("cells"))
    with pytest.raises(sf.InputError, match=r"cannot read rows from a builtins\.dict"):
        sf.release({"ill": ["s3cret"]}, mechanism("cells"))
