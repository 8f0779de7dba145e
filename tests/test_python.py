"""What people who write Python expect: frames, notebooks, pictures, registration, and errors in our words."""

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.designers.choose import REGISTERED

JOINT = sf.Joint.from_counts([[300, 100, 200], [200, 400, 100]], secret=["ill", "well"], useful=["a", "b", "c"])


def results():
    made = sf.design(JOINT, 1.0, "grr")
    found = sf.estimate([400, 150, 150, 200, 200, 200], made)
    return {
        "joint": JOINT, "design": made, "certificate": made.certificate, "estimate": found, "table": found.table("useful"),
        "comparison": sf.compare(JOINT, epsilon=[1.0, 2.0], methods=["grr", "srr"], cache=False, workers=1),
    }


RESULTS = results()


@pytest.mark.parametrize("name", [n for n in RESULTS if n != "design"])
def test_results_are_frames_of_every_library(name):
    table = RESULTS[name].to_arrow()

    assert table.num_rows == len(list(RESULTS[name].records())) > 0
    assert list(RESULTS[name].to_pandas()) == RESULTS[name].to_polars().columns == table.column_names


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_tables_in_a_notebook_and_one_line_elsewhere(name):
    page = RESULTS[name]._repr_html_()

    assert page.count("<table>") == page.count("</table>") >= 1 and "<td>" in page
    assert repr(RESULTS[name]).startswith("<") and len(repr(RESULTS[name])) < 250 and "array(" not in repr(RESULTS[name])


def test_labels_cannot_steer_a_notebook():
    joint = sf.Joint.from_counts([[1, 2], [3, 4]], secret=["<b>", "&"], useful=["<script>", "x"])

    assert "<script>" not in joint._repr_html_() and "&lt;script&gt;" in joint._repr_html_()


@pytest.mark.parametrize("draw", [
    lambda: RESULTS["design"].plot(), lambda: RESULTS["estimate"].plot(), lambda: RESULTS["estimate"].plot("useful"),
    lambda: RESULTS["comparison"].plot(), lambda: RESULTS["comparison"].plot("kept"),
])
def test_results_can_be_drawn(draw, tmp_path):
    draw().figure.savefig(tmp_path / "picture.png")

    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_a_joint_stands_for_its_ball():
    one, other = sf.design(JOINT, 1.0, "ir"), sf.design(sf.ChiSquareBall(JOINT, confidence=0.95), 1.0, "ir")

    assert one.mechanism.claim.within.radius == other.mechanism.claim.within.radius
    assert one.mechanism.law.four == other.mechanism.law.four


def test_a_crosstab_keeps_its_labels():
    rows = pd.DataFrame({"sex": ["F", "M", "F", "M"], "town": ["A", "A", "B", "B"], "ill": ["no", "yes", "no", "no"]})
    joint = sf.Joint.from_counts(pd.crosstab(rows.sex, rows.town))
    several = sf.Joint.from_counts(pd.crosstab(rows.ill, [rows.sex, rows.town], dropna=False))

    assert joint.secret.names == ("sex",) and joint.useful.labels == ("A", "B")
    assert joint.fingerprint == sf.tabulate(rows, "sex", "town").fingerprint
    assert several.useful.names == ("sex", "town") and several.fingerprint == sf.tabulate(rows, "ill", ["sex", "town"]).fingerprint


@pytest.mark.parametrize(("wrong", "words"), [
    (lambda: sf.design(pd.DataFrame({"a": [1]}), 1.0), "needs a joint.*got a DataFrame.*sf.tabulate"),
    (lambda: sf.design(np.eye(2), 1.0), "needs a joint.*got a ndarray"),
    (lambda: sf.ChiSquareBall(pd.DataFrame({"a": [1]})), "needs a joint.*sf.tabulate"),
    (lambda: sf.Exactly(np.eye(2)), "needs a joint"), (lambda: sf.RenyiBall([[1]], alpha=2, radius=1), "needs a joint"),
    (lambda: sf.estimate(["a", "b"], RESULTS["design"]), "answer 1 has"),
    (lambda: sf.estimate([[1], [1, 2]], RESULTS["design"]), "count of every output|answer 1 has"),
    (lambda: sf.Joint.from_counts([["a", "b"], ["c", "d"]]), "counts must be numbers.*sf.tabulate"),
    (lambda: RESULTS["comparison"].plot("nothing"), "'nothing' is not a figure to plot"),
])
def test_mistakes_are_told_in_our_words(wrong, words):
    with pytest.raises(sf.InputError, match=f"(?s){words}"):
        wrong()


