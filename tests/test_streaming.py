"""Files of every kind, folders, stores and pipes: complete or not there, except through a pipe, where it is said."""

from __future__ import annotations

import bz2
import errno
import gzip
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from tests.streaming_data import PRIVATE, SRR, rows, sorted_rows

import sfumato as sf
from sfumato.atomic import FolderDraft
from sfumato.releasing import writing
from sfumato.sources import open_source

OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".zst": lambda p: pa.CompressedInputStream(pa.OSFile(str(p)), "zstd")}


@pytest.mark.parametrize("packed", OPENERS)
@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_packed_files_go_out_and_come_in(packed, kind, people, folder):
    plain, out = folder / f"plain.{kind}", folder / f"out.{kind}{packed}"

    sf.release(people, SRR, plain, keep=["note"], seed=2)
    sf.release(people, SRR, out, keep=["note"], seed=2)

    with OPENERS[packed](out) as stream:
        assert stream.read() == plain.read_bytes()
    assert sorted_rows(sf.release(out, SRR, keep=["note"], seed=3)) == sorted_rows(
        sf.release(plain, SRR, keep=["note"], seed=3))
    assert (folder / "out.manifest.json").exists()
    assert np.array_equal(sf.estimate(out, SRR).p, sf.estimate(plain, SRR).p)


@pytest.mark.parametrize("packed", OPENERS)
def test_a_packed_file_that_was_cut_short_leaves_nothing(packed, people, folder, tmp_path):
    rng = np.random.default_rng(1)
    big = pa.table({"ill": rng.choice(["no", "yes"], 90_000), "town": rng.choice(["A", "B", "C"], 90_000),
                    "key": rng.integers(0, 2**60, 90_000)})
    whole = tmp_path / f"big.csv{packed}"
    sf.release(big, SRR, whole, keep=["key"])
    cut = tmp_path / f"cut.csv{packed}"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])

    with pytest.raises(sf.InputError, match=r"cut\.csv\S* could not be read.*damaged or cut short"):
        sf.release(cut, SRR, folder / "out.csv")

    assert os.listdir(folder) == []


def test_the_header_is_not_blamed_for_the_body(tmp_path):
    (tmp_path / "body.csv").write_bytes(b"note,ill,town\nx,no,A\nx,yes,\xff\xfe" + PRIVATE.encode() + b"\n")
    source = open_source(tmp_path / "body.csv", encoding="utf-8")

    assert source.columns == ("note", "ill", "town")
    with pytest.raises(sf.DataError, match=r"body\.csv, column 'town': a value is not UTF-8") as caught:
        sf.release(source, SRR)
    assert PRIVATE not in str(caught.value)


@pytest.mark.parametrize(("content", "columns"), [
    (b'"a\nb",c\r\n1,2\r\n', ("a\nb", "c")), (b"\xef\xbb\xbfa,b\n1,2\n", ("a", "b")), (b'"say ""x""",b', ('say "x"', "b")),
    (("ä" * 70_000 + ",b\n1,2\n").encode(), ("ä" * 70_000, "b")),
])
def test_headers_of_every_kind_are_read_whole(content, columns, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)

    assert open_source(tmp_path / "t.csv").columns == columns


def test_a_partitioned_folder_goes_out_and_comes_in(people, folder):
    done = sf.release(people, SRR, folder / "released", keep=["year", "note"], partition=["year", "town"], seed=2)

    table = sf.release(people, SRR, keep=["year", "note"], seed=2)
    arrows = pads.dataset(folder / "released", partitioning="hive").to_table()
    assert sorted_rows(arrows) == sorted_rows(table)
    assert sorted(os.listdir(folder)) == ["released", "released.manifest.json"]
    assert sorted(os.listdir(folder / "released")) == ["year=2020", "year=2021", "year=2022"]
    ours = open_source(folder / "released")
    back = pa.Table.from_batches(list(ours.batches([], sorted(ours.columns))))
    assert back.schema.field("year").type == pa.int64()
    assert sorted_rows(back) == sorted_rows(table)
    assert done.rows == 200 and ours.rows == 200
    assert np.array_equal(sf.estimate(folder / "released", SRR).p, sf.estimate(table, SRR).p)


