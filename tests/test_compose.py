"""Several releases of the same rows: the level of the whole is computed, by two routes, and never below the truth."""

import math
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import joints, mechanisms, sealed

import sfumato as sf
from sfumato.alphabet import Alphabet, Column
from sfumato.cli import cli
from sfumato.composing import total_levels
from sfumato.decimals import at_most
from sfumato.mechanism import Claim, Mechanism, Table
from sfumato.mechanism import product as products
from sfumato.optimise.budget import PATIENCE
from sfumato.privacy import together
from sfumato.releasing.files import Files, earlier_releases

CLOSE = 1e-9  # floats against integers


def full(mechanism):
    """Q[y, x] over (s, u), also of one that reads U alone."""
    q = mechanism.matrix.reshape(len(mechanism.matrix), mechanism.law.rows, -1)
    return np.broadcast_to(q, (len(q), mechanism.secret.size, q.shape[2])).reshape(len(q), -1)


def by_hand(joint, *parts):
    """The joint mechanism from the product of matrices, in floats."""
    return sf.Tabular(together(*(full(m) for m in parts)), joint=joint, reads="both")


def same(a, b):
    return a == pytest.approx(b, rel=CLOSE, abs=CLOSE) or (math.isinf(a) and math.isinf(b))


@st.composite
def releases(draw, most=3):
    joint = draw(joints(secrets=(2, 3), useful=(2, 3)))
    count = draw(st.integers(1, most))
    return joint, [sealed(draw(mechanisms(joint))) for _ in range(count)]


@settings(max_examples=25, deadline=None)
@given(releases())
def test_the_level_of_the_whole_is_that_of_the_product_of_matrices(pair):
    joint, parts = pair
    whole, hand = sf.compose(*parts), by_hand(joint, *parts)

    assert same(whole.level("ldp"), sf.level(hand, sf.LDP()))
    assert same(whole.level("rldp", sf.Exactly(joint)), sf.level(hand, sf.LDP(joint)))
    assert same(whole.level("lip", sf.Exactly(joint)), sf.level(hand, sf.LIP(joint)))
    assert same(whole.level("srlip", sf.Exactly(joint)), sf.level(hand, sf.SRLIP(joint)))
    assert same(whole.level("rldp", sf.Anything(joint)), sf.level(hand, sf.RLDP(sf.Anything(joint))))
    assert same(whole.level("leakage", alpha=math.inf, beta=1.0), sf.level(hand, sf.MaximalLeakage()))


@settings(max_examples=25, deadline=None)
@given(releases(most=2))
def test_over_a_ball_the_proved_level_is_at_or_just_above_the_worst_that_floats_find(pair):
    joint, parts = pair
    ball = sf.ChiSquareBall(joint)
    proved, found = sf.compose(*parts).level("rldp", ball), sf.level(by_hand(joint, *parts), sf.RLDP(ball))

    assert proved >= found * (1 - 1e-9)
    assert proved <= found + 1e-5 or math.isinf(found)


@settings(max_examples=12, deadline=None)
@given(releases())
def test_outputs_too_many_to_list_are_bounded_from_above(pair):
    joint, parts = pair
    sets = [("ldp", None), *((n, s) for s in (sf.Exactly(joint), sf.ChiSquareBall(joint), sf.Anything(joint))
                             for n in ("rldp", "lip"))]
    listed = sf.compose(*parts)
    exact, leak = [listed.level(*question) for question in sets], listed.level("leakage", alpha=3.0, beta=2.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "JOINT_CELLS", 60)  # one release or two at most
        whole = sf.compose(*parts)
        for question, level in zip(sets, exact, strict=True):
            assert whole.level(*question) >= level * (1 - 1e-6) - 1e-12, question
        if not any(m.law.kind == "unary" for m in parts):  # whose sets are not listed alone either
            assert whole.level("leakage", alpha=3.0, beta=2.0) >= leak * (1 - 1e-9)