@pytest.fixture
def registered():
    def shuffled(task, *, share=1.0):
        x = task.rows * task.joint.useful.size
        q = np.ones((x, x)) + share * (np.exp(task.epsilon) - 1) * np.eye(x)
        return sf.Draft(sf.Table(q / q.sum(0), task.rows), "shuffled")

    sf.register("shuffled", shuffled)
    yield "shuffled"
    del REGISTERED["shuffled"]


def test_a_registered_method_is_designed_compared_and_held_to_its_promise(registered):
    assert registered in sf.methods() and sf.design(JOINT, 1.0, registered, share=0.5).certificate.holds
    found = sf.compare(JOINT, epsilon=[0.5, 1.0], methods=[registered, "grr"], cache=False, workers=2)
    assert {(p.method, p.epsilon) for p in found.points} == {(m, e) for m in ("grr", registered) for e in (0.5, 1.0)}
    with pytest.raises(sf.InputError, match="'size' is not an option of shuffled"):
        sf.design(JOINT, 1.0, registered, size=2)
    with pytest.raises(sf.InputError, match="already"):
        sf.register("grr", lambda task: None)
    sf.register(registered, lambda task: sf.Draft(sf.Table(np.eye(6), 2), registered), replace=True)
    with pytest.raises(sf.ClaimError, match="could not be sealed"):
        sf.design(JOINT, 1.0, registered)


def test_a_plan_prints_its_mechanism_and_its_notes_and_no_machinery():
    people = {"health": ["ill", "well"] * 300, "town": ["a", "b", "c"] * 200}
    lines = repr(sf.plan(pd.DataFrame(people), "health", 1.0, "town", method="srr", public="all")).splitlines()
    assert lines[0].endswith("600 rows counted>") and lines[1].startswith("  <Mechanism srr: 2 × 3 inputs")
    assert not any("function" in line for line in lines)


NOTHING = {  # what a stranger gives by mistake, and what is said
    "no secret": (lambda: sf.tabulate(FRAME, None, "town"), "secret names no column.*health, town"),
    "bins without a column": (lambda: sf.tabulate(FRAME, "health", "town", bins=4), "bins are said for each column"),
    "no method": (lambda: sf.design(JOINT, 1.0, None), "None is not a method"),
    "a cap in words": (lambda: sf.design(JOINT, 1.0, "grr", at_most="3"), "at_most must be a finite number"),
    "a gap in words": (lambda: sf.design(JOINT, 1.0, "ballopt", gap="small"), "gap must be a positive number"),
    "a gap below zero": (lambda: sf.design(JOINT, 1.0, "ballopt", gap=-1), "gap must be a positive number"),
    "a share in words": (lambda: sf.design(JOINT, 1.0, "grr", recoverable="yes"), "recoverable takes"),
    "a budget in words": (lambda: sf.design(JOINT, 1.0, "grr", releases=2, budget="4"), "a number of nats"),
    "a frame for a file": (lambda: sf.verify(FRAME), "path of a file was expected, got a DataFrame"),
    "a frame for a mechanism": (lambda: sf.compose(FRAME), "only mechanisms can be composed, got a DataFrame"),
    "level and column exchanged": (lambda: sf.plan(FRAME, "health", "town", 1.0), "a column is named by a text"),
    "uneven counts": (lambda: sf.Joint.from_counts([[1, 2], [3]]), "as many in each row"),
    "a notion's name": (lambda: sf.level(None, "ldp"), "a notion of privacy was expected, got a str"),
    "a joint for a set": (lambda: sf.tradeoff(JOINT, [1.0]), "got a Joint.*ChiSquareBall"),
    "huge numbers": (lambda: sf.tabulate(FRAME.assign(x=10**30), "health", "x"), "of the type int that no column"),
}
FRAME = pd.DataFrame({"health": ["ill", "well"] * 30, "town": ["a", "b", "c"] * 20})


@pytest.mark.parametrize("case", NOTHING)
def test_what_a_stranger_gives_by_mistake_is_answered_in_words(case):
    wrong, said = NOTHING[case]
    with pytest.raises(sf.InputError, match=f"(?s){said}"):
        wrong()
