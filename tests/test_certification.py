"""Certificates: proved from the integers, above every truth, close to the worst."""

import itertools
import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_tables import random_counts
from tests.strategies import boundary_points, joints, mechanisms, random_layout, realised, sealed

import sfumato as sf
from sfumato.certification import certificate, rationals
from sfumato.certification.ball import ROUGH_SPLIT
from sfumato.certification.outward import dot_down, down, exp_range, float_range, log_near, log_up, power, up
from sfumato.certification.proving import proved
from sfumato.certification.renyi_proofs import RenyiBounds
from sfumato.errors import ClaimError, InputError
from sfumato.mechanism import Claim, Mechanism, Table
from sfumato.tolerances import LEAST
from sfumato.uncertainty.power_tilting import split_sides, worst_pairs
from sfumato.uncertainty.tilting import SPLIT
from sfumato_kernel.verdict import verify


def with_joint(**options):
    return joints(**options).flatmap(lambda joint: st.tuples(st.just(joint), mechanisms(joint)))


def proved_level(mechanism, notion, within):
    ratio = proved(mechanism, notion, within).ratio
    return math.inf if ratio == math.inf else log_up(ratio)


@given(with_joint())
@settings(max_examples=60)
def test_proved_levels_are_never_below_the_worst_found_and_close_to_it(pair):
    joint, mechanism = pair
    mechanism = sealed(mechanism)
    cases = [("ldp", None, sf.LDP()), ("lip", sf.Exactly(joint), sf.LIP(joint))]
    cases += [("rldp", F, sf.RLDP(F)) for F in (sf.Exactly(joint), sf.ChiSquareBall(joint), sf.Anything(joint))]
    for notion, within, measure in cases:
        upper, found = proved_level(mechanism, notion, within), sf.level(mechanism, measure)
        assert upper >= found - 1e-12
        assert upper == pytest.approx(found, rel=1e-5, abs=1e-9)


