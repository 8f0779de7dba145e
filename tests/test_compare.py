"""Comparing: figures that obey their laws, a cache that never lies, and a command that can be stopped."""

from __future__ import annotations

import itertools
import json
import math
import stat
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import epsilons, joints, mechanisms

import sfumato as sf
from sfumato import reporting
from sfumato.estimation.estimates import spread_untouched
from sfumato.reporting import curve, measuring, workers
from sfumato.reporting.comparing import ENTRANTS, levels
from sfumato.reporting.comparison import cache_folder
from sfumato.reporting.measuring import covariance, precision, realised

CLOSED = ["ir", "srr", "cr", "grr", "oue", "plain-grr", "plain-olh"]
JOINT = sf.Joint.from_counts([[40, 25, 60], [30, 70, 20]], secret=["ill", "well"], useful=["a", "b", "c"])


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def quick(methods=CLOSED, epsilon=(0.5, 1.0), **options):
    return sf.compare(JOINT, epsilon=epsilon, methods=methods, workers=1, **options)


# --- who takes part -------------------------------------------------------------------------------------------------


def test_every_designer_takes_part_and_nobody_else():
    assert {e.designer for e in ENTRANTS.values()} == {*sf.methods(), "olh"} - {"auto"}
    assert {name for name in ENTRANTS if not name.startswith(("plain-", "precise-"))} == set(sf.methods()) - {"auto"}


def test_levels_are_read_as_ranges_and_lists():
    assert levels("0.1:4")[0] == 0.1 and levels("0.1:4")[-1] == 4.0 and len(levels("0.1:4")) == 12
    assert levels("2,0.5,2") == (0.5, 2.0)
    ratios = np.diff(np.log(levels("0.1:4", 7)))
    assert np.ptp(ratios) < 1e-4


@pytest.mark.parametrize("text", ["", "a", "0:1", "2:1", "1:2:3", "1:2,3", "-1", "nan", "0.1:inf"])
def test_a_grid_that_is_none_is_refused(text):
    with pytest.raises(sf.InputError, match=r"ε|epsilon"):
        levels(text)


# --- laws of the figures --------------------------------------------------------------------------------------------


@pytest.mark.long
@settings(max_examples=3)
@given(joints(secrets=(2, 3), useful=(2, 3), empty_cells=False), epsilons(0.2, 2.0))
def test_what_is_kept_is_below_its_bound_and_that_below_the_ceiling(joint, epsilon):
    for p in curve(joint, [epsilon, 1.5 * epsilon], ["ballopt", "polyopt", "ir", "srr", "grr"], workers=1, cache=False):
        assert p.kept <= p.bound * (1 + 1e-7) + 1e-9
        assert p.bound <= p.ceiling + 1e-9
        assert p.level <= p.epsilon
        assert 0 <= p.about_secret <= p.kept + 1e-9


@pytest.mark.long
@settings(max_examples=3)
@given(joints(secrets=(2, 3), useful=(2, 4), empty_cells=False))
def test_a_weaker_promise_keeps_no_less(joint):
    for name in ("srr", "grr", "oue", "polyopt"):
        kept = [p.kept for p in curve(joint, [0.3, 0.8, 2.0], [name], workers=1, cache=False)]
        assert all(b >= a - 1e-6 for a, b in itertools.pairwise(kept))


@settings(max_examples=25)
@given(st.data(), joints(empty_cells=False))
def test_errors_are_those_of_the_efficient_estimate_by_another_route(data, joint):
    mechanism = data.draw(mechanisms(joint).filter(lambda m: m.law.kind == "table"))
    found, other = precision(mechanism, joint, 1000), sf.recovery(mechanism, joint, n=1000)
    side = found.joint if mechanism.reads == "both" else found.useful
    if other.complete and other.condition < 1e4:
        assert side.standard_error == pytest.approx(float(np.sqrt((other.standard_errors**2).mean())), rel=1e-6)
    if other.rank < other.inputs:
        assert math.isinf(side.standard_error)


@pytest.mark.parametrize("method", ["grr", "oue", "precise"])
def test_errors_are_those_of_simulated_estimates(method):
    made = sf.design(sf.ChiSquareBall(JOINT), 1.5, method)
    n, repeats, rng = 500, 400, np.random.default_rng(3)
    q = made.mechanism.matrix
    errors = []
    for _ in range(repeats):
        counts = rng.multinomial(n, q @ JOINT.p.ravel())
        if made.mechanism.law.meaning == "subset":
            bits = (np.arange(len(q))[:, None] >> np.arange(JOINT.p.size)) & 1
            counts = counts @ bits
        found = sf.estimate(counts.reshape(JOINT.shape) if made.mechanism.law.meaning == "cell" else counts,
                            made.mechanism, project=False, n=n)
        errors.append(found.raw - JOINT.p)
    seen = math.sqrt(np.mean(np.square(errors)))
    assert seen == pytest.approx(precision(made.mechanism, JOINT, n).joint.standard_error, rel=0.1)


