"""One person's record changed: what the files of a default release tell of a private table, and at what price."""

import itertools
import json
import math
import os
import random
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato import noise
from sfumato.cli import cli
from sfumato.estimation import tidy_csv
from sfumato.noise import common, edge, threshold
from sfumato.releasing import alphabets, basis
from sfumato.sources.values import as_labels

ROWS, AT = 2_500, 1_234
ODD = ("well", "the far side of the moon", "", "987654321")  # a record like nobody else's


def people(odd=False):
    """A secret, labels, labels with gaps and numbers, one record of which is odd."""
    rng = np.random.default_rng(3)
    ill = rng.random(ROWS) < 0.4
    columns = [
        np.where(ill, "ill", "well"), np.where(rng.random(ROWS) < 0.3 + 0.3 * ill, "north", "south"),
        np.where(rng.random(ROWS) < 0.5, "yes", "no"), rng.integers(18, 90, ROWS).astype(str),
    ]
    rows = [list(row) for row in zip(*columns, strict=True)]
    if odd:
        rows[AT] = list(ODD)
    return "state,town,smokes,age\n" + "".join(f"{','.join(row)}\n" for row in rows)


def released(folder, text, *words):
    folder.mkdir(exist_ok=True)
    if not (folder / "people.csv").exists():
        (folder / "people.csv").write_bytes(text.encode(errors="surrogateescape"))
    useful = () if "--useful" in words else ("--useful", "town,smokes,age")
    words = words[:-2] if words[-2:] == ("--useful", "") else words
    asked = ["release", folder / "people.csv", "--secret", "state", *useful, "--epsilon", 4]
    done = CliRunner().invoke(cli, [str(x) for x in (*asked, "--method", "grr", "--out", folder / "r.csv", *words)])
    assert done.exit_code == 0, done.output
    return {p.name: p.read_text() for p in folder.iterdir() if p.name != "people.csv"}


PAID = ((alphabets, "common"), (alphabets, "edge"), (alphabets, "two_sided"), (basis, "noisy_counts"))


def kept(monkeypatch, held):
    """Every draw that is paid for is written down with what it was drawn of, or where there are some already, comes out
    as it did before, if it is of a table that differs in one record."""
    replayed = iter(list(held)) if held else None

    def wrapped(draw):
        def one(*args, **options):
            if replayed is not None:
                before, found = next(replayed)
                assert near(before, of(args))
                return found
            found = draw(*args, **options)
            held.append((of(args), found if not hasattr(found, "__next__") else iter([next(found)] * 2)))
            return held[-1][1]
        return one

    for module, name in PAID:
        monkeypatch.setattr(module, name, wrapped(getattr(module, name)))


def of(args):
    """What a draw was made of, as counts by label or value; nothing where it was made of a number alone."""
    if isinstance(args[0], str):
        return dict(args[1])
    if isinstance(args[0], sf.Joint):
        return {tuple(x): n for x, n in np.ndenumerate(args[0].counts)}
    return dict(zip(*map(list, args[:2]), strict=True)) if isinstance(args[0], np.ndarray) else {}


def near(one, two):
    """Whether counts are of tables that differ in one record."""
    return sum(abs(one.get(x, 0) - two.get(x, 0)) for x in {*one, *two}) <= 2


def twice(tmp_path, monkeypatch, first, second, *words):
    """The files of two tables, released with the same draws of what is paid for and the same key."""
    held, files = [], []
    for name, text in (("a", first), ("b", second)):
        with monkeypatch.context() as patch:
            kept(patch, held)
            files.append(released(tmp_path / name, text, "--seed", "5", *words))
    return held, files


def others(files):
    """The lines of released rows that differ, after everything else was found to be the same."""
    assert files[0]["r.mechanism.json"] == files[1]["r.mechanism.json"]
    told = [json.loads(x["r.manifest.json"]) for x in files]
    assert {k: v for k, v in told[0].items() if k != "size"} == {k: v for k, v in told[1].items() if k != "size"}
    lines = [x["r.csv"].splitlines() for x in files]
    return {i for i, pair in enumerate(zip(*lines, strict=True)) if pair[0] != pair[1]}


def test_all_files_follow_from_what_was_paid_for_and_from_released_rows(tmp_path, monkeypatch):
    """The same draws of labels, edges and counts, and the same key: one record replaced changes its own released row."""
    held, files = twice(tmp_path, monkeypatch, people(), people(odd=True))

    assert len(held) == 3 + 4 + 1 + 1  # three columns of labels, four edges, one count of missing values, the counts
    assert set(files[0]) == {f"r.{x}" for x in ("csv", "mechanism.json", "manifest.json", "tables.csv", "report.html")}
    assert others(files) <= {AT + 1}
    again = sf.estimate(tmp_path / "b" / "r.csv", tmp_path / "b" / "r.mechanism.json")
    assert files[1]["r.tables.csv"] == tidy_csv(again)


