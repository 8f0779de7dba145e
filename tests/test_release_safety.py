"""A release that cannot be whole leaves nothing: refused, interrupted, killed or out of room."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import sfumato as sf
from sfumato import atomic
from sfumato.alphabet import Alphabet, Column
from sfumato.mechanism import Cells, Claim, Mechanism

SECRET, USEFUL = Alphabet.of(Column.of("ill", ["no", "yes"])), Alphabet.of(Column.of("town", ["A", "B", "C"]))
LAW = Cells(2, 3, 0.4, 0.1, 0.1, 0.15).rounded(None, 1e-9)
SRR = Mechanism(LAW, SECRET, USEFUL, method="srr", claim=Claim("ldp", 1.4))


def rows(n=20) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({"ill": rng.choice(["no", "yes"], n), "town": rng.choice(["A", "B", "C"], n)})


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in").mkdir()
    pacsv.write_csv(rows(), tmp_path / "in" / "people.csv")
    return tmp_path / "in" / "people.csv"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture(params=["nameless", "hidden"], autouse=True)
def drafts_of_both_kinds(request, monkeypatch):
    if request.param == "hidden":
        monkeypatch.setattr(atomic, "UNNAMED", 0)
    elif not atomic.UNNAMED:
        pytest.skip("this system has no nameless files")


def test_an_existing_output_is_kept_without_force(source, folder):
    for name in ("out.csv", "out.manifest.json"):
        (folder / name).write_text("precious")
        with pytest.raises(sf.SfumatoError, match=f"{name} exists.*force=True"):
            sf.release(source, SRR, folder / "out.csv")
        assert (folder / name).read_text() == "precious"
        assert os.listdir(folder) == [name]
        (folder / name).unlink()


def test_force_replaces_table_and_manifest(source, folder):
    for name in ("out.csv", "out.manifest.json"):
        (folder / name).write_text("old")

    sf.release(source, SRR, folder / "out.csv", force=True)

    assert sorted(os.listdir(folder)) == ["out.csv", "out.manifest.json"]
    assert (folder / "out.csv").read_text().startswith("ill,town\n")
    assert '"rows": 20' in (folder / "out.manifest.json").read_text()


def test_what_could_not_be_replaced_as_a_whole_is_as_it_was_before(source, folder):
    """Half of one release beside half of another would belong to neither."""
    for name in ("out.csv", "out.manifest.json"):
        (folder / name).write_text("old")

    def in_the_way(*told):
        if (folder / "out.csv").is_file():
            (folder / "out.csv").unlink()
            (folder / "out.csv").mkdir()

    with pytest.raises(sf.SfumatoError):
        sf.release(source, SRR, folder / "out.csv", force=True, progress=in_the_way)
    assert sorted(os.listdir(folder)) == ["out.csv", "out.manifest.json"]
    assert (folder / "out.manifest.json").read_text() == "old"


def test_a_file_that_appears_meanwhile_is_not_replaced(source, folder):
    with pytest.raises(sf.SfumatoError, match="come into existence"):
        sf.release(source, SRR, folder / "out.csv", progress=lambda n: (folder / "out.csv").write_text("precious"))

    assert (folder / "out.csv").read_text() == "precious"
    assert not [x for x in os.listdir(folder) if x.endswith(".part")]


@pytest.mark.parametrize("alias", ["same", "symlink", "hardlink"])
def test_the_input_is_never_the_output(source, alias, tmp_path):
    before, target = source.read_bytes(), source
    if alias != "same":
        target = tmp_path / "alias.csv"
        (os.symlink if alias == "symlink" else os.link)(source, target)

    with pytest.raises(sf.SfumatoError, match="is the input"):
        sf.release(source, SRR, target, force=True)

    assert source.read_bytes() == before


REFUSED = {
    "folder": (dict(to="nowhere/out.csv"), "does not exist"),
    "suffix": (dict(to="out.xlsx"), "suffix must be one of"),
    "decode": (dict(decode="guesses"), "decode must be one of"),
    "no design": (dict(decode="likely"), "needs the design distribution"),
    "keep a secret": (dict(keep=["ill"]), "'ill' is protected"),
    "keep unknown": (dict(keep=["twon"]), "'twon' is not a column.*Did you mean 'town'"),
    "wrong number": (dict(useful=["a", "b"]), r"useful must name 1 column\(s\)"),
    "wrong column": (dict(useful="tonw"), "'tonw' is not a column.*Did you mean 'town'"),
    "one column twice": (dict(useful="ill"), "read twice"),
    "seed": (dict(seed="x"), "seed must be"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_requests_are_refused_and_leave_nothing(case, source, folder):
    arguments, match = REFUSED[case]
    to = folder / arguments.get("to", "out.csv")

    with pytest.raises(sf.SfumatoError, match=match):
        sf.release(source, SRR, to, **{k: v for k, v in arguments.items() if k != "to"})

    assert os.listdir(folder) == []


def test_a_renamed_secret_cannot_be_kept_either(source, folder):
    table = rows().append_column("sick", rows().column("ill"))

    with pytest.raises(sf.InputError, match="'sick' is protected"):
        sf.release(table, SRR, folder / "o.csv", secret="sick", keep=["sick"])


def test_a_mechanism_for_other_columns_is_refused(source, folder):
    other = Mechanism(LAW, Alphabet.of(Column.of("sex", ["F", "M"])), USEFUL, claim=Claim("ldp", 1.4))

    with pytest.raises(sf.InputError, match=r"'sex' is not a column of people\.csv"):
        sf.release(source, other, folder / "out.csv")


@pytest.mark.parametrize(("value", "what"), [("s3cret", "not in the alphabet"), (None, "missing")])
def test_unseen_labels_are_refused_by_row_number(value, what, folder):
    table = pa.concat_tables([rows(150_000), pa.table({"ill": ["no"], "town": pa.array([value], pa.string())})])

    with pytest.raises(sf.DataError, match=f"column 'town', row 150001: the value is {what}") as caught:
        sf.release(table, SRR, folder / "out.parquet")

    assert "s3cret" not in str(caught.value)
    assert os.listdir(folder) == []


def test_a_claim_that_does_not_hold_stops_the_release(source, folder):
    with pytest.raises(sf.ClaimError):
        sf.release(source, SRR.with_claim(Claim("ldp", 0.5)), folder / "out.csv")
    with pytest.raises(sf.ClaimError, match="claims no privacy"):
        sf.release(source, Mechanism(LAW, SECRET, USEFUL), folder / "out.csv")
    floats = Mechanism(Cells(2, 3, 0.4, 0.1, 0.1, 0.15), SECRET, USEFUL)
    with pytest.raises(sf.InputError, match="sealed"):
        sf.release(source, floats, folder / "out.csv", allow_unclaimed=True)

    assert os.listdir(folder) == []


def test_an_error_in_the_middle_leaves_nothing_and_no_threads(folder):
    import threading

    class Stop(Exception):
        pass

    def stop(done):
        raise Stop

    before = threading.active_count()
    with pytest.raises(Stop):
        sf.release(rows(600_000), SRR, folder / "out.csv", progress=stop)

    assert os.listdir(folder) == []
    assert threading.active_count() == before


@pytest.mark.parametrize("suffix", ["csv", "parquet", "csv.gz"])
def test_a_full_disk_is_said_and_leaves_nothing(suffix, folder):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    rng = np.random.default_rng(0)
    table = rows(200_000).append_column("id", pa.array(rng.integers(0, 2**60, 200_000)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limit[1]))
    try:
        with pytest.raises(sf.SfumatoError, match=r"not enough room\. Nothing was left behind") as caught:
            sf.release(table, SRR, folder / f"out.{suffix}", keep=["id"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    assert caught.value.exit_code == 6
    assert os.listdir(folder) == []


def test_a_full_file_system_is_said_and_leaves_nothing(folder):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        with pytest.raises(sf.SfumatoError, match=r"not enough room\. Nothing was left behind"):
            sf.release(rows(300_000), SRR, folder / "out.csv")
        assert os.listdir(folder) == []
        assert os.statvfs(folder).f_bfree == os.statvfs(folder).f_blocks
    finally:
        subprocess.run(["umount", folder], check=True)


CHILD = textwrap.dedent("""
    import signal, sys, time
    import numpy as np, pyarrow as pa
    import sfumato as sf
    from sfumato import atomic
    if sys.argv[3] == "hidden":
        atomic.UNNAMED = 0

    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it

    def tell(done):
        if done > 400_000:
            print(done, flush=True)
            time.sleep(30)

    n = 2_000_000
    rng = np.random.default_rng(0)
    table = pa.table({"ill": rng.choice(["no", "yes"], n), "town": rng.choice(["A", "B", "C"], n)})
    sf.release(table, sf.load(sys.argv[1]), sys.argv[2], progress=tell)
""")


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_killed_in_the_middle_nothing_is_left_under_the_name(sent, tmp_path, folder):
    kind = "nameless" if atomic.UNNAMED else "hidden"
    SRR.save(tmp_path / "m.json")
    command = [sys.executable, "-c", CHILD, str(tmp_path / "m.json"), str(folder / "out.csv"), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert int(child.stdout.readline()) > 400_000
        child.send_signal(sent)
        _, errors = child.communicate(timeout=30)

    left = os.listdir(folder)
    if sent == signal.SIGINT:
        assert "KeyboardInterrupt" in errors
    if sent == signal.SIGKILL and kind == "hidden":  # a hidden part of released rows may stay, never the name
        assert all(name.startswith(".out.") and name.endswith(".part") for name in left)
    else:
        assert left == []
    assert child.returncode != 0


def test_permissions_follow_the_umask(source, folder):

    sf.release(source, SRR, folder / "out.csv")
    umask = os.umask(0)
    os.umask(umask)

    assert (folder / "out.csv").stat().st_mode & 0o777 == 0o666 & ~umask
