"""Many columns under one promise: levels by brute force, estimates that are unbiased and covered, files that cannot lie."""

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.columns_data import column, people, sealed_answer, shares

import sfumato as sf
from sfumato.cli import cli
from sfumato.composing.answers import Answer, possible
from sfumato.drawing.randomness import Stream
from sfumato.errors import InputError
from sfumato.mechanism import Blocks, Cells
from sfumato.mechanism.law import MOST_BITS

EIGHT = [f"c{j}" for j in range(10)]


@pytest.fixture(scope="module")
def wide():
    return people(100_000)


def test_ten_columns_with_a_billion_cells_go_all_the_way(wide, tmp_path):
    made = sf.bundle(wide, "secret", EIGHT, 1.0)
    assert made.bundle.useful.size == 8**10 > 10**9
    assert made.certificate.level <= 1.0 and made.certificate.within == "nothing"
    path = made.bundle.save(tmp_path / "m.json")
    assert sf.verify(path).level == made.certificate.level
    assert path.stat().st_size < 1_000_000
    done = sf.release(wide, sf.load(path), to=tmp_path / "out.parquet", seed=1)
    assert done.rows == 100_000
    found = sf.estimate(done.path, sf.load(path))
    assert len(found.names) == 11 + 55
    limits = found.intervals(0.95)
    squared = {1: [], 2: []}
    for names, (low, high) in limits.items():
        table = found.table(*names)
        truth = shares(wide, table)
        assert table.identified and np.all((low <= table.p) & (table.p <= high))
        assert np.all((low <= truth + 1e-12) & (truth <= high + 1e-12)), names  # one seed of the many that must cover
        squared[len(names)] += ((table.raw - truth) ** 2).ravel().tolist()
    measured = math.sqrt((np.mean(squared[1]) + np.mean(squared[2])) / 2)
    assert measured == pytest.approx(made.error / math.sqrt(100_000), rel=0.1)


@pytest.mark.parametrize("options", [
    {}, {"asking": "together"}, {"assuming": "star"}, pytest.param({"assuming": "tree"}, marks=pytest.mark.long),
    pytest.param({"assuming": "tables"}, marks=pytest.mark.long),
])
def test_estimates_are_unbiased_and_intervals_cover(options):
    rows = people(4_000, columns=3, labels=3, secrets=3, seed=5)
    made = sf.bundle(rows, "secret", ["c0", "c1", "c2"], 3.0, **options)
    away, spread, covered = {}, {}, 0
    for seed in range(20):
        found = sf.estimate(sf.release(rows, made.bundle, seed=seed), made.bundle)
        inside = True
        for names, (low, high) in found.intervals(0.9).items():
            table = found.table(*names)
            truth = shares(rows, table)
            inside &= bool(np.all((low <= truth) & (truth <= high)))
            # Summed apart: each error is itself estimated, larger where the estimate is, and would skew their quotient.
            away[names] = away.get(names, 0) + table.raw - truth
            spread[names] = spread.get(names, 0) + table.error**2
        covered += inside
    assert max(float(np.abs(away[n] / np.sqrt(spread[n])).max()) for n in away) < 4.5  # about 60 cells, in standard errors
    assert covered >= 15  # of 20 at 90 %: fewer has probability 0.01 at exactly 90 %, and Bonferroni leaves room


@pytest.mark.parametrize("options", [{}, {"asking": "together"}])
def test_any_split_into_batches_gives_the_same_answers(options):
    rows = people(3_000, columns=3, labels=4, seed=2)
    bundle = sf.bundle(rows, "secret", ["c0", "c1", "c2"], 1.0, **options).bundle
    whole = sf.release(rows, bundle, seed=7)
    for size in (37, 1000):
        reader = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=size))
        assert sf.release(reader, bundle, seed=7).read_all().to_pylist() == whole.to_pylist()


