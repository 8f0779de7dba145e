"""One road for every release: the claim is checked in one place, and the batches are drawn once for all who want them."""

import ast
import io
import os
import pickle
import re
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

import sfumato as sf
from sfumato.alphabet import find_column
from sfumato.cli import cli
from sfumato.decimals import at_least, at_most
from sfumato.designers import choose
from sfumato.designers.closed_forms import srr
from sfumato.designers.worth import AIM, AIMS
from sfumato.drawing.randomness import Lane
from sfumato.errors import At, FileFormatError, OutputError, UnknownName, option, spelled
from sfumato.mechanism.file import record_of
from sfumato.releasing import Session, Wishes, session
from sfumato.releasing.files import Files
from sfumato.releasing.flow import Beside, DrawOptions, Stopped

HOME = Path(sf.__file__).parent
ROWS = 600


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(5)
    health = rng.choice(["ill", "well"], ROWS, p=[0.3, 0.7])
    town = [rng.choice(["A", "B", "C"], p=[0.5, 0.3, 0.2] if h == "ill" else [0.2, 0.3, 0.5]) for h in health]
    return pa.table({"health": health, "town": town, "id": [f"p{i}" for i in range(ROWS)]})


@pytest.fixture(scope="module")
def honest(people):
    return sf.design(sf.ChiSquareBall(sf.tabulate(people, "health", "town")), 1.0, "srr").mechanism


@pytest.fixture(scope="module")
def lying(honest):
    """A mechanism that promises less than it leaks."""
    return honest.with_claim(replace(honest.claim, epsilon=0.1))


def to_a_file(table, mechanism, folder):
    sf.release(table, mechanism, folder / "out.csv")


def to_a_frame(table, mechanism, folder):
    sf.release(table, mechanism)


def to_a_folder_by_a_plan(table, mechanism, folder):
    sf.publish(replace(sf.plan(table, "health", 1.0, "town", method="srr", public="all"), mechanism=mechanism), folder / "out.csv")


def to_a_pipe(table, mechanism, folder):
    Session.open(table).use(mechanism).check().streamed(io.BytesIO())


def to_files_of_a_session(table, mechanism, folder):
    with Session.open(table).use(mechanism).check().written(Files.beside(folder / "out.csv")):
        pass


WAYS = [to_a_file, to_a_frame, to_a_folder_by_a_plan, to_a_pipe, to_files_of_a_session]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_way_of_releasing_goes_around_the_check_of_the_claim(way, people, honest, lying, tmp_path):
    with pytest.raises(sf.ClaimError, match=r"claimed ε ≤ 0\.1 \(RLDP\), proved only"):
        way(people, lying, tmp_path)
    with pytest.raises(sf.ClaimError, match="claims no privacy"):
        way(people, replace(honest, claim=None), tmp_path)
    assert os.listdir(tmp_path) == []

    way(people, honest, tmp_path)


@pytest.mark.parametrize("out", ["out.csv", "-"])
def test_the_command_line_does_not_go_around_it_either(out, people, lying, tmp_path):
    csv.write_csv(people, tmp_path / "people.csv")
    lying.save(tmp_path / "m.json")
    to = out if out == "-" else tmp_path / out

    done = CliRunner().invoke(cli, ["release", str(tmp_path / "people.csv"), "--mechanism", str(tmp_path / "m.json"), "--out", str(to)])

    assert done.exit_code == 5 and done.stdout == ""
    assert sorted(os.listdir(tmp_path)) == ["m.json", "people.csv"]


def calls(name):
    """The modules of the library that call a name."""
    found = set()
    for path in HOME.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())) if f"{name}(" in path.read_text() else ():
            made = node.func if isinstance(node, ast.Call) else None
            if (isinstance(made, ast.Name) and made.id == name) or (
                isinstance(made, ast.Attribute) and isinstance(made.value, ast.Name) and f"{made.value.id}.{made.attr}" == name
            ):
                found.add(str(path.relative_to(HOME)))
    return found


def test_rows_are_drawn_by_flows_and_flows_are_made_of_checked_mechanisms_in_the_session_alone():
    assert calls("Checked") == calls("Flow.of") == {"releasing/session.py"}
    assert calls("Flow") == set()
    assert calls("Drawer.of") == {"releasing/flow.py"}
    assert calls("Sampler") == {
        "drawing/decoding.py", "releasing/spark/tasks.py", "auditing/audits.py"
    }  # and by attacks, on rows that they make up themselves