def test_the_untouched_table_has_the_errors_of_sampling_and_nothing_is_below():
    tables = {"useful": JOINT.p_useful, "secret": JOINT.p_secret, "joint": JOINT.p}
    found, free = quick(), {of: spread_untouched(p, JOINT.n) for of, p in tables.items()}
    truth = sf.Tabular(np.eye(6), JOINT.secret, JOINT.useful, joint=JOINT)
    assert precision(truth, JOINT, JOINT.n).joint.standard_error == pytest.approx(free["joint"])
    for p in found.points:
        assert all(p.error(of) >= error * (1 - 1e-9) for of, error in free.items())


def test_the_covariance_of_local_hashing_is_that_of_simulated_hashes():
    p, ratio, n, repeats = np.array([0.5, 0.3, 0.15, 0.05]), math.e, 300, 1500
    rng, g = np.random.default_rng(0), 4  # e + 1, rounded
    a = ratio / (ratio + g - 1)
    hashes = rng.integers(0, g, (repeats, n, 4))
    x = rng.choice(4, (repeats, n), p=p)
    true = np.take_along_axis(hashes, x[..., None], 2)[..., 0]
    other = (true + rng.integers(1, g, true.shape)) % g
    answer = np.where(rng.random(true.shape) < a, true, other)
    support = (hashes == answer[..., None]).mean(1)
    estimates = (support - 1 / g) / (a - 1 / g)
    told = covariance(p, ratio, n)
    assert np.abs(estimates.mean(0) - p).max() < 4 * math.sqrt(told.max() / repeats)
    assert np.abs(np.cov(estimates.T) - told).max() < 0.12 * told.max()


def test_levels_at_resampled_truths_keep_the_promise_as_often_as_the_ball_says():
    robust = sf.design(sf.ChiSquareBall(JOINT, confidence=0.95), 1.0, "ballopt")
    naive = sf.design(sf.Exactly(JOINT), 1.0, "nr")
    held, broken = (realised(d.mechanism, JOINT, 1.0) for d in (robust, naive))
    assert held.share >= 0.95 and held.median <= held.high <= 1.0
    assert broken.share < 0.5 and broken.high > 1.0


def test_listed_levels_are_those_of_the_privacy_notion():
    from sfumato.reporting import measuring as truths

    made = sf.design(sf.ChiSquareBall(JOINT), 1.0, "ir")
    given_u = truths.truths(JOINT, 5)
    listed = truths._listed(made.mechanism, made.mechanism.matrix, JOINT, given_u)
    one_by_one = [truths._level(made.mechanism, JOINT, r) for r in given_u]
    assert listed == pytest.approx(one_by_one, abs=1e-12)


# --- the cache ------------------------------------------------------------------------------------------------------


def test_a_second_run_is_the_same_byte_for_byte_and_designs_nothing(monkeypatch):
    cold = quick()

    def never(*args, **options):
        raise AssertionError("a design was made")

    monkeypatch.setattr(reporting, "measured", never)
    warm = quick()
    assert (warm.csv(), json.dumps(warm.document())) == (cold.csv(), json.dumps(cold.document()))
    with pytest.raises(AssertionError):
        quick(cache=False)


@pytest.mark.parametrize("damage", [b"", b"{", b"[1, 2]", b"\xff\x00", b'{"check": 1, "point": {}}', None])
def test_a_damaged_entry_is_computed_anew(damage):
    cold = quick(["grr"], [1.0])
    entry, = cache_folder().iterdir()
    whole = json.loads(entry.read_bytes())
    if damage is None:  # still a point, but not the one that was written
        whole["point"]["kept"] = 9.0
        damage = json.dumps(whole).encode()
    entry.write_bytes(damage)
    again = quick(["grr"], [1.0])
    assert again.points[0].kept == cold.points[0].kept
    assert json.loads(entry.read_bytes())["point"]["kept"] == cold.points[0].kept


def test_the_cache_is_for_its_owner_and_holds_no_label_and_no_count():
    quick()
    assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o700
    for entry in cache_folder().iterdir():
        assert stat.S_IMODE(entry.stat().st_mode) == 0o600
        text = entry.read_text()
        assert not any(word in text for word in ("ill", "well", '"a"', "counts"))


