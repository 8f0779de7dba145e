"""precise: the design from which the table is estimated best."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import boundary_points, epsilons, joints, realised

import sfumato as sf
from sfumato.optimise.budget import Budget
from sfumato.optimise.estimates.goal import goal
from sfumato.optimise.estimates.mixing import best_mixture
from sfumato.optimise.estimates.searching import filled, searched
from sfumato.reporting.measuring import olh_precision, precision

JOINT = sf.datasets.adult("sex", "race")


@settings(max_examples=3)
@given(joints(secrets=(2, 3), useful=(2, 4), empty_cells=False), epsilons(0.2, 2.0))
def test_it_keeps_the_promise_and_is_no_worse_than_the_protocols(joint, epsilon):
    ball = sf.ChiSquareBall(joint)
    made = sf.design(ball, epsilon, "precise")
    found = precision(made.mechanism, joint, joint.n).joint.standard_error
    assert made.certificate.holds and made.certificate.level <= epsilon
    assert sf.level(made.mechanism, sf.RLDP(ball)) <= epsilon
    assert made.value == pytest.approx(found, rel=1e-5)  # by Fisher's information, and by the estimate's own covariance
    assert made.bound <= made.value
    others = [precision(sf.design(ball, epsilon, m).mechanism, joint, joint.n).joint.standard_error for m in ("grr", "oue")]
    others.append(olh_precision(joint, math.exp(epsilon), joint.n).joint.standard_error)
    assert found <= min(others) * (1 + 1e-3)


def test_each_target_is_estimated_best_by_its_own_design():
    ball = sf.ChiSquareBall(JOINT)
    made = {t: sf.design(ball, 0.5, "precise", working=0.5, target=t) for t in ("joint", "useful", "secret")}
    for target in made:
        error = {t: getattr(precision(d.mechanism, JOINT, JOINT.n), target).standard_error for t, d in made.items()}
        assert min(error, key=error.get) == target
    told = precision(sf.design(ball, 0.5, "grr", reads="useful").mechanism, JOINT, JOINT.n).useful.standard_error
    assert made["useful"].value < told


def test_a_mixture_is_proved_optimal_by_its_dual():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(4))
    rows = np.concatenate([np.ones((1, 4)), rng.exponential(size=(30, 4)), np.eye(4)])
    V = rows / (rows @ p)[:, None]
    found = best_mixture(V, np.eye(4))
    assert np.abs(V.T @ found.weight - 1).max() < 1e-8 and found.weight.min() >= 0
    J = (V.T * found.weight) @ V
    assert found.value == pytest.approx(np.trace(np.linalg.inv(J)), rel=1e-9)
    # f is convex, so f(θ') ≥ 2f − Σθ'·vᵀMv ≥ 2f − λ·1 − max(vᵀMv − λ·v)₊ for every mixture θ' of these rows.
    steep = np.einsum("yx,xz,yz->y", V, found.slope, V) - V @ found.dual
    proved = 2 * found.value - found.dual.sum() - max(float(steep.max()), 0.0)
    assert proved == pytest.approx(found.value, rel=1e-5)


def test_a_mixture_of_three_rows_is_the_one_a_grid_finds():
    p = np.array([0.5, 0.5])
    V = np.array([[1.6, 0.4], [0.4, 1.6], [1.0, 1.0], [1.3, 0.7], [0.7, 1.3]])
    found = best_mixture(V, np.eye(2))
    whole = goal(sf.Joint.from_probabilities(p.reshape(2, 1)), [[1.0], [1.0]])
    best = min(
        2 * (whole.of_rows(np.array([a, a, 1 - 2 * a - 2 * b, b, b])[:, None] * V) + whole.own)
        for a in np.linspace(0, 0.5, 41) for b in np.linspace(0, 0.5 - a, 21)
    )
    assert found.value == pytest.approx(best, rel=1e-6)


def test_larger_tables_beat_unary_encoding_from_the_start():
    rng = np.random.default_rng(0)
    joint = sf.Joint.from_counts(rng.multinomial(30_000, rng.dirichlet(np.ones(36))).reshape(4, 9) + 1)
    ball = sf.ChiSquareBall(joint)
    found = searched(ball, 1.0, goal(joint, "joint"), budget=Budget.of_work(0.5))
    usual = precision(sf.design(ball, 1.0, "oue").mechanism, joint, joint.n).joint.standard_error
    assert math.sqrt(found.error / joint.n) < usual


def errors(mechanism, joint, target, reads="both"):
    """The mean square error of a target, cells that were never counted included, by the goal's own formula."""
    return goal(filled(sf.ChiSquareBall(joint)).joint, target, reads).of_law(mechanism.law)


