"""Designs along ε: what they share changes what they cost, never what they promise."""

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.designers.base import Task
from sfumato.designers.precise import precise
from sfumato.errors import InputError
from sfumato.optimise.all_levels import Carried, rows_for
from sfumato.optimise.cone import RatioCone
from sfumato.optimise.estimates.goal import goal
from sfumato.reporting.measuring import precision

EPSILONS = (0.4, 1.0, 3.0)
JOINT = sf.Joint.from_counts([[300, 120, 80], [90, 260, 150]])


@pytest.mark.parametrize("method", ["ballopt", "precise"])
def test_a_curve_is_monotone_private_at_every_point_and_as_good_as_designs_alone(method, patient):
    ball = sf.ChiSquareBall(JOINT)

    made = sf.designs(ball, EPSILONS, method)
    alone = [sf.design(ball, e, method, time_limit=0.5) for e in EPSILONS]

    sign = 1 if method == "ballopt" else -1  # errors fall
    values = np.array([sign * d.value for d in made])
    assert (np.diff(values) >= 0).all()
    assert all(d.certificate.level <= e == d.epsilon for d, e in zip(made, EPSILONS, strict=True))
    assert (values >= [sign * d.value * (1 - sign * 2e-3) for d in alone]).all()
    assert all(sign * (d.bound - d.value) >= -1e-9 for d in made)


def test_a_bound_of_a_curve_is_no_weaker_than_that_of_a_larger_level():
    bounds = [d.bound for d in sf.designs(JOINT, EPSILONS, "ballopt")]

    assert bounds == sorted(bounds)


def test_a_method_without_a_search_is_designed_at_each_level():
    made = sf.designs(JOINT, [2.0, 1.0, 1.0], "srr")

    assert [d.epsilon for d in made] == [1.0, 2.0]
    assert made[0].value == sf.design(JOINT, 1.0, "srr").value


def facets(simplices, E):
    """A with A·v ≤ 0 for the rows private over simplices: one for each pair of secrets and of corners [000, (43)]."""
    least, (S, U) = simplices.least, simplices.least.shape
    corners = least[:, None] + (1 - least.sum(1))[:, None, None] * np.eye(U)  # [s, corner, u]
    rows = np.zeros((S, S, U, U, S, U))
    for s1, s2 in np.ndindex(S, S):
        rows[s1, s2, :, :, s1] += corners[s1][:, None]
        rows[s1, s2, :, :, s2] -= E * corners[s2][None]
    return rows.reshape(-1, S * U)


def test_the_listed_optimum_of_polyopt_is_that_of_all_extreme_rays_and_no_search_ends_above_it():
    from sfumato.optimise.budget import Budget
    from sfumato.optimise.funnel.rays import extreme_rays
    from sfumato.optimise.informative import most_informative
    from sfumato.optimise.search import InformationAim
    from sfumato.optimise.starts import Simplices, best_over_simplices

    ball = sf.ChiSquareBall(JOINT)
    for design, epsilon in zip(sf.designs(ball, EPSILONS, "polyopt", limit=np.inf), EPSILONS, strict=True):
        simplices, E = Simplices(ball), float(np.exp(epsilon))
        rays = extreme_rays(facets(simplices, E), dimension=JOINT.p.size, limit=20_000)
        every = InformationAim(RatioCone(simplices, epsilon).coordinates)
        every.add(rays)
        rows, most = best_over_simplices(simplices, E)

        assert (rows @ facets(simplices, E).T <= 1e-9).all() and np.allclose(rows.sum(0), 1.0)
        assert most == pytest.approx(every.solve(), rel=1e-7)
        assert most >= design.value >= most * (1 - 1e-6)
        assert design.certificate.level <= epsilon and design.value <= design.bound
        assert design.value >= most_informative(simplices, epsilon, Budget.of_work(0.2)).value * (1 - 1e-6)


def test_what_is_not_listed_of_polyopt_is_designed_alone():
    made = sf.designs(JOINT, [1.0], "polyopt", same_secret=False, limit=np.inf, working=0.2)
    empty = sf.Joint.from_counts([[30, 10, 0], [20, 40, 5]])

    assert "same_secret" in made[0].details and "stages" in made[0].details
    assert "stages" in sf.designs(empty, [1.0], "polyopt", limit=np.inf, working=0.2)[0].details


def test_auto_shares_for_both_aims_and_says_what_it_took():
    for aim in ("estimates", "information"):
        made = sf.designs(JOINT, [0.5, 1.0], aim=aim, working=0.5)

        assert [d.epsilon for d in made] == [0.5, 1.0]
        assert all(any("auto took" in note for note in d.notes) for d in made)


def test_levels_that_are_searched_together_have_private_rows_each_and_gain():
    from sfumato.optimise.all_levels import OneLevel, Together, joinable
    from sfumato.optimise.budget import Budget
    from sfumato.optimise.search import InformationAim

    cones = [RatioCone(sf.ChiSquareBall(JOINT), e) for e in EPSILONS]
    levels = [OneLevel(cone, InformationAim(cone.coordinates)) for cone in cones]
    levels[1].enough = -np.inf  # it lends rows, and nothing is sought there

    assert all(map(joinable, cones))
    Together(levels).run(Budget.of_work(2.0), once=1e-4)

    for level in levels:
        rows, weights = level.master.used()
        assert level.cone.cuts(rows).greatest(len(rows)).max() < 1e-4
        assert np.allclose(weights @ rows, 1.0)
    assert levels[0].master.value > 0.1 < levels[2].master.value and levels[1].master.value == pytest.approx(0.0)


