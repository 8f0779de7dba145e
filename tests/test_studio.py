"""What the studio computes: cards that count every row, one draw of noisy counts for all levels, the command line's own
promise, files and words, and a private folder that holds nothing when its server is gone."""

from __future__ import annotations

import asyncio
import json
import pickle
import shlex
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.studio import people

import sfumato as sf
from sfumato.cli import cli
from sfumato.cli.release import _using as wishes_of_command
from sfumato.cli.release import release as release_command
from sfumato.designers.base import Task
from sfumato.designers.worth import Closed
from sfumato.errors import SfumatoError
from sfumato.sources import open_source
from sfumato.studio import door, server
from sfumato.studio.cards import Roles, cards_of, command
from sfumato.studio.desk import Desk
from sfumato.studio.levels import guessed_from
from sfumato.studio.visits import Visit

CHOICE = {"roles": {"sex": "secret", "race": "useful"}, "public": True}
BINNED = {"roles": {"sex": "secret", "race": "useful", "age": "useful", "gender": "keep"}, "bins": {"age": [30.5, 65]}, "rare": {"race": 400}, "public": True}
STOPS = [0.05, 1.0, 3.0]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return people(tmp_path_factory.mktemp("studio") / "people.csv")


class Heard:
    """What a desk told, by name; designs by level."""

    def __init__(self):
        self.told, self.designs = {}, {}

    def __call__(self, **told):
        if "design" in told:
            self.designs[told["design"]["epsilon"]] = told["design"]
        self.told.update(told)


@pytest.fixture(scope="module")
def desk(table):
    made = Desk(Heard())
    made.open(str(table), table.name, {})
    made.choose(CHOICE, 1.0, None)
    for at in STOPS:
        made.tell(design=made.add_level(at))
    return made


# Cards


@given(st.lists(st.sampled_from(["a", "b", "A ", "", "c"]), min_size=1, max_size=60), st.integers(1, 8))
def test_every_row_is_in_one_bar_and_in_one_group_of_its_card(labels, least):
    card = cards_of(open_source(pa.table({"x": labels})), lambda rows: None)["x"]

    groups = card.groups(None, least)

    assert sum(bar["rows"] for bar in card.bars()) == sum(g["rows"] for g in groups) == len(labels)
    counts = Counter(labels)
    assert {g["label"] for g in groups if g["label"] not in ("other", "(missing)")} == {x for x, n in counts.items() if x and n >= least}
    assert card.missing == counts[""]


@given(st.lists(st.integers(-500, 500), min_size=40, max_size=200, unique=True), st.lists(st.integers(-400, 400), min_size=1, max_size=4, unique=True))
def test_a_histogram_and_its_bins_hold_every_number_once(numbers, edges):
    twice = numbers + numbers[:7]
    card = cards_of(open_source(pa.table({"x": twice})), lambda rows: None)["x"]
    edges = sorted(map(float, edges))

    held = [g["rows"] for g in card.groups(edges, None)]

    assert card.kind == "number" and sum(bar["rows"] for bar in card.histogram()) == len(twice)
    assert held == np.histogram(twice, [-np.inf, *edges, np.inf])[0].tolist()


def test_cards_say_what_a_column_is(table):
    cards = cards_of(open_source(table), lambda rows: None)
    assert {name: card.kind for name, card in cards.items()} == {
        "sex": "category", "race": "category", "age": "number", "gender": "category", "id": "identifier"
    }
    dated = cards_of(open_source(pa.table({"seen": ["2026-01-31", "2026-02-01"] * 3, "one": ["x"] * 6})), lambda rows: None)
    assert dated["seen"].kind == "date" and dated["one"].kind == "constant"
    assert [g["label"] for g in dated["seen"].groups("month", None)] == ["2026-01", "2026-02"]
    odd = cards_of(open_source(pa.table({"town": ["Delft", "delft "]})), lambda rows: None)["town"].shown()
    assert "differ only in case" in odd["doubts"][0]


# Designs


def test_noisy_counts_are_drawn_once_for_every_level_and_every_return(desk):
    first = desk.levels[repr(desk.table.wishes)]
    drawn = first.drawn.within.joint

    assert drawn.noise is not None and drawn.noise.epsilon < 1.0
    assert desk.designs[1.0].mechanism.joint.fingerprint == drawn.fingerprint
    assert first.basis(0.05).source == "public" and desk.designs[0.05].mechanism.source == "public"  # they leave nothing of it
    other = Desk(Heard())
    other.source, other.cards, other.levels = desk.source, desk.cards, dict(desk.levels)
    other.choose({"roles": {**CHOICE["roles"], "age": "useful"}, "public": True}, 0.9, None)
    other.choose(CHOICE, 0.9, None)
    assert other.designs[0.9].mechanism.joint.fingerprint == drawn.fingerprint