def test_parts_have_words_of_their_own():
    """Equal records and equal laws: two parts agree as often as independent draws do."""
    secret = sf.Alphabet.of(column("s", 2))
    parts = tuple(sealed_answer(secret, [replace(column("a", 4), name=name)], Answer(1, 4, 1.0)) for name in ("a", "b"))
    bundle = sf.Bundle(parts, secret, None, sf.Promise(2.0))
    rows = pa.table({"s": ["s0"] * 40_000, "a": ["a1"] * 40_000, "b": ["a1"] * 40_000})
    out = sf.release(rows, bundle, seed=3)
    agree = np.mean(np.asarray(out["a"].to_pylist()) == np.asarray(out["b"].to_pylist()))
    expected = float((np.asarray(parts[0].matrix)[:, 1] ** 2).sum())
    assert abs(agree - expected) < 5 * math.sqrt(expected / 40_000)


def test_turns_follow_their_weights_exactly():
    rows = people(500, columns=3, labels=3)
    bundle = sf.bundle(rows, "secret", ["c0", "c1", "c2"], 1.0, asking="in turn").bundle
    ends = np.cumsum([0, *bundle.turns])
    assert ends[-1] == 2**MOST_BITS
    edges = np.array([*ends[:-1], *(int(e) - 1 for e in ends[1:])], np.uint64)
    count = len(bundle.parts)
    assert bundle.drawn_turns(edges).tolist() == [*range(count), *range(count)]


def test_one_record_is_answered_on_the_respondents_side(tmp_path):
    rows = people(500, columns=3, labels=3)
    for options in ({}, {"asking": "together"}):
        bundle = sf.load(sf.bundle(rows, "secret", ["c0", "c1", "c2"], 1.0, **options).bundle.save(tmp_path / f"{len(options)}.json"))
        told = bundle.respond({"secret": "s0", "c0": "v0", "c1": "v1", "c2": "v2"})
        assert set(told) <= set(bundle.names) and len(told) == (1 if bundle.turns else len(bundle.parts))
    with pytest.raises(InputError, match="no value for"):
        for _ in range(50):
            bundle.respond({"secret": "s0"})


def test_missing_values_bins_and_labels_with_points_come_back_in_estimates(tmp_path):
    rows = pa.table({
        "ill": ["yes", "no"] * 300, "town": ["A · B", None, "A"] * 200, "age": list(range(600)), "sex": ["F", "M", "B · F"] * 200,
    })
    for asking in ("together", "in turn"):
        made = sf.bundle(rows, "ill", ["town", "age", "sex"], 6.0, asking=asking, bins={"age": [200, 400]})
        path = tmp_path / f"{asking}.csv"
        sf.release(rows, made.bundle, to=path, seed=1)
        found = sf.estimate(path, made.bundle)
        assert found.n == 600 and found.table("town", "age").p.shape == (3, 3)
        assert found.table("age").p == pytest.approx(np.full(3, 1 / 3), abs=0.2)


def test_values_that_no_label_is_for_go_to_the_label_that_takes_them(tmp_path):
    rows = pa.table({"ill": ["yes", "no", "rest"] * 100, "town": ["A", "B", "rest"] * 100, "sex": ["F", "M", "F"] * 100})
    later = pa.table({"ill": ["yes", "odd"] * 50, "town": ["A", "C"] * 50, "sex": ["F", "M"] * 50})
    for unseen in ("rest", {"ill": "rest", "town": "rest"}):
        made = sf.bundle(rows, "ill", ["town", "sex"], 8.0, unseen=unseen, asking="together").bundle
        found = sf.estimate(sf.release(later, made, seed=1), made)
        assert {c.name: c.other for c in (*made.secret.columns, *made.useful.columns)} == {"ill": "rest", "town": "rest", "sex": None}
        assert found.table("town").p == pytest.approx([0.5, 0, 0.5], abs=0.2)
    with pytest.raises(InputError, match="no column has that label"):
        sf.bundle(rows, "ill", ["town", "sex"], 8.0, unseen="nowhere")
    with pytest.raises(InputError, match="'age' is neither secret nor useful"):
        sf.bundle(rows, "ill", ["town", "sex"], 8.0, unseen={"age": "rest"})
    fixed = {"town": ["A", "rest"], "sex": ["F", "M"], "ill": ["yes", "no", "rest"]}
    made = sf.bundle(later, "ill", ["town", "sex"], 8.0, unseen="rest", labels=fixed).bundle
    assert made.useful.columns[0].labels == ("A", "rest") and made.secret.columns[0].other == "rest"


