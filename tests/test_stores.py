"""Releases into stores and from them, by addresses that never repeat a password."""

from __future__ import annotations

import errno
import os

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs
from tests.streaming_data import PRIVATE, SRR, rows, sorted_rows

import sfumato as sf
from sfumato.releasing import read_manifest


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
