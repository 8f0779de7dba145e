"""Distortion: the four problems, their bounds, outputs that are values, and the road through release and estimate."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from tests.strategies import boundary_points, realised

import sfumato as sf
from sfumato.designers.base import Task
from sfumato.designers.distances import letters, measured
from sfumato.designers.distortion import problem_of
from sfumato.optimise.budget import Budget
from sfumato.optimise.loss.least_loss import into_pairs, solve_by_cones, solve_by_cuts, solve_by_growing_cones
from sfumato.optimise.loss.problem import LossProblem, all_pairs, mended
from sfumato.uncertainty.power_tilting import divergence_at, greatest_mean

FOUR = [(a, b) for a in (False, True) for b in (False, True)]


def squares(u, y=None):
    return np.subtract.outer(np.arange(u), np.linspace(0, u - 1, y or u)) ** 2.0


def sampled(seed, s=3, u=4, n=200, weight=0.5):
    rng = np.random.default_rng(seed)
    return sf.Joint.from_counts(rng.multinomial(n, rng.dirichlet(np.full(s * u, weight))).reshape(s, u))


def over(ball, epsilon=0.5, robust_utility=False):
    """The problem of squares, with privacy over the ball."""
    return LossProblem(ball, ball if robust_utility else sf.Exactly(ball.joint), epsilon, squares(ball.joint.shape[1]))


def worst_ratio(problem, q):
    return problem.worst(q)[1].ratio.max(initial=1.0)


def designed(ball, epsilon=0.5, robust=(True, False), **options):
    options.setdefault("values", range(ball.joint.useful.size))
    return sf.design(ball, epsilon, "distortion", robust_privacy=robust[0], robust_utility=robust[1], **options)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([30, 75, 1000, 10**5]), st.booleans())
def test_members_of_a_worst_pair_lie_in_the_ball_also_when_rows_are_tied(seed, n, tied):
    joint = sampled(seed, n=n)
    problem = over(sf.ChiSquareBall(joint))
    mass, slack = problem.marginal, problem.slack
    q = np.random.default_rng(seed).dirichlet(np.ones(3), size=(3, 4)).transpose(2, 0, 1)
    q = 0.9 * np.round(q * 1.4) + 0.1 / 3 if tied else q
    (y, s1, s2), worst = problem.worst(q, all_pairs(3, 3))

    def size(r, s):
        return np.sqrt(np.where(joint.p[s] > 0, joint.p[s] ** 2 / np.maximum(r, 1e-300), 0).sum(1))

    room = slack + mass[s1] + mass[s2]
    assert np.all(size(worst.first, s1) + size(worst.second, s2) <= room + 1e-9)

    def extreme(s, sign, share):
        limit = divergence_at(2 * slack * share, mass[s], 2.0)
        return sign * greatest_mean(sign * q[y, s], joint.useful_given_secret[s], limit, 2.0).value

    splits = np.sin(np.linspace(0.1, 1.47, 8)) ** 2
    grid = np.max([extreme(s1, 1, x) / extreme(s2, -1, 1 - x) for x in splits], axis=0)
    assert np.all(grid <= worst.ratio * (1 + 1e-6)) and np.all(grid >= worst.ratio * 0.95)


def test_the_worst_pair_agrees_with_brute_force():
    joint = sampled(5, 2, 3, 60)
    problem = over(sf.ChiSquareBall(joint))
    q = np.random.default_rng(5).dirichlet(np.ones(2), size=(2, 3)).transpose(2, 0, 1)
    found = problem.worst(q, (np.array([0]), np.array([0]), np.array([1])))[1].ratio[0]

    def soft(v):
        return np.exp(v - v.max()) / np.exp(v - v.max()).sum()

    def size(p, r):
        return np.sqrt((p**2 / r).sum())

    best = 0.0
    for start in range(5):
        x0 = np.log(joint.useful_given_secret + 0.02).ravel() + 0.1 * np.random.default_rng(start).normal(size=6)
        inside = {"type": "ineq", "fun": lambda v: problem.slack + 1.0 - size(joint.p[0], soft(v[:3])) - size(joint.p[1], soft(v[3:]))}
        tried = minimize(lambda v: -np.log(soft(v[:3]) @ q[0, 0] / (soft(v[3:]) @ q[0, 1])), x0, constraints=[inside], method="SLSQP")
        best = max(best, np.exp(-tried.fun)) if inside["fun"](tried.x) >= -1e-7 else best
    assert np.isclose(found, best, rtol=1e-4)


@pytest.mark.parametrize("robust", FOUR)
@pytest.mark.parametrize("n", [75, 15_000])
def test_every_problem_is_certified_and_primal_and_dual_agree(robust, n):
    joint = sampled(n, 3, 5, n)
    ball = sf.ChiSquareBall(joint)
    made = designed(ball, robust=robust)
    assert made.certificate.holds and made.certificate.level <= 0.5
    assert made.certificate.within == ("chi-square-ball" if robust[0] else "exactly")
    assert made.bound <= made.value * (1 + 1e-9) and made.gap <= 1e-4
    if robust[1]:
        rows = made.mechanism.matrix.reshape(-1, *joint.shape)
        loss = np.einsum("ysu,uy->su", rows, made.details["distance"])
        assert all((p * loss).sum() <= made.value + 1e-12 for p in boundary_points(ball, np.random.default_rng(0), 20))


def test_robust_privacy_holds_at_every_distribution_in_the_ball():
    ball = sf.ChiSquareBall(sampled(2, n=75))
    made = designed(ball)
    assert max(realised(made.mechanism, p) for p in boundary_points(ball, np.random.default_rng(1))) <= 0.5


def test_robust_costs_more_and_the_four_coincide_at_radius_zero():
    joint = sampled(11)
    value = {r: designed(sf.ChiSquareBall(joint), robust=r).value for r in FOUR}
    slack = 1e-5
    assert value[False, False] <= min(value[False, True], value[True, False]) + slack
    assert max(value[False, True], value[True, False]) <= value[True, True] + slack
    assert np.ptp([designed(sf.ChiSquareBall(joint, radius=0.0), robust=r).value for r in FOUR]) <= 1e-6


def test_distortion_falls_in_epsilon_and_in_n():
    joint = sampled(3, n=400)
    ball = sf.ChiSquareBall(joint)
    by_level = [designed(ball, e).value for e in (0.0, 0.1, 0.3, 1.0, 2.0)]
    by_n = [designed(sf.ChiSquareBall(joint, radius=ball.radius / k)).value for k in (1, 10, 100)]
    assert all(a >= b - 1e-5 for values in (by_level, by_n) for a, b in itertools.pairwise(values))


def test_cones_and_cuts_agree():
    for seed in range(3):
        joint = sampled(seed, n=3000)
        problem = over(sf.ChiSquareBall(joint), 0.7, bool(seed % 2))
        cut, cone = solve_by_cuts(problem, tolerance=1e-4, budget=Budget.of(10)), solve_by_cones(problem)
        assert cut.bound <= cone.value * (1 + 1e-7) and cone.bound <= cut.value * (1 + 1e-7)
        assert np.isclose(cut.value, cone.value, rtol=1e-3)


def test_cuts_do_not_end_where_a_round_only_brings_a_source():
    """The optimum of the relaxation was not unique, and its value stayed where it was for a round."""
    ball = sf.ChiSquareBall(sf.Joint.from_counts([[5, 0, 2], [0, 4, 0], [0, 0, 0]]))
    cut, cone = (designed(ball, robust=(False, True), engine=engine) for engine in ("cuts", "cones"))
    assert np.isclose(cut.value, cone.value, rtol=1e-4) and cut.gap < 1e-4


@pytest.mark.parametrize("kind", [sf.Anything, sf.Exactly, sf.ChiSquareBall])
def test_programmes_that_are_broken_off_leave_a_private_law_and_a_bound(kind):
    joint = sf.Joint.from_counts(np.random.default_rng(4).integers(1, 60, (4, 5)))
    problem = problem_of(Task(kind(joint), 1.0), measured(joint.useful, "squared", None, None), (True, False))
    ended, whole = solve_by_cuts(problem, budget=Budget.of(0.0)), solve_by_cuts(problem)

    assert ended.bound <= whole.value + 1e-9 and ended.value >= whole.bound - 1e-9
    assert problem.worst(ended.q)[1].ratio.max() <= np.exp(1.0) and ended.q.sum(0) == pytest.approx(1.0)
    constant = problem.distortion(np.eye(5)[:, [0]].repeat(20, 1))[0]
    assert ended.value <= constant + 1e-9


def test_cones_of_some_pairs_prove_as_much_as_those_of_all():
    for seed in range(2):
        joint = sampled(seed, 4, 4, 5000)
        problem = over(sf.ChiSquareBall(joint), 0.5, bool(seed))
        some, every = solve_by_growing_cones(problem), solve_by_cones(problem)
        assert np.isclose(some.value, every.value, rtol=1e-5) and some.value - some.bound <= 1e-5 * some.value
        halves = solve_by_cones(problem, exact=np.zeros(4 * 12, dtype=bool))
        assert halves.bound <= every.value * (1 + 1e-9)  # a relaxation: its bound holds, its answer is mended
        assert worst_ratio(problem, halves.q) <= np.exp(0.5)


def test_bounds_that_cones_leave_loose_are_proved_by_cuts():
    """119 rows of one secret beside 14,024 of another: the multipliers of the cones alone prove 6e-4 at best."""
    joint = sf.Joint.from_counts([[6, 13, 10, 35, 55], [9, 336, 92, 344, 76], [7034, 950, 1682, 136, 4222]])
    ball = sf.ChiSquareBall(joint, confidence=0.95)
    problem = problem_of(Task(ball, 0.5), measured(joint.useful, "squared", range(5)), (True, True))
    alone = solve_by_cones(problem)
    made = designed(ball, robust=(True, True), tolerance=1e-5)
    assert alone.value - alone.bound > 1e-4 * alone.value and made.gap <= 2e-5 and made.certificate.level <= 0.5


def test_multipliers_that_mean_nothing_become_members_of_the_ball_too():
    """All of the price on one cell is far outside a small ball: only P̂ itself is inside on the way there, and a row
    from further out is no member; cuts that began with it proved 1.3e-4 more than was reached on a 10 × 20 table."""
    joint = sf.Joint.from_counts([[1000, 2000, 2000], [3000, 1000, 1000]])
    problem, spike = over(sf.ChiSquareBall(joint, radius=2e-4)), np.eye(3)[:1]
    rows, _ = into_pairs(problem, (np.array([0]), np.array([0]), np.array([1])), spike, spike)
    first, second = rows.toarray()[0, :6].reshape(2, 3) / [[1.0], [-np.exp(0.5)]]
    size = sum(np.sqrt((joint.p[s] ** 2 / r).sum()) for s, r in ((0, first), (1, second)))
    assert size <= problem.slack + 1.0


def test_the_answers_of_a_curve_are_those_of_its_levels_one_by_one():
    ball = sf.ChiSquareBall(sampled(5, 3, 4, 4000))
    for robust in (True, False):
        curve = sf.tradeoff(ball, (1.7, 0.2, 0.6), values=range(4), robust_privacy=robust, robust_utility=True, tolerance=1e-5)
        base = replace(over(ball, robust_utility=True), within=ball if robust else sf.Exactly(ball.joint))
        for epsilon, value, bound in zip((0.2, 0.6, 1.7), curve.value, curve.bound, strict=True):
            alone = solve_by_cones(replace(base, epsilon=epsilon))
            assert np.isclose(value, alone.value, rtol=1e-5) and bound <= alone.value * (1 + 1e-9)
            assert value - bound <= 1e-5 * value


def test_small_balls_do_not_blunt_the_cones():
    joint = sampled(4, n=10**6)
    problem = LossProblem(sf.ChiSquareBall(joint), sf.Exactly(joint), 0.3, squares(4) / 3)
    found = solve_by_cones(problem)
    assert found.value - found.bound <= 2e-6 * found.value


def ldp_by_hand(p, d, e, robust):
    """Least loss with Q(y|s1,u) ≤ e·Q(y|s2,u') for all s1 ≠ s2, row by row."""
    (ss, us), ys = p.shape, d.shape[1]
    rows = []
    for y, s1, s2, a, b in itertools.product(range(ys), range(ss), range(ss), range(us), range(us)):
        if s1 != s2:
            row = np.zeros((ys, ss, us))
            row[y, s1, a], row[y, s2, b] = 1, -e
            rows.append(np.append(row.ravel(), 0))
    for s, u in itertools.product(range(ss), range(us)):
        row = np.zeros((ys, ss, us))
        row[:, s, u] = d[u]
        rows.append(np.append(row.ravel(), -1))
    cost = np.append(np.zeros(ys * p.size), 1) if robust else np.append((p[None] * d.T[:, None, :]).ravel(), 0)
    sums = np.hstack([np.tile(np.eye(p.size), ys), np.zeros((p.size, 1))])
    return linprog(cost, np.array(rows), np.zeros(len(rows)), sums, np.ones(p.size), method="highs").fun


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_over_anything_it_is_the_linear_programme_of_all_inputs_with_different_secrets(epsilon, robust):
    joint = sampled(9, 3, 3, 300, weight=2.0)
    made = sf.design(sf.Anything(joint), epsilon, "distortion", values=range(3), robust_utility=robust)
    best = ldp_by_hand(joint.p, squares(3), np.exp(epsilon), robust)
    assert made.certificate.within == "anything" and made.certificate.level <= epsilon
    assert made.bound <= best + 1e-9 and np.isclose(made.value, best, rtol=1e-7) and made.gap < 1e-7


def test_auto_takes_distortion_when_asked_for_nearness_and_says_why():
    ball = sf.ChiSquareBall(sampled(5, 2, 3, 500))
    made = sf.design(ball, 1.0, values=[0, 1, 2])
    assert made.method == "distortion" and any("auto took distortion" in note for note in made.notes)
    assert sf.design(ball, 1.0, values=None, aim="information").method != "distortion"


def test_chosen_outputs_are_apart():
    made = designed(sf.ChiSquareBall(sampled(6, 2, 4, 2000)), outputs="chosen")
    assert np.diff(np.sort(made.details["points"])).min() > 1e-3 * 3


def test_the_non_robust_problem_is_a_plain_linear_programme():
    joint = sampled(8, 2, 3)
    p, e = joint.p, np.exp(0.4)
    given, rows = p / p.sum(1, keepdims=True), []
    for y in range(3):
        for a, b in ((0, 1), (1, 0)):
            row = np.zeros((3, 2, 3))
            row[y, a], row[y, b] = given[a], -e * given[b]
            rows.append(row.ravel())
    cost = (p[None] * squares(3).T[:, None, :]).ravel()
    plain = linprog(cost, np.array(rows), np.zeros(len(rows)), np.tile(np.eye(6), 3), np.ones(6), method="highs")
    assert np.isclose(designed(sf.ChiSquareBall(joint), 0.4, (False, False)).value, plain.fun, atol=1e-6)


def test_brute_force_finds_nothing_better_on_a_tiny_shape():
    joint = sf.Joint.from_counts([[30, 10], [15, 45]])
    ball = sf.ChiSquareBall(joint)
    made = designed(ball, 0.8)
    grid = np.linspace(0, 1, 9)
    best = np.inf
    for a, b in np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2):  # P(Y = 1 | s = 0, u)
        for c, d in np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2):
            one = np.array([[a, b], [c, d]])
            cost = (joint.p * np.array([[a, 1 - b], [c, 1 - d]])).sum()
            if cost < min(best, made.value * 0.999):
                q = np.stack([1 - one, one])
                best = cost if worst_ratio(over(ball), q) <= np.exp(0.8) else best
    assert best == np.inf