@given(with_joint(largest=60), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_no_distribution_in_the_ball_exceeds_the_proved_level(pair, seed):
    joint, mechanism = pair
    mechanism, ball = sealed(mechanism), sf.ChiSquareBall(joint)
    upper = proved_level(mechanism, "rldp", ball)
    rng = np.random.default_rng(seed)
    for p in boundary_points(ball, rng):
        exact = joint.p > 0
        assert (joint.p[exact] ** 2 / p[exact]).sum() <= (1 + ball.radius) * (1 + 1e-9)  # the points are in the ball
        assert realised(mechanism, p) <= upper + 1e-9


@given(with_joint(largest=60))
@settings(max_examples=40)
def test_the_worst_pair_found_lies_in_the_ball_and_attains_its_ratio(pair):
    joint, mechanism = pair
    ball, s = sf.ChiSquareBall(joint), joint.shape[0]
    rows = np.broadcast_to(mechanism.matrix.reshape(mechanism.outputs, -1, joint.shape[1]), (mechanism.outputs, *joint.shape))
    worst = ball.worst(rows[0], 0, s - 1)
    q, ps = joint.useful_given_secret, joint.p_secret

    def spent(r, secret):
        seen = q[secret] > 0
        return ps[secret] * (math.sqrt((q[secret][seen] ** 2 / r[seen]).sum()) - 1)

    total = spent(worst.given_first, 0) + spent(worst.given_second, s - 1)
    assert total <= ball.slack * (1 + 1e-7) + 1e-12
    ratio = (rows[0, 0] @ worst.given_first) / (rows[0, s - 1] @ worst.given_second)
    assert ratio == pytest.approx(worst.ratio, rel=1e-9)


def test_zero_cells_stay_in_the_worst_case():
    """The ball can put mass on a cell with no counts; dropping it would promise too much [002, unsafe]."""
    joint = sf.Joint.from_counts([[0, 40], [20, 15]])
    q = np.array([[0.9, 0.5, 0.5, 0.5], [0.1, 0.5, 0.5, 0.5]])
    mechanism = sealed(Mechanism(Table(q, 2), joint.secret, joint.useful))
    ball = sf.ChiSquareBall(joint)
    known = proved_level(mechanism, "rldp", sf.Exactly(joint))
    robust = proved_level(mechanism, "rldp", ball)
    p = ball.support(np.array([[1.0, 0.0], [0.0, 0.0]])).p
    assert p[0, 0] == pytest.approx(ball.radius / (1 + ball.radius), rel=1e-6)  # the most the ball puts there
    assert known == pytest.approx(0, abs=1e-12)
    assert 0.1 < realised(mechanism, p) <= robust


def test_levels_are_proved_tightly_where_values_that_never_occur_are_extreme(tmp_path):
    """Cells without mass at the top of one side and the bottom of the other: both multipliers rest at an edge."""
    joint = sf.Joint.from_counts([[156, 45, 0], [0, 28, 271]])
    ball, row = sf.ChiSquareBall(joint), np.array([8.05e-3, 8.05e-3, 4e-8, 0.5311, 2.962e-3, 2.962e-3])
    found = sealed(Mechanism(Table(np.stack([row, 1 - row]), 2), joint.secret, joint.useful, joint=joint))
    reached = sf.RLDP(ball).level(found)
    assert proved_level(found, "rldp", ball) == pytest.approx(reached, abs=1e-9)
    path = replace(found, claim=Claim("rldp", reached + 1e-9, ball)).save(tmp_path / "m.json")
    assert verify(path.read_bytes()).proved


@pytest.mark.parametrize("alpha", [0.5, 0.75, 1.0, 3.0])
def test_pairs_over_balls_of_any_order_are_proved_as_closely_as_they_are_found(alpha):
    """Sparse tables, flat rows and rows of two values: splits with ends, and multipliers at rest on empty cells."""
    rng = np.random.default_rng(7)
    for _ in range(4):
        joint, U = sf.Joint.from_counts(rng.multinomial(60, rng.dirichlet(np.full(12, 0.4))).reshape(3, 4)), 4
        v = np.where(rng.random((2, 40, 1)) < 0.5, rng.random((2, 40, U)), rng.random((2, 40, 1)) * rng.integers(1, 9, (2, 40, U)))
        bounds = RenyiBounds.around(joint, alpha, 0.2)
        s = rng.integers(3, size=40)
        first, second = bounds.side(s, float_range(v[0])), bounds.side((s + 1) % 3, float_range(v[1]))
        found, alone = bounds.suggested(first, second).ratio, bounds.alone(first, greatest=True) / bounds.alone(second, greatest=False)
        together, some = np.log(np.minimum(bounds.pairs(first, second), alone)), range(0, 40, 4)
        assert np.all(together >= np.log(found) - 1e-12) and together.max() <= np.log(found).max() + 2e-6
        level = np.log([min(bounds.pairs(first.at([i]), second.at([i]), LEAST)[0], alone[i]) for i in some])
        assert np.all(level >= np.log(found[some]) - 1e-12) and np.all(level <= np.log(found[some]) + 2e-6)


@pytest.mark.parametrize("reads", ["both", "useful"])
@pytest.mark.parametrize("notion", ["rldp", "lip", "pml"])
def test_levels_of_unary_encodings_are_those_of_all_sets_and_few_pairs_need_rationals(monkeypatch, notion, reads):
    rng, whole, asked = np.random.default_rng(3), rationals._subset_ratio, []
    joint = sf.Joint.from_counts(rng.integers(1, 50, (12, 3) if reads == "useful" else (4, 2)))
    made = sf.design(sf.Exactly(joint), 1.0, "oue", reads=reads).mechanism
    monkeypatch.setattr(rationals, "_subset_ratio", lambda *x: asked.append(1) or whole(*x))

    found = rationals.about_secret(made, joint, notion).ratio

    c = made.law.contrasts()[0]
    low, high = (c.base_second, c.peak_first) if hasattr(c, "peak_first") else (c.low, c.high)
    table = joint.useful_given_secret if reads == "useful" else np.einsum(
        "st,su->stu", np.eye(4), joint.useful_given_secret).reshape(4, -1)
    sets = np.array(list(itertools.product((0, 1), repeat=table.shape[1])))
    told = float(low) + float(high - low) * sets @ table.T  # P(y|s) up to what all secrets share
    mean = told @ joint.p_secret
    brute = {"rldp": told.max(1) / told.min(1), "pml": told.max(1) / mean}
    brute["lip"] = np.maximum(brute["pml"], mean / told.min(1))
    assert float(found) == pytest.approx(brute[notion].max(), rel=1e-12)
    assert len(asked) <= {"rldp": 24, "lip": 24, "pml": 12}[notion]


@pytest.mark.parametrize("alpha", [0.5, 0.75, 1.0])
def test_pairs_far_from_the_worst_are_not_searched_closely(monkeypatch, alpha):
    """What the worst pair allows is proved of the others from a few steps towards their own worst split."""
    rng, whole, asked = np.random.default_rng(5), RenyiBounds.suggested, []
    bounds, s = RenyiBounds.around(sf.Joint.from_counts(rng.integers(20, 60, (4, 5))), alpha, 0.05), rng.integers(4, size=400)
    v = rng.uniform(1, 3, (2, 400, 5))
    first, second = bounds.side(s, float_range(v[0])), bounds.side((s + 1) % 4, float_range(v[1]))
    worst = float(bounds.suggested(first, second).ratio.max())

    def suggested(self, first, second, close=SPLIT.close):
        asked.append(len(first.ps[0]) if close < ROUGH_SPLIT else 0)
        return whole(self, first, second, close)

    monkeypatch.setattr(RenyiBounds, "suggested", suggested)
    assert bounds.pairs(first, second, worst).max() == pytest.approx(worst, rel=1e-8) and sum(asked) < 20


def test_the_worst_split_is_found_where_a_secret_becomes_free():
    """Order ½: 1.8 % of the budget frees a rare secret, and what is left goes to the other one."""
    sides = (np.array([[2.6e-10, 2.5e-7, 4.1e-8]]), np.array([[0.69, 0.0, 0.31]]), np.array([0.74]),
             np.array([[4.3e-5, 6.5e-4, 3.9e-11]]), np.array([[0.0, 1.0, 0.0]]), np.array([0.007]))
    for budget in (0.38, 0.1, 0.05, 0.02):
        odds = np.linspace(-9, 9, 3001)
        first, second, _ = split_sides(*(np.repeat(x, 3001, 0) for x in sides), budget, 0.5)(odds, np.arange(3001))
        assert worst_pairs(*sides, budget, 0.5).ratio[0] >= (first.value / -second.value).max()


def test_an_empty_secret_is_free_within_a_ball_and_not_looked_at_when_the_distribution_is_known():
    joint = sf.Joint.from_counts([[10, 20], [30, 5], [0, 0]])
    q = np.array([[0.5, 0.5, 0.5, 0.5, 0.9, 0.5], [0.5, 0.5, 0.5, 0.5, 0.1, 0.5]])
    mechanism = sealed(Mechanism(Table(q, 3), joint.secret, joint.useful))
    assert proved_level(mechanism, "rldp", sf.Exactly(joint)) == pytest.approx(0, abs=1e-12)
    assert proved_level(mechanism, "rldp", sf.ChiSquareBall(joint)) == pytest.approx(math.log(5), rel=1e-9)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.integers(0, 2**32 - 1))
