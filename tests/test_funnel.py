"""The funnel: optima by a second route, privacy of every design, counterexamples to Theorem 4, proofs over the ball."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.strategies import boundary_points, joints, sealed

import sfumato as sf
from sfumato.certification import certificate
from sfumato.certification.rationals import Attained
from sfumato.certification.shift_proofs import _not_negative, shifts_over_ball
from sfumato.designers.funnel import joint_design
from sfumato.errors import ClaimError, InputError
from sfumato.mechanism import Claim
from sfumato.optimise.arrays import xlogx
from sfumato.optimise.budget import Budget
from sfumato.optimise.funnel.envelope import Slice
from sfumato.optimise.funnel.posteriors import (
    best_ldp,
    best_lip,
    generated,
    kernel,
    ldp_rows,
    likelihood,
    lip_rows,
    reduced,
)
from sfumato.optimise.funnel.products import best_product, paper_product, product, sequential
from sfumato.privacy.beliefs import product_level
from sfumato.uncertainty.shifts import worst_shifts

seeds, epsilons = st.integers(0, 10**6), st.sampled_from([0.1, 0.5, 1.0, 2.0])


def table(seed, *shape, concentration=1.0):
    return np.random.default_rng(seed).dirichlet(np.full(int(np.prod(shape)), concentration)).reshape(shape)


def attributes(*sizes):
    return sf.Alphabet.of(*(sf.Column.of(f"x{j}", range(n)) for j, n in enumerate(sizes)))


def several(p):
    return sf.Joint.from_probabilities(p.reshape(len(p), -1) / p.sum(), useful=attributes(*p.shape[1:]))


def by_all_bases(column, rows):
    """The optimum by every basis of the cone and scipy's LP."""
    size = len(column)
    facets = np.concatenate([rows, -np.eye(size)])
    points = []
    for tight in itertools.combinations(range(len(facets)), size - 1):
        system = np.concatenate([facets[list(tight)], np.ones((1, size))])
        if abs(np.linalg.det(system)) < 1e-13:
            continue
        point = np.linalg.solve(system, np.append(np.zeros(size - 1), 1.0))
        if (facets @ point).max() < 1e-10:
            points.append(np.maximum(point, 0.0))
    points = np.array(points)
    answer = linprog(-xlogx(points).sum(axis=1), A_eq=points.T, b_eq=column, method="highs-ds")
    return -answer.fun - xlogx(column).sum()


def pair_rows(p, epsilon):
    g = likelihood(p)
    return np.array([g[i] - np.exp(epsilon) * g[j] for i, j in itertools.permutations(range(len(g)), 2)])


@settings(max_examples=12)
@given(seeds, epsilons, st.sampled_from([(2, 4), (3, 3), (2, 5)]))
def test_lip_and_ldp_are_optimal_by_a_second_route(seed, epsilon, shape):
    p = table(seed, *shape)
    one, two = best_lip(p, epsilon), best_ldp(p, epsilon)
    assert one.value == pytest.approx(by_all_bases(p.sum(0), lip_rows(p, epsilon)), abs=1e-9)
    assert two.value == pytest.approx(by_all_bases(p.sum(0), pair_rows(p, epsilon)), abs=1e-9)
    assert one.value <= one.bound <= one.value + 1e-8 and two.value <= two.bound <= two.value + 1e-8


@settings(max_examples=15)
@given(seeds, st.sampled_from([0.3, math.log(2), 1.0]))
def test_cones_in_which_many_facets_meet_are_listed_too(seed, epsilon):
    """Few counts and rows that occur twice: rays lie on the planes of later cuts."""
    counts = np.random.default_rng(seed).integers(0, 3, (3, 4)) + np.eye(3, 4)
    p = np.concatenate([counts, counts[:1] + counts[1:2]]) / (2 * counts[:2].sum() + counts[2].sum())
    p = p[:, p.sum(0) > 0]
    one, two = best_lip(p, epsilon), best_ldp(p, epsilon)
    assert one.status == two.status == "all extreme rays"
    assert one.value == pytest.approx(by_all_bases(p.sum(0), lip_rows(p, epsilon)), abs=1e-9)
    assert two.value == pytest.approx(by_all_bases(p.sum(0), pair_rows(p, epsilon)), abs=1e-9)
    assert one.value <= one.bound <= one.value + 1e-8 and two.value <= two.bound <= two.value + 1e-8