def test_sealing_repairs_ghost_outputs_and_any_matrix():
    joint = sampled(1, n=75)
    problem = over(sf.ChiSquareBall(joint))
    q = np.random.default_rng(2).dirichlet(np.ones(4), size=12).T
    q[3] *= 1e-9
    fixed = mended(problem, q / q.sum(0))
    assert fixed[3].max() == 0 and np.allclose(fixed.sum(0), 1)
    assert worst_ratio(problem, fixed) <= np.exp(0.5)


def test_empty_secrets_and_level_zero():
    counts = np.array(sampled(4).counts)
    counts[2] = 0
    ball = sf.ChiSquareBall(sf.Joint.from_counts(counts))
    assert designed(ball, robust=(True, True)).gap < 1e-4
    still = designed(ball, 0.0, (True, True))
    assert still.certificate.level == 0 and np.ptp(still.mechanism.matrix, axis=1).max() == 0 and still.gap < 1e-6


@pytest.mark.parametrize("engine", ["cuts", "cones"])
def test_at_level_zero_about_one_distribution_means_that_are_equal_in_floats_are_not_believed(engine):
    """The laws of the useful value must be equal themselves, and then nothing is lost."""
    made = designed(sf.ChiSquareBall(sf.Joint.from_counts([[50, 3], [2, 41]])), 0.0, (False, True), engine=engine)
    assert made.certificate.level == 0 and np.ptp(made.mechanism.matrix, axis=1).max() == 0
    alike = designed(sf.ChiSquareBall(sf.Joint.from_counts([[4, 4, 8], [2, 2, 4]])), 0.0, (False, True), engine=engine)
    assert alike.certificate.level == 0 and (alike.value < 1e-6 or engine == "cones")


