"""What the fast paths must keep: proofs that hold, values, limits on time, and the best design on an interrupt."""

import math
import time

import numpy as np
import pytest

import sfumato as sf
from sfumato.certification.renyi_proofs import RenyiBounds
from sfumato.mechanism import Atoms, Layout, Table
from sfumato.mechanism.table import _whole_mass, whole_lengths
from sfumato.optimise.bound import bound
from sfumato.optimise.budget import FREE, Budget, spent
from sfumato.optimise.cone import Coordinates
from sfumato.optimise.estimates.goal import goal
from sfumato.optimise.informative import widest
from sfumato.optimise.linear import PRIMAL, Mixture
from sfumato.optimise.product.blocks import safe, windows
from sfumato.optimise.product.two_level import Envelope, Heights, Profile, bend
from sfumato.optimise.starts import best_at_a_point
from sfumato.uncertainty.power_tilting import divergence_at, greatest_mean, worst_pairs


def random_joint(secrets, useful, n, seed=0):
    rng = np.random.default_rng(seed)
    return sf.Joint.from_counts(rng.multinomial(n, rng.dirichlet(np.full(secrets * useful, 0.5))).reshape(secrets, useful))


@pytest.mark.parametrize(("pair", "epsilon", "least"), [
    (("sex", "race"), 0.5, 0.480), (("sex", "race"), 1.5, 0.6194), (("race", "sex"), 0.5, 0.5377), (("race", "sex"), 1.5, 0.6157),
])
def test_small_tables_keep_what_the_slow_search_found(pair, epsilon, least, patient):
    joint = sf.datasets.adult(*pair)
    design = sf.design(sf.ChiSquareBall(joint), epsilon, "ballopt")
    assert design.value / joint.entropy >= least
    assert design.value <= design.bound <= design.ceiling + 1e-12
    assert design.certificate.level <= epsilon
    assert design.mechanism.outputs <= joint.p.size + 1


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("secrets", [4, 14])
def test_the_limit_at_a_point_is_reached_by_nr(epsilon, secrets):
    p = random_joint(secrets, 3, 5_000).p
    p = p[p.sum(1) > 0]
    assert best_at_a_point(p, epsilon, Budget.of_work(2)).value(p) == pytest.approx(bound(p, None, epsilon).value, rel=2e-4)


def test_multipliers_prove_what_they_reach():
    rng = np.random.default_rng(1)
    v, q = rng.random((200, 5)), rng.dirichlet(np.ones(5), 200)
    c = (1 + rng.uniform(1e-6, 2, 200)) ** 2
    mean = greatest_mean(v, q, np.log(c), 2.0)
    dual = mean.tau - (q * np.sqrt(mean.tau[:, None] - v)).sum(1) ** 2 / c
    assert mean.value == pytest.approx(dual, rel=1e-9)


def test_worst_pairs_beat_any_split():
    rng = np.random.default_rng(2)
    v1, v2, q1, q2 = rng.random((50, 4)), rng.random((50, 4)) + 0.1, rng.dirichlet(np.ones(4), 50), rng.dirichlet(np.ones(4), 50)
    ps1, ps2, b = rng.uniform(0.05, 0.5, 50), rng.uniform(0.05, 0.5, 50), 0.02
    found = worst_pairs(v1, q1, ps1, v2, q2, ps2, 2 * b, 2.0).ratio
    for share in np.linspace(0, 1, 21):
        top = greatest_mean(v1, q1, 2 * np.log1p(share * b / ps1), 2.0).value
        low = -greatest_mean(-v2, q2, 2 * np.log1p((1 - share) * b / ps2), 2.0).value
        assert np.all(top / low <= found * (1 + 1e-9))


