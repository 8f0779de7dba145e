"""What a release is worth, said before; something to open, after."""

import csv
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from click.testing import CliRunner
from tests.strategies import sealed

import sfumato as sf
from sfumato.cli import cli
from sfumato.designers.worth import foreseen as foreseen_by
from sfumato.estimation import tidy
from sfumato.mechanism import Claim

USEFUL = sf.Alphabet.of(sf.Column.of("town", ["A", "B"]), sf.Column.of("job", ["none", "some", "much"]))
JOINT = sf.Joint.from_counts([[300, 150, 90, 120, 80, 60], [100, 200, 150, 90, 160, 100]], sf.Column.of("ill", ["no", "yes"]), USEFUL)
SYMBOLS = np.random.default_rng(0).dirichlet(np.full(14, 3.0), 12).T
MINE = sealed(sf.Tabular(SYMBOLS, JOINT.secret, JOINT.useful, joint=JOINT)).with_claim(Claim("rldp", 5.0, sf.ChiSquareBall(JOINT)))


@pytest.fixture
def people(tmp_path):
    sf.datasets.rows(JOINT).to_pandas().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def run(*args, code=0):
    done = CliRunner().invoke(cli, [str(x) for x in args])
    assert done.exit_code == code, done.output + done.stderr
    return done


def test_guesses_stand_beside_symbols_and_change_no_estimate(tmp_path):
    rows = sf.datasets.rows(JOINT)
    out = {decode: sf.release(rows, MINE, tmp_path / f"{decode}.csv", decode=decode, seed=1) for decode in ("symbols", "guess")}
    table = pa.csv.read_csv(tmp_path / "guess.csv")

    assert [(c.name, c.role) for c in out["guess"].manifest.columns] == [
        ("symbol", "symbol"), ("town (guess)", "guess"), ("job (guess)", "guess")]
    assert out["guess"].manifest.decode == "symbols" and "for reading only" in " ".join(out["guess"].manifest.notes)
    assert table["symbol"].to_pylist() == pa.csv.read_csv(tmp_path / "symbols.csv")["symbol"].to_pylist()
    found = [sf.estimate(tmp_path / f"{decode}.csv", MINE).p for decode in out]
    assert np.array_equal(*found)


def test_a_guess_is_the_likeliest_value_of_its_column():
    table = sf.release(sf.datasets.rows(JOINT), MINE, decode="guess", seed=1).to_pandas()
    posterior = MINE.posterior().sum(1).reshape(-1, 2, 3)
    jobs = {f"y{y}": USEFUL.columns[1].labels[p.sum(0).argmax()] for y, p in enumerate(posterior)}

    assert (table["job (guess)"] == table["symbol"].map(jobs)).all()


def test_outputs_that_are_labels_need_no_guess():
    mechanism = sf.design(JOINT, 1.0, "grr").mechanism

    assert sf.release(sf.datasets.rows(JOINT), mechanism, decode="guess").column_names == ["ill", "town", "job"]