def test_every_entrance_gives_an_order_whose_steps_are_in_the_session_alone():
    assert calls("Order") | calls("releasing.Order") == {
        "releasing/entrances.py", "studio/desk.py", "cli/release.py", "cli/demo.py"
    }
    steps = re.compile(r"\.(foresee|check|check_worth)\(")
    assert [p.name for p in HOME.rglob("*.py") if steps.search(p.read_text())] == ["session.py"]


def test_a_plan_that_is_worth_nothing_is_published_when_asked_for_once_more_and_its_draw_is_kept(people, tmp_path):
    csv.write_csv(people, tmp_path / "people.csv")
    plan = partial(sf.plan, tmp_path / "people.csv", "health", 0.1, "town", method="grr", design="noisy", public="all")

    with pytest.raises(sf.InputError, match="anyway=True releases it all the same"):
        sf.publish(plan(), tmp_path / "out.csv")
    (kept,) = tmp_path.glob("people.*.counts.json")
    assert sorted(os.listdir(tmp_path)) == sorted(["people.csv", kept.name])

    sf.publish(plan(), tmp_path / "out.csv", anyway=True)
    assert sf.load(tmp_path / "out.mechanism.json").joint.fingerprint == sf.load_counts(kept).fingerprint


def test_a_plan_for_a_table_that_is_a_release_says_so(people, honest, tmp_path):
    again = "This table is a release already"
    sf.release(people, honest, tmp_path / "out.csv")
    told = sf.release(people, honest)

    for table in (tmp_path / "out.csv", told, told.to_reader()):
        plan = sf.plan(table, "health", 1.0, "town", method="srr", public="all")
        assert again in [n.title for n in plan.notices()]
    assert again not in [n.title for n in sf.plan(people, "health", 1.0, "town", method="srr", public="all").notices()]


def test_the_steps_of_the_session_stand_in_the_order_in_which_data_moves():
    text = (HOME / "releasing/session.py").read_text()
    steps = ["def open(", "def design(", "def load(", "def check(", "def written("]
    within = ["_consumed(", "flow.manifest(", "_documents(", "yield done", "publish_all("]
    for names in (steps, within):
        places = [text.index(name) for name in names]
        assert places == sorted(places)


def told_in_the_guide(start, end):
    """The files that a walk in CONTRIBUTING.md names, in order."""
    text = (HOME.parent.parent / "CONTRIBUTING.md").read_text()
    return re.findall(r"`((?!tests)[a-z_/]+\.py)`", text[text.index(start) : text.index(end)])


def walked(work):
    """The files of the library that are called into, in the order in which they are first called."""
    seen = {}

    def note(frame, event, arg):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(f"{HOME}/"):
            seen.setdefault(name.removeprefix(f"{HOME}/"))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(seen)


def test_the_walk_of_a_row_in_the_contributors_guide_is_the_walk_that_is_taken(people, tmp_path):
    csv.write_csv(people, tmp_path / "people.csv")
    words = ["release", str(tmp_path / "people.csv"), "--secret", "health", "--epsilon", "1", "--method", "srr",
             "--public-labels", "all", "--out"]

    def release(name):
        done = CliRunner().invoke(cli, [*words, str(tmp_path / name)])
        assert done.exit_code == 0, done.output

    release("warm.csv")  # so that imports are not taken for steps
    told = told_in_the_guide("**A row through a release**", "**A table through a design**")
    assert len(told) > 12
    assert [name for name in walked(lambda: release("out.csv")) if name in told] == told


def test_the_walk_of_a_table_in_the_contributors_guide_is_the_walk_that_is_taken():
    def design(**limits):
        sf.design(sf.ChiSquareBall(sf.Joint.from_counts(np.arange(10, 34).reshape(3, 8))), 1.0, "ballopt", **limits)

    design(time_limit=1)  # so that imports are not taken for steps
    told = told_in_the_guide("**A table through a design**", "## Three ideas")
    assert len(told) > 11
    assert [name for name in walked(design) if name in told] == told


# Two consumers of the same batches


def test_the_estimate_is_made_from_the_batches_that_were_written(people, honest, tmp_path):
    plan = sf.plan(people, "health", 1.0, "town", method="srr", public="all")

    done = sf.publish(plan, tmp_path / "out.parquet")

    again = sf.estimate(tmp_path / "out.parquet", plan.mechanism)
    assert done.estimate.n == again.n == ROWS
    assert np.array_equal(done.estimate.p, again.p)


