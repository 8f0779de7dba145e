"""Optimal robust designs: private from their integers, above what they beat, below what is proved."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.strategies import boundary_points, joints, realised

import sfumato as sf
from sfumato.designers.base import Draft, Task
from sfumato.designers.choose import REGISTERED, home_of
from sfumato.designers.closed_forms import grr
from sfumato.errors import InputError
from sfumato.mechanism import Table
from sfumato.optimise.budget import Budget
from sfumato.optimise.cone import RatioCone
from sfumato.optimise.informative import most_informative
from sfumato.optimise.starts import Simplices, best_over_simplices

EXAMPLE = sf.Joint.from_counts([[7, 10], [26, 57]])  # paper 000, Examples 1 to 5
LOG2 = math.log(2)


def paper_cone(ball, epsilon, same_secret=True):
    """The rows of [000, (43)] as A·v ≤ 0."""
    low, _ = ball.spikes()
    s, u = low.shape
    rows = []
    for s1, s2, u1, u2 in itertools.product(range(s), range(s), range(u), range(u)):
        if s1 == s2 and not same_secret:
            continue
        row = np.zeros((s, u))
        row[s1, u1] += 1
        row[s1] += low[s1]
        row[s1, u1] -= low[s1].sum()
        row[s2, u2] -= math.exp(epsilon)
        row[s2] -= math.exp(epsilon) * low[s2]
        row[s2, u2] += math.exp(epsilon) * low[s2].sum()
        rows.append(row.ravel())
    return np.array(rows)


def listed_optimum(ball, epsilon, same_secret=True):
    """The paper's way: every vertex of the cone's slice {Σv = 1}, then one LP [000, Thm 3]."""
    p = ball.joint.p.ravel()
    a = np.vstack([paper_cone(ball, epsilon, same_secret), -np.eye(p.size)])
    points = []
    for active in itertools.combinations(range(len(a)), p.size - 1):
        system = np.vstack([a[list(active)], np.ones(p.size)])
        if abs(np.linalg.det(system)) > 1e-12:
            v = np.linalg.solve(system, np.append(np.zeros(p.size - 1), 1))
            if (a @ v <= 1e-10).all():
                points.append(np.maximum(v, 0))
    v = np.unique(np.round(points, 12), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mu = np.nan_to_num(v * np.log(v / (v @ p)[:, None])) @ p
    return -linprog(-mu, A_eq=v.T, b_eq=np.ones(p.size), method="highs").fun


def test_example_3_with_the_papers_cone():
    ball = sf.ChiSquareBall(EXAMPLE)
    design = sf.design(ball, LOG2, "polyopt")
    assert design.value == pytest.approx(0.422782, abs=1e-6)
    assert design.details["family"] == pytest.approx(0.422782, abs=1e-6)  # of the paper's cone
    assert design.certificate.level == pytest.approx(0.5813, abs=5e-5)
    assert listed_optimum(ball, LOG2) == pytest.approx(0.422782, abs=1e-6)
    truth = sf.Joint.from_probabilities([[0.1, 0.1], [0.2, 0.6]])
    assert sf.mutual_information(design.mechanism, truth) == pytest.approx(0.370212, abs=1e-4)  # .2804 is ε* at the truth
    assert sf.level(design.mechanism, sf.LDP(truth)) == pytest.approx(0.2804, abs=1e-3)


def test_example_3_without_the_inequalities_of_a_secret_with_itself(patient):
    ball = sf.ChiSquareBall(EXAMPLE)
    design = sf.design(ball, LOG2, "polyopt", same_secret=False)
    assert design.value == pytest.approx(0.563050, abs=2e-6)
    assert design.details["family"] == pytest.approx(0.563050, abs=1e-6)
    assert design.bound >= 0.563050  # of every mechanism that is private over the ball
    assert design.certificate.level <= LOG2 < design.certificate.level + 1e-6
    assert listed_optimum(ball, LOG2, same_secret=False) == pytest.approx(0.563050, abs=1e-6)


@given(joints(secrets=(2, 2), useful=(2, 2), empty_cells=False), st.floats(0.2, 2.0))
@settings(max_examples=12)
def test_polyopt_is_the_optimum_of_the_listed_vertices(joint, epsilon):
    ball = sf.ChiSquareBall(joint)
    design = sf.design(ball, epsilon, "polyopt")
    best = listed_optimum(ball, epsilon)
    assert design.value == pytest.approx(best, rel=2e-6, abs=1e-9)
    assert design.bound >= best - 1e-9


@given(joints(secrets=(2, 3), useful=(2, 3)), st.floats(0.2, 2.0), st.integers(0, 2**32 - 1))
@settings(max_examples=6)
def test_robust_designs_are_private_for_every_distribution_in_the_ball(joint, epsilon, seed):
    ball = sf.ChiSquareBall(joint)
    for method in ("polyopt", "ballopt"):
        design = sf.design(ball, epsilon, method)
        worst = max(realised(design.mechanism, p) for p in boundary_points(ball, np.random.default_rng(seed)))
        assert worst <= design.certificate.level + 1e-12 <= epsilon + 1e-12
        assert design.value <= design.bound * (1 + 1e-9) + 1e-12
        assert design.value <= design.ceiling + 1e-12


@pytest.mark.parametrize("pair", [("sex", "race"), ("race", "sex")])
def test_each_method_keeps_more_than_the_one_before(pair, patient):
    joint = sf.datasets.adult(*pair)
    ball = sf.ChiSquareBall(joint)
    for epsilon in (0.5, 1.5):
        values = [sf.design(ball, epsilon, m).value for m in ("srr", "ir", "polyopt", "ballopt", "nr")]
        assert values == sorted(values)
        assert values[-1] <= Task(ball, epsilon).ceiling


def test_adult_figures(patient):
    joint = sf.datasets.adult("sex", "race")
    ball = sf.ChiSquareBall(joint)
    assert sf.design(ball, 0.5, "polyopt").value / joint.entropy == pytest.approx(0.4274, abs=5e-5)
    assert sf.design(ball, 1.5, "polyopt").value / joint.entropy == pytest.approx(0.6023, abs=5e-5)
    assert sf.design(ball, 0.5, "ballopt").value / joint.entropy >= 0.468


@pytest.mark.long
def test_more_budget_more_rows_and_less_confidence_keep_more():
    joint = sf.datasets.adult("sex", "race")
    small = sf.Joint.from_counts(np.asarray(joint.counts) // 10 + 1)
    for method, how in (("polyopt", {"quick": True}), ("ir", {})):
        by_epsilon = [sf.design(sf.ChiSquareBall(joint), e, method, **how).value for e in (0.2, 0.5, 1.0, 2.0)]
        assert by_epsilon == sorted(by_epsilon)
        balls = [sf.ChiSquareBall(joint, confidence=c) for c in (0.999, 0.95, 0.5)]
        by_confidence = [sf.design(ball, 0.5, method, **how).value for ball in balls]
        assert by_confidence == sorted(by_confidence)
        by_rows = [sf.design(sf.ChiSquareBall(j), 0.5, method, **how).value / j.entropy for j in (small, joint)]
        assert by_rows == sorted(by_rows)


def test_nr_claims_the_estimate_and_no_more():
    joint = sf.datasets.adult("sex", "race")
    design = sf.design(sf.ChiSquareBall(joint), 0.5, "nr")
    assert design.mechanism.claim.within.kind == "exactly"
    assert design.certificate.elsewhere["any distribution"] > 10
    assert design.gap < 1e-6 and "only" in " ".join(design.notes)


def test_a_mechanism_that_never_reads_the_secret_can_be_optimal_too():
    joint = sf.datasets.adult("sex", "race")
    ball = sf.ChiSquareBall(joint)
    design = sf.design(ball, 0.5, "ballopt", reads="useful")
    closed = sf.design(ball, 0.5, "grr", reads="useful")
    assert design.mechanism.matrix.shape[1] == joint.useful.size
    assert design.certificate.level <= 0.5
    assert design.value > 1.5 * closed.value
    assert design.value <= design.bound * (1 + 1e-9) <= design.value * 1.01


def test_recoverable_designs_have_full_rank_at_the_stated_cost():
    joint = sf.datasets.adult("sex", "race")
    ball = sf.ChiSquareBall(joint)
    plain, full = (sf.design(ball, 0.5, "polyopt", recoverable=r) for r in (False, 0.1))
    assert not sf.recovery(plain.mechanism, joint).complete
    found = sf.recovery(full.mechanism, joint)
    assert found.complete and found.standard_errors.shape == joint.shape
    assert plain.value - full.value == pytest.approx(full.details["cost"], rel=1e-4)
    assert full.certificate.level <= 0.5


def test_recoverable_holds_where_srr_alone_is_singular():
    """At e^ε = |U| − 1 truth and lies about U weigh the same in SRR, and its matrix loses rank."""
    joint = sf.datasets.adult("sex", "race")
    plain, full = (sf.design(sf.Anything(joint), math.log(4), "srr", recoverable=r) for r in (False, True))
    assert not sf.recovery(plain.mechanism, joint).complete
    assert sf.recovery(full.mechanism, joint).complete


@pytest.mark.long
@given(joints(secrets=(2, 5), useful=(2, 3), empty_cells=False), st.floats(0.3, 2.0))
@settings(max_examples=5)
def test_ballopt_never_keeps_less_than_polyopt(joint, epsilon):
    ball = sf.ChiSquareBall(joint)
    values = [sf.design(ball, epsilon, method).value for method in ("polyopt", "ballopt")]
    assert values[0] <= values[1] * (1 + 2e-6) + 1e-9


def test_standard_errors_of_recovery_are_those_of_simulated_estimates():
    joint = sf.datasets.adult("sex", "race")
    design = sf.design(sf.ChiSquareBall(joint), 2.0, "srr")
    found = sf.recovery(design.mechanism, joint, n=20_000)
    law = design.mechanism.matrix @ joint.p.ravel()
    rng = np.random.default_rng(3)
    draws = [sf.estimate(rng.multinomial(20_000, law).reshape(joint.shape), design.mechanism, project=False).p for _ in range(300)]
    assert np.std(draws, axis=0) == pytest.approx(found.standard_errors, rel=0.2)


@given(joints(secrets=(2, 3), useful=(2, 3)), st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_the_least_information_is_enclosed(joint, seed):
    ball = sf.ChiSquareBall(joint)
    mechanism = sf.design(ball, 1.0, "srr").mechanism
    least = sf.least_information(mechanism, ball)
    assert 0 <= least.proved <= least.found + 1e-12
    q = mechanism.matrix
    for p in boundary_points(ball, np.random.default_rng(seed)):
        there = sf.mutual_information(mechanism, sf.Joint.from_probabilities(p / p.sum()))
        assert there >= least.proved - 1e-12
    assert least.found <= sf.mutual_information(mechanism, joint) + 1e-12 and q is not None


def test_auto_says_what_it_took_and_why():
    joint = sf.datasets.adult("sex", "race")
    bits = {"aim": "information"}
    design = sf.design(sf.ChiSquareBall(joint), 0.5, **bits)
    assert design.method == "ballopt" and "auto took ballopt" in design.notes[-1]
    anything = sf.Anything(joint)
    assert sf.design(anything, 0.5, **bits).value >= sf.design(anything, 0.5, "srr").value
    assert sf.design(sf.Exactly(joint), 0.5, **bits).method == "nr"
    assert "auto took precise" in sf.design(sf.ChiSquareBall(joint), 0.5).notes[-1]


@pytest.mark.parametrize(("options", "message"), [
    ({"method": "polyopt", "notion": "lip"}, "notion='rldp'"),
    ({"method": "polyopt", "time_limit": -1}, "time_limit must be a positive"),
    ({"method": "ballopt", "colour": 1}, "'colour' is not an option of ballopt"),
    ({"method": "auto", "time_limt": 1}, "'time_limt' is not an option of auto .*Did you mean 'time_limit'"),
    ({"method": "balopt"}, "Did you mean 'ballopt'"),
    ({"method": "polyopt", "recoverable": 2}, "share of answers between 0 and 1"),
])
def test_bad_requests(options, message):
    with pytest.raises(InputError, match=message):
        sf.design(sf.ChiSquareBall(EXAMPLE), 0.5, **options)


def test_an_empty_secret_gets_a_constant_row_and_the_design_stays_private():
    joint = sf.Joint.from_counts([[10, 20, 5], [30, 5, 9], [0, 0, 0]])
    ball = sf.ChiSquareBall(joint)
    for method in ("polyopt", "ballopt"):
        design = sf.design(ball, 1.0, method)
        assert design.certificate.level <= 1.0
        rows = design.mechanism.matrix.reshape(-1, 3, 3)
        assert np.allclose(rows[:, 2], rows[:, 2, :1], atol=1e-6)


@pytest.mark.parametrize("method", ["auto", "ballopt", "grr"])
def test_a_confidence_without_counts_is_refused_before_a_search(method):
    ball = sf.ChiSquareBall(sf.Joint.from_probabilities([[0.3, 0.2], [0.1, 0.4]], n=100))
    for asked in (sf.design, lambda *x: sf.designs(ball, [0.5, 1.0], method)):
        with pytest.raises(sf.ClaimError, match="needs the counts behind the ball"):
            asked(ball, 0.5, method)


def test_a_single_secret_is_refused():
    with pytest.raises(InputError, match="fewer than two secrets"):
        sf.design(sf.ChiSquareBall(sf.Joint.from_counts([[3, 4], [0, 0]])), 1.0, "polyopt")


def test_robust_utility_compares_what_is_kept_everywhere():
    joint = sf.datasets.adult("sex", "race")
    ball = sf.ChiSquareBall(joint)
    chosen = sf.design(ball, 0.5, robust_utility=True)
    assert "at every distribution in the set" in chosen.notes[-1]
    for method in ("ir", "polyopt", "ballopt"):
        assert chosen.least.proved >= sf.design(ball, 0.5, method).least.proved * (1 - 1e-6)
    assert chosen.least.proved <= chosen.least.found <= chosen.value


@given(joints((2, 3), (2, 3)), st.sampled_from([0.3, 1.0, 2.0]))
@settings(max_examples=5)
def test_asked_for_a_gap_ballopt_meets_a_bound_that_holds_for_every_private_mechanism(joint, epsilon):
    ball = sf.ChiSquareBall(joint)
    quick, best = (sf.design(ball, epsilon, "ballopt", **o) for o in ({}, {"gap": 1e-4, "time_limit": 20}))
    assert quick.value <= best.value * (1 + 1e-6) + 1e-9
    assert best.value <= best.bound + 1e-12
    assert best.bound <= sf.design(ball, epsilon, "nr").bound + 1e-9
    assert best.gap <= 1.1e-4 or best.value < 1e-3
    assert best.certificate.level <= epsilon


def test_the_best_rows_of_a_fine_grid_lie_between_what_ballopt_reaches_and_its_bound(patient):
    """Every row of four cells from a grid, private by the set's own oracle, then one LP: no cut, no ray, no tangent."""
    joint, epsilon = sf.Joint.from_counts([[70, 100], [260, 570]]), 0.7
    ball, p = sf.ChiSquareBall(joint), joint.p.ravel()
    levels = np.concatenate([[0.0], np.geomspace(0.03, 1.0, 14)])
    rows = np.array([v for v in itertools.product(levels, repeat=4) if max(v) == 1.0])
    blocks = rows.reshape(-1, 2, 2)
    private = np.ones(len(rows), bool)
    for s1, s2 in ((0, 1), (1, 0)):
        at = np.full(len(rows), s1), np.full(len(rows), s2)
        private &= ball.ratios(blocks[:, s1], blocks[:, s2], *at) <= math.exp(epsilon)
    v = rows[private]
    with np.errstate(divide="ignore", invalid="ignore"):
        mu = np.nan_to_num(v * np.log(v / (v @ p)[:, None])) @ p
    listed = -linprog(-mu, A_eq=v.T, b_eq=np.ones(4), method="highs").fun
    best = sf.design(ball, epsilon, "ballopt", gap=1e-7)
    assert best.gap < 1e-6
    assert 0.95 * best.value < listed <= best.bound


