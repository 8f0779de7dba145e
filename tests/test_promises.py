"""Two promises in one mechanism: by statistics, and whoever looks."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import joints

import sfumato as sf
from sfumato.certification import certificate
from sfumato.designers.choose import _CAPPED
from sfumato.mechanism import Claim
from sfumato.optimise.budget import FREE
from sfumato.optimise.cone import Cap, Coordinates, RatioCone, repaired
from sfumato.optimise.informative import most_informative
from sfumato.optimise.search import InformationAim
from sfumato.uncertainty.power_tilting import divergence, greatest_mean

EPSILON, KAPPA = 0.5, 2.0
CLOSED = ("grr", "sue", "oue", "srr", "ir", "cr")


@pytest.fixture(scope="module")
def table():
    return sf.datasets.adult("sex", "race")


@pytest.fixture(scope="module")
def ball(table):
    return sf.ChiSquareBall(table, confidence=0.95)


@pytest.fixture(scope="module")
def capped(ball):
    return sf.design(ball, EPSILON, "ballopt", at_most=KAPPA, quick=True)


@pytest.fixture(scope="module")
def uncapped(ball):
    return sf.design(ball, EPSILON, "ballopt", quick=True)


def anywhere(mechanism):
    return math.log(_ratio(mechanism))


def _ratio(mechanism):
    """The greatest Q(y|s,u)/Q(y|s',u') between different secrets, from the weights themselves."""
    s, u = mechanism.secret.size, mechanism.useful.size
    rows = np.asarray(mechanism.law.matrix(), float)
    rows = (rows if mechanism.reads == "both" else np.tile(rows, (1, s))).reshape(-1, s, u)
    rows = rows[rows.sum((1, 2)) > 0]
    pairs = itertools.permutations(range(s), 2)
    with np.errstate(divide="ignore"):
        return max(float((rows[:, a].max(1) / rows[:, b].min(1)).max()) for a, b in pairs)


@settings(max_examples=25, deadline=None)
@given(joints(), st.sampled_from(CLOSED), st.sampled_from(("both", "useful")), st.floats(0.1, 2), st.floats(1.0, 3.0))
def test_closed_forms_are_calibrated_to_both_promises(joint, method, reads, epsilon, times):
    if reads == "useful" and method in ("srr", "cr"):
        return
    design = sf.design(sf.ChiSquareBall(joint, confidence=0.95), epsilon, method, reads=reads, at_most=epsilon * times)
    claims = design.mechanism.claim, *design.mechanism.claim.also

    assert design.certificate.holds
    assert max(c.epsilon for c in claims if c.within.kind == "anything") == pytest.approx(epsilon * times)


@pytest.mark.parametrize("method", ["ballopt", "polyopt", "nr", "precise", "pml"])
def test_every_search_keeps_both_promises(method):
    joint = sf.Joint.from_counts([[40, 10, 0], [15, 30, 25]])
    design = sf.design(sf.ChiSquareBall(joint, confidence=0.95), 0.7, method, at_most=1.5, **({"time_limit": 0.5} if method == "pml" else {}))

    assert design.certificate.holds and design.certificate.also[0].level <= 1.5
    assert anywhere(design.mechanism) <= design.certificate.also[0].level + 1e-9


@pytest.mark.parametrize("method", ["ballopt", "precise"])
def test_a_search_that_reads_the_useful_value_alone_keeps_both(method, ball):
    design = sf.design(ball, EPSILON, method, reads="useful", at_most=1.0)

    assert design.certificate.holds and anywhere(design.mechanism) <= 1.0


def test_a_looser_cap_keeps_more_and_each_beats_what_any_distribution_allows(ball, capped, uncapped):
    free = sf.design(sf.Anything(ball.joint), EPSILON, "ballopt")

    assert free.value < capped.value < uncapped.value
    assert sf.nmi(capped.mechanism, ball.joint) > 0.97 * 0.2316  # what a long search finds


def test_the_cap_cuts_exactly_the_rows_above_it(ball):
    cone, rng = RatioCone(ball, EPSILON, at_most=KAPPA), np.random.default_rng(0)
    rows = cone.coordinates.unit(np.exp(rng.normal(0, 0.8, (60, 10))))
    cells = rows.reshape(-1, 2, 5)
    ratio = np.maximum(cells[:, 0].max(1) / cells[:, 1].min(1), cells[:, 1].max(1) / cells[:, 0].min(1))
    above = np.unique(cone.cap.cuts(rows, cone.rise, 0.0).y)

    assert set(above) == set(np.flatnonzero(ratio > cone.cap.K))
    private = repaired(cone, rows).reshape(-1, 2, 5)
    worst = max((private[:, a].max(1) / private[:, b].min(1)).max() for a, b in ((0, 1), (1, 0)))
    assert worst <= math.exp(KAPPA)


def test_two_kinds_of_rows_are_all_that_any_distribution_needs():
    joint = sf.Joint.from_probabilities([[0.35, 0.05], [0.2, 0.4]])
    found = most_informative(sf.Anything(joint), 0.8, FREE)
    K = Cap.of(joint, Coordinates.of(joint), 0.8, "both").K
    patterns = np.array(list(itertools.product((0, 1), repeat=4)))
    rows = [1 + (K - 1) * patterns]
    for own in ([0, 1], [2, 3]):
        some = np.ones((16, 4))
        some[:, own] = K ** (2.0 * patterns[:, own] - 1)
        rows.append(some)
    master = InformationAim(Coordinates.of(joint))
    master.add(np.concatenate(rows))

    assert found.value == pytest.approx(master.solve(), rel=1e-6)
    assert found.bound >= found.value - 1e-9 and found.bound == pytest.approx(found.value, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_at_even_weights_no_mechanism_tells_more_than_the_best_private_row(epsilon):
    """Moved by all exchanges of labels a row is a mechanism; SRR is the row of one cell, the best at large ε."""
    s, u, K = 2, 4, math.exp(epsilon)

    def gain(*parts):
        total = sum(n * w for n, w in parts)
        return sum(n * w / total * math.log(w / total * s * u) for n, w in parts if n)

    own = [gain((b, K), (u - b, 1 / K), ((s - 1) * u, 1.0)) for b in range(1, u + 1)]
    best = max(*own, *(gain((a, K), (s * u - a, 1.0)) for a in range(1, s * u)))
    found = sf.design(sf.Anything(sf.Joint.uniform(s, u)), epsilon, "ballopt")

    assert found.value == pytest.approx(best, rel=1e-4) and found.bound >= best - 1e-9
    assert sf.design(sf.Anything(sf.Joint.uniform(s, u)), epsilon, "srr").value == pytest.approx(own[0], rel=1e-6)
    assert (best > own[0] + 1e-6) == (epsilon < 1)


def test_without_counts_nothing_about_the_table_is_in_the_file(ball, tmp_path):
    design = sf.design(ball, EPSILON, "srr", at_most=EPSILON)
    path = design.mechanism.save(tmp_path / "m.json")
    told = json.loads(path.read_text())

    assert told["claim"]["within"] == {"kind": "anything"} and "counts" not in told["design"]
    assert told["design"]["source"] == "public" and sf.verify(path).level <= EPSILON
    other = sf.Joint.from_counts(ball.joint.counts[::-1] + 1, ball.joint.secret, ball.joint.useful)
    again = sf.design(sf.ChiSquareBall(other, radius=0.1), EPSILON, "ballopt", at_most=EPSILON, quick=True)
    first = sf.design(ball, EPSILON, "ballopt", at_most=EPSILON, quick=True)
    assert (again.mechanism.law.matrix() == first.mechanism.law.matrix()).all()


def test_a_forged_second_promise_is_refused(capped, tmp_path):
    forged = replace(capped.mechanism.claim, also=(replace(capped.mechanism.claim.also[0], epsilon=1.0),))
    with pytest.raises(sf.ClaimError, match=r"claimed ε ≤ 1 .*Nothing was released"):
        sf.certify(capped.mechanism.with_claim(forged))
    path = capped.mechanism.with_claim(forged).save(tmp_path / "forged.json")
    with pytest.raises(sf.ClaimError):
        sf.verify(path)


def test_both_promises_are_told_in_plain_words(capped, uncapped):
    first, second = sf.promises(capped.mechanism, capped.certificate)

    assert "knows only statistics" in first.sentence and first.promised == EPSILON
    assert "knows this person's race learns at most 2 nats" in second.sentence and second.proved <= KAPPA
    assert "nothing is promised there" in sf.promises(uncapped.mechanism, uncapped.certificate)[1].sentence


@pytest.mark.parametrize(("options", "said"), [
    ({"at_most": 0.2}, "at_most must be"), ({"at_most": math.inf}, "at_most must be"),
    ({"method": "leakage", "at_most": 2}, "no second promise"), ({"releases": 3}, "together"),
    ({"releases": 5, "budget": 2.0}, "leave 0.4 for each"), ({"releases": 0, "budget": 2.0}, "whole number"),
])
def test_second_promises_that_make_no_sense_are_refused(ball, options, said):
    with pytest.raises(sf.InputError, match=said):
        sf.design(ball, EPSILON, **options)


def test_a_comparison_under_a_second_promise_leaves_out_who_has_none(ball):
    found = sf.compare(ball, epsilon=[0.5], methods=["srr", "ir", "hamming"], at_most=2, cache=False, workers=1)

    assert {p.method for p in found.points} == {"ir", "srr"} and [m.method for m in found.missing] == ["hamming"]
    assert all("at most 2 for any distribution" in p.promise for p in found.points)


def test_methods_without_a_second_promise_are_named():
    assert set(sf.methods()) - _CAPPED == {
        "leakage", "distortion", "hamming", "lip", "ldp", "srlip", "srlip-paper", "mi-funnel"
    }


def test_planned_releases_stay_within_their_budget_for_any_distribution(ball):
    design = sf.design(ball, EPSILON, "ir", releases=3, budget=4.5)
    whole = sf.compose(*[design.mechanism] * 3)

    assert design.certificate.also[0].epsilon == 1.5
    assert whole.level("rldp", sf.Anything(ball.joint)) <= 4.5


def test_two_capped_releases_are_proved_within_twice_the_cap_and_two_others_tell_the_secret(ball, capped, uncapped):
    both, plain_both = sf.compose(*[capped.mechanism] * 2), sf.compose(*[uncapped.mechanism] * 2)

    assert both.level("rldp", sf.Anything(ball.joint)) <= 2 * KAPPA and both.level("rldp", ball) <= EPSILON + KAPPA
    assert plain_both.level("rldp", ball) > 10 and "tell the secret" in plain_both.sentence
    assert "tell" not in both.sentence.replace("together", "")


def test_somebody_who_knows_the_useful_value_learns_no_more_than_the_cap(capped, uncapped):
    """Even odds before, the row and the useful value known: the odds after are a quotient of two weights."""
    def odds(mechanism):
        rows = np.asarray(mechanism.law.matrix(), float).reshape(-1, 2, 5)
        with np.errstate(divide="ignore", invalid="ignore"):
            both = rows[:, 0] / rows[:, 1]
        return float(np.nanmax(np.maximum(both, 1 / both)))

    assert odds(capped.mechanism) <= math.exp(KAPPA) * (1 + 1e-12)
    assert odds(uncapped.mechanism) > math.exp(10)


def test_a_file_without_noise_is_written_and_read_as_before(capped, tmp_path):
    path = capped.mechanism.save(tmp_path / "m.json")

    assert json.loads(path.read_text())["version"] == 1 and sf.verify(path).holds


def test_means_and_masses_at_order_one_half_are_those_of_every_order():
    rng = np.random.default_rng(2)
    v, q, limit = rng.random((40, 6)), rng.dirichlet(np.ones(6), 40), rng.uniform(1e-6, 0.2, 40)
    found = greatest_mean(v, q, limit, 0.5)
    near = greatest_mean(v, q, limit, 0.5 + 1e-9)

    assert found.value == pytest.approx(near.value, abs=1e-7)
    assert divergence(q, found.r, 0.5) == pytest.approx(limit, rel=1e-6)
    joint = sf.Joint.from_counts(rng.integers(1, 50, (2, 5)))
    half, beside = (sf.RenyiBall(joint, alpha=a, radius=0.05) for a in (0.5, 0.5 + 1e-9))
    assert np.stack(half.spikes()) == pytest.approx(np.stack(beside.spikes()), abs=1e-7)


def test_a_claim_in_whole_numbers_is_saved_as_it_is_read(ball, tmp_path):
    path = sf.design(ball, 1, "srr", at_most=3).mechanism.save(tmp_path / "m.json")

    assert sf.load(path).claim.also[0].epsilon == 3.0
    assert certificate(sf.load(path), Claim("rldp", 3, sf.Anything(ball.joint))).holds