@settings(max_examples=30, deadline=None)
@given(releases())
def test_where_the_sum_is_said_to_be_a_bound_it_is_one(pair):
    _, parts = pair
    for level in sf.compose(*parts).levels:
        assert not level.adds or level.level <= level.sum * (1 + 1e-12) + 1e-12


def test_two_releases_that_tell_nothing_can_tell_everything():
    """X at the ends means S = 1; each release is exactly independent of S, both together are not at all [errata]."""
    joint = sf.Joint.from_counts([[0, 2, 0], [1, 0, 1]])
    law = Table(np.array([[16, 8, 0], [0, 8, 16]]), 1, 4)
    hint = Mechanism(law, joint.secret, joint.useful, "useful", joint=joint, claim=Claim("lip", 0.0, sf.Exactly(joint)))

    both = sf.compose(hint, hint)

    assert sf.certify(hint).level == 0
    for notion in ("lip", "rldp"):
        assert both.level(notion, sf.Exactly(joint)) == math.inf
    assert both.mechanism.outputs == 3


def test_well_conditioned_releases_exceed_the_sum_too():
    """The example of the errata: 0.252312 each, 0.755897 together."""
    p = np.array([[[0.53, 0.01], [0.01, 0.01]], [[0.36, 0.0165], [0.0165, 0.047]]])
    columns = Column.of("x1", ["0", "1"]), Column.of("x2", ["0", "1"])
    joint = sf.Joint.from_probabilities(p.reshape(2, 4), Alphabet.named("s", 2), Alphabet.of(*columns))
    q = np.rint(np.array([[0.94, 0.5], [0.06, 0.5]]) * 2**30).astype(np.int64)
    q[0] = 2**30 - q[1]
    first, second = (Mechanism(Table(q, 1, 30), joint.secret, Alphabet.of(c), "useful") for c in columns)

    both = sf.compose(first, second, within=sf.Exactly(joint))
    lip = next(x for x in both.levels if x.claim.notion == "srlip")

    assert lip.each == pytest.approx((0.252312, 0.252312), abs=2e-6)
    assert lip.level == pytest.approx(0.755897, abs=2e-6)
    assert not lip.adds and lip.level > lip.sum + 0.25


def test_the_page_on_promises_tells_the_truth(monkeypatch):
    monkeypatch.setenv(PATIENCE, "1")  # as long as the searches that the page tells of
    page = (Path(__file__).parent.parent / "docs" / "promises.md").read_text("utf-8").replace("**", "")
    ball = sf.ChiSquareBall(sf.datasets.adult("sex", "race"))
    for method in ("srr", "grr", "ir", "polyopt", "ballopt"):
        mechanism = sf.design(ball, 0.5, method).mechanism
        both = sf.compose(mechanism, mechanism)
        level, anything = (
            next(x for x in both.levels if x.claim.within is not None and x.claim.within.kind == kind)
            for kind in ("chi-square-ball", "anything")
        )
        numbers = (level.each[0], level.sum, level.level, anything.each[0], anything.level)
        row = next(line for line in page.splitlines() if line.startswith(f"| `{method}` | "))
        shown = [float(x) for x in row.split("|")[2:-1]]
        # An optimum is a vertex among many of nearly equal value, and where two of its releases meet differs a little.
        assert shown == pytest.approx(numbers, abs=0.06 if method in ("polyopt", "ballopt") else 0.0006)


@pytest.mark.parametrize(("times", "outputs"), [(1, 4), (2, 10), (5, 56)])
def test_repeats_of_one_mechanism_cost_multisets_not_tuples(times, outputs):
    joint = sf.Joint.from_counts([[30, 20], [10, 40]])
    grr = sf.design(sf.ChiSquareBall(joint), 0.4, "grr").mechanism

    whole = sf.compose(*[grr] * times)

    assert whole.exact and whole.mechanism.outputs == math.comb(times + 3, 3) == outputs
    assert whole.level("ldp") == pytest.approx(times * sf.level(grr, sf.LDP()), rel=1e-9)