def test_cells_that_never_occur_do_not_keep_the_bound_from_being_met():
    joint = sf.Joint.from_counts([[40, 60, 0], [30, 0, 70]])
    best = sf.design(sf.ChiSquareBall(joint), 1.0, "ballopt", gap=1e-5, time_limit=20)
    assert best.gap <= 1.1e-5 and best.details["outside"] < best.details["bounds"]["point"]


def test_small_designs_have_no_more_outputs_than_inputs():
    for pair in (("sex", "race"), ("race", "sex")):
        ball = sf.ChiSquareBall(sf.datasets.adult(*pair))
        for method in ("polyopt", "ballopt", "nr"):
            assert sf.design(ball, 0.5, method).mechanism.outputs <= 10


def test_levels_elsewhere_are_the_same_whenever_they_are_read():
    design = sf.design(sf.ChiSquareBall(EXAMPLE), LOG2, "ballopt")
    again = sf.certify(design.mechanism).elsewhere
    assert dict(design.certificate.elsewhere) == dict(again) and len(again) == 3
    assert design.certificate.elsewhere == again


def test_the_split_of_ir_is_the_best_of_a_fine_list():
    from sfumato.designers.closed_forms import best_split, kept, response, strength_rule
    from sfumato.mechanism import Mechanism

    joint = sf.Joint.from_counts([[30, 5, 9], [4, 40, 2], [11, 3, 25]])
    for epsilon in (0.3, 1.0, 4.0, 12.0):
        strength = strength_rule(Task(sf.ChiSquareBall(joint, confidence=0.95), epsilon), "tight")
        splits = np.linspace(0, epsilon, 301)
        listed = [
            sf.mutual_information(
                Mechanism(response(3, 3, epsilon - x, float(strength(x))), joint.secret, joint.useful), joint
            )
            for x in splits
        ]
        np.testing.assert_allclose(kept(joint, epsilon - splits, strength(splits)), listed, atol=1e-12)
        split, value = best_split(joint, epsilon, strength)
        assert 0 <= split <= epsilon
        assert value >= max(listed) - 1e-12