@settings(max_examples=15)
@given(joints(empty_cells=True), epsilons)
def test_sealed_funnel_designs_keep_their_promise_and_their_value(joint, epsilon):
    for method, notion in (("lip", sf.LIP(joint)), ("ldp", sf.LDP(joint))):
        made = sf.design(sf.Exactly(joint), epsilon=epsilon, method=method)
        assert made.mechanism.reads == "useful" and made.certificate.holds
        assert sf.level(made.mechanism, notion) <= epsilon + 1e-12
        assert made.bound - made.value < 1e-5 and made.value <= made.bound + 1e-12
        assert made.value <= made.ceiling + 1e-9
        grr = sf.design(sf.Exactly(joint), epsilon, "grr", notion="lip" if method == "lip" else "rldp", reads="useful")
        assert made.bound >= grr.value - 1e-9


@settings(max_examples=5)
@given(seeds, epsilons)
def test_columns_agree_with_rays(seed, epsilon):
    p = table(seed, 3, 6)
    for best, rows, extra in ((best_lip, lip_rows, 0), (best_ldp, ldp_rows, 1)):
        exact = best(p, epsilon)
        found = generated(p.sum(0), rows(p, epsilon), Budget.of(20), extra=extra)
        assert found.bound >= exact.value - 1e-9 and found.value <= exact.bound + 1e-9
        assert found.bound - exact.value < 1e-5


def test_an_empty_node_is_dropped_only_on_a_farkas_certificate():
    piece = Slice(np.array([[1.0, -1.0, 0.0]]))  # v₀ ≤ v₁
    none, bound = piece.best(np.ones(3), np.array([0.6, 0.0, 0.0]), np.array([1.0, 0.3, 1.0]))
    assert none is None and bound < -1e6
    piece.lp.ray = lambda: None  # there is none: the bound without rows stands
    none, bound = piece.best(np.array([2.0, 1.0, 0.5]), np.array([0.6, 0.0, 0.0]), np.array([1.0, 0.3, 1.0]))
    assert none is None and bound >= 2.0


@settings(max_examples=15)
@given(joints(), epsilons)
def test_ldp_implies_lip_implies_twice_ldp_and_the_secret_information_is_small(joint, epsilon):
    made = sf.design(sf.Exactly(joint), epsilon=epsilon, method="lip")
    other = sf.design(sf.Exactly(joint), epsilon=epsilon, method="ldp")
    assert sf.level(made.mechanism, sf.LDP(joint)) <= 2 * epsilon + 1e-9
    assert sf.level(other.mechanism, sf.LIP(joint)) <= epsilon + 1e-9
    assert made.information.secret <= epsilon + 1e-12


@settings(max_examples=15)
@given(joints(secrets=(2, 3), useful=(2, 5), largest=60))
def test_perfect_privacy_is_exact_in_the_integers(joint):
    for method in ("lip", "ldp"):
        made = sf.design(sf.Exactly(joint), epsilon=0, method=method)
        assert made.certificate.level == 0.0
        assert made.value <= made.bound + 1e-12
        assert made.value >= made.bound - 1e-3


def test_perfect_privacy_tells_something_when_values_outnumber_secrets():
    joint = sf.Joint.from_counts(np.random.default_rng(3).integers(1, 400, (2, 5)))
    made = sf.design(sf.Exactly(joint), epsilon=0, method="lip")
    assert made.certificate.level == 0.0 and made.value > 0.1 and made.gap < 1e-5


@given(st.lists(st.lists(st.integers(-40, 40), min_size=5, max_size=5), min_size=1, max_size=3))
def test_lattice_vectors_satisfy_their_equations_and_span(equations):
    basis = reduced(kernel(equations, 5))
    assert all(sum(a * b for a, b in zip(e, v, strict=True)) == 0 for e in equations for v in basis)
    assert len(basis) == 5 - np.linalg.matrix_rank(np.array(equations))


DEGENERATE = {
    "independent": [[6, 9, 15], [14, 21, 35]],
    "S a function of X": [[2, 3, 0], [0, 0, 5]],
    "zero cells": [[2, 3, 0], [1, 0, 4]],
    "a value that never occurs": [[4, 0, 1], [3, 0, 2]],
    "one value": [[5], [5]],
    "one secret": [[2, 3, 5]],
    "an empty secret": [[2, 3, 5], [0, 0, 0], [1, 1, 4]],
}