def test_a_design_of_the_studio_promises_what_the_command_line_promises(desk, table):
    plan = sf.plan(table, "sex", 1.0, "race", design="noisy", design_epsilon=desk.now.drawn.within.joint.noise.epsilon, at_most=3.0)
    better = desk.improve(pickle.dumps(desk.now), 1.0)

    for made in (desk.designs[1.0], pickle.loads(better["made"])):
        assert made.mechanism.claim.sentence == plan.mechanism.claim.sentence
        assert made.certificate.holds and sf.certify(made.mechanism).holds
    assert better["view"]["worth"]["share"] >= desk.tell.designs[1.0]["worth"]["share"]


def test_a_first_design_is_the_best_closed_form():
    ball = sf.ChiSquareBall(sf.datasets.adult("sex", "race"))
    made = sf.design(ball, 1.0, aim="closed")
    closed = Closed.of(Task(ball, 1.0))

    assert made.certificate.holds and made.method == min(closed.means, key=closed.means.get)


def test_every_file_of_the_page_is_handed_out_and_nothing_else():
    home = Path(server.__file__).parent
    held = {p.name for p in (*(home / "assets").iterdir(), *(home / "vendor").glob("*.js"))}
    assert set(door.ASSETS) == held - {"page.html"} and all(door.text(name) for name in door.ASSETS)


def test_attackers_and_errors_that_are_shown_are_those_of_the_library(desk):
    from sfumato.designers.worth import foreseen
    from sfumato.reporting.mechanism_figures import guessers_of

    view, made = desk.tell.designs[3.0], desk.designs[3.0]
    first, second = guessers_of(made.mechanism, desk.table.joint, made.certificate)
    told = foreseen(made.mechanism, n=desk.table.joint.n)

    assert [(g["before"], g["after"]) for g in view["guessers"]] == [(first.before, first.after), (second.before, second.after)]
    assert [c["error"] for c in view["columns"]] == [p.error for p in told.parts[:-1]] and view["worth"]["share"] == told.share
    shares = {v["label"]: v["share"] for v in view["columns"][0]["values"]}
    assert shares["Male"] == pytest.approx(21790 / 32561)
    spread = [v["high"] - v["low"] for v in view["columns"][0]["values"]]
    assert np.sqrt(np.mean(np.square(spread))) / 2 == pytest.approx(told.parts[0].points / 100, rel=0.2)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.sampled_from("pq")), min_size=2, max_size=40))
def test_what_kept_columns_give_away_is_the_share_of_the_best_guess(rows):
    source = open_source(pa.table({name: list(column) for name, column in zip(("s", "k", "l"), zip(*rows, strict=True), strict=True)}))
    best = Counter()
    for (_, *kept), n in Counter(rows).items():
        best[tuple(kept)] = max(best[tuple(kept)], n)

    guessed = guessed_from(source, Roles(("s",), ("k",), (), {}, {}).wishes(1.0), ["k", "l"])

    assert guessed == pytest.approx(sum(best.values()) / len(rows))


def test_a_kept_copy_of_the_secret_and_worthless_releases_turn_lights_red(table):
    desk = Desk(Heard())
    desk.open(str(table), table.name, {})
    desk.choose({"roles": {**CHOICE["roles"], "gender": "keep"}, "public": True}, 1.0, None)
    for at in STOPS:
        desk.tell(design=desk.add_level(at))

    lights = {at: {x["name"]: x["colour"] for x in view["lights"]} for at, view in desk.tell.designs.items()}

    assert {colours["kept"] for colours in lights.values()} == {"red"} and desk.now.guessed == 1.0
    assert lights[0.05]["rows"] == "red" and lights[3.0]["rows"] == "green" and lights[3.0]["cells"] == "green"
    assert desk.tell.told["before"]["colour"] == "none"


class Waiting:
    """A worker that answers when it is told to."""

    doing = ""

    def __init__(self):
        self.asked, self.answers = [], []

    def take(self):
        return self

    async def do(self, what, tell=None, **given):
        self.asked.append((what, given))
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    def give_up(self, *whats):
        return None


def test_levels_of_a_choice_that_counts_no_more_are_never_searched():
    worker, other = Waiting(), {"roles": {"sex": "secret", "age": "useful"}, "public": True}

    async def walk():
        visit = Visit(worker, None, None)
        visit.choose(CHOICE)
        await asyncio.sleep(0)
        worker.answers[0].set_result(b"first")
        visit.choose(other)  # before anybody has looked at the answer
        for _ in range(3):
            await asyncio.sleep(0)
        assert visit.levels is None and [what for what, _ in worker.asked] == ["choose", "choose"]
        worker.answers[1].set_result(b"second")
        for _ in range(3):
            await asyncio.sleep(0)
        assert visit.levels == b"second"
        assert {given["levels"] for what, given in worker.asked if what == "improve"} == {b"second"}
        visit.forget()

    asyncio.run(walk())
    assert worker.asked[1][1]["choice"]["roles"] == other["roles"]


