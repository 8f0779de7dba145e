"""What `auto` aims at, and mechanisms given by their files."""

import numpy as np
import pytest

import sfumato as sf


@pytest.fixture(scope="module")
def lopsided():
    """Three secrets, six useful values: the most informative design has fewer outputs than the table has cells."""
    rng = np.random.default_rng(4)
    return sf.Joint.from_counts(rng.multinomial(4_000, rng.dirichlet(np.ones(18))).reshape(3, 6) + 1)


def identified(design, joint):
    return sf.recovery(design.mechanism, joint).standard_errors is not None


def test_either_never_gives_a_release_from_which_nothing_can_be_estimated(lopsided):
    ball = sf.ChiSquareBall(lopsided)

    either = sf.design(ball, 1.0, aim="either", time_limit=5)

    assert identified(either, lopsided)
    assert either.certificate.level <= 1.0


def test_estimates_are_better_when_aimed_at_and_information_when_that_is(lopsided):
    ball = sf.ChiSquareBall(lopsided)
    bits = sf.design(ball, 1.0, aim="information")
    errors = sf.design(ball, 1.0, aim="estimates", time_limit=5)

    kept = [sf.mutual_information(d.mechanism, lopsided) for d in (bits, errors)]
    grr = sf.recovery(sf.design(ball, 1.0, "grr").mechanism, lopsided).standard_errors.mean()

    assert kept[0] >= kept[1]
    assert sf.recovery(errors.mechanism, lopsided).standard_errors.mean() <= grr


def test_large_tables_and_other_notions_get_the_best_closed_form():
    joint = sf.datasets.adult("sex", "race")
    assert sf.design(sf.Anything(joint), 1.0, aim="estimates").method in ("srr", "grr")
    ball = sf.ChiSquareBall(joint)
    searched = sf.design(ball, 1.0, aim="estimates", reads="useful", time_limit=3)
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
