"""What a confidence covers, by simulation: fixed labels and independent rows, many tables at once, a tree that was chosen."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from click.testing import CliRunner
from scipy.sparse.csgraph import minimum_spanning_tree

import sfumato as sf
from sfumato.cli import cli
from sfumato.composing.tailored import balls_around
from sfumato.sources import open_source

LEVEL = 0.95


def each_of(confidence, sets):
    """The confidence of each of so many balls around tables of a bundle."""
    return balls_around([sf.Joint.from_counts([[5, 6], [7, 8]])], confidence, sets)[0].confidence


def divergence(found, p):
    """D₁(P̂‖P), over the last axes."""
    ratio = np.divide(found, p, out=np.ones(np.broadcast(found, p).shape), where=(found > 0) & (p > 0))
    return (found * np.log(ratio)).sum(axis=(-2, -1))


def chi_square(found, p):
    return ((found - p) ** 2 / p).sum(axis=(-2, -1))


def covered(joint, p):
    """Whether the finite-sample balls around a table hold the truth: the Rényi ball, and Markov's χ² ball."""
    markov = sf.ChiSquareBall(joint, confidence=LEVEL, calibration="exact")
    renyi = sf.RenyiBall(joint, alpha=1, confidence=LEVEL)
    return np.array([divergence(joint.p, p) <= renyi.radius, chi_square(joint.p, p) <= markov.radius])


def drawn(rng, p, n):
    """Rows whose secret follows p."""
    return pa.table({"s": np.array([f"s{i}" for i in range(len(p))])[rng.choice(len(p), n, p=p)], "u": ["all"] * n})


def truth_on(joint, p, rest=None):
    """The distribution of rows whose label the table has; `rest` takes all others."""
    known = {f"s{i}": x for i, x in enumerate(p)}
    named = [known.get(label, 0.0) for label in joint.secret.labels]
    out = [1 - sum(named) if label == rest else x for label, x in zip(joint.secret.labels, named, strict=True)]
    return np.array(out)[:, None] / sum(out)


def coverage(draw, runs):
    found = np.mean([draw() for _ in range(runs)], axis=0)
    return found, 3 * np.sqrt(LEVEL * (1 - LEVEL) / runs)


def test_labels_fixed_beforehand_are_covered_and_labels_found_in_the_rows_are_not():
    rng, p, n = np.random.default_rng(7), np.append(0.95, np.full(300, 0.05 / 300)), 200
    labels = {"s": [f"s{i}" for i in range(len(p))], "u": ["all"]}

    def runs(given):
        def draw():
            joint = sf.tabulate(drawn(rng, p, n), "s", "u", labels=given)
            assert joint.learned == (() if given else ("s", "u"))
            return covered(joint, truth_on(joint, p))
        return draw

    fixed, slack = coverage(runs(labels), 200)
    found, _ = coverage(runs(None), 200)

    assert fixed.min() >= LEVEL - slack
    assert found.max() < 0.15


def test_labels_grouped_by_how_rare_they_were_in_the_rows_are_not_covered_at_all():
    rng, p, n = np.random.default_rng(8), np.full(1000, 1e-3), 1000
    labels = {"s": [f"s{i}" for i in range(len(p))], "u": ["all"]}

    def grouped():
        joint = sf.tabulate(drawn(rng, p, n), "s", "u", rare={"s": 4})
        return covered(joint, truth_on(joint, p, rest="other"))

    def fixed():
        joint = sf.tabulate(drawn(rng, p, n), "s", "u", labels=labels)
        return covered(joint, truth_on(joint, p))

    assert coverage(grouped, 60)[0][0] <= 0.05
    assert coverage(fixed, 60)[0][0] >= LEVEL