def test_another_table_set_or_level_is_another_entry():
    quick(["grr"], [1.0])
    quick(["grr"], [1.1])
    sf.compare(JOINT, epsilon=[1.0], methods=["grr"], workers=1, confidence=0.9)
    sf.compare(sf.Exactly(JOINT), epsilon=[1.0], methods=["grr"], workers=1)
    sf.compare(JOINT, epsilon=[1.0], methods=["grr"], workers=1, n=7)
    assert len(list(cache_folder().iterdir())) == 5
    sf.compare(sf.ChiSquareBall(JOINT, confidence=0.95), epsilon=[1.0], methods=["grr"], workers=1)
    assert len(list(cache_folder().iterdir())) == 5


def test_a_cache_that_cannot_be_written_costs_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(quick(["grr"], [1.0]).points) == 1
    assert (tmp_path / "file").read_text() == ""


# --- stopping and failing -------------------------------------------------------------------------------------------


def test_ctrl_c_returns_what_is_done_and_the_next_run_goes_on():
    def stop(done, of, what):
        if done == 3:
            raise KeyboardInterrupt

    part = quick(progress=stop)
    assert not part.complete and len(part.points) == 3
    said = []
    whole = quick(progress=lambda done, of, what: said.append(done))
    assert whole.complete and len(whole.points) == 2 * len(CLOSED)
    assert said[0] == 4  # three were there already


def test_what_needs_no_search_is_shown_first_and_the_rest_fills_in():
    seen = []
    whole = quick(["ballopt", "grr", "srr"], [0.5, 1.0], early=seen.append)
    assert [p.method for p in seen[0].points] in (["grr"] * 2, ["srr"] * 2)
    assert [len(x.points) for x in seen] == [2, 4] and not any(x.complete for x in seen)
    assert whole.complete and len(whole.points) == 6


def test_the_first_picture_comes_before_any_search_has_answered(monkeypatch):
    seen, arrivals = [], workers._arrivals

    def asked(*args):
        assert {p.method for x in seen for p in x.points} == {"grr", "srr"}
        return arrivals(*args)

    monkeypatch.setattr(workers, "WAITING", replace(workers.WAITING, soon=60.0))
    monkeypatch.setattr(workers, "_arrivals", asked)
    whole = sf.compare(JOINT, epsilon=[1.0], methods=["ldp", "grr", "srr"], cache=False, workers=2, early=seen.append)
    assert len(whole.points) == 3 and [len(x.points) for x in seen] == [1, 2]


def test_methods_that_help_each_other_are_one_strand_and_the_others_none():
    both = (0.5, 1.0)
    tasks = [(m, e) for m in ("ballopt", "polyopt", "precise", "precise-useful", "pml", "lip") for e in both]
    for one, helped in (("ballopt", "pml"), ("precise", "precise-useful")):
        assert ((one, both), (helped, both)) in workers.strands_of(tasks)
    assert sorted(x for s in workers.strands_of(tasks) for x in workers.tasks_of(s)) == sorted(tasks)
    assert len(workers.strands_of([x for x in tasks if x[0] not in ("ballopt", "precise")])) == 7


def test_a_bound_that_another_method_proved_holds_for_the_one_it_helps():
    found = quick(["ballopt", "polyopt"], [0.5, 1.0])
    for one, other in zip(found.of("ballopt"), found.of("polyopt"), strict=True):
        assert other.kept <= other.bound <= one.bound + 1e-12


def test_a_method_that_tells_everything_is_not_designed_at_a_larger_level(monkeypatch):
    from sfumato.reporting import measuring

    asked, made = [], measuring._alone
    monkeypatch.setattr(measuring, "_alone", lambda asked_of, e, method: asked.append(e) or made(asked_of, e, method))
    found = sf.compare(JOINT, epsilon=[0.05, 4.0, 6.0], methods=["ldp"], cache=False, workers=1).points

    assert asked == [0.05, 4.0] and [p.epsilon for p in found] == [0.05, 4.0, 6.0]
    assert found[0].kept < found[1].kept == found[2].kept == pytest.approx(JOINT.entropy_useful, rel=1e-6)
    alone = sf.compare(JOINT, epsilon=[6.0], methods=["ldp"], cache=False, workers=1).points[0]
    assert alone.kept == pytest.approx(found[2].kept, rel=1e-6) and alone.level == pytest.approx(found[2].level, rel=1e-6)
    assert found[0].at_larger(1.0, JOINT) is None and found[2].at_larger(1.0, JOINT) is None