@pytest.mark.parametrize("method", ["ballopt", "polyopt"])
def test_a_level_beyond_the_optimisers_is_refused_and_auto_does_without(method):
    joint = sf.Joint.from_counts([[30, 5, 9, 4], [4, 40, 2, 9]])
    ball = sf.ChiSquareBall(joint, confidence=0.95)
    with pytest.raises(InputError, match="up to ε = 12"):
        sf.design(ball, epsilon=20, method=method)
    found = sf.design(ball, epsilon=20, aim="information")
    assert found.certificate.holds and any("auto optimises up to ε = 12" in note for note in found.notes)
    assert "closed forms" in sf.design(ball, epsilon=20).notes[-1]


def test_polyopt_takes_many_useful_values():
    joint = sf.Joint.from_counts(np.arange(1, 61).reshape(2, 30))
    design = sf.design(sf.ChiSquareBall(joint, confidence=0.95), epsilon=1, method="polyopt")
    assert design.certificate.holds and design.value > sf.design(sf.ChiSquareBall(joint, confidence=0.95), 1, "grr").value


@pytest.mark.parametrize("method", ["sue", "oue"])
@pytest.mark.parametrize("epsilon", [20, 36])
def test_unary_encodings_of_many_cells_keep_no_more_than_there_is(method, epsilon):
    joint = sf.Joint.from_counts(np.random.default_rng(4).integers(1, 300, (4, 9)))
    assert 0 <= sf.design(sf.ChiSquareBall(joint, confidence=0.95), epsilon=epsilon, method=method).value <= joint.entropy