def test_an_estimate_that_cannot_be_made_does_not_keep_rows_from_being_released(people, tmp_path, monkeypatch):
    def refused(*args, **options):
        raise sf.InputError("it is too large to estimate from.")

    monkeypatch.setattr(session, "estimate_drawn", refused)

    done = sf.publish(sf.plan(people, "health", 1.0, "town", method="srr", public="all"), tmp_path / "out.csv", report=False)

    assert done.estimate is None
    assert "no estimate was made: it is too large" in done.notes[-1]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == ROWS + 1


def test_work_beside_sees_every_item_in_order_and_tells_its_result():
    beside = Beside(lambda items: [2 * x for x in items], depth=2)
    with beside as passed:
        for x in range(100):
            passed(x)
    assert beside.result() == [2 * x for x in range(100)]


def test_work_that_ends_early_does_not_stop_the_passing():
    def broken(items):
        next(items)
        raise RuntimeError("broken")

    beside = Beside(broken, depth=1)
    with beside as passed:
        for x in range(50):
            passed(x)
    with pytest.raises(RuntimeError, match="broken"):
        beside.result()


def test_work_beside_is_told_when_the_passing_stops():
    beside = Beside(lambda items: list(items))
    with pytest.raises(KeyError), beside as passed:
        passed(1)
        raise KeyError
    with pytest.raises(Stopped):
        beside.result()
    for _ in range(100):
        if not beside.thread.is_alive():
            break
        time.sleep(0.01)
    assert beside.thread not in threading.enumerate()


# What the command line knows, Python can do


def test_python_and_the_command_line_plan_the_same(people, tmp_path):
    csv.write_csv(people, tmp_path / "people.csv")
    done = CliRunner().invoke(cli, [
        "design", str(tmp_path / "people.csv"), "--secret", "health", "--epsilon", "1", "--method", "cr", "--rare", "town=2",
        "--design", "exact", "--out", str(tmp_path / "m.json"),
    ], catch_exceptions=False)

    plan = sf.plan(tmp_path / "people.csv", "health", 1.0, method="cr", rare={"town": 2}, design="exact")

    assert done.exit_code == 0
    assert plan.choice.useful == ("town",) and list(plan.choice.left_out) == ["id"]
    assert record_of(plan.mechanism).checksum == record_of(sf.load(tmp_path / "m.json")).checksum


@pytest.mark.parametrize("method", ["srr", "auto"])
def test_a_private_table_is_told_exactly_only_where_that_is_asked_for_by_name(people, method):
    asked = partial(sf.plan, people, "health", 1.0, "town", method=method, public="all")

    usual, exact, known = asked(), asked(design="exact"), asked(origin="reference")

    assert usual.mechanism.source != "private" and (usual.mechanism.joint is None or usual.mechanism.joint.noise)
    assert exact.mechanism.source == "private" and exact.notices()
    assert known.mechanism.source == "reference" and known.mechanism.joint.noise is None and not known.notices()
    with pytest.raises(sf.InputError, match="needs exact counts"):
        asked(notion="lip")
    with pytest.raises(sf.InputError, match="Did you mean 'private'"):
        asked(origin="privat")


def test_a_plan_that_splits_releases_the_rows_it_was_not_designed_on(people, tmp_path):
    plan = sf.plan(people, "health", 1.0, "town", method="srr", split=0.25)

    done = sf.publish(plan, tmp_path / "out.csv")

    assert plan.mechanism.source == "split"
    assert plan.mechanism.joint.n + done.rows == ROWS
    (told,) = plan.notices("m.json")
    assert "set aside" in told.title and "m.json" in told.paragraphs[0]


def test_a_reference_keeps_private_rows_out_of_the_plan(people):
    plan = sf.plan(people.slice(0, 100), "health", 1.0, "town", method="srr", reference=people.slice(100))

    assert plan.mechanism.source == "reference" and plan.mechanism.joint.n == ROWS - 100
    assert plan.notices() == () and plan.source.rows == 100


def test_counts_can_be_planned_from(people):
    cells = people.group_by(["health", "town"]).aggregate([([], "count_all")]).rename_columns(["health", "town", "n"])

    plan = sf.plan(cells, "health", 1.0, "town", method="srr", public="all", counts="n")

    assert plan.mechanism.joint.n == ROWS