def test_a_hundred_releases_are_bounded_and_the_bound_is_verified_from_the_file(tmp_path):
    joint = sf.Joint.from_counts([[300, 200], [100, 400]])
    srr = sf.design(sf.ChiSquareBall(joint), 0.02, "srr").mechanism

    whole = sf.compose(*[srr] * 100)
    ball = next(x for x in whole.levels if x.claim.notion == "rldp" and x.claim.within.kind == "chi-square-ball")
    anything = whole.level("rldp", sf.Anything(joint))

    assert not whole.exact
    assert anything == pytest.approx(100 * 0.02, rel=1e-6)
    assert ball.level < anything  # some of the releases were proved together
    back = sf.load(whole.mechanism.save(tmp_path / "many.json"))
    assert sf.certify(back).level <= ball.level
    assert sf.certify(back).basis.startswith("bounded")


def test_releases_of_other_columns_meet_in_the_joint_of_all():
    age, town = Column.of("age", ["young", "old"]), Column.of("town", ["A", "B", "C"])
    secret = Alphabet.of(Column.of("ill", ["no", "yes"]))
    rng = np.random.default_rng(3)
    joint = sf.Joint.from_counts(rng.integers(1, 50, (2, 6)), secret, Alphabet.of(age, town))
    a = sealed(Mechanism(Table(rng.dirichlet(np.ones(3), 4).T, 2), secret, Alphabet.of(age)))
    b = sealed(Mechanism(Table(rng.dirichlet(np.ones(3), 3).T, 1), secret, Alphabet.of(town), "useful"))

    whole = sf.compose(a, b, within=sf.ChiSquareBall(joint))

    qa, qb = a.matrix.reshape(-1, 2, 2), b.matrix
    q = np.einsum("asi,bj->absij", qa, qb).reshape(9, 12)
    hand = sf.Tabular(q, joint=joint)
    assert same(whole.level("rldp", sf.Exactly(joint)), sf.level(hand, sf.LDP(joint)))
    assert whole.level("rldp", sf.ChiSquareBall(joint)) == pytest.approx(sf.level(hand, sf.RLDP(sf.ChiSquareBall(joint))), abs=1e-5)
    assert whole.level("srlip", sf.Exactly(joint)) == pytest.approx(sf.level(hand, sf.SRLIP(joint)), abs=1e-9)


def test_the_joint_draw_is_exact_for_every_pair_of_words():
    secret, useful = Alphabet.named("s", 2), Alphabet.named("u", 2)
    first = Table(np.array([[1, 3, 8, 0], [7, 5, 0, 8]]), 2, 3)
    second = Table(np.array([[2, 5], [6, 3]]), 1, 3)
    whole = sf.compose(Mechanism(first, secret, useful), Mechanism(second, secret, useful, "useful")).mechanism

    words = np.array(list(product(range(8), repeat=2)), np.uint64)
    for x in range(4):
        drawn = whole.law.draw(np.full(64, x), words)
        counts = np.bincount(drawn, minlength=whole.outputs)
        assert [int(whole.law.row(y).ravel()[x]) for y in range(whole.outputs)] == counts.tolist()


def test_a_composition_is_measured_like_a_mechanism():
    joint = sf.Joint.from_counts([[30, 20], [10, 40]])
    grr = sf.design(sf.ChiSquareBall(joint), 0.5, "grr").mechanism
    both = sf.compose(grr, grr)

    assert sf.level(both, sf.LDP()) == pytest.approx(both.level("ldp"), rel=1e-9)
    assert sf.level(both, sf.RLDP(sf.ChiSquareBall(joint))) == pytest.approx(both.certificate.level, abs=1e-6)
    assert sf.mutual_information(both, joint) > sf.mutual_information(grr, joint)
    with pytest.raises(AttributeError):
        both.nothing_of_the_kind  # noqa: B018