def test_the_tables_of_a_release_are_its_estimates(people):
    run("release", people, "--secret", "ill", "--useful", "town,job", "--epsilon", 2, "--method", "grr", "--out",
        people.with_name("out.csv"))
    with open(people.with_name("out.tables.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    found = sf.estimate(people.with_name("out.csv"), people.with_name("out.mechanism.json"))
    known = list(tidy(found))

    assert {r["columns"] for r in rows} == {"ill", "town", "job", "ill × town", "ill × job", "town × job"}
    assert [(r["columns"], r["values"]) for r in rows] == [(k["columns"], k["values"]) for k in known]
    assert [float(r["share"]) for r in rows] == pytest.approx([k["share"] for k in known], abs=1e-5)
    assert all(float(r["low"]) <= float(r["share"]) <= float(r["high"]) for r in rows)


def test_an_estimate_finds_the_mechanism_beside_a_released_file(people):
    mechanism, out = sf.design(JOINT, 2.0, "grr").mechanism, people.with_name("out.csv")
    rows = sf.release(people, mechanism, out).path
    with pytest.raises(sf.InputError, match="mechanism=") as alone:
        sf.estimate(out)
    assert "--mechanism" in alone.value.text(shell=True)
    saved = mechanism.save(people.with_name("out.mechanism.json"))

    assert np.array_equal(sf.estimate(rows).p, sf.estimate(out, mechanism).p)
    with pytest.raises(sf.InputError, match="Give the table itself"):
        sf.estimate(saved)
    with pytest.raises(sf.InputError, match="needs the mechanism"):
        sf.estimate(sf.datasets.rows(JOINT))


def test_plan_says_what_a_release_will_be_worth_and_writes_nothing(people):
    words = ("plan", people, "--secret", "ill", "--useful", "town,job", "--epsilon", 1, "--method", "grr", "--design",
             "exact")
    shown, told = run(*words).stdout, json.loads(run(*words, "--json").stdout)

    assert "worth unprotected rows" in shown and "ε = 2 instead of 1" in shown and "leaving out" in shown
    assert [p["table"] for p in told["parts"]] == ["ill", "town", "job", "ill × town × job"]
    assert told["share"] == pytest.approx(sf.design(JOINT, 1.0, "grr").foreseen().share, rel=1e-6)
    assert os.listdir(people.parent) == ["people.csv"]


def test_a_plan_and_its_release_share_what_was_paid_for(people):
    asked = (people, "--secret", "ill", "--useful", "town", "--epsilon", 2, "--method", "grr")
    foreseen = json.loads(run("plan", *asked, "--json").stdout)
    kept = list(people.parent.glob("people.*.counts.json"))
    run("release", *asked, "--out", people.with_name("out.csv"))

    made = sf.load(people.with_name("out.mechanism.json"))
    assert len(kept) == 1 and foreseen["share"] == pytest.approx(foreseen_by(made, n=JOINT.n).share)
    assert made.joint.fingerprint == sf.load_counts(kept[0]).fingerprint


def test_a_release_that_is_worth_nothing_is_made_only_when_asked_for_once_more(people):
    words = ("release", people, "--secret", "ill", "--useful", "job", "--epsilon", 0.01, "--method", "grr",
             "--public-labels", "all", "--out", people.with_name("out.csv"))
    refused = run(*words, code=2)

    assert "--anyway" in refused.stderr and "ill:" in refused.stderr and os.listdir(people.parent) == ["people.csv"]
    run(*words, "--anyway")
    assert people.with_name("out.tables.csv").exists()


@pytest.mark.parametrize("columns", ["one", "bundle"])
def test_what_is_foreseen_of_a_part_or_by_a_reference_is_about_the_rows_that_are_released(people, columns):
    asked = (people, "--secret", "ill", "--useful", "town,job", "--epsilon", 2, "--columns", columns, "--json")
    method = ("--method", "grr") if columns == "one" else ()
    few = people.with_name("few.csv")
    few.write_text("".join(people.read_text().splitlines(keepends=True)[:801]))

    part = json.loads(run("plan", *asked, *method, "--split", 0.1).stdout)
    known = json.loads(run("plan", few, *asked[1:], *method, "--design-from", people).stdout)
    plan = sf.plan(people, "ill", 2.0, ["town", "job"], columns=columns, split=0.1, seed=3,
                   **({"method": "grr"} if columns == "one" else {}))

    assert 0.85 * JOINT.n < part["rows"] < 0.95 * JOINT.n and known["rows"] == 800
    assert plan.foreseen().n == sf.release(plan.source, plan.mechanism).num_rows < JOINT.n


def test_what_is_not_known_of_a_large_table_is_not_called_worthless(tmp_path):
    rng, n = np.random.default_rng(1), 20_000
    table = pa.table({"s": rng.choice(["a", "b"], n), "u": [f"v{i}" for i in rng.integers(0, 400, n)]})
    plan = sf.plan(table, "s", 1.0, "u", method="cr", columns="one", design="exact")

    assert plan.mechanism.joint.p.size == 800 and plan.foreseen() is None
    assert sf.publish(plan, tmp_path / "out.csv").rows == n


def test_rows_on_a_cluster_are_not_split_by_an_order_that_they_do_not_have():
    from dataclasses import replace

    with pytest.raises(sf.InputError, match="randomSplit"):
        sf.plan(replace(sf.open_source(sf.datasets.rows(JOINT)), cluster=object()), "ill", 1.0, "town", split=0.1)


def test_columns_that_nobody_named_are_chosen_so_that_the_release_is_worth_making(tmp_path):
    rng, n = np.random.default_rng(1), 2_000
    sizes = {"s": 2, "a": 9, "b": 2, "c": 6, "d": 3, "e": 40}
    pa.csv.write_csv(pa.table({k: rng.integers(0, size, n).astype(str) for k, size in sizes.items()}), tmp_path / "t.csv")
    words = ("release", tmp_path / "t.csv", "--secret", "s", "--public-labels", "all", "--out", tmp_path / "out.csv")
    said = " ".join(run(*words, "--epsilon", 1).stderr.split())

    assert "by ε: b and d (others" in said and "Left out: a, c and e would make too many cells" in said


def test_synthetic_records_follow_the_estimate_and_say_what_they_are(people):
    run("release", people, "--secret", "ill", "--useful", "town,job", "--epsilon", 3, "--method", "grr",
        "--public-labels", "all", "--out", people.with_name("out.csv"))
    made = people.with_name("made.csv")
    run("synthesise", people.with_name("out.csv"), "--rows", 20_000, "--out", made, "--seed", 1)
    found = sf.estimate(people.with_name("out.csv"), people.with_name("out.mechanism.json"))
    manifest = json.loads(people.with_name("made.manifest.json").read_text())
    drawn = sf.tabulate(made, "ill", ["town", "job"])

    assert manifest["format"] == "sfumato/synthetic" and manifest["estimated_from"] == JOINT.n and "drawn" in manifest["note"]
    assert np.abs(drawn.p - found.p).max() < 0.02
    assert b"sfumato.synthetic" in found.synthesise(5).schema.metadata
    run("synthesise", people.with_name("out.csv"), "--rows", 10, "--out", made, code=6)


def test_what_would_help_follows_from_what_is_said_of_errors():
    from dataclasses import replace

    from sfumato.designers.worth import Foreseen, ForeseenPart, Help

    told = Foreseen(100, (ForeseenPart("town", 3, 240.0, 0.1), ForeseenPart("age", 4, float("inf"), 0.0)), (Help("twice as many rows", 0.71),))
    assert told.lines[:2] == ["town: ± 240 points: no estimate, worth 0 unprotected rows", "age: not told, by however many rows, worth 0 unprotected rows"]
    assert told.lines[-1] == "what would make the ± smaller: twice as many rows (0.71 times as large)"
    assert "smaller" not in replace(told, parts=told.parts[1:]).lines[-1]  # a ± that there is not becomes no smaller


@pytest.mark.parametrize("ball", [sf.ChiSquareBall(JOINT), sf.RenyiBall(JOINT, alpha=0.5, confidence=0.95), sf.Anything(JOINT)])
def test_what_helps_names_a_column_over_every_kind_of_set(ball):
    helps = sf.design(ball, 1.0, "grr").foreseen().helps

    assert any(h.what.startswith("leaving out") for h in helps)
