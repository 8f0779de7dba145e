"""What people see in a terminal: words that stay whole, intervals with both ends, options in groups."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cli import GROUPS, cli, console
from sfumato.cli.release import release
from sfumato.optimise.budget import heard_by
from sfumato.releasing.wishes import Silent


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.integers(5, 80))
def test_an_interval_has_whiskers_on_both_sides_and_the_width_it_was_given(a, b, c, cells):
    low, at, high = sorted((a, b, c))
    line = console.span(low, at, high, 1.0, cells)
    assert len(line) == cells and re.fullmatch(r" *├─*●─*┤ *", line)


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_labels_are_not_broken_inside_a_word(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    labels = ["Married-civ-spouse", "Never married before", "Separated"]
    console.columns(["marital status", "what it means in this release and in others", "share"],
                    [[x, "a sentence that is long enough to be wrapped " * 3, "12.34 %"] for x in labels], numbers=1)
    printed = capsys.readouterr().out

    assert max(map(len, printed.splitlines())) <= columns
    for word in " ".join(labels).split():
        assert word in printed


def test_margins_come_first_in_an_estimate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    joint = sf.datasets.adult("sex", "race")
    made = sf.design(sf.ChiSquareBall(joint), 1.0, "srr").mechanism
    made.save("out.mechanism.json")
    sf.release(sf.datasets.rows(joint, seed=1), made, "out.csv", seed=1)

    said = CliRunner().invoke(cli, ["estimate", "out.csv", "--joint"]).output

    heads = [line for line in said.splitlines() if line in ("sex", "race", "sex × race")]
    assert heads == ["sex", "race", "sex × race"]


def test_options_are_listed_in_groups_each_once():
    said = CliRunner().invoke(cli, ["release", "--help"]).output
    for title in ("Columns and files:", "The promise:", "How values are read:", "Releasing more than once:", "Other options:"):
        assert said.count(f"\n{title}\n") == 1
    said = said[said.index("Columns and files:") :]
    for option in release.params:
        for name in [o for o in option.opts if o.startswith("--")]:
            assert len(re.findall(rf"^  (?:-\w, )?{name}(?=[\s,]|$)", said, re.MULTILINE)) == 1, name
    named = [name for names in GROUPS.values() for name in names]
    assert len(named) == len(set(named))


def test_a_search_tells_its_stage_value_bound_and_time():
    told = []
    with heard_by(lambda *heard: told.append(heard)):
        made = sf.design(sf.ChiSquareBall(sf.datasets.adult("sex", "race")), 1.0, "ballopt")
    with Silent().search("designing") as nobody:
        assert nobody is None

    stages, values, _, left = zip(*told, strict=True)
    assert set(stages) and np.isfinite(values).all() and min(left) >= 0
    assert max(values) >= 0.9 * made.value
    assert all(re.match(r"[a-z' ]+: keeps \d[\d.]* nats", console.search_words(*one)) for one in told)


def test_a_search_for_estimates_speaks_of_errors_and_not_of_negative_values():
    assert console.search_words("blocks", -1.165, np.inf, 0.4) == "blocks: error 1.079/√rows, ending"


def test_an_audit_says_what_its_number_means(tmp_path):
    sf.design(sf.ChiSquareBall(sf.datasets.adult("sex", "race")), 1.0, "srr").mechanism.save(tmp_path / "m.json")
    said = CliRunner().invoke(cli, ["audit", str(tmp_path / "m.json"), "--records", "20000", "--seed", "1"]).output
    assert "changes the odds between two possibilities" in " ".join(said.split())
    assert "2.72 is allowed" in " ".join(said.split())


def test_a_manifest_names_the_file_to_verify_and_a_wrong_method_the_right_ones(tmp_path):
    manifest = tmp_path / "out.manifest.json"
    manifest.write_text('{"format": "sfumato/manifest", "version": 1}')
    table = tmp_path / "people.csv"
    table.write_text("s,u\na,b\nc,d\n")

    said = CliRunner().invoke(cli, ["verify", str(manifest)])
    other = CliRunner().invoke(cli, ["release", str(table), "--secret", "s", "--epsilon", "1", "--method", "bogus",
                                     "--out", str(tmp_path / "out.csv")])

    assert said.exit_code == 4 and "out.mechanism.json" in said.output
    assert "is not a method" in other.output


def test_a_search_that_nobody_watches_says_in_a_line_what_is_going_on(monkeypatch, capsys):
    with console.searching("designing for 180 cells"):
        pass
    assert capsys.readouterr().err == ""

    monkeypatch.setattr(console, "A_MOMENT", 0.01)
    with console.searching("designing for 180 cells"):
        time.sleep(0.5)
    told = " ".join(capsys.readouterr().err.split())

    assert told.startswith("Designing for 180 cells: this search takes") and "--time-limit" in told
