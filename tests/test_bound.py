"""Bounds hold for every private mechanism: never below what any design keeps, whatever its rows, tables and sets."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import epsilons, joints

import sfumato as sf
from sfumato.joint import entropy
from sfumato.optimise.all_levels import meet
from sfumato.optimise.arrays import xlogx
from sfumato.optimise.bound import bound
from sfumato.optimise.bound.channels import about_secret
from sfumato.optimise.bound.dual import Queries
from sfumato.optimise.bound.prices import Block, Corridor
from sfumato.optimise.bound.routes import WHOLE, ChainRule, OwnCone, met
from sfumato.optimise.budget import FREE, Budget
from sfumato.optimise.cone import RatioCone
from sfumato.optimise.search import InformationAim
from sfumato.uncertainty.power_tilting import divergence_at, greatest_mean

SECONDS = 0.2  # of work


def limited(joint, within, epsilon, seconds=SECONDS):
    return bound(joint.p, within, epsilon, budget=Budget.of_work(seconds))


def information(rows, p):
    """I(X;Y) of rows Q[y, x] with Σ_y Q = 1."""
    flat = p.ravel()
    return float((xlogx(rows) @ flat).sum() - xlogx(rows @ flat).sum())


def private(rows, ball, epsilon):
    """The rows with as much of the constant law as their worst pair over the set asks for."""
    shape, E = ball.joint.shape, np.exp(epsilon)
    seen = np.flatnonzero(ball.joint.p_secret > 0)
    odds = 0.0
    for row in rows.reshape(-1, *shape):
        mean = float((row * ball.joint.p).sum())
        for s1 in seen:
            for s2 in seen[seen != s1]:
                worst = ball.worst(row, int(s1), int(s2))
                excess = float(worst.given_first @ row[s1] - E * worst.given_second @ row[s2])
                odds = max(odds, excess / mean / (E - 1) * 1.000001 + 1e-9 if excess > 0 else 0.0)
    return (rows + odds * (rows @ ball.joint.p.ravel())[:, None]) / (1 + odds)


def ball_of(order):
    """Of an order κ: what blocks ask for the masses of sets."""
    return sf.RenyiBall(sf.Joint.from_counts([[1, 1], [1, 1]]), alpha=1 / (1 - order), radius=0.1)


def sets(joint):
    return [
        sf.ChiSquareBall(joint), sf.ChiSquareBall(joint, radius=0.3), sf.RenyiBall(joint, alpha=0.5, radius=0.02),
        sf.RenyiBall(joint, alpha=1, radius=0.05), sf.RenyiBall(joint, alpha=4, radius=0.1), sf.Exactly(joint), sf.Anything(joint),
    ]


@settings(max_examples=8)
@given(joints(), epsilons(0.1, 2.0), st.integers(0, 2**31), st.integers(0, 6))
def test_no_private_mechanism_keeps_more_than_the_bound(joint, epsilon, seed, which):
    within, rng = sets(joint)[which], np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(rng.integers(2, 6), rng.choice([0.05, 0.3, 1.0])), size=joint.p.size).T

    found = limited(joint, within, epsilon)

    if not isinstance(within, sf.Exactly | sf.Anything):
        kept = private(rows, within, epsilon)
        assert information(kept, joint.p) <= found.value


def test_secrets_that_share_the_slack_tell_less_together_than_each_by_itself():
    joint = sf.Joint.from_counts([[600, 400], [500, 500], [450, 550], [300, 700]])
    chain = ChainRule(joint.p, sf.ChiSquareBall(joint), 0.1, Budget.counted(2))
    alone = float(chain.told.sum())
    kept = sf.design(sf.ChiSquareBall(joint), 0.1, "ballopt").value

    proved = chain.proved(Budget.counted(4))

    assert kept <= proved < 0.8 * (about_secret(joint.p_secret, 0.1) + alone)


def test_a_group_is_met_where_its_numbers_are_few():
    value, least = met(OwnCone(np.array([0.5, 0.3, 0.2]), 0.02, 2.0, np.exp(0.4)), FREE)
    assert 0 < value <= least <= value * (1 + WHOLE)


@pytest.mark.parametrize("within", [lambda x: sf.ChiSquareBall(x), lambda x: sf.RenyiBall(x, alpha=0.5, confidence=0.95)])
def test_values_too_many_to_be_met_are_merged_and_the_chain_holds(within, patient):
    counts = np.random.default_rng(4).multinomial(5_000, np.random.default_rng(5).dirichlet(np.full(60, 0.4))).reshape(3, 20)
    joint = sf.Joint.from_counts(counts)
    ball = within(joint)
    live = joint.p[:, joint.p.any(0)]

    proved = ChainRule(live, ball, 0.5, Budget.counted(2)).proved(Budget.counted(2))

    assert sf.design(ball, 0.5, "ballopt", time_limit=3).value <= proved < entropy(live.ravel())


@settings(max_examples=4)
@given(joints(secrets=(2, 5), useful=(2, 5)), epsilons(0.1, 2.0), st.sampled_from(["ballopt", "polyopt", "srr", "ir"]))
def test_no_design_keeps_more_than_the_bound(joint, epsilon, method):
    ball = sf.ChiSquareBall(joint)
    design = sf.design(ball, epsilon, method)

    assert design.value <= limited(joint, ball, epsilon).value


@settings(max_examples=8)
@given(joints(useful=(1, 4), secrets=(1, 5)), epsilons(0.0, 3.0), st.integers(0, 6))
def test_every_table_has_a_bound_that_is_never_above_the_point_bound(joint, epsilon, which):
    found = limited(joint, sets(joint)[which], epsilon, 0.3)

    assert 0.0 <= found.value == found.routes[found.route] <= found.routes["point"]
    assert found.value <= entropy(joint.p.ravel()) + 1e-7


def test_the_optimum_of_tiny_tables_is_met_by_the_bound():
    joint = sf.datasets.adult("race", "sex")
    best = 0.5089 * joint.entropy  # what is reached at ε = 0.1

    found = limited(joint, sf.ChiSquareBall(joint), 0.1, 20)

    assert best <= found.value <= 1.005 * best
    assert found.route == "two values"


def test_at_a_large_epsilon_two_values_prove_more_than_the_point_alone():
    joint = sf.datasets.adult("education", "sex")
    best = 0.3182 * joint.entropy  # what is reached at ε = 1.5

    found = limited(joint, sf.ChiSquareBall(joint), 1.5, 20)

    assert best <= found.value <= best / 0.95 < found.routes["point"]
    assert found.route == "two values"


def test_at_a_point_the_bound_is_the_optimum():
    joint = sf.datasets.adult("sex", "race")
    exact = sf.design(sf.Exactly(joint), 0.5, "nr")

    found = bound(joint.p, sf.Exactly(joint), 0.5)

    assert exact.value <= found.value <= exact.value * (1 + 1e-5)


@pytest.mark.parametrize("pair", [("education", "sex"), ("native-country", "relationship")])
def test_the_bound_grows_with_epsilon_and_falls_with_the_radius(pair):
    joint = sf.datasets.adult(*pair)
    ball = sf.ChiSquareBall(joint)
    levels = [bound(joint.p, ball, e, budget=Budget.of_work(0.3)).value for e in (0.1, 0.5, 1.5)]

    assert levels == sorted(levels)
    wide = bound(joint.p, ball.widened(30), 0.1, budget=Budget.of_work(0.3)).value
    assert wide <= levels[0] * 1.01


@pytest.mark.long
@settings(max_examples=8)
@given(joints(useful=(2, 2)), epsilons(0.1, 2.0))
def test_permuted_tables_have_the_same_bound(joint, epsilon):
    other = sf.Joint.from_counts(joint.counts[::-1, ::-1])
    one, two = (limited(j, sf.ChiSquareBall(j), epsilon, 20).value for j in (joint, other))

    assert one == pytest.approx(two, rel=2e-3)


@settings(max_examples=8)
@given(st.integers(2, 6), st.sampled_from([-1.0, -0.5, 0.0, 0.5, 0.75]), st.integers(0, 2**31))
def test_pricing_bounds_every_block_with_both_sides(values, order, seed):
    """Random blocks, scaled into the two sides by the oracle of the set, are never worth more than the bound."""
    rng = np.random.default_rng(seed)
    q, alpha = rng.dirichlet(np.ones(values)) * 0.98 + 0.02 / values, 1 / (1 - order)
    above, below = 10 ** rng.uniform(-3, -0.3, 2)
    levels = np.array([[1 + 10 ** rng.uniform(-1.5, 0.5), 1 - 10 ** rng.uniform(-1.5, -0.1)]])
    y = rng.normal(size=values) * 2
    w = rng.dirichlet(np.full(values, 0.4), size=300) / q
    limits = [divergence_at(k, 1.0, alpha) for k in (above, below)]
    many = np.broadcast_to(q, w.shape)
    top = greatest_mean(w, many, np.full(len(w), limits[0]), alpha).value
    low = -greatest_mean(-w, many, np.full(len(w), limits[1]), alpha).value
    scale = np.minimum(1.0, np.minimum((levels[0, 0] - 1) / (top - 1), (1 - levels[0, 1]) / (1 - low)))[:, None]
    w = 1 + scale * (w - 1)

    for first, tilt in ((0, 0.0), (1, 0.7)):
        asked = Queries(levels, np.ones((1, 2)), np.array([first]), np.array([tilt]))
        found, _ = Block(q, ball_of(order), above, below).price(y, asked, np.array([-np.inf]), 6)
        assert (xlogx(w) @ q - w @ (q * (y + tilt))).max() <= found[0] + 1e-9


@settings(max_examples=4)
@given(st.integers(2, 6), st.sampled_from([-1.0, 0.0, 0.5]), st.integers(0, 2**31))
def test_tables_hold_for_every_block_of_a_corridor_and_go_on_from_a_tree(values, order, seed):
    """Random blocks in {m ≥ floor, M ≤ roof}, means and all, are never worth more than what a table says, nor are those
    that climbs find; a table that goes on from what is known, for the same prices or for others, holds too."""
    rng = np.random.default_rng(seed)
    q, alpha, E = rng.dirichlet(np.ones(values)) * 0.98 + 0.02 / values, 1 / (1 - order), 1 + 10 ** rng.uniform(-1, 0.5)
    above, below = 10 ** rng.uniform(-3, -0.3, 2)
    block, limits = Block(q, ball_of(order), above, below), [divergence_at(k, 1.0, alpha) for k in (above, below)]

    for floor, roof in ((1.0, E), (1.0, 1.0 + 0.7 * (E - 1.0)), (1.0 / E, E)):
        v = rng.dirichlet(np.full(values, 0.4), size=200) / q
        many, middle = np.broadcast_to(q, v.shape), rng.uniform(floor, roof, len(v))
        top = greatest_mean(v, many, np.full(len(v), limits[0]), alpha).value - 1
        low = 1 + greatest_mean(-v, many, np.full(len(v), limits[1]), alpha).value
        steep = np.minimum(middle, np.minimum((roof - middle) / top, (middle - floor) / low))[:, None]
        v, corridor, tree = middle[:, None] + steep * (v - 1), Corridor(block, floor, roof), None

        for y in rng.normal(size=(2, values)) * 2:
            corridor.learn(y)
            asked = Queries.by_mean(floor, roof, 4)
            bounds, tree = block.price(y, asked, np.full(4, -np.inf), 2, FREE, tree)
            table = np.column_stack([asked.mean, bounds])

            assert corridor.worth(y).max() <= min(table[:, 2].max(), corridor.table(y, 2, FREE)[:, 2].max()) + 1e-6
            for worth, mean in zip(xlogx(np.maximum(v, 0)) @ q - v @ (q * y), middle, strict=True):
                holds = (table[:, 0] <= mean + 1e-12) & (mean <= table[:, 1] + 1e-12)
                assert worth <= table[holds, 2].max() + 1e-9


@given(st.floats(0.01, 0.99), st.floats(1e-4, 3.0), st.sampled_from([-2.0, -1.0, 0.0, 0.5, 0.8]))
def test_the_masses_of_a_set_are_those_of_the_oracle(mass, k, order):
    low, high = ball_of(order).masses(np.array([mass]), 1.0, np.array([k]))
    cells, one, alpha = np.array([[mass, 1 - mass]]), np.array([[1.0, 0.0]]), 1 / (1 - order)
    limit = divergence_at(np.array([k]), 1.0, alpha)

    assert high[0] == pytest.approx(float(greatest_mean(one, cells, limit, alpha).value[0]), abs=1e-6)
    assert low[0] == pytest.approx(-float(greatest_mean(-one, cells, limit, alpha).value[0]), abs=1e-6)


@pytest.mark.parametrize(("shape", "n"), [((100, 100), 10**6), ((1000, 20), 10**6), ((2, 200), 10**4), ((20, 20), 30)])
def test_large_tables_have_a_bound_in_time(shape, n):
    rng = np.random.default_rng(5)
    joint = sf.Joint.from_counts(rng.multinomial(n, rng.dirichlet(np.full(shape[0] * shape[1], 0.5))).reshape(shape))
    began = time.thread_time()

    found = limited(joint, sf.ChiSquareBall(joint), 0.5, 1)

    assert 0 < found.value <= joint.entropy
    assert time.thread_time() - began < 5


def test_a_value_that_is_reached_ends_the_search():
    joint = sf.datasets.adult("sex", "race")
    point = bound(joint.p, 0.0, 0.5).value

    assert list(bound(joint.p, sf.ChiSquareBall(joint), 0.5, value=point * 0.99, gap=0.02).routes) == ["point"]


def test_cuts_from_outside_bound_tables_with_numbers_of_hardly_any_mass_and_of_none():
    """The bound of a table with a rare cell, and an empty one, is no less than what is reached there."""
    for counts in ([[3e8, 2e8, 3], [1e8, 2e8, 4e8]], [[30, 20, 10], [10, 20, 40], [0, 0, 0]]):
        joint = sf.Joint.from_counts(counts)
        cone = RatioCone(sf.ChiSquareBall(joint, radius=0.01), 1.0)
        outer = RatioCone(sf.ChiSquareBall(joint, radius=0.01), 1.0 + 1e-8)
        master = InformationAim(cone.coordinates)
        bound, _ = meet(cone, outer, master, FREE, gap=1e-4)
        assert master.value <= bound <= 1.01 * master.value  # cuts are loose in units of the rarest


def test_closed_forms_are_bounded_by_what_every_mechanism_is():
    joint = sf.Joint.from_counts([[500, 30, 7], [20, 400, 90]])
    searched = sf.design(joint, 0.5, "ballopt")
    for method in ("srr", "grr", "cr", "ir"):
        assert sf.design(joint, 0.5, method).bound >= searched.value
    ball = sf.RenyiBall(sf.Joint.from_counts([[4, 0, 1], [1, 4, 3]]), alpha=0.75, radius=1.1764954195986952e-05)
    assert sf.design(ball, 0.1, "auto", aim="information").bound >= sf.design(ball, 0.1, "polyopt").value
