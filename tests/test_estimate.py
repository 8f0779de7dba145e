"""Estimation: inversion is the inverse, intervals cover, and what cannot be known is named."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato import datasets
from sfumato.estimation import estimate, on_simplex
from sfumato.estimation.inversion import largest
from sfumato.estimation.models import CellsInversion
from sfumato.mechanism import Cells, Conditional, Constant, Mechanism, Table, Unary
from sfumato.releasing import release


def grr(rows, useful, epsilon):
    e, a = np.exp(epsilon), rows * useful
    return Cells(rows, useful, e / (e + a - 1), *[1 / (e + a - 1)] * 3)


def srr(rows, useful, epsilon):
    weights = np.array([np.exp(epsilon), np.exp(-epsilon), 1, 1])
    copies = np.array([1, useful - 1, rows - 1, (rows - 1) * (useful - 1)])
    return Cells(rows, useful, *(weights / (weights @ copies)))


def ir(rows, useful, first, second):
    s, u = (np.array([np.exp(e), 1]) / (np.exp(e) + k - 1) for e, k in ((first, rows), (second, useful)))
    return Cells(rows, useful, s[0] * u[0], s[0] * u[1], s[1] * u[0], s[1] * u[1])


def conditional(joint):
    keep = np.array([0.6, 0.3])
    return Conditional(keep, (1 - keep)[:, None] * joint.useful_given_secret[::-1])


LAWS = {
    "grr": lambda j: grr(*j.shape, 1.0), "srr": lambda j: srr(*j.shape, 1.0), "ir": lambda j: ir(*j.shape, 1.0, 2.0),
    "useful": lambda j: grr(1, j.useful.size, 1.0), "conditional": conditional,
    "unary": lambda j: Unary(*j.shape, 0.5, 0.2), "constant": lambda j: Constant(*j.shape),
    "wide": lambda j: Table(np.random.default_rng(5).dirichlet(np.ones(16), 10).T, 2),
}


def mechanism_of(law, joint, with_joint=True):
    reads = "both" if law.rows > 1 else "useful"
    return Mechanism(law.rounded(None, 0.0), joint.secret, joint.useful, reads, joint=joint if with_joint else None)


@pytest.fixture(scope="module")
def joint():
    return datasets.adult("sex", "race")


def expected(mechanism, joint, n):
    p = mechanism.input_law(joint)
    if mechanism.law.meaning == "subset":
        on, off = (w / 2**mechanism.law.bits for w in (mechanism.law.on, mechanism.law.off))
        return n * (off + (on - off) * p)
    return n * mechanism.matrix @ p


# Laws


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_the_closed_form_is_the_inverse_of_any_cells_law(rows, useful, seed):
    rng = np.random.default_rng(seed)
    copies = np.array([1, useful - 1, rows - 1, (rows - 1) * (useful - 1)])
    weights = rng.random(4) + 0.05
    law = Cells(rows, useful, *(weights / (weights @ copies)))
    q, p = law.matrix(), rng.dirichlet(np.ones(rows * useful)).reshape(rows, useful)
    found = CellsInversion(law, (q @ p.ravel()).reshape(rows, useful), 100)

    if np.linalg.cond(q) < 1e6:
        assert found.rank == rows * useful
        assert np.allclose(found.raw, p, atol=1e-8)
        assert np.allclose(found.marginal(0).raw, p.sum(1), atol=1e-8)
        assert np.allclose(found.marginal(1).raw, p.sum(0), atol=1e-8)
        inverse, f = np.linalg.inv(q), q @ p.ravel()
        covariance = inverse @ (np.diag(f) - np.outer(f, f)) @ inverse.T / 100
        assert np.allclose(found.covariance(), covariance, rtol=1e-5, atol=1e-9)
        assert np.allclose(found.variance.ravel(), np.diag(covariance), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", ["grr", "srr", "ir", "useful", "unary", "wide"])
@pytest.mark.parametrize("method", ["inverse", "em"])
def test_expected_counts_give_the_distribution_back(name, method, joint):
    mechanism = mechanism_of(LAWS[name](joint), joint, with_joint=False)
    truth = joint.p if mechanism.reads == "both" else joint.p_useful
    if (name, method) == ("unary", "em"):
        with pytest.raises(sf.InputError, match="inverse"):
            estimate(expected(mechanism, joint, 10**6), mechanism, method=method, n=10**6)
        return

    found = estimate(expected(mechanism, joint, 10**6), mechanism, method=method, n=10**6)

    assert found.identifiable and found.n == 10**6
    assert np.allclose(found.p, truth, atol=1e-6 if method == "inverse" else 1e-3)
    assert np.allclose(found.useful.p, joint.p_useful, atol=1e-6)
    assert found.secret is None or np.allclose(found.secret.p, joint.p_secret, atol=1e-6)


@pytest.mark.parametrize("name", ["grr", "srr", "ir", "useful", "unary", "wide"])
def test_estimates_are_unbiased_with_the_covariance_they_state(name, joint):
    mechanism = mechanism_of(LAWS[name](joint), joint)
    n, rng = 400, np.random.default_rng(11)
    codes = rng.choice(mechanism.inputs, (500, n), p=mechanism.input_law(joint))
    raws = []
    for row in codes:
        words = rng.integers(0, 2**64, (n, mechanism.law.words), dtype=np.uint64)
        drawn = mechanism.law.draw(row, words)
        counts = drawn.sum(0) if drawn.ndim == 2 else np.bincount(drawn, minlength=mechanism.outputs)
        raws.append(estimate(counts, mechanism, n=n).raw.ravel())
    stated = estimate(expected(mechanism, joint, n), mechanism, n=n).covariance
    deviation = (np.mean(raws, 0) - mechanism.input_law(joint)) / np.sqrt(np.diag(stated) / len(raws))

    assert np.abs(deviation).max() < 4
    assert np.allclose(np.var(raws, axis=0), np.diag(stated), rtol=0.3)
    scale = np.sqrt(np.outer(np.diag(stated), np.diag(stated)))
    assert np.abs((np.cov(np.transpose(raws)) - stated) / scale).max() < 0.25


@pytest.mark.parametrize(("name", "epsilon", "n"), [("grr", 6, 2000), ("srr", 1, 3000), ("ir", 2, 3000)])
def test_intervals_cover_every_cell_at_once_in_93_of_100_draws(name, epsilon, n, joint):
    law = {"grr": grr, "srr": srr, "ir": lambda r, k, e: ir(r, k, e / 2, e / 2)}[name](*joint.shape, epsilon)
    mechanism = mechanism_of(law, joint)
    q, rng = mechanism.matrix @ joint.p.ravel(), np.random.default_rng(7)

    held = 0
    for counts in rng.multinomial(n, q / q.sum(), size=1000):
        low, high = estimate(counts, mechanism).interval(0.95)
        held += bool(np.all((low <= joint.p) & (joint.p <= high)))

    assert 930 <= held <= 990


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99, 0.999, 0.9999, 1 - 1e-9, 1 - 2**-53])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
@pytest.mark.parametrize("cells", [1, 5, 40])
def test_what_all_cells_stay_within_covers_at_every_level(cells, correlation, level):
    z = largest(correlation + (1 - correlation) * np.eye(cells), level)
    alike, apart = (-NormalDist().inv_cdf(-math.expm1(math.log(level) / k) / 2) for k in (1, cells))

    assert alike <= z <= apart
    if correlation == 0:
        assert z == pytest.approx(apart, rel=0.01)


def test_intervals_of_marginals_and_of_bits_cover(joint):
    n, rng = 3000, np.random.default_rng(8)
    unary = mechanism_of(Unary(*joint.shape, 0.5, 0.2), joint)
    held = np.zeros(3)
    for _ in range(200):
        codes = rng.choice(10, n, p=joint.p.ravel())
        ones = unary.law.draw(codes, rng.integers(0, 2**64, (n, 10), dtype=np.uint64)).sum(0)
        found = estimate(ones, unary, n=n)
        parts = (found, joint.p), (found.secret, joint.p_secret), (found.useful, joint.p_useful)
        for i, (part, truth) in enumerate(parts):
            low, high = part.interval()
            held[i] += bool(np.all((low <= truth) & (truth <= high)))

    assert np.all(held >= 182)


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=12))
def test_projection_is_the_nearest_distribution(values):
    raw = np.array(values)
    p = on_simplex(raw)

    assert p.min() >= 0 and abs(p.sum() - 1) < 1e-12
    # the condition of optimality: raw − p is τ on the support and at most τ elsewhere
    lift = raw - p
    assert np.all(lift <= lift[p > 0].min() + 1e-9)


# What cannot be identified


def test_a_constant_law_identifies_nothing_and_says_so(joint):
    mechanism = mechanism_of(Constant(*joint.shape), joint)

    found = estimate(np.full(10, 100), mechanism)

    assert not found.identifiable and found.identifiable.rank == 1
    assert np.all(found.interval()[0] == 0) and np.all(found.interval()[1] == 1)
    assert "No single cell can" in found.notes[0]
    assert np.allclose(found.p, joint.p, atol=1e-3)


def test_a_law_that_hides_one_side_keeps_the_other_marginal(joint):
    only_secret = mechanism_of(ir(*joint.shape, 1.0, 0.0), joint)

    found = estimate(expected(only_secret, joint, 10**6), only_secret)

    assert found.identifiable.rank == 2 and found.secret.identified and not found.useful.identified
    assert np.allclose(found.secret.p, joint.p_secret, atol=1e-6)
    assert "The distribution of sex can. The distribution of race cannot." in found.identifiable.sentence


def test_conditional_reporting_identifies_as_many_functionals_as_outputs(joint):
    mechanism = mechanism_of(conditional(joint), joint)

    found = estimate(expected(mechanism, joint, 10**6), mechanism)

    assert found.identifiable.rank == 5 and not found.identifiable.cells.any()
    assert found.method == "em" and np.allclose(found.p, joint.p, atol=1e-3)


def test_what_is_not_identified_is_bounded_by_all_that_agrees_with_the_rows(joint):
    keep = np.array([0.95, 0.9])
    law = Conditional(keep, (1 - keep)[:, None] * joint.useful_given_secret[::-1])
    mechanism, n, rng = mechanism_of(law, joint), 5000, np.random.default_rng(4)
    q = mechanism.matrix @ joint.p.ravel()

    held = 0
    for counts in rng.multinomial(n, q / q.sum(), size=30):
        low, high = estimate(counts, mechanism).useful.interval()
        held += bool(np.all((low <= joint.p_useful) & (joint.p_useful <= high)))
    assert held >= 27 and np.all(high - low < 0.15)

    found = estimate(expected(mechanism, joint, 10**8), mechanism)
    low, high = found.interval()
    assert np.all((low <= joint.p) & (joint.p <= high)) and np.all(high <= joint.p_useful + 0.12)


def test_dense_and_closed_form_agree(joint):
    law = srr(*joint.shape, 0.7).rounded(None, 0.0)
    closed = mechanism_of(law, joint)
    dense = Mechanism(Table(law.matrix(), 2), joint.secret, joint.useful)
    counts = np.random.default_rng(3).multinomial(5000, [0.1] * 10)

    a, b = estimate(counts, closed), estimate(counts, dense)

    assert np.allclose(a.raw, b.raw) and np.allclose(a.covariance, b.covariance)
    assert np.allclose(a.interval(), b.interval(), atol=0.01)


# Released rows


@pytest.mark.parametrize("name", ["grr", "srr", "useful", "conditional", "unary", "wide"])
@pytest.mark.parametrize("decode", ["symbols", "likely", "sample"])
def test_released_rows_are_estimated_however_they_were_decoded(name, decode, joint, tmp_path):
    law = grr(*joint.shape, 3.0) if name == "grr" else LAWS[name](joint)
    mechanism = mechanism_of(law, joint)
    people = datasets.rows(joint, seed=1)
    table = release(people, mechanism, decode=decode, seed=2, allow_unclaimed=True)
    release(people, mechanism, tmp_path / "out.csv", decode=decode, seed=2, allow_unclaimed=True)

    found, again = estimate(table, mechanism), estimate(tmp_path / "out.csv", mechanism)

    assert found.decode == again.decode == decode and found.n == joint.n
    assert np.allclose(found.p, again.p)
    if decode != "symbols":
        assert "decoded" in found.notes[-1] or "Errors" in found.notes[-1]
    low, high = found.interval(0.999)
    truth = joint.p if mechanism.reads == "both" else joint.p_useful
    assert np.all((low <= truth) & (truth <= high))


def test_a_changed_table_another_mechanism_and_no_rows_are_refused(joint, tmp_path):
    mechanism, other = mechanism_of(grr(*joint.shape, 1.0), joint), mechanism_of(grr(*joint.shape, 2.0), joint)
    release(datasets.rows(joint, seed=1), mechanism, tmp_path / "out.csv", seed=1, allow_unclaimed=True)

    with pytest.raises(sf.InputError, match="another mechanism"):
        estimate(tmp_path / "out.csv", other)
    with pytest.raises(sf.InputError, match="by the manifest the rows were written as the mechanism gave them"):
        estimate(tmp_path / "out.csv", mechanism, decode="likely")
    with (tmp_path / "out.csv").open("a") as file:
        file.write("Male,White\n")
    with pytest.raises(sf.InputError, match="changed or replaced"):
        estimate(tmp_path / "out.csv", mechanism)
    with pytest.raises(sf.InputError, match="no released rows"):
        estimate(np.zeros(10), mechanism)
    with pytest.raises(sf.InputError, match="9 counts"):
        estimate(np.ones(9), mechanism)
    with pytest.raises(sf.InputError, match="Did you mean 'inverse'"):
        estimate(np.ones(10), mechanism, method="inverted")


def test_a_million_cells_are_inverted_in_linear_time():
    joint = sf.Joint.from_probabilities(np.full((1000, 1000), 1e-6))
    mechanism = mechanism_of(srr(1000, 1000, 2.0), joint, with_joint=False)
    counts = np.random.default_rng(1).poisson(3.0, (1000, 1000))

    found = estimate(counts, mechanism)
    low, high = found.interval()

    assert abs(found.raw.sum() - 1) < 1e-6 and found.p.shape == (1000, 1000)
    assert np.all((low <= 1e-6) & (high >= 1e-6))
    with pytest.raises(sf.InputError, match="too large"):
        _ = found.covariance
