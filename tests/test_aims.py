"""What `auto` aims at, and mechanisms given by their files."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.designers import methods, options_of
from sfumato.estimation.estimates import foreseen
from sfumato.optimise.estimates.goal import closed_errors, parts_of


@pytest.fixture(scope="module")
def lopsided():
    """Three secrets, six useful values: the most informative design has fewer outputs than the table has cells."""
    rng = np.random.default_rng(4)
    return sf.Joint.from_counts(rng.multinomial(4_000, rng.dirichlet(np.ones(18))).reshape(3, 6) + 1)


def identified(design, joint):
    return sf.recovery(design.mechanism, joint).standard_errors is not None


def test_the_least_mean_error_is_aimed_at_and_said(lopsided, patient):
    made = sf.design(lopsided, 1.0)

    assert made.unit == "times the least standard errors" and 1 - 1e-9 <= made.value < 2 and made.bound <= made.value
    assert sf.design(lopsided, 1.0, "grr").foreseen().share < made.foreseen().share
    assert sf.design(lopsided, 1.0, aim="information").unit == "nats"
    assert sf.design(lopsided, 1.0, gap=0.5).unit == "nats"  # a gap is about bits


@pytest.mark.parametrize("useful", [3, 4, 5])
def test_auto_never_walks_into_the_hole_of_srr(useful):
    """Where |U| ≈ e^ε + 1, SRR multiplies the effects of the secret by almost nothing."""
    joint = sf.Joint.from_counts(np.full((3, useful), 1000 // useful))
    points = {p.name: p.points for p in sf.design(joint, 1.0).foreseen().parts}
    blind = {p.name: p.points for p in sf.design(joint, 1.0, "srr").foreseen().parts}

    assert points["secret"] < 25 and (useful != 4 or blind["secret"] > 50)
    assert sf.design(sf.Anything(joint), 1.0).mechanism.method == "precise"


def test_what_is_foreseen_is_what_estimates_say():
    joint = sf.datasets.adult("sex", "race")
    for method in ("srr", "oue", "grr"):
        made = sf.design(joint, 1.0, method)
        told = {p.name: p for p in made.foreseen().parts}
        inversion = foreseen(made.mechanism, joint, joint.n)
        for name, axis in (("sex", 0), ("race", 1)):
            mean = inversion.marginal(axis).variance.mean()
            assert told[name].points == pytest.approx(196 * np.sqrt(mean), rel=2e-3)
    helps = made.foreseen().helps
    assert [h.times for h in helps] == sorted(h.times for h in helps) and all(0 < h.times < 1 for h in helps)
    assert any("ε = 2 instead of 1" in h.what for h in helps)


@pytest.mark.parametrize("method", ["srr", "grr", "oue", "sue", "ir"])
@pytest.mark.parametrize("reads", ["both", "useful"])
def test_errors_of_closed_forms_are_those_of_their_matrices(method, reads):
    useful = sf.Alphabet.of(sf.Column.of("a", ["x", "y"]), sf.Column.of("b", ["u", "v", "w"]))
    joint = sf.Joint.from_counts(np.random.default_rng(0).integers(5, 50, (3, 6)), 3, useful)
    if reads == "useful" and method in ("srr", "ir"):
        return
    law = sf.design(joint, 1.0, method, reads=reads).mechanism.law
    listed = {name: goal.of_law(law) for name, goal in parts_of(joint, reads).items()}

    assert closed_errors(law, joint, reads) == pytest.approx(listed, rel=1e-6)


def test_either_never_gives_a_release_from_which_nothing_can_be_estimated(lopsided):
    ball = sf.ChiSquareBall(lopsided)

    either = sf.design(ball, 1.0, aim="either")

    assert identified(either, lopsided)
    assert either.certificate.level <= 1.0


def test_estimates_are_better_when_aimed_at_and_information_when_that_is(lopsided):
    ball = sf.ChiSquareBall(lopsided)
    bits = sf.design(ball, 1.0, aim="information")
    errors = sf.design(ball, 1.0, aim="estimates")

    kept = [sf.mutual_information(d.mechanism, lopsided) for d in (bits, errors)]
    grr = sf.recovery(sf.design(ball, 1.0, "grr").mechanism, lopsided).standard_errors.mean()

    assert kept[0] >= kept[1]
    assert sf.recovery(errors.mechanism, lopsided).standard_errors.mean() <= grr
    assert sf.design(ball, 1.0).method == errors.method


def test_large_tables_and_other_notions_get_the_best_closed_form():
    joint = sf.datasets.adult("sex", "race")
    assert sf.design(sf.Anything(joint), 20.0, aim="estimates").method in ("srr", "grr", "oue")
    ball = sf.ChiSquareBall(joint)
    searched = sf.design(ball, 1.0, aim="estimates", reads="useful")
    closed = sf.design(ball, 1.0, "grr", reads="useful")
    errors = [sf.recovery(d.mechanism, joint).standard_errors.mean() for d in (searched, closed)]
    assert errors[0] <= errors[1] * (1 + 1e-6)


def test_an_unknown_aim_is_named():
    with pytest.raises(sf.InputError, match="'bits' is not an aim"):
        sf.design(sf.ChiSquareBall(sf.datasets.adult("sex", "race")), 1.0, aim="bits")


def test_a_mechanism_may_be_given_by_its_file_or_by_its_design(tmp_path):
    joint = sf.datasets.adult("sex", "race")
    d = sf.design(sf.ChiSquareBall(joint), 1.0, "srr")
    path = d.mechanism.save(tmp_path / "m.json")
    rows = sf.datasets.rows(joint)

    out = [sf.release(rows, m, seed=3) for m in (path, str(path), d, d.mechanism)]

    assert all(t.equals(out[0]) for t in out)
    assert np.array_equal(sf.estimate(out[0], path).p, sf.estimate(out[0], d).p)


def test_what_is_no_mechanism_is_named():
    with pytest.raises(sf.InputError, match="got a Table"):
        rows = sf.datasets.rows(sf.datasets.adult("sex", "race"))
        sf.release(rows, rows)


@pytest.mark.parametrize("method", [m for m in methods() if "time_limit" in options_of(m)])
@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), "soon"])
def test_a_time_limit_that_is_no_positive_number_is_refused_by_every_method(lopsided, method, limit):
    with pytest.raises(sf.InputError, match="time_limit must be a positive number"):
        sf.design(sf.Exactly(lopsided), 1.0, method, time_limit=limit)