def test_a_secret_with_a_single_value_is_proved_as_sharply_as_it_is_searched():
    """All slack goes to the other secret there, so the multiplier of this one is free: the dual point must be balanced."""
    joint = sf.Joint.from_counts([[1, 9, 13, 11, 8], [0, 0, 0, 9, 0], [18, 4, 0, 0, 2]])
    made = designed(sf.ChiSquareBall(joint), robust=(True, True))
    assert made.certificate.holds and made.gap < 1e-4
    assert abs(made.certificate.level - sf.level(made.mechanism, sf.RLDP(sf.ChiSquareBall(joint)))) < 1e-8


def test_outputs_may_differ_from_the_useful_values():
    ball = sf.ChiSquareBall(sampled(6, 2, 4, 2000))
    own, finer, free = designed(ball), designed(ball, outputs=7), designed(ball, outputs="chosen")
    assert free.value <= own.value + 1e-6 and finer.value <= own.value + 1e-6
    assert designed(ball, outputs=[0, 3]).mechanism.symbols.labels == ("0", "3")
    assert designed(ball, reads="useful").mechanism.reads == "useful"


def test_distances_by_name_matrix_and_function_are_the_same():
    ball = sf.ChiSquareBall(sampled(7))
    values = [designed(ball, **kw).value for kw in (
        {"distance": "absolute"}, {"distance": np.abs(np.subtract.outer(range(4), range(4))), "values": None},
        {"distance": lambda u, y: abs(u - y)}, {"distance": lambda u, y: abs(int(u) - int(y)), "values": None})]
    assert np.ptp(values) <= 1e-6
    assert 0 <= designed(ball, distance="hamming", values=None).value <= 1