def test_outward_rounding_encloses_exact_sums_of_products(values, seed):
    x = np.array(values)
    w = np.random.default_rng(seed).random(len(x))
    exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(w, x, strict=True))
    assert Fraction(float(dot_down(w[None], x[None])[0])) <= exact
    assert Fraction(float(down(x[0]))) <= Fraction(float(x[0])) < Fraction(float(up(x[0])))


@given(st.fractions(min_value=1, max_value=10**6))
def test_logarithms_are_rounded_up(ratio):
    level = log_up(ratio)
    assert level >= 0 and (ratio == 1) == (level == 0)
    if level:
        assert math.exp(level) * (1 + 1e-14) >= ratio


def test_a_claim_that_is_too_low_is_refused_with_a_witness():
    joint = sf.datasets.adult("sex", "race")
    design = sf.design(sf.ChiSquareBall(joint), 1.0, "grr")
    low = replace(design.mechanism, claim=Claim("rldp", 0.8, design.mechanism.claim.within))
    with pytest.raises(ClaimError, match=r"claimed ε ≤ 0\.8 .*proved only ε ≤ 0\.9999.*worst at (Fe)?[Mm]ale against"):
        sf.certify(low)


def test_a_single_count_moved_between_outputs_breaks_the_claim_when_it_should():
    """The certificate is about these integers, not about the floats they came from."""
    joint = sf.Joint.from_counts([[30, 30], [30, 30]])
    four = np.full((2, 4), 2**9)
    fair = Mechanism(Table(four, 2, 10), joint.secret, joint.useful, claim=Claim("rldp", 0.0, sf.Anything(joint)))
    assert sf.certify(fair).level == 0.0
    four[0, 0] += 1
    four[1, 0] -= 1
    off = replace(fair, law=Table(four, 2, 10))
    assert certificate(off).level == pytest.approx(math.log(512 / 511), rel=1e-9)
    with pytest.raises(ClaimError):
        sf.certify(off)


def test_only_sealed_mechanisms_can_be_certified_saved_or_asked():
    mechanism = sf.Tabular([[0.5, 0.5], [0.5, 0.5]])
    for act in (lambda: sf.certify(mechanism, Claim("ldp", 1.0)), lambda: mechanism.respond("0"), lambda: mechanism.save("x")):
        with pytest.raises(InputError, match="sealed"):
            act()


def test_certificates_say_what_is_left_outside_the_set():
    joint = sf.datasets.adult("sex", "race")
    made = sf.design(sf.ChiSquareBall(joint), 0.5, "ir").certificate
    inside, twice, four, anything = made.level, *made.elsewhere.values()
    assert inside <= twice <= four <= anything
    assert list(made.elsewhere) == ["2 times the radius", "4 times the radius", "any distribution"]