def test_what_is_published_is_what_the_command_line_writes(people, tmp_path):
    sf.publish(sf.plan(people, "health", 1.0, "town", method="srr", public="all"), tmp_path / "out.csv")

    assert sorted(os.listdir(tmp_path)) == [
        "out.csv", "out.manifest.json", "out.mechanism.json", "out.report.html", "out.tables.csv"]
    assert sf.verify(tmp_path / "out.mechanism.json").holds


def test_a_wish_that_nobody_knows_is_named():
    with pytest.raises(sf.InputError, match=r"'raer' is not a wish.*Did you mean 'rare'"):
        sf.plan(pa.table({"a": ["x"], "b": ["y"]}), "a", 1.0, "b", raer=3)
    with pytest.raises(sf.InputError, match="epsilon must be"):
        Wishes(("a",), ("b",), -1.0)


def test_the_aim_of_python_is_that_of_the_command_line(people, tmp_path, monkeypatch):
    aims = []
    monkeypatch.setattr(choose, "aimed", lambda task, aim, given: aims.append(aim) or srr(task))
    csv.write_csv(people, tmp_path / "people.csv")

    sf.design(sf.ChiSquareBall(sf.tabulate(people, "health", "town")), 1.0)
    sf.plan(people, "health", 1.0, "town", public="all")
    CliRunner().invoke(cli, ["design", str(tmp_path / "people.csv"), "--secret", "health", "--epsilon", "1", "--public-labels", "all", "--out", str(tmp_path / "m.json")])

    assert aims == [AIM] * 3 and AIM in AIMS


# Lanes and options


def test_no_two_uses_of_randomness_share_a_lane():
    for one, other in combinations(Lane, 2):
        assert one.value.stop <= other.value.start or other.value.stop <= one.value.start, (one, other)
    assert all(0 <= lane.value.start < lane.value.stop <= 1 << 64 for lane in Lane)
    assert len(Lane.__members__) == len(list(Lane))


def test_only_the_enumeration_numbers_lanes():
    for path in (p for p in HOME.rglob("*.py") if "lane=" in p.read_text()):
        for node in ast.walk(ast.parse(path.read_text())):
            for word in node.keywords if isinstance(node, ast.Call) else []:
                assert word.arg != "lane" or not isinstance(word.value, ast.Constant), path


@given(st.floats(0, 1e12), st.integers(1, 12))
def test_limits_are_rounded_to_the_side_on_which_they_hold(x, digits):
    assert float(at_least(x, digits)) <= x <= float(at_most(x, digits))
    assert at_most(float(at_most(x, digits)), digits) == at_most(x, digits)  # what is written is not rounded again


def test_options_are_spelled_for_whoever_reads_the_message():
    error = sf.DataError("it is long", next=f"Bin it ({option('--bins age=5', 'bins=5')})", where=At("age", row=3))
    assert str(error) == "column 'age', row 3: it is long. Bin it (bins=5)."
    assert error.text(shell=True) == "column 'age', row 3: it is long. Bin it (--bins age=5)."
    more = error.followed_by("Twice.")
    assert (more.next, more.text(shell=True)[-30:]) == ("Bin it (bins=5). Twice.", "g. Bin it (--bins age=5). Twice."[-30:])
    assert spelled("nothing to choose") == "nothing to choose"


def test_errors_keep_their_fields_on_the_way_to_other_processes():
    for kind in (sf.InputError, sf.DataError, FileFormatError, sf.ClaimError, OutputError):
        error = pickle.loads(pickle.dumps(kind("has edges", value=[2.0, 1], next="Sort them", where=At("age", row=3))))
        assert (error.what, error.value, error.next, error.where) == ("has edges", [2.0, 1], "Sort them", At("age", row=3))
        assert str(error) == error.fields()["text"] == "column 'age', row 3: has edges, got [2.0, 1]. Sort them."
    assert str(pickle.loads(pickle.dumps(sf.InputError("is empty", where="people.csv")))) == "people.csv is empty."
    with pytest.raises(UnknownName) as caught:
        find_column("raec", ["age", "race"], "people.csv")
    assert (caught.value.value, caught.value.next) == ("raec", "Did you mean 'race'?")
    assert str(caught.value).startswith("'raec' is not a column of people.csv (columns: age, race). Did")


def test_a_session_without_a_mechanism_says_what_to_do(people):
    with pytest.raises(sf.InputError, match="design, load or use"):
        Session.open(people).check(DrawOptions())