@pytest.mark.parametrize("odd", ["a secret of its own,north,yes,33", "w\udce9ll,north,yes,33", '"1,5",north,yes,33'])
def test_no_secret_decides_which_columns_are_released_or_how_they_are_read(odd, tmp_path, monkeypatch):
    lines = people().replace("north", "nörd").splitlines()
    changed = [*lines[: AT + 1], odd, *lines[AT + 2 :]]
    held, files = twice(tmp_path, monkeypatch, "\n".join(lines), "\n".join(changed), "--useful", "")

    assert len(held) > 3 and others(files) <= {AT + 1}


def decimal_commas(odd="3,5"):
    rows = [["ill", "well"][i % 3 == 0] + f";{i % 7},5;{1 + i % 28}.{1 + i % 12}.2026" for i in range(ROWS)]
    rows[AT] = f"well;{odd};1.1.2026"
    return "state;dose;visit\n" + "\n".join(rows) + "\n"


def test_a_private_table_is_read_by_what_is_said_and_not_by_its_rows(tmp_path, monkeypatch):
    (tmp_path / "people.csv").write_text(decimal_commas())
    said = {"bins": {"visit": "quarter", "dose": [2, 4]}, "method": "grr", "design": "any"}
    for useful, told in (("dose", r"numbers with decimal commas in column 'dose'.*decimal=','"), ("visit", r"dates='dmy'")):
        with pytest.raises(sf.InputError, match=told):
            sf.plan(tmp_path / "people.csv", "state", 4.0, useful, **said | {"bins": {useful: said["bins"][useful]}})
    assert sf.plan(tmp_path / "people.csv", "state", 4.0, ["dose", "visit"], **said | {"design": "exact"}).mechanism

    words = ("--useful", "dose,visit", "--decimal", ",", "--dates", "dmy", "--bins", "visit=quarter", "--bins", "dose=2;4")
    _, files = twice(tmp_path, monkeypatch, decimal_commas(), decimal_commas("1.234,5"), *words)
    assert others(files) <= {AT + 1}
    made = sf.load(tmp_path / "b" / "r.mechanism.json")
    assert made.useful.columns[1].labels == ("2026-Q1", "2026-Q2", "2026-Q3", "2026-Q4")


def test_what_one_person_alone_has_is_in_no_file(tmp_path):
    files = released(tmp_path / "a", people(odd=True))
    made = sf.load(tmp_path / "a" / "r.mechanism.json")

    assert len(files) == 6  # with what is kept beside the table
    for text in files.values():
        assert "moon" not in text and not re.search(r"(?<![\d.])98,?765", text)  # digits of a share may be anything
    assert all(None not in c.labels for c in (*made.secret.columns, *made.useful.columns))
    assert made.joint.noise.delta == 1e-9 and made.claim.epsilon + made.joint.noise.epsilon == pytest.approx(4)
    exact = sf.tabulate(tmp_path / "a" / "people.csv", "state", "age", bins={"age": 5}).useful.columns[0].cuts
    assert made.useful.columns[2].cuts != exact and all(x == round(x) for x in made.useful.columns[2].cuts)


def test_without_counts_the_file_says_what_labels_cost(tmp_path):
    released(tmp_path / "a", people(), "--design", "any")
    made = sf.load(tmp_path / "a" / "r.mechanism.json")
    record = json.loads((tmp_path / "a" / "r.mechanism.json").read_text())

    assert "counts" not in record["design"] and record["design"]["noise"]["counts"] == 0
    assert [round(x.total, 6) for x in sf.promises(made)] == [4.0] and made.claim.epsilon < 4
    assert sf.verify(tmp_path / "a" / "r.mechanism.json").holds
    again = released(tmp_path / "a", people(), "--design", "any", "--force")
    assert json.loads(again["r.mechanism.json"])["useful"] == record["useful"]


