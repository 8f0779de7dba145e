"""Two promises in one mechanism, and design counts that carry noise."""

import itertools
import json
import math
import random
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import joints

import sfumato as sf
import sfumato_kernel as kernel
from sfumato.certification import certificate
from sfumato.cli import cli
from sfumato.designers.choose import _CAPPED
from sfumato.designers.splitting import split
from sfumato.joint import SAMPLER, Noise
from sfumato.mechanism import Claim
from sfumato.mechanism.file import checksum, record_of
from sfumato.noise import SEEDED, projected, threshold, two_sided
from sfumato.optimise.budget import FREE
from sfumato.optimise.cone import Cap, Coordinates, RatioCone, repaired
from sfumato.optimise.informative import most_informative
from sfumato.optimise.master import InformationAim
from sfumato.uncertainty.power_tilting import divergence, greatest_mean
from sfumato.uncertainty.renyi import simulated_radius
from sfumato_kernel.documents import SAMPLERS

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
    design = sf.design(sf.ChiSquareBall(joint, confidence=0.95), 0.7, method, at_most=1.5, time_limit=2)

    assert design.certificate.holds and design.certificate.also[0].level <= 1.5
    assert anywhere(design.mechanism) <= design.certificate.also[0].level + 1e-9


@pytest.mark.parametrize("method", ["ballopt", "precise"])
def test_a_search_that_reads_the_useful_value_alone_keeps_both(method, ball):
    design = sf.design(ball, EPSILON, method, reads="useful", at_most=1.0, time_limit=2)

    assert design.certificate.holds and anywhere(design.mechanism) <= 1.0


def test_a_looser_cap_keeps_more_and_each_beats_what_any_distribution_allows(ball, capped, uncapped):
    free = sf.design(sf.Anything(ball.joint), EPSILON, "ballopt", time_limit=2)

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
    found = sf.design(sf.Anything(sf.Joint.uniform(s, u)), epsilon, "ballopt", time_limit=2)

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


def test_somebody_who_sees_the_file_and_knows_everybody_else_learns_no_more_than_the_sum():
    """Enumerated: four others are known, the fifth person's record is looked for; the file decides the mechanism."""
    epsilon, spent, window = 0.4, 0.6, range(-9, 12)
    others, rng = np.array([2, 0, 1, 1]), np.random.default_rng(0)
    ratio = math.exp(-spent / 2)
    weight = {k: (1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-12, 13)}
    files = np.array(list(itertools.product(window, repeat=4)))[rng.permutation(21**4)[:4000]]
    public = sf.Anything(sf.Joint.uniform(2, 2))
    laws = [np.asarray(sf.design(public, e, "srr").mechanism.law.matrix(), float) for e in (epsilon, epsilon / 2)]
    laws = [law / law.sum(0) for law in laws]
    chance = np.zeros((4, len(files), 4))  # [record, file, row]
    for x in range(4):
        count = others + np.eye(4, dtype=int)[x]
        seen = np.prod([[weight.get(int(k), 0.0) for k in files[:, i] - count[i]] for i in range(4)], axis=0)
        chance[x] = seen[:, None] * np.array([laws[int(f.sum()) % 2][:, x] for f in files])
    given_secret = chance.reshape(2, 2, -1).mean(1)
    level = math.log(float((given_secret[0] / given_secret[1]).max()))

    assert epsilon * 0.9 < level <= epsilon + spent + 1e-9
    exact = {tuple(others + np.eye(4, dtype=int)[x]): x for x in range(4)}
    assert len(exact) == 4  # exact counts name the record: no level at all


def test_noise_is_drawn_from_thetwo_sided_geometric_law():
    rate, count = Fraction(3, 10), 30_000
    drawn = np.fromiter(two_sided(rate, count, random.Random(5).randrange), int)
    ratio = math.exp(-0.3)
    for k in range(-4, 5):
        p = (1 - ratio) / (1 + ratio) * ratio ** abs(k)
        assert abs((drawn == k).mean() - p) < 5 * math.sqrt(p / count)


@given(st.floats(0.01, 2.0), st.floats(1e-12, 0.1))
def test_the_threshold_is_the_least_that_one_person_hardly_passes(rate, delta):
    ratio, least = math.exp(-rate), threshold(rate, delta)

    def passes(tau):  # P(1 + X ≥ τ), τ ≥ 2
        return ratio ** (tau - 1) / (1 + ratio)

    assert passes(least) <= delta * (1 + 1e-9)
    assert least == 2 or passes(least - 1) > delta * (1 - 1e-9)


@given(st.lists(st.integers(-50, 200), min_size=2, max_size=9), st.integers(1, 300))
def test_projected_counts_are_the_nearest_with_the_right_sum(counts, total):
    found = projected(np.array([counts], float), float(total))[0]

    assert found.min() >= 0 and found.sum() == pytest.approx(total)
    lowered = (np.array(counts) - found)[found > 1e-9]
    assert np.ptp(lowered) < 1e-6 and (np.array(counts)[found <= 1e-9] <= lowered.max() + 1e-6).all()


