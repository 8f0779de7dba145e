"""Collecting: every answer once, on the disk before it is acknowledged, and nothing that ties it to an invitation."""

import asyncio
import json
import sqlite3

import numpy as np
import pytest
from click.testing import CliRunner
from tests import intake

import sfumato as sf
from sfumato.cli import cli
from sfumato.errors import FileFormatError, InputError
from sfumato.survey import Form, Survey, lines
from sfumato.survey.collected import Store, export, new_token, one_way

QUESTIONS = {"drug": ["yes", "no"], "age": ["18-29", "30-49", "50+"]}


@pytest.fixture(scope="module")
def survey():
    return Survey.of_labels(QUESTIONS, 2.0, asks="apart")


@pytest.fixture(scope="module")
def files(survey, tmp_path_factory):
    return survey.save(tmp_path_factory.mktemp("files") / "survey.html")


def drawn(form, n, seed=0):
    rng = np.random.default_rng(seed)
    return [form.line(new_token(), tuple(int(rng.integers(k)) for k in form.outputs)) for _ in range(n)]


def test_a_token_is_spent_once_and_only_by_the_invited(tmp_path):
    store = Store(tmp_path / "a.sqlite", "x")
    tokens = store.invite(3)

    assert store.accept([(tokens[0], "1"), (tokens[0], "0"), (new_token(), "1"), (tokens[1], "1")]) == ["taken", "used", "uninvited", "taken"]
    assert store.accept([(tokens[0], "1")]) == ["used"]
    assert store.counts() == {"1": 2} and store.spent() == 2


def test_without_invitations_a_token_of_chance_is_spent_once(tmp_path):
    store, token = Store(tmp_path / "a.sqlite", "x"), new_token()

    assert store.accept([(token, "0"), (token, "0")]) == ["taken", "used"]
    with pytest.raises(InputError, match="without invitations"):
        store.invite(1)


