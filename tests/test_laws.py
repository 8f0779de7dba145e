"""Laws that hold for every joint and every mechanism."""

import math
import sys
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import epsilons, joints, listed, matrices, mechanisms, sealed

import sfumato as sf
from sfumato.alphabet import given_up, read_only
from sfumato.designers.base import Task
from sfumato.designers.choose import designer
from sfumato.mechanism import Mechanism, Table
from sfumato.optimise.funnel import posteriors
from sfumato.privacy import information
from sfumato.privacy.information import unary_information


def with_joint(reads=None, **options):
    return joints(**options).flatmap(lambda joint: st.tuples(st.just(joint), mechanisms(joint, reads)))


def notions(joint):
    return [
        sf.LDP(), sf.LDP(joint), sf.LIP(joint), sf.RLDP(sf.Exactly(joint)), sf.RLDP(sf.ChiSquareBall(joint)),
        sf.RLDP(sf.Anything(joint)),
    ]


@given(with_joint())
def test_columns_sum_to_one(pair):
    _, mechanism = pair
    assert np.allclose(mechanism.matrix.sum(0), 1, atol=1e-12)


@given(with_joint())
def test_sealed_columns_sum_to_a_power_of_two(pair):
    _, mechanism = pair
    law = sealed(mechanism).law
    if law.meaning != "subset":
        total = sum(np.asarray(law.row(y), object) for y in range(law.outputs))
        assert (total == 2**law.bits).all()


@given(with_joint())
@settings(max_examples=60)
def test_structured_laws_have_the_levels_of_their_matrices(pair):
    joint, mechanism = pair
    slow = listed(mechanism)
    for notion in notions(joint):
        assert sf.level(mechanism, notion) == pytest.approx(sf.level(slow, notion), rel=1e-7, abs=1e-9)


@given(with_joint())
def test_structured_laws_have_the_information_of_their_matrices(pair):
    joint, mechanism = pair
    fast, slow = information(mechanism, joint), information(listed(mechanism), joint)
    for name in ("both", "useful", "secret"):
        assert getattr(fast, name) == pytest.approx(getattr(slow, name), abs=1e-9)


@given(with_joint(), st.data())
def test_post_processing_never_adds_leakage_or_information(pair, data):
    joint, mechanism = pair
    after = data.draw(matrices(mechanism.outputs, (1, 4)))
    law = Table(after @ mechanism.matrix, mechanism.law.rows)
    processed = Mechanism(law, joint.secret, joint.useful, mechanism.reads)
    for notion in notions(joint):
        assert sf.level(processed, notion) <= sf.level(mechanism, notion) + 1e-9
    assert sf.mutual_information(processed, joint) <= sf.mutual_information(mechanism, joint) + 1e-9


@given(with_joint())
def test_ldp_implies_rldp_for_every_set(pair):
    joint, mechanism = pair
    top = sf.level(mechanism, sf.LDP())
    for within in (sf.Exactly(joint), sf.ChiSquareBall(joint), sf.Anything(joint)):
        assert sf.level(mechanism, sf.RLDP(within)) <= top + 1e-9


@given(with_joint())
def test_larger_sets_have_larger_levels(pair):
    joint, mechanism = pair
    sets = [sf.Exactly(joint), *(sf.ChiSquareBall(joint, radius=r) for r in (1e-4, 0.01, 0.3)), sf.Anything(joint)]
    levels = [sf.level(mechanism, sf.RLDP(s)) for s in sets]
    assert all(a <= b + 1e-9 for a, b in pairwise(levels))


@given(with_joint())
def test_ldp_implies_lip_implies_twice_ldp_about_the_secret(pair):
    joint, mechanism = pair
    about, lip = sf.level(mechanism, sf.LDP(joint)), sf.level(mechanism, sf.LIP(joint))
    assert lip <= about + 1e-9
    assert about <= 2 * lip + 1e-9
    assert information(mechanism, joint).secret <= lip + 1e-9


METHODS = [m for m in sf.methods() if m in ("grr", "sue", "oue", "srr", "ir", "cr")]


@given(joints(), epsilons(), st.sampled_from(METHODS), st.sampled_from(["rldp", "lip", "ldp"]))
@settings(max_examples=120)
def test_designs_keep_their_promise_and_the_seal_keeps_the_value(joint, epsilon, method, notion):
    design = sf.design(sf.ChiSquareBall(joint), epsilon, method, notion=notion)
    within = sf.Exactly(joint) if notion == "lip" else sf.ChiSquareBall(joint)
    measure = {"rldp": sf.RLDP(within), "lip": sf.LIP(joint), "ldp": sf.LDP()}[notion]
    assert design.certificate.level <= epsilon
    assert sf.level(design.mechanism, measure) <= design.certificate.level + 1e-9
    assert design.value <= design.bound + 1e-9 and design.bound <= design.ceiling + 1e-9
    task = Task(within, epsilon, notion)
    assert design.value == pytest.approx(designer(method)(task).value(task), rel=1e-4, abs=1e-9)