def test_a_table_of_another_bundle_is_refused():
    rows = people(500, columns=2, labels=3)
    one, two = (sf.bundle(rows, "secret", ["c0", "c1"], e).bundle for e in (1.0, 2.0))
    with pytest.raises(InputError, match="another mechanism"):
        sf.estimate(sf.release(rows, one, seed=1), two)


def test_tables_agree_on_the_columns_they_share_and_no_share_is_negative():
    rows = people(4_000, columns=4, labels=4, seed=5)
    for options in ({"asking": "in turn"}, {"asking": "together"}):
        made = sf.bundle(rows, "secret", EIGHT[:4], 1.0, **options).bundle
        found = sf.estimate(sf.release(rows, made, seed=2), made)
        for names in (n for n in found.names if len(n) == 2):
            table = found.table(*names)
            for axis, name in enumerate(names):
                assert table.p.sum(1 - axis) == pytest.approx(found.table(name).p, abs=1e-9)
                assert table.raw.sum(1 - axis) == pytest.approx(found.table(name).raw, abs=1e-9)
            low, high = table.interval()
            assert table.p.min() >= 0 and (low <= table.p).all() and (table.p <= high).all()


def test_effects_are_pooled_as_least_squares_would_with_the_covariance_expected(monkeypatch):
    monkeypatch.setattr("sfumato.composing.answers.ORDERS", ())
    possible.cache_clear()
    rows = people(3_000, columns=3, labels=3, seed=2)
    bundle = sf.bundle(rows, "secret", EIGHT[:3], 1.0, asking="in turn", time_limit=0).bundle
    possible.cache_clear()
    assert all(part.method in ("grr", "srr", "sets of 2") for part in bundle.parts)  # whose noise is isotropic exactly
    found = sf.estimate(sf.release(rows, bundle, seed=1), bundle)
    names, sizes = ["secret", "c0", "c1", "c2"], [2, 3, 3, 3]
    cells = np.indices(sizes).reshape(4, -1)
    lefts, covariances, seen = [], [], []
    for i, part in enumerate(bundle.parts):  # one unknown for each record: every part tells sums of them
        held = [names.index(c.name) for c in bundle.reading(part)]
        at = np.ravel_multi_index([cells[h] for h in held], [sizes[h] for h in held])
        q, n = np.asarray(part.matrix)[:, at], found.counts[i,].sum()
        f = q.mean(1)
        lefts.append(q)
        covariances.append((np.diag(f) - np.outer(f, f)) / n)
        seen.append(found.counts[i,] / n)
    a, b = np.concatenate(lefts), np.concatenate(seen)
    weight = np.linalg.pinv(_blocks(covariances), rcond=1e-10, hermitian=True)
    a, b, weight = np.vstack([a, np.ones(54)]), np.append(b, 1.0), _blocks([weight, np.full((1, 1), 1e9)])
    p = np.linalg.pinv(a.T @ weight @ a, rcond=1e-9, hermitian=True) @ a.T @ weight @ b
    for pair in (("c0", "c1"), ("c1", "c2"), ("secret", "c2")):
        others = tuple(i for i, name in enumerate(names) if name not in pair)
        assert found.table(*pair).raw == pytest.approx(p.reshape(sizes).sum(others), abs=1e-6)


def _blocks(parts):
    out = np.zeros((sum(map(len, parts)),) * 2)
    at = 0
    for part in parts:
        out[at : at + len(part), at : at + len(part)] = part
        at += len(part)
    return out


