"""Cells of CSV: what a spreadsheet would run is guarded, what would steer a terminal is refused, the rest is exact."""

import csv
import io
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.alphabet import Alphabet, Column
from sfumato.cli import cli
from sfumato.cli.console import document
from sfumato.releasing.writing import CsvOutput
from sfumato.sources import open_source
from sfumato.sources.delimited import guard, guarded, is_formula, stream_source, unguard, unguarded

EVIL = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\tx", "\rx", "'=x", "''-a", "＝1", "=a,b", '=a"b']
PLAIN = ["-5", "+5", "-1.5e3", "-.5", "-", "+", "x=1", "'tis", "'-5", "", "3 - 1", "a@b"]
cells = st.text(st.sampled_from("=+-@'\t\r\n ,\"5.e＝xß"), max_size=6) | st.sampled_from([*EVIL, *PLAIN])
DANGEROUS = tuple("=+-@\t\r\n＝＋－＠")


def number(text):
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


@given(cells)
def test_a_guarded_cell_is_no_formula_and_comes_back(text):
    written = guarded(text)

    assert not written.startswith(DANGEROUS) or number(written) or written in "+-"
    assert unguarded(written) == text
    assert not number(text) or written == text


@given(st.lists(cells | st.none(), max_size=20), st.booleans(), st.integers(0, 3))
def test_columns_are_guarded_as_cells_are(texts, wide, skipped):
    column = pa.array(texts, pa.large_string() if wide else pa.string()).slice(min(skipped, len(texts)))
    texts = column.to_pylist()
    written = [None if x is None else guarded(x) for x in texts]

    assert guard(column).to_pylist() == written
    assert unguard(guard(column)).to_pylist() == texts
    assert unguard(column).to_pylist() == [None if x is None else unguarded(x) for x in texts]


def table(columns, delimiter=",", raw=False):
    held = pa.BufferOutputStream()
    out = CsvOutput(lambda name: held, columns.schema, delimiter, raw=raw)
    for batch in columns.to_batches():
        out.write(batch)
    out.file.flush()
    return held.getvalue().to_pybytes()


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=8), st.sampled_from(",\t"), st.booleans())
def test_whatever_is_written_is_read_back_exactly(pairs, delimiter, coded):
    names = ["=name", "'+other"]
    columns = [pa.array(x, pa.string()) for x in zip(*pairs, strict=True)]
    if coded:
        columns = [c.dictionary_encode() for c in columns]
    text = table(pa.table(columns, names=names), delimiter)
    source = stream_source(io.BytesIO(text), delimiter)
    read = pa.Table.from_batches(source.verbatim().batches(names))

    assert source.columns == tuple(names)
    assert [tuple(x or "" for x in row) for row in zip(*read.to_pydict().values(), strict=True)] == pairs
    for row in csv.reader(io.StringIO(text.decode(), newline=""), delimiter=delimiter):
        assert not any(is_formula(x) and not x.startswith("'") for x in row)


JOINT = sf.Joint.from_counts(
    [[30, 20], [10, 40]], Alphabet.of(Column.of("ill", ["=no()", "yes"])), Alphabet.of(Column.of("town", ["-A", "+"]))
)


def rows(n=200, note="@note"):
    rng = np.random.default_rng(0)
    return pa.table({
        "ill": rng.choice(["=no()", "yes"], n), "town": rng.choice(["-A", "+"], n), "note": [note] * n,
        "change": pa.array(rng.integers(-9, 9, n)),
    })