@pytest.mark.parametrize("counts", DEGENERATE.values(), ids=DEGENERATE.keys())
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_degenerate_tables(counts, epsilon):
    joint = sf.Joint.from_counts(counts)
    for method in ("lip", "ldp", "srlip"):
        made = sf.design(sf.Exactly(joint), epsilon=epsilon, method=method)
        assert made.certificate.holds and made.value <= made.bound + 1e-12
        assert made.bound - made.value < 1e-6 * max(1, made.bound) + 1e-7
        assert np.allclose(made.mechanism.matrix.sum(0), 1)


def test_independent_secrets_cost_nothing():
    joint = sf.Joint.from_counts([[6, 9, 15], [14, 21, 35]])
    made = sf.design(sf.Exactly(joint), epsilon=0, method="lip")
    assert made.value == pytest.approx(joint.entropy_useful, abs=1e-9)


@pytest.mark.parametrize("method", ["grr", "oue", "sue", "cr"])
def test_calibration_is_monotone(method):
    joint = sf.datasets.adult("marital-status", "relationship")
    reads = "both" if method == "cr" else "useful"
    for notion in ("lip", "rldp"):
        made = [sf.design(sf.Exactly(joint), e, method, notion=notion, reads=reads) for e in (0.2, 0.6, 1.0, 1.8)]
        strength = [m.details["strength"] for m in made]
        assert strength == sorted(strength)
        assert [m.value for m in made] == sorted(m.value for m in made)


def first_counterexample():
    """S fair, X¹ = X² = X; S = 0 → X = 1; S = 1 → X uniform on {0, 2}; both mechanisms P(Y = 1|X) = 0, ½, 1."""
    p = np.zeros((2, 3, 3))
    p[0, 1, 1], p[1, 0, 0], p[1, 2, 2] = 0.5, 0.25, 0.25
    return p, np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]])


def second_counterexample():
    p = np.array([[[0.53, 0.01], [0.01, 0.01]], [[0.36, 0.0165], [0.0165, 0.047]]])
    return p / p.sum(), np.array([[0.94, 0.06], [0.5, 0.5]]).T


@pytest.mark.parametrize(
    "case, level, each", [(first_counterexample, math.inf, 0.0), (second_counterexample, 0.755897, 0.252312)]
)
def test_counterexamples_to_theorem_4(case, level, each):
    p, q = case()
    joint = several(p)
    pair = sf.Tabular(np.kron(q, q), joint=joint, reads="useful")
    assert product_level(p, [q, q]) == pytest.approx(level, abs=1e-6)
    assert sf.level(pair, sf.SRLIP(joint)) == pytest.approx(level, abs=1e-6)
    silent = np.ones((1, p.shape[1]))
    for one in ([q, silent], [silent, q]):  # each mechanism alone, given any x^J: what Theorem 4 adds up
        assert product_level(p, one) == pytest.approx(each, abs=1e-6)
    found = certificate(replace(sealed(pair), claim=Claim("srlip", 2 * each + 0.1, sf.Exactly(joint))))
    assert found.level == pytest.approx(level, abs=1e-6) and not found.holds


@settings(max_examples=10)
@given(seeds, epsilons, st.sampled_from([(2, 2, 2), (2, 2, 3), (3, 2, 2), (2, 2, 2, 2)]), st.sampled_from([0.3, 1.0]))
def test_product_designs_keep_their_level(seed, epsilon, shape, concentration):
    p = np.maximum(table(seed, *shape, concentration=concentration), 1e-9)
    p /= p.sum()
    count = len(shape) - 1
    bare = product(p, sequential(p, [epsilon / count] * count, range(count)), product_level)
    best = best_product(p, epsilon, product_level, starts=1)
    assert bare.level <= epsilon + 1e-9
    assert best.level <= epsilon and best.value >= bare.value - 1e-9


@settings(max_examples=6)
@given(seeds, epsilons)
def test_srlip_certificates_agree_with_levels_and_files_keep_them(tmp_path_factory, seed, epsilon):
    joint = several(np.maximum(table(seed, 2, 2, 3), 1e-6))
    made = sf.design(sf.Exactly(joint), epsilon=epsilon, method="srlip", joint=False)
    assert made.certificate.holds
    assert sf.level(made.mechanism, sf.SRLIP(joint)) == pytest.approx(made.certificate.level, abs=1e-9)
    assert sf.level(made.mechanism, sf.LIP(joint)) <= made.certificate.level + 1e-12
    path = tmp_path_factory.mktemp("m") / "m.json"
    made.mechanism.save(path)
    assert sf.verify(path).level == made.certificate.level


