"""Spark releases what the mechanism drew, once for every row, whatever the cluster does with rows and tasks."""

from __future__ import annotations

import datetime
import functools
import json
import os
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import test_frames
from tests.engines import ENGINES, FRAMES, Engine
from tests.spark_cluster import SETTINGS
from tests.spark_definition import bundled, expected, multiset, spelled, words_of_place
from tests.test_placed import digest_by_hand, place_by_hand
from tests.test_release import ALL, rows

import sfumato as sf
from sfumato.drawing.randomness import Stream
from sfumato.releasing import Session, read_manifest
from sfumato.releasing import spark as spark_release
from sfumato.releasing.flow import DrawOptions
from sfumato.releasing.spark import _to_url, by_value
from sfumato.releasing.spark.by_value import _answers

SRR = ALL["srr"]
TABLE = rows(400)


@pytest.fixture(scope="module")
def people(spark):
    return spark.createDataFrame(TABLE)


def test_tables_are_counted_as_they_are_here(spark):
    table = pa.table({
        "s": ["x", "", None, "y"] * 50, "n": [1, 2, 3, 4] * 50, "f": [0.5, float("nan"), 2.5, -1.0] * 50,
        "odd.name": [True, False] * 100, "b": list(range(200)),
    })
    frame = spark.createDataFrame(table)
    for arguments in (
        dict(secret="s", useful=["n", "odd.name"]), dict(secret="n", useful=["f", "b"], bins={"f": [0.0, 1.0], "b": 4}),
        dict(secret="n", useful="s", rare={"s": 60}),
    ):
        here, there = sf.tabulate(table, **arguments), sf.tabulate(frame, **arguments)

        assert there.fingerprint == here.fingerprint
    with pytest.raises(sf.DataError, match=r"^column 's': the value is missing"):
        sf.tabulate(frame, "n", "s", missing="refuse")
    with pytest.raises(sf.InputError, match="'sx' is not a column of the Spark data frame"):
        sf.tabulate(frame, "sx", "n")
    with pytest.raises(sf.DataError, match="no rows"):
        sf.tabulate(frame.limit(0), "n", "s")


@pytest.mark.parametrize("name", ["srr", "symbols", "sets"])
def test_a_release_is_what_the_definition_says_row_by_row(name, people):
    out = sf.release(people, ALL[name], seed=3)

    assert multiset(out) == expected(ALL[name], TABLE, 3)


def test_a_release_with_kept_columns_is_what_the_definition_says_row_by_row(people):
    twice = pa.concat_tables([TABLE, TABLE])  # every row has a twin, which must get noise of its own
    out = sf.release(people.union(people), SRR, keep=["id", "note"], seed=3).select("id", "note", "ill", "town")

    assert multiset(out) == expected(SRR, twice, 3, ["id", "note"])


def test_any_partitioning_gives_the_same_multiset_and_order_comes_from_what_is_released(spark, people):
    for keep in ([], ["id"]):
        base = sf.release(people, SRR, keep=keep, seed=5).toArrow()
        for parts in (1, 7):
            moved = people.orderBy("town", "note").repartition(parts)
            assert sf.release(moved, SRR, keep=keep, seed=5).toArrow().equals(base)  # rows and their order
    spark.conf.set("spark.sql.shuffle.partitions", 5)
    spark.conf.set("spark.sql.adaptive.enabled", False)
    try:
        other = sf.release(people, SRR, keep=["id"], seed=5).toArrow()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", SETTINGS["spark.sql.shuffle.partitions"])
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert multiset(other) == multiset(base)


def test_where_a_row_stands_is_told_by_released_values_alone_where_rows_are_counted(people):
    from pyspark.sql import functions as F

    flow = Session.open(people).use(SRR).check(DrawOptions(seed=1)).flow
    parts = _answers(flow).withColumn("part", F.spark_partition_id()).collect()

    place = F.pmod(F.xxhash64(F.lit(parts[0].y0), F.lit(parts[0].y1)), F.lit(3))
    assert people.select(place.alias("p")).first().p == parts[0].part
    assert len({row.part for row in parts}) > 1
    for part in (0, 1, 2):
        order = [(row.y0, row.y1) for row in parts if row.part == part]
        assert order == sorted(order)