def test_what_noise_explains_is_drawn_towards_independence_and_errors_get_smaller():
    rows = people(5_000, columns=4, labels=5, seed=4)
    bundle = sf.bundle(rows, "secret", EIGHT[:4], 1.0).bundle
    squared = np.zeros(2)
    for seed in range(5):
        found = sf.estimate(sf.release(rows, bundle, seed=seed), bundle)
        for names in found.names:
            table = found.table(*names)
            squared += [((x - shares(rows, table)) ** 2).sum() for x in (table.raw, table.p)]
    assert squared[1] < 0.8 * squared[0]


def test_the_model_has_the_tables_it_was_tied_by_and_answers_any_query():
    rows = people(20_000, columns=4, labels=3, seed=1)
    bundle = sf.bundle(rows, "secret", EIGHT[:4], 4.0).bundle
    found = sf.estimate(sf.release(rows, bundle, seed=1), bundle)
    model = found.model
    whole = model.table(*model.names)
    assert whole.sum() == pytest.approx(1) and whole.min() >= 0
    event = {"c0": "v1", "c2": ["v0", "v2"]}
    at = [model.names.index("c0"), model.names.index("c2")]
    by_hand = np.moveaxis(whole, at, (0, 1))[1][[0, 2]].sum()
    assert model.probability(event) == pytest.approx(by_hand)
    for i, held in enumerate(model.parents):
        for a in held:
            pair = sorted((model.names[i], model.names[a]), key=list(found.columns).index)
            assert model.table(*pair) == pytest.approx(found.table(*pair).p, abs=1e-3)
    estimate, low, high = found.query({"c0": "v0", "c1": "v0", "c2": "v2"}, draws=20)
    assert 0 <= low < estimate < high <= 1
    drawn = found.synthesise(20_000, seed=1)
    assert b"sfumato.synthetic" in drawn.schema.metadata and drawn.column_names == list(found.columns)
    seen = sum(x == "v1" for x in drawn.column("c0").to_pylist()) / 20_000
    assert seen == pytest.approx(found.table("c0").p[1], abs=0.02)
    with pytest.raises(InputError, match="not a column of the model"):
        model.probability({"c9": "v0"})


def test_columns_that_only_noise_ties_are_left_independent_and_others_are_tied():
    rng = np.random.default_rng(3)
    drawn = {n: rng.integers(0, 3, 3_000) for n in "sabc"}
    drawn["c"] = np.where(rng.random(3_000) < 0.8, drawn["b"], drawn["c"])
    rows = pa.table({n: pa.array(x.astype(str)) for n, x in drawn.items()})
    bundle, ties = sf.bundle(rows, "s", ["a", "b", "c"], 2.0, time_limit=0).bundle, []
    for seed in range(12):
        model = sf.estimate(sf.release(rows, bundle, seed=seed), bundle).model
        ties.append({frozenset((model.names[i], model.names[a])) for i, held in enumerate(model.parents) for a in held})
    assert all({"b", "c"} in found for found in ties)
    assert sum(len(found) > 1 for found in ties) <= 3  # of 12 at 5 %: more has probability 0.002


def test_what_a_bundle_will_be_worth_is_what_estimates_then_show():
    from sfumato.estimation.bundle_tables import prospects

    rows = pa.table({n: pa.array(np.random.default_rng(i).integers(0, 3, 6_000).astype(str)) for i, n in enumerate("sabc")})
    bundle = sf.bundle(rows, "s", ["a", "b", "c"], 1.0).bundle
    told = prospects(bundle, 6_000)
    found = sf.estimate(sf.release(rows, bundle, seed=1), bundle)
    for part in told.parts:
        error = 196 * np.sqrt(np.mean(found.table(*part.name.split(" × ")).error ** 2))
        assert part.points == pytest.approx(error, rel=0.05)
    assert told.helps and told.share < 0.05 and "tables of two columns" not in "".join(told.lines)