def test_nothing_in_the_store_ties_an_answer_to_a_token(tmp_path):
    store = Store(tmp_path / "a.sqlite", "x")
    store.accept([(new_token(), str(i % 3)) for i in range(50)])
    db = sqlite3.connect(tmp_path / "a.sqlite")

    columns = {name: [c[1] for c in db.execute(f"PRAGMA table_info({name})")] for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    assert columns == {"about": ["name", "value"], "tokens": ["hash", "spent"], "answers": ["answer", "n"]}
    for name in columns:
        with pytest.raises(sqlite3.OperationalError):
            db.execute(f"SELECT rowid FROM {name}")


def test_a_store_is_of_one_survey_and_of_one_format(tmp_path):
    Store(tmp_path / "a.sqlite", "x").close()
    with pytest.raises(InputError, match="another survey"):
        Store(tmp_path / "a.sqlite", "y")
    (tmp_path / "b.sqlite").write_bytes(b"no database, but long enough to be looked at" * 100)
    with pytest.raises(FileFormatError, match="no store"):
        Store(tmp_path / "b.sqlite", "x")
    with pytest.raises(InputError, match="No such file"):
        Store(tmp_path / "c.sqlite", "x", fresh=False)


@pytest.mark.parametrize("asks", ["together", "apart", "in turn"])
def test_collected_answers_become_a_table_whose_estimates_cover_the_truth(asks, tmp_path):
    made = Survey.of_labels(QUESTIONS, 3.0, asks=asks).mechanism
    form, rng = Form.of(made), np.random.default_rng(5)
    store = Store(tmp_path / "a.sqlite", form.survey)
    codes = {"drug": (rng.random(3000) > 0.3).astype(int), "age": rng.integers(0, 3, 3000)}
    record = {name: [labels[i] for i in codes[name]] for name, labels in QUESTIONS.items()}
    store.accept([form.read(x) for x in lines(made, [new_token() for _ in range(3000)], record)])

    path = export(store.counts(), made, tmp_path / "answers.csv")
    found = {t["name"]: t for t in one_way(store.counts(), made, 0.999)}

    assert sf.estimate(path, tmp_path / "answers.mechanism.json").n == 3000
    for name, size in (("drug", 2), ("age", 3)):
        share = np.bincount(codes[name], minlength=size) / 3000
        assert np.all(found[name]["low"] <= share) and np.all(share <= found[name]["high"])


def test_one_answer_is_no_certainty(survey):
    for table in one_way({"0.0": 1}, survey.mechanism):
        assert table["low"][0] < 0.5 < table["high"][1]


def test_the_intake_refuses_what_is_no_answer_or_one_too_many(survey, files, tmp_path):
    form = Form.of(survey.mechanism)
    server = intake.Server(files[1], tmp_path / "a.sqlite", files[0], rate=40)
    try:
        good = drawn(form, 1)[0]
        assert [server.post(good), server.post(good)] == [200, 409]
        bad = ["", "x", good[:-1] + "9", good.replace(form.survey, "0" * 16), b"\xff\xfe", good.replace("sfumato:1", "sfumato:2")]
        assert {server.post(x) for x in bad} == {400}
        assert server.post("a" * 100_000) == 413
        assert server.post(good, "/elsewhere") == 404 and server.get("/answer")[0] == 405
        status, page, headers = server.get("/")
        assert status == 200 and page == files[0].read_text() and headers["content-security-policy"] == "frame-ancestors 'none'"
        assert server.get("/estimates?key=x")[0] == 403
        assert [server.post("x") for _ in range(40)][-1] == 429
        assert Store(tmp_path / "a.sqlite", form.survey).spent() == 1
    finally:
        server.end()


def test_kill_9_loses_no_acknowledged_answer_and_doubles_none(survey, files, tmp_path):
    form, port = Form.of(survey.mechanism), intake.free_port()
    acknowledged: dict[str, int] = {}
    for round_ in range(2):
        server = intake.Server(files[1], tmp_path / "a.sqlite", port=port)
        sent = drawn(form, 4000, round_)
        acknowledged |= asyncio.run(intake.killed_while_posting(server, sent, 40 * round_ + 1))
    store = Store(tmp_path / "a.sqlite", form.survey)

    assert set(acknowledged.values()) == {200}
    assert intake.loss(acknowledged, store) == (0, 0) and len(acknowledged) <= store.spent()
    assert set(store.accept([form.read(x) for x in acknowledged])) == {"used"}


def test_the_commands_walk_from_questions_to_estimates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words, stdin=None, code=0):
        done = CliRunner().invoke(cli, words, input=stdin, catch_exceptions=False, standalone_mode=False)
        assert done.exit_code == code, done.output
        return done.output

    told = json.loads(run("survey", "--question", "drug: yes, no", "--epsilon", "1", "--json"))
    assert told["epsilon"] == 1 and told["bytes"] < 300_000
    run("collect", "invite", "survey.mechanism.json", "--count", "200", "--link", "https://x/", "--out", "inv.csv")
    tokens = [x.split("#t=")[1] for x in (tmp_path / "inv.csv").read_text().split()[1:]]
    form = Form.of(sf.load("survey.mechanism.json"))
    sent = [form.line(t, (i % 2,)) for i, t in enumerate(tokens)]
    (tmp_path / "lines.txt").write_text("\n".join([*sent, sent[0], "junk", form.line(new_token(), (0,))]))
    outcome = json.loads(run("collect", "add", "survey.mechanism.json", "lines.txt", "--json"))
    assert outcome == {"taken": 200, "used": 1, "uninvited": 1, "malformed": 1}
    run("collect", "export", "survey.mechanism.json", "--out", "answers.csv")
    assert json.loads(run("estimate", "answers.csv", "--json"))["n"] == 200
    assert form.read(run("respond", "survey.mechanism.json", "drug=yes", "--token", tokens[0]).strip())[0] == tokens[0]
    assert json.loads(run("respond", "survey.mechanism.json", "drug=yes")) in ("yes", "no")
    again = {run("respond", "survey.mechanism.json", "drug=yes", "--memo", "key") for _ in range(6)}
    assert len(again) == 1 and (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    many = run("respond", "survey.mechanism.json", "--records", "-", stdin='{"drug": "no"}\n' * 5)
    assert len(many.split()) == 5
    (tmp_path / "q.toml").write_text('once = 0.5\nforever = 1.0\n[[question]]\nname = "drug"\nlabels = ["yes", "no"]')
    assert "of any number: 1" in " ".join(run("survey", "q.toml", "--out", "waves.html", "--wave", "2").split())