def test_noisy_counts_hold_only_labels_that_many_people_have():
    people = sf.Joint.from_counts([[5000, 3000, 1], [2500, 3500, 0]], ["well", "ill"], ["north", "south", "moon"])
    noisy = sf.noisy_counts(replace(people, learned=("useful",)), 1.0, delta=1e-6)

    assert noisy.useful.columns[0].labels == ("north", "south") and noisy.useful.columns[0].other == "north"
    assert noisy.n == people.n and noisy.noise.delta == 1e-6 and noisy.noise.counts == pytest.approx(0.8)
    assert sf.noisy_counts(replace(people, learned=("useful",)), 1.0, public=True).useful == people.useful


@pytest.mark.parametrize(("change", "options", "said"), [
    ({}, {"epsilon": 0.0}, "positive number"), ({"learned": ("useful",)}, {"epsilon": 0.001}, "no two labels of"),
    ({"learned": ("useful",)}, {"epsilon": 1.0, "delta": 0.0}, "delta"),
])
def test_noisy_counts_that_make_no_sense_are_refused(change, options, said):
    people = replace(sf.Joint.from_counts([[5, 4], [3, 6]]), **change)
    with pytest.raises(sf.InputError, match=said):
        sf.noisy_counts(people, **options)


@pytest.fixture(scope="module")
def noisy_design(table):
    return sf.design(sf.covering(sf.noisy_counts(table, 0.3)), EPSILON, "ir", at_most=KAPPA)


def test_a_file_of_noisy_counts_says_what_they_cost_and_is_verified(noisy_design, tmp_path):
    path = noisy_design.mechanism.save(tmp_path / "m.json")
    told, again = json.loads(path.read_text()), sf.load(path)

    assert told["version"] == 2 and told["design"]["noise"]["epsilon"] == 0.3 and told["design"]["source"] == "noisy"
    assert "confidence" not in told["claim"]["within"]
    assert again.joint.noise == noisy_design.mechanism.joint.noise and again.joint.noise.coverage == 0.95
    assert sf.verify(path).holds
    assert [round(x.total, 6) for x in sf.promises(again)] == [EPSILON + 0.3, KAPPA + 0.3]


def test_a_set_too_small_for_its_coverage_is_refused(noisy_design):
    made = noisy_design.mechanism
    small = sf.RenyiBall(made.joint, alpha=0.5, radius=made.claim.within.radius / 3)
    with pytest.raises(sf.ClaimError, match=r"coverage of 0\.95"):
        sf.certify(made.with_claim(replace(made.claim, within=small)))


def test_a_file_without_noise_is_written_and_read_as_before(capped, tmp_path):
    path = capped.mechanism.save(tmp_path / "m.json")

    assert json.loads(path.read_text())["version"] == 1 and sf.verify(path).holds


def test_noise_in_a_file_of_the_older_version_is_refused(noisy_design, tmp_path):
    record = record_of(noisy_design.mechanism)
    forged = msgspec.structs.replace(record, version=1)
    path = tmp_path / "m.json"
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(forged, checksum=checksum(forged))))
    with pytest.raises(sf.SfumatoError, match="version 1"):
        sf.load(path)


def test_the_kernel_reads_noise_and_lets_no_confidence_rest_on_it(noisy_design):
    record = record_of(noisy_design.mechanism)

    def written(record):
        return msgspec.json.encode(msgspec.structs.replace(record, checksum=checksum(record)))

    assert kernel.verify(written(record)).proved
    noise, claim = record.design.noise, record.claim
    sure = msgspec.structs.replace(claim, within=msgspec.structs.replace(claim.within, confidence=0.95))
    cheap = msgspec.structs.replace(record.design, noise=msgspec.structs.replace(noise, counts=2 * noise.epsilon))
    free = msgspec.structs.replace(record.design, noise=msgspec.structs.replace(noise, counts=0.0))
    other = msgspec.structs.replace(record.design, noise=msgspec.structs.replace(noise, rows=noise.rows + 1))
    designs = [msgspec.structs.replace(record, design=x) for x in (cheap, free, other)]
    for forged in (msgspec.structs.replace(record, claim=sure), *designs):
        with pytest.raises(kernel.Refused, match="noise"):
            kernel.verify(written(forged))
    words = msgspec.structs.replace(record.design, noise=msgspec.structs.replace(noise, sampler="exact: ε_d = 0"))
    with pytest.raises(kernel.Refused, match="sampler"):
        kernel.verify(written(msgspec.structs.replace(record, design=words)))
    assert (SAMPLER, SEEDED) == SAMPLERS


def test_noisy_counts_are_kept_and_found_again(noisy_design, tmp_path):
    joint = noisy_design.mechanism.joint
    sf.save_counts(joint, tmp_path / "t.counts.json")
    again = sf.load_counts(tmp_path / "t.counts.json")

    assert (again.counts == joint.counts).all() and again.noise == replace(joint.noise, coverage=None)
    with pytest.raises(sf.SfumatoError):
        sf.save_counts(joint, tmp_path / "t.counts.json")