def test_partition_values_may_be_anything(folder):
    odd = ["a/b", "x=y", "é %", None]
    table = pa.table({"ill": ["no", "yes"] * 2, "town": ["A", "B", "C", "A"], "place": odd})

    sf.release(table, SRR, folder / "released", keep=["place"], partition="place", seed=1)

    assert set(pads.dataset(folder / "released", partitioning="hive").to_table()["place"].to_pylist()) == set(odd)
    back = open_source(folder / "released")
    assert {x for b in back.batches(["place"]) for x in b.column("place").to_pylist()} == set(odd)


def test_a_folder_without_partitions_is_cut_into_files(people, folder, monkeypatch):
    monkeypatch.setattr(writing, "FILE_ROWS", 50)
    source = pa.Table.from_batches(rows().to_batches(max_chunksize=30))

    sf.release(source, SRR, folder / "released", seed=2)

    files = sorted(os.listdir(folder / "released"))
    assert files == [f"part-{i}.parquet" for i in range(4)]
    assert sorted_rows(pq.read_table(folder / "released")) == sorted_rows(sf.release(people, SRR, seed=2))


def test_memory_that_many_partitions_hold_is_bounded(people, folder, monkeypatch):
    monkeypatch.setattr(writing, "BYTES_AT_ONCE", 1)

    sf.release(people, SRR, folder / "released", keep=["year"], partition=["year"], seed=2)

    assert sorted_rows(pads.dataset(folder / "released", partitioning="hive").to_table()) == sorted_rows(
        sf.release(people, SRR, keep=["year"], seed=2))


@pytest.mark.parametrize(("options", "match"), [
    (dict(partition=["yaer"], keep=["year"]), "'yaer' is not a column of the released table.*'year'"),
    (dict(partition=["ill", "town"]), "at least one column must be left"),
    (dict(partition=["year", "year"], keep=["year"]), "named twice in partition"),
    (dict(partition=["key"], keep=["key"]), "more than 20 partitions by key"),
    (dict(partition=["score"], keep=["score"]), "'score' holds double"),
])
def test_partitions_that_make_no_sense_leave_nothing(options, match, folder, monkeypatch):
    monkeypatch.setattr(writing, "MOST_PARTITIONS", 20)
    table = rows(2000).append_column("key", pa.array(range(2000))).append_column("score", pa.array([0.5] * 2000))

    with pytest.raises(sf.InputError, match=match):
        sf.release(table, SRR, folder / "released", **options)

    assert os.listdir(folder) == []


def mixed(tmp_path, second: pa.Table):
    (tmp_path / "mixed").mkdir()
    pq.write_table(rows(), tmp_path / "mixed" / "a.parquet")
    pq.write_table(second, tmp_path / "mixed" / "b.parquet")
    return tmp_path / "mixed"


def test_a_folder_with_mixed_schemas_is_refused(tmp_path, folder):
    source = mixed(tmp_path, rows().rename_columns(["year", "ill", "twon", "note"]))
    with pytest.raises(sf.InputError, match=r"'town' is in mixed/a\.parquet but not in mixed/b\.parquet.*one schema"):
        sf.release(source, SRR, folder / "out.parquet")
    pq.write_table(rows().set_column(0, "year", rows()["year"].cast(pa.string())), source / "b.parquet")
    with pytest.raises(sf.InputError, match=r"'year' is int64 in mixed/a\.parquet but string in mixed/b\.parquet"):
        sf.release(source, SRR, folder / "out.parquet", keep=["year"])
    assert os.listdir(folder) == []
    assert sf.release(source, SRR, folder / "out.parquet").rows == 400  # a column that is not read may differ


def test_how_text_is_stored_may_differ_within_a_folder(tmp_path):
    second = rows().set_column(2, "town", rows()["town"].cast(pa.large_string()).dictionary_encode())

    assert sf.release(mixed(tmp_path, second), SRR).num_rows == 400