@pytest.mark.parametrize("slack", [1e-6, 3e-4, 0.2, 5.0])
def test_both_multipliers_at_once_are_those_of_a_search_over_the_split(slack):
    from sfumato.uncertainty.power_tilting import split_sides
    from sfumato.uncertainty.tilting import Tilt, best_split
    from sfumato.uncertainty.tilting import by_newton as _by_newton

    rng = np.random.default_rng(6)
    q1, q2, ps1 = rng.dirichlet(np.ones(4), 60), rng.dirichlet(np.ones(4), 60), rng.uniform(0.01, 0.9, 60)
    v1, v2 = np.exp(rng.normal(0, 2, (60, 4))), np.exp(rng.normal(0, 2, (60, 4)))
    v1[:10], v2[10:20], v2[20] = 2.0, 0.5, 1 + 1e-15 * rng.random(4)  # constants, and what nearly is one
    v1[30:40, 0] = 0.0

    found, settled = _by_newton(v1, q1, ps1, v2, q2, 1 - ps1, 2 * slack, 1e-5, Tilt.priced)
    slow = best_split(split_sides(v1, q1, ps1, v2, q2, 1 - ps1, 2 * slack, 2.0), 60)

    assert settled.all() if slack < 1 else settled.mean() > 0.9
    assert found.ratio[settled] == pytest.approx(slow.ratio[settled], rel=1e-9)
    assert found.first[settled].sum(1) == pytest.approx(1.0) and (found.first[settled] >= 0).all()
    q1[40:50] = [1.0, 0.0, 0.0, 0.0]  # mass may go where there was none, and no multiplier says so
    every = worst_pairs(v1, q1, ps1, v2, q2, 1 - ps1, 2 * slack, 2.0).ratio
    assert every == pytest.approx(best_split(split_sides(v1, q1, ps1, v2, q2, 1 - ps1, 2 * slack, 2.0), 60).ratio, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.5, 0.7, 1.0, 3.0])
@pytest.mark.parametrize("budget", [1e-6, 1e-3, 0.05])
def test_at_any_order_few_pairs_need_a_search_over_the_split(alpha, budget, monkeypatch):
    from sfumato.uncertainty import power_tilting

    rng, whole, asked = np.random.default_rng(8), power_tilting.best_split, []
    q1, q2, ps1 = rng.dirichlet(np.ones(5), 80), rng.dirichlet(np.ones(5), 80), rng.uniform(0.1, 0.9, 80)
    v1, v2 = np.exp(rng.normal(0, 1, (80, 5))), np.exp(rng.normal(0, 1, (80, 5)))
    sides = power_tilting.split_sides(v1, q1, ps1, v2, q2, 1 - ps1, budget, alpha)
    slow = whole(sides, 80).ratio
    monkeypatch.setattr(power_tilting, "best_split", lambda sides, n, *rest: asked.append(n) or whole(sides, n, *rest))

    found = worst_pairs(v1, q1, ps1, v2, q2, 1 - ps1, budget, alpha)

    assert found.ratio == pytest.approx(slow, rel=1e-9) and sum(asked) <= 8
    spent = sum(p * power_tilting.price(power_tilting.divergence(q, r, alpha), alpha)
                for p, q, r in ((ps1, q1, found.first), (1 - ps1, q2, found.second)))
    assert np.all(spent <= budget * (1 + 1e-6))


@pytest.mark.parametrize("reads", ["both", "useful"])
def test_beliefs_are_shifted_as_far_as_grids_find_and_within_the_ball(reads):
    from sfumato.uncertainty.shifts import EXACT, _by_grids, _by_newton, _sides

    rng = np.random.default_rng(7)
    ball = sf.ChiSquareBall(sf.Joint.from_counts(rng.integers(1, 400, (3, 4))))
    rows = np.exp(rng.normal(0, 1.5, (30, 3, 4) if reads == "both" else (30, 4)))
    rows[:3] = 1.0  # says nothing
    s, above = rng.integers(3, size=30), rng.random(30) < 0.5
    sides = _sides(ball, rows, s, above, EXACT.close)

    found, settled = _by_newton(sides, ball.radius, EXACT.close)
    slow = _by_grids(sides, ball.slack, EXACT)

    assert settled.all() and found.ratio == pytest.approx(slow.ratio, rel=1e-7)
    own, rest = (sides.mine**2 / found.given).sum(1), (sides.others**2 / found.rest).sum(1)
    assert (own / found.share + rest / (1 - found.share) <= 1 + ball.radius * (1 + 1e-6)).all()