def test_a_design_whose_proof_is_a_little_loose_is_sealed_with_a_note(monkeypatch):
    joint = sf.datasets.adult("sex", "race")
    for above, sealed in ((0.01, True), (1.0, False)):
        monkeypatch.setitem(REGISTERED, "hasty", lambda task, above=above: Draft(grr(replace(task, epsilon=task.epsilon + above)).law, "hasty"))
        if sealed:
            found = sf.design(sf.Anything(joint), 1.0, "hasty")
            assert found.certificate.level <= 1.0 and any("drawn blindly" in note for note in found.notes)
        else:
            with pytest.raises(sf.ClaimError, match="could not be sealed"):
                sf.design(sf.Anything(joint), 1.0, "hasty")


@pytest.mark.parametrize(("method", "options"), [("ballopt", {}), ("precise", {}), ("pml", {"reads": "useful"}), ("lip", {})])
def test_a_search_whose_law_cannot_be_proved_ends_in_a_closed_form_and_says_so(method, options, monkeypatch):
    joint = sf.Joint.from_counts([[30, 9, 2], [4, 20, 11]])
    monkeypatch.setattr(home_of(method), method, lambda task: Draft(Table(np.eye(3 * task.rows), task.rows), method, 9.0))
    made = sf.design(joint, 0.7, method, **options)
    assert made.certificate.holds and made.method == method and any("grr is taken" in note for note in made.notes)
    assert made.value == pytest.approx(sf.design(joint, 0.7, "grr", reads=made.mechanism.reads).value, rel=1e-6)


