"""Worked numbers of paper 000, as corrected: Examples 1, 2, 4 and 5."""

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.designers.base import Task
from sfumato.designers.closed_forms import total_variation

ESTIMATE = sf.Joint.from_counts([[7, 10], [26, 57]])
TRUTH = sf.Joint.from_probabilities([[0.1, 0.1], [0.2, 0.6]])
BALL = sf.ChiSquareBall(ESTIMATE, confidence=0.95)
LOG2 = math.log(2)


def test_example_1_the_radius_uses_the_upper_quantile():
    assert math.log1p(BALL.radius) == pytest.approx(0.075244, abs=5e-7)
    printed = 0.351846 / 100  # F⁻¹(0.05), as (9) and (13) print it: a ball twenty times too small
    assert BALL.radius > 20 * printed


def test_example_1_the_truth_lies_in_the_ball():
    divergence = math.log((ESTIMATE.p**2 / TRUTH.p).sum())
    assert divergence == pytest.approx(0.0281, abs=5e-5)
    assert divergence < math.log1p(BALL.radius)


def test_example_2_projections_by_theorem_1_not_as_printed():
    assert np.log(BALL.spread()) == pytest.approx([0.406733, 0.090312], abs=5e-7)
    low, high = BALL.spikes()
    assert low.ravel() == pytest.approx([0.155223, 0.272720, 0.192131, 0.533372], abs=5e-7)
    assert high == pytest.approx(1 - low[:, ::-1], abs=1e-12)  # two values: the greatest of one is 1 − the least of the other
    assert low[0, 0] < 0.1620 and low[0, 1] < 0.2829  # the printed bounds cut points of the ball off: unsafe


def test_example_2_radii_in_total_variation():
    q, (low, high) = ESTIMATE.useful_given_secret, BALL.spikes()
    radii = 2 * np.maximum(q - low, high - q).max(1)
    assert radii == pytest.approx([0.631030, 0.306749], abs=5e-7)
    # (34) with its sign as printed gives a negative number here; the corrected form agrees with the range above.
    c, p = BALL.spread(), q.min(1)
    root = np.sqrt((c - 1) * (c - (2 * p - 1) ** 2))
    assert ((c - 1) * (1 - 2 * p) + root) / c == pytest.approx(radii, abs=1e-12)
    assert np.all((-c + 2 * p - 1 + root) / c < 0)


@pytest.mark.parametrize(("method", "notion", "at_estimate", "at_truth"), [
    ("grr", "ldp", 0.0419, 0.0412), ("srr", "rldp", 0.1005, 0.0942),
])
def test_example_4_information(method, notion, at_estimate, at_truth):
    design = sf.design(BALL, LOG2, method, notion=notion)
    assert design.value == pytest.approx(at_estimate, abs=5e-5)
    assert sf.mutual_information(design.mechanism, TRUTH) == pytest.approx(at_truth, abs=5e-5)


def test_example_4_matrices():
    grr = sf.design(BALL, LOG2, "grr", notion="ldp").mechanism.matrix
    assert grr == pytest.approx(np.full((4, 4), 0.2) + 0.2 * np.eye(4), abs=1e-9)
    srr = sf.design(BALL, LOG2, "srr").mechanism.matrix
    assert srr[0] == pytest.approx([4 / 9, 1 / 9, 2 / 9, 2 / 9], abs=1e-9)


def test_example_5_independent_reporting_by_the_papers_rule():
    assert total_variation(Task(BALL, LOG2)) == pytest.approx(1.4591, abs=5e-5)
    design = sf.design(BALL, LOG2, "ir", rule="paper")
    assert design.details["split"] == pytest.approx(LOG2)
    assert design.value == pytest.approx(0.0755, abs=5e-5)
    assert sf.mutual_information(design.mechanism, TRUTH) == pytest.approx(0.0718, abs=5e-5)
    assert design.mechanism.matrix[0] == pytest.approx([0.3517, 0.1483, 0.3517, 0.1483], abs=5e-5)


def test_example_5_the_tighter_rule_keeps_more_than_twice_as_much():
    paper, tight = (sf.design(BALL, LOG2, "ir", rule=rule) for rule in ("paper", "tight"))
    assert tight.value > 2 * paper.value
    assert tight.certificate.level <= LOG2


@pytest.mark.parametrize(("shape", "expected"), [((2, 5), 0.334), ((5, 2), 0.154), ((15, 16), 0.052), ((42, 6), 0.053)])
def test_table_2_independent_reporting_by_the_tighter_rule(shape, expected):
    """ε = 1.5, 90 % balls, n = 32,561, tables from the Jeffreys prior; the means of docs/corrections.md, within the noise of few draws."""
    rng, nmi = np.random.default_rng(7), []
    for _ in range(12):
        counts = rng.multinomial(32_561, rng.dirichlet(np.full(shape[0] * shape[1], 0.5))).reshape(shape)
        joint = sf.Joint.from_counts(counts)
        task = Task(sf.ChiSquareBall(joint, confidence=0.9), 1.5)
        from sfumato.designers.closed_forms import ir

        nmi.append(ir(task).value(task) / joint.entropy)
    spread = np.std(nmi, ddof=1) / math.sqrt(len(nmi))
    assert np.mean(nmi) == pytest.approx(expected, abs=4 * spread + 0.0005)