def test_ghost_outputs_are_merged_before_sealing():
    joint = sf.Joint.from_counts([[30, 10], [20, 40]])
    ghost = np.array([[0.6 - 3e-13, 0.4, 0.5, 0.5], [0.4, 0.6 - 1e-14, 0.5, 0.5], [3e-13, 1e-14, 0, 0]])
    mechanism = Mechanism(Table(ghost / ghost.sum(0), 2), joint.secret, joint.useful, joint=joint)
    made, proof = sf.seal(mechanism, Claim("rldp", 0.5, sf.ChiSquareBall(joint)))
    assert made.outputs == 2 and proof.level <= 0.5


@given(joints(), st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_a_layout_with_too_many_rows_to_compare_is_bounded_by_its_atoms(joint, seed):
    """As if every two atoms could meet: above the level of its rows, and close where they do meet."""
    from sfumato.mechanism import table as interval_layout

    law = random_layout(*joint.shape, np.random.default_rng(seed)).rounded(None, 0.0)
    mechanism = Mechanism(law, joint.secret, joint.useful)
    ball = sf.ChiSquareBall(joint)
    listed = [proved_level(mechanism, "rldp", F) for F in (sf.Exactly(joint), ball, sf.Anything(joint))]
    kept, interval_layout.LISTED_PAIRS = interval_layout.LISTED_PAIRS, 0
    try:
        bounded = [proved_level(mechanism, "rldp", F) for F in (sf.Exactly(joint), ball, sf.Anything(joint))]
        found = sf.level(mechanism, sf.RLDP(ball))
    finally:
        interval_layout.LISTED_PAIRS = kept
    assert bounded[0] == pytest.approx(listed[0], rel=1e-9)
    assert all(a <= b * (1 + 1e-12) for a, b in zip(listed, bounded, strict=True))
    assert found <= bounded[1] <= found + 1e-5


@pytest.mark.parametrize("method", ["sue", "oue", "grr"])
def test_the_identity_is_told_and_proved_where_it_is_private(method):
    """Nothing to hide: the useful value is independent enough of the secret for all of it to be told."""
    ball = sf.ChiSquareBall(sf.Joint.from_counts([[2, 2], [2, 2]]))
    design = sf.design(ball, 3.0, method, reads="useful")
    assert design.details["strength"] == math.inf
    assert design.certificate.level <= 3.0


@pytest.mark.parametrize("method", ["sue", "oue"])
@pytest.mark.parametrize("number, radius", [(9060, 0.05), (9092, None), (150_253, 0.0557711921)])
def test_unary_encodings_of_more_values_than_sets_are_listed_for_are_sealed(method, number, radius, tmp_path):
    """Told in full where that is private, and no stronger than what is proved value by value."""
    counts, epsilon = random_counts(number)
    joint = sf.Joint.from_counts(counts)
    ball = sf.ChiSquareBall(joint) if radius is None else sf.ChiSquareBall(joint, radius=radius)
    design = sf.design(ball, epsilon, method, reads="useful")
    assert design.certificate.level <= epsilon
    assert verify(design.mechanism.save(tmp_path / "m.json").read_bytes()).proved


@pytest.mark.parametrize("k", [1, 30, 52, 100, 148, 200, 500, 1000])
def test_logarithms_next_to_zero_are_rounded_up_and_by_no_more_than_two_floats(k):
    ratio = 1 + Fraction(1, 2**k)
    with localcontext() as context:
        context.prec = 700
        true = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
        above = Decimal(log_up(ratio))

        assert true <= above <= true * (1 + Decimal(2) ** -51)


@given(st.floats(1e-12, 1e12), st.floats(-30, 30))
def test_powers_are_enclosed(x, r):
    with localcontext() as context:
        context.prec = 60
        exact = (Decimal(x).ln() * Decimal(r)).exp()
    low, high = power(np.array([x]), r)
    if 1e-290 < exact < Decimal("1e290"):
        assert Decimal(float(low[0])) <= exact <= Decimal(float(high[0]))
        assert high[0] <= low[0] * (1 + 1e-9)
    log, error = log_near(x)
    assert abs(Decimal(float(log)) - Decimal(x).ln()) <= Decimal(float(error))
    if abs(r) < 600:
        low, high = exp_range(np.array([r]))
        assert Decimal(float(low[0])) <= Decimal(r).exp() <= Decimal(float(high[0]))


def test_powers_at_the_ends():
    assert [float(x[0]) for x in power(np.array([0.0]), 2.0)] == [0, 0]
    assert [float(x[0]) for x in power(np.array([0.0]), -2.0)] == [math.inf, math.inf]
    low, high = power(np.array([1e-305]), 0.5)
    assert low[0] == 0 and high[0] >= 1e-150