def test_a_ledger_counts_bundles_and_remembered_answers_once(tmp_path):
    rows = people(500, columns=3, labels=3).append_column("id", pa.array([f"p{i}" for i in range(500)]))
    ledger = sf.Ledger(tmp_path / "people.ledger")
    for asking in ("in turn", "together"):
        bundle = sf.bundle(rows, "secret", EIGHT[:3], 1.0, asking=asking).bundle
        said = {"ledger": ledger, "people": asking, "budget": 2.5}
        one, two = (sf.release(rows, bundle, tmp_path / f"{asking}{i}.csv", memoise="id", **said) for i in (1, 2))
        assert one.path.read_text() == two.path.read_text()
        assert ledger.composed(asking) == pytest.approx(1.0, abs=1e-6)
        sf.release(rows, bundle, tmp_path / f"{asking}3.csv", **said)
        assert ledger.composed(asking) == pytest.approx(2.0, abs=1e-6)
        with pytest.raises(sf.BudgetError):
            sf.release(rows, bundle, tmp_path / f"{asking}4.csv", **said)
        other = rows.set_column(rows.column_names.index("c2"), "c2", pa.array(["v0", "v1"] * 250))
        changed = sf.release(other, bundle, memoise="id", ledger=ledger, people=f"new {asking}")
        assert changed.num_rows == 500


def test_bundles_and_mechanisms_compose_by_their_levels_for_any_distribution():
    rows = people(500, columns=2, labels=3)
    bundle = sf.bundle(rows, "secret", ["c0", "c1"], 1.0).bundle
    single = sf.design(sf.Anything(sf.tabulate(rows, "secret", "c0")), 0.5, "grr").mechanism
    both = sf.compose(bundle, single)
    assert both.levels[0].level == pytest.approx(1.5, abs=1e-6) and both.levels[0].adds and not both.exact
    assert "factor of at most 4.49" in both.sentence
    with pytest.raises(InputError, match="no single mechanism"):
        _ = both.mechanism
    told = sf.compose(sf.bundle(rows, "secret", ["c0", "c1"], 0.5, assuming="tables", time_limit=0).bundle, bundle)
    assert told.levels[0].level <= 1.5 + 1e-6 < told.levels[1].level


def run(*args, code=0):
    done = CliRunner().invoke(cli, [str(a) for a in args])
    assert done.exit_code == code, done.output
    return done


