"""Leakage as a promise: proved from integers, carried by the file, found false when it is."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.channels import channels
from tests.strategies import joints, mechanisms, sealed

import sfumato as sf
from sfumato.certification.leakage_proofs import leakage_level
from sfumato.certification.outward import exp_range, log_above, log_below, log_sum_above
from sfumato.certification.proving import proved
from sfumato.mechanism import Claim

inf = math.inf
ORDERS = [(1, 1), (2, 1), (inf, 1), (3, 1.5), (30, 20), (1.001, 1.0005), (2, 2), (2, 5), (1.5, 1.5), (3, inf),
          (inf, inf), (inf, 2), (1.0001, 1)]


def test_exp_and_log_enclose_the_truth():
    rng = np.random.default_rng(0)
    t = np.concatenate([rng.uniform(-689, 689, 1500), rng.uniform(-1, 1, 1000), math.log(2) * np.arange(-500, 500),
                        [0.0, 1e-300, -1e-300, 1e-17, -1e-17, 690, -690]])
    low, high = exp_range(t)
    with localcontext() as context:
        context.prec = 60
        for x, a, b in zip(t, low, high, strict=True):
            truth = Decimal(float(x)).exp()
            assert Decimal(float(a)) <= truth <= Decimal(float(b))
            assert b - a <= 2.0**-46 * (1 + abs(x)) * b + 1e-299
        x = np.concatenate([np.exp(rng.uniform(-300, 300, 500)), 1 + rng.uniform(-1e-9, 1e-9, 200), [5e-324, 1e-301, 1e-300]])
        for value, a, b in zip(x, log_below(x), log_above(x), strict=True):
            assert Decimal(float(a)) <= Decimal(float(value)).ln() <= Decimal(float(b))
        parts = rng.uniform(-900, 900, (6, 50))
        for column, bound in zip(parts.T, log_sum_above(parts), strict=True):
            truth = sum(Decimal(float(v)).exp() for v in column).ln()
            assert truth <= Decimal(float(bound)) <= truth + (1 + abs(truth)) * Decimal("1e-13")


def exactly(weights, total, alpha, beta, p=None):
    """Closed forms of (11) and (15), and (6) at a prior, in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        q = [[Decimal(int(w)) / total for w in row] for row in weights]
        a, b = (None if math.isinf(o) else Decimal(o) for o in (alpha, beta))
        n, best = len(q[0]), Decimal(0)
        p = None if p is None else [Decimal(float(w)) / sum(Decimal(float(v)) for v in p) for w in p]
        for other in range(n):
            if a is None:
                value = sum(max(row) ** b * row[other] ** (1 - b) for row in q).ln() / b
            elif p is not None:
                means = [sum(w * v**a for w, v in zip(p, row, strict=True)) for row in q]
                value = a / ((a - 1) * b) * sum(
                    m ** (b / a) * row[other] ** (1 - b) for m, row in zip(means, q, strict=True)
                ).ln()
            else:
                value = max(
                    a / ((a - 1) * b) * sum(row[x] ** b * row[other] ** (1 - b) for row in q).ln() for x in range(n)
                )
            best = max(best, value)
        return best


@settings(max_examples=20)
@given(channels(positive=True, most=4), st.integers(0, 10**6))
def test_proved_levels_are_never_below_the_truth_and_hardly_above_the_value(q, seed):
    mechanism = sealed(sf.Tabular(q))
    weights, total = np.asarray(mechanism.law.weights), 2**mechanism.law.bits
    for alpha, beta in ORDERS:
        found, read = leakage_level(mechanism, alpha, beta).level, sf.measure(mechanism, sf.Leakage(alpha, beta))
        assert found >= read.value * (1 - 1e-12) - 1e-12
        slack = 2e-10 + (1e-13 / (alpha - 1) if alpha > 1 else 0)  # log Σ is bounded to 1e-13, then divided by α − 1
        assert found <= read.bound + slack * max(1, read.bound)
        if alpha > 1 and not math.isinf(beta) and (beta >= alpha or math.isinf(alpha)) and (alpha, beta) != (inf, 1):
            assert exactly(weights, total, alpha, beta) <= Decimal(found)
        elif 1 <= beta < alpha < inf:
            p = np.random.default_rng(seed).dirichlet(np.ones(q.shape[1]))
            assert exactly(weights, total, alpha, beta, p) <= Decimal(found) + Decimal("1e-50")


@settings(max_examples=25)
@given(st.data())
def test_levels_about_the_secret_are_proved_through_the_joint(data):
    joint = data.draw(joints(empty_cells=True))
    mechanism = sealed(data.draw(mechanisms(joint)))
    if mechanism.law.kind == "unary":
        with pytest.raises(sf.InputError, match="Claim LDP instead"):
            leakage_level(mechanism, 2, 2, joint)
        return
    for alpha, beta in [(inf, 1), (2, 2), (inf, inf), (3, 1.5), (1, 1)]:
        found = leakage_level(mechanism, alpha, beta, joint).level
        read = sf.measure(mechanism, sf.Leakage(alpha, beta, about=joint))
        assert found == pytest.approx(read.value, rel=1e-9, abs=1e-9)


def test_edges_of_proofs():
    zero = sealed(sf.Tabular([[0.5, 0.2], [0.5, 0.3], [0, 0.5]]))
    assert leakage_level(zero, 3, 2).level == inf and leakage_level(zero, 3, 1).level < 1
    assert leakage_level(zero, 1, 1).level < math.log(2)
    assert leakage_level(sealed(sf.Tabular([[0.5, 0.4], [0.5, 0.6]])), 1, 2).level == inf
    flat = sealed(sf.Tabular([[0.25, 0.25], [0.75, 0.75]]))
    assert all(leakage_level(flat, a, b).level == 0 for a, b in [*ORDERS, (1, 2)])