def test_a_second_draw_of_counts_is_entered_in_the_ledger(table, noisy_design, tmp_path):
    ledger, other = sf.Ledger(tmp_path / "l.db"), sf.design(
        sf.covering(sf.noisy_counts(table, 0.3)), EPSILON, "ir", at_most=KAPPA
    )
    made = (noisy_design, noisy_design, other)
    levels = [ledger.reserve(m.mechanism, "all", same_values=True).composed for m in made]

    assert levels[0] == pytest.approx(EPSILON + 0.3, abs=0.2)
    assert levels[1] <= EPSILON + KAPPA + 0.3
    assert levels[2] - levels[1] >= 0.3 - 1e-9


def ran(*words, code=0):
    done = CliRunner().invoke(cli, [str(w) for w in words])
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


@pytest.fixture
def people(tmp_path):
    """Three thousand people whose town is tied to what they have."""
    rng = np.random.default_rng(4)
    ill = rng.random(3000) < 0.4
    town = np.where(rng.random(3000) < 0.2 + 0.3 * ill, "north", "south")
    rows = "".join(f"{'ill' if a else 'well'},{b}\n" for a, b in zip(ill, town, strict=True))
    path = tmp_path / "people.csv"
    path.write_text("state,town\n" + rows)
    return path


ASKED = ("--secret", "state", "--epsilon", 1, "--method", "ir")


def test_a_release_publishes_nothing_exact_unless_asked(people, tmp_path):
    said = ran("release", people, *ASKED, "--out", tmp_path / "r.csv")
    made = sf.load(tmp_path / "r.mechanism.json")

    assert made.source == "noisy" and made.claim.epsilon + made.joint.noise.epsilon == pytest.approx(1)
    assert made.claim.also[0].epsilon == 3 and "become public" not in said
    assert (made.joint.counts != sf.tabulate(people, "state", "town").counts).any()
    assert "knows this person's town learns at most 3 nats" in said
    assert "Every further table of noisy counts costs" in ran("verify", tmp_path / "r.mechanism.json")
    again = ran("release", people, *ASKED, "--out", tmp_path / "again.csv")
    assert "are used again" in again and "r.mechanism.json: if these are the same people" in again
    assert (sf.load(tmp_path / "again.mechanism.json").joint.counts == made.joint.counts).all()


def test_few_rows_are_released_without_any_counts(people, tmp_path):
    few = tmp_path / "few.csv"
    few.write_text("\n".join(people.read_text().splitlines()[:120]) + "\n")
    said = ran("release", few, *ASKED, "--public-labels", "all", "--out", tmp_path / "r.csv")

    assert "designed for any distribution, from none" in said and not list(tmp_path.glob("*.counts.json"))
    assert "counts" not in json.loads((tmp_path / "r.mechanism.json").read_text())["design"]


def test_planned_releases_are_capped_on_the_command_line(people, tmp_path):
    ran("release", people, *ASKED, "--releases", 2, "--budget", 4, "--design", "exact", "--out", tmp_path / "r.csv")

    assert sf.load(tmp_path / "r.mechanism.json").claim.also[0].epsilon == 2
    assert "change the odds" in ran("compose", tmp_path / "r.mechanism.json", "--times", 2)


@pytest.mark.parametrize(("options", "said"), [
    (("--at-most", "0.5"), "--at-most must be"), (("--at-most", "much"), "number of nats, or 'none'"),
    (("--design", "noisy", "--design-epsilon", "1"), "less than ε = 1"), (("--releases", "2"), "needs the --budget"),
    (("--design", "noisy", "--design-epsilon", "0.01"), "no two labels of"), (("--delta", "0"), "--delta must lie"),
    (("--method", "polyopt"), "--design exact"), (("--notion", "lip"), "--design exact"),
    (("--releases", "9", "--budget", "4"), "for each"),
])
def test_what_makes_no_sense_on_the_command_line_writes_nothing(people, tmp_path, options, said):
    assert said in ran("release", people, *ASKED, "--out", tmp_path / "r.csv", *options, code=2)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["people.csv"]


def test_the_split_of_epsilon_asks_for_sizes_alone():
    few, many = split(200, 2, 5, 1.0, 3.0), split(10**5, 2, 5, 1.0, 3.0)

    assert few.counts == 0 and few.rows == 1.0
    assert 0 < many.counts < 0.5 and many.counts + many.rows == pytest.approx(1.0)


def test_the_set_around_noisy_counts_covers_the_truth():
    p, noise, rng, hits = np.array([0.5, 0.3, 0.2, 0.0]), Noise(0.2, 400, counts=0.2), np.random.default_rng(3), 0
    stop = -math.expm1(-1 / noise.scale)
    for _ in range(100):
        drawn = rng.multinomial(400, p) + rng.geometric(stop, 4) - rng.geometric(stop, 4)
        near = projected(drawn[None].astype(float), 400.0)[0].round()
        hits += -2 * math.log(np.sqrt(near / near.sum() * p).sum()) <= simulated_radius(near, noise, 0.95, draws=200)

    assert hits >= 88  # 95 of 100, less three standard errors


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
