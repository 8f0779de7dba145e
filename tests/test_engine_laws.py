"""Laws of any correct search over tables that nobody looked at; `make laws` asks them of two thousand tables.

Sealed designs are compared. quick=True ends by its work and not by its time, so that a busy machine sees the same.
"""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_tables import random_counts

import sfumato as sf
from sfumato.errors import InputError
from sfumato.optimise.arrays import canonical
from sfumato.optimise.barrier import BallMover
from sfumato.optimise.budget import FREE, PATIENCE, Budget, spend
from sfumato.optimise.cone import Coordinates, RatioCone, repaired
from sfumato.optimise.informative import most_informative
from sfumato.optimise.linear import Solution
from sfumato.optimise.product.blocks import Families, Groups, two_level
from sfumato.optimise.product.two_level import Profile, climbed
from sfumato.optimise.search import InformationAim, improve

WITHIN = 2e-3  # relative: laws of optima, asked of a search
NUMBERS = st.integers(0, 10**9)
FEW_CELLS = NUMBERS.filter(lambda number: random_counts(number)[0].size <= 6)


def kept(counts, epsilon, radius=None, **options):
    """A quick design, or None where the table says in words that there is nothing to design."""
    try:
        joint = sf.Joint.from_counts(counts)
        ball = sf.ChiSquareBall(joint) if radius is None else sf.ChiSquareBall(joint, radius=radius)
        return sf.design(ball, epsilon, "ballopt", **(options or {"quick": True}))
    except InputError as error:
        assert "fewer than two" in str(error), error
        return None


@settings(max_examples=4)
@given(NUMBERS)
def test_any_table_gets_a_private_design_below_its_bound_and_above_every_closed_form(number):
    counts, epsilon = random_counts(number)
    found = kept(counts, epsilon, time_limit=None)
    if found is None:
        return
    assert found.certificate.level <= epsilon
    assert found.value <= found.bound * (1 + 1e-9) + 1e-12
    ball = found.mechanism.claim.within
    for method in ("srr", "ir", "grr", "cr"):
        assert found.value >= sf.design(ball, epsilon, method).value * (1 - WITHIN) - 1e-9, method


@pytest.mark.parametrize("same_secret", [True, False])
@pytest.mark.parametrize("at_most", [None, 3.0])
def test_polyopt_is_private_where_secrets_never_occur(same_secret, at_most):
    ball = sf.ChiSquareBall(sf.Joint.from_counts(np.array([[0.0, 0.0], [0.0, 0.0], [41.0, 4.0], [6.0, 6.0]])))
    found = sf.design(ball, 1.5, "polyopt", same_secret=same_secret, at_most=at_most)
    assert found.certificate.level <= 1.5


@settings(max_examples=4)
@given(FEW_CELLS, st.integers(0, 100))
def test_merging_useful_values_or_shrinking_the_promise_never_keeps_more(number, seed):
    counts, epsilon = random_counts(number)
    found = kept(counts, epsilon)
    if found is None:
        return
    radius = found.mechanism.claim.within.radius
    others = [kept(counts, 0.9 * epsilon), kept(counts, epsilon, 1.2 * radius)]
    if counts.shape[1] > 2:
        i, j = np.random.default_rng(seed).permutation(counts.shape[1])[:2]
        merged = counts.copy()
        merged[:, i] += merged[:, j]
        others.append(kept(np.delete(merged, j, 1), epsilon, radius))
    for other in others:
        assert other is None or other.value <= found.value * (1 + WITHIN) + 1e-9


@pytest.mark.parametrize(("number", "alone", "patient"), [(479, 2, 0.1), (991, 1, 0.3)])
def test_merging_useful_values_keeps_no_more_where_secrets_never_occur(number, alone, patient, monkeypatch):
    monkeypatch.setenv(PATIENCE, str(patient))
    counts, epsilon = random_counts(number)
    found = sf.design(ball := sf.ChiSquareBall(sf.Joint.from_counts(counts)), epsilon, "ballopt")
    two = np.stack([counts[:, alone], np.delete(counts, alone, axis=1).sum(1)], axis=1)
    merged = sf.ChiSquareBall(sf.Joint.from_counts(two), radius=ball.radius)
    for other in (merged, sf.Anything(ball.joint)):
        assert found.value >= sf.design(other, epsilon, "ballopt").value * (1 - WITHIN)


