"""The laws of [004, Thm 2] and Remark 1, for every order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.channels import channels, orders

from sfumato.privacy import Leakage, TiltedLeakage, apart, together

SLACK = 3e-10


def level(a, b, q):
    found = Leakage(a, b).of(q)
    assert found.gap <= 1e-10 * max(1, found.value)
    return found.value


def below(small, large):
    return small <= large + SLACK * max(1, large)


@given(channels(), orders, orders, orders)
def test_leakage_never_falls_when_beta_grows(q, a, b1, b2):
    low, high = sorted((b1, b2))
    assert below(level(a, low, q), level(a, high, q))


@given(channels(inputs=3), st.integers(0, 10**6), orders, orders)
def test_processing_the_output_never_adds_leakage(q, seed, a, b):
    then = np.random.default_rng(seed).dirichlet(np.ones(3), size=q.shape[0]).T
    assert below(level(a, b, then @ q), level(a, b, q))


@given(channels(inputs=3), st.integers(0, 10**6), orders, orders)
def test_processing_the_input_never_adds_leakage(q, seed, a, b):
    before = np.random.default_rng(seed).dirichlet(np.ones(3), size=4).T
    assert below(level(a, b, q @ before), level(a, b, q))


@given(channels(), orders, orders)
def test_leakage_is_zero_exactly_when_the_output_ignores_the_input(q, a, b):
    assert level(a, b, np.repeat(q[:, :1], 3, axis=1)) == 0
    if np.abs(q - q[:, :1]).max() > 1e-3:
        assert level(a, b, q) > 0


@settings(max_examples=15)
@given(channels(most=3), channels(most=3), orders, orders)
def test_independent_releases_add(q1, q2, a, b):
    total = level(a, b, apart(q1, q2))
    parts = level(a, b, q1) + level(a, b, q2)
    assert total == pytest.approx(parts, rel=1e-8, abs=3e-9) or (np.isinf(total) and np.isinf(parts))


@settings(max_examples=15)
@given(channels(most=3, inputs=3), channels(most=3, inputs=3), orders, orders)
def test_two_releases_of_one_input_leak_no_more_than_the_sum(q1, q2, a, b):
    assert below(level(a, b, together(q1, q2)), level(a, b, q1) + level(a, b, q2))


@given(channels(), orders, orders, st.floats(0, 1), st.floats(0, 1))
def test_tilted_leakage_falls_in_tau_and_grows_in_alpha(q, a1, a2, t1, t2):
    (a1, a2), (t1, t2) = sorted((a1, a2)), sorted((t1, t2))
    assert below(TiltedLeakage(a1, t2).of(q).value, TiltedLeakage(a1, t1).of(q).value)
    assert below(TiltedLeakage(a1, t1).of(q).value, TiltedLeakage(a2, t1).of(q).value)


@given(channels(), st.floats(1.05, 20), st.floats(0, 1))
def test_tau_is_beta_in_other_words(q, a, t):
    beta = a / (1 + t * (a - 1))
    x, y = TiltedLeakage(a, t).of(q).value, level(a, max(1.0, beta), q)
    assert x == pytest.approx(y, rel=1e-8, abs=1e-8) or t < 1e-9 or t > 1 - 1e-9 or np.isinf(x) == np.isinf(y)