@pytest.mark.parametrize(("size", "least", "most"), [(1, 0.93, 0.97), (2, 0.4, 0.62), (4, 0.05, 0.2)])
def test_a_confidence_is_about_independent_rows(size, least, most):
    """Clusters of equal rows: the level over F needs no independence, the confidence of F does."""
    rng, p, n = np.random.default_rng(9), np.full(9, 1 / 9).reshape(1, 3, 3), 3600
    tables = (size * rng.multinomial(n // size, p.ravel(), 4000) / n).reshape(-1, 3, 3)
    ball = sf.ChiSquareBall(sf.Joint.from_counts(np.full((3, 3), n // 9)), confidence=LEVEL)

    assert least <= (chi_square(tables, p) <= ball.radius).mean() <= most


# bundles


def skewed(k=4):
    p = np.outer([0.5, 0.5], 0.12 ** np.arange(k))
    return p / p.sum()


@pytest.mark.parametrize("n", [300, 1000])
def test_many_finite_sample_balls_hold_together_and_many_asymptotic_ones_do_not(n):
    rng, p, parts, runs = np.random.default_rng(n), skewed(), 50, 1500
    each = each_of(LEVEL, parts)
    table = sf.Joint.from_counts(np.full((2, 4), n // 8))
    balls = sf.RenyiBall(table, alpha=1, confidence=each), sf.ChiSquareBall(table, confidence=each)
    tables = (rng.multinomial(n, p.ravel(), runs * parts) / n).reshape(runs, parts, 2, 4)

    assert (divergence(tables, p) <= balls[0].radius).all(axis=1).mean() >= LEVEL
    assert (chi_square(tables, p) <= balls[1].radius).all(axis=1).mean() < 0.8


@pytest.mark.parametrize(("columns", "before"), [(10, 0.92), (30, 0.85)])
def test_a_tree_chosen_on_the_same_rows_is_covered_by_the_risk_of_all_pairs(columns, before):
    """Columns that have nothing to do with each other: the tree takes the pairs that look least like it."""
    rng, n, nodes, runs = np.random.default_rng(columns), 1000, columns + 1, 300
    joint = sf.Joint.from_counts(np.full((2, 2), n // 4))
    each = 1 - (1 - LEVEL) / columns, each_of(LEVEL, columns * nodes // 2)
    naive, repaired = sf.ChiSquareBall(joint, confidence=each[0]), sf.RenyiBall(joint, alpha=1, confidence=each[1])
    held = np.zeros(2)
    for _ in range(runs):
        bits = rng.integers(0, 2, (n, nodes)).astype(float)
        both = bits.T @ bits / n
        one = np.diag(both)
        tables = np.stack([1 - one[:, None] - one + both, one - both, one[:, None] - both, both], -1)
        tables = tables.reshape(nodes, nodes, 2, 2)
        apart = tables.sum(-1, keepdims=True) * tables.sum(-2, keepdims=True)
        told = divergence(tables, apart)  # mutual information
        a, b = minimum_spanning_tree(np.triu(told.max() + 1 - told, 1)).nonzero()
        edges, p = tables[a, b], np.full((2, 2), 0.25)
        held += (chi_square(edges, p) <= naive.radius).all(), (divergence(edges, p) <= repaired.radius).all()
    held /= runs

    assert held[0] < before
    assert held[1] >= LEVEL


def chain(n=600):
    rng = np.random.default_rng(3)
    s = rng.integers(0, 2, n)
    a = np.where(rng.random(n) < 0.8, s, 1 - s)
    b = np.where(rng.random(n) < 0.8, a, 1 - a)
    return pa.table({"s": s.astype(str), "a": a.astype(str), "b": b.astype(str), "c": rng.integers(0, 2, n).astype(str)})


@pytest.mark.parametrize(("assuming", "sets"), [("tables", None), ("star", 3), ("tree", 6)])
def test_bundles_share_the_risk_among_finite_sample_balls(assuming, sets):
    made = sf.bundle(chain(), "s", ["a", "b", "c"], 1.0, assuming=assuming, confidence=0.9)
    balls = [part.claim.within for part in made.bundle.parts if part.claim.within.kind != "anything"]

    assert {ball.kind for ball in balls} == {"renyi-ball"} and {ball.alpha for ball in balls} == {1.0}
    assert {ball.confidence for ball in balls} == {each_of(0.9, sets or len(balls))}
    assert made.bundle.confidence == pytest.approx(0.9)
    assert made.certificate.holds


# labels that are given


def test_given_labels_are_the_alphabet_whatever_occurs():
    rows = pa.table({"s": ["x", "y", "x"], "u": ["1", "2.0", None]})
    joint = sf.tabulate(rows, "s", "u", labels={"u": [1, 2, 3, None]})

    assert joint.useful.labels == ("1", "2", "3", None) and joint.learned == ("s",)
    assert joint.counts.tolist() == [[1, 0, 0, 1], [0, 1, 0, 0]]
    with pytest.raises(sf.DataError, match="column 'u': a missing value"):
        sf.tabulate(rows, "s", "u", labels={"u": [1, 2]})
    with pytest.raises(sf.DataError, match="column 's': a value that is not in the mechanism's alphabet"):
        sf.tabulate(rows, "s", "u", labels={"s": ["x", "z"]})
    caught = sf.tabulate(rows, "s", "u", labels={"s": ["x", "rest"]}, unseen={"s": "rest"})
    assert caught.p_secret.tolist() == pytest.approx([2 / 3, 1 / 3])
    with pytest.raises(sf.InputError, match="neither bins= nor rare="):
        sf.tabulate(rows, "s", "u", labels={"u": [1, 2]}, rare={"u": 2})
    with pytest.raises(sf.InputError, match="'v' is not a secret or useful column, yet labels names it"):
        sf.tabulate(rows, "s", "u", labels={"v": [1]})


def test_the_commands_say_where_labels_came_from(tmp_path):
    table = tmp_path / "chain.csv"
    pa.csv.write_csv(chain(), table)
    road = ["release", table, "--secret", "s", "--useful", "a", "--epsilon", "1", "--method", "srr", "--design", "exact"]
    found = CliRunner().invoke(cli, [*map(str, road), "--out", str(tmp_path / "1.csv")])
    given = CliRunner().invoke(cli, [
        *map(str, road), "--out", str(tmp_path / "2.csv"), "--labels", "s=0;1", "--labels", "a=0;1;2"])
    said = "labels of s and a were found in these rows"

    assert (found.exit_code, given.exit_code) == (0, 0)
    assert said in " ".join(found.output.split()) and "were found in these rows" not in " ".join(given.output.split())
    assert open_source(tmp_path / "2.csv").columns == ("s", "a")
    assert sf.load(tmp_path / "2.mechanism.json").useful.labels == ("0", "1", "2")
    assert "labels fixed beforehand" in (tmp_path / "1.report.html").read_text()
