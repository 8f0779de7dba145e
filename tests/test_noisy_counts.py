"""Design counts that carry noise: how it is drawn, what a file says of it, and what it costs."""

import itertools
import json
import math
import random
import re
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
import sfumato_kernel as kernel
from sfumato.certification.promises import notes_of
from sfumato.cli import cli
from sfumato.joint import SAMPLER, Noise
from sfumato.mechanism.file import checksum, record_of
from sfumato.noise import SEEDED, projected, threshold, two_sided
from sfumato.releasing.spending import split
from sfumato.reporting.figures import consequences
from sfumato.uncertainty.balls import simulated_radius
from sfumato_kernel.documents import SAMPLERS

EPSILON, KAPPA = 0.5, 2.0


@pytest.fixture(scope="module")
def table():
    return sf.datasets.adult("sex", "race")


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


# Counts that are kept


def even(folder):
    """Two sexes and three towns, a thousand people of each."""
    (folder / "people.csv").write_text("sex,town\n" + "".join(f"{'FM'[i % 2]},{'ABC'[i // 2 % 3]}\n" for i in range(6000)))
    return folder / "people.csv"


def test_counts_are_kept_in_the_folder_that_was_said_and_found_there_again(folder, tmp_path):
    other = tmp_path / "kept"
    other.mkdir()
    tables = [even(folder), even(tmp_path)]
    first = [sf.plan(t, "sex", 1.0, "town", design="noisy", method="srr", public="all", counts_in=other) for t in tables]
    for plan in first:
        plan.keep()

    again = [sf.plan(t, "sex", 1.0, "town", design="noisy", method="srr", public="all", counts_in=other) for t in tables]

    assert len(list(other.iterdir())) == 2  # of tables of one name, each its own
    assert [p.mechanism.joint.noise.draw for p in again] == [p.mechanism.joint.noise.draw for p in first]
    assert not [p for p in (*folder.iterdir(), *tmp_path.iterdir()) if p.name.endswith(".counts.json")]


def test_notes_tell_every_part_of_epsilon(folder):
    table = even(folder)

    def parts(useful=()):
        plan = sf.plan(table, "sex", 2.0, useful, design="noisy", method="srr")
        plan.keep()
        said = [float(x) for note in plan.notes for x in re.findall(r"(?:^|: )ε(?:_d)? = ([\d.]+)", note)]
        left = [float(x) for note in plan.notes for x in re.findall(r"([\d.]+) is left for the rows", note)]
        return said, left, plan.mechanism.claim.epsilon

    (said, (left,), promised), before = parts(), {p.name for p in folder.iterdir()}
    assert len(said) == 3 and sum(said) + left == pytest.approx(2.0) and left == pytest.approx(promised)
    counts = [p for p in folder.glob("*.counts.json") if sf.load_counts(p).counts is not None]
    counts[0].unlink()  # those of the secret's labels stay, which were drawn alone

    said, (left,), _ = parts()

    assert sum(said) + left == pytest.approx(2.0) and {p.name for p in folder.iterdir()} == before


def test_noise_that_may_leave_nothing_of_the_rows_is_called_so():
    noise = Noise(0.0025, 600, counts=0.0025)
    drawn = replace(sf.Joint.from_counts([[0, 0, 85], [0, 0, 515]]), noise=noise)

    with pytest.raises(sf.InputError, match="too small for noisy counts"):
        sf.covering(drawn)


@pytest.mark.parametrize("kind", ["chi-square-ball", "exactly", "renyi-ball"])
def test_no_coverage_is_told_of_a_set_for_which_none_was_simulated(noisy_design, kind, tmp_path):
    """A file by hand, with a seal of its own: another set, or a ball of another order, beside a false coverage."""
    made, ball = noisy_design.mechanism, noisy_design.mechanism.claim.within
    sets = {"chi-square-ball": sf.ChiSquareBall(made.joint, radius=1e-9), "exactly": sf.Exactly(made.joint),
            "renyi-ball": sf.RenyiBall(made.joint, alpha=1.0, radius=ball.radius)}
    record = record_of(made.with_claim(replace(made.claim, within=sets[kind])))
    noise = msgspec.structs.replace(record_of(made).design.noise, coverage=0.999)
    forged = msgspec.structs.replace(record, design=msgspec.structs.replace(record.design, noise=noise))
    path = tmp_path / "m.json"
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(forged, checksum=checksum(forged))))
    again, proof = sf.load(path), sf.verify(path)
    assert proof.holds and again.noise.coverage is None and record.design.noise.coverage is None
    assert not any("simulations" in line for line in (*notes_of(again), *consequences(again, proof)))
    assert not any("simulat" in line for line in kernel.verify(path.read_bytes()).proved)
    assert "simulations" in " ".join(notes_of(made))