@settings(max_examples=4)
@given(FEW_CELLS, st.integers(0, 100))
def test_the_order_of_labels_does_not_matter(number, seed):
    counts, epsilon = random_counts(number)
    rng = np.random.default_rng(seed)
    found = kept(counts, epsilon)
    mixed = kept(counts[rng.permutation(len(counts))][:, rng.permutation(counts.shape[1])], epsilon)
    assert (found is None) == (mixed is None)
    if found is not None:
        assert mixed.value == pytest.approx(found.value, rel=WITHIN, abs=1e-9)


@pytest.mark.parametrize("number", [39, 72])
def test_a_search_that_counts_its_work_gives_the_same_answer_in_any_order_of_labels(number):
    counts, epsilon = random_counts(number)
    rng = np.random.default_rng(number)
    mixed = counts[rng.permutation(len(counts))][:, rng.permutation(counts.shape[1])]
    first, second = (
        most_informative(sf.ChiSquareBall(sf.Joint.from_counts(x)), epsilon, Budget.counted(0.15)) for x in (counts, mixed)
    )
    assert second.value == pytest.approx(first.value, rel=1e-9)


@pytest.mark.parametrize("number", [129, 236, 1172])
def test_what_a_secret_that_never_occurs_may_answer_is_an_interval(number):
    counts, epsilon = random_counts(number)
    joint = sf.Joint.from_counts(counts)
    cone = RatioCone(sf.ChiSquareBall(joint), epsilon, closely=True)
    rows = np.random.default_rng(number).lognormal(0.0, 1.0, (20, len(cone.coordinates.p)))
    own, low, high = np.split(cone.with_empty(repaired(cone, rows)), 3)
    for x in (own, low, high):
        assert cone.cuts(x).greatest(len(x)).max() <= 1e-9
    assert (low[:, -1] <= own[:, -1]).all() and (own[:, -1] <= high[:, -1]).all() and (low < high).any()
    for x, beyond in ((low, 0.999), (high, 1.001)):
        x[:, -1] *= beyond
        assert cone.cuts(x).greatest(len(x)).min() > 0.0


@given(st.integers(0, 10**6), st.integers(0, 100))
def test_the_canonical_order_of_a_table_does_not_depend_on_its_labels(number, seed):
    counts, rng = random_counts(number)[0], np.random.default_rng(seed)
    mixed = counts[rng.permutation(len(counts))][:, rng.permutation(counts.shape[1])]
    a, b = (x[np.ix_(*canonical(x))] for x in (counts, mixed))
    assert np.array_equal(np.sort(a.sum(1)), np.sort(b.sum(1)))
    if len(np.unique(counts.sum(1))) == len(counts) and len(np.unique(counts.sum(0))) == counts.shape[1]:
        assert np.array_equal(a, b)


def test_too_little_time_for_a_search_leaves_the_best_closed_form():
    joint = sf.Joint.from_counts(np.random.default_rng(0).multinomial(10**5, np.full(60, 1 / 60)).reshape(2, 30))
    ball = sf.ChiSquareBall(joint)
    for method in ("polyopt", "ballopt"):
        found = sf.design(ball, 3.0, method, time_limit=0.01)
        assert found.value >= sf.design(ball, 3.0, "grr").value * (1 - 1e-6), method


def test_a_limit_is_kept_with_the_proof_where_rows_could_hardly_be_listed():
    counts = np.random.default_rng(0).multinomial(10**7, np.random.default_rng(1).dirichlet(np.full(400, 0.5))).reshape(20, 20)
    started = time.thread_time()
    found = sf.design(sf.ChiSquareBall(sf.Joint.from_counts(counts)), 1.0, "ballopt", time_limit=5)
    assert time.thread_time() - started <= 1.1 * 5 + 1.0
    assert found.certificate.level <= 1.0 and found.value > 0.5 * found.bound