@pytest.mark.parametrize("within", [sf.ChiSquareBall(JOINT), sf.RenyiBall(JOINT, alpha=0.5, radius=0.01)])
def test_a_step_of_the_barrier_is_newtons_by_differences_of_its_value(within):
    from sfumato.optimise.barrier import BallMover, Barrier

    rng, cone = np.random.default_rng(6), RatioCone(within, 1.0)
    mover, size = BallMover(cone), 20
    E, heat, costs = np.full((size, 1), cone.E), np.full(size, 50.0), rng.normal(size=(size, JOINT.p.size))
    shared = Barrier(mover, E)
    x = mover._inside(shared, cone.coordinates.unit(np.exp(rng.normal(size=costs.shape))))

    step, rise = shared.newton(x, costs, heat)

    h = 1e-3 / (1 + rise)
    below, here, above = (shared.value(x.moved(step, t), costs, heat)[0] for t in (-h, 0 * h, h))
    assert np.allclose((above - below) / (2 * h), rise, rtol=1e-4)  # the slope of the barrier along the step
    assert np.allclose((2 * here - above - below) / h**2, rise, rtol=1e-2)  # and its curvature: there both agree
    assert np.allclose(step[:, : JOINT.p.size] @ cone.coordinates.p, 0.0, atol=1e-9)  # the mass of a row stays


def test_a_search_for_one_target_that_begins_with_designs_for_another_does_not_lose():
    ball, options = sf.ChiSquareBall(JOINT), {"working": 0.3, "bounded": False, "once": 1e-2}
    whole = sf.designs(ball, EPSILONS, "precise", **options)
    starts = [x.mechanism for x in whole]

    found = sf.designs(ball, EPSILONS, "precise", target="useful", starts=starts, **options)

    for start, design in zip(starts, found, strict=True):
        assert design.certificate.holds
        assert design.value <= precision(start, JOINT, JOINT.n).useful.standard_error * (1 + 1e-6)


def test_rows_of_one_level_become_private_rows_of_another():
    rows = np.random.default_rng(4).exponential(size=(12, JOINT.p.size))
    for epsilon in EPSILONS:
        cone = RatioCone(sf.ChiSquareBall(JOINT), epsilon)

        found = rows_for(cone, rows)

        assert cone.cuts(found).greatest(len(found)).max() < 1e-6
        assert np.allclose(found @ cone.coordinates.p, 1.0)


def test_worst_cases_of_one_level_are_those_of_the_same_distributions_at_another():
    rows = np.random.default_rng(5).exponential(size=(9, JOINT.p.size))
    near, far = (RatioCone(sf.ChiSquareBall(JOINT), e) for e in (0.5, 2.0))
    found = near.cuts(near.coordinates.unit(rows), room=np.inf)

    moved = Carried(rows, found.normals, near.E, 0.0).cuts(far.E)

    assert np.allclose(np.where(found.normals > 0, found.normals, 0), np.where(moved > 0, moved, 0))
    assert np.allclose(moved.sum(1), 1 - far.E)  # R₁ and R₂ sum to one each


def test_no_level_is_refused():
    with pytest.raises(InputError, match="at least one"):
        sf.designs(JOINT, [])


def test_designs_of_neighbouring_levels_are_compared_though_they_read_other_inputs():
    joint = sf.datasets.adult("race", "relationship")
    ball = sf.ChiSquareBall(joint)
    alone, both = sf.design(ball, 0.2, "grr", reads="useful").mechanism, sf.design(ball, 0.2, "srr").mechanism

    score = precise(Task(ball, 0.5), target="useful", time_limit=1e-3).score  # the best protocol reads u alone

    for mechanism in (alone, both):
        error = goal(joint, "useful", mechanism.reads).of_law(mechanism.law)
        assert score(mechanism) == pytest.approx(math.sqrt(error / joint.n))


def test_one_level_is_a_curve_of_one_and_a_text_is_refused_in_words():
    ball = sf.ChiSquareBall(sf.datasets.adult("sex", "race"))

    assert [d.epsilon for d in sf.designs(ball, 1.0, "grr")] == [1.0]
    with pytest.raises(sf.InputError, match="epsilon"):
        sf.designs(ball, "0.5,1", "grr")


def test_options_of_a_curve_are_checked_and_its_limit_is_for_all_of_it():
    for method in ("auto", "ballopt", "precise"):
        with pytest.raises(sf.InputError, match="Did you mean 'working'"):
            sf.designs(JOINT, [0.5, 1.0], method, workin=1.0)
    for method in ("auto", "ballopt"):
        assert [d.epsilon for d in sf.designs(JOINT, [0.0, 1.0], method, working=0.1)] == [0.0, 1.0]