@pytest.mark.parametrize("above", [True, False])
def test_multipliers_of_a_proof_are_at_least_as_good_as_those_of_halving(above):
    from fractions import Fraction

    from sfumato.certification import shift_proofs as proofs

    joint, rng = random_joint(2, 4, 3_000, 8), np.random.default_rng(9)
    ball, z = sf.ChiSquareBall(joint), float(np.exp(0.7))
    values = (np.exp(rng.normal(0, 1, (25, 2, 4))) * 2.0**40).astype(np.int64).astype(object)
    cases = proofs._open_cases(values, joint, ball.radius, Fraction(1.02), above)
    exact, total = joint.weights()
    ends = [proofs._range(Fraction(int(exact[s].sum()), total), ball.radius, Fraction(z), above) for s in cases.s.tolist()]
    case = np.array([i for i, e in enumerate(ends) if e is not None])
    point = np.array([0.3 * ends[i][0] + 0.7 * ends[i][1] for i in case])

    def worth(mu, m):
        one = (cases.first.p[case] * np.sqrt(np.maximum(mu[:, None] - cases.first.r[1][case], 0))).sum(1)
        two = (cases.second.p[case] * np.sqrt(np.maximum(cases.second.r[0][case] - m[:, None], 0))).sum(1)
        terms = (proofs._above if above else proofs._below)(one, two, mu, m, (1 + ball.radius, z, np.sqrt(z)), 1.0)
        return sum(c * point**k for k, c in enumerate(terms))

    mu, m, settled = proofs._by_newton(cases, case, point, 1 + ball.radius, z)
    assert settled.mean() > 0.9
    slow = worth(*proofs._by_halving(cases, case, point, 1 + ball.radius, z))
    assert (worth(mu, m)[settled] >= slow[settled] - 1e-10 * np.abs(slow[settled]).max()).all()


def test_a_quartic_in_whole_numbers_is_the_one_in_fractions():
    from fractions import Fraction

    from sfumato.certification import shift_proofs as proofs

    a1, a2, mu, m, b, z, root = (Fraction(x) for x in (0.37, 0.81, 1.25, -0.125, 1.001, 1.75, 1.3125))
    for quartic, degree in ((proofs._above, 5), (proofs._below, 4)):
        (one, two, high, low, *rest), unit = proofs._whole((a1, a2, mu, m, b, z, root))
        exact = quartic(a1, a2, mu, m, (b, z, root), Fraction(1))
        assert [Fraction(c, unit**degree) for c in quartic(one, two, high, low, rest, unit)] == exact


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.0, 2.0, 3.0])
def test_two_atoms_are_proved_at_the_worst_split_of_the_ball(flat, alpha):
    """Also of secrets with few rows, whose means move with a thousandth of the budget."""
    counts = np.random.default_rng(3).integers(1, 100, (4, 6)) * np.array([[1000], [300], [10], [1]])
    joint = sf.Joint.from_counts(counts)
    ball = sf.RenyiBall(joint, alpha=alpha, radius=0.01)
    rng = np.random.default_rng(4)
    heights = np.where(rng.random((12, 6)) < 0.4, 900_000, 500_000) + (0 if flat else rng.integers(0, 300_000, (12, 6)))
    secret = np.repeat(np.arange(4), 3)
    found = RenyiBounds.around(joint, alpha, ball.radius).atoms(Atoms(heights, secret), 1.0).ratio
    i, j = (x.ravel() for x in np.meshgrid(np.arange(12), np.arange(12), indexing="ij"))
    i, j = i[secret[i] != secret[j]], j[secret[i] != secret[j]]
    exact = ball.ratios(heights[i].astype(float), heights[j].astype(float), secret[i], secret[j]).max()
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-5)