def test_what_tells_everything_is_measured_at_truths_by_the_level_that_it_stands_for(monkeypatch):
    asked, made = [], measuring._alone
    monkeypatch.setattr(measuring, "_alone", lambda asked_of, e, method: asked.append(e) or made(asked_of, e, method))
    near, far = measuring.measured(sf.ChiSquareBall(JOINT), [("pml", (2.0, 40.0))], n=JOINT.n)

    assert asked == [2.0] and near.kept == far.kept == pytest.approx(JOINT.entropy, rel=1e-6)
    assert near.realised.share == 0.0 and far.realised.share == 1.0  # odds of the secret end where weights do
    assert replace(near.realised, share=1.0) == far.realised


def test_a_method_that_does_not_apply_gets_a_line():
    found = quick(["distortion", "grr"], [1.0])
    assert [p.method for p in found.points] == ["grr"]
    assert found.missing[0].method == "distortion" and "no numbers" in found.missing[0].why


def test_processes_give_the_same_figures_and_a_late_design_is_ended(monkeypatch):
    def bare(p):
        return (p.method, p.epsilon, p.kept, p.precision, p.realised)

    options = {"epsilon": [1.0], "methods": ["grr", "srlip-paper"], "cache": False}
    alone = sf.compare(JOINT, workers=1, **options)
    together = sf.compare(JOINT, workers=2, **options)
    assert [bare(p) for p in together.points] == [bare(p) for p in alone.points]
    monkeypatch.setattr(workers, "WAITING", replace(workers.WAITING, start=0.0))
    late = sf.compare(JOINT, workers=2, time_limit=1e-6, **options)
    assert [p.method for p in late.points] == ["grr"]  # a formula, designed while processes begin
    assert [m.method for m in late.missing] == ["srlip-paper"] and "ended after" in late.missing[0].why


def test_ctrl_c_ends_every_process_whatever_it_does(monkeypatch):
    begun, started = [], workers.Running.started

    def stop(done, of, what):
        raise KeyboardInterrupt

    monkeypatch.setattr(workers.Running, "started", lambda *args: begun.append(x := started(*args)) or x)
    options = {"methods": ["precise", "ballopt", "lip", "grr"], "cache": False, "workers": 2, "progress": stop}
    part = sf.compare(JOINT, epsilon=[1.0, 2.0], **options)

    assert not part.complete and len(part.points) == 1 and len(begun) == 2
    assert all(x.process.poll() is not None for x in begun)


@pytest.mark.parametrize("options, words", [
    ({"methods": ["gr"]}, "Did you mean 'grr'"), ({"methods": ["auto"]}, "leave it out"), ({"n": 0}, "rows to release"),
    ({"time_limit": -1}, "time_limit"), ({"workers": 0}, "processes"), ({"confidence": 2.0}, "confidence"),
    ({"epsilon": -1.0}, "epsilon"), ({"secret": "a"}, "leave out"),
])
def test_bad_input_says_what_to_do(options, words):
    with pytest.raises(sf.InputError, match=words):
        sf.compare(JOINT, **{"epsilon": [1.0], "methods": ["grr"], "workers": 1, **options})


def test_a_joint_without_rows_asks_for_a_set():
    bare = sf.Joint.from_probabilities(JOINT.p)
    with pytest.raises(sf.InputError, match="Give a set"):
        sf.compare(bare, epsilon=[1.0])
    found = sf.compare(sf.Exactly(bare), epsilon=[1.0], methods=["grr", "plain-olh"], workers=1)
    assert found.n is None and all(p.precision is None and p.realised is None for p in found.points)


def test_at_level_zero_every_truth_keeps_to_it():
    joint = sf.datasets.adult("sex", "race")
    for method in ("grr", "srr", "ir"):
        found = realised(sf.design(sf.ChiSquareBall(joint), 0.0, method).mechanism, joint, 0.0)
        assert found.high < 1e-12 and found.share == 1.0  # what is above zero is a slip of floats


def test_a_comparison_is_saved_whole_into_a_folder_at_the_level_nearest_to_the_one_asked_for(tmp_path):
    found = sf.compare(sf.datasets.adult("sex", "race"), epsilon=[0.5, 2.0], methods=["srr", "grr"])

    files = found.save(tmp_path / "new" / "compared", at=3.0)

    assert {p.name for p in (tmp_path / "new" / "compared").iterdir()} == set(files)
    assert files["compare.csv"].read_text() == found.csv() and "ε = 2" in files["compare.html"].read_text()
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files.values())