@settings(max_examples=3, deadline=None)
@given(joints(secrets=(2, 5), useful=(2, 6)), epsilons(0.2, 2.5), st.sampled_from(["joint", "useful", "secret"]))
def test_no_protocol_with_the_same_promise_is_better(joint, epsilon, target):
    ball = sf.ChiSquareBall(joint)
    made = sf.design(ball, epsilon, "precise", target=target)
    assert made.certificate.holds and made.bound <= made.value * (1 + 1e-9)
    found = made.value**2 * joint.n
    for method in ("grr", "oue", "sue", "srr"):
        assert found <= errors(sf.design(ball, epsilon, method).mechanism, joint, target) * (1 + 1e-6)
    if target == "useful":
        for method in ("grr", "sue"):
            told = sf.design(ball, epsilon, method, reads="useful").mechanism
            assert found <= errors(told, joint, "useful", "useful") * (1 + 1e-6)


@settings(max_examples=3, deadline=None)
@given(joints(secrets=(2, 4), useful=(2, 5)), epsilons(0.2, 2.0), st.integers(0, 2**32 - 1))
def test_it_is_private_at_every_edge_of_the_ball(joint, epsilon, seed):
    ball = sf.ChiSquareBall(joint)
    made = sf.design(ball, epsilon, "precise")
    worst = max(realised(made.mechanism, p) for p in boundary_points(ball, np.random.default_rng(seed)))
    assert worst <= epsilon + 1e-9


TABLES = [[[30, 5, 9], [4, 40, 2]], [[300, 120, 40, 90], [80, 260, 150, 30]]]  # where five seconds are enough to converge


@pytest.mark.long
@pytest.mark.parametrize("counts", TABLES)
def test_the_order_of_secrets_and_values_does_not_matter(counts):
    joint, epsilon = sf.Joint.from_counts(counts), 1.0
    s, u = ([*range(1, k), 0] for k in joint.shape)
    other = sf.Joint.from_counts(np.rint(joint.p * joint.n).astype(int)[np.ix_(s, u)])
    first, second = (sf.design(sf.ChiSquareBall(j), epsilon, "precise", working=6).value for j in (joint, other))
    assert first == pytest.approx(second, rel=1e-2)


@pytest.mark.long
@pytest.mark.parametrize("table", TABLES)
def test_a_table_with_useful_values_merged_is_not_estimated_better(table):
    joint, epsilon = sf.Joint.from_counts(table), 1.0
    counts = np.rint(joint.p * joint.n).astype(int)
    coarse = sf.Joint.from_counts(np.column_stack([counts[:, :-2], counts[:, -2:].sum(1)]))
    ball, small = sf.ChiSquareBall(joint), sf.ChiSquareBall(coarse, radius=sf.ChiSquareBall(joint).radius)
    sums = np.zeros((coarse.p.size, *joint.shape))
    group = np.minimum(np.arange(joint.shape[1]), coarse.shape[1] - 1)
    for k, (s, g) in enumerate(np.ndindex(coarse.shape)):
        sums[k, s, group == g] = 1.0
    fine = sf.design(ball, epsilon, "precise", working=6, target=sums).value
    merged = sf.design(small, epsilon, "precise", working=6).value
    assert fine <= merged * (1 + 1e-2)


@pytest.mark.parametrize("within", [
    sf.Exactly(JOINT), sf.RenyiBall(JOINT, alpha=0.5, radius=1e-3), sf.RenyiBall(JOINT, alpha=3.0, radius=1e-3), sf.ChiSquareBall(JOINT),
], ids=lambda w: f"{w.kind} {getattr(w, 'alpha', '')}")
@pytest.mark.parametrize("reads", ["both", "useful"])
def test_every_set_and_reading_is_designed_for(within, reads):
    made = sf.design(within, 0.5, "precise", reads=reads)
    assert made.certificate.holds and made.bound <= made.value < math.inf
    usual = sf.design(within, 0.5, "grr", reads=reads).mechanism
    assert made.value**2 * JOINT.n <= errors(usual, JOINT, "useful" if reads == "useful" else "joint", reads) * (1 + 1e-9)


def test_a_value_that_never_occurs_is_no_obstacle():
    joint = sf.Joint.from_counts([[30, 0, 12], [14, 0, 60], [0, 0, 0]])
    made = sf.design(sf.ChiSquareBall(joint), 1.0, "precise")
    assert made.certificate.holds and made.value < math.inf


@pytest.mark.long
def test_each_target_stays_near_its_own_best():
    ball = sf.ChiSquareBall(JOINT)
    each = sf.design(ball, 0.5, "precise", time_limit=5, target="each")
    for target in ("joint", "useful", "secret"):
        best = sf.design(ball, 0.5, "precise", time_limit=5, target=target).value
        assert math.sqrt(errors(each.mechanism, JOINT, target) / JOINT.n) < 1.35 * best


