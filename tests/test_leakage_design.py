"""Designs under leakage: inside their limits, above their bounds, equal to closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.designers.distortion import certified
from sfumato.optimise.leakage_limits import LeakageLimit as Limit
from sfumato.optimise.leakage_limits import least_distortion, under_ldp, under_maximal_leakage
from sfumato.privacy import LDP, Leakage, MaximalLeakage, Shannon

inf = np.inf
LIMITS = [(inf, 1), (inf, inf), (2, inf), (inf, 2), (2, 2), (2, 3), (1, 1), (2, 1), (3, 1.5)]


@pytest.mark.parametrize("alpha, beta", LIMITS)
@pytest.mark.parametrize("level", [0.05, 0.7, 2.0])
def test_the_design_keeps_its_limit_and_closes_its_gap(alpha, beta, level):
    rng = np.random.default_rng(int(level * 100))
    p, d = rng.dirichlet(np.ones(4)), rng.random((4, 5))
    for distance in (d, 1 - np.eye(4)):
        found = least_distortion(p, distance, [Limit(alpha, beta, level)], certified)
        assert Leakage(alpha, beta).of(found.matrix).bound < level
        assert found.bound <= found.value + 1e-12
        assert found.value - found.bound <= 1e-6


def test_hamming_under_maximal_leakage_keeps_the_likeliest_inputs():
    """Q_xx ≤ m_x and Σ m ≤ e^ℓ: fill the likeliest first."""
    p = np.random.default_rng(0).dirichlet(np.ones(10))
    for level in (0.3, 1.0, 1.9):
        room, kept = np.exp(level), 0.0
        for mass in np.sort(p)[::-1]:
            kept += mass * min(1.0, room)
            room = max(0.0, room - 1)
        assert least_distortion(p, 1 - np.eye(10), [Limit(inf, 1, level)], certified).value == pytest.approx(1 - kept, abs=1e-7)


def test_hamming_under_ldp_with_a_uniform_source_is_randomised_response():
    found = least_distortion(np.full(6, 1 / 6), 1 - np.eye(6), [Limit(inf, inf, 1.0)], certified)
    assert found.value == pytest.approx(5 / (np.e + 5), abs=1e-8)


def test_several_limits_at_once_cost_no_less_than_each():
    p = np.random.default_rng(3).dirichlet(np.ones(5))
    limits = [Limit(inf, 1, 0.6), Limit(2, 2, 0.9), Limit(inf, inf, 2.0)]
    together = least_distortion(p, 1 - np.eye(5), limits, certified)
    assert together.value >= max(least_distortion(p, 1 - np.eye(5), [one], certified).bound for one in limits) - 1e-9
    assert all(certified(limit, together.matrix) < limit.level for limit in limits)
    assert together.value - together.bound <= 1e-6


def test_no_random_channel_within_the_limit_beats_the_bound():
    rng = np.random.default_rng(4)
    p, d = rng.dirichlet(np.ones(3)), rng.random((3, 3))
    for alpha, beta in LIMITS:
        found = least_distortion(p, d, [Limit(alpha, beta, 0.5)], certified)
        for _ in range(50):
            q = rng.dirichlet(np.full(3, 0.5), size=3).T
            share = 1.0
            while Leakage(alpha, beta).of(share * q + (1 - share) * q.mean(axis=1, keepdims=True)).value > 0.5:
                share *= 0.8
            q = share * q + (1 - share) * q.mean(axis=1, keepdims=True)
            assert (p * (d.T * q).sum(axis=0)).sum() >= found.bound - 1e-9


def test_zero_leakage_is_a_constant():
    found = least_distortion(np.array([0.2, 0.8]), 1 - np.eye(2), [Limit(2, 2, 0.0)], certified)
    assert found.value == pytest.approx(0.2) and found.bound == pytest.approx(0.2)


def told(channel):
    return MaximalLeakage().of(channel).value


def test_information_under_maximal_leakage():
    p = np.random.default_rng(5).dirichlet(np.ones(5))
    for level in (0.2, 0.9, np.log(5)):
        found = under_maximal_leakage(p, level, told)
        assert told(found.matrix) <= level and found.value <= found.bound + 1e-12 <= found.value + 1e-8
    assert found.value == pytest.approx(Shannon().of(np.eye(5), p).value, abs=1e-9)
    rng = np.random.default_rng(6)
    best = under_maximal_leakage(p, 0.5, told)
    for _ in range(300):
        q = rng.dirichlet(np.full(5, 0.1), size=5).T
        share = min(1.0, (np.exp(0.5) - 1) / max(1e-9, q.max(axis=1).sum() - 1))
        q = share * q + (1 - share) * q.mean(axis=1, keepdims=True)
        if q.max(axis=1).sum() <= np.exp(0.5):
            assert Shannon().of(q, p).value <= best.bound + 1e-12


def test_information_under_ldp_is_randomised_response_for_two_equal_inputs():
    found = under_ldp(np.array([0.5, 0.5]), 1.0, lambda q: LDP().of(q).value)
    rr = np.array([[np.e, 1], [1, np.e]]) / (1 + np.e)
    assert found.value == pytest.approx(Shannon().of(rr, [0.5, 0.5]).value, abs=1e-9)
    assert LDP().of(found.matrix).value <= 1.0 and found.bound >= found.value - 1e-12


def test_a_solver_that_gives_up_leaves_a_design_within_its_limit_and_a_bound():
    """Clarabel's power cones end by an assertion here; tangents close the gap to what is told."""
    p = np.random.default_rng(70).dirichlet(np.ones(4))
    found = least_distortion(p, 1 - np.eye(4), [Limit(1.001, 1.0005, 0.7)], certified)

    assert Leakage(1.001, 1.0005).of(found.matrix).bound < 0.7
    assert found.bound <= found.value <= found.bound + 1e-4
