"""Pointwise maximal leakage about the secret: laws of the level, the proof, the cone and the designs."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.certification.certificate import certificate
from sfumato.certification.rationals import Attained
from sfumato.certification.shift_proofs import shifts_over_ball
from sfumato.errors import ClaimError, InputError
from sfumato.mechanism import Claim, Mechanism, Table
from sfumato.optimise.budget import Budget
from sfumato.optimise.cone import BeliefCone, repaired
from sfumato.optimise.funnel.posteriors import best_pml, best_response, information, response_bound, telling_rows
from sfumato.optimise.search import InformationAim, Tangents, improve
from strategies import boundary_points, epsilons, joints, mechanisms, sealed

READS = ("both", "useful")
NOTHING = Attained(math.inf, {})
SECONDS = 1.0


def raised(mechanism, p):
    """max log P(y|s) / P(y) at one distribution, by listing everything."""
    q = mechanism.matrix.reshape(mechanism.outputs, mechanism.law.rows, mechanism.law.useful)
    q = np.broadcast_to(q, (len(q), *p.shape))
    ps, mean = p.sum(1), np.einsum("ysu,su->y", q, p)
    given_s = np.einsum("ysu,su->ys", q[:, ps > 1e-14], p[ps > 1e-14] / ps[ps > 1e-14, None])
    live = mean > 0
    return float(np.log(given_s[live].max(1) / mean[live]).max())


def table(seed, shape=(3, 4), n=600):
    """A sparse table with an empty cell; every third has a secret that never occurs."""
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, rng.dirichlet(np.full(shape[0] * shape[1], 0.7))).reshape(shape)
    counts[0, 0], counts[1, 1], counts[0, 1] = 0, counts[1, 1] + 1, counts[0, 1] + 1
    if seed % 3 == 0:
        counts[-1] = 0
    return sf.Joint.from_counts(counts)


@settings(max_examples=30)
@given(joints(), st.data())
def test_the_level_at_a_point_is_what_listing_finds(joint, data):
    mechanism = data.draw(mechanisms(joint))
    found = raised(mechanism, joint.p)
    assert sf.level(mechanism, sf.PML(joint)) == pytest.approx(max(found, 0.0), abs=1e-9)
    assert sf.measure(mechanism, sf.PML(joint)).value == pytest.approx(max(found, 0.0), abs=1e-9)


@settings(max_examples=30)
@given(joints(), st.data())
def test_odds_bound_beliefs_and_beliefs_bound_maximal_leakage(joint, data):
    mechanism = data.draw(mechanisms(joint))
    pml = sf.level(mechanism, sf.PML(joint))
    assert pml <= sf.level(mechanism, sf.LIP(joint)) + 1e-9 <= sf.level(mechanism, sf.LDP(joint)) + 2e-9
    assert sf.measure(mechanism, sf.MaximalLeakage(about=joint)).value <= pml + 1e-9


@settings(max_examples=10)
@given(joints(), st.sampled_from([0.002, 0.05]), st.sampled_from(READS), st.integers(0, 10**6))
def test_no_distribution_in_the_ball_exceeds_the_level_over_it(joint, radius, reads, seed):
    rng = np.random.default_rng(seed)
    ball = sf.ChiSquareBall(joint, radius=radius)
    inputs = joint.p.size if reads == "both" else joint.useful.size
    mechanism = sf.Tabular(rng.dirichlet(np.ones(3), size=inputs).T, joint=joint, reads=reads)
    level = sf.level(mechanism, sf.PML(ball))
    for p in boundary_points(ball, rng, 60):
        assert raised(mechanism, p) <= level + 1e-7
    assert sf.level(mechanism, sf.PML(joint)) <= level + 1e-9 <= sf.level(mechanism, sf.LIP(ball)) + 2e-9
    assert sf.level(mechanism, sf.LIP(ball)) <= sf.level(mechanism, sf.RLDP(ball)) + 1e-7


@settings(max_examples=6)
@given(st.integers(0, 10**6), st.sampled_from([0.001, 0.02, 0.2]), st.sampled_from(READS), st.sampled_from(["lip", "pml"]))
def test_the_proof_meets_the_worst_distribution_found(seed, radius, reads, notion):
    rng = np.random.default_rng(seed)
    joint = table(seed, n=400)
    ball = sf.ChiSquareBall(joint, radius=radius)
    inputs = joint.p.size if reads == "both" else joint.useful.size
    mechanism = sealed(sf.Tabular(rng.dirichlet(np.ones(2), size=inputs).T, joint=joint, reads=reads))
    level = sf.level(mechanism, (sf.LIP if notion == "lip" else sf.PML)(ball))

    def proved(target):
        return shifts_over_ball(mechanism, joint, radius, math.exp(target), NOTHING, notion).ratio < math.inf

    assert proved(level + 1e-5)
    assert not proved(level - 1e-5)


@given(joints(), epsilons(), st.sampled_from(READS), st.booleans())
@settings(max_examples=10)
def test_every_cut_falls_by_the_same_when_a_constant_is_added(joint, epsilon, reads, below):
    for within in (sf.Exactly(joint), sf.ChiSquareBall(joint, radius=0.05)):
        cone = BeliefCone(within, epsilon, reads, below=below)
        rows = np.random.default_rng(0).exponential(size=(3, len(cone.coordinates.p)))
        cuts = cone.cuts(cone.coordinates.unit(rows), room=np.inf, loose=True)
        assert cuts.normals.sum(1) == pytest.approx(-cone.rise, rel=1e-6)


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("seed", range(4))
def test_repaired_rows_are_private_over_the_ball(seed, reads):
    joint, epsilon = table(seed), 0.4
    ball = sf.ChiSquareBall(joint)
    cone = BeliefCone(ball, epsilon, reads)
    x = repaired(cone, np.random.default_rng(seed).exponential(size=(5, len(cone.coordinates.p))) ** 2)
    for row in x:
        two = np.stack([row, row.max() * 1.01 - row]) / (1.01 * row.max())
        full = cone.coordinates.full(two)
        level = _row_level(ball, full[:1] if reads == "both" else two[:1], reads)
        assert level <= epsilon + 1e-7


def _row_level(ball, row, reads):
    """The level of the first output alone: a second one with the same probability for all adds nothing."""
    rest = 1 - row.sum(0)
    mechanism = sf.Tabular(np.concatenate([row, rest[None]]), joint=ball.joint, reads=reads)
    from sfumato.uncertainty.shifts import worst_shifts

    seen = row / row.max()
    seen = seen if reads == "useful" else seen.reshape(1, *ball.joint.shape)
    assert mechanism.outputs == 2
    s = np.arange(ball.joint.secret.size)
    return float(np.log(worst_shifts(ball, np.repeat(seen, len(s), 0), s, np.ones(len(s), bool)).ratio.max()))


@settings(max_examples=15)
@given(joints(secrets=(2, 5)), epsilons(0.05, 3.0))
def test_at_a_point_the_design_attains_its_bound(joint, epsilon):
    made = sf.design(sf.Exactly(joint), epsilon, "pml")
    assert made.certificate.holds and made.certificate.level <= epsilon
    assert raised(made.mechanism, joint.p) <= epsilon + 1e-9
    assert made.value <= made.bound + 1e-9 <= made.ceiling + 2e-9
    assert made.value >= made.bound * (1 - 1e-4) - 1e-4  # by the margin for the proof, 2e-6 nats, and for sealing


@settings(max_examples=10)
@given(joints(secrets=(2, 3), useful=(2, 3)), epsilons(0.1, 1.5))
def test_the_closed_form_at_a_point_and_the_search_agree(joint, epsilon):
    """Two routes: H(U|S) + max I(S;Y), and rows moved over the cone from nothing, which cannot exceed it."""
    cone = BeliefCone(sf.Exactly(joint), epsilon)
    master = InformationAim(cone.coordinates)
    found = improve(master, [Tangents(cone, master)], Budget.of_work(0.3))
    bound = joint.entropy_useful_given_secret + response_bound(joint.p_secret, epsilon)
    assert found <= bound + 1e-7
    master.add(cone.coordinates.taken(telling_rows(joint.p, cone.E)))
    assert master.solve() == pytest.approx(bound, abs=1e-4)


@given(st.integers(2, 6), epsilons(0.05, 3.0), st.integers(0, 10**6))
@settings(max_examples=20)
def test_a_response_to_the_secret_by_rays_is_one_by_fillings_of_its_posteriors(size, epsilon, seed):
    """Two routes to max I(S;Y): the funnel's rays for X = S, and secrets raised in any order until nothing is left."""
    p = np.random.default_rng(seed).dirichlet(np.ones(size))
    told = information(best_response(p, math.exp(epsilon)), p)
    with mock.patch("sfumato.optimise.funnel.posteriors.SUBSETS", 0):
        assert told == pytest.approx(information(best_response(p, math.exp(epsilon)), p), abs=1e-6)
    assert told <= min(epsilon, float(-(p * np.log(p)).sum())) + 1e-9