def test_weights_say_what_matters():
    ball, weights = sf.ChiSquareBall(JOINT), np.zeros(JOINT.shape)
    weights[0, 0] = 1.0
    one = sf.design(ball, 0.5, "precise", working=0.5, target=weights)
    whole = sf.design(ball, 0.5, "precise", working=0.5)
    assert one.value**2 * JOINT.n < errors(whole.mechanism, JOINT, weights)
    both = sf.design(ball, 0.5, "precise", working=0.5, target={"joint": 1, "useful": 2})
    assert both.value**2 * JOINT.n <= errors(whole.mechanism, JOINT, {"joint": 1, "useful": 2}) * (1 + 1e-3)


def test_the_bound_is_near_on_a_small_table():
    made = sf.design(sf.ChiSquareBall(JOINT), 1.0, "precise", working=1.0, target="secret")
    assert 0.97 * made.value < made.bound <= made.value


@pytest.mark.parametrize("options, words", [
    ({"target": "all"}, "target"), ({"reads": "useful", "target": "secret"}, "reads='both'"),
    ({"notion": "ldp"}, "notion='rldp'"), ({"time_limit": 0.0}, "time_limit"), ({"target": {"joint": -1}}, "weight"),
    ({"target": [[1.0, 2.0]]}, "one for each cell"), ({"target": np.zeros(JOINT.shape)}, "above zero"),
])
def test_what_it_cannot_do_is_said(options, words):
    with pytest.raises(sf.InputError, match=words):
        sf.design(sf.ChiSquareBall(JOINT), 1.0, "precise", **options)


def test_sets_and_tables_it_is_not_for_are_refused():
    with pytest.raises(sf.InputError, match="two secrets"):
        sf.design(sf.Exactly(sf.Joint.from_counts([[3, 5], [0, 0]])), 1.0, "precise")


def test_no_level_tells_nothing():
    made = sf.design(sf.ChiSquareBall(JOINT), 0.0, "precise")
    assert made.certificate.level == 0.0 and math.isinf(made.value)


@pytest.mark.parametrize("counts", [[[30, 20]] * 8, [[21, 28, 24], [31, 24, 26], [0, 0, 0], [0, 0, 0], [0, 0, 0]]])
def test_many_secrets_and_empty_ones_are_designed_for_where_the_useful_variable_alone_is_read(counts):
    found = sf.design(sf.ChiSquareBall(sf.Joint.from_counts(counts)), 0.5, "precise", reads="useful", time_limit=1)
    assert found.certificate.level <= 0.5 and 0 <= found.bound <= found.value


def test_a_design_over_a_ball_of_order_one_half_around_empty_cells_is_sealed():
    made = sf.design(sf.RenyiBall(sf.Joint.from_counts([[31, 0], [32, 0]]), alpha=0.5, radius=0.3), 3.0, "precise")
    assert made.certificate.holds and made.value > made.bound


def test_masses_next_to_nothing_end_in_a_design_without_a_warning():
    ball = sf.RenyiBall(sf.Joint.from_counts([[0, 1654], [0, 0], [803, 232_493], [0, 0]]), alpha=1.0, confidence=0.95)
    assert sf.design(ball, 3.0, "precise", working=0.1).certificate.holds


@pytest.mark.parametrize("seed, shape", [(1, (8, 6)), (3, (10, 8))])
def test_what_is_not_asked_for_stays_identified(seed, shape):
    rng = np.random.default_rng(seed)
    joint = sf.Joint.from_counts(rng.multinomial(20_000, rng.dirichlet(np.full(shape[0] * shape[1], 0.3))).reshape(shape))
    made = sf.design(sf.ChiSquareBall(joint), 3.0, "precise", target="useful", working=1.0)
    assert np.linalg.matrix_rank(np.asarray(made.mechanism.matrix, float), rtol=1e-9) == joint.p.size


SPARSE = np.arange(1, 141).reshape(70, 2)


@pytest.mark.parametrize("within, epsilon, method, options", [
    (sf.Joint.from_counts(SPARSE), 1.0, "auto", {"reads": "useful", "time_limit": 0.2}),
    (sf.Joint.from_counts([[3], [4]]), 1.0, "auto", {"reads": "useful", "time_limit": 1.0}),
    (sf.Joint.from_counts([[3], [4]]), 1.0, "precise", {"reads": "useful", "working": 0.2}),
    (sf.Anything(sf.Joint.from_counts([[0], [9]])), 0.5, "precise", {"working": 0.2}),
    (sf.Joint.from_counts([[1, 2], [3, 4]]), 40.0, "distortion", {}),
])
def test_tables_with_little_to_tell_and_time_for_nothing_are_designed(within, epsilon, method, options):
    made = sf.design(within, epsilon, method, **options)
    assert made.certificate.holds and made.bound <= made.value