@pytest.fixture(scope="module")
def mechanism():
    return sf.design(sf.ChiSquareBall(JOINT), 1.0, "grr").mechanism


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.csv.gz"])
def test_a_release_guards_labels_and_kept_columns_and_estimates_read_them(mechanism, tmp_path, name):
    sf.release(rows(), mechanism, tmp_path / name, keep=["note", "change"])
    sf.release(rows(), mechanism, tmp_path / f"raw-{name}", keep=["note", "change"], raw_cells=True)
    source = open_source(tmp_path / name)
    [batch] = source.batches(list(source.columns))

    assert set(batch.column("ill").to_pylist()) == {"=no()", "yes"}
    assert set(batch.column("town").to_pylist()) == {"-A", "+"}
    assert batch.column("note").to_pylist() == ["@note"] * 200
    assert [int(x) for x in batch.column("change").to_pylist()] == rows()["change"].to_pylist()
    assert sf.estimate(tmp_path / name, mechanism).n == 200
    if name == "out.csv":
        seen = list(csv.reader((tmp_path / name).read_text().splitlines()))
        assert {r[0] for r in seen[1:]} == {"'=no()", "yes"} and {r[2] for r in seen[1:]} == {"'@note"}
        assert not any(r[3].startswith("'") for r in seen)
        assert {r[0] for r in csv.reader((tmp_path / f"raw-{name}").read_text().splitlines())} == {"ill", "=no()", "yes"}


def test_parquet_holds_cells_as_they_are(mechanism, tmp_path):
    sf.release(rows(note="=x\x1b"), mechanism, tmp_path / "out.parquet", keep=["note"])

    assert set(pq.read_table(tmp_path / "out.parquet")["note"].to_pylist()) == {"=x\x1b"}


def test_pipes_guard_too(mechanism, tmp_path):
    file = mechanism.save(tmp_path / "m.json")
    given_rows = table(rows())
    command = [sys.executable, "-m", "sfumato", "release", "-", "--mechanism", file, "--out", "-", "--keep", "note"]
    seen = {}
    for words in ((), ("--raw-cells",)):
        done = subprocess.run([*command, *words], input=given_rows, capture_output=True, check=True)
        seen[words] = {line.rsplit(b",")[-1] for line in done.stdout.splitlines()[1:]}

    assert seen == {(): {b"'@note"}, ("--raw-cells",): {b"@note"}}


@pytest.mark.parametrize("char", ["\x1b", "\x00", "\x7f", "\x9b"])
def test_control_characters_are_refused_in_labels_and_kept_cells(mechanism, tmp_path, char):
    with pytest.raises(sf.InputError, match=rf"column 'x'.*control character U\+{ord(char):04X}"):
        Column.of("x", ["fine", f"not{char}fine"])
    with pytest.raises(sf.InputError, match="control character"):
        sf.tabulate(pa.table({"s": ["a", f"b{char}"], "u": ["c", "d"]}), "s", "u")
    odd = rows().set_column(2, "note", pa.array(["£ é"] * 150 + [f"x{char}"] * 50))
    for kept in (odd, odd.set_column(2, "note", odd["note"].dictionary_encode())):
        with pytest.raises(sf.DataError, match=r"column 'note', row 151: the text has a control character.*raw_cells=True"):
            sf.release(kept, mechanism, tmp_path / "out.csv", keep=["note"])
    assert not list(tmp_path.glob("out*"))
    sf.release(odd, mechanism, tmp_path / "out.csv", keep=["note"], raw_cells=True)
    assert f"x{char}".encode() in (tmp_path / "out.csv").read_bytes()


def test_a_mechanism_file_whose_labels_steer_a_terminal_is_refused_in_words(mechanism, tmp_path):
    file = mechanism.save(tmp_path / "m.json")
    content = file.read_text().replace("=no()", "\\u001b[31m")
    file.write_text(content)
    done = CliRunner().invoke(cli, ["verify", str(file)])

    assert done.exit_code in (2, 4) and "\x1b" not in done.output


def test_nothing_that_is_printed_steers_a_terminal(capsys):
    document({"name": "a\x1b[31m\x9b\u200b\U000e0001é"})
    printed = capsys.readouterr().out

    assert json.loads(printed) == {"name": "a\x1b[31m\x9b\u200b\U000e0001é"}
    assert all(c.isprintable() or c == "\n" for c in printed) and "é" in printed
    done = CliRunner().invoke(cli, ["release", "x\x1b[31m.csv", "--secret", "a", "--bogus\x1b[2J"])
    assert done.exit_code == 2 and "\x1b" not in done.output