def test_where_a_row_stands_is_told_by_a_word_of_its_own_where_columns_are_kept(people):
    key = Stream.of(1).key
    codes = {row["id"]: SRR.secret.code(row["ill"]) * SRR.useful.size + SRR.useful.code(row["town"]) for row in TABLE.to_pylist()}

    out = sf.release(people, SRR, keep=["id"], seed=1).toArrow()

    def standing(i):
        name = digest_by_hand([spelled(i)], key=key)
        return words_of_place(key, place_by_hand(name, [codes[i]], key), 0, 1, lane=2)[0]

    words = [standing(i) for i in out.column("id").to_pylist()]
    assert words == sorted(words)


def test_a_bundle_is_released_as_the_definition_says_however_the_rows_are_cut(spark, tmp_path):
    from tests.columns_data import people as chain

    names, table = ["secret", "c0", "c1", "c2"], chain(400, columns=3, labels=3)
    bundle = sf.bundle(table, "secret", names[1:], 1.0, asking="in turn").bundle
    assert len(bundle.parts) > 1
    frame = spark.createDataFrame(table.append_column("id", pa.array(range(400))))

    out = sf.release(frame, bundle, seed=3)

    assert multiset(out) == bundled(table, names, 3, bundle)
    again = sf.release(frame.repartition(5), bundle, tmp_path / "b.parquet", seed=3)
    assert again.rows == 400 and multiset(pq.read_table(tmp_path / "b.parquet")) == multiset(out)
    sf.release(frame, bundle, tmp_path / "k.parquet", seed=3, keep=["id"], decode="guess")
    kept = pq.read_table(tmp_path / "k.parquet")
    assert sorted(kept.column("id").to_pylist()) == list(range(400)) and "answer (guess)" in kept.column_names
    found = sf.estimate(tmp_path / "k.parquet", bundle)
    assert found.n == 400 and found.table("c0").p.sum() == pytest.approx(1)


def test_codes_of_many_columns_that_fit_no_word_have_places_of_their_own(spark, monkeypatch):
    from sfumato.releasing.spark import answering, tasks

    table = pa.table({n: ["a", "b", "c", "d"] * 50 for n in ("s", "u", "v", "w")})
    bundle = sf.bundle(table, "s", ["u", "v", "w"], 1.0).bundle
    frame = spark.createDataFrame(table)
    flow = Session.open(frame).use(bundle).check().flow
    monkeypatch.setattr(tasks, "MOST_CODES", 20)
    from sfumato.releasing.spark.reading import job_of

    job = job_of(flow)
    assert job.inputs == 2 and job.names == []
    groups = tasks.coded_apart(bundle)
    assert [c.name for g in groups for c in g.columns] == ["s", "u", "v", "w"] and max(g.size for g in groups) <= 20
    [(rows, numbers)] = answering.numbered(job, iter([pa.record_batch([c.combine_chunks() for c in table.columns], names=["c0", "c1", "c2", "c3"])]))
    assert rows.schema.names == ["m0", "m1", "x0", "x1"] and len(set(numbers.tolist())) == 4
    codes = {tuple(r[n] for n in ("x0", "x1")): (r["m0"], r["m1"]) for r in rows.to_pylist()}
    for code, place in codes.items():
        assert b"".join(x.to_bytes(8, "little") for x in place) == place_by_hand(None, list(code), job.key)
    [(drawn, _)] = answering.draw_rows(job, iter([pa.table(rows)]))
    [released] = answering.ordered(job, iter([pa.table(drawn)]))
    assert released.num_rows == 200 and len(set(map(str, released.to_pylist()))) > 1


def test_two_actions_see_one_noise_and_two_releases_two(people):
    out = sf.release(people, SRR, keep=["id"])

    first, second, other = out.toArrow(), out.repartition(2).cache(), sf.release(people, SRR, keep=["id"])

    assert multiset(first) == multiset(second) != multiset(other)
    assert out.count() == 400


