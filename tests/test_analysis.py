"""What an analyst reads off a release: tables of some columns, shares, differences, odds ratios, tests, regressions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.alphabet import Alphabet, Column
from sfumato.estimation.models import model_of

LEVEL = 0.9


def people(seed=1, n=40_000):
    """Counts of a secret and two useful columns, all positive."""
    p = np.random.default_rng(seed).dirichlet(np.full(12, 3.0))
    useful = Alphabet.of(Column.of("region", ["north", "south"]), Column.of("group", ["a", "b", "c"]))
    return sf.Joint.from_counts(1 + np.rint(n * p).astype(int).reshape(2, 6), Alphabet.of(Column.of("ill", ["no", "yes"])), useful)


def released(joint, method="srr", epsilon=2.0, rng=None):
    mechanism = sf.design(sf.ChiSquareBall(joint), epsilon, method).mechanism
    expected = model_of(mechanism).forward(mechanism.input_law(joint)) * joint.n
    counts = expected if rng is None else rng.multinomial(joint.n, expected / expected.sum())
    return sf.estimate(counts, mechanism, n=joint.n)


def untouched(joint):
    return sf.estimate(joint.counts.ravel(), sf.Tabular(np.eye(joint.p.size), joint=joint))


@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_tables_of_some_columns_are_sums_of_the_whole(seed):
    joint = people(seed)
    found = released(joint, rng=np.random.default_rng(seed))
    whole = found.table("ill", "region", "group")

    np.testing.assert_allclose(whole.raw.reshape(2, 6), found.raw, atol=1e-12)
    np.testing.assert_allclose(found.table("group", "ill").raw, whole.raw.sum(1).T, atol=1e-9)
    np.testing.assert_allclose(found.table("ill").raw, found.secret.inversion.raw, atol=1e-9)
    np.testing.assert_allclose(found.table("ill").error ** 2, found.secret.inversion.variance, rtol=1e-6)
    assert [t.names for t in found.tables] == [
        ("ill",), ("region",), ("group",), ("ill", "region"), ("ill", "group"), ("region", "group")]


@pytest.mark.parametrize("method", ["srr", "grr", "oue"])
def test_without_noise_in_the_counts_every_figure_is_the_truth(method):
    joint = people()
    found, p = released(joint, method, 3.0), joint.p.reshape(2, 2, 3)
    ill = p.sum(2)

    np.testing.assert_allclose(found.table("ill", "region").shares("region").estimate, (ill / ill.sum(0)).ravel(), atol=1e-6)
    difference = found.table("ill", "region").differences("region").estimate
    np.testing.assert_allclose(difference, ill[:, 1] / ill[:, 1].sum() - ill[:, 0] / ill[:, 0].sum(), atol=1e-6)
    odds = found.table("ill", "region").odds_ratios()
    np.testing.assert_allclose(odds.estimate, ill[1, 1] * ill[0, 0] / (ill[1, 0] * ill[0, 1]), rtol=1e-5)
    assert np.all(odds.low <= odds.estimate) and np.all(odds.estimate <= odds.high)


def test_a_regression_on_one_column_of_two_values_is_the_odds_ratio():
    found = released(people(), rng=np.random.default_rng(0))
    effects = found.logistic("ill", "region").effects(LEVEL)
    odds = found.table("ill", "region").odds_ratios(LEVEL, log=True)

    assert effects.labels[1] == {"term": "region = south"}
    np.testing.assert_allclose(effects.estimate[1], odds.estimate[0], atol=1e-6)
    np.testing.assert_allclose(effects.high[1] - effects.low[1], odds.high[0] - odds.low[0], rtol=0.1)


def test_a_regression_solves_the_score_of_rows():
    joint = people()
    p = joint.p.reshape(2, 2, 3)
    b = untouched(joint).logistic("ill", ["region", "group"]).coefficients
    eta = b[0] + np.array([0, b[1]])[:, None] + np.array([0, b[2], b[3]])
    left = p[1] - p.sum(0) / (1 + np.exp(-eta))

    np.testing.assert_allclose([left.sum(), left[1].sum(), left[:, 1].sum(), left[:, 2].sum()], 0, atol=1e-9)


def test_where_nothing_was_randomised_intervals_are_those_of_counts():
    joint = people()
    found, n = untouched(joint), joint.n
    shares = found.table("ill").shares(level=LEVEL)
    p = found.table("ill").p
    z = 1.6448536269514722
    wilson = np.array([(p + z**2 / (2 * n) + s * z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n * n))) / (1 + z**2 / n)
                       for s in (-1, 1)])

    np.testing.assert_allclose([shares.low, shares.high], wilson, atol=2e-4)
    table = joint.counts.reshape(2, 2, 3).sum(2)
    odds = found.table("ill", "region").odds_ratios(LEVEL, log=True)
    np.testing.assert_allclose((odds.high - odds.low)[0], 2 * z * np.sqrt((1 / table).sum()), rtol=1e-2)


def test_the_test_of_independence_is_pearsons_where_nothing_was_randomised():
    p = np.outer([0.3, 0.7], [0.2, 0.5, 0.3])
    counts = np.random.default_rng(3).multinomial(50_000, p.ravel()).reshape(2, 3)
    found = untouched(sf.Joint.from_counts(counts)).table("secret", "useful").independence()
    expected = np.outer(counts.sum(1), counts.sum(0)) / counts.sum()

    assert found.df == 2 and found.statistic == pytest.approx(((counts - expected) ** 2 / expected).sum(), rel=0.02)
    assert untouched(people()).table("ill", "group").independence().p_value < 1e-6


@given(st.integers(0, 10**6), st.sampled_from(["shares", "given", "differences", "odds"]))
@settings(max_examples=15, deadline=None)
def test_intervals_that_hold_together_hold_one_by_one(seed, kind):
    table = released(people(seed), rng=np.random.default_rng(seed)).table("ill", "group")
    ask = {"shares": table.shares, "given": lambda **k: table.shares("group", **k),
           "differences": lambda **k: table.differences("ill", **k), "odds": table.odds_ratios}[kind]
    one, all_of_them = ask(level=LEVEL), ask(level=LEVEL, together=True)

    assert np.all(all_of_them.low <= one.low + 1e-12) and np.all(all_of_them.high >= one.high - 1e-12)
    assert np.all(one.low <= one.estimate) and np.all(one.estimate <= one.high)


def test_what_cannot_be_identified_can_be_anything():
    joint = people()
    blind = sf.Tabular(np.kron(np.eye(2), np.ones((1, 6))), joint=joint)  # tells the secret alone
    found = sf.estimate(joint.counts.sum(1), blind)

    assert found.table("ill").identified and not found.table("ill", "group").identified
    shares = found.table("ill", "group").shares("ill")
    assert np.all(shares.low == 0) and np.all(shares.high == 1)
    with pytest.raises(sf.InputError, match="cannot be identified"):
        found.table("ill", "group").independence()
    with pytest.raises(sf.InputError, match="cannot be identified"):
        found.logistic("ill", "group")


def test_wrong_questions_are_answered_with_the_way_out():
    found = untouched(people())

    with pytest.raises(sf.InputError, match=r"'regoin' is not a column of this estimate.*Did you mean 'region'"):
        found.table("regoin")
    with pytest.raises(sf.InputError, match="different columns"):
        found.table("ill", "ill")
    with pytest.raises(sf.InputError, match="about two columns, got 1"):
        found.table("ill").odds_ratios()
    with pytest.raises(sf.InputError, match=r"'group' has 3 values.*value="):
        found.logistic("group", "ill")
    with pytest.raises(sf.InputError, match="strictly between 0 and 1"):
        found.table("ill").shares(level=2)


def test_figures_are_frames():
    figures = untouched(people()).table("ill", "group").shares("group")
    frame = figures.to_pandas()

    assert list(frame) == ["ill", "group", "share given group", "low", "high"] and len(frame) == 6
    assert figures.to_polars().shape == figures.to_arrow().shape == (6, 5)
    assert "<table>" in figures._repr_html_() and "95 % intervals one by one" in repr(figures)


def test_what_outputs_mean_is_the_posterior_under_the_design_distribution():
    made = sf.design(sf.Joint.from_counts([[40, 25, 60], [30, 70, 20]], secret=["ill", "well"], useful=["a", "b", "c"]), 1.0, "grr").mechanism
    told = dict(made.meanings(most=4, named=6))
    law = made.matrix * made.joint.p.ravel()

    assert len(told) == 4 and all(sum(p for _, p in cells) == pytest.approx(1) for cells in told.values())
    assert dict(told["well", "b"])["well · b"] == pytest.approx(law[4, 4] / law[4].sum())
