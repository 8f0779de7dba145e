"""Files of every kind, folders, stores and pipes: complete or not there, except through a pipe, where it is said."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyarrow import fs

import sfumato as sf
from sfumato.alphabet import Alphabet, Column
from sfumato.atomic import FolderDraft
from sfumato.cli import cli
from sfumato.mechanism import Cells, Claim, Mechanism
from sfumato.releasing import read_manifest, writing
from sfumato.sources import delimited, open_source

SECRET, USEFUL = Alphabet.of(Column.of("ill", ["no", "yes"])), Alphabet.of(Column.of("town", ["A", "B", "C"]))
LAW = Cells(2, 3, 0.4, 0.1, 0.1, 0.15).rounded(None, 1e-9)
JOINT = sf.Joint.from_counts([[40, 30, 10], [20, 50, 50]], SECRET, USEFUL)
SRR = Mechanism(LAW, SECRET, USEFUL, method="srr", claim=Claim("ldp", 1.4), joint=JOINT, source="reference")
PRIVATE = "Xanthippe"
FAST = ["--epsilon", "1", "--notion", "ldp", "--method", "srr", "--public-labels", "all"]


def rows(n=200) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({
        "year": pa.array(rng.integers(2020, 2023, n)), "ill": rng.choice(["no", "yes"], n),
        "town": rng.choice(["A", "B", "C"], n), "note": [f"{PRIVATE} {i}/é" for i in range(n)],
    })


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def people(tmp_path):
    pq.write_table(rows(), tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


def sorted_rows(table: pa.Table) -> list:
    names = sorted(table.column_names)
    return sorted(zip(*([str(x) for x in table.column(n).to_pylist()] for n in names), strict=True))


# Packed CSV

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


# Folders


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
    monkeypatch.setattr(writing, "GROUP_BYTES", 1)

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
    import sys, time
    import sfumato as sf

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


# Stores


def local_store(tmp_path):
    (tmp_path / "store").mkdir()
    return fs.SubTreeFileSystem(str(tmp_path / "store"), fs.LocalFileSystem())


STORES = {"below a folder": local_store, "in memory": lambda tmp_path: fs._MockFileSystem()}


def names_in(store) -> list[str]:
    return sorted(i.path for i in store.get_file_info(fs.FileSelector("", recursive=True)) if i.type == fs.FileType.File)


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    made = STORES[request.param](tmp_path)
    made.create_dir("bucket")
    return made


@pytest.mark.parametrize("name", ["out.csv", "out.csv.zst", "out.parquet"])
def test_a_release_into_a_store_and_from_it(name, store, people):
    place = sf.Place(f"bucket/{name}", store)

    done = sf.release(people, SRR, place, seed=2)

    assert names_in(store) == ["bucket/out.manifest.json", f"bucket/{name}"] or names_in(store) == [
        f"bucket/{name}", "bucket/out.manifest.json"]
    assert done.manifest.size == store.get_file_info(place.path).size
    assert read_manifest(place.with_name("out.manifest.json")) == done.manifest
    reference = sf.release(people, SRR, seed=2)
    assert np.array_equal(sf.estimate(place, SRR).p, sf.estimate(reference, SRR).p)
    assert (sf.tabulate(place, "ill", "town").counts == sf.tabulate(reference, "ill", "town").counts).all()
    with pytest.raises(sf.SfumatoError, match="exists"):
        sf.release(people, SRR, place)
    with pytest.raises(sf.SfumatoError, match="is the input"):
        sf.release(place, SRR, place, force=True)
    assert sf.release(people, SRR, place, force=True).rows == 200


def test_a_partitioned_folder_in_a_store(store, people):
    place = sf.Place("bucket/released", store)

    sf.release(people, SRR, place, keep=["year"], partition=["year"], seed=2)

    assert [n for n in names_in(store) if "year" in n] == [
        f"bucket/released/year={y}/part-0.parquet" for y in (2020, 2021, 2022)]
    assert not [n for n in names_in(store) if ".part/" in n]
    assert sorted_rows(sf.release(place, SRR, keep=["year"], seed=3).select(["year"])) == sorted_rows(
        rows().select(["year"]))
    sf.release(people, SRR, place, partition=["town"], force=True)
    assert not [n for n in names_in(store) if "year" in n]


def test_an_error_leaves_nothing_in_a_store(store, folder):
    table = pa.concat_tables([rows(), rows().slice(0, 1).set_column(2, "town", pa.array([PRIVATE]))])
    for name, more in (("out.csv", {}), ("released", {"partition": ["town"]})):
        with pytest.raises(sf.DataError, match="row 201") as caught:
            sf.release(table, SRR, sf.Place(f"bucket/{name}", store), **more)
        assert PRIVATE not in str(caught.value)
    assert names_in(store) == []


def test_a_move_that_fails_takes_everything_back(store, people):
    class Broken(fs.FileSystemHandler):
        """A store that takes bytes but fails to move the table."""

    for method in [m for m in dir(fs.FileSystemHandler) if not m.startswith("__")]:
        def call(self, *args, method=method):
            if method == "move" and args[1].endswith(".csv"):
                raise OSError(errno.EIO, PRIVATE)
            if method == "get_file_info_selector":
                return store.get_file_info(*args)
            if method == "normalize_path":
                return args[0]
            if method == "open_output_stream":
                return store.open_output_stream(args[0])
            return getattr(store, method)(*args)

        setattr(Broken, method, call)
    Broken.get_type_name = lambda self: "broken"
    Broken.__abstractmethods__ = frozenset()
    place = sf.Place("bucket/out.csv", fs.PyFileSystem(Broken()))

    with pytest.raises(sf.SfumatoError, match=r"bucket/out\.csv could not be written.*Nothing was left behind") as caught:
        sf.release(people, SRR, place)

    assert PRIVATE not in str(caught.value)
    assert names_in(store) == []


def test_addresses_are_understood_and_never_repeat_a_password(people, folder, tmp_path):
    done = sf.release(people.as_uri(), SRR, (folder / "of addresses.csv").as_uri(), seed=2)
    assert done.path == folder / "of addresses.csv" and done.path.exists()
    SRR.save(tmp_path / "m.json")
    assert sf.load((tmp_path / "m.json").as_uri()).outputs == SRR.outputs

    with pytest.raises(sf.InputError, match=r"begin with memory:// .*sfumato\.Place") as caught:
        sf.tabulate("memory://user:s3cret@host/x.csv", "ill", "town")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(sf.InputError, match=r"bucket/gone\.csv could not be read"):
        sf.tabulate(sf.Place("bucket/gone.csv", fs._MockFileSystem()), "ill", "town")


# What cannot be written


def test_a_target_that_is_read_only(people, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    os.chmod(tmp_path, 0o755)
    user = os.geteuid()
    for parent in [people, *people.parents]:
        os.chmod(parent, os.stat(parent).st_mode | 0o055) if str(parent).startswith("/tmp/pytest") else None
    if user == 0:
        os.seteuid(65534)
    try:
        for name in ("out.csv", "released"):
            with pytest.raises(sf.SfumatoError, match=r"could not be written: Permission denied\. Nothing was left"):
                sf.release(rows(), SRR, locked / name)
    finally:
        os.seteuid(user)

    assert os.listdir(locked) == []


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.binary(), pa.binary_view(), pa.struct([("a", pa.int64())])])
def test_csv_refuses_what_it_cannot_hold(kind, folder):
    values = pa.nulls(200, kind)

    with pytest.raises(sf.InputError, match=r"column 'odd' holds .*, which CSV cannot hold\. Write \.parquet"):
        sf.release(rows().append_column("odd", values), SRR, folder / "out.csv", keep=["odd"])

    assert os.listdir(folder) == []


# Pipes


@pytest.fixture
def mechanism(tmp_path):
    return str(SRR.save(tmp_path / "m.json"))


def csv_of(table: pa.Table) -> bytes:
    text = io.BytesIO()
    pacsv.write_csv(table, text)
    return text.getvalue()


def test_from_pipe_to_pipe(mechanism):
    done = CliRunner().invoke(
        cli, ["release", "-", "--mechanism", mechanism, "--out", "-", "--seed", "2", "--keep", "year"],
        input=csv_of(rows()),
    )

    assert done.exit_code == 0, done.stderr
    found = pacsv.read_csv(io.BytesIO(done.stdout_bytes))
    assert sorted_rows(found) == sorted_rows(sf.release(rows(), SRR, seed=2, keep=["year"]))
    said = " ".join(done.stderr.split())
    assert "cannot be all or nothing" in said and "discard what was written" in said
    assert "Released 200 rows" in said and SRR.claim.sentence in said


def test_arrow_through_a_pipe(mechanism):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows().schema) as writer:
        writer.write_table(rows())

    arguments = ["release", "-", "--mechanism", mechanism, "--out", "-", "--seed", "2", "--format", "arrow"]
    done = CliRunner().invoke(cli, arguments, input=sink.getvalue())

    assert done.exit_code == 0, done.stderr
    assert sorted_rows(pa.ipc.open_stream(done.stdout_bytes).read_all()) == sorted_rows(sf.release(rows(), SRR, seed=2))
    wrong = CliRunner().invoke(cli, arguments, input=csv_of(rows()))
    assert wrong.exit_code == 2 and "not a stream of Arrow's" in wrong.stderr and PRIVATE not in wrong.output


def test_rows_leave_a_pipe_before_the_last_has_come(mechanism):
    head, *body = csv_of(rows(300_000)).splitlines(keepends=True)
    command = [sys.executable, "-m", "sfumato.cli", "release", "-", "--mechanism", mechanism, "--out", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        def feed():
            child.stdin.write(head + b"".join(body))
            child.stdin.flush()  # and the pipe stays open

        feeder = threading.Thread(target=feed)
        feeder.start()
        first = [child.stdout.readline() for _ in range(1000)]
        assert first[0] == b"ill,town\n" and all(first)
        feeder.join()
        child.stdin.close()
        assert 999 + len(child.stdout.read().splitlines()) == 300_000
        child.stderr.read()
        assert child.wait(60) == 0


def test_a_reader_that_leaves_ends_the_release_quietly(mechanism, tmp_path):
    (tmp_path / "in.csv").write_bytes(csv_of(rows(200_000)))
    command = [sys.executable, "-m", "sfumato.cli", "release", tmp_path / "in.csv", "--mechanism", mechanism, "--out", "-"]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ill,town\n"
        child.stdout.close()
        said = child.stderr.read().decode()
        assert child.wait(60) == 1
    assert "Traceback" not in said and "bug" not in said


def test_an_error_in_a_pipe_says_that_what_went_before_is_not_whole(mechanism, tmp_path):
    text = csv_of(rows(60_000)) + f"2020,no,{PRIVATE},x\n".encode()

    done = CliRunner().invoke(cli, ["release", "-", "--mechanism", mechanism, "--out", "-"], input=text)

    assert done.exit_code == 3
    assert "column 'town', row 60001" in done.stderr and "not the whole table: discard it" in " ".join(done.stderr.split())
    assert PRIVATE not in done.stderr and done.stdout_bytes.count(b"\n") > 1


def test_a_full_disk_behind_a_pipe_is_said(mechanism, tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    (tmp_path / "in.csv").write_bytes(csv_of(rows(2000)))
    command = [sys.executable, "-m", "sfumato.cli", "release", tmp_path / "in.csv", "--mechanism", mechanism, "--out", "-"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(list(map(str, command)), stdout=full, stderr=subprocess.PIPE, text=True)

    assert done.returncode == 6
    assert "standard output could not be written" in done.stderr and "discard it" in done.stderr


@pytest.mark.parametrize(("arguments", "said"), [
    (["-", "--secret", "ill", "--epsilon", "1", "--out", "x.csv"], "can be read only once"),
    (["people.csv", "--secret", "ill", "--epsilon", "1", "--out", "-"], "sfumato design"),
    (["-", "--mechanism", "m.json", "--out", "-", "--json"], "leave out --json"),
    (["-", "--mechanism", "m.json", "--out", "-", "--report", "x.html"], "leave out --report"),
    (["people.csv", "--mechanism", "m.json", "--out", "x.csv", "--format", "tsv"], "--format is for standard input"),
])
def test_what_a_pipe_cannot_do(arguments, said, folder, monkeypatch):
    monkeypatch.chdir(folder)

    done = CliRunner().invoke(cli, ["release", *arguments], input=b"")

    assert done.exit_code == 2 and said in " ".join(done.stderr.split())
    assert os.listdir(folder) == []


def test_empty_and_ragged_input_through_a_pipe(mechanism):
    for text, code, said in (
        (b"", 2, "standard input is empty"), (b"ill,town\n", 3, "standard input has no rows"),
        (f"ill,town\nno,A\nno,{PRIVATE},B\n".encode(), 3, "2 fields expected, 3 found"),
    ):
        done = CliRunner().invoke(cli, ["release", "-", "--mechanism", mechanism, "--out", "-"], input=text)
        assert done.exit_code == code and said in done.stderr and PRIVATE not in done.output


def test_a_pipe_can_be_released_with_a_design_from_other_rows(tmp_path, folder):
    (tmp_path / "reference.csv").write_bytes(csv_of(rows()))

    done = CliRunner().invoke(cli, [
        "release", "-", "--design-from", str(tmp_path / "reference.csv"), "--secret", "ill", "--useful", "town", *FAST,
        "--out", str(folder / "o.csv"), "--json"], input=csv_of(rows(300)))

    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 300
    assert (folder / "o.csv").read_text().count("\n") == 301


def test_estimate_and_design_read_a_pipe(mechanism, folder):
    released = sf.release(rows(), SRR, seed=2)
    text = csv_of(pa.table({n: released[n].cast(pa.string()) for n in released.column_names}))

    done = CliRunner().invoke(cli, ["estimate", "-", "--mechanism", mechanism, "--json"], input=text)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["n"] == 200

    out = str(folder / "m.json")
    made = CliRunner().invoke(cli, [
        "design", "-", "--secret", "ill", "--epsilon", "1", "--useful", "town", "--notion", "ldp", "--method", "srr",
        "--design", "exact", "--out", out], input=csv_of(rows()))
    assert made.exit_code == 0, made.stderr
    assert (sf.load(out).joint.counts == sf.tabulate(rows(), "ill", "town").counts).all()


# The command, on every kind of place


def test_the_command_reads_and_writes_folders(tmp_path, folder):
    source = mixed(tmp_path, rows())

    done = CliRunner().invoke(cli, [
        "release", str(source), "--secret", "ill", "--useful", "town", "--keep", "year", "--partition", "year", *FAST,
        "--out", str(folder / "released")])

    assert done.exit_code == 0, done.stderr
    assert sorted(os.listdir(folder)) == [
        "released", "released.manifest.json", "released.mechanism.json", "released.report.html", "released.tables.csv"]
    again = CliRunner().invoke(cli, ["estimate", str(folder / "released"), "--json"])
    assert json.loads(again.stdout)["n"] == 400


def test_the_command_refuses_partitions_that_are_not_released(people, folder):
    done = CliRunner().invoke(cli, [
        "release", str(people), "--secret", "ill", "--useful", "town", "--partition", "year", *FAST, "--out",
        str(folder / "released")])

    assert done.exit_code == 2 and "'year' is not a column of the released table" in done.stderr
    assert os.listdir(folder) == []
    with pytest.raises(sf.InputError, match="partition divides a folder"):
        sf.release(people, SRR, partition=["town"])


def test_the_command_takes_addresses(people, folder):
    done = CliRunner().invoke(cli, [
        "release", people.as_uri(), "--secret", "ill", "--useful", "town", *FAST, "--out", (folder / "o.csv.gz").as_uri()])

    assert done.exit_code == 0, done.stderr
    assert sorted(os.listdir(folder)) == [
        "o.csv.gz", "o.manifest.json", "o.mechanism.json", "o.report.html", "o.tables.csv"]


def test_unseen_labels_go_where_they_are_told(tmp_path, folder):
    (tmp_path / "new.csv").write_bytes(csv_of(rows()) + f"2020,no,{PRIVATE},x\n".encode())
    (tmp_path / "reference.csv").write_bytes(csv_of(rows()))
    arguments = ["release", str(tmp_path / "new.csv"), "--design-from", str(tmp_path / "reference.csv"), "--secret",
                 "ill", "--useful", "town", *FAST, "--out", str(folder / "o.csv")]

    refused = CliRunner().invoke(cli, arguments)
    assert refused.exit_code == 3 and "--unseen" in refused.stderr and os.listdir(folder) == []
    wrong = CliRunner().invoke(cli, [*arguments, "--unseen", "town=Z"])
    assert wrong.exit_code == 2 and "unseen must be a label of column 'town' (A, B, C), got 'Z'" in wrong.stderr
    done = CliRunner().invoke(cli, [*arguments, "--unseen", "town=C"])
    assert done.exit_code == 0, done.stderr
    assert sf.load(folder / "o.mechanism.json").useful.columns[0].other == "C"
    assert PRIVATE not in (folder / "o.csv").read_text()


def test_unseen_is_one_label_for_all_columns_that_have_it():
    table = pa.table({"s": ["a", "none", "a"], "u": ["x", "none", "y"], "v": ["p", "q", "p"]})

    joint = sf.tabulate(table, "s", ["u", "v"], unseen="none")

    assert [c.other for c in (*joint.secret.columns, *joint.useful.columns)] == ["none", "none", None]
    with pytest.raises(sf.InputError, match="no column has that label"):
        sf.tabulate(table, "s", ["u"], unseen="nobody")
    grouped = sf.tabulate(table, "s", ["u"], rare={"u": 2}, unseen="a")
    assert grouped.useful.columns[0].other == "other"
    with pytest.raises(sf.InputError, match="with the rare ones already"):
        sf.tabulate(pa.table({"s": ["a", "b"] * 3, "u": ["x"] * 5 + ["y"]}), "s", "u", rare=2, unseen={"u": "x"})


# Progress


def test_progress_shows_rows_per_second_and_time_left(monkeypatch):
    from rich.console import Console

    from sfumato.cli import console

    text = io.StringIO()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(console, "screen", lambda err: Console(file=text, force_terminal=True, width=110))
    with console.progress("releasing people.csv", lambda done: 4 * done, rows=True) as tell:
        tell(250_000)

    assert "250,000 rows" in text.getvalue() and "rows/s" in text.getvalue() and "left" in text.getvalue()


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_the_number_of_rows_is_guessed_from_the_share_that_was_read(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1 << 14)
    n, rng = 200_000, np.random.default_rng(0)
    table = pa.table({"ill": rng.choice(["no", "yes"], n), "town": rng.choice(["A", "B", "C"], n)})
    sf.release(table, SRR, tmp_path / f"big.csv{packed}")
    source, done, guesses = open_source(tmp_path / f"big.csv{packed}"), 0, []
    for batch in source.batches(["ill"]):
        done += batch.num_rows
        guesses.append(source.expected(done))

    assert guesses[-1] == n
    assert all(n / 2 < g < 2 * n for g in guesses[len(guesses) // 2 :])
    assert open_source(table).expected(5) == n


def test_a_process_ends_well_while_a_slow_table_is_still_being_read():
    """Arrow's threads must not return to an interpreter that has ended: the process would abort."""
    script = textwrap.dedent("""
        import io, itertools, time
        from sfumato.sources.delimited import stream_source

        class Slow(io.RawIOBase):
            lines = itertools.chain([b"a,b\\n"], itertools.repeat(b"x,y\\n" * 250_000))
            readable = lambda self: True
            def read(self, size=-1):
                time.sleep(0.05)
                return next(self.lines)

        held = stream_source(Slow()).read(["a"], [])
        next(held)
        raise SystemExit(2)
    """)
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 2