def test_kept_columns_of_many_types_pass_through(spark):
    table = pa.table({
        "ill": ["no", "yes", "no"], "town": ["B", "C", "B"], "text": ["ü:1-", "", None], "day": [datetime.date(2020, 2, 29)] * 3,
        "at": pa.array([1, 2, 3], pa.timestamp("us", "UTC")), "price": [Decimal("1.10"), None, Decimal("2.00")],
        "list": [["a", None], [], None], "inner": [{"x": 1, "y": "z"}, None, {"x": None, "y": None}],
        "raw": [b"\x00\xff", b"", None], "real": [0.1, float("inf"), None],
        "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    })
    kept = table.column_names[2:]
    frame = spark.createDataFrame(table)

    out = sf.release(frame, SRR, keep=kept, seed=1)

    assert multiset(out.select(*kept)) == multiset(frame.select(*kept))
    assert [f.dataType for f in out.select(*kept).schema] == [f.dataType for f in frame.select(*kept).schema]
    with pytest.raises(sf.InputError, match=r"'v' of Spark type variant cannot be kept.*Cast it"):
        sf.release(frame.selectExpr("*", "parse_json('1') as v"), SRR, keep=["v"])


def test_decoding_and_estimating_follow_the_released_frame(people):
    for name in ("srr", "sets"):
        out = sf.release(people, ALL[name], seed=2)
        here, there = sf.estimate(out.toArrow(), ALL[name]), sf.estimate(out, ALL[name])
        assert np.array_equal(here.p, there.p) and there.n == 400
    decoded = sf.release(people, ALL["symbols"], decode="sample", seed=2)
    there = sf.estimate(decoded, ALL["symbols"])
    assert there.decode == "sample"
    assert np.array_equal(there.p, sf.estimate(decoded.toArrow(), ALL["symbols"], decode="sample").p)
    with pytest.raises(sf.InputError, match="another mechanism"):
        sf.estimate(decoded, SRR)
    with pytest.raises(sf.InputError, match="'symbol' is not a column"):
        sf.estimate(people, ALL["symbols"])


def test_a_folder_is_written_whole_with_its_manifest(people, tmp_path):
    done = sf.release(people, SRR, tmp_path / "out.parquet", keep=["id"], seed=6)

    table = pq.read_table(tmp_path / "out.parquet")
    manifest = read_manifest(tmp_path / "out.manifest.json")
    assert multiset(table) == multiset(sf.release(people, SRR, keep=["id"], seed=6))
    assert table.column_names == ["id", "ill", "town"]
    assert (done.rows, manifest.rows, manifest.engine) == (400, 400, "spark")
    assert manifest.randomness == "seeded: not for release"
    assert sorted(os.listdir(tmp_path)) == ["out.manifest.json", "out.parquet"]
    with pytest.raises(sf.SfumatoError, match=r"exists.*force=True"):
        sf.release(people, SRR, tmp_path / "out.parquet")
    sf.release(people, SRR, str(tmp_path / "out.parquet"), force=True)
    assert read_manifest(tmp_path / "out.manifest.json").randomness == "system"
    assert pq.read_table(tmp_path / "out.parquet").column_names == ["ill", "town"]
    assert sorted(os.listdir(tmp_path)) == ["out.manifest.json", "out.parquet"]


def test_a_folder_that_cannot_be_named_leaves_no_manifest(people, tmp_path, monkeypatch):
    own = Path.rename

    def rename(path, target):
        if Path(target).name == "out.parquet":
            raise PermissionError(13, "Permission denied")
        return own(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(sf.SfumatoError, match="could not be written"):
        sf.release(people, SRR, tmp_path / "out.parquet")

    assert os.listdir(tmp_path) == []


def test_parts_of_attempts_that_spark_did_not_take_are_left_out(people, tmp_path, monkeypatch):
    own = spark_release._write

    def twice(staging, names, batches):
        held = list(batches)
        list(own(staging, names, iter(held)))  # an attempt that was overtaken: its part lies there whole
        yield from own(staging, names, iter(held))

    monkeypatch.setattr(spark_release, "_write", twice)
    done = sf.release(people, SRR, tmp_path / "out.parquet", keep=["id"], seed=6)

    assert done.rows == 400
    assert multiset(pq.read_table(tmp_path / "out.parquet")) == multiset(sf.release(people, SRR, keep=["id"], seed=6))
    assert sorted(os.listdir(tmp_path)) == ["out.manifest.json", "out.parquet"]


def test_spark_s_own_writer_serves_urls(people, spark, tmp_path):
    flow = Session.open(people).use(SRR).check(DrawOptions(keep=["id"], seed=6)).flow
    url = (tmp_path / "out.parquet").as_uri()

    def released():
        return sf.release(people, SRR, keep=["id"], seed=6)

    _, rows, _ = _to_url(flow, released(), url, force=False)

    assert multiset(spark.read.parquet(url)) == multiset(released())
    told = json.loads("\n".join(r.value for r in spark.read.text((tmp_path / "out.manifest.json").as_uri(), wholetext=True).collect()))
    assert told["rows"] == rows == 400
    with pytest.raises(sf.SfumatoError, match="exists"):
        _to_url(flow, released(), url, force=False)


@pytest.mark.parametrize(("value", "what"), [("s3cret", "is not in the alphabet"), (None, "is missing")])
@pytest.mark.parametrize("keep", [[], ["id"]])
def test_rows_that_do_not_fit_are_refused_in_our_words(value, what, keep, spark, tmp_path):
    towns = pa.array([*TABLE.column("town").to_pylist()[:-1], value])
    bad = spark.createDataFrame(TABLE.set_column(3, "town", towns))

    with pytest.raises(sf.DataError, match=f"^column 'town': the value {what}") as caught:
        sf.release(bad, SRR, tmp_path / "out.parquet", keep=keep)

    assert "s3cret" not in str(caught.value) and len(str(caught.value)) < 300
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("keep", "name"), [([], None), (["id"], None), (["id"], "id")])
def test_a_secret_that_is_promised_about_and_not_read_is_compared_with_its_labels(keep, name, spark, tmp_path):
    made = sf.design(sf.ChiSquareBall(sf.tabulate(TABLE, "ill", "town")), 1.0, "grr", reads="useful").mechanism
    ill = pa.array([*TABLE.column("ill").to_pylist()[:-1], "s3cret"])
    bad = spark.createDataFrame(TABLE.set_column(TABLE.schema.get_field_index("ill"), "ill", ill))

    with pytest.raises(sf.DataError, match=r"^column 'ill': the value is not in the alphabet"):
        sf.release(bad, made, tmp_path / "out.parquet", keep=keep, id=name)

    assert os.listdir(tmp_path) == []


def test_bad_requests_are_refused_before_any_job(people, tmp_path, spark):
    for arguments, match in (
        (dict(to=tmp_path / "out.csv"), "folder of Parquet files"), (dict(to=tmp_path / "no" / "out"), "does not exist"),
        (dict(keep=["ill"]), "protected"), (dict(keep=["idd"]), "'idd' is not a column of the Spark data frame"),
        (dict(decode="guesses"), "decode must be one of"), (dict(seed="x"), "seed must be"),
    ):
        with pytest.raises(sf.SfumatoError, match=match):
            sf.release(people, SRR, **arguments)
    pq.write_table(TABLE, tmp_path / "in.parquet")
    with pytest.raises(sf.SfumatoError, match="is the input"):
        sf.release(spark.read.parquet(str(tmp_path / "in.parquet")), SRR, tmp_path / "in.parquet", force=True)
    with pytest.raises(sf.DataError, match="no rows"):
        sf.release(people.limit(0), SRR, tmp_path / "out.parquet")
    with pytest.raises(sf.InputError, match="is not a Spark data frame"):
        sf.release(people.groupBy("id"), SRR)
    assert os.listdir(tmp_path) == ["in.parquet"]


@pytest.mark.parametrize("shares", [1, 3])
def test_what_passes_through_the_driver_is_what_the_long_plan_releases(shares, people, tmp_path, monkeypatch):
    monkeypatch.setattr(by_value, "ROWS_AT_ONCE", -(-400 // shares))
    for name, decode in (("srr", "symbols"), ("symbols", "sample")):
        out = tmp_path / f"{name}.parquet"

        done = sf.release(people, ALL[name], out, decode=decode, seed=3)

        files = sorted(out.iterdir())
        assert (done.rows, len(files)) == (400, shares)
        assert multiset(pq.read_table(out)) == multiset(sf.release(people, ALL[name], decode=decode, seed=3))
        each = [Counter(map(str, pq.read_table(f).to_pylist())) for f in files]
        for value in set().union(*each):  # every part has its share of every released value, and of nothing else
            dealt = [c[value] for c in each]
            assert max(dealt) - min(dealt) <= 1


def test_shares_of_rows_hold_every_place_once(monkeypatch):
    monkeypatch.setattr(by_value.tasks, "TASK_BLOCK", 4)
    codes, counts = np.array([2, 5, 6]), np.array([1, 11, 7])
    for parts in (1, 2, 5, 19):
        cells = [by_value._cells(codes, counts, 19 * i // parts, 19 * (i + 1) // parts).to_pylist() for i in range(parts)]
        places = Counter((c["x0"], j) for share in cells for c in share for j in range(c["start"], c["start"] + c["size"]))

        assert places == Counter((x, j) for x, n in zip(codes.tolist(), counts, strict=True) for j in range(n))
        assert all(0 < c["size"] <= 4 for share in cells for c in share)
        assert {sum(c["size"] for c in share) for share in cells} <= {19 // parts, -(-19 // parts)}


def test_a_ledger_counts_a_release_on_a_cluster_and_its_budget_stops_one(people, tmp_path):
    book = sf.Ledger(tmp_path / "people.ledger")
    level = sf.certify(SRR).level
    asked = dict(ledger=book, people="cohort", budget=1.5 * level)

    done = sf.release(people, SRR, tmp_path / "out.parquet", **asked)

    [entry] = book.entries()
    assert (entry.state, entry.people, entry.level) == ("delivered", "cohort", level)
    assert entry.token == done.manifest.entry == read_manifest(tmp_path / "out.manifest.json").entry
    with pytest.raises(sf.SfumatoError, match="budget"):
        sf.release(people, SRR, tmp_path / "second.parquet", **asked)
    assert not (tmp_path / "second.parquet").exists()
    assert [e.state for e in book.entries() if e.state == "delivered"] == ["delivered"]


# The contract of tests/test_frames.py. Noise belongs to what a row is, not to its number, so a seed gives other rows
# than on this machine: what is released from the table in one piece stands for what is expected.
CONTRACT = {
    "split": (test_frames.test_any_split_into_batches_gives_the_same_rows_in_the_same_kind_of_frame, ((1, 2, 300),)),
    "symbols": (test_frames.test_every_decoding_is_the_same, ("symbols",)),
    "likely": (test_frames.test_every_decoding_is_the_same, ("likely",)),
    "sample": (test_frames.test_every_decoding_is_the_same, ("sample",)),
    "counts": (test_frames.test_counts_are_the_same, ()),
    "estimates": (test_frames.test_estimates_are_the_same, ()),
    "manifest": (test_frames.test_a_frame_that_can_carries_its_manifest_to_the_estimate, ()),
    "missing column": (test_frames.test_a_missing_column_is_named, ()),
}


@pytest.mark.parametrize("law", CONTRACT)
def test_the_contract_of_all_frames_holds(law, spark, monkeypatch, tmp_path):
    def made(table, folder):
        parts = [spark.createDataFrame(pa.Table.from_batches([b])) for b in table.to_batches()]
        return functools.reduce(lambda a, b: a.union(b), parts)

    def expected(name="cells", decode="symbols"):
        frame = spark.createDataFrame(test_frames.people())
        out = sf.release(frame, test_frames.mechanism(name), decode=decode, seed=test_frames.SEED).toArrow()
        return test_frames.multiset(out, out.column_names)

    engine = Engine(made, type(spark.range(1)), lambda frame: frame.toArrow())
    for table in (ENGINES, FRAMES):
        monkeypatch.setitem(table, "spark", engine)
    monkeypatch.setattr(test_frames, "expected", expected)
    check, arguments = CONTRACT[law]
    check("spark", *arguments, tmp_path)


def test_two_hundred_columns_are_kept(spark):
    wide = {f"c{i}": pa.array([None if (r + i) % 7 == 0 else (r * i) % (i + 2) for r in range(400)], pa.int64()) for i in range(200)}
    frame = spark.createDataFrame(pa.table({**{n: TABLE.column(n) for n in ("ill", "town", "id")}, **wide}))

    out = sf.release(frame, SRR, keep=["id", *wide], seed=1).toArrow().sort_by("id")

    assert out.num_columns == 203
    assert out.select(list(wide)).equals(pa.table(wide))
