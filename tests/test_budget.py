"""The budget of time: foretold seconds at the pace of the machine, steps that end with the time, what is left then."""

import numpy as np
import pytest
from tests.test_speed import random_joint

import sfumato as sf
from sfumato.certification import over_sets
from sfumato.mechanism.table import pieces_at
from sfumato.optimise.budget import FREE, Budget, OutOfTime, spend
from sfumato.optimise.cone import Coordinates
from sfumato.optimise.informative import listable
from sfumato.optimise.product.blocks import Families
from sfumato.optimise.product.two_level import Profile
from sfumato.optimise.search import InformationAim
from sfumato.optimise.starts import best_channel
from sfumato.uncertainty.sets import worst_first


class Machine:
    """A wall clock on which a second of work takes `pace` seconds."""

    def __init__(self, pace):
        self.pace, self.wall, self.worked = pace, 100.0, 7.0

    def does(self, seconds):
        self.wall, self.worked = self.wall + self.pace * seconds, self.worked + seconds

    def budget(self, seconds):
        return Budget.of(seconds, None, lambda: self.wall, lambda: self.worked)


def test_foretold_seconds_are_those_of_a_machine_as_busy_as_it_was_so_far():
    machine = Machine(4.0)
    whole = machine.budget(100.0)
    kept = whole.less(5.0)
    assert whole.fits(90.0) and kept.left == pytest.approx(95.0)
    machine.does(10.0)
    assert whole.pace == pytest.approx(4.0, rel=0.02) and whole.left == pytest.approx(60.0)
    assert whole.fits(14.9) and not whole.fits(15.5)
    assert kept.left == pytest.approx(40.0, abs=0.5)  # what is kept grew with the pace


def test_a_part_gives_way_to_what_is_kept_when_the_machine_becomes_busy():
    machine = Machine(1.0)
    machine.does(1.0)
    part = machine.budget(100.0).less(10.0).part(0.5)
    assert part.left == pytest.approx(45.0)
    machine.pace = 3.0
    machine.does(10.0)
    assert part.over


@pytest.mark.parametrize("made", [Budget.counted, Budget.of_work])
def test_work_has_no_pace_and_nobody_waits_for_it(made):
    budget = made(3.0).less(1.0)
    spend(1000, 1000)
    assert budget.pace == 1.0 and not budget.waited and budget.firm is FREE
    made(0.0).go_on()  # what is begun is finished
    with pytest.raises(OutOfTime):
        Budget.of(0.0).go_on()


def test_on_a_slow_machine_rows_are_not_begun_that_a_fast_one_lists():
    ball, fast, slow = sf.ChiSquareBall(random_joint(12, 12, 10**5)), Machine(1.0), Machine(200.0)
    budgets_of = [x.budget(402.0) for x in (fast, slow)]
    for machine in (fast, slow):
        machine.does(2.0)
    assert [listable(ball, "both", x) for x in budgets_of] == [True, False]
    with pytest.raises(OutOfTime):
        Families(ball, ball.joint.p, 1.0, Profile(), Budget.of(0.0))


@pytest.mark.parametrize("method", ["ballopt", "polyopt", "nr", "precise", "lip", "ldp", "pml", "auto"])
def test_without_time_there_is_a_design_with_a_proof(method):
    for joint in (random_joint(30, 12, 10**4), random_joint(8, 40, 300)):
        made = sf.design(sf.ChiSquareBall(joint), 1.0, method, time_limit=1e-3)
        assert made.certificate.holds and made.value >= 0.0
        if method in ("ballopt", "polyopt"):
            assert made.value >= sf.design(sf.ChiSquareBall(joint), 1.0, "grr").value * (1 - 1e-6)


def kept(rows, p):
    z = rows @ p
    return float((rows * p * np.log(rows / z[:, None])).sum())


def test_a_channel_without_time_tells_one_bit_and_one_with_time_no_less():
    for size in (5, 14, 40):
        p = np.random.default_rng(size).dirichlet(np.ones(size))
        one, more = (best_channel(p, 1.0, x) for x in (Budget.of(0.0), FREE))
        assert np.allclose(one.sum(0), 1.0) and one.max(1) / one.min(1) == pytest.approx(np.e)
        assert 0.1 < kept(one, p) <= kept(more, p) * (1 + 1e-9)


