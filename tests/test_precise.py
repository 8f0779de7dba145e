"""precise: the design from which the table is estimated best."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from tests.strategies import epsilons, joints

import sfumato as sf
from sfumato.comparing.olh import olh_precision
from sfumato.comparing.precision import precision
from sfumato.solve.mixing import best_mixture
from sfumato.solve.precise import precise, trace

JOINT = sf.datasets.adult("sex", "race")


@settings(max_examples=4)
@given(joints(secrets=(2, 3), useful=(2, 4), empty_cells=False), epsilons(0.2, 2.0))
def test_it_keeps_the_promise_and_is_no_worse_than_the_protocols(joint, epsilon):
    ball = sf.ChiSquareBall(joint)
    made = sf.design(ball, epsilon, "precise")
    found = precision(made.mechanism, joint, joint.n).joint.standard_error
    assert made.certificate.holds and made.certificate.level <= epsilon
    assert sf.level(made.mechanism, sf.RLDP(ball)) <= epsilon
    assert made.value == pytest.approx(found, rel=1e-5)  # by Fisher's information, and by the estimate's own covariance
    assert made.bound <= made.value
    others = [precision(sf.design(ball, epsilon, m).mechanism, joint, joint.n).joint.standard_error for m in ("grr", "oue")]
    others.append(olh_precision(joint, math.exp(epsilon), joint.n).joint.standard_error)
    assert found <= min(others) * (1 + 1e-3)


def test_each_target_is_estimated_best_by_its_own_design():
    ball = sf.ChiSquareBall(JOINT)
    made = {t: sf.design(ball, 0.5, "precise", target=t) for t in ("joint", "useful", "secret")}
    for target in made:
        error = {t: getattr(precision(d.mechanism, JOINT, JOINT.n), target).standard_error for t, d in made.items()}
        assert min(error, key=error.get) == target
    told = precision(sf.design(ball, 0.5, "grr", reads="useful").mechanism, JOINT, JOINT.n).useful.standard_error
    assert made["useful"].value < told


def test_a_mixture_is_proved_optimal_by_its_dual():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(4))
    rows = np.concatenate([np.ones((1, 4)), rng.exponential(size=(30, 4)), np.eye(4)])
    V = rows / (rows @ p)[:, None]
    found = best_mixture(V, np.eye(4))
    assert np.abs(V.T @ found.weight - 1).max() < 1e-8 and found.weight.min() >= 0
    J = (V.T * found.weight) @ V
    assert found.value == pytest.approx(np.trace(np.linalg.inv(J)), rel=1e-9)
    # f is convex, so f(θ') ≥ 2f − Σθ'·vᵀMv ≥ 2f − λ·1 − max(vᵀMv − λ·v)₊ for every mixture θ' of these rows.
    steep = np.einsum("yx,xz,yz->y", V, found.slope, V) - V @ found.dual
    proved = 2 * found.value - found.dual.sum() - max(float(steep.max()), 0.0)
    assert proved == pytest.approx(found.value, rel=1e-5)


def test_a_mixture_of_three_rows_is_the_one_a_grid_finds():
    p = np.array([0.5, 0.5])
    V = np.array([[1.6, 0.4], [0.4, 1.6], [1.0, 1.0], [1.3, 0.7], [0.7, 1.3]])
    found = best_mixture(V, np.eye(2))
    best = min(
        trace(np.array([a, a, 1 - 2 * a - 2 * b, b, b])[:, None] * V, p.reshape(1, 2), np.eye(2))
        for a in np.linspace(0, 0.5, 41) for b in np.linspace(0, 0.5 - a, 21)
    )
    assert found.value == pytest.approx(best, rel=1e-6)


def test_larger_tables_beat_unary_encoding_from_the_start():
    rng = np.random.default_rng(0)
    joint = sf.Joint.from_counts(rng.multinomial(30_000, rng.dirichlet(np.ones(36))).reshape(4, 9) + 1)
    ball = sf.ChiSquareBall(joint)
    rows, _ = precise(joint.p, ball.slack, 1.0, np.eye(36) / 36, watch=Once())
    ours = math.sqrt((trace(rows, joint.p, np.eye(36) / 36) - (joint.p**2).mean()) / joint.n)
    usual = precision(sf.design(ball, 1.0, "oue").mechanism, joint, joint.n).joint.standard_error
    assert ours < usual


class Once:
    """A watch that has run out after the first round."""

    over = True

    def tell(self, *args):
        pass


@pytest.mark.parametrize("options, words", [
    ({"target": "all"}, "target"), ({"reads": "useful"}, "reads='both'"), ({"notion": "ldp"}, "notion='rldp'"),
    ({"time_limit": 0.0}, "time_limit"),
])
def test_what_it_cannot_do_is_said(options, words):
    with pytest.raises(sf.InputError, match=words):
        sf.design(sf.ChiSquareBall(JOINT), 1.0, "precise", **options)


def test_sets_and_tables_it_is_not_for_are_refused():
    with pytest.raises(sf.InputError, match="ball or a known"):
        sf.design(sf.Anything(JOINT), 1.0, "precise")
    with pytest.raises(sf.InputError, match="cells at most"):
        sf.design(sf.ChiSquareBall(sf.Joint.from_counts(np.ones((25, 25), int))), 1.0, "precise")
    with pytest.raises(sf.InputError, match="never occurs"):
        sf.design(sf.ChiSquareBall(sf.Joint.from_counts([[3, 0], [4, 0]])), 1.0, "precise")


def test_no_level_tells_nothing():
    made = sf.design(sf.ChiSquareBall(JOINT), 0.0, "precise")
    assert made.certificate.level == 0.0 and math.isinf(made.value)


def test_a_search_that_uses_all_its_rounds_returns_its_last_mixture(monkeypatch):
    monkeypatch.setattr("sfumato.solve.precise.ROUNDS", 1)
    joint = sf.Joint.from_counts(np.random.default_rng(0).integers(1, 60, (3, 6)))
    assert sf.design(sf.ChiSquareBall(joint), 1.0, "precise").certificate.holds