def test_what_cannot_be_composed_is_said():
    joint = sf.Joint.from_counts([[3, 4], [5, 6]])
    m = sf.design(sf.ChiSquareBall(joint), 1.0, "grr").mechanism
    wide = sf.design(sf.ChiSquareBall(sf.Joint.from_counts([[3, 4, 1], [5, 6, 1]])), 1.0, "grr").mechanism
    with pytest.raises(sf.InputError, match="at least one"):
        sf.compose()
    named = sf.Joint.from_counts([[3, 4], [5, 6]], sf.Column.of("ill", ["no", "yes"]), 2)
    with pytest.raises(sf.InputError, match="different secrets, secret and ill"):
        sf.compose(m, sf.design(sf.ChiSquareBall(named), 1.0, "grr").mechanism)
    with pytest.raises(sf.InputError, match="no two of its labels in common"):
        sf.compose(m, sf.design(sf.ChiSquareBall(sf.Joint.from_counts([[3, 4], [5, 6]], sf.Column.of("secret", "ab"), 2)), 1.0, "grr").mechanism)
    with pytest.raises(sf.InputError, match="'useful' has different labels"):
        sf.compose(m, wide)
    with pytest.raises(sf.InputError, match="sealed"):
        sf.compose(sf.Tabular([[0.5, 0.5], [0.5, 0.5]]))
    with pytest.raises(sf.InputError, match="the set is about 2 × 3"):
        sf.compose(m, within=sf.Exactly(wide.joint))


def test_releases_whose_secret_has_labels_that_others_lack_are_bounded_for_the_labels_that_all_know():
    ill = [sf.Column.of("ill", x) for x in ("ab", "abc")]
    counts = [[[3, 4], [5, 6]], [[3, 4, 2], [5, 6, 1], [1, 1, 7]]]
    few, many = (
        sf.design(sf.ChiSquareBall(sf.Joint.from_counts(n, own, len(n[0]))), 1.0, "srr").mechanism
        for n, own in zip(counts, ill, strict=True)
    )
    whole = sf.compose(few, many)
    level = next(x for x in whole.levels if x.claim.notion == "rldp" and not x.assumed)

    assert level.level == pytest.approx(level.sum) and level.adds and not whole.exact
    assert level.claim.within.joint.secret.columns[0].labels == ("a", "b")
    with pytest.raises(sf.InputError, match="no single mechanism"):
        whole.mechanism.save("nowhere")
    first, second = few.matrix.reshape(-1, 2, 2), many.matrix.reshape(-1, 3, 3)[:, :2, :2]
    rng = np.random.default_rng(1)
    for _ in range(200):  # whatever the useful values of a label are, one ratio of both answers is within the bound
        p = rng.dirichlet([0.2, 0.2], 2)
        both = np.einsum("su,ysu,zsu->yzs", p, first, second)
        assert np.log(both.max(2) / both.min(2)).max() <= level.level + 1e-9


def test_releases_whose_labels_stand_for_other_people_are_bounded_for_the_values_behind_them():
    fine = sf.Joint.from_counts([[3, 4], [5, 6], [2, 1]], sf.Column.of("ill", "abc"), 2)
    coarse = sf.Joint.from_counts([[3, 4], [7, 7]], sf.Column.of("ill", ["a", "rest"], other="rest"), 2)
    told, merged = (sf.design(sf.ChiSquareBall(j), 1.0, "srr").mechanism for j in (fine, coarse))
    whole = sf.compose(told, merged)
    level = next(x for x in whole.levels if x.claim.notion == "rldp")

    assert not whole.exact and level.level == pytest.approx(sum(sf.level(m, sf.LDP()) for m in (told, merged)), abs=1e-6)
    first, second = told.matrix.reshape(-1, 3, 2), merged.matrix.reshape(-1, 2, 2)[:, [0, 1, 1]]
    p = np.random.default_rng(2).dirichlet([0.1, 0.1], (200, 3))  # of the useful value given each of a, b and c
    both = np.einsum("nsu,ysu,zsu->nyzs", p, first, second)
    assert np.log(both.max(3) / both.min(3)).max() <= level.level + 1e-9
    alone = np.log((seen := np.einsum("nsu,ysu->nys", p, second)).max(2) / seen.min(2)).max()
    assert alone > sf.certify(merged).elsewhere["any distribution"]  # its promise about the secret says nothing of b and c


