"""What every search shares: repairs that end inside, mixtures with proved bounds, and the two ways to speak to solvers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sfumato.optimise.arrays import MARGIN, blended, goal, least_share, lifted, xlogx
from sfumato.optimise.budget import Budget
from sfumato.optimise.conic import ConicProgramme, LawProgramme, exponential, lorentz, power
from sfumato.optimise.linear import LinearProgramme, best_cover

seeds = st.integers(0, 10**6)


def channel(seed, outputs=4, inputs=5):
    return np.random.default_rng(seed).dirichlet(np.full(outputs, 0.4), size=inputs).T


@given(seeds, st.floats(0.01, 4.0))
def test_lifted_rows_end_inside_and_no_row_pays_for_another(seed, epsilon):
    q, e = channel(seed), math.exp(epsilon)

    def excess(q):
        return q.max(axis=1) - e * q.min(axis=1)

    found = lifted(q, excess, e - 1)
    assert (excess(found) <= 0).all() and np.allclose(found.sum(axis=0), 1)
    within = excess(q) <= 0
    assert np.allclose(found[within] * (q[within].sum() / found[within].sum() if within.any() else 1), q[within], rtol=1e-9)


@given(st.floats(1e-14, 0.99))
def test_the_least_share_is_found_to_a_tenth_from_above(needed):
    found = least_share(lambda share: share >= needed)
    assert needed <= found <= min(1.0, 1.1 * needed)


def test_nothing_is_mixed_into_what_fits_and_all_into_what_never_does():
    q = channel(1)
    assert np.allclose(blended(q, q.mean(axis=1), lambda _: True), q)
    assert np.ptp(blended(q, q.mean(axis=1), lambda _: False), axis=1).max() < 1e-15
    assert goal(1.0) == 1.0 - MARGIN and 0 < goal(1e-12) < 1e-12


@settings(max_examples=20)
@given(seeds, st.booleans(), st.sampled_from([30, 2500]))
def test_a_cover_is_the_linear_programme_of_all_points_and_its_bound_is_proved(seed, limited, count):
    rng = np.random.default_rng(seed)
    points = np.vstack([rng.dirichlet(np.full(4, 0.3), size=count), np.full((1, 4), 0.25)])
    worth, spends = xlogx(points).sum(axis=1), points.max(axis=1) - 0.25
    mean, limit = np.ones(4), 1.0 if limited else np.inf
    found = best_cover(mean, points, worth, spends if limited else None, limit)
    upper = {"A_ub": spends[None], "b_ub": [limit]} if limited else {}
    best = -linprog(-worth, A_eq=points.T, b_eq=mean, method="highs", **upper).fun
    assert found.value == pytest.approx(best, abs=1e-7) and best - 1e-9 <= found.bound <= best + 1e-7
    assert np.allclose(found.weights @ found.points, mean, atol=1e-9)


def test_a_linear_programme_grows_by_rows_and_columns_and_tells_of_emptiness():
    lp = LinearProgramme(np.array([1.0, 2.0]), np.zeros(2), np.ones(2), maximise=True, warm=True)
    lp.at_most(np.ones((1, 2)), 1.5)
    assert lp.solve().value == pytest.approx(2.5)
    lp.add_columns(np.array([5.0]), np.zeros(1), np.ones(1), np.array([[1.0]]))
    assert lp.solve().value == pytest.approx(6.0)
    lp.within(np.full(3, 0.6), np.ones(3))
    assert lp.solve().infeasible and lp.ray() is not None
    lp.within(np.zeros(3), np.ones(3))
    lp.at_most(np.array([[-1.0, 0.0, 0.0]]), -0.25)
    assert lp.solve().value == pytest.approx(0.25 + 0.5 + 5.0)


@given(seeds)
def test_a_programme_over_laws_is_bounded_by_any_prices_and_met_by_its_own(seed):
    rng = np.random.default_rng(seed)
    cost, row = rng.random((3, 2)), rng.random(6)
    programme = LawProgramme()
    names = programme.laws(cost)
    assert programme.bound(np.zeros(0)) == pytest.approx(cost.min(axis=0).sum(), abs=1e-12)  # without a row
    room = programme.box(1, 0.5, -1.0, 2.0)
    programme.limit(np.append(names.ravel(), room)[None], np.append(row, -1.0), 0.6)
    found = programme.solve()
    best = linprog(
        np.append(cost.ravel(), 0.5), np.append(row, -1.0)[None], [0.6],
        np.hstack([np.tile(np.eye(2), 3), np.zeros((2, 1))]), np.ones(2), bounds=[(0, 1)] * 6 + [(-1, 2)],
    ).fun
    assert found.value == pytest.approx(best, abs=1e-7) and programme.proved(found) == pytest.approx(best, abs=1e-7)
    assert all(programme.bound(np.array([price])) <= best + 1e-12 for price in (0.0, 0.3, 1.0, 9.0))


def test_every_cone_is_the_one_it_is_called():
    """x³ ≤ t, √(x² + y²) ≤ t and y e^{x/y} ≤ t at points where they are tight."""
    for cone, coordinates, best in (
        (power(1 / 3, 2 / 3), (0, 1, 2), 8.0), (lorentz, (0, 1, 2), math.hypot(1, 2)), (exponential, (2, 1, 0), math.e**2),
    ):
        conic = ConicProgramme(3)  # least t with y = 1, x = 2
        conic.equal(np.arange(2), np.array([1, 2]), np.ones(2), np.array([-1.0, -2.0]))
        conic.each(cone, *([(np.array([i]), np.ones(1))] for i in coordinates))
        assert conic.solve(np.array([1.0])).x[0] == pytest.approx(best, rel=1e-6)


def test_a_part_of_a_budget_ends_no_later_than_the_whole():
    whole = Budget.of(10.0)
    assert whole.part(0.5).left <= 5.0 and whole.part(1.0, 2.0).left <= 2.0 and whole.part(3.0).deadline <= whole.deadline
    assert Budget.of(None).left == math.inf and Budget.of(0.0).over and Budget.of(None).part(0.5).left == math.inf
