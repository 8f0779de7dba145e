"""Releases through pipes, by commands, with progress: rows leave before the last has come."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.streaming_data import PRIVATE, SRR, rows, sorted_rows

import sfumato as sf
from sfumato.cli import cli
from sfumato.sources import delimited, open_source

FAST = ["--epsilon", "1", "--notion", "ldp", "--method", "srr", "--public-labels", "all"]


def mixed(tmp_path, second: pa.Table):
    (tmp_path / "mixed").mkdir()
    pq.write_table(rows(), tmp_path / "mixed" / "a.parquet")
    pq.write_table(second, tmp_path / "mixed" / "b.parquet")
    return tmp_path / "mixed"


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
    command = [sys.executable, "-m", "sfumato", "release", "-", "--mechanism", mechanism, "--out", "-"]
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
    command = [sys.executable, "-m", "sfumato", "release", tmp_path / "in.csv", "--mechanism", mechanism, "--out", "-"]
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
    command = [sys.executable, "-m", "sfumato", "release", tmp_path / "in.csv", "--mechanism", mechanism, "--out", "-"]
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