def test_composing_the_composed_is_composing_all():
    joint = sf.Joint.from_counts([[30, 20], [10, 40]])
    a, b = (sf.design(sf.ChiSquareBall(joint), e, "grr").mechanism for e in (0.3, 0.5))
    nested, flat = sf.compose(sf.compose(a, b).mechanism, a), sf.compose(a, a, b)
    ball = sf.ChiSquareBall(joint)

    assert nested.mechanism.outputs == flat.mechanism.outputs
    assert nested.level("rldp", ball) == pytest.approx(flat.level("rldp", ball), rel=1e-12)


def test_releases_about_other_secrets_or_other_values_add_up_safely():
    joint = sf.Joint.from_counts([[30, 20], [10, 40]], secret=["no", "yes"], useful=["A", "B"])
    swapped = sf.Joint.from_counts([[30, 20], [10, 40]], Alphabet.named("other", 2), Alphabet.named("more", 2))
    ball = sf.ChiSquareBall(joint)
    a, b = sf.design(ball, 0.5, "srr").mechanism, sf.design(sf.ChiSquareBall(swapped), 0.5, "srr").mechanism
    about_b = sf.level(b, sf.LDP())

    [same_values] = total_levels([[a, a]], "rldp")
    [changed] = total_levels([[a], [a]], "rldp")
    about = total_levels([[a, b]], "rldp")

    assert same_values.level <= changed.level <= 1.0 + 1e-9
    assert changed.level == pytest.approx(sf.certify(a).level + 0.5, abs=1e-6)
    assert [t.secret.names for t in about] == [("secret",), ("other",)]
    assert about[0].level == pytest.approx(sf.certify(a).level + about_b, abs=1e-6)


def test_the_command_composes_saves_and_the_file_verifies(tmp_path):
    from click.testing import CliRunner

    joint = sf.Joint.from_counts([[30, 20], [10, 40]])
    a, b = (sf.design(sf.ChiSquareBall(joint), e, "grr").mechanism.save(tmp_path / f"{e}.json") for e in (0.3, 0.5))
    run = CliRunner()

    told = run.invoke(cli, ["compose", str(a), str(b), "--out", str(tmp_path / "both.json")])
    assert told.exit_code == 0, told.output
    assert "in the confidence ball" in told.output and "no bound" in told.output
    checked = run.invoke(cli, ["verify", str(tmp_path / "both.json")])
    assert checked.exit_code == 0, checked.output
    shown = run.invoke(cli, ["compose", str(a), str(b), "--json"])
    assert '"exact": true' in shown.output


def test_the_note_beside_a_release_is_no_less_than_what_labels_that_differ_tell_together(tmp_path):
    fine = sf.Joint.from_counts([[30, 20], [10, 40], [25, 25]], secret=["a", "b", "c"], useful=["u", "v"])
    coarse = sf.Joint.from_counts([[30, 20], [35, 65]], secret=["a", "other"], useful=["u", "v"])
    made = [sf.design(sf.Anything(x), e, "srr").mechanism for x, e in ((fine, 0.1), (coarse, 2.0))]
    for first, second in (made, made[::-1]):
        first.save(tmp_path / "a.mechanism.json", force=True)
        (note,) = earlier_releases(Files.beside(tmp_path / "b.csv", tables=False), second)
        attained = max(
            math.log(full(made[0])[y, i] / full(made[0])[y, j]) + math.log(full(made[1])[z, k] / full(made[1])[z, m])
            for y in range(made[0].outputs) for z in range(made[1].outputs) for i in (2, 3) for j in (4, 5)  # b, c are
            for k in (2, 3) for m in (2, 3) if (i - k) % 2 == 0 and (j - m) % 2 == 0  # "other" in the coarse one
        )
        assert float(re.search(r"at most ([\d.]+) nats", note)[1]) >= attained > 4


