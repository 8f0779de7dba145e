"""What a comparison shows: advice, pictures, a page, a table, and the command that writes them."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import math
import os
import re
import stat
import xml.etree.ElementTree as ElementTree

import pytest
from click.testing import CliRunner
from tests.test_compare import CLOSED, JOINT, own_cache, quick  # noqa: F401

from sfumato import reporting
from sfumato.cli import cli
from sfumato.reporting import Comparison, Point
from sfumato.reporting.comparing import PLAIN
from sfumato.reporting.comparison_page import (
    Axes,
    ChartLine,
    advice,
    chart,
    comparison_page,
    error_picture,
    kept_picture,
    recommended,
)


def run(*args):
    return CliRunner().invoke(cli, [str(a) for a in args])


@pytest.mark.long
def test_advice_weighs_only_mechanisms_with_the_same_promise():
    found = quick(["nr", "ballopt", "precise", "grr", "plain-oue"], [1.0])
    best = {a.aim: a for a in advice(found.at(1.0))}
    assert best["Most bits"].method == "ballopt"  # nr keeps more, at the counts alone
    assert best["Best estimates of the whole table"].method == "precise"
    assert {p.method for p in found.points} == {"nr", "ballopt", "precise", "grr", "plain-oue"}
    assert advice(()) == ()


def test_pictures_are_well_formed_described_and_finite():
    found = quick([*CLOSED, "nr"], [0.1, 1.0, 3.0])
    for text in (kept_picture(found, 1.0), error_picture(found, 1.0), error_picture(found, 1.0, "joint")):
        tree = ElementTree.fromstring(text)
        names = [e.tag.split("}")[1] for e in tree]
        assert names[:2] == ["title", "desc"] and "best with" in tree[1].text
        assert "nan" not in text and "inf" not in text.replace("information", "")
    text = comparison_page(found, 1.0)
    script = re.search(r"<script>(.*)</script>", text, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    assert text.count("://") == text.count("http://www.w3.org/2000/svg") == 2


def test_three_methods_are_recommended_in_fixed_colours_and_every_name_is_explained():
    found = quick([*CLOSED, "nr"], [0.5, 1.0, 3.0])
    chosen = recommended(found.at(1.0))
    text = comparison_page(found, 1.0)

    assert len(chosen) == 3 and "nr" not in chosen
    for picture in (kept_picture(found, 1.0), error_picture(found, 1.0)):
        for i, name in enumerate(chosen):
            assert f'class="c{i} n"' not in picture or re.search(rf'class="c{i} n"[^>]*>{name}<', picture)
    for method in found.methods:
        assert re.search(rf">{method}</th><td class=\"what\">[A-Z]", text), method


@pytest.mark.parametrize("points", [(), ((1.0, 0.5),), ((1.0, 0.0), (2.0, 0.0)), ((1.0, math.inf), (2.0, 0.1))])
def test_a_chart_of_little_is_still_a_chart(points):
    text = chart(Axes("<t>", "x & y", "y", log_y=True), [ChartLine("<script>", points)], "a < b")
    ElementTree.fromstring(text)
    assert "<script>" not in text


def test_the_table_holds_a_record_for_every_method_and_level():
    found = quick([*CLOSED, "distortion"])
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    assert len(rows) == len(found.points) + len(found.missing) == 2 * (len(CLOSED) + 1)
    by = {(r["method"], float(r["epsilon"])): r for r in rows}
    for p in found.points:
        assert by[p.method, p.epsilon]["kept"] == ("" if p.kept is None else repr(p.kept))
    assert isinstance(found, Comparison) and isinstance(found.points[0], Point)


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    rows = [f"{s},{u}" for s, row in zip(JOINT.secret.columns[0].labels, JOINT.counts, strict=True)
            for u, k in zip("abc", row, strict=True) for _ in range(k)]
    path.write_text("\n".join(["health,town", *rows]) + "\n")
    return path


def compare_people(people, *args):
    return run("compare", people, "--secret", "health", "--useful", "town", "--methods", ",".join(CLOSED),
               "--epsilon", "0.5,1,2", "--workers", 1, *args)


def test_the_command_shows_tables_and_writes_files(people, tmp_path):
    out = tmp_path / "compared"
    said = compare_people(people, "--out", out)
    assert said.exit_code == 0, said.output
    assert "Advice at ε = 1" in said.output and "▁" in said.output and "\x1b" not in said.output
    assert {p.name for p in out.iterdir()} == {
        "compare.csv", "compare.json", "compare.html", "kept.svg", "errors-useful.svg", "errors-joint.svg"
    }
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in out.iterdir())
    first = {p.name: p.read_bytes() for p in out.iterdir()}
    assert compare_people(people, "--out", out).output == said.output
    assert {p.name: p.read_bytes() for p in out.iterdir()} == first


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_lines_fit_the_terminal(people, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    said = compare_people(people)
    assert max(map(len, said.output.splitlines())) <= columns


def test_the_command_speaks_json(people):
    said = compare_people(people, "--json")
    found = json.loads(said.output)
    assert found["n"] == JOINT.n and len(found["points"]) == 3 * len(CLOSED) and found["complete"]
    assert {a["aim"] for a in found["advice"]} >= {"Most bits"}


def test_an_interrupted_command_shows_what_is_done(people, monkeypatch):
    real = reporting.answers

    def stopped(*args, **options):
        for i, answer in enumerate(real(*args, **options)):
            if i == 4:
                raise KeyboardInterrupt
            yield answer

    monkeypatch.setattr(reporting, "answers", stopped)
    said = compare_people(people)
    assert said.exit_code == 130
    assert "Interrupted" in said.output and "Kept of a record" in said.output


@pytest.mark.parametrize("args, words", [
    (["--epsilon", "1:0"], "larger one"), (["--methods", "gr"], "Did you mean"), (["--secret", "helth"], "Did you mean"),
    (["--time-limit", "-1"], "--time-limit"), (["--confidence", "3"], "confidence"),
])
def test_the_command_explains_wrong_arguments(people, args, words):
    base = ["compare", people, "--useful", "town", "--methods", "grr", "--secret", "health"]
    said = run(*(base[:-2] if "--secret" in args else base), *args)
    assert said.exit_code == 2 and words in said.output


def test_a_folder_that_cannot_be_made_leaves_nothing(people, tmp_path):
    (tmp_path / "taken").write_text("mine")
    said = compare_people(people, "--out", tmp_path / "taken" / "deep", "--epsilon", "1")
    assert said.exit_code == 6 and (tmp_path / "taken").read_text() == "mine"


def test_adult_needs_no_file_and_plain_protocols_are_for_scale(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = run("compare", "adult", "--secret", "sex", "--useful", "race", "--methods", "ir,plain-grr", "--epsilon", "1",
               "--workers", 1)
    assert said.exit_code == 0 and "plain-grr *" in said.output and PLAIN[0] == "plain-grr"
    assert not os.listdir(tmp_path) or os.listdir(tmp_path) == ["cache"]


def test_labels_that_are_public_are_nothing_that_a_comparison_asks_about():
    done = run("compare", "adult", "--secret", "sex", "--useful", "race", "--public-labels", "all")
    assert done.exit_code == 2 and "releases nothing" in done.output and "Leave it out" in done.output
    assert "--public-labels" not in run("compare", "--help").output