def test_srlip_of_one_column_is_lip():
    joint = sf.Joint.from_counts([[3, 1, 7], [1, 5, 2]])
    made = sf.design(sf.Exactly(joint), epsilon=0.7, method="lip")
    alone, known = (sf.level(made.mechanism, notion) for notion in (sf.LIP(joint), sf.SRLIP(joint)))
    assert known == pytest.approx(alone, abs=1e-12)


def test_a_joint_design_is_at_least_as_informative_as_a_product():
    p = table(1, 2, 2, 3)
    whole, parts = joint_design(p, 1.0, Budget.of(10)), best_product(p, 1.0, product_level)
    assert sf.level(sf.Tabular(whole.matrix, joint=several(p), reads="useful"), sf.SRLIP(several(p))) <= 1.0 + 1e-12
    assert parts.value <= whole.bound + 1e-9
    made = sf.design(sf.Exactly(several(p)), epsilon=1, method="srlip")
    assert made.value == pytest.approx(max(whole.value, parts.value), rel=1e-4)


def test_the_papers_product_can_leak_and_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    tables = [np.maximum(rng.dirichlet(np.full(8, 0.1)), 1e-9).reshape(2, 2, 2) for _ in range(60)]
    worst = max(tables, key=lambda p: paper_product(p, 0.5, product_level).level)
    joint = several(worst)
    made = sf.design(sf.Exactly(joint), epsilon=0.5, method="srlip-paper")
    assert made.certificate.level > 0.5 and not made.certificate.holds
    assert made.details["true_level"] == made.certificate.level
    rows = tmp_path / "rows.csv"
    rows.write_text("secret,x0,x1\n0,0,1\n1,1,0\n")
    with pytest.raises(ClaimError, match="proved only"):
        sf.release(rows, made.mechanism, to=tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def inside(ball, p):
    seen = ball.joint.p > 0
    return (ball.joint.p[seen] ** 2 / p[seen]).sum() <= (1 + ball.radius) * (1 + 1e-9)


def shifts(matrix, p):
    """max |log P(y|s)/P(y)| at one distribution."""
    ps = p.sum(1)
    seen = ps > 1e-13
    given_s = matrix @ (p[seen] / ps[seen, None]).T
    mean = matrix @ p.sum(0)
    live = mean > 0
    with np.errstate(divide="ignore"):
        return float(np.abs(np.log(given_s[live] / mean[live, None])).max())


BALLS = [
    ("lip", [[90, 40, 20], [30, 60, 60]], 0.5), ("ldp", [[90, 40, 20], [30, 60, 60]], 0.5),
    ("lip", [[40, 0, 20], [30, 60, 9]], 1.0), ("lip", [[0, 0, 0], [300, 210, 140], [100, 220, 160]], 1.0),
]


@pytest.mark.parametrize("method, counts, epsilon", BALLS)
def test_robust_designs_are_private_for_every_distribution_in_the_ball(method, counts, epsilon):
    joint = sf.Joint.from_counts(counts)
    ball = sf.ChiSquareBall(joint, confidence=0.95)
    made = sf.design(ball, epsilon=epsilon, method=method)
    assert made.certificate.holds and made.certificate.within == "chi-square-ball"
    assert made.value <= made.bound + 1e-9
    assert made.bound <= sf.design(sf.Exactly(joint), epsilon=epsilon, method=method).bound + 1e-9
    rng = np.random.default_rng(0)
    q = made.mechanism.matrix
    for p in boundary_points(ball, rng, 150):
        assert inside(ball, p)
        if method == "lip":
            assert shifts(q, p) <= epsilon + 1e-9
    notion = sf.LIP(ball) if method == "lip" else sf.RLDP(ball)
    assert sf.level(made.mechanism, notion) <= epsilon
    wide = sf.design(ball, epsilon=epsilon, method="grr", notion="rldp", reads="useful")
    assert made.bound >= wide.value - 1e-9


@settings(max_examples=8)
@given(seeds, st.sampled_from([0.001, 0.02, 0.2]))
def test_proofs_over_the_ball_meet_the_worst_shift_found(seed, radius):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 200, (3, 4))
    counts[0] += 1
    joint = sf.Joint.from_counts(counts)
    ball = sf.ChiSquareBall(joint, radius=radius)
    mechanism = sealed(sf.Tabular(rng.dirichlet(np.ones(2), size=4).T, joint=joint, reads="useful"))
    level = sf.level(mechanism, sf.LIP(ball))
    nothing = Attained(math.inf, {})

    def proved(target):
        return shifts_over_ball(mechanism, joint, radius, math.exp(target), nothing).ratio < math.inf

    assert proved(level + 1e-5)
    assert not proved(level - 1e-5)
    for p in boundary_points(ball, rng, 60):
        assert shifts(mechanism.matrix, p) <= level + 1e-7