def test_a_design_that_begins_with_another_keeps_no_less():
    ball = sf.ChiSquareBall(sf.Joint.from_counts([[60, 30, 10], [20, 50, 40], [5, 15, 70]]))
    less = sf.design(ball, 0.9, "ballopt", quick=True)
    more = sf.design(ball, 1.0, "ballopt", quick=True, starts=[less.mechanism])
    assert more.value >= less.value
    assert more.details["stages"]["others"] > more.details["stages"]["starts"]
    other = sf.ChiSquareBall(sf.Joint.from_counts([[60, 30], [20, 50]]))
    with pytest.raises(InputError, match="9 inputs"):
        sf.design(other, 1.0, "ballopt", quick=True, starts=[less.mechanism])


def test_a_layout_that_fails_leaves_a_closed_form_and_a_note(monkeypatch):
    def broken(*args, **options):
        raise IndexError("nothing there")

    monkeypatch.setattr("sfumato.optimise.informative.widest", broken)
    monkeypatch.setattr("sfumato.designers.robust.listable", lambda *args: False)
    made = kept(random_counts(1301)[0], 3.0, time_limit=0.5)
    assert made.value > 0.0 and any("left out" in note and "nothing there" in note for note in made.notes)


def test_groups_without_an_answer_leave_the_layout_that_they_began_with(monkeypatch):
    joint = sf.Joint.from_counts([[3000, 2500, 2000, 1500], [90, 60, 150, 50], [40, 80, 20, 60]])
    families = Families(sf.ChiSquareBall(joint), joint.p, 1.0, Profile(0.2, 1.0))
    seed = two_level(families, FREE, rough=True)
    groups = Groups(families, seed)
    solve = groups.pool.lp.solve
    monkeypatch.setattr(groups.pool.lp, "solve", lambda *asked: replace(solve(*asked), optimal=False))
    assert groups.best(FREE) is seed
    assert Groups(families, seed).best(FREE).value(joint.p) > seed.value(joint.p)


def test_rows_grouped_by_a_dominating_secret_keep_more_than_levelled_ones_and_stay_private():
    counts = np.array([[3000, 2500, 2000, 1500], [90, 60, 150, 50], [40, 80, 20, 60]])
    joint = sf.Joint.from_counts(counts)
    ball = sf.ChiSquareBall(joint)
    families = Families(ball, joint.p, 1.0, Profile(0.2, 1.0))
    rough, grouped = two_level(families, FREE, rough=True), two_level(families, FREE)
    assert grouped.rows().sum(0) == pytest.approx(np.ones(joint.p.size))
    assert grouped.value(joint.p) > rough.value(joint.p)
    cone = RatioCone(ball, 1.0)
    rows = cone.coordinates.unit(grouped.rows())
    assert cone.cuts(rows).greatest(len(rows)).max() < 1e-3  # what the grid of the budget leaves to the repair


def test_groups_that_no_layout_began_with_are_opened_where_they_pay(monkeypatch):
    joint = sf.Joint.from_counts([[311, 1110], [3000, 7000], [60, 40], [900, 1500], [8600, 19000]])
    families = Families(sf.ChiSquareBall(joint), joint.p, 1.5, Profile(0.6, 0.7))
    seed = two_level(families, FREE, rough=True)
    opened = Groups(families, seed).best(FREE).value(joint.p)
    monkeypatch.setattr(Groups, "_paying", lambda self, dual: self.heads[:0])
    assert opened > Groups(families, seed).best(FREE).value(joint.p) * 1.0005


@pytest.mark.parametrize("reads", ["both", "useful"])
def test_rows_are_moved_under_all_pairs_of_secrets_at_once(reads):
    counts = np.random.default_rng(3).integers(20, 400, (8, 3)).astype(float)
    counts[2, 1] = 0.0  # a secret with fewer values than others
    cone = RatioCone(sf.ChiSquareBall(sf.Joint.from_counts(counts)), 0.1, reads)
    p, starts = cone.coordinates.p, np.random.default_rng(1).exponential(size=(6, len(cone.coordinates.p)))
    found = BallMover(cone).rows(lambda v, _: p * np.log(np.maximum(v, 1e-5)), starts, FREE)
    assert cone.cuts(found).greatest(len(found)).max() < 1e-6 and np.ptp(found, axis=1).min() > 0.01


