"""The first screen of a report: its four answers are true, and limits are never rounded down."""

from __future__ import annotations

import html
import json
import math
import re

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv
from scipy.optimize import linprog
from tests.strategies import joints

import sfumato as sf
from sfumato import datasets
from sfumato.cli import cli
from sfumato.decimals import at_least, at_most, in_a_hundred, share_at_most
from sfumato.reporting import facts_of, public_report
from sfumato.reporting.mechanism_figures import most_guessed
from sfumato.reporting.pages import factor, level, most


@given(st.floats(0, 1), st.integers(0, 4))
def test_a_share_that_limits_is_never_shown_below_itself(x, digits):
    shown = float(share_at_most(x, digits).removesuffix(" %"))
    assert 100 * x <= shown * (1 + 1e-15) and shown <= max(100 * x + 10.0**-digits * (1 + 1e-9), 0)
    assert in_a_hundred(x) >= 100 * x * (1 - 1e-15) and in_a_hundred(x) <= 100 * x + 1


@given(st.floats(1e-9, 1e9), st.integers(1, 10))
def test_numbers_of_the_page_that_limit_are_rounded_up(x, digits):
    assert at_least(x, digits) and float(at_least(x, digits)) <= x <= float(at_most(x, digits))
    assert float(level(x, digits)) >= x
    assert x > 1000 or float(factor(x).removeprefix("×\u00a0")) >= x
    assert float(most(min(x, 1.0)).removesuffix("\u00a0%")) >= 100 * min(x, 1.0) * (1 - 1e-15)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.floats(0.01, 5))
def test_the_closed_form_of_guesses_is_the_linear_programme(weights, epsilon):
    p = np.array(weights) / sum(weights)
    k = p.size
    rows = np.full((k, k), math.exp(-epsilon)) + (1 - math.exp(-epsilon)) * np.eye(k)

    found = linprog(-p, rows, np.ones(k), bounds=(0, None))

    assert most_guessed(p, epsilon, "rldp") == pytest.approx(-found.fun, rel=1e-9)


@given(joints(), st.floats(0.1, 2.5), st.sampled_from(["srr", "grr", "ir"]))
def test_no_guess_is_righter_than_the_first_screen_says(joint, epsilon, method):
    try:
        made = sf.design(sf.ChiSquareBall(joint, confidence=0.95), epsilon, method)
    except sf.InputError:
        return  # this method has no calibration for this table
    q = np.asarray(made.mechanism.matrix).reshape(-1, *joint.shape)
    guessers = facts_of(made.mechanism, made.certificate).guessers
    if not guessers:
        return
    by_statistics = np.einsum("ysu,su->ys", q, joint.p).max(axis=1).sum()
    by_person = (q * joint.p).max(axis=1).sum()

    assert [g.after >= 100 * right * (1 - 1e-9) for g, right in zip(guessers, (by_statistics, by_person), strict=True)] == [True, True]


def test_columns_of_a_product_have_shares_of_their_own():
    table = sf.tabulate("examples/people.csv", secret="diagnosis", useful=["town", "smoker"])
    mechanism = sf.design(sf.ChiSquareBall(table), 1.0, "srr").mechanism
    found = sf.estimate(sf.release(datasets.rows(table, seed=1), mechanism, seed=2), mechanism)
    raw, spread = found.useful.inversion.raw.reshape(4, -1), found.useful.inversion.covariance()

    town, smoker = found.useful.by_column()

    assert [m.alphabet.names for m in (town, smoker)] == [("town",), ("smoker",)]
    assert np.allclose(town.inversion.raw, raw.sum(1)) and np.allclose(smoker.inversion.raw, raw.sum(0))
    assert np.allclose(town.inversion.variance, spread.reshape(4, 2, 4, 2).sum((1, 3)).diagonal())
    truth = table.p_useful.reshape(4, 2)
    for part, p in ((town, truth.sum(1)), (smoker, truth.sum(0))):
        low, high = part.interval(0.999)
        assert (low <= p).all() and (p <= high).all() and (low <= part.p).all() and (part.p <= high).all()


def test_the_page_says_who_made_it_when_and_how_without_paths(tmp_path):
    csv.write_csv(datasets.rows(datasets.adult("sex", "race"), seed=1), tmp_path / "people.csv")
    done = CliRunner().invoke(cli, [
        "release", str(tmp_path / "people.csv"), "--secret", "sex", "--useful", "race", "--epsilon", "1", "--method", "srr",
        "--out", str(tmp_path / "out.csv"), "--publisher", "Office & Sons", "--seed", "7", "--public-labels", "all",
    ], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    manifest = json.loads((tmp_path / "out.manifest.json").read_text())
    page = html.unescape((tmp_path / "out.report.html").read_text())

    assert manifest["publisher"] == "Office & Sons"
    assert manifest["command"] == "sfumato release people.csv --secret sex --epsilon 1 --out out.csv --useful race --public-labels all --method srr"
    assert manifest["command"] in page and "Office & Sons" in page and manifest["date"] in page
    assert str(tmp_path) not in page


def test_a_release_worth_little_says_so_in_red():
    joint = datasets.adult("occupation", "education")
    made = sf.design(sf.ChiSquareBall(joint), 0.5, "srr")
    worth = facts_of(made.mechanism, made.certificate).worth

    assert worth.little and worth.share < 0.1
    assert re.search(r'class="big alarm"', public_report(made.mechanism, made.certificate))
