"""Rows that have names, or places in files: Spark draws for each where it is read, and tells nothing by their order."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark_definition import expected, multiset
from tests.test_release import ALL, rows

import sfumato as sf
from sfumato.releasing.spark import by_id

SRR = ALL["srr"]
TABLE = rows(400)


@pytest.fixture(scope="module")
def people(spark):
    return spark.createDataFrame(TABLE)


def test_a_release_by_id_is_what_the_counting_way_releases(people, spark, tmp_path):
    by_id = sf.release(people, SRR, keep=["id"], id="id", seed=3)

    assert multiset(by_id) == expected(SRR, TABLE, 3, ["id"])
    assert multiset(by_id.repartition(5)) == multiset(by_id)
    assert multiset(sf.release(people.repartition(3), SRR, keep=["id"], id="id", seed=3)) == multiset(by_id)
    assert "Exchange" not in by_id._jdf.queryExecution().executedPlan().toString()
    done = sf.release(people, SRR, tmp_path / "r.parquet", keep=["id"], id="id", seed=3)
    assert done.rows == 400 and multiset(pq.read_table(done.path)) == multiset(by_id)
    assert sf.estimate(by_id, SRR).p == pytest.approx(sf.estimate(pq.read_table(done.path), SRR, decode="symbols").p)


def test_several_columns_may_name_a_row_and_need_not_be_kept(spark):
    from pyspark.sql import functions as F

    frame = spark.createDataFrame(TABLE).withColumn("half", F.col("id") % 2).withColumn("pair", (F.col("id") / 2).cast("int"))
    both = sf.release(frame, SRR, id=["pair", "half"], seed=3)

    assert both.columns == ["ill", "town"]
    assert both.count() == 400
    assert multiset(sf.release(frame, SRR, id=["pair", "half"], seed=3)) == multiset(both)
    with pytest.raises(sf.DataError, match="pair: 400 rows have 200 names"):
        sf.release(frame, SRR, id="pair")


def test_rows_that_change_or_tell_by_their_place_are_refused(people, spark, tmp_path):
    from pyspark.sql import functions as F

    people.write.partitionBy("ill").parquet(str(tmp_path / "divided"))
    divided = spark.read.parquet(str(tmp_path / "divided"))
    for frame in (people, divided):
        drawn = frame.withColumn("token", F.expr("uuid()")).withColumn("n", F.rand())
        for keep, name in ((["token"], None), (["n"], None), (["id"], "token")):
            with pytest.raises(sf.InputError, match=r"drawn anew at each computation \((uuid|rand)\)"):
                sf.release(drawn, SRR, keep=keep, id=name)
    for text in ("current_timestamp()", "now()", "reflect('java.util.UUID', 'randomUUID')"):
        changing = people.withColumn("token", F.expr(f"concat(id, {text})"))
        for keep, name in ((["token"], None), (["id"], "token")):
            with pytest.raises(sf.InputError, match="drawn anew at each computation"):
                sf.release(changing, SRR, keep=keep, id=name)
    for moved in (people.sortWithinPartitions("ill"), people.repartition(2, "ill"), divided):
        with pytest.raises(sf.InputError, match="divided by 'ill'"):
            sf.release(moved, SRR, id="id")
    beside = divided.withColumn("n", F.rand()).select("id", "n", "ill", "town").repartition(3)  # n is not used
    assert multiset(sf.release(beside, SRR, keep=["id"], id="id", seed=3)) == expected(SRR, TABLE, 3, ["id"])
    with pytest.raises(sf.InputError, match="has its rows in an order"):
        sf.release(TABLE, SRR, id="id")
    with pytest.raises(sf.InputError, match="'idd' is not a column"):
        sf.release(people, SRR, id="idd")


def test_files_that_workers_read_themselves_release_what_spark_s_rows_do(people, spark, tmp_path):
    from pyspark.sql import functions as F

    from sfumato.releasing.spark.reading import scan_of

    held = TABLE.append_column("word", pa.array([f"w{i % 9}" for i in range(400)]).dictionary_encode())
    (tmp_path / "in").mkdir()
    for i in range(3):
        pq.write_table(held.slice(150 * i, 150), tmp_path / "in" / f"{i}.parquet", row_group_size=40)
    files = spark.read.parquet(str(tmp_path / "in"))
    renamed = files.withColumnRenamed("town", "place").select("word", "place", "id", "ill")
    plain = spark.createDataFrame(held.set_column(held.num_columns - 1, "word", held.column("word").cast(pa.string())))
    coded, kept = {"c0": "ill", "c1": "town"}, {"k0": "word"}
    scan = scan_of(files, coded, kept)
    groups = [group for share in scan.shares for group in share]
    assert [g.first for g in groups] == [0, *np.cumsum([g.rows for g in groups])[:-1].tolist()] and sum(g.rows for g in groups) == 400
    assert scan_of(renamed, {"c0": "place"}, {}).columns == {"c0": "town"}
    for options in (dict(id="id"), {}, dict(id=["word", "id"])):
        asked = dict(keep=["id", "word"], seed=4, **options)
        out = multiset(sf.release(plain, SRR, **asked).select("id", "word", "ill", "town")) if options else expected(
            SRR, pq.read_table(tmp_path / "in"), 4, ["id", "word"], of_files=True)
        assert multiset(sf.release(files, SRR, **asked).select("id", "word", "ill", "town")) == out
        again = sf.release(renamed, SRR, tmp_path / "out.parquet", useful="place", force=True, **asked)
        assert multiset(pq.read_table(again.path).select(["id", "word", "ill", "town"])) == out
    other = [
        files.where("id >= 0"), files.withColumn("town", F.upper("town")), files.union(files), plain, files.limit(9),
        spark.read.schema("ill string, town string, id long, word string, more long").parquet(str(tmp_path / "in")),
        files.dropDuplicates(), files.sample(0.5, seed=1),
    ]
    assert [scan_of(f, coded, {"k0": "more"} if "more" in f.columns else kept) for f in other] == [None] * len(other)
    cached = files.cache()
    try:
        assert scan_of(cached, coded, kept) is None
    finally:
        cached.unpersist()
    days = files.withColumn("day", F.lit("2020-02-29").cast("date"))
    days.write.parquet(str(tmp_path / "days"))
    assert scan_of(spark.read.parquet(str(tmp_path / "days")), coded, {"k0": "day"}) is None


def test_files_without_a_name_for_rows_are_drawn_where_they_are_read_and_tell_nothing_by_their_order(spark, tmp_path):
    twins = pa.concat_tables([TABLE, TABLE])  # every row has a twin, which must get noise of its own
    pq.write_table(twins, tmp_path / "in.parquet", row_group_size=90)
    frame = spark.read.parquet(str(tmp_path / "in.parquet"))
    bundle = sf.bundle(TABLE, "ill", ["town"], 1.0).bundle

    kept = sf.release(frame, SRR, keep=["id"], seed=3).select("id", "ill", "town")
    assert multiset(kept) == expected(SRR, twins, 3, ["id"], of_files=True)
    assert kept.toArrow().equals(kept.toArrow())
    assert kept.toArrow().column("id").to_pylist() != sorted(kept.toArrow().column("id").to_pylist())
    nothing = sf.release(frame, SRR, tmp_path / "n.parquet", seed=3)
    assert multiset(pq.read_table(nothing.path)) == expected(SRR, twins, 3)  # counted, as rows of any other frame are
    out = sf.release(frame, bundle, tmp_path / "b.parquet", seed=3)
    assert out.rows == 800 and "shuffled" in out.notes[0]
    again = sf.release(frame.select("town", "ill"), bundle, seed=3)
    assert multiset(pq.read_table(out.path)) == multiset(again)

    later = sf.release(frame, SRR, keep=["id"], seed=3)
    pq.write_table(twins.take(list(range(799, -1, -1))), tmp_path / "in.parquet", row_group_size=90)
    with pytest.raises(Exception, match="is another than before"):
        later.toArrow()


def test_two_rows_of_one_name_leave_nothing_behind(people, tmp_path):
    twice = people.union(people.where("id = 7"))

    for to in (None, tmp_path / "out.parquet"):
        with pytest.raises(sf.DataError, match=r"^id: 401 rows have 400 names"):
            sf.release(twice, SRR, to, keep=["id"], id="id")

    assert os.listdir(tmp_path) == []


def test_names_whose_first_halves_agree_by_chance_are_compared_whole(people, tmp_path, monkeypatch):
    found, own = [], by_id._numbers

    def by_chance(table):
        found.append(own(table))
        return found[-1] if len(found) > 1 else (400, 399)

    monkeypatch.setattr(by_id, "_numbers", by_chance)
    done = sf.release(people, SRR, tmp_path / "out.parquet", keep=["id"], id="id")

    assert done.rows == 400 and found == [(400, 400), (400, 400)]