@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.0, 2.0, 3.0])
def test_lines_over_cells_of_splits_enclose_every_mean_between(alpha):
    rng = np.random.default_rng(5)
    bounds = RenyiBounds.around(sf.Joint.from_counts(rng.integers(0, 9, (3, 5)) + np.eye(3, 5, dtype=int)), alpha, 0.05)
    s, v = rng.integers(0, 3, 200), rng.random((200, 5))
    side, (low, high) = bounds.side(s, (v, v)), np.sort(bounds.spent[1] * rng.random((2, 200)) ** 3, 0)
    for part in np.linspace(0, 1, 9):
        split = ((1 - part) * low + part * high) / (abs(bounds.kappa) or 1.0)
        for sign, share in ((1.0, split), (-1.0, bounds.budget - split)):
            line = bounds.lines(side, low, high, greatest=sign > 0)
            limit = divergence_at(share, side.ps[1], alpha)
            mean = greatest_mean(sign * v, side.q, limit, alpha).value
            assert np.all(mean <= sign * ((1 - part) * line[0] + part * line[1]) + 1e-9)


def test_windows_have_the_mass_that_is_asked_for():
    q = np.random.default_rng(5).dirichlet(np.full(40, 2.0))
    sets = windows(q, np.array([0.2, 0.5]), np.random.default_rng(0))
    assert len(np.unique(sets, axis=0)) == len(sets)
    runs = sets[(sets.sum(1) > 1) & (sets.sum(1) < 39)]  # single values and their complements come first
    assert np.all(np.minimum(np.abs(runs @ q - 0.2), np.abs(runs @ q - 0.5)) <= q.max())


def test_the_relaxation_bounds_every_mixture_of_two_level_rows():
    q = np.random.default_rng(6).dirichlet(np.ones(6))
    ball = sf.ChiSquareBall(sf.Joint.from_counts(np.full((5, 6), 10)), radius=0.0201)
    inside = Heights(ball, 0, 0.2, math.e, Profile(0.3, 0.5), 17, bend(513))
    env = Envelope.of(inside)
    sets = ((np.arange(1, 63)[:, None] >> np.arange(6)) & 1).astype(float)
    lo, hi = inside.at(sets @ q)
    w = sets @ q
    z, g = (1 - w) * lo + w * hi, (1 - w) * lo * np.log(np.maximum(lo, 1e-300)) + w * hi * np.log(hi)
    assert np.all(g <= np.interp(z, env.z, env.g) + 5e-3)  # the masses are a grid


def test_a_large_table_gets_a_certified_layout_with_a_bound():
    joint = random_joint(120, 18, 10**7)
    design = sf.design(sf.ChiSquareBall(joint), 1.0, "ballopt", time_limit=6)
    assert isinstance(design.mechanism.law, Layout)
    assert design.certificate.level <= 1.0
    assert 0.5 * design.bound <= design.value <= design.bound <= design.ceiling
    assert not any("could not" in note for note in design.notes)


def test_a_wide_design_leaves_a_margin_on_the_grid_of_the_proof():
    joint = random_joint(12, 20, 10**6)
    ball = sf.ChiSquareBall(joint)
    layout, _ = widest(ball, 1.0, FREE, Profile(0.4, 0.5))
    assert safe(layout, ball, joint.p, 1.0) is layout
    heights = np.concatenate(list(layout.heights))
    secret = np.repeat(np.arange(12), [len(h) for h in layout.heights])
    i, j = (x.ravel() for x in np.meshgrid(np.arange(len(secret)), np.arange(len(secret)), indexing="ij"))
    apart = (secret[i] != secret[j]) & (np.random.default_rng(0).random(len(i)) < 0.05)
    assert ball.ratios(heights[i[apart]], heights[j[apart]], secret[i[apart]], secret[j[apart]]).max() <= math.e


@pytest.mark.parametrize("method", ["polyopt", "ballopt", "nr"])
def test_progress_is_told(method):
    told = []
    within = sf.ChiSquareBall(sf.datasets.adult("sex", "race"))
    sf.design(within, 0.5, method, progress=lambda *x: told.append(x))
    assert told
    assert all(isinstance(stage, str) and value <= bound + 1e-6 for stage, value, bound in told)