def test_the_dual_view_inverts_the_distortion_and_the_curve_agrees():
    ball = sf.ChiSquareBall(sampled(6, 2, 3, 3000))
    made = designed(ball)
    found = sf.least_epsilon(ball, made.value * (1 + 1e-6), "squared", values=range(3), tolerance=1e-2)
    assert found.bound <= 0.5 + 1e-6 <= found.epsilon * 1.02 and found.distortion <= made.value * (1 + 1e-6)
    assert found.mechanism.claim.epsilon == found.epsilon and found.source_class is None
    curve = sf.tradeoff(ball, [0.25, 0.5, 1.0], values=range(3))
    assert np.isclose(curve.value[1], made.value, rtol=1e-3) and np.all(np.diff(curve.value) <= 1e-9)
    assert np.all(curve.bound <= curve.value + 1e-9) and curve.least_epsilon(made.value * 1.001) == (0.5, 0.25)


def test_bins_have_representatives_and_names():
    column = sf.Column.of("age", cuts=[20, 40, 60])
    useful = sf.Alphabet.of(column)
    assert letters(useful).tolist() == [10, 30, 50, 70]
    assert measured(useful, "squared").answers.labels == column.labels
    assert measured(useful, "squared", outputs=4).answers.labels == ("10", "30", "50", "70")


