"""Levels of bundles by brute force: what all answers of a row tell together, and what single answers do."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.columns_data import column, sealed_answer

import sfumato as sf
from sfumato.certification.together import bundle_certificate, stand_in, summed
from sfumato.composing.answers import Answer, best_answer
from sfumato.composing.sharing import Spec, TurnLayout, held_effects
from sfumato.composing.tailored import Measured
from sfumato.mechanism import Claim, Mechanism
from sfumato.mechanism.subset_laws import incidence


def tensor(mechanism, secrets):
    """Q[y, s, u] of a part, whether or not it reads the secret."""
    q = mechanism.matrix.reshape(mechanism.outputs, mechanism.law.rows, mechanism.useful.size)
    return np.broadcast_to(q, (mechanism.outputs, secrets, mechanism.useful.size))


def brute_level(parts, p):
    """max log P(y|s)/P(y|s') over all answers of two parts together, p[s, u1, u2]."""
    a, b = (tensor(m, len(p)) for m in parts)
    given = p / p.sum((1, 2), keepdims=True)
    laws = np.einsum("asu,bsv,suv->abs", a, b, given).reshape(-1, len(p))
    return float(np.log(laws.max(1) / laws.min(1)).max())


answers = st.builds(
    lambda rows, size, e, order: Answer(rows, size, e, order if size > 2 else None),
    st.sampled_from([1, 3]), st.integers(2, 4), st.floats(0.05, 2), st.sampled_from([None, 2, 3]),
)


@settings(max_examples=15, deadline=None)
@given(answers, answers, st.integers(0, 2**32 - 1))
def test_levels_add_up_for_every_distribution_and_the_sum_is_attained(one, two, seed):
    secret = sf.Alphabet.of(column("s", 3))
    parts = [sealed_answer(secret, [column("a", one.useful)], one), sealed_answer(secret, [column("b", two.useful)], two)]
    level = summed(parts)
    rng = np.random.default_rng(seed)
    for shape in (0.1, 1.0):
        p = rng.dirichlet(np.full(3 * one.useful * two.useful, shape)).reshape(3, one.useful, two.useful) + 1e-12
        assert brute_level(parts, p) <= level + 1e-9
    corners = itertools.product(range(one.useful), repeat=2), itertools.product(range(two.useful), repeat=2)
    worst = 0.0
    for (u1, u2), (v1, v2) in itertools.product(*map(list, corners)):
        for s1, s2 in itertools.permutations(range(3), 2):
            p = np.full((3, one.useful, two.useful), 1e-15)
            p[s1, u1, v1] = p[s2, u2, v2] = 1
            worst = max(worst, brute_level(parts, p[[s1, s2]]) if one.rows == two.rows == 1 else brute_of_pair(parts, p, s1, s2))
    assert worst == pytest.approx(level, abs=1e-6)


def brute_of_pair(parts, p, s1, s2):
    a, b = (tensor(m, 3) for m in parts)
    given = p / p.sum((1, 2), keepdims=True)
    laws = np.einsum("asu,bsv,suv->abs", a, b, given)[:, :, [s1, s2]].reshape(-1, 2)
    return float(np.log(laws.max(1) / laws.min(1)).max())


def random_tree(rng, kind):
    """p(s, u, v, w) of a star or of the tree s → u → v, s → w, with its parents."""
    def channel(a, b):
        return rng.dirichlet(np.full(b, rng.choice([0.3, 2.0])), size=a) + 1e-3

    s, u, v, w = 2, 3, 3, 2
    ps, pu, pw = rng.dirichlet(np.ones(s)), channel(s, u), channel(s, w)
    pv = channel(s, v) if kind == "star" else channel(u, v)
    pu, pw, pv = (c / c.sum(1, keepdims=True) for c in (pu, pw, pv))
    p = np.einsum("s,su,sv,sw->suvw", ps, pu, pv, pw) if kind == "star" else np.einsum("s,su,uv,sw->suvw", ps, pu, pv, pw)
    return p, (-1, -1 if kind == "star" else 0, -1)


@pytest.mark.parametrize("kind", ["star", "tree"])
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.floats(0.1, 3), min_size=3, max_size=3))
def test_the_level_of_a_tree_bounds_all_answers_together_by_brute_force(kind, seed, levels):
    p, parents = random_tree(np.random.default_rng(seed), kind)
    secret = sf.Alphabet.of(column("s", 2))
    names = [column("u", 3), column("v", 3), column("w", 2)]
    parts = []
    for i, (c, level) in enumerate(zip(names, levels, strict=True)):
        above = secret if parents[i] < 0 else sf.Alphabet.of(names[parents[i]])
        axes = (0 if parents[i] < 0 else 1 + parents[i], 1 + i)
        table = p.sum(tuple(a for a in range(4) if a not in axes))
        joint = sf.Joint.from_probabilities(table / table.sum(), above, sf.Alphabet.of(c))
        law = best_answer(1, c.size, round(level, 9)).law().rounded(None, 2.0**-20)
        parts.append(Mechanism(law, above, joint.useful, "useful", joint=joint, claim=Claim("rldp", 50.0, sf.Exactly(joint))))
    bundle = sf.Bundle(tuple(parts), secret, None, sf.Promise(50.0, kind))
    assert bundle.parents == parents
    found = bundle_certificate(bundle)

    a, b, c = (np.asarray(m.matrix) for m in parts)
    laws = np.einsum("au,bv,cw,suvw->abcs", a, b, c, p / p.sum((1, 2, 3), keepdims=True)).reshape(-1, 2)
    realised = float(np.log(laws.max(1) / laws.min(1)).max())

    assert realised <= found.level + 1e-9
    assert found.level <= found.elsewhere["any distribution"] + 1e-9
    assert "IF" in found.basis and "model" in found.title and "IF" in bundle.claim.sentence