def design(alpha, beta, level=1.0, **options):
    p = np.random.default_rng(1).dirichlet(np.full(6, 2.0))
    joint = sf.Joint.from_probabilities(p[None, :])
    orders = {"alpha": alpha, "beta": beta, "reads": "useful"}
    return sf.design(sf.Exactly(joint), epsilon=level, method="leakage", **orders, **options)


@pytest.mark.parametrize("alpha, beta", [(inf, 1), (2, 2), (inf, inf), (2, inf), (inf, 2), (1, 1), (3, 1), (3, 1.5)])
def test_a_design_is_sealed_certified_and_near_its_bound(alpha, beta, tmp_path):
    made = design(alpha, beta)
    assert made.certificate.holds and made.certificate.level <= 1.0
    assert made.bound <= made.value and made.gap <= 1e-6
    assert sf.level(made.mechanism, sf.Leakage(alpha, beta)) <= 1.0 + 1e-12
    path = made.mechanism.save(tmp_path / "m.json")
    loaded = sf.load(path)
    assert (loaded.claim.alpha, loaded.claim.beta) == (alpha, beta)
    assert sf.verify(path).level == made.certificate.level


def test_several_promises_travel_together(tmp_path):
    made = design(inf, 1, also=[(2, 2, 0.8), (inf, inf, 1.5)])
    path = made.mechanism.save(tmp_path / "m.json")
    found = sf.verify(path)
    assert [c.epsilon for c in found.also] == [0.8, 1.5] and found.holds
    lower = Claim("leakage", 1.0, None, inf, 1.0, (Claim("leakage", 0.4, None, 2.0, 2.0),))
    with pytest.raises(sf.ClaimError, match=r"maximal \(2, 2\)-leakage"):
        sf.certify(made.mechanism, lower)


def test_hamming_under_maximal_leakage_has_its_closed_form():
    """Q_xx ≤ m_x and Σ m ≤ e^ℓ: fill the likeliest first."""
    p = np.random.default_rng(1).dirichlet(np.full(6, 2.0))
    room, kept = math.e, 0.0
    for mass in np.sort(p)[::-1]:
        kept += mass * min(1.0, room)
        room = max(0.0, room - 1)
    assert design(inf, 1).value == pytest.approx(1 - kept, abs=1e-8)


def test_limits_about_the_secret_and_other_distances():
    joint = sf.datasets.adult("sex", "race")
    for alpha, beta in [(inf, 1), (2, 2), (3, 1.5)]:
        made = sf.design(sf.Exactly(joint), epsilon=0.1, method="leakage", alpha=alpha, beta=beta, about="secret")
        assert made.gap <= 1e-6 and made.certificate.within == "exactly"
        assert sf.level(made.mechanism, sf.Leakage(alpha, beta, about=joint)) <= 0.1 + 1e-10
    d = np.abs(np.arange(5)[:, None] - np.linspace(0, 4, 3))  # d[u, y], three outputs
    made = sf.design(sf.Exactly(joint), epsilon=0.5, method="leakage", distance=d)
    assert made.mechanism.outputs <= 3 and made.gap <= 1e-6


def test_information_under_maximal_leakage_beats_its_rivals():
    joint = sf.datasets.adult("sex", "race")
    made = sf.design(sf.Exactly(joint), epsilon=0.5, method="leakage", utility="information")
    grr = sf.design(sf.Exactly(joint), epsilon=2.0, method="grr", notion="ldp").mechanism
    assert sf.level(grr, sf.MaximalLeakage()) > 0.5 or sf.mutual_information(grr, joint) < made.bound
    assert made.gap < 1e-6 and made.value == pytest.approx(sf.mutual_information(made.mechanism, joint))


@pytest.mark.parametrize("options, said", [
    ({"alpha": 0.5}, "alpha and beta must be 1 or more"), ({"distance": "euclid"}, "is not a distance"),
    ({"distance": [[1.0]]}, "with 6 rows"), ({"about": "nobody"}, "is not what leakage is about"),
    ({"utility": "information", "alpha": 2.0, "beta": 2.0}, "not convex"),
    ({"gamma": 1}, "is not an option of leakage"),
])
def test_wrong_options_are_explained(options, said):
    with pytest.raises(sf.InputError, match=said):
        design(**({"alpha": inf, "beta": 1.0} | options))


def test_measures_of_laws_too_large_to_list_are_refused_clearly():
    joint = sf.Joint.from_counts(np.ones((3, 10), int))
    unary = sf.design(sf.Exactly(joint), epsilon=1.0, method="oue").mechanism
    with pytest.raises(sf.InputError, match="too many to list"):
        sf.level(unary, sf.Leakage(2, 2))
    assert sf.level(unary, sf.LDP()) > 0


def test_rldp_is_read_with_a_witness():
    joint = sf.datasets.adult("sex", "race")
    ball = sf.ChiSquareBall(joint, confidence=0.95)
    made = sf.design(ball, epsilon=1.0, method="ir")
    found = sf.measure(made.mechanism, sf.RLDP(ball))
    tight = math.log(proved(made.mechanism, "rldp", ball, 1.0).ratio)  # the certificate stops once the claim is proved
    assert found.value == pytest.approx(tight, abs=1e-6) and found.bound >= found.value
    w = found.witness
    row = made.mechanism.matrix[w.output].reshape(joint.shape)
    assert math.log(ball.worst(row, w.input, w.other).ratio) == pytest.approx(found.value, abs=1e-6)


def test_what_is_no_number_has_no_finite_upper_bound():
    assert np.array_equal(log_above(np.array([0.0, np.nan])), [-np.inf, np.inf])
