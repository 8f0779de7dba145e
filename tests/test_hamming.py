"""Hamming budgets: the least ε for every class of sources, other distances, and mutual information beside it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import sfumato as sf
from sfumato.optimise.loss.sources import level_at, loss_at
from sfumato.reproduce.hamming_figures import SIX, TEN, class_one, permuted, printed


def directly(p, e):
    """Least worst-case Hamming distortion at level log e, by the LP in M² + M + 1 variables."""
    m = p.shape[1]
    n = m * m + m + 1
    rows, right = [], []
    for source in p:
        row = np.zeros(n)
        row[np.arange(m) * (m + 1)], row[-1] = -source, -1.0
        rows.append(row)
        right.append(-1.0)
    for y in range(m):
        for x in range(m):
            for sign, floor in ((1.0, -e), (-1.0, 1.0)):
                row = np.zeros(n)
                row[y * m + x], row[m * m + y] = sign, floor
                rows.append(row)
                right.append(0.0)
    sums = np.hstack([np.tile(np.eye(m), m), np.zeros((m, m + 1))])
    return float(linprog(np.eye(n)[-1], np.array(rows), right, sums, np.ones(m), method="highs").fun)


def known_source(p, budget):
    """One known P: ε* = min over k with Top_k > 1 − D of ln[(k−1)(1−D)/(Top_k − 1 + D)], at least 0 [003, corrected]."""
    top = np.cumsum(np.sort(p)[::-1])
    if top[0] >= 1 - budget:
        return 0.0
    k = np.flatnonzero(top > 1 - budget)
    return max(0.0, np.log(k * (1 - budget) / (top[k] - 1 + budget)).min()) if k.size else np.inf


def sources(seed, kind):
    """Random sources of a class: with the uniform law among them, in one order, or with two letters in both orders."""
    rng = np.random.default_rng(seed)
    m, k = int(rng.integers(2 + (kind == "III"), 6)), int(rng.integers(1 + (kind == "III"), 5))
    p = rng.dirichlet(np.full(m, rng.choice([0.4, 1.0, 3.0])), size=k)
    if kind == "I":
        return np.vstack([p, np.full(m, 1 / m)])
    p = -np.sort(-p, axis=1)
    if kind == "III":
        p[0, [1, 2]] = p[0, [2, 1]]
    return p[:, rng.permutation(m)]


@pytest.mark.parametrize("kind", ["I", "II", "III"])
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), budget=st.floats(0.02, 0.95))
def test_the_linear_programme_is_exact_for_every_class(kind, seed, budget):
    p = sources(seed, kind)
    found = sf.least_epsilon(p, budget)
    best = directly(p, np.exp(found.epsilon))
    assert best <= budget + 1e-9 and found.distortion <= budget + 1e-9
    assert found.epsilon <= 1e-9 or abs(best - budget) <= 1e-9
    assert found.epsilon - found.bound <= 1e-9 and found.certificate.holds
    assert found.source_class == kind
    if kind == "I":
        assert abs(found.epsilon - class_one(p.shape[1], budget)) <= 1e-9
    if len(p) == 1:
        assert abs(found.epsilon - known_source(p[0], budget)) <= 1e-9


def test_the_class_one_formula():
    for budget in (0.1, 0.4, 0.89):
        assert abs(sf.least_epsilon(np.full((1, 10), 0.1), budget).epsilon - class_one(10, budget)) < 1e-9


def test_the_printed_formula_11_is_too_small_without_the_order():
    p = np.array([[0.4, 0.35, 0.25]])
    assert printed(p, 0.3) < sf.least_epsilon(p, 0.3).epsilon - 0.05
    assert printed(TEN, 0.3) < sf.least_epsilon(TEN, 0.3).epsilon - 0.5


def test_classes_are_recognised_and_named():
    assert sf.least_epsilon(SIX, 0.2).source_class == "II" and "Class II" in sf.least_epsilon(SIX, 0.2).sentence
    assert sf.least_epsilon(permuted(SIX, 1), 0.2).source_class == "III"
    assert sf.least_epsilon([[0.7, 0.3], [0.2, 0.8]], 0.2).source_class == "I"
    near = sf.Joint.from_probabilities([[0.36, 0.33, 0.31]])
    assert sf.least_epsilon(sf.ChiSquareBall(near, radius=0.1), 0.2).source_class == "I"
    assert sf.least_epsilon(sf.ChiSquareBall(sf.Joint.from_probabilities([[0.6, 0.3, 0.1]]), radius=0.001), 0.2).source_class == "II"


def test_a_ball_lies_between_its_centre_and_everything_and_a_polytope_equals_its_vertices():
    ball = sf.least_epsilon(sf.ChiSquareBall(sf.Joint.from_probabilities(SIX), radius=0.05), 0.2)
    assert known_source(SIX[0], 0.2) <= ball.epsilon <= class_one(6, 0.2) + 1e-9 and ball.epsilon - ball.bound < 1e-8
    half = sf.Joint.from_probabilities([[0.55, 0.25, 0.2]])
    strip = sf.Polytope(half, inequalities=([[[1, 0, 0]], [[-1, 0, 0]]], [0.6, -0.5]))
    corners = np.array([[a, *rest] for a in (0.5, 0.6) for rest in ((1 - a, 0.0), (0.0, 1 - a))])
    assert np.isclose(sf.least_epsilon(strip, 0.3).epsilon, sf.least_epsilon(corners, 0.3).epsilon, atol=1e-9)
    diagonal = sf.Joint.from_probabilities(np.diag(SIX[0]))
    assert np.isclose(sf.least_epsilon(sf.Exactly(diagonal), 0.2).epsilon, sf.least_epsilon(SIX, 0.2).epsilon, atol=1e-9)
    assert np.isclose(sf.least_epsilon(sf.Anything(diagonal), 0.2).epsilon, class_one(6, 0.2), atol=1e-8)


def test_general_distances_agree_with_the_hamming_programme():
    general = sf.least_epsilon(permuted(SIX, 2), 0.2, 1 - np.eye(6))
    exact = sf.least_epsilon(permuted(SIX, 2), 0.2)
    assert general.bound - 1e-9 <= exact.epsilon <= general.epsilon + 1e-9 and general.epsilon - general.bound < 1e-6


def test_design_and_budget_are_inverse():
    ball = sf.ChiSquareBall(sf.Joint.from_counts([[30, 20, 10], [5, 25, 40]]))
    for epsilon in (0.0, 0.5, 2.0):
        made = sf.design(ball, epsilon, "hamming")
        assert made.gap < 1e-8 and made.mechanism.claim.notion == "ldp" and made.certificate.holds
        assert sf.least_epsilon(ball, made.value + 1e-12, about="input").epsilon <= epsilon + 1e-6


def test_mutual_information_has_a_proved_gap_and_stays_below_dp():
    for swaps, budget in ((0, 0.1), (3, 0.2)):
        p = permuted(SIX, swaps)
        found = sf.least_leakage(p, budget)
        assert 0 <= found.gap <= 1e-6 and found.distortion <= budget + 1e-12
        assert found.information <= sf.least_epsilon(p, budget).epsilon
    h = lambda a: -a * np.log(a) - (1 - a) * np.log(1 - a)
    assert np.isclose(sf.least_leakage([[0.7, 0.3]], 0.1).information, h(0.3) - h(0.1), atol=1e-7)


def test_a_budget_of_nothing_needs_everything():
    found = sf.least_epsilon(SIX, 0.0)
    assert found.epsilon == np.inf and found.mechanism is None
    with pytest.raises(sf.InputError, match="at least"):
        sf.least_leakage(SIX, 0.0, np.ones((6, 2)))


@pytest.mark.parametrize(("p", "budget", "says"), [
    (np.zeros((0, 3)), 0.1, "empty"), (SIX, -0.1, "between"), (SIX, 1.1, "between"), (SIX, float("nan"), "between"), (SIX, "x", "between"),
    (SIX * 2, 0.1, "sum to 1"), ([[np.nan, 1.0]], 0.1, "distributions"), ("x", 0.1, "sources"), ([[1.2, -0.2]], 0.1, "distributions"),
])
def test_bad_sources_and_budgets_are_refused(p, budget, says):
    for least in (sf.least_epsilon, sf.least_leakage):
        with pytest.raises(sf.InputError, match=says):
            least(p, budget)


def test_bad_distances_are_refused():
    for distance, says in ((np.ones((3, 3)), "6 rows"), (np.full((6, 6), np.nan), "finite"), ("near", "hamming")):
        with pytest.raises(sf.InputError, match=says):
            sf.least_epsilon(SIX, 0.1, distance)
    with pytest.raises(sf.InputError, match="option"):
        sf.least_epsilon(SIX, 0.1, robust_utility=True)
    with pytest.raises(sf.InputError, match="about"):
        sf.least_epsilon(SIX, 0.1, about="secret")


@pytest.mark.parametrize("rows", [[[0.75, 0.25]], [[0.7, 0.3]], [[0.5, 0.3, 0.2]], [[0.6, 0.3, 0.1], [0.5, 0.1, 0.4]]])
def test_a_budget_that_a_constant_answer_just_meets_needs_no_epsilon(rows):
    """At budget = min over letters of max_P (1 − P_i) always answering that letter is free; just below it is not."""
    budget = min(max(1 - row[i] for row in rows) for i in range(len(rows[0])))
    found = sf.least_epsilon(rows, budget)

    assert (found.epsilon, found.bound) == (0.0, 0.0)
    assert found.distortion <= budget + 1e-12
    below = sf.least_epsilon(rows, budget * (1 - 1e-6))
    assert 0 < below.bound <= below.epsilon
    if len(rows) == 1:
        assert below.epsilon == pytest.approx(known_source(np.array(rows[0]), budget * (1 - 1e-6)), rel=1e-6)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.floats(0.01, 0.99))
def test_the_least_level_and_the_least_loss_at_one_source_are_readings_of_one_curve(seed, share):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(int(rng.integers(2, 9)), rng.choice([0.3, 1.0, 5.0])))
    budget = share * (1 - p.max())
    e = level_at(p, budget)

    assert np.log(e) == pytest.approx(known_source(p, budget), abs=1e-9)
    assert loss_at(p, e) == pytest.approx(budget, rel=1e-9)


def test_a_bound_holds_where_the_best_constant_just_meets_the_budget_at_the_worst_source():
    """There the bound of one source jumps to 0, and the last digits of the prices decided on which side it lay."""
    rng = np.random.default_rng(2)
    rng.dirichlet(np.ones(2), size=1)
    found = sf.least_epsilon(rng.dirichlet(np.ones(3), size=2), 0.6)

    assert found.bound == pytest.approx(found.epsilon, abs=1e-9) and found.epsilon > 0.1