def test_where_the_model_fails_more_may_leak_than_it_says_but_never_more_than_the_level_for_anything():
    """Two columns that are copies: the star's sum is exact if they are independent given the secret, and too low here."""
    secret, names = sf.Alphabet.of(column("s", 2)), [column("u", 3), column("v", 3)]
    p = np.array([[0.02, 0.49, 0.49], [0.0002, 0.49, 0.5098]])
    joints = [sf.Joint.from_probabilities(p / 2, secret, sf.Alphabet.of(c)) for c in names]
    law = Answer(1, 3, 3.0).law().rounded(None, 2.0**-20)
    parts = tuple(
        Mechanism(law, secret, j.useful, "useful", joint=j, claim=Claim("rldp", 9.0, sf.Exactly(j))) for j in joints
    )
    found = bundle_certificate(sf.Bundle(parts, secret, None, sf.Promise(9.0, "star")))
    separate = np.einsum("su,sv->suv", p / 2, joints[1].useful_given_secret)
    assert brute_level(parts, separate) == pytest.approx(found.level, abs=1e-6)
    same = np.zeros((2, 3, 3))
    same[:, range(3), range(3)] = p / 2
    assert found.level + 0.1 < brute_level(parts, same) <= found.elsewhere["any distribution"] + 1e-9


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5), st.floats(0.05, 4), st.integers(0, 2**32 - 1))
def test_the_stand_in_lets_through_at_least_what_any_row_of_that_level_does(size, level, seed):
    rng = np.random.default_rng(seed)
    secret, useful = sf.Alphabet.of(column("s", 2)), sf.Alphabet.of(column("u", size))
    joint = sf.Joint.from_probabilities(rng.dirichlet(np.ones(2 * size)).reshape(2, size), secret, useful)
    base = sealed_answer(secret, useful.columns, Answer(1, size, 0.5), sf.Exactly(joint))
    allowed = sf.level(stand_in(base, level), sf.RLDP(sf.Exactly(joint)))
    given_s = joint.useful_given_secret
    for _ in range(50):
        g = np.exp(rng.uniform(0, level, size) if rng.random() < 0.5 else level * rng.integers(0, 2, size))
        assert abs(math.log((given_s[0] @ g) / (given_s[1] @ g))) <= allowed + 1e-9


@pytest.mark.parametrize(("rows", "useful", "order"), [(1, 8, 2), (1, 5, 5), (2, 8, 3), (3, 4, 2)])
def test_every_word_of_blocks_falls_on_its_weight(rows, useful, order):
    law = Answer(rows, useful, 1.0, order).law().rounded(13, 0.0)
    words = np.arange(2**13, dtype=np.uint64)[:, None]
    for x in range(rows * useful):
        drawn = np.bincount(law.draw(np.full(len(words), x), words), minlength=law.outputs)
        assert np.array_equal(drawn, law.listed.reshape(law.outputs, -1)[:, x])


@pytest.mark.parametrize(("useful", "order"), [(3, 2), (8, 2), (8, 3), (20, 5), (64, 7)])
def test_blocks_are_balanced(useful, order):
    held = incidence(useful, order).astype(int)
    shared = held.T @ held
    assert len(set(np.diag(shared))) == 1
    assert len(set(shared[~np.eye(useful, dtype=bool)])) == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 4), st.integers(2, 9), st.floats(0.1, 3), st.sampled_from([None, 2, 3]))
def test_answers_have_the_level_they_say(rows, useful, epsilon, order):
    order = order if useful > 2 else None
    secret, u = sf.Alphabet.of(column("s", rows)), sf.Alphabet.of(column("u", useful))
    for r in (1, rows):
        made = Mechanism(Answer(r, useful, epsilon, order).law(), secret, u, "both" if r > 1 else "useful")
        joint = sf.Joint.from_probabilities(np.full((rows, useful), 1 / (rows * useful)), secret, u)
        assert sf.level(made, sf.RLDP(sf.Anything(joint))) == pytest.approx(epsilon, abs=1e-9)


@pytest.mark.parametrize(("rows", "useful", "order", "chosen"), [
    (1, 7, 2, 1), (1, 13, 3, 1), (2, 7, 2, 1), (3, 5, None, 1), (1, 6, None, 1), (1, 6, None, 2), (3, 5, None, 2),
])
def test_strengths_are_the_eigenvalues_of_the_information(rows, useful, order, chosen):
    answer = Answer(rows, useful, 0.8, order, chosen)
    q = np.asarray(answer.law().matrix())
    x = rows * useful
    g = q.T @ np.diag(1 / q.mean(1)) @ q / x
    values = np.sort(np.linalg.eigvalsh(g))
    s, u, both = answer.strengths()
    expected = [1.0] + [s] * (rows - 1) + [u] * (useful - 1) + [both] * ((rows - 1) * (useful - 1))
    assert values == pytest.approx(np.sort(np.array(expected)), abs=1e-9)
    assert answer.moment(useful, secret=rows > 1) == pytest.approx(np.trace(np.linalg.inv(g)) / x)


@pytest.mark.parametrize(("rows", "useful", "order"), [(2, 8, 5), (3, 5, 3), (1, 12, 5), (2, 16, 7)])
def test_the_noise_of_blocks_of_different_sizes_is_that_of_least_squares(rows, useful, order):
    answer, spec = Answer(rows, useful, 1.5, order), Spec((0,), rows > 1)
    layout = TurnLayout(max(rows, 2), (useful,), (1.0,))
    measured = Measured.of(answer.law(), spec, layout, None, 1.5, "blocks")
    for effect in held_effects(spec):
        assert answer.noise(effect, layout.size) == pytest.approx(measured.noise(effect, layout.size))