def test_beyond_the_rarest_secret_nothing_is_forbidden():
    joint = sf.Joint.from_counts([[30, 20], [10, 40]])
    made = sf.design(sf.Exactly(joint), 0.01 - math.log(joint.p_secret.min()), "pml")
    assert made.value == pytest.approx(joint.entropy, abs=1e-6)


def test_many_secrets_are_designed_for_within_the_bound():
    rng = np.random.default_rng(3)
    joint = sf.Joint.from_counts(rng.integers(1, 60, (16, 3)))
    made = sf.design(sf.Exactly(joint), 0.5, "pml")
    assert made.certificate.holds and 0.999 * made.bound <= made.value <= made.bound + 1e-9


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize(("seed", "epsilon"), [(0, 0.5), (1, 0.3), (2, 1.0)])
def test_robust_designs_keep_the_promise_at_every_distribution_sampled(seed, epsilon, reads):
    joint = table(seed)
    ball = sf.ChiSquareBall(joint, confidence=0.95)
    made = sf.design(ball, epsilon, "pml", reads=reads, time_limit=SECONDS)
    assert made.certificate.holds and made.mechanism.claim.notion == "pml"
    assert sf.level(made.mechanism, sf.PML(ball)) <= made.certificate.level + 1e-9
    for p in boundary_points(ball, np.random.default_rng(seed), 100):
        assert raised(made.mechanism, p) <= epsilon + 1e-9
    assert made.value <= made.bound + 1e-9