def test_a_number_of_outputs_is_for_values_that_are_numbers():
    with pytest.raises(sf.InputError, match="listed where values are no numbers, got 3"):
        measured(sf.Alphabet.named("town", 4), "hamming", outputs=3)


def test_released_values_carry_names_through_file_release_and_estimate(tmp_path):
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 4000)
    rows = {"ill": np.where(s, "yes", "no").tolist(), "age": (30 + 20 * s + rng.integers(0, 30, 4000)).tolist()}
    import pyarrow as pa

    rows = pa.table(rows)
    joint = sf.tabulate(rows, secret="ill", useful=["age"], bins={"age": [40, 50, 60]})
    made = sf.design(sf.ChiSquareBall(joint), 1.0, "distortion", outputs=4)
    again = sf.load(made.mechanism.save(tmp_path / "m.json"))
    assert again.symbols == made.mechanism.symbols and again.respond("yes", 45) in again.symbols.labels
    out = sf.release(rows, again, to=tmp_path / "out.csv", seed=1)
    assert (out.path.read_text().splitlines()[0], out.manifest.columns[0].role) == ("age", "useful")
    found = sf.numbers(sf.estimate(out.path, again))
    truth = letters(joint.useful) @ joint.p_useful
    assert found.mean.low <= truth <= found.mean.high and found.mean.low < found.mean.estimate < found.mean.high
    assert [f.low <= f.estimate <= f.high for f in (*found.quantiles.values(), *found.histogram)]