def test_a_visit_that_nobody_looks_at_is_forgotten_and_one_that_is_loaded_anew_is_not(monkeypatch):
    monkeypatch.setattr(server, "SERVING", server.Serving(idle=0.02))

    async def walk():
        studio = server.Studio()
        visit = studio.visits["x"] = Visit(Waiting(), None, None)
        visit.id = "x"
        asked = SimpleNamespace(path_params={"visit": "x"})
        first = (await studio.events(visit, asked)).body_iterator
        assert json.loads((await anext(first)).removeprefix("data: "))["put"]["epsilon"] == 1.0
        await first.aclose()
        second = (await studio.events(visit, asked)).body_iterator  # loaded anew
        await anext(second)
        await asyncio.sleep(0.05)
        assert "x" in studio.visits
        await second.aclose()
        await asyncio.sleep(0.05)
        assert "x" not in studio.visits

    asyncio.run(walk())


# Release


def test_a_release_has_the_files_of_the_command_line_and_its_proof_holds(desk, tmp_path):
    done = desk.release(CHOICE, 3.0, None, str(tmp_path / "released.csv"), {"publisher": "We"}, "people.csv")

    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == [f"released.{x}" for x in ("csv", "manifest.json", "mechanism.json", "report.html", "tables.csv")]
    assert sf.verify(tmp_path / "released.mechanism.json").holds
    found = sf.estimate(tmp_path / "released.csv", tmp_path / "released.mechanism.json")
    low, high = found.table("race").interval()
    truth = desk.table.joint.p_useful
    assert found.n == 32561 and np.all((low - 0.02 <= truth) & (truth <= high + 0.02))
    page = (tmp_path / "released.report.html").read_text()
    assert "We" in page and done["command"].split(" --out")[0].replace(" --publisher We", "") in page.replace("&#39;", "'")


def test_what_was_drawn_for_a_release_that_is_refused_is_kept_and_used_when_it_is_asked_for_again(tmp_path):
    desk, choice = Desk(Heard()), {"roles": {"sex": "secret", "race": "useful"}, "public": True}
    desk.open(str(people(tmp_path / "people.csv")), "people.csv", {})
    desk.choose(choice, 0.05, None)
    ask = partial(desk.release, choice, 0.02, None, str(tmp_path / "r.csv"), table="people.csv")
    desk.add_level(0.02)

    with pytest.raises(sf.InputError, match="worth"):
        ask(more={})
    (drawn,) = [p for p in tmp_path.iterdir() if p.name != "people.csv"]
    kept = drawn.read_bytes()
    ask(more={"anyway": True})
    assert sf.verify(tmp_path / "r.mechanism.json").holds
    assert [p.read_bytes() for p in tmp_path.glob("*.counts.json")] == [kept]


def test_the_command_that_is_shown_asks_for_the_same_design(table, tmp_path):
    roles = Roles.of(BINNED, open_source(table).columns)
    design = {"epsilon": 0.75, "design": "noisy", "design_epsilon": 0.1, "at_most": 3.0}
    words = shlex.split(command(str(table), roles, design, str(tmp_path / "r.csv"), {"delimiter": ",", "anyway": True, "publisher": "A b"}))
    assert words[:2] == ["sfumato", "release"]

    ctx = release_command.make_context("release", words[2:])
    given = {k: ctx.params[k] for k in ctx.params}
    assert (given["keep"], given["delimiter"], given["anyway"], given["publisher"]) == ((("gender",),), ",", True, "A b")
    parts = [tuple(x for part in given.pop(name) for x in part) for name in ("secret", "useful")]
    others = {*"table out keep partition design_from split mechanism decode report private_report form people ledger same_values memoise person".split(),
              *"raw_cells publisher seed force as_json anyway na counts delimiter encoding decimal dates sheet".split()}
    with ctx:
        wished = wishes_of_command(ctx, *parts, None, {**{k: v for k, v in given.items() if k not in others and k != "budget"}, "planned": None}, True)
    asked = roles.wishes(0.75)
    same = ("secret", "useful", "epsilon", "bins", "rare", "missing", "at_most", "aim", "method", "notion", "confidence", "numbers")
    assert [getattr(wished, name) for name in same] == [getattr(asked, name) for name in same]
    assert (wished.design, wished.design_epsilon) == ("noisy", 0.1)


