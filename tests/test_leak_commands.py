"""The commands leak, audit and reproduce."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli import cli
from sfumato.privacy.overview import map_of, overview
from sfumato.reproduce import FIGURES, figure


def run(*args):
    return CliRunner().invoke(cli, [str(a) for a in args])


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    joint = sf.datasets.adult("sex", "race")
    made = sf.design(sf.ChiSquareBall(joint, confidence=0.95), epsilon=1.0, method="ir")
    return made.mechanism.save(tmp_path_factory.mktemp("leak") / "m.json")


def test_leak_fits_one_screen_and_says_how_to_see_the_rest(file):
    said = run("leak", file)
    assert said.exit_code == 0 and len(said.output.splitlines()) <= 24
    assert "odds between two values" in said.output and "--all" in said.output


def test_leak_prints_every_measure_and_the_lattice(file):
    said = run("leak", file, "--all")
    assert said.exit_code == 0, said.output
    for name in ("local differential privacy", "maximal leakage", "mutual information", "RLDP over the claimed set",
                 "What Y tells about the secret", "is at most"):
        assert name in said.output


def test_leak_in_json_agrees_with_the_library(file):
    said = run("leak", file, "--json", "--points", 3)
    found = json.loads(said.output)
    mechanism = sf.load(file)
    by_name = {(m["name"], m["about"]): m for m in found["measures"]}
    told = by_name["mutual information", "record"]["at_joint"]["value"]
    assert told == pytest.approx(sf.mutual_information(mechanism, mechanism.joint))
    assert found["levels"]["LDP about the record"] == pytest.approx(sf.level(mechanism, sf.LDP()))
    assert found["map"]["alphas"] == [1.0, 2.0, "inf"]
    assert found["map"]["values"][1][1] == pytest.approx(sf.level(mechanism, sf.RenyiLDP(2.0)))
    held = found["lattice"]["secret"]["inequalities"]
    assert all(e["right"] == "inf" or e["left"] <= e["right"] + 1e-9 for e in held)


def test_leak_takes_the_prior_from_a_table(file, tmp_path):
    joint = sf.load(file).joint
    rows = [(joint.secret.text(s), joint.useful.text(u)) for s in range(2) for u in range(5)]
    (tmp_path / "t.csv").write_text("sex,race\n" + "\n".join(",".join(r) for r in rows * 3))
    found = json.loads(run("leak", file, "--joint", tmp_path / "t.csv", "--json", "--points", 2).output)
    told = {(m["name"], m["about"]): m for m in found["measures"]}["mutual information", "record"]["at_joint"]
    even = sf.Joint.from_counts(np.full((2, 5), 3), joint.secret, joint.useful)
    assert told["value"] == pytest.approx(sf.mutual_information(sf.load(file), even))


def test_leak_of_a_law_too_large_to_list_tells_what_is_known(tmp_path):
    joint = sf.Joint.from_counts(np.arange(1, 31).reshape(3, 10))
    made = sf.design(sf.Exactly(joint), epsilon=1.0, method="oue").mechanism
    path = made.save(tmp_path / "m.json")
    said = run("leak", path)
    assert said.exit_code == 0 and "LDP about the record" in said.output
    assert "too many to list" in " ".join(said.output.split())


def test_maps_are_drawn(file, tmp_path):
    pytest.importorskip("matplotlib")
    said = run("leak", file, "--map", tmp_path / "m.png", "--points", 6)
    assert said.exit_code == 0 and (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    assert run("leak", file, "--map", tmp_path / "m.png").exit_code == 6
    assert run("leak", file, "--map", tmp_path / "m.txt").exit_code == 2


def test_the_map_has_the_known_measures_on_its_edges():
    mechanism = sf.Tabular([[0.6, 0.2, 0.1], [0.3, 0.5, 0.2], [0.1, 0.3, 0.7]])
    found = map_of(mechanism, 5)
    v = found.values
    level = lambda notion: sf.level(mechanism, notion)
    assert v[-1, -1] == pytest.approx(level(sf.LDP()))
    assert v[-1, 0] == pytest.approx(level(sf.MaximalLeakage()))
    assert v[0, 0] == pytest.approx(level(sf.Shannon()))
    assert v[2, 0] == pytest.approx(level(sf.MaximalAlphaLeakage(2.0)))
    assert v[2, 2] == pytest.approx(level(sf.RenyiLDP(2.0)))
    assert np.all(np.isinf(v[0, 1:])) and np.all(np.diff(v[1:], axis=1) >= -1e-9)
    finite = np.isfinite(v)
    assert np.max(found.bounds[finite] - v[finite]) <= 1e-10


def test_figures_are_reproduced_as_data_and_picture(tmp_path):
    pytest.importorskip("matplotlib")
    assert run("reproduce").output.count("004-fig1") == 1
    said = run("reproduce", "004-fig1", "--out", tmp_path / "figures")
    assert said.exit_code == 0, said.output
    with open(tmp_path / "figures" / "004-fig1.csv") as rows:
        data = list(csv.DictReader(rows))
    corner = next(r for r in data if r["alpha"] == r["beta"] == "inf")
    assert float(corner["value"]) == pytest.approx(math.log(7))
    assert (tmp_path / "figures" / "004-fig1.png").stat().st_size > 10_000
    wrong = run("reproduce", "004-fig2")
    assert wrong.exit_code == 2 and "004-fig1" in str(wrong.output)


def test_every_figure_has_its_function_and_a_caption():
    for name in FIGURES:
        assert callable(figure(name)) and figure(name).__doc__


def test_audit_exits_with_five_when_a_promise_is_false(file):
    good = run("audit", file, "--seed", 1, "--records", 200_000)
    assert good.exit_code == 0 and "stands" in good.output
    bad = run("audit", file, "--seed", 1, "--epsilon", 0.5, "--json")
    assert bad.exit_code == 5 and json.loads(bad.stdout)["refuted"]
    assert "found at least" in bad.stderr
    assert run("audit", file, "--released", file).exit_code == 2


def test_the_overview_needs_no_joint():
    found = overview(sf.Tabular([[0.75, 0.25], [0.25, 0.75]]))
    assert {line.about for line in found.lines} == {"record"} and all(line.at_joint is None for line in found.lines)


def test_a_report_of_a_leakage_promise_says_what_it_is(tmp_path):
    from sfumato.reporting import public_report

    joint = sf.datasets.adult("sex", "race")
    made = sf.design(sf.Exactly(joint), epsilon=0.5, method="leakage")
    page = public_report(made.mechanism, made.certificate, None)
    assert "maximal (∞, 1)-leakage" in page and "odds change" not in page
    made.mechanism.save(tmp_path / "m.json")
    said = run("verify", tmp_path / "m.json")
    assert said.exit_code == 0 and "maximal (∞, 1)-leakage" in said.output
