"""Which parts a bundle has: rows and ε divided, parts searched for, tables left out, wishes that cannot be met."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from tests.columns_data import column, people, shares

import sfumato as sf
from sfumato.composing.answers import possible
from sfumato.composing.plans import turn_plan
from sfumato.composing.sharing import Spec, TurnLayout, answered, shares_of_epsilon, shares_of_rows
from sfumato.composing.tailored import strongest
from sfumato.errors import InputError
from sfumato.mechanism import Mechanism

EIGHT = [f"c{j}" for j in range(10)]


def test_parts_of_every_kind_do_no_worse_than_those_of_one_kind_alone():
    layout = TurnLayout(2, (3, 12, 2, 5), (1.0,) * 4)
    whole, pairs = turn_plan(layout, 1.0), list(itertools.combinations(range(4), 2))
    alone = [*(Spec(p) for p in pairs), *(Spec((c,), True) for c in range(4))]
    for specs in (alone, [Spec(p, True) for p in pairs]):
        assert whole.error <= answered(specs, layout, 1.0)[1].error * (1 + 1e-3)


def test_one_and_two_columns_count_alike_by_the_mean_square_error_of_a_share():
    layout = TurnLayout(2, (3, 12, 2), (1.0, 2.0, 1.0))
    wanted = layout.wanted()
    for order in (1, 2):
        assert sum(w * layout.cells(t) for t, w in wanted.items() if len(t) == order) == pytest.approx(0.5)
    assert wanted[0, 1] == pytest.approx(2 * wanted[0, 2])  # a column that matters twice as much


def test_parts_that_are_searched_for_are_proved_and_lower_the_error():
    rng = np.random.default_rng(0)
    rows = pa.table({n: pa.array(rng.integers(0, k, 3_000).astype(str)) for n, k in (("s", 3), ("a", 4), ("b", 5))})
    plain, searched = (sf.bundle(rows, "s", ["a", "b"], 2.0, asking="in turn", time_limit=t) for t in (0, 20))
    assert "searched" in {part.method for part in searched.bundle.parts}
    assert searched.error < plain.error and searched.certificate.level <= 2.0
    found = sf.estimate(sf.release(rows, searched.bundle, seed=1), searched.bundle)
    low, high = found.intervals(0.999)["s", "a"]
    truth = shares(rows, found.table("s", "a"))
    assert np.all((low <= truth) & (truth <= high))


def test_over_balls_a_cap_limits_what_parts_tell_for_any_distribution(tmp_path):
    rows = people(5_000, columns=2, labels=3)
    made = [sf.bundle(rows, "secret", EIGHT[:2], 0.5, assuming="tables", at_most=cap, time_limit=0) for cap in (1.0, None)]
    levels = [m.certificate.elsewhere["any distribution"] for m in made]
    assert levels[0] <= 1.0 < levels[1] and made[1].error < made[0].error
    assert sf.verify(made[0].bundle.save(tmp_path / "m.json")).level <= 0.5
    assert all(part.claim.also[0].epsilon == 1.0 for part in made[0].bundle.parts)
    for wrong in ({"at_most": 1.0}, {"at_most": 0.1, "assuming": "tables"}, {"time_limit": -1}):
        with pytest.raises(InputError):
            sf.bundle(rows, "secret", EIGHT[:2], 0.5, **wrong)


def test_rows_are_divided_as_neyman_says_when_every_table_has_its_part():
    layout = TurnLayout(2, (2, 4, 8), (1.0, 1.0, 4.0), with_secret=False, order=1)
    specs = [Spec((c,)) for c in range(3)]
    given = [s.answer(layout, 1.0) for s in specs]
    split = shares_of_rows(specs, given, layout)
    moments = np.array([a.moment(a.useful, secret=False) - 1 / a.useful for a in given])
    wanted = np.sqrt(np.array(layout.weights) * moments)
    assert split.shares == pytest.approx(wanted / wanted.sum(), rel=0.02)
    assert split.bound <= split.error <= split.bound * 1.001


def test_epsilon_is_divided_no_worse_than_evenly_or_by_any_nearby_division():
    layout = TurnLayout(2, (2, 3, 12), (1.0, 1.0, 1.0))
    specs = [Spec((), True), *(Spec((c,)) for c in range(3))]
    from sfumato.composing.sharing import error_together

    def error(levels):
        return error_together(specs, [s.answer(layout, float(e)) for s, e in zip(specs, levels, strict=True)], layout)

    levels, best = shares_of_epsilon(specs, layout, 2.0)
    assert levels.sum() == pytest.approx(2.0)
    assert best <= error(np.full(4, 0.5)) * (1 + 1e-9)
    rng = np.random.default_rng(0)
    for _ in range(50):
        near = levels * np.exp(rng.normal(0, 0.1, 4))
        assert best <= error(near / near.sum() * 2.0) * 1.001


def test_nothing_of_the_rows_but_labels_is_in_a_file_that_assumes_nothing(tmp_path):
    one, two = (people(2_000, columns=3, labels=3, seed=s) for s in (1, 2))
    files = [sf.bundle(t, "secret", ["c0", "c1", "c2"], 1.0).bundle.save(tmp_path / f"{i}.json") for i, t in enumerate((one, two))]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.long
def test_the_chain_is_found_and_a_star_is_contradicted():
    rows = people(20_000, columns=4, labels=4, seed=3)
    tree = sf.bundle(rows, "secret", ["c0", "c1", "c2", "c3"], 1.0, assuming="tree")
    star = sf.bundle(rows, "secret", ["c0", "c1", "c2", "c3"], 1.0, assuming="star")
    assert tree.bundle.parents[:4] == (-1, 0, 1, 2)
    assert tree.fit.p_value > 0.01 > 1e-6 > star.fit.p_value
    assert "contradict the star model" in " ".join(star.notes) and "no proof" in " ".join(star.notes)
    assert star.certificate.title == "RLDP under a star model"


def test_small_tables_in_balls_need_no_model_and_tell_more():
    rows = people(20_000, columns=4, labels=4, seed=3)
    anything = sf.bundle(rows, "secret", ["c0", "c1", "c2", "c3"], 0.5)
    balls = sf.bundle(rows, "secret", ["c0", "c1", "c2", "c3"], 0.5, assuming="tables")
    assert balls.certificate.level <= 0.5 < balls.certificate.elsewhere["any distribution"]
    assert balls.error < anything.error
    assert balls.bundle.confidence == pytest.approx(0.95) and anything.bundle.confidence is None
    for made in balls.bundle.parts:  # each ball takes its share of the risk, so that all hold together
        assert 1 - made.claim.within.confidence <= 0.05 / len(balls.bundle.parts) * (1 + 1e-9)


@pytest.mark.parametrize(("options", "message"), [
    ({"assuming": "hope"}, "is not what a bundle assumes"), ({"asking": "twice"}, "is not a way of asking"),
    ({"tables": 3}, "tables must be 1 or 2"), ({"tables": [("c0", "c1", "c0")]}, "one column or two different ones"),
    ({"tables": ["c0"]}, "no table holds c1"), ({"tables": ["c7"]}, "is not a secret or useful column"),
    ({"tables": ["c0", "c1"], "assuming": "tree"}, "every column in every row"), ({"tables": []}, "lists no table"), ({"weights": {"c9": 1.0}}, "is not a useful column"),
    ({"weights": {"c0": 0.0}}, "positive"), ({"assuming": "star", "asking": "in turn"}, "no model is needed"),
    ({"assuming": "tables", "asking": "together"}, "need a model"), ({"bins": {"x": 2}}, "neither secret nor useful"),
])
def test_wrong_wishes_say_what_is_wrong(options, message):
    with pytest.raises(InputError, match=message):
        sf.bundle(people(200, columns=2, labels=3), "secret", ["c0", "c1"], 1.0, **options)


def test_epsilon_zero_tells_nothing():
    rows = people(500, columns=2, labels=3)
    for asking in ("together", "in turn"):
        made = sf.bundle(rows, "secret", ["c0", "c1"], 0.0, asking=asking)
        assert made.certificate.level == 0.0
        found = sf.estimate(sf.release(rows, made.bundle, seed=1), made.bundle)
        low, high = found.table("c0").interval()
        assert not found.table("c0").identified and (low == 0).all() and (high == 1).all()


def test_named_tables_alone_are_asked_about_and_get_all_the_rows():
    rows = people(2_000, columns=4, labels=4)
    every = sf.bundle(rows, "secret", EIGHT[:3], 1.0)
    few = sf.bundle(rows, "secret", EIGHT[:3], 1.0, tables=[("c0", "c1"), "c2"])
    assert set(few.bundle.names) == {"c0+c1", "c2"} and few.error < every.error
    found = sf.estimate(sf.release(rows, few.bundle, seed=1), few.bundle)
    assert ("c0", "c1") in found.names and ("c0", "c2") not in found.names
    with pytest.raises(InputError, match="no part holds"):
        found.table("c0", "c2")
    assert found.model.table("c0", "c2").sum() == pytest.approx(1)


def test_noisy_counts_leave_out_tables_that_are_not_worth_their_rows_and_are_paid_for(tmp_path):
    rows = people(20_000, columns=5, labels=4, keep=0.6)
    made = sf.bundle(rows, "secret", EIGHT[:5], 2.0, design_epsilon=0.5, seed=1)
    file = sf.load(made.bundle.save(tmp_path / "m.json"))
    assert made.certificate.level <= 1.5 and sf.verify(tmp_path / "m.json").level <= 1.5
    assert sf.compose(file).designs == pytest.approx(0.5) and sf.compose(file).designs <= 0.5 + 1e-12
    pairs = [part.useful.names for part in file.parts if len(part.useful.names) == 2]
    assert len(pairs) < 10 and {(f"c{i}", f"c{i + 1}") for i in range(4)} <= set(pairs)  # neighbours of the chain
    found = sf.estimate(sf.release(rows, file, seed=1), file)
    assert {n for n in found.names if len(n) == 1} == {(c,) for c in ("secret", *EIGHT[:5])}
    assert found.model.table("c0", "c4").sum() == pytest.approx(1)
    assert all("not for release" in part.joint.noise.sampler for part in file.parts)
    for wrong in ({"design_epsilon": 2.0}, {"design_epsilon": 0.0}, {"design_epsilon": 0.5, "tables": ["c0"]}):
        with pytest.raises(InputError):
            sf.bundle(rows, "secret", ["c0"], 2.0, **wrong)


def test_one_mechanism_or_a_bundle_is_chosen_by_what_either_is_worth_and_not_by_the_rows():
    from sfumato.releasing.columns import rival
    from sfumato.releasing.wishes import Wishes

    def chosen(sizes, n, **wishes):
        useful = sf.Alphabet.of(*(column(f"c{i}", k) for i, k in enumerate(sizes)))
        cells = np.random.default_rng(0).multinomial(n, np.full(2 * useful.size, 0.5 / useful.size))
        joint = sf.Joint.from_counts(cells.reshape(2, -1), sf.Alphabet.of(column("s", 2)), useful)
        asked = Wishes(("s",), useful.names, 1.0, **wishes)
        return rival(asked, joint)

    assert chosen((2, 2, 2), 20_000) is None
    assert "worth" in chosen((3,) * 5, 600) and chosen((3,) * 5, 600, columns="one") is None
    assert chosen((3,) * 5, 600, method="srr") is None and chosen((20, 20), 600) is None


def test_merging_small_columns_beats_keeping_them_apart():
    rows = people(1_000, columns=4, labels=2, secrets=2)
    made = sf.bundle(rows, "secret", ["c0", "c1", "c2", "c3"], 4.0, asking="together", with_secret=False).bundle
    assert len(made.parts) < 4 and sorted(n for p in made.parts for n in p.useful.names) == ["c0", "c1", "c2", "c3"]


@pytest.mark.parametrize("size", [4, 9])
def test_over_a_ball_a_part_answers_with_the_kind_that_tells_most_at_its_level(size):
    rng = np.random.default_rng(size)
    joint = sf.Joint.from_counts(rng.integers(50, 400, (2, size)))
    ball = sf.RenyiBall(joint, alpha=1, confidence=0.99)

    def told(answer):
        return sf.level(Mechanism(answer.law(), joint.secret, joint.useful, "useful"), sf.RLDP(ball))

    best = strongest(ball, 0.5)
    assert 0.497 <= told(best) <= 0.5 and best.epsilon > 0.5
    rivals = [a for e in np.geomspace(0.5, 12, 40) for a in possible(1, size, round(float(e), 9)) if told(a) <= 0.5]
    assert all(best.moment(size, secret=False) <= 1.01 * a.moment(size, secret=False) for a in rivals)
