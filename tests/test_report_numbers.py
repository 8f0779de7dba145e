"""The figures of a report by a second route, and the public page made again from its two files."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet
from tests.strategies import joints

import sfumato as sf
from sfumato import datasets
from sfumato.cli import cli
from sfumato.mechanism import Claim, Layout, Mechanism, load
from sfumato.privacy.measures import seen_from_secret
from sfumato.reporting import facts_of, page, public_report
from sfumato.reporting.mechanism_figures import CURVE, attack_of, outputs_by_secret
from sfumato.tolerances import PICTURED

BIT = math.log(2)


@pytest.fixture(scope="module")
def race():
    return datasets.adult("sex", "race")


@pytest.fixture(scope="module")
def made(race, patient_file):
    return sf.design(sf.ChiSquareBall(race), 1.0, "ballopt")


@pytest.fixture(scope="module")
def facts(made):
    return facts_of(made.mechanism, made.certificate)


def test_beliefs_of_this_table_are_bayes_rule_output_by_output(made, facts, race):
    q = made.mechanism.matrix
    after = np.array([[(row.reshape(race.shape) * race.p)[s].sum() for s in range(2)] for row in q])
    after /= after.sum(1, keepdims=True)

    assert [s.label for s in facts.attack.suspects] == ["Male", "Female"]
    for suspect, s in zip(facts.attack.suspects, (1, 0), strict=True):
        assert suspect.before == pytest.approx(race.p_secret[s])
        assert (suspect.least, suspect.most) == pytest.approx((after[:, s].min(), after[:, s].max()))
        assert suspect.most <= suspect.promised
    odds = after[:, 0] / after[:, 1] * race.p_secret[1] / race.p_secret[0]
    assert facts.attack.factor == pytest.approx(max(odds.max(), 1 / odds.min()))
    gain = sf.BayesLeakage(about=race).reading(made.mechanism, race).value
    assert facts.attack.guessed_after / facts.attack.guessed_before == pytest.approx(math.exp(gain))


def test_leakage_agrees_with_the_measures_and_the_promise(made, facts, race):
    by_name = {leak.name: leak for leak in facts.leaks}

    assert by_name["mutual information"].here == pytest.approx(made.information.secret)
    assert by_name["local differential privacy"].worst == pytest.approx(sf.level(made.mechanism, sf.LDP(race)))
    assert by_name["local differential privacy"].worst <= facts.promise.level + 1e-9
    for leak in facts.leaks:
        assert leak.here <= leak.worst + 1e-9
    assert facts.record_level == pytest.approx(sf.level(made.mechanism, sf.LDP()))


@given(joints(), st.floats(0.05, 1.5))
def test_no_belief_rises_above_what_lip_promises(joint, epsilon):
    made = sf.design(sf.Exactly(joint), epsilon, "grr", notion="lip")

    attack = attack_of(made.mechanism, joint, outputs_by_secret(made.mechanism, joint))

    for suspect in () if attack is None else attack.suspects:
        assert suspect.most <= suspect.promised + 1e-9


@given(joints(), st.floats(0.05, 2.0), st.sampled_from(["srr", "ir", "cr"]))
def test_no_belief_rises_above_what_rldp_promises(joint, epsilon, method):
    made = sf.design(sf.Exactly(joint), epsilon, method)

    attack = attack_of(made.mechanism, joint, outputs_by_secret(made.mechanism, joint))

    for suspect in () if attack is None else attack.suspects:
        assert suspect.most <= suspect.promised + 1e-9


def test_errors_are_those_of_inverting_the_matrix(made, facts, race):
    q = made.mechanism.matrix
    back, f = np.linalg.inv(q), q @ race.p.ravel()
    covariance = back @ (np.diag(f) - np.outer(f, f)) @ back.T / race.n
    for precision, sums in zip(facts.precision, (np.repeat(np.eye(2), 5, 1), np.tile(np.eye(5), 2)), strict=True):
        variance = np.diag(sums @ covariance @ sums.T)
        assert precision.error == pytest.approx(math.sqrt(variance.mean()), rel=1e-6)
        assert precision.equal < precision.n == race.n
    assert facts.precision[1].plain == pytest.approx(math.sqrt((race.p_useful * (1 - race.p_useful)).mean() / race.n))


def test_the_curve_passes_through_the_release_and_stays_below_the_limit(made, facts, race):
    curve = facts.curve
    own, plain = curve.series

    assert curve.stops[curve.chosen] == 1.0 and set(CURVE.stops) <= set(curve.stops)
    assert own.bits[curve.chosen] == curve.kept == pytest.approx(made.value / BIT)
    assert own.errors[curve.chosen] == facts.precision[1].error
    for bits, limit in zip(own.bits, curve.limit, strict=True):
        assert bits <= limit + 1e-9
    assert list(own.bits) == sorted(own.bits) and list(plain.bits) == sorted(plain.bits)
    at = curve.stops.index(2.0)
    assert own.bits[at] == pytest.approx(sf.design(sf.ChiSquareBall(race), 2.0, "ballopt").value / BIT, rel=1e-4)
    assert plain.bits[at] == pytest.approx(grr_bits(race.p.ravel(), 2.0))
    for (_, prior), beliefs in zip(curve.priors, curve.beliefs, strict=True):
        assert beliefs[at] == pytest.approx(prior * math.e**2 / (1 - prior + prior * math.e**2))


def grr_bits(p, epsilon):
    """I(X;Y) of randomised response, written out."""
    low = 1 / (p.size - 1 + math.exp(epsilon))
    q = np.full((p.size, p.size), low) + (math.exp(epsilon) - 1) * low * np.eye(p.size)
    return float((p * q * np.log2(q / (q @ p)[:, None])).sum())


def random_layout(rows, useful, seed):
    rng = np.random.default_rng(seed)
    lengths = [rng.dirichlet(np.ones(4)) for _ in range(rows)]
    heights = [rng.dirichlet(np.ones(4), useful).T / x[:, None] for x in lengths]
    joint = sf.Joint.from_counts(
        rng.integers(1, 90, (rows, useful)), [f"secret value number {i}" for i in range(rows)],
        [f"a useful value with a rather long name {i}" for i in range(useful)],
    )
    law = Layout(tuple(lengths), tuple(heights)).rounded(None, 1e-3)
    return Mechanism(law, joint.secret, joint.useful, "both", "ballopt", None, joint, "private")


def test_a_layout_is_seen_from_the_secret_as_its_matrix_is():
    mechanism = random_layout(3, 4, 1)
    direct = outputs_by_secret(mechanism, mechanism.joint)
    assert np.allclose(direct, seen_from_secret(mechanism, mechanism.joint)[0], atol=1e-12)


def test_a_mechanism_too_large_to_list_has_a_small_page():
    mechanism = random_layout(150, 60, 2)
    claim = Claim("rldp", 30.0, sf.Anything(mechanism.joint))
    mechanism = mechanism.with_claim(claim)
    assert mechanism.matrix is None or mechanism.outputs * mechanism.inputs > 4_000_000

    found = facts_of(mechanism, None)
    made = page(found)

    assert len(found.heat.column_labels) == PICTURED and len(found.heat.row_labels) == PICTURED + 1
    assert len(made.encode()) < 300_000
    assert found.attack is not None and found.leaks  # sums by secret need no list of inputs


def test_the_data_of_the_script_are_the_facts(made, facts):
    text = public_report(made.mechanism, made.certificate)
    data = json.loads(text.split('id="facts">')[1].split("</script>")[0])

    assert np.allclose(data["heat"]["values"], facts.heat.values, rtol=1e-5)
    assert data["curve"]["limit"] == list(facts.curve.limit)
    assert [s["bits"] for s in data["curve"]["series"]] == [list(s.bits) for s in facts.curve.series]
    assert sum(data["heat"]["seen"]) == pytest.approx(1, abs=1e-5)


def sfumato(*args):
    done = CliRunner().invoke(cli, [str(a) for a in args], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.parametrize(("pair", "options", "suffix"), [
    (("sex", "race"), ["--epsilon", 1], "csv"),
    (("sex", "race"), ["--epsilon", 0.7, "--method", "srr", "--decode", "likely"], "parquet"),
    (("sex", "race"), ["--epsilon", 1, "--method", "distortion", "--distance", "hamming", "--design", "exact"], "csv"),
    (("occupation", "education"), ["--epsilon", 2, "--method", "oue", "--notion", "ldp", "--keep", "town"], "csv"),
    (("sex", "race"), ["--epsilon", 0.5, "--method", "lip", "--design", "exact"], "csv"),
])
def test_anyone_makes_the_public_page_again_from_its_two_files(pair, options, suffix, tmp_path):
    people = datasets.rows(datasets.adult(*pair), seed=1)
    people = people.append_column("town", people.column(pair[1]))
    csv.write_csv(people, tmp_path / "people.csv")
    out, private = tmp_path / f"released.{suffix}", tmp_path / "mine.html"
    sfumato("release", tmp_path / "people.csv", "--secret", pair[0], "--useful", pair[1], *options, "--out", out,
            "--private-report", private, "--anyway")
    away = tmp_path / "elsewhere"
    away.mkdir()
    for name in (out.name, "released.mechanism.json", "released.manifest.json"):
        (tmp_path / name).rename(away / name)
    (tmp_path / "people.csv").unlink()

    done = sfumato("report", away / "released.mechanism.json", "--released", away / out.name,
                   "--out", away / "again.html", "--json")

    assert (away / "again.html").read_bytes() == (tmp_path / "released.report.html").read_bytes()
    assert json.loads(done.stdout)["holds"] and json.loads(done.stdout)["rows"] == people.num_rows
    assert "do not publish" in private.read_text() and (private.stat().st_mode & 0o077) == 0


def test_a_page_needs_no_released_rows(tmp_path, made):
    path = made.mechanism.save(tmp_path / "m.json")
    sfumato("report", path, "--out", tmp_path / "m.html")
    text = (tmp_path / "m.html").read_text()
    assert "sfumato verify m.json" in text and "What the released rows say" not in text
    assert load(path).claim.sentence.split(" (")[0] in text


def test_a_report_of_a_table_of_another_mechanism_is_refused(tmp_path, made, race):
    path = made.mechanism.save(tmp_path / "m.json")
    other = sf.design(sf.ChiSquareBall(race), 2.0, "srr").mechanism
    sf.release(datasets.rows(race, seed=1), other, tmp_path / "r.parquet", seed=1)
    assert parquet.read_table(tmp_path / "r.parquet").num_rows == race.n

    done = CliRunner().invoke(cli, ["report", str(path), "--released", str(tmp_path / "r.parquet"),
                                    "--out", str(tmp_path / "x.html")])

    assert done.exit_code != 0 and not (tmp_path / "x.html").exists()


def test_the_page_of_a_given_mechanism_names_its_file(tmp_path, made, race):
    path = made.mechanism.save(tmp_path / "ours.json")
    csv.write_csv(datasets.rows(race, seed=1), tmp_path / "people.csv")

    sfumato("release", tmp_path / "people.csv", "--mechanism", path, "--out", tmp_path / "out.csv")
    sfumato("report", path, "--released", tmp_path / "out.csv", "--out", tmp_path / "again.html")

    assert "sfumato verify ours.json" in (tmp_path / "out.report.html").read_text()
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "out.report.html").read_bytes()