def test_folders_that_are_no_tables_are_refused(tmp_path):
    source = mixed(tmp_path, rows())
    (source / "_SUCCESS").write_text("")
    assert open_source(source).rows == 400
    (source / "readme.txt").write_text("hello")
    with pytest.raises(sf.InputError, match=r"other files than Parquet ones, such as readme\.txt"):
        open_source(source)
    (source / "readme.txt").unlink()
    (source / "year=1").mkdir()
    pq.write_table(rows(), source / "year=1" / "c.parquet")
    with pytest.raises(sf.InputError, match=r"partitioned in two ways: by nothing and, at year=1/c\.parquet, by year"):
        open_source(source)
    (source / "year=1" / "c.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(sf.InputError, match="not a Parquet file"):
        open_source(source / "year=1")


def test_a_folder_is_replaced_only_with_force_and_only_if_it_is_one_of_ours(people, folder):
    sf.release(people, SRR, folder / "released")
    before = sorted((folder / "released").iterdir())
    with pytest.raises(sf.SfumatoError, match=r"exists.*force=True"):
        sf.release(people, SRR, folder / "released")
    sf.release(people, SRR, folder / "released", force=True, partition=["town"])
    assert sorted(os.listdir(folder / "released")) == ["town=A", "town=B", "town=C"] and before
    (folder / "released" / "thesis.docx").write_text("precious")
    with pytest.raises(sf.SfumatoError, match=r"holds other files than Parquet ones, such as thesis\.docx"):
        sf.release(people, SRR, folder / "released", force=True)
    assert (folder / "released" / "thesis.docx").read_text() == "precious"
    assert not [x for x in os.listdir(folder) if x.startswith(".")]


def test_an_empty_folder_is_no_obstacle(people, folder):
    (folder / "released").mkdir()

    assert sf.release(people, SRR, folder / "released").rows == 200


@pytest.mark.parametrize("where", ["inside", "around", "same"])
def test_input_and_output_folders_stay_apart(where, tmp_path):
    source = mixed(tmp_path / "x" if (tmp_path / "x").mkdir() is None else tmp_path, rows())
    target = {"inside": source / "released", "around": source.parent, "same": source}[where]
    before = sorted(str(p) for p in tmp_path.rglob("*"))

    with pytest.raises(sf.SfumatoError, match="input"):
        sf.release(source, SRR, target, force=True)

    assert sorted(str(p) for p in tmp_path.rglob("*")) == before


def test_a_folder_that_cannot_be_named_leaves_the_old_one(people, folder, monkeypatch):
    sf.release(people, SRR, folder / "released")
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    real = os.rename

    def rename(old, new, **more):
        if str(old).endswith(".part"):
            raise OSError(errno.ENOSPC, "full")
        return real(old, new, **more)

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(FolderDraft, "settle", lambda draft: None)
    with pytest.raises(sf.SfumatoError, match=r"not enough room\. Nothing was left behind"):
        sf.release(people, SRR, folder / "released", force=True)
    monkeypatch.undo()

    left = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert {p: left[p] for p in before if p.suffix == ".parquet"} == {
        p: b for p, b in before.items() if p.suffix == ".parquet"}
    assert set(left) == set(before)


CHILD = textwrap.dedent("""
    import signal, sys, time
    import sfumato as sf

    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it

    def tell(done):
        if done > 400_000:
            print(done, flush=True)
            time.sleep(30)

    sf.release(sys.argv[1], sf.load(sys.argv[2]), sys.argv[3], partition=["town"], progress=tell)
""")


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_killed_in_the_middle_a_folder_is_not_there_and_nothing_raw_is(sent, tmp_path, folder):
    n = 1_500_000
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({
        "ill": rng.choice(["no", "yes"], n), "town": rng.choice(["A", "B", "C"], n), "note": pa.repeat(PRIVATE, n),
    }), tmp_path / "people.parquet")
    SRR.save(tmp_path / "m.json")
    command = [sys.executable, "-c", CHILD, tmp_path / "people.parquet", tmp_path / "m.json", folder / "released"]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert int(child.stdout.readline()) > 400_000
        child.send_signal(sent)
        child.communicate(timeout=60)

    left = os.listdir(folder)
    assert all(name.startswith(".released.") and name.endswith(".part") for name in left)
    assert left == [] or sent == signal.SIGKILL
    assert not [p for p in folder.rglob("*") if p.is_file() and PRIVATE.encode() in p.read_bytes()]