def test_a_mixture_without_time_stays_one():
    joint = random_joint(6, 6, 10**4)
    master = InformationAim(Coordinates.of(joint), Budget.of(0.0))
    master.add(1.0 + np.random.default_rng(0).random((200, len(master.p))))
    master.solve()
    rows, weights = master.used()
    assert np.allclose(weights @ rows, 1.0) and master.value >= 0.0


def test_pieces_are_those_that_a_search_for_each_place_finds():
    rng = np.random.default_rng(3)
    for _ in range(30):
        ends = [np.cumsum(rng.integers(1, 9, rng.integers(1, 8))) for _ in range(4)]
        places = np.sort(rng.integers(0, 40, 50))
        for side, other in (("left", "right"), ("right", "left")):
            found = pieces_at(ends, places, side)
            for k, e in enumerate(ends):
                assert (found[:, k] == np.minimum(np.searchsorted(e, places, side=other), len(e) - 1)).all()


def test_the_worst_pairs_come_in_the_order_of_all_of_them():
    bounds = np.random.default_rng(4).integers(0, 3000, 20_000) / 7.0  # many are alike
    assert (np.concatenate(list(worst_first(bounds, lambda: -1.0))) == np.argsort(-bounds, kind="stable")).all()
    some = np.concatenate(list(worst_first(bounds, lambda: 400.0)))
    assert (np.sort(some) == np.flatnonzero(bounds > 400.0)).all()


class Listed:
    """Bounds of pairs that somebody has written down: a side is the places [i, s] of its rows."""

    def __init__(self, ratios):
        self.ratios = ratios

    def pairs(self, first, second, enough=1.0):
        return self.ratios[first[0], first[1], second[1]]


@pytest.mark.parametrize("few", [1, 3, 7])
def test_a_proof_that_begins_with_the_furthest_secrets_proves_what_one_of_all_pairs_does(few, monkeypatch):
    monkeypatch.setattr(over_sets, "FURTHEST", few)
    rng = np.random.default_rng(few)
    for _ in range(50):
        n, s = rng.integers(1, 4), rng.integers(few + 1, 12)
        top, bottom = rng.uniform(1, 3, (n, s)).round(1), rng.uniform(0.3, 1, (n, s)).round(1)
        true = top[:, :, None] / bottom[:, None] * rng.uniform(0.2, 1, (n, s, s))
        true[:, range(s), range(s)] = 0
        found = over_sets._pairs(top, bottom, lambda i, a, b: ((i, a), (i, b)), Listed(true), 1.0, np.inf, "output")
        assert float(found.ratio) == max(1.0, true.max())


def test_a_design_that_is_interrupted_is_the_best_so_far_and_a_release_is_none(monkeypatch):
    from sfumato.optimise import search
    from sfumato.optimise.budget import INTERRUPTED, heard_by

    ball = sf.ChiSquareBall(sf.Joint.from_counts([[300, 120, 80], [90, 260, 150]]))

    def pressed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(search.Tangents, "__call__", pressed)
    monkeypatch.setattr("sfumato.optimise.all_levels.Together.run", pressed)
    monkeypatch.setattr("sfumato.optimise.informative.meet", pressed)
    for method in ("ballopt", "precise"):
        design = sf.design(ball, 1.0, method, time_limit=20.0)
        assert INTERRUPTED in design.notes and design.certificate.level <= 1.0
        with pytest.raises(KeyboardInterrupt), heard_by(None):
            sf.design(ball, 1.0, method, time_limit=20.0)


def test_first_rows_of_estimates_end_with_the_time():
    from sfumato.optimise.estimates.goal import goal
    from sfumato.optimise.estimates.searching import searched

    joint = sf.Joint.from_counts(np.arange(1, 41).reshape(4, 10).tolist())
    ball, ticks = sf.RenyiBall(joint, alpha=5.0, radius=0.05), iter(range(10**6))
    slow = Budget.of(10.0, clock=lambda: float(next(ticks)), work=lambda: float(next(ticks)))

    assert searched(ball, 0.5, goal(joint, "useful", "useful"), "useful", slow) is None
    assert searched(ball, 0.5, goal(joint, "useful", "useful"), "useful", Budget.counted(5.0)) is not None