@given(joints(), epsilons(), st.sampled_from(["grr", "sue", "oue", "ir"]), st.sampled_from(["rldp", "lip", "ldp"]))
@settings(max_examples=60)
def test_designs_that_never_read_the_secret_keep_their_promise(joint, epsilon, method, notion):
    design = sf.design(sf.ChiSquareBall(joint), epsilon, method, notion=notion, reads="useful")
    within = sf.Exactly(joint) if notion == "lip" else sf.ChiSquareBall(joint)
    measure = {"rldp": sf.RLDP(within), "lip": sf.LIP(joint), "ldp": sf.LDP()}[notion]
    assert sf.level(design.mechanism, measure) <= design.certificate.level + 1e-9 <= epsilon + 2e-9


@given(joints(), st.sampled_from(METHODS))
def test_epsilon_zero_is_allowed_and_proved_to_be_zero(joint, method):
    design = sf.design(sf.ChiSquareBall(joint), 0.0, method)
    assert design.certificate.level == 0.0


@given(joints(empty_cells=False), epsilons(0.1, 2.0))
def test_closed_forms_use_all_of_their_budget_at_a_known_distribution(joint, epsilon):
    """At one distribution each calibration is exact: the level is ε, or the identity was private already."""
    for method in ("grr", "sue", "oue", "cr"):
        for notion, measure in (("rldp", sf.LDP(joint)), ("lip", sf.LIP(joint))):
            reads = "both" if method == "cr" else "useful"
            design = sf.design(sf.Exactly(joint), epsilon, method, notion=notion, reads=reads)
            spent = sf.level(design.mechanism, measure)
            assert spent == pytest.approx(epsilon, rel=1e-6) or math.isinf(design.details["strength"])


@given(joints(), epsilons(0.1, 2.0))
def test_the_ceiling_bounds_the_identity_of_nothing_and_grows(joint, epsilon):
    from sfumato.privacy import ceiling

    assert joint.entropy_useful_given_secret - 1e-12 <= ceiling(joint, epsilon) <= joint.entropy + 1e-12
    assert ceiling(joint, epsilon) <= ceiling(joint, 2 * epsilon) + 1e-12


@pytest.mark.parametrize("on, off", [(0.5, 1 / (math.e + 1)), (0.5, 1e-6), (1.0, 0.1), (1 - 1e-9, 1e-9), (0.501, 0.4999)])
def test_unary_information_is_that_of_the_listed_outputs(on, off):
    p = np.random.default_rng(2).dirichlet(np.ones(8))
    bits = ((np.arange(256)[:, None] >> np.arange(8)) & 1).astype(bool)
    base = np.where(bits, off, 1 - off)
    q = [np.where(bits[:, x], on, 1 - on) * np.prod(np.delete(base, x, 1), axis=1) for x in range(8)]
    assert unary_information(p, on, off) == pytest.approx(posteriors.information(np.array(q).T, p), abs=1e-13)


def test_unary_information_of_many_values_is_that_of_counted_ones():
    """Equal masses have a binomial number of bits; a thousand masses nearly equal are computed one by one."""
    a, on, off = 1000, 0.5, 0.2
    h, k = (1 - on) / (1 - off), np.arange(a + 1)
    heights = h + (on / off - h) * k / a
    chance = np.array([float(math.comb(a, i) * Fraction(off) ** i * Fraction(1 - off) ** (a - i)) for i in range(a + 1)])
    exact = on * math.log(on / off) + (1 - on) * math.log(h) - float(chance @ (heights * np.log(heights)))
    near = np.linspace(1 - 1e-9, 1 + 1e-9, a) / a
    assert unary_information(near, on, off) == pytest.approx(exact, abs=1e-13)


def test_information_of_many_unary_outputs():
    rng = np.random.default_rng(4)
    joint = sf.Joint.from_counts(rng.integers(1, 30, (2, 30)))
    made = sf.design(sf.Exactly(joint), 1.0, "oue", notion="lip", reads="useful")
    assert 0 < made.information.secret < made.value < joint.entropy_useful
    equal = sf.Joint.from_counts(np.full((2, 40), 3))
    exact = sf.design(sf.Exactly(equal), 1.0, "sue", notion="ldp", reads="useful")
    assert exact.information.secret == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("run", [1, 3, 256])
def test_what_a_layout_tells_is_that_of_its_listed_rows(monkeypatch, run):
    """However many outputs in a row are added up from their differences."""
    from tests.strategies import listed, random_layout

    rng = np.random.default_rng(8)
    joint = sf.Joint.from_counts(rng.integers(0, 9, (4, 5)) + np.eye(4, 5, dtype=int))
    made = sf.Mechanism(random_layout(4, 5, rng, atoms=6), joint.secret, joint.useful, joint=joint)
    monkeypatch.setattr(sys.modules["sfumato.privacy.information"], "RUN", run)
    one, other = (sf.privacy.information(x, joint) for x in (made, listed(made)))
    assert [one.both, one.useful, one.secret] == pytest.approx([other.both, other.useful, other.secret], abs=1e-12)


def test_arrays_that_were_given_up_are_not_copied_and_all_others_are():
    mine = np.ones((2, 3))
    kept = read_only(mine)
    assert kept is not mine and read_only(kept) is kept and read_only(given_up(mine)) is mine
    assert read_only(kept[:1]) is not kept and read_only(kept[:1]).base is None and read_only(kept, np.int64) is not kept
