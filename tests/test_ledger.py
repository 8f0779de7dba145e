"""The ledger: nothing is lost, nothing is overspent, and whatever is killed can be settled."""

import json
import math
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.alphabet import Alphabet, Column
from sfumato.cli import cli
from sfumato.ledgers.entries import key_path
from sfumato.ledgers.persons import Persons
from sfumato.mechanism import Claim, Mechanism, Table
from sfumato.mechanism.law import remembered
from sfumato.processes import may_be_running, this_process
from sfumato.releasing import read_manifest

JOINT = sf.Joint.from_counts(
    [[300, 200, 100], [100, 400, 150]], Alphabet.of(Column.of("ill", ["no", "yes"])),
    Alphabet.of(Column.of("town", ["A", "B", "C"])),
)
BALL = sf.ChiSquareBall(JOINT)


@pytest.fixture(scope="module")
def srr():
    return sf.design(BALL, 0.25, "srr").mechanism


def people(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table({
        "id": [f"p{i}" for i in range(n)], "ill": rng.choice(["no", "yes"], n), "town": rng.choice(["A", "B", "C"], n),
    })


@pytest.fixture
def book(tmp_path):
    return sf.Ledger(tmp_path / "people.ledger")


def test_a_release_is_entered_with_its_level_and_its_manifest_names_the_entry(book, srr, tmp_path):
    done = sf.release(people(), srr, tmp_path / "out.csv", ledger=book, people="cohort 7", budget=2)
    [entry] = book.entries()

    assert (entry.people, entry.state, entry.rows, entry.ready) == ("cohort 7", "delivered", 40, True)
    assert entry.level == sf.certify(srr).level
    assert entry.composed == pytest.approx(entry.level, rel=1e-9)
    assert done.manifest.entry == entry.token == read_manifest(tmp_path / "out.manifest.json").entry
    assert entry.target == str(tmp_path / "out.csv")
    assert sf.certify(book.mechanism(entry.mechanism)).level == entry.level


def test_the_level_of_all_is_that_of_compose(book, srr):
    other = sf.design(BALL, 0.4, "grr").mechanism
    for mechanism in (srr, other, srr):
        sf.release(people(), mechanism, ledger=book, people="cohort 7", person="id")

    expected = sf.compose(srr, other, srr).level("rldp", BALL)

    assert book.entries()[-1].composed == pytest.approx(expected, rel=1e-9)
    assert book.composed("cohort 7") == pytest.approx(expected, rel=1e-9)


def test_a_budget_refuses_what_would_exceed_it_and_nothing_is_written(book, srr, tmp_path):
    ask = dict(ledger=book, people="cohort 7", person="id")
    sf.release(people(), srr, tmp_path / "1.csv", budget=0.3, **ask)

    with pytest.raises(sf.BudgetError, match=r"budget of 'cohort 7' is 0.3 \(RLDP\).*2 that count would allow ε ≤ 0.323"):
        sf.release(people(), srr, tmp_path / "2.csv", **ask)  # the budget stays until another is stated
    sf.release(people(), srr, tmp_path / "3.csv", ledger=book, people="somebody else", budget=0.3)
    sf.release(people(), srr, tmp_path / "4.csv", budget=0.6, **ask)

    assert sorted(p.name for p in tmp_path.glob("*.csv")) == ["1.csv", "3.csv", "4.csv"]
    assert [e.state for e in book.entries()] == ["delivered"] * 3


def test_values_that_may_have_changed_count_for_any_distribution(book, tmp_path):
    private = sf.design(BALL, 0.5, "grr").mechanism
    ask = dict(ledger=book, people="cohort 7", budget=1.2, person="id")
    anywhere = sf.certify(private).elsewhere["any distribution"]
    sf.release(people(), private, **ask)

    sf.release(people(), private, **ask)  # the very same rows: seen by their fingerprints
    same = book.entries()[-1].composed
    enough = 1.001 * sf.compose(*[private] * 3).level("rldp", BALL)
    with pytest.raises(sf.BudgetError, match="--same-values"):
        sf.release(people(50), private, **{**ask, "budget": enough})
    with pytest.raises(sf.BudgetError) as refused:  # not even the same values would be within 1.2
        sf.release(people(50), private, **ask)
    assert "--same-values" not in str(refused.value)
    sf.release(people(50), private, same_values=True, **{**ask, "budget": 5})

    assert same == pytest.approx(sf.compose(private, private).level("rldp", BALL), rel=1e-9)
    assert same > 2 * 0.5 and same + anywhere > 1.5
    assert book.entries()[-1].composed == pytest.approx(sf.compose(*[private] * 3).level("rldp", BALL), rel=1e-6)


def test_the_ledger_alone_says_nothing_about_the_rows(book, srr, tmp_path):
    sf.release(people(3), srr, ledger=book, people="few")
    sf.release(people(3), srr, ledger=book, people="few")
    sf.release(people(3, seed=5), srr, ledger=book, people="few")
    first, again, other = (e.fingerprints for e in book.entries())
    elsewhere = sf.Ledger(tmp_path / "other.ledger")
    sf.release(people(3), srr, ledger=elsewhere, people="few")

    key = key_path(book.path)
    assert key.stat().st_mode & 0o077 == 0
    assert key.read_bytes() not in book.path.read_bytes()
    assert key.read_bytes().hex().encode() not in book.path.read_bytes()
    assert first == again and first["town"] != other["town"]
    assert elsewhere.entries()[0].fingerprints["town"] != first["town"]


def test_fingerprints_do_not_depend_on_the_file_format(book, srr, tmp_path):
    pacsv.write_csv(people(), tmp_path / "people.csv")
    sf.release(people(), srr, ledger=book, people="x")
    sf.release(tmp_path / "people.csv", srr, ledger=book, people="x")

    a, b = book.entries()
    assert a.fingerprints == b.fingerprints


def test_what_is_missing_is_said(book, srr, tmp_path):
    with pytest.raises(sf.InputError, match="whose data"):
        sf.release(people(), srr, ledger=book)
    with pytest.raises(sf.InputError, match="need a ledger"):
        sf.release(people(), srr, budget=1)
    with pytest.raises(sf.InputError, match="seeded"):
        sf.release(people(), srr, ledger=book, people="x", seed=1)
    with pytest.raises(sf.InputError, match=r"'idd' is not a column.*Did you mean 'id'"):
        sf.release(people(), srr, ledger=book, people="x", memoise="idd")
    assert book.entries() == []


def test_a_release_that_fails_is_void(book, srr, tmp_path):
    def stop(rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sf.release(people(), srr, tmp_path / "out.csv", ledger=book, people="x", budget=0.3, progress=stop)
    [entry] = book.entries()

    assert (entry.state, entry.ready) == ("void", False)
    assert book.composed("x") == 0
    assert not list(tmp_path.glob("out*"))
    sf.release(people(), srr, tmp_path / "out.csv", ledger=book, people="x", budget=0.3)


def test_foreign_damaged_and_missing_files_are_named(tmp_path):
    (tmp_path / "text.ledger").write_text("not a database at all, but long enough to be read as one" * 30)
    with pytest.raises(sf.SfumatoError, match="not a ledger, or is damaged"):
        sf.Ledger(tmp_path / "text.ledger")
    with sqlite3.connect(tmp_path / "foreign.db") as foreign:
        foreign.execute("CREATE TABLE precious (x)")
    foreign.close()
    before = (tmp_path / "foreign.db").read_bytes()
    with pytest.raises(sf.SfumatoError, match="not a ledger of sfumato"):
        sf.Ledger(tmp_path / "foreign.db")
    assert (tmp_path / "foreign.db").read_bytes() == before
    with pytest.raises(sf.InputError, match="no ledger at"):
        sf.Ledger(tmp_path / "none.ledger", create=False)
    book = sf.Ledger(tmp_path / "good.ledger")
    content = bytearray(book.path.read_bytes())
    content[4096:] = secrets.token_bytes(len(content) - 4096)
    book.path.write_bytes(bytes(content))
    with pytest.raises(sf.SfumatoError, match="damaged"):
        sf.Ledger(tmp_path / "good.ledger").entries()


def _reservations(path, file, count, budget):
    book, mechanism = sf.Ledger(path), sf.load(file)
    got = []
    for _ in range(count):
        try:
            got.append(book.reserve(mechanism, "raced", budget=budget).id)
        except sf.BudgetError:
            got.append(None)
    return got


def test_racing_reservations_are_neither_lost_nor_overspent(tmp_path):
    """The full figure, 1,000 from 8 processes, is benchmarks/ledger.py."""
    coin = Table(np.array([[517, 507], [507, 517]]), 2, 10)
    grr = Mechanism(coin, Alphabet.named("s", 2), Alphabet.named("u", 1), claim=Claim("ldp", 0.02))
    path, file, budget = tmp_path / "race.ledger", grr.save(tmp_path / "m.json"), 0.5
    with ProcessPoolExecutor(4) as pool:
        jobs = [pool.submit(_reservations, path, file, 12, budget) for _ in range(4)]
        got = [x for job in jobs for x in job.result()]

    entries = sf.Ledger(path).entries()
    granted = sorted(x for x in got if x is not None)
    assert granted == [e.id for e in entries]
    assert max(e.composed for e in entries) <= budget
    fits = math.floor(budget / sf.level(grr, sf.LDP()))
    assert len(granted) == fits == 25


RELEASING = """
import sys, sfumato as sf
source, mechanism, target, ledger = sys.argv[1:]
print("started", flush=True)
sf.release(source, sf.load(mechanism), target, ledger=sf.Ledger(ledger), people="killed", budget=1000)
print("done", flush=True)
"""


def test_killed_at_any_moment_a_release_is_whole_or_absent_and_can_be_settled(book, tmp_path):
    """The full figure, 200 kills, is benchmarks/ledger.py."""
    (tmp_path / "out").mkdir()
    source = tmp_path / "people.csv"
    pacsv.write_csv(people(120_000), source)
    mechanism = sf.design(BALL, 0.25, "srr").mechanism.save(tmp_path / "m.json")
    rng = np.random.default_rng()
    for i in range(4):
        target = tmp_path / "out" / f"{i}.csv"
        command = [sys.executable, "-c", RELEASING, source, mechanism, target, book.path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "started\n"
            time.sleep(rng.uniform(0, 1.5))
            process.send_signal(signal.SIGKILL)
        if target.exists():
            assert read_manifest(target.with_suffix(".manifest.json")).size == target.stat().st_size
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.startswith(".")]
    for entry in book.entries():
        table = Path(entry.target)
        if entry.state == "reserved":
            settled = book.settle(entry.id, delivered=None if not entry.ready or table.exists() else False)
            assert settled.state == ("delivered" if table.exists() else "void")
        else:
            assert table.exists()


def test_a_reservation_counts_until_it_is_settled_and_the_disk_tells(book, srr, tmp_path):
    target = tmp_path / "out.csv"
    entry = book.reserve(srr, "x", budget=0.3, target=str(target))
    with pytest.raises(sf.BudgetError, match=f"Reserved and not settled: {entry.id}"):
        book.reserve(srr, "x")
    with pytest.raises(sf.InputError, match="still under way"):
        book.settle(entry.id)

    with sqlite3.connect(book.path) as raw:  # as if its process had ended
        raw.execute("UPDATE releases SET process = ?", (this_process().rsplit(":", 1)[0] + ":0",))
    raw.close()
    assert book.settle(entry.id).state == "void"
    with pytest.raises(sf.InputError, match="settled already: it is void"):
        book.settle(entry.id)
    book.reserve(srr, "x")


def test_a_ready_release_whose_files_are_gone_is_for_people_to_settle(book, srr, tmp_path):
    sf.release(people(), srr, tmp_path / "out.csv", ledger=book, people="x")
    with sqlite3.connect(book.path) as raw:  # as if it had been killed just before saying that it was delivered
        raw.execute("UPDATE releases SET state = 'reserved', settled_at = NULL, process = 'elsewhere:1:2'")
    raw.close()
    with pytest.raises(sf.InputError, match="cannot be void"):
        book.settle(1, delivered=False)
    os.rename(tmp_path / "out.csv", tmp_path / "taken.csv")
    with pytest.raises(sf.InputError, match="cannot be told"):
        book.settle(1)
    os.rename(tmp_path / "taken.csv", tmp_path / "out.csv")
    assert book.settle(1).state == "delivered"


def test_processes_are_told_apart():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        name = this_process()
        running = name.replace(f":{os.getpid()}:", f":{other.pid}:")
        assert may_be_running(name) is True
        assert may_be_running(running) is False  # began at another time
        other.stdin.close()
    assert may_be_running("another-host:1:2") is None


# remembered answers


def test_remembered_answers_are_the_same_again_and_cost_nothing(book, srr):
    ask = dict(ledger=book, people="panel", budget=0.3, memoise="id")
    first = sf.release(people(200), srr, **ask)
    again = sf.release(people(200), srr, **ask)
    grown = sf.release(people(200).append_column("x", pa.array(range(200))).take(list(range(199, -1, -1))), srr,
                       same_values=True, **ask)

    assert first.to_pydict() == again.to_pydict()
    assert grown.to_pydict() == first.take(list(range(199, -1, -1))).to_pydict()
    assert "id" not in first.column_names
    assert [e.repeats for e in book.entries()] == [None, 1, 1]
    assert [e.composed for e in book.entries()] == [pytest.approx(sf.certify(srr).level)] * 3


def test_optimal_mechanisms_may_not_be_released_twice(book):
    """Each release is proved at 0.5; the two together, of the very same rows, allow nearly everything."""
    optimal = sf.design(BALL, 0.5, "polyopt").mechanism
    sf.release(people(), optimal, ledger=book, people="cohort 7", budget=1.5, person="id")

    with pytest.raises(sf.BudgetError, match=r"would allow ε ≤ 1\d\."):
        sf.release(people(), optimal, ledger=book, people="cohort 7", person="id")


def test_a_changed_value_shows_in_remembered_answers_so_no_level_is_left(book, srr):
    ask = dict(ledger=book, people="panel", memoise="id")
    sf.release(people(200), srr, budget=2, **ask)

    with pytest.raises(sf.BudgetError, match=r"no finite ε.*a changed answer shows the change"):
        sf.release(people(200, seed=1), srr, **ask)


def test_a_repeat_counts_when_the_first_did_not_come_through(book, srr):
    marks = np.arange(40, dtype=np.uint64)
    asked = dict(key="k", memoised=True, fingerprints={"town": "1"}, persons=Persons("id", "who", marks, marks))
    first = book.reserve(srr, "panel", **asked)
    again = book.reserve(srr, "panel", **asked)
    assert again.repeats == first.id
    with sqlite3.connect(book.path) as raw:
        raw.execute("UPDATE releases SET state = 'void' WHERE id = ?", (first.id,))
    raw.close()

    assert book.composed("panel") == pytest.approx(sf.certify(srr).level)


def test_remembered_words_are_uniform_and_differ_by_person_value_and_key():
    key, other = secrets.token_bytes(32), secrets.token_bytes(32)
    words = [remembered(key, f"p{i}".encode(), 3, 1) for i in range(4000)]
    ones = np.unpackbits(np.frombuffer(b"".join(words), np.uint8)).mean()

    assert len(set(words)) == 4000
    assert abs(ones - 0.5) < 5 * 0.5 / math.sqrt(64 * 4000)
    assert len({remembered(key, b"p", 3, 1), remembered(key, b"p", 4, 1), remembered(other, b"p", 3, 1)}) == 3
    assert len(remembered(key, b"p", 3, 20)) == 160
    assert len(set(np.frombuffer(remembered(key, b"p", 3, 20), np.uint64).tolist())) == 20


def test_remembered_answers_follow_the_law(book):
    mechanism = sf.design(BALL, 1.0, "grr").mechanism
    n = 30_000
    rows = pa.table({"id": [str(i) for i in range(n)], "ill": ["yes"] * n, "town": ["B"] * n})
    out = sf.release(rows, mechanism, ledger=book, people="panel", memoise="id")

    kept = np.mean([a == ("yes", "B") for a in zip(out["ill"].to_pylist(), out["town"].to_pylist(), strict=True)])
    truth = mechanism.matrix[4, 4]
    assert abs(kept - truth) < 5 * math.sqrt(truth * (1 - truth) / n)


def test_a_respondent_can_remember_too(srr):
    key = secrets.token_bytes(32)

    assert len({srr.respond("yes", "B", memo=key) for _ in range(5)}) == 1
    assert len({srr.respond("yes", "B", memo=secrets.token_bytes(32)) for _ in range(60)}) > 1
    with pytest.raises(sf.InputError, match="random bytes"):
        srr.respond("yes", "B", memo=b"short")


def test_without_names_nothing_can_be_remembered(book, srr):
    rows = people().set_column(0, "id", pa.array(["a", None] * 20))
    with pytest.raises(sf.DataError, match="column 'id', row 2"):
        sf.release(rows, srr, ledger=book, people="panel", memoise="id")
    assert book.entries() == []


# commands


def run(*words, code=0):
    done = CliRunner().invoke(cli, [str(w) for w in words], standalone_mode=False)
    if code == 0 and done.exception:
        raise done.exception
    return done


def test_the_commands_enter_refuse_list_show_and_settle(tmp_path):
    table = tmp_path / "people.csv"
    pacsv.write_csv(people(400), table)
    road = ["release", table, "--secret", "ill", "--useful", "town", "--epsilon", "0.5", "--method", "srr",
            "--public-labels", "all"]
    told = run(*road, "--out", tmp_path / "1.csv", "--people", "cohort 7", "--budget", "0.6")
    assert "release 1 about 'cohort 7': together ε ≤ 0." in " ".join(told.output.split())
    refused = run(*road, "--out", tmp_path / "2.csv", "--people", "cohort 7", code=5)
    assert isinstance(refused.exception, sf.BudgetError)
    assert not (tmp_path / "2.csv").exists() and not (tmp_path / "2.mechanism.json").exists()
    where = ["--ledger", tmp_path / "sfumato.ledger"]
    assert "cohort 7" in run("ledger", "list", *where).output
    shown = json.loads(run("ledger", "show", "1", *where, "--json").output)
    assert shown["state"] == "delivered" and shown["target"].endswith("1.csv")
    assert isinstance(run("ledger", "settle", "1", *where, code=2).exception, sf.InputError)
    assert isinstance(run(*road, "--out", tmp_path / "3.csv", "--budget", "1", code=2).exception, sf.InputError)


def test_the_ledger_tells_the_chance_of_one_release_from_that_of_all(tmp_path):
    rng = np.random.default_rng(0)
    pacsv.write_csv(pa.table({name: rng.choice(list("ab"), 20_000) for name in ("s", "u", "v")}), tmp_path / "p.csv")
    said = []
    for name in ("u", "v"):
        said.append(CliRunner().invoke(cli, [
            "release", str(tmp_path / "p.csv"), "--secret", "s", "--useful", name, "--epsilon", "1", "--method", "srr",
            "--people", "us", "--out", str(tmp_path / f"{name}.csv"),
        ], catch_exceptions=False).output)
    shown = CliRunner().invoke(cli, ["ledger", "show", "1", "--ledger", str(tmp_path / "sfumato.ledger")]).output
    own = json.loads((tmp_path / "u.mechanism.json").read_text())["design"]["noise"]["delta"]

    assert own == 1e-9 and "at most δ = 1e-09 by this release, and 2e-09 by all" in " ".join(shown.split())
    assert all("another release may find other labels of s" in " ".join(x.split()) for x in said)
    assert all("(--labels)" in x for x in said)


def test_a_path_in_place_of_a_ledger_is_refused_in_words(tmp_path):
    joint = sf.datasets.adult("sex", "race")
    with pytest.raises(sf.InputError, match=r"sf\.Ledger\(path\)"):
        sf.release(sf.datasets.rows(joint), sf.design(joint, 1.0, "grr").mechanism, ledger=str(tmp_path / "l.db"), people="all")