def test_what_is_kept_of_a_table_is_not_used_for_one_written_later(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(people())
    asked = {"useful": ["town"], "method": "grr", "design": "any"}
    sf.plan(path, "state", 4.0, **asked).keep()
    kept = next(tmp_path.glob("*.counts.json"))

    os.utime(path, (kept.stat().st_mtime + 1,) * 2)
    with pytest.raises(sf.InputError, match="was written after"):
        sf.plan(path, "state", 4.0, **asked)
    os.utime(kept, (kept.stat().st_mtime + 2,) * 2)
    assert not sf.plan(path, "state", 4.0, **asked).kept


def test_what_labels_cost_is_paid_once_and_public_ones_cost_nothing(tmp_path):
    (tmp_path / "people.csv").write_text(people())
    asked = {"method": "grr", "design": "noisy", "bins": {"age": [40, 60]}}
    plans = [sf.plan(tmp_path / "people.csv", "state", 4.0, ["town", "age"], **{**asked, "design": "any"})]
    plans[0].keep()
    plans += [sf.plan(tmp_path / "people.csv", "state", 4.0, ["town", "age"], **asked)]
    plans[1].keep()
    plans += [sf.plan(tmp_path / "people.csv", "state", 4.0, ["town", "age"], **asked)]
    labels, noisy, again = (p.mechanism.joint.noise for p in plans)
    free = sf.plan(tmp_path / "people.csv", "state", 4.0, ["town", "age"], public="all", **asked).mechanism.joint.noise

    assert labels.counts == 0 and noisy.epsilon - noisy.counts == pytest.approx(labels.epsilon) and again == noisy
    assert not plans[2].kept and any("used again" in note for note in plans[2].notes)
    assert free.epsilon == free.counts and free.delta == 0
    with pytest.raises(sf.InputError, match="'twon' is not a column"):
        sf.plan(tmp_path / "people.csv", "state", 4.0, "town", public="twon", **asked)


def test_which_labels_are_rare_is_not_public_and_is_paid_for(tmp_path):
    (tmp_path / "people.csv").write_text(people())
    asked = {"public": "all", "method": "grr", "design": "any", "bins": {"age": [40, 60]}}
    free = sf.plan(tmp_path / "people.csv", "state", 4.0, ["town", "age"], **asked).mechanism.joint.noise
    paid = sf.plan(tmp_path / "people.csv", "state", 4.0, ["town", "age"], rare={"town": 10}, **asked).mechanism.joint.noise

    assert free is None and paid.epsilon > 0 and paid.delta > 0


def test_two_draws_that_come_out_alike_are_both_paid_for(tmp_path):
    seen = {}
    for i in itertools.count():
        (table := tmp_path / f"{i}.csv").write_text(people())
        made = sf.plan(table, "state", 4.0, "town", method="grr", design="any").mechanism
        if (same := seen.setdefault((made.secret, made.useful), made)) is not made:  # which labels are drawn is chance
            break
    files = [same, made]
    one, two = (m.joint.noise for m in files)

    assert replace(one, draw="") == replace(two, draw="") and files[0].secret == files[1].secret
    assert sf.compose(*files).designs == pytest.approx(2 * one.epsilon) and sf.compose(*files).delta == 2 * one.delta
    assert sf.compose(files[0], files[0]).designs == one.epsilon


def test_noisy_counts_of_other_people_are_not_used(tmp_path):
    path = tmp_path / "people.csv"
    asked = {"method": "grr", "design": "noisy", "public": "all"}
    path.write_text(people())
    sf.plan(path, "state", 4.0, "town", **asked).keep()
    kept = next(tmp_path.glob("*.counts.json"))

    path.write_text(people().replace("ill,north", "well,north"))
    os.utime(path, (kept.stat().st_mtime - 1,) * 2)  # as a copy that keeps its date
    with pytest.raises(sf.InputError, match="of another table"):
        sf.plan(path, "state", 4.0, "town", **asked)


@pytest.mark.parametrize("road", ["a mechanism", "a part", "a table of counts", "a pipe"])
def test_on_no_road_are_rows_read_by_what_they_look_like(road, tmp_path):
    (tmp_path / "known.csv").write_text("state;dose\n" + "ill;1.5\nwell;2.5\n" * 500)
    made = sf.design(sf.ChiSquareBall(sf.tabulate(tmp_path / "known.csv", "state", "dose")), 1.0, "grr").mechanism
    source = tmp_path / "people.csv"
    source.write_text("state;dose;n\n" + "ill;1,5;2\nwell;2,5;3\n" * 500)
    with pytest.raises(sf.InputError, match="must not rest on its rows"):
        if road == "a part":
            sf.publish(sf.plan(source, "state", 1.0, "dose", split=0.5, method="grr"), tmp_path / "r.csv")
        given = sf.open_source(source, counts="n" if road == "a table of counts" else None)
        given = replace(given, once=True).settled(given.columns) if road == "a pipe" else given
        sf.release(given, made, tmp_path / "r.csv")


@given(st.lists(st.integers(-2**50, 2**50) | st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_a_number_is_spelled_as_if_it_were_alone(values):
    held = pa.array([float(x) for x in values] + [None])
    whole = [int(x) for x in values if float(x).is_integer() and abs(x) < 2**53]

    alone = [as_labels(pa.array([float(x)]), "x")[0].as_py() for x in values]
    assert as_labels(held, "x").to_pylist() == [*alone, None]
    assert as_labels(pa.array(whole, pa.int64()), "x").to_pylist() == [
        text for text, x in zip(alone, values, strict=True) if float(x).is_integer() and abs(x) < 2**53]


def test_decimals_are_spelled_without_the_zeros_of_others():
    wide = pa.array([Decimal("1.5"), Decimal("2.25"), Decimal("100"), None])

    assert as_labels(wide, "x").to_pylist() == ["1.5", "2.25", "100", None]


def permuted_and_flipped(q):
    """The law of permute-and-flip where each is taken with the chance q when it is met, by listing all orders."""
    law = [0.0] * len(q)
    for order in itertools.permutations(range(len(q))):
        left = 1.0
        for i in order:
            law[i] += left * q[i] / math.factorial(len(q))
            left *= 1 - q[i]
    return np.array(law)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(0, 9), st.fractions(0, 1, max_denominator=5),
       st.floats(0.1, 3))
def test_one_record_changes_the_chance_of_an_edge_by_its_epsilon_at_most(values, other, share, epsilon):
    grid = np.array([1, 3, 4, 6, 8])

    def law(x):
        under = (np.array(x)[:, None] < grid).sum(0)
        away = np.abs(under - float(share) * len(x))
        return permuted_and_flipped(np.exp(-epsilon * (away - away.min()) / 2))

    one, two = law(values), law([other, *values[1:]])
    assert max((one / two).max(), (two / one).max()) <= math.exp(epsilon) * (1 + 1e-9)


def test_an_edge_is_drawn_by_permute_and_flip(monkeypatch):
    grid, values, counts = np.array([1.0, 3.0, 4.0, 6.0]), np.array([0.0, 2.0, 5.0]), np.array([3, 4, 2])
    monkeypatch.setattr(noise, "round_numbers", lambda: grid)
    under, below = np.array([3, 7, 7, 9]), random.Random(1).randrange
    away = np.abs(under - 0.4 * 9)
    wanted, draws = permuted_and_flipped(np.exp(-0.7 * (away - away.min()) / 2)), 4_000
    drawn = [edge(values, counts, Fraction(2, 5), Fraction(7, 10), below) for _ in range(draws)]

    for x, p in zip(grid, wanted, strict=True):
        assert abs(drawn.count(x) / draws - p) < 5 * math.sqrt(p / draws)


def test_a_label_of_one_person_hardly_ever_enters_and_common_ones_do():
    counts = {"a": 900, "b": 700, None: 400, "rare": 1, "few": 30}
    found = [common("x", counts, Fraction(2, 10), 1e-6, random.Random(i).randrange) for i in range(60)]

    assert all({*x.labels} == {"a", "b", None} for x in found) and sum(x.other == "a" for x in found) > 50
    assert threshold(0.1, 5e-7) < 200
    many = common("x", {"a": 900, **{str(i): 20 for i in range(40)}}, Fraction(2, 10), 1e-6, random.Random(0).randrange)
    assert many.other == "other" and many.column("x").labels == ("a", "other")
    for counts, said in (({"a": 900, "b": 3}, "one is"), ({None: 900}, "one is"), ({"a": 3, "b": 4}, "none is")):
        with pytest.raises(sf.InputError, match=f"no two labels of 'x' .*{said}"):
            common("x", counts, Fraction(2, 10), 1e-6, random.Random(0).randrange)


@pytest.mark.parametrize(("edges", "written"), [
    ([34.1, 43.7, 51.9, 60.6], [34, 44, 52, 61]), ([0.00123, 0.00456], [0.0012, 0.0046]), ([1980.0, 1990.0], [1980, 1990]),
    ([5.12], [5.0]), ([0.0], [0.0]), ([13400, 19400, 25500], [13000, 19000, 26000]),
])
def test_edges_are_written_as_people_write_them(edges, written):
    assert alphabets.rounded(edges) == written


def test_counts_that_one_draw_cannot_have_made_are_paid_for_apart_whatever_name_they_bear():
    table = sf.Joint.from_counts([[40, 12, 30], [25, 60, 8]])
    one, two = (sf.noisy_counts(table, 0.3, public=True) for _ in "ab")
    while (one.counts == two.counts).all():
        two = sf.noisy_counts(table, 0.3, public=True)
    forged = replace(two, noise=replace(two.noise, draw=one.noise.draw))

    files = [replace(sf.design(sf.Anything(x), 1.0, "grr").mechanism, joint=x) for x in (one, two, forged)]

    assert sf.compose(files[0], files[2]).designs == sf.compose(files[0], files[1]).designs == pytest.approx(0.6)
    assert sf.compose(files[0], files[0]).designs == 0.3