def test_the_commands_walk_the_road_with_a_bundle(tmp_path):
    from pyarrow import csv

    table, out = tmp_path / "people.csv", tmp_path / "out.csv"
    csv.write_csv(people(3_000, columns=6, labels=8), table)
    words = ("release", table, "--secret", "secret", "--useful", ",".join(EIGHT[:6]), "--epsilon", 1, "--public-labels", "all", "--out", out)
    assert "would be worth" in run(*words, code=2).output and not out.exists()
    done = run(*words, "--anyway", "--private-report", tmp_path / "private.html")
    assert "for every distribution of all columns" in " ".join(done.stdout.split())
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "out.csv", "out.manifest.json", "out.mechanism.json", "out.report.html", "out.tables.csv", "people.csv", "private.html",
    ]
    page, private = ((tmp_path / name).read_text() for name in ("out.report.html", "private.html"))
    assert "c0 × c5" in page and "What can an attacker learn?" in page and "Total variation" not in page
    assert "Private report: do not publish" in private and "Total variation between estimated and true tables" in private
    again = run("report", tmp_path / "out.mechanism.json", "--released", out, "--out", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == page and "proved" in again.stdout
    assert "holds" in run("verify", tmp_path / "out.mechanism.json").stdout
    told = json.loads(run("estimate", out, "--json", "--csv", tmp_path / "e.csv").stdout)
    assert told["n"] == 3_000 and len(told["cells"]) == len((tmp_path / "e.csv").read_text().splitlines()) - 1
    for cell, line in zip(told["cells"], csv.read_csv(tmp_path / "out.tables.csv").to_pylist(), strict=True):  # one answer, told twice
        names, values = ([cell[n], cell[f"other {n}"]] for n in ("column", "value"))
        assert (line["columns"], line["values"]) == (" × ".join(filter(None, names)), " · ".join(filter(None, values)))
        assert [line[n] for n in ("share", "low", "high")] == pytest.approx([cell[n] for n in ("estimate", "low", "high")], abs=1e-9)
    assert {(c["column"], c["other column"]) for c in told["cells"]} >= {("secret", "c0"), ("c0", "c5"), ("c5", None)}
    assert "Parts" in run("inspect", tmp_path / "out.mechanism.json").stdout
    again = run("release", table, "--mechanism", tmp_path / "out.mechanism.json", "--out", tmp_path / "again.parquet")
    assert "3,000 rows" in again.stdout
    law = tmp_path / "out.mechanism.json"
    assert len(json.loads(run("leak", law, "--json").stdout)["levels"]) == 1 + len(sf.load(law).parts)
    assert "never builds" in run("leak", law, "--joint", table, code=2).output
    assert json.loads(run("audit", law, "--records", 1000, "--seed", 1, "--json").stdout)["refuted"] is False
    told = json.loads(run("compose", law, law, "--json").stdout)
    assert told["levels"][0]["level"] == pytest.approx(2.0, abs=1e-6) and not told["exact"]
    assert "no single mechanism" in " ".join(run("compose", law, "--out", tmp_path / "two.json", code=2).output.split())
    assert "never builds it" in run("compare", table, "--secret", "secret", "--columns", "bundle", code=2).output
    run("synthesise", out, "--rows", 50, "--out", tmp_path / "made.csv", "--seed", 1)
    assert (tmp_path / "made.csv").read_text().startswith("secret,c0,c1")


def test_columns_bundle_takes_every_categorical_column(tmp_path):
    from pyarrow import csv

    table = tmp_path / "people.csv"
    csv.write_csv(people(2_000, columns=4, labels=3), table)
    done = run("design", table, "--secret", "secret", "--epsilon", 1, "--columns", "bundle", "--assuming", "star", "--design", "exact",
               "--out", tmp_path / "m.json", "--json")
    told = json.loads(done.stdout)
    assert told["useful"] == EIGHT[:4] and told["claim"]["within"] == "star" and "IF" in told["claim"]["basis"]
    assert "rests on" in run("verify", tmp_path / "m.json").stdout
    run("design", table, "--secret", "secret", "--epsilon", 1, "--columns", "one", "--assuming", "star", "--out", tmp_path / "x.json", code=2)
    for options, said in (((), "nobody said that this is public: labels of secret"), (("--assuming", "star"), "--design exact")):
        words = ("release", table, "--secret", "secret", "--epsilon", 1, "--columns", "bundle", *options)
        assert said in " ".join(run(*words, "--out", tmp_path / "o.csv", code=2).output.split())
    run("release", table, "--secret", "secret", "--epsilon", 2, "--columns", "bundle", "--public-labels", "all", "--report", tmp_path / "r.html", "--out", tmp_path / "o.csv")
    assert (tmp_path / "r.html").exists() and (tmp_path / "o.csv").exists()


def test_the_compiled_sampler_draws_the_same():
    from sfumato.drawing.sampling import BundleSampler

    rows = people(2_000, columns=3, labels=5)
    bundle = sf.bundle(rows, "secret", ["c0", "c1", "c2"], 1.0, asking="in turn").bundle
    assert all(isinstance(p.law, Blocks | Cells) for p in bundle.parts)
    codes = {c.name: c.encode(rows.column(c.name)) for c in (*bundle.secret.columns, *bundle.useful.columns)}
    plain, compiled = BundleSampler(bundle, Stream.of(1)), BundleSampler(bundle, Stream.of(1))
    compiled.compile()
    assert np.array_equal(plain.draw(codes, 0), compiled.draw(codes, 0))
    half = [plain.draw({k: v[a:b] for k, v in codes.items()}, a) for a, b in ((0, 777), (777, 2000))]
    assert np.array_equal(np.concatenate(half), plain.draw(codes, 0))
