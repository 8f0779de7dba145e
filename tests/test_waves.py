"""Two-level answers: one wave is exactly what it says, and what k waves tell is proved."""

import math
import secrets
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import InputError
from sfumato.mechanism.product import exact_rows

LABELS = ["a", "b", "c"]
KINDS = ("grr", "unary")


def channels(two):
    """A[b, x] and B[y, b] as rationals, sets listed."""
    a = np.array(exact_rows(two.permanent.law), object)
    size = Fraction(1, sum(a[:, 0]))
    a = a * size
    flip = np.array(exact_rows(two.instantaneous.law), object)
    flip = flip * Fraction(1, sum(flip[:, 0]))
    if two.permanent.law.kind != "unary":
        return a, flip
    n = two.permanent.inputs
    b = np.array([[math.prod(flip[y >> i & 1, z >> i & 1] for i in range(n)) for z in range(2**n)] for y in range(2**n)], object)
    return a, b


@pytest.mark.parametrize("kind", KINDS)
def test_one_wave_is_exactly_the_two_laws_after_each_other(kind):
    two = sf.waves(LABELS, once=0.5, forever=1.5, kind=kind)
    a, b = channels(two)

    whole = np.array(exact_rows(two.mechanism.law), object)

    assert np.all(b @ a == whole * Fraction(1, sum(whole[:, 0])))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_what_k_waves_tell_is_the_greatest_ratio_over_all_reports(kind, k):
    labels = LABELS if kind == "grr" else LABELS[:2]
    two = sf.waves(labels, once=0.5, forever=1.5, kind=kind)
    a, b = channels(two)
    many = range(len(b))

    worst = Fraction(1)
    for reports in product(many, repeat=k):
        together = math.prod([b[y] for y in reports], start=np.array([Fraction(1)] * len(a), object))
        likely = together @ a
        worst = max(worst, max(likely) / min(likely))

    assert two.level(k) == pytest.approx(math.log(worst), abs=1e-12) and two.level(k) >= math.log(worst) - 1e-15


@pytest.mark.parametrize("kind", KINDS)
def test_more_waves_tell_more_and_never_more_than_the_permanent_answer(kind):
    two = sf.waves(list("abcdefgh"), once=0.4, forever=2.0, kind=kind)

    levels = [two.level(k) for k in (1, 2, 3, 5, 10, 50, 400)]

    assert levels == sorted(levels) and levels[0] <= 0.4 and levels[-1] <= two.forever <= 2.0
    assert levels[-1] > 1.99 and two.level(3, 2) == pytest.approx(two.level(3) + two.level(2))


def test_the_files_are_proved_and_estimates_take_one_wave(tmp_path):
    two = sf.waves(LABELS, once=1.0, forever=3.0)
    for name, m in (("one", two.mechanism), ("kept", two.permanent), ("fresh", two.instantaneous)):
        assert sf.verify(m.save(tmp_path / f"{name}.json")).holds
    keys = [secrets.token_bytes(32) for _ in range(2000)]

    found = sf.estimate([two.respond("a", memo=key) for key in keys], two.mechanism)

    low, high = found.interval(0.999)
    assert np.all(low <= [1, 0, 0]) and np.all(high >= [1, 0, 0])


def test_waves_of_several_questions_are_answered_together():
    made = sf.Survey.of_labels({"a": ["x", "y"], "b": ["u", "v", "w"]}, once=1.0, forever=2.0, wave="spring")

    assert made.mechanism.inputs == 6 and made.waves.level(1) <= 1.0 and made.wave == "spring"
    assert len(made.waves.respond(a="x", b="w", memo=secrets.token_bytes(32))) == 2


def test_a_named_wave_is_remembered_and_waves_differ():
    two, key = sf.waves(["yes", "no"], once=0.5, forever=1.0), secrets.token_bytes(32)

    assert len({two.respond("yes", memo=key, wave="spring") for _ in range(5)}) == 1
    assert len({two.respond("yes", memo=key, wave=str(i)) for i in range(60)}) == 2


@pytest.mark.parametrize("asked", [dict(once=1.0, forever=1.0), dict(once=0.0, forever=1.0), dict(once=1.0, forever=2.0, kind="x")])
def test_impossible_waves_are_refused(asked):
    with pytest.raises(InputError):
        sf.waves(LABELS, **asked)