def test_at_zero_a_second_promise_is_kept_too():
    joint = sf.Joint.from_counts(np.random.default_rng(3).integers(5, 300, (2, 3)))
    assert sf.design(sf.Exactly(joint), 0.0, "pml", reads="useful", at_most=1.1).certificate.holds


def test_rows_that_tell_one_value_of_many_are_proved():
    joint = sf.Joint.from_counts(np.random.default_rng(1).integers(1, 400, (2, 20)))
    made = sf.design(sf.ChiSquareBall(joint), 0.6, "pml", working=SECONDS)
    assert made.certificate.holds and made.value > 2.9


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_more_is_kept_than_under_lip_or_rldp_and_more_under_a_weaker_promise(seed):
    joint = table(3 * seed + 1, (2, 3))
    ball = sf.ChiSquareBall(joint, confidence=0.95)
    useful = [sf.design(ball, e, "pml", reads="useful", time_limit=3 * SECONDS).value for e in (0.2, 0.6, 1.2)]
    assert useful == sorted(useful)
    assert useful[1] >= sf.design(ball, 0.6, "lip").value - 2e-3
    assert useful[1] >= sf.design(ball, 0.6, "ldp").value - 2e-3
    both = sf.design(ball, 0.6, "pml", time_limit=6 * SECONDS).value
    assert both >= sf.design(ball, 0.6, "srr").value - 1e-6 and both >= sf.design(ball, 0.6, "grr").value - 1e-6
    assert both <= sf.design(sf.Exactly(joint), 0.6, "pml").bound + 1e-9