def test_releases_of_other_columns_hold_for_whoever_believes_one_of_their_claims():
    rng = np.random.default_rng(1)
    made = []
    for name, radius in (("town", 0.001), ("work", 0.02), ("home", 0.1)):
        joint = sf.Joint.from_counts(
            rng.integers(300, 900, (2, 3)), sf.Column.of("health", ["ill", "well"]), sf.Column.of(name, "ABC")
        )
        made.append(sf.design(sf.ChiSquareBall(joint, radius=radius), 0.5, "srr").mechanism)
    own = [sf.certify(m).level for m in made]
    freely = [sf.compose(m).levels for m in made]
    anyhow = [next(x.level for x in levels if x.claim.anywhere) for levels in freely]

    whole = sf.compose(*made)

    (ledger,) = total_levels([[m] for m in made], "rldp")
    (told,) = [x.level for x in whole.levels if x.assumed]
    assert told == pytest.approx(max(own[i] + sum(anyhow) - anyhow[i] for i in range(3)), rel=1e-9)
    assert ledger.level < told < sum(anyhow)
    assert f"factor of at most {at_most(math.exp(told), 3)}" in whole.sentence
    assert sf.compose(*made[::-1]).sentence == whole.sentence


def test_what_one_release_claims_of_a_single_distribution_is_no_claim_over_a_set():
    joints = [
        sf.Joint.from_counts(counts, sf.Column.of("health", ["ill", "well"]), sf.Column.of(name, "AB"))
        for name, counts in (("town", [[60, 40], [45, 55]]), ("work", [[50, 50], [50, 50]]))
    ]
    ball = sf.design(sf.ChiSquareBall(joints[0], radius=0.01), 0.5, "srr").mechanism
    point = sf.Tabular([[0.8, 0.2], [0.2, 0.8]], joint=joints[1], reads="useful")
    point = replace(point, law=point.law.rounded(40, 0.0)).with_claim(Claim("rldp", 1e-6, sf.Exactly(joints[1])))

    assert sf.compose(ball, point).sentence == sf.compose(point, ball).sentence


def test_levels_over_sets_of_several_releases_say_whose_they_are_and_the_worst_counts():
    made = []
    for counts in ([[90, 60, 50], [80, 70, 50]], [[95, 60, 45], [80, 75, 50]]):
        joint = sf.Joint.from_counts(counts, sf.Column.of("health", ["ill", "well"]), sf.Column.of("town", "ABC"))
        made.append(sf.design(sf.ChiSquareBall(joint), 0.5, "srr").mechanism)

    whole = sf.compose(*made)

    titles = [x.title for x in whole.levels]
    assert len(set(titles)) == len(titles)
    over = [x.level for x in whole.levels if x.over_a_set and not x.assumed]
    assert len(over) == 2 and f"factor of at most {at_most(math.exp(max(over)), 3)}" in whole.sentence


def test_what_is_only_bounded_is_not_said_to_be_told():
    made = sf.design(sf.ChiSquareBall(sf.datasets.adult("sex", "race")), 1.0, "srr").mechanism
    blunt = sf.design(sf.ChiSquareBall(sf.datasets.adult("sex", "race")), 20.0, "srr").mechanism

    bounded, listed = sf.compose(*[made] * 52), sf.compose(blunt, blunt)

    assert not bounded.exact and "may tell the secret: all that is proved" in bounded.sentence
    assert listed.exact and "these 2 releases together tell the secret: odds about it may change" in listed.sentence


def test_releases_with_other_labels_of_the_secret_are_told_how_to_have_the_same(tmp_path):
    for name, last in (("x", "none"), ("y", "flu")):
        column = Column.of("diagnosis", ["cold", "other", last])
        joint = sf.Joint.from_counts([[30, 40], [50, 60], [20, 20]], Alphabet.of(column), ["no", "yes"])
        sf.design(sf.ChiSquareBall(joint), 1.0, "srr").mechanism.save(tmp_path / f"{name}.json")

    apart, alike = (CliRunner().invoke(cli, ["compose", *(str(tmp_path / f"{x}.json") for x in names)]).output
                    for names in ("xy", "xx"))

    assert "Labels of diagnosis differ between the releases" in " ".join(apart.split()) and "--labels" in apart
    assert "Labels of diagnosis" not in alike