def test_a_calm_move_is_tried_again_when_another_has_gained():
    class Counting:
        value = 1.0

        def solve(self):
            return self.value

        def add(self, rows):
            self.value += float(rows.sum())

        def steer(self):
            return np.ones((1, 1))

        learn = used = slopes = steer

    turns = []

    def made(which, passes, gain):
        turns.append(which)
        spend(passes)
        return np.full((1, 1), gain)

    cheap, dear = (lambda *_: made("cheap", 1e3, 0.0)), (lambda *_: made("dear", 1e5, 0.5))
    improve(Counting(), [cheap, dear], Budget.counted(6.0), calm=3)
    assert "cheap" in turns[turns.index("dear") + 4 :]


def test_profiles_are_climbed_along_their_ridge():
    def ridge(profile):
        half = profile.drop * (1 - 0.5**profile.power)
        return -((half - 0.2) ** 2) - 0.01 * (profile.drop - 0.25) ** 2

    best, score = climbed(ridge, Profile(0.45, 0.5), 0.5, None, 60)
    assert score > -1e-4
    assert best.drop == pytest.approx(0.25, abs=0.08)


def test_a_secret_of_one_row_does_not_keep_a_design_from_being_sealed():
    counts = [[157, 195, 250], [8, 62, 0], [0, 0, 1]]  # rows that are in the pool twice made HiGHS miss a column by 2 %
    found = sf.design(sf.ChiSquareBall(sf.Joint.from_counts(counts)), 0.3, "ballopt", quick=True)
    assert found.certificate.level <= 0.3
    assert found.value > 0.97


def test_a_mixture_that_the_simplex_method_gives_up_is_that_of_the_interior_method(monkeypatch):
    coordinates = Coordinates.of(sf.Joint.from_counts(random_counts(3)[0]))
    rows = np.random.default_rng(0).exponential(size=(40, len(coordinates.p)))
    met, seen = InformationAim._met, []

    def mixed(fails):
        seen.clear()
        aim = InformationAim(coordinates)
        monkeypatch.setattr(aim, "_met", lambda found: seen.append(1) or (len(seen) > fails and met(aim, found)))
        aim.add(np.concatenate([rows, rows.max() - rows]))
        aim.solve()
        used, theta = aim.used()
        assert theta @ used == pytest.approx(np.ones(len(coordinates.p)), abs=1e-6)
        return aim.value

    assert mixed(2) == pytest.approx(mixed(0), rel=1e-6)
    assert mixed(3) == -np.inf  # the constant row alone is left


def test_two_secrets_that_never_occur_are_compared_where_the_useful_variable_alone_is_read():
    counts, epsilon = random_counts(2072)
    assert (counts.sum(1) == 0).sum() == 2
    found = sf.design(sf.ChiSquareBall(sf.Joint.from_counts(counts)), epsilon, "ballopt", reads="useful")
    assert found.certificate.level <= epsilon


def test_many_useful_values_keep_more_than_a_few_of_them_and_the_rest_together(patient, monkeypatch):
    monkeypatch.setenv(PATIENCE, "0.3")
    joint = sf.datasets.adult("race", "native-country")
    order, radius = np.argsort(-joint.counts.sum(0)), sf.ChiSquareBall(joint).radius
    fine = kept(joint.counts, 0.5, time_limit=None)
    for alone in (2, 4):
        coarse = np.column_stack([joint.counts[:, order[:alone]], joint.counts[:, order[alone:]].sum(1)])
        assert kept(coarse, 0.5, radius, time_limit=None).value <= fine.value * (1 + WITHIN)


def test_a_mixture_that_keeps_less_than_the_last_one_is_not_believed(monkeypatch):
    aim = InformationAim(Coordinates.of(sf.Joint.from_counts(random_counts(3)[0])))
    rows = np.random.default_rng(0).exponential(size=(40, len(aim.p)))
    aim.add(np.concatenate([rows, rows.max() - rows]))
    value = aim.solve()
    aim.add(rows[:1] + 1.0)
    constant = np.eye(len(aim.worth))[0]
    monkeypatch.setattr(aim.lp, "solve", lambda *_: Solution(True, 0.0, constant, np.zeros(len(aim.p))))

    assert aim.solve() == value > 0
    used, theta = aim.used()
    assert theta @ aim.worth[aim.weights > 1e-12] == pytest.approx(value) and len(used) > 1