def test_the_worst_shift_lies_in_the_ball():
    rng = np.random.default_rng(5)
    joint = sf.Joint.from_counts(rng.integers(1, 50, (3, 4)))
    ball = sf.ChiSquareBall(joint)
    row = rng.random((1, 4))
    for above in (True, False):
        found = worst_shifts(ball, row, np.array([0]), np.array([above]))
        given_s, mean = float(found.given[0] @ row[0]), float((found.share[0] * found.given[0] + (1 - found.share[0]) * found.rest[0]) @ row[0])
        assert max(given_s / mean, mean / given_s) == pytest.approx(found.ratio[0], rel=1e-9)



def test_an_empty_secret_is_free_in_the_ball():
    """With P̂_s = 0 the ball lets P(X|s) be anything: LIP cannot hold below the spread of the row."""
    joint = sf.Joint.from_counts([[0, 0], [60, 40]])
    ball = sf.ChiSquareBall(joint, radius=0.01)
    mechanism = sealed(sf.Tabular([[0.8, 0.4], [0.2, 0.6]], joint=joint, reads="useful"))
    truth = sf.level(mechanism, sf.LIP(ball))
    mean = 0.2 * 0.6 + 0.6 * 0.4
    assert truth >= abs(math.log(0.2 / mean)) - 1e-6
    assert shifts_over_ball(mechanism, joint, 0.01, math.exp(truth + 1e-4), Attained(math.inf, {})).ratio < math.inf
    assert shifts_over_ball(mechanism, joint, 0.01, math.exp(truth - 1e-4), Attained(math.inf, {})).ratio == math.inf


@given(st.lists(st.integers(-6, 6), min_size=5, max_size=5), st.integers(0, 3), st.integers(1, 4))
def test_bernstein_coefficients_never_call_a_negative_quartic_positive(quartic, left, width):
    if _not_negative([Fraction(c) for c in quartic], float(left), float(left + width)):
        x = np.linspace(left, left + width, 101)
        assert (sum(c * x**i for i, c in enumerate(quartic)) >= -1e-9).all()
    if _not_negative([Fraction(c) for c in quartic], float(left), math.inf):
        x = left + np.geomspace(1e-6, 1e4, 200)
        assert (sum(c * (x / (1 + x)) ** i * (1 / (1 + x)) ** (4 - i) for i, c in enumerate(quartic)) >= -1e-9).all()


@pytest.mark.parametrize("budget", [0.0, 0.02, 10.0])
def test_the_average_case_funnel_respects_its_budget_and_says_what_it_is(budget):
    joint = sf.Joint.from_counts(np.random.default_rng(4).integers(1, 90, (3, 5)))
    made = sf.design(sf.Exactly(joint), epsilon=budget, method="mi-funnel", time_limit=0.5)
    assert made.information.secret <= made.certificate.level + 1e-12 <= budget + 1e-9
    assert made.value <= made.bound + 1e-9
    assert "average" in made.mechanism.claim.sentence
    assert made.certificate.elsewhere["the worst output (LIP)"] >= made.certificate.level - 1e-12


@pytest.mark.parametrize("method", ["lip", "ldp", "srlip", "srlip-paper", "mi-funnel"])
def test_funnel_methods_name_the_sets_they_cannot_design_for(method):
    joint = sf.Joint.from_counts([[3, 1], [1, 2]])
    with pytest.raises(InputError):
        sf.design(sf.Anything(joint), epsilon=1, method=method)


def test_perfect_privacy_says_where_probabilities_have_too_many_digits_for_it():
    p = np.random.default_rng(0).dirichlet(np.ones(12)).reshape(3, 4)
    exact = sf.design(sf.Exactly(sf.Joint.from_probabilities(p)), 0.0, "lip")
    near = sf.design(sf.Exactly(sf.Joint.from_probabilities(p)), 1e-9, "lip")
    counted = sf.design(sf.Exactly(sf.Joint.from_counts((1e4 * p).astype(int))), 0.0, "lip")
    assert exact.epsilon == 0 and exact.value == 0 and any("digits" in x for x in exact.notes)
    assert min(near.value, counted.value) > 0.9 * exact.bound and not any("digits" in x for x in counted.notes)
