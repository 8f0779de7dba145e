"""Limits and special members of the family, by a second route each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.channels import channels, prior

import sfumato as sf
from sfumato.privacy import (
    LDP,
    LIP,
    Arimoto,
    BayesLeakage,
    GainLeakage,
    Leakage,
    MaximalCorrelation,
    MaximalLeakage,
    PointwiseLeakage,
    RenyiLDP,
    Shannon,
    Sibson,
    TiltedLeakage,
    TotalVariation,
)

inf = np.inf
close = lambda x, **k: pytest.approx(x, **({"rel": 1e-9, "abs": 1e-9} | k))


def theorem_1(q, a, b, x, p):
    """(6) word for word."""
    return a / ((a - 1) * b) * np.log(sum(q[y, x] ** (1 - b) * (p @ q[y] ** a) ** (b / a) for y in range(len(q))))


@given(channels(positive=True, most=4), st.floats(1.1, 8), st.floats(1, 8), st.integers(0, 10**6))
def test_no_prior_beats_the_value_and_the_witness_attains_it(q, a, b, seed):
    found = Leakage(a, b).of(q)
    n = q.shape[1]
    for p in np.random.default_rng(seed).dirichlet(np.full(n, 0.5), size=20):
        assert max(theorem_1(q, a, b, x, p) for x in range(n)) <= found.bound + 1e-9
    if found.prior is not None:
        x = found.witness.other or 0
        assert theorem_1(q, a, b, x, found.prior) == close(found.value, abs=1e-8)


@given(channels(positive=True))
def test_the_corners(q):
    ldp = LDP().of(q).value
    assert Leakage(inf, inf).of(q).value == close(ldp)
    assert Leakage(3, inf).of(q).value == close(1.5 * ldp)
    assert Leakage(inf, 1).of(q).value == close(MaximalLeakage().of(q).value)
    assert Leakage(2, 2).of(q).value == close(RenyiLDP(2).of(q).value)
    assert Leakage(1, 1).of(q).value == close(Shannon().of(q).value)


@given(channels(positive=True))
def test_the_edges_are_limits(q):
    top = max(1.0, LDP().of(q).value) ** 2
    assert Leakage(1, 1).of(q).value == close(Leakage(1 + 1e-7, 1).of(q).value, abs=1e-6 * top)
    assert TiltedLeakage(1, 0.4).of(q).value == close(TiltedLeakage(1 + 1e-7, 0.4).of(q).value, abs=1e-6 * top)
    assert RenyiLDP(1).of(q).value == close(RenyiLDP(1 + 1e-7).of(q).value, abs=1e-6 * top)
    assert RenyiLDP(inf).of(q).value == close(RenyiLDP(1e6).of(q).value, abs=1e-4 * top)
    assert Leakage(inf, 2).of(q).value == close(Leakage(1e5, 2).of(q).value, abs=1e-3 * top)
    assert Leakage(2, 1).of(q).value == close(Leakage(2, 1 + 1e-9).of(q).value, abs=1e-5 * top)
    assert Leakage(2, 2).of(q).value == close(Leakage(2, 2 - 1e-9).of(q).value, abs=1e-5 * top)


@pytest.mark.parametrize("seam", [1.01, 1 + 1e-2])
def test_careful_and_plain_formulas_meet(seam):
    q = np.random.default_rng(0).dirichlet(np.ones(6), size=5).T
    for t in (1.0, 0.5):
        left, right = (TiltedLeakage(seam * (1 + s), t).of(q).value for s in (-1e-12, 1e-12))
        assert left == close(right, abs=1e-9)
    assert RenyiLDP(seam - 1e-12).of(q).value == close(RenyiLDP(seam + 1e-12).of(q).value)


def test_a_zero_is_infinite_above_beta_one_and_finite_at_one():
    q = np.array([[0.5, 0.2], [0.5, 0.3], [0, 0.5]])
    assert np.isinf(Leakage(3, 2).of(q).value) and np.isinf(Leakage(3, 5).of(q).value)
    assert np.isinf(Leakage(inf, 1.5).of(q).value) and np.isinf(LDP().of(q).value)
    assert np.isfinite(Leakage(3, 1).of(q).value) and np.isfinite(Leakage(1, 1).of(q).value)
    assert Leakage(3, 2).of(q, [1, 0]).value == 0


def test_alpha_one_above_beta_one_is_infinite_unless_nothing_leaks():
    assert np.isinf(Leakage(1, 2).of([[0.5, 0.4], [0.5, 0.6]]).value)
    assert Leakage(1, 2).of([[0.5, 0.5], [0.5, 0.5]]).value == 0


def test_at_one_one_the_path_matters():
    q = np.array([[0.8, 0.3], [0.2, 0.7]])
    along = [TiltedLeakage(1, t).of(q).value for t in (1, 0.5, 0)]
    assert along[0] == close(Leakage(1, 1).of(q).value) and along[0] < along[1] < along[2]
    assert along[2] == close(RenyiLDP(1).of(q).value)


@given(channels(), st.integers(0, 10**6))
def test_given_priors_stay_below_worst_priors_that_are_attained(q, seed):
    p = prior(q.shape[1], seed)
    gains = GainLeakage(np.random.default_rng(seed).random((3, q.shape[1])))
    for measure in (Shannon(), Sibson(3.0), Arimoto(3.0), BayesLeakage(), LIP(), PointwiseLeakage(),
                    MaximalCorrelation(), TotalVariation(), gains):
        assert measure.of(q, p).value <= measure.of(q).bound + 1e-9
    for measure in (Shannon(), Sibson(3.0), Arimoto(3.0), BayesLeakage(), MaximalCorrelation(), TotalVariation()):
        worst = measure.of(q)
        if worst.prior is not None:
            assert measure.of(q, worst.prior).value == close(worst.value, abs=1e-8)


@given(channels(), st.integers(0, 10**6))
def test_arimoto_by_entropies(q, seed):
    p, a = prior(q.shape[1], seed), 2.5
    joint = q * p
    before = a / (1 - a) * np.log((p**a).sum() ** (1 / a))
    after = a / (1 - a) * np.log(((joint**a).sum(axis=1) ** (1 / a)).sum())
    assert Arimoto(a).of(q, p).value == close(max(0.0, before - after))
    assert Arimoto(inf).of(q, p).value == close(BayesLeakage().of(q, p).value)
    assert GainLeakage(np.eye(p.size)).of(q, p).value == close(BayesLeakage().of(q, p).value)


@given(channels(), st.integers(0, 10**6))
def test_pointwise_leakage_averages_to_maximal_leakage(q, seed):
    p = prior(q.shape[1], seed)
    mean = (q @ p) @ np.exp(PointwiseLeakage().profile(q, p))
    assert np.log(mean) == close(MaximalLeakage().of(q).value)


@settings(max_examples=15)
@given(channels(most=4), st.integers(0, 10**6))
def test_a_secret_behind_the_input_is_the_composed_channel(q, seed):
    p = np.random.default_rng(seed).dirichlet(np.ones(3 * q.shape[1])).reshape(3, -1)
    joint, mechanism = sf.Joint.from_probabilities(p), sf.Tabular(q, joint=sf.Joint.from_probabilities(p))
    composed = q @ (p / p.sum(axis=1, keepdims=True)).T
    at_p = sf.measure(mechanism, Shannon(about=joint), prior=joint).value
    assert at_p == close(Shannon().of(composed, p.sum(axis=1)).value)
    assert sf.level(mechanism, LDP(joint)) == close(LDP().of(composed).value)
    assert sf.measure(mechanism, LDP(joint)).value == close(LDP().of(composed).value)
    assert sf.level(mechanism, Leakage(4, 2, about=joint)) == close(Leakage(4, 2).of(composed).value, abs=1e-8)
    assert sf.level(mechanism, MaximalLeakage(about=joint)) <= sf.level(mechanism, MaximalLeakage()) + 1e-12


def test_labels_of_witnesses_survive_dead_inputs_and_outputs():
    q = np.array([[0, 0, 0.0], [0.5, 0.9, 0.1], [0.5, 0.1, 0.9]])
    found = LDP().of(q, [0, 0.5, 0.5])
    assert {found.witness.input, found.witness.other} == {1, 2} and found.witness.output in (1, 2)