def test_numbers_cover_the_truth_when_everything_is_identified():
    joint = sf.Joint.from_counts([[400, 300, 200, 100]], useful=[0, 1, 2, 3])
    q = np.full((4, 4), 0.1) + 0.6 * np.eye(4)
    mechanism = sf.Tabular(q, useful=[0, 1, 2, 3])
    hits = 0
    for seed in range(40):
        seen = np.random.default_rng(seed).multinomial(2000, q @ joint.p_useful)
        found = sf.numbers(sf.estimate(seen, mechanism), quantiles=(0.5,))
        hits += found.mean.low <= 1.0 <= found.mean.high and found.quantiles[0.5].low <= 1 <= found.quantiles[0.5].high
    assert hits >= 36


@pytest.mark.parametrize(("options", "says"), [
    ({"distance": "euclid"}, "squared"), ({"values": [1, 2]}, "4 useful"), ({"values": [1, 2, 3, float("nan")]}, "finite"),
    ({"distance": np.ones((3, 3))}, "4 rows"), ({"distance": np.full((4, 4), np.nan)}, "finite"), ({"distance": -np.ones((4, 4))}, "negative"),
    ({"distance": np.ones(4)}, "matrix"), ({"outputs": "best"}, "chosen"), ({"outputs": 0}, "one point"), ({"engine": "mosek"}, "cones"),
    ({"distance": lambda u, y: "far"}, "number"), ({"tolerance": 0.0}, "positive"), ({"distance": "hamming", "outputs": "chosen"}, "line"),
])
def test_bad_options_are_refused(options, says):
    with pytest.raises(sf.InputError, match=says):
        designed(sf.ChiSquareBall(sampled(0)), **options)


def test_labels_that_are_no_numbers_need_values():
    joint = sf.Joint.from_counts([[3, 4], [5, 6]], useful=["low", "high"])
    with pytest.raises(sf.InputError, match="values="):
        sf.design(sf.ChiSquareBall(joint), 1.0, "distortion")
    with pytest.raises(sf.InputError, match="ball"):
        sf.design(sf.RenyiBall(joint, alpha=2, radius=0.1), 1.0, "distortion", values=[0, 1])
    with pytest.raises(sf.InputError, match="Exactly"):
        sf.design(sf.Anything(joint), 1.0, "distortion", values=[0, 1], robust_privacy=False)
    with pytest.raises(sf.InputError, match="curve needs"):
        sf.tradeoff(sf.Anything(joint), [0.5, 1.0], values=[0, 1])
    with pytest.raises(sf.InputError, match="recoverable"):
        sf.design(sf.ChiSquareBall(joint), 1.0, "distortion", values=[0, 1], recoverable=True)
    with pytest.raises(sf.InputError, match="rldp"):
        sf.design(sf.ChiSquareBall(joint), 1.0, "distortion", notion="ldp", values=[0, 1])
    assert problem_of(Task(sf.Exactly(joint), 1.0), measured(joint.useful, "squared", [0, 1]), (True, True)).privacy_radius == 0


@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 1e-7])
def test_next_to_a_level_of_nothing_the_best_constant_law_is_found_at_once(epsilon):
    """Over any distribution it mixes outputs; one output alone loses a third more."""
    joint = sf.Joint.from_counts(np.random.default_rng(4).integers(1, 60, (3, 4)))
    made = sf.design(sf.Anything(joint), epsilon, "distortion", distance="absolute", values=range(4), robust_utility=True)

    assert made.value <= made.bound * (1 + 1e-6)


def test_a_design_tells_its_bound_on_the_side_on_which_it_holds():
    joint = sf.Joint.from_counts(np.random.default_rng(4).integers(1, 60, (3, 4)))
    for method, options in (("distortion", {"values": range(4)}), ("srr", {}), ("hamming", {})):
        made = sf.design(joint, 0.5, method, **options)
        told = float(repr(made).split("bound ")[1].split(",")[0])
        assert told <= made.bound if made.unit == "of distance" else told >= made.bound


def test_inputs_that_all_secrets_share_enter_a_cut_once():
    joint = sf.Joint.from_counts([[28510, 34363, 23014, 38027, 21723], [31, 33, 23, 44, 32]])
    found = sf.design(sf.ChiSquareBall(joint, radius=0.05), 1.0, "distortion", reads="useful")
    assert found.certificate.level <= 1.0 and found.bound <= found.value