def test_a_forged_claim_is_refused():
    joint = table(1)
    for within in (sf.Exactly(joint), sf.ChiSquareBall(joint)):
        made = sf.design(within, 0.5, "pml", time_limit=SECONDS)
        forged = made.mechanism.with_claim(Claim("pml", 0.45, within))
        assert not certificate(forged, wider=False).holds
        with pytest.raises(ClaimError, match="PML"):
            sf.certify(forged)
    point = sf.design(sf.Exactly(joint), 0.5, "pml").mechanism
    with pytest.raises(ClaimError):
        sf.certify(point.with_claim(Claim("pml", 0.5, sf.ChiSquareBall(joint))))


def test_a_claim_survives_its_file(tmp_path):
    made = sf.design(sf.ChiSquareBall(table(1)), 0.5, "pml", time_limit=SECONDS)
    made.mechanism.save(tmp_path / "m.json")
    assert sf.verify(tmp_path / "m.json").level == made.certificate.level
    assert "PML" in made.mechanism.claim.sentence


def test_an_output_may_rule_a_value_out():
    joint = sf.Joint.from_counts([[25, 25], [25, 25]])
    law = Table(np.array([[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]]), 2)
    mechanism = Mechanism(law, joint.secret, joint.useful, joint=joint)
    assert sf.level(mechanism, sf.PML(joint)) == pytest.approx(math.log(2))
    assert sf.level(mechanism, sf.LIP(joint)) == math.inf


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("counts", [[[5, 0], [0, 7]], [[5, 3]], [[9, 1], [0, 0]], [[4], [6]], [[3, 0, 2], [0, 0, 0], [4, 0, 1]]])
def test_tables_with_empty_secrets_and_cells_are_designed_for(counts, reads):
    joint = sf.Joint.from_counts(counts)
    for within in (sf.Exactly(joint), sf.ChiSquareBall(joint, radius=0.1)):
        for epsilon in (0.0, 0.4, 30.0):
            made = sf.design(within, epsilon, "pml", reads=reads, time_limit=1.0)
            assert made.certificate.holds and made.value <= made.bound + 1e-9


def test_what_cannot_be_designed_is_refused_clearly():
    joint = table(1)
    with pytest.raises(InputError, match="known distribution or a χ² ball"):
        sf.design(sf.Anything(joint), 0.5, "pml")
    with pytest.raises(InputError, match="not calibrated to pml"):
        sf.design(sf.Exactly(joint), 0.5, "grr", notion="pml")
    with pytest.raises(InputError, match="recoverable"):
        sf.design(sf.Exactly(joint), 0.5, "pml", recoverable=True)
    with pytest.raises(InputError, match="time_limit"):
        sf.design(sf.Exactly(joint), 0.5, "pml", time_limit=0)
    assert sf.design(sf.Exactly(joint), 0.5, notion="pml").method == "pml"


def test_the_level_of_a_matrix_at_a_point_by_the_funnels_own_sum():
    joint = table(1)
    found = best_pml(joint.p, 0.5)
    mechanism = sf.Tabular(found.matrix, joint=joint, reads="useful")
    assert sf.level(mechanism, sf.PML(joint)) <= 0.5 + 1e-12
    assert information(found.matrix, joint.p_useful) == pytest.approx(sf.mutual_information(mechanism, joint), abs=1e-12)


def test_an_audit_refutes_a_false_claim_and_not_a_true_one():
    joint = sf.Joint.from_counts([[300, 100], [100, 500]])
    made = sf.design(sf.Exactly(joint), 0.3, "pml").mechanism
    assert not sf.audit(made, records=20_000, seed=1).refuted
    assert sf.audit(made, epsilon=0.05, records=20_000, seed=1).refuted


def test_two_releases_are_computed_together_and_not_summed():
    joint = sf.Joint.from_counts([[300, 100], [100, 500]])
    made = sf.design(sf.Exactly(joint), 0.3, "pml", reads="useful").mechanism
    both = sf.compose(made, made)
    alone = both.level("pml", sf.Exactly(joint))
    assert 0.3 < alone <= both.level("lip", sf.Exactly(joint)) + 1e-9