def test_cuts_of_a_secret_against_itself_are_those_of_the_papers_cone():
    ball, rng = sf.ChiSquareBall(EXAMPLE), np.random.default_rng(0)
    cone = RatioCone(Simplices(ball), LOG2)
    rows = cone.coordinates.unit(rng.random((50, 4)))

    cuts = cone.cuts(rows, room=np.inf)

    assert np.allclose((cuts.normals * rows[cuts.y]).sum(1), cuts.excess)
    listed = paper_cone(ball, np.log(cone.E), True)
    assert np.allclose(cuts.greatest(50), np.maximum((rows @ listed.T).max(1), 0.0), atol=1e-9)


def test_the_cone_of_polyopt_is_met_from_outside_where_the_simplex_method_goes_in_circles():
    ball = sf.ChiSquareBall(sf.datasets.adult("sex", "race"))
    found = most_informative(Simplices(ball), 0.1955616238531042, Budget.counted(5.0))

    assert found.value <= found.bound <= found.value * (1 + 2e-6)
    assert found.value == pytest.approx(best_over_simplices(Simplices(ball), math.exp(0.1955616238531042))[1], rel=2e-6)


def test_designs_for_estimates_are_recoverable_as_they_are():
    joint = sf.Joint.from_counts([[40, 30, 20], [10, 50, 30]])
    plain, asked = (sf.design(sf.Anything(joint), 1.0, aim="closed", recoverable=r) for r in (False, True))

    assert asked.value == plain.value
    assert np.linalg.matrix_rank(asked.mechanism.matrix) == joint.p.size
    assert any("as it is" in note for note in asked.notes)


@pytest.mark.parametrize("options", [{"method": "hamming"}, {"method": "leakage"}, {"distance": "hamming"}])
def test_outputs_that_are_values_are_refused_as_recoverable_before_any_search(options, monkeypatch):
    joint = sf.Joint.from_counts([[40, 30, 20], [10, 50, 30]])
    monkeypatch.setattr("sfumato.designers.choose.designer", lambda method: pytest.fail(f"{method} was searched"))

    with pytest.raises(sf.InputError, match="recoverable"):
        sf.design(sf.ChiSquareBall(joint), 1.0, recoverable=True, **options)


@pytest.mark.parametrize("method", ["sue", "oue"])
@pytest.mark.parametrize("at_most", [None, 1.0])
def test_one_useful_value_read_alone_tells_nothing(method, at_most):
    joint = sf.Joint.from_counts([[3], [2]])

    assert sf.design(sf.ChiSquareBall(joint), 1.0, method, reads="useful", at_most=at_most).value == 0