def test_the_lines_of_python_that_are_shown_run(desk, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").symlink_to(table)
    said = desk.said(CHOICE, 3.0, "released.csv", {}, "people.csv")["python"]

    held = {}
    exec(said, held)

    assert held["done"].rows == 32561 and held["done"].certificate.holds
    assert held["done"].manifest.claim == desk.designs[3.0].mechanism.claim.sentence


REFUSED = {
    "a secret of one value": ({"roles": {"one": "secret", "town": "useful"}}, ["--secret", "one", "--useful", "town"]),
    "an identifier": ({"roles": {"sex": "secret", "name": "useful"}}, ["--secret", "sex", "--useful", "name"]),
    "edges that fall": ({"roles": {"sex": "secret", "age": "useful"}, "bins": {"age": [50.0, 30.0]}}, ["--secret", "sex", "--useful", "age", "--bins", "age=50;30"]),
    "bins of words": ({"roles": {"sex": "secret", "town": "useful"}, "bins": {"town": 3}}, ["--secret", "sex", "--useful", "town", "--bins", "town=3"]),
    "dates that are none": ({"roles": {"sex": "secret", "town": "useful"}, "bins": {"town": "year"}}, ["--secret", "sex", "--useful", "town", "--bins", "town=year"]),
    "too few rows for ε": ({"roles": {"sex": "secret", "town": "useful"}}, ["--secret", "sex", "--useful", "town", "--design", "any", "--epsilon", "0.05"]),
    "a format nobody knows": (
        {"roles": {"sex": "secret", "town": "useful"}, "public": True},
        ["--secret", "sex", "--useful", "town", "--public-labels", "all", "--out", "x.doc"],
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_studio_refuses_what_the_command_line_refuses_with_the_same_words(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{'FM'[i % 2]},{'ABC'[i // 2 % 3]},N{i},x,{20 + i % 60}\n" for i in range(300))
    Path("people.csv").write_text(f"sex,town,name,one,age\n{rows}")
    choice, options = REFUSED[what]
    usual = [] if "--epsilon" in options else ["--epsilon", "1"]
    shell = CliRunner().invoke(cli, ["release", "people.csv", *options, *usual, *([] if "--out" in options else ["--out", "out.csv"])])

    desk, at = Desk(Heard()), float(options[options.index("--epsilon") + 1]) if "--epsilon" in options else 1.0
    with pytest.raises(SfumatoError) as refused:
        desk.open("people.csv", "people.csv", {})
        desk.choose(choice, at, None)
        desk.release(choice, at, None, options[-1] if "--out" in options else "out.csv", {}, "people.csv")

    said = " ".join(shell.output.split("Error:")[-1].split("On the command line:")[0].split())
    assert " ".join(refused.value.text(shell=True).split()) == said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["people.csv"]


def test_how_a_private_table_is_read_is_confirmed_before_it_is_designed_for(tmp_path):
    (tmp_path / "people.csv").write_text("sex;pay\n" + "".join(f"{'FM'[i % 2]};{i % 30},5\n" for i in range(3000)))
    desk = Desk(Heard())
    choice = {"roles": {"sex": "secret", "pay": "useful"}, "bins": {"pay": [10, 20]}}
    found = desk.open(str(tmp_path / "people.csv"), "people.csv", {})

    assert found["guessed"] == {"decimal": ","}
    with pytest.raises(SfumatoError, match="must not rest on its rows"):
        desk.choose(choice, 1.0, None)
    assert desk.open(str(tmp_path / "people.csv"), "people.csv", found["guessed"])["guessed"] == {}
    assert desk.choose(choice, 1.0, None)


def test_the_release_of_a_bundle_is_verified_estimated_and_synthesised(table, tmp_path):
    plan = sf.plan(table, "sex", 2.0, ["race", "age"], columns="bundle", public="all", bins={"age": [30, 50]})
    sf.publish(plan, tmp_path / "r.csv")
    desk = Desk(Heard())
    found = desk.analyse([str(tmp_path / "r.csv"), str(tmp_path / "r.mechanism.json")], None)

    assert found["verdict"]["holds"] and {"race", "age"} <= set(found["estimate"]["names"])
    assert desk.ask("table", ["race", "age"])["rows"] and desk.ask("odds", ["race", "age"])["rows"]
    made = desk.synthesise(50, str(tmp_path / "synthetic.csv"))
    assert open_source(made).columns and len(Path(made).read_text().splitlines()) == 51


def test_the_command_is_listed_and_says_what_it_needs(tmp_path):
    assert "studio" in CliRunner().invoke(cli, ["--help"]).output
    gone = CliRunner().invoke(cli, ["studio", str(tmp_path / "none.csv")], standalone_mode=False)
    assert isinstance(gone.exception, sf.InputError) and "could not be read" in str(gone.exception)
    assert isinstance(release_command, click.Command)