def test_a_time_limit_is_kept():
    joint, start = sf.datasets.adult("native-country", "relationship"), time.process_time()
    design = sf.design(sf.ChiSquareBall(joint), 1.5, "polyopt", time_limit=0.3)
    assert time.process_time() - start < 3.0
    assert design.certificate.level <= 1.5
    assert design.value <= design.bound


@pytest.mark.parametrize("stage", ["starts", "product", "rows"])
def test_an_interrupt_returns_the_best_so_far(stage, patient):
    def progress(name, value, bound):
        if name == stage:
            raise KeyboardInterrupt

    design = sf.design(sf.ChiSquareBall(random_joint(3, 6, 1000)), 0.5, "ballopt", progress=progress)
    assert design.certificate.level <= 0.5 and any("interrupted" in note for note in design.notes)


def test_outputs_that_say_the_same_are_one():
    design = sf.design(sf.ChiSquareBall(sf.datasets.adult("sex", "race")), 0.5, "polyopt")
    assert isinstance(design.mechanism.law, Table)
    q = design.mechanism.matrix
    unit = q / q.max(1, keepdims=True)
    apart = np.abs(unit[:, None] - unit[None]).max(2) + np.eye(len(q))
    assert apart.min() > 1e-9


def test_ends_that_secrets_share_are_shared_by_whole_lengths_and_large_tables_are_sealed_at_once():
    ends = np.array([0.1, 0.35, 0.7, 1.0])
    rng = np.random.default_rng(1)
    for _ in range(50):
        cuts = [np.unique(np.concatenate([ends, rng.random(40)])) for _ in range(2)]
        first, second = (np.cumsum(whole_lengths(np.diff(x, prepend=0.0), 2**12)).tolist() for x in cuts)
        assert first[-1] == second[-1] == 2**12 and {int(np.rint(x * 2**12)) for x in ends} <= {*first} & {*second}
    design = sf.design(sf.ChiSquareBall(random_joint(40, 50, 100_000)), 0.5, "nr", time_limit=0.3)
    assert isinstance(design.mechanism.law, Layout) and 0.49999 < design.certificate.level <= 0.5


def test_numbers_of_a_row_are_counted_as_they_are_made():
    rng = np.random.default_rng(7)
    for _ in range(20):
        counts = rng.integers(0, 3, (5, 6)) * rng.integers(0, 2, (5, 1))
        joint = sf.Joint.from_counts(counts + np.eye(5, 6, dtype=int)[[0] * 5] * (np.arange(5) == 0)[:, None])
        made = Coordinates.of(joint)
        assert Coordinates.count(joint) == len(made.p)
        assert np.allclose(made.full(np.ones((1, len(made.p)))), 1.0)  # a constant spreads to one


@pytest.mark.parametrize("clock", [time.monotonic, spent])
def test_a_linear_programme_without_time_is_broken_off(clock):
    rng = np.random.default_rng(8)
    mixture = Mixture(np.ones(60))
    mixture.offer(rng.random((300, 60)) + 60 * np.eye(300, 60), rng.random(300))
    assert not mixture.lp.solve(PRIMAL, Budget.of(0.0, clock=clock)).optimal
    assert mixture.lp.solve(PRIMAL).optimal  # with time it goes on from there


def test_the_goal_of_a_large_table_is_as_large_as_the_table():
    joint = sf.Joint.from_counts(np.ones((150, 200), int))
    for target in ("joint", {"joint": 1, "secret": 1}):
        assert goal(joint, target).untouched > 0  # a square of its cells would be 7 GB


@pytest.mark.parametrize("height", [2**20, 2**40])
def test_the_mass_of_a_layout_is_exact_in_64_bits_and_beyond(height):
    rng = np.random.default_rng(9)
    lengths, heights = rng.integers(1, 2**31, 50), rng.integers(0, height, (50, 7))
    exact = [sum(int(a) * int(b) for a, b in zip(lengths, column, strict=True)) for column in heights.T]
    assert [int(x) for x in _whole_mass(lengths, heights)] == exact
