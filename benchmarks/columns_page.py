"""Many columns in figures: errors of all one- and two-way tables beside other protocols, coverage, a model, Spark.

Usage: python benchmarks/columns_page.py            writes docs/columns-figures.md
       ADULT=adult.data …                           with the rows of Adult (UCI), of which the package has counts
       BEFORE=…/src …                               beside an earlier version of this library, by its source folder
       multi-freq-ldpy (requirements/bench.txt) must be there for the rows of other protocols
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.columns_data import people

import sfumato as sf

PAGE = Path(__file__).parents[1] / "docs" / "columns-figures.md"
TEN = [f"c{j}" for j in range(10)]
ADULT = ("workclass", "education", "marital-status", "occupation", "relationship", "race", "native-country", "income")
TARGETS = ("income", "marital-status", "occupation")
Tables = dict[tuple[str, ...], Any]


def codes_of(rows: pa.Table, names: list[str]) -> tuple[dict[str, Any], dict[str, int]]:
    """Codes by column, with labels in alphabetical order, and the number of labels."""
    codes, sizes = {}, {}
    for n in names:
        found = rows.column(n).combine_chunks().dictionary_encode()
        order = np.argsort(found.dictionary.to_pylist())
        codes[n], sizes[n] = np.argsort(order)[np.asarray(found.indices)], len(order)
    return codes, sizes


def truths(rows: pa.Table, names: list[str]) -> Tables:
    codes, sizes = codes_of(rows, names)
    out: Tables = {}
    for held in [*((n,) for n in names), *combinations(names, 2)]:
        at = np.ravel_multi_index([codes[n] for n in held], [sizes[n] for n in held])
        counts = np.bincount(at, minlength=math.prod(sizes[n] for n in held))
        out[held] = counts.reshape([sizes[n] for n in held]) / rows.num_rows
    return out


def distances(found: Tables, truth: Tables) -> tuple[float, float]:
    """√Σ‖p̂ − p‖² over the tables of one column, and of two."""
    squared = {k: float(((found[k] - truth[k]) ** 2).sum()) for k in found}
    one, two = (math.sqrt(sum(x for k, x in squared.items() if len(k) == size)) for size in (1, 2))
    return one, two


def ours(rows: pa.Table, secret: str, names: list[str], epsilon: float, seed: int, **options: Any) -> dict[str, Any]:
    """Errors of a bundle, as unbiased and as shown, and those that were expected."""
    start = time.process_time()
    made = sf.bundle(rows, secret, names, epsilon, **options)
    found = sf.estimate(sf.release(rows, made.bundle, seed=seed), made.bundle)
    truth = truths(rows, [secret, *names])
    tables = {n: found.table(*n) for n in found.names}
    return {
        "raw": distances({n: t.raw for n, t in tables.items()}, truth),
        "shown": distances({n: t.p for n, t in tables.items()}, truth),
        "expected": made.error / math.sqrt(rows.num_rows), "seconds": time.process_time() - start,
        "level": made.certificate.level, "plan": made.bundle.method,
    }


def before(kind: str, n: int, epsilon: float) -> dict[str, Any] | None:
    """The same by an earlier version, in a process of its own."""
    if not os.environ.get("BEFORE"):
        return None
    words = [sys.executable, __file__, "--errors", kind, str(n), str(epsilon)]
    there = {**os.environ, "PYTHONPATH": os.environ["BEFORE"]}
    done = subprocess.run(words, env=there, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def data(kind: str, n: int) -> tuple[pa.Table, str, list[str]]:
    if kind == "adult":
        return adult_rows(), "sex", list(ADULT)
    return people(n), "secret", TEN


def adult_rows() -> pa.Table:
    from make_adult_counts import records

    rows = records(Path(os.environ["ADULT"]))
    return pa.table({name: [row[name] for row in rows] for name in ("sex", *ADULT)})


def peers(rows: pa.Table, names: list[str], epsilon: float) -> dict[str, tuple[float, float | None]]:
    """Errors of the protocols of multi-freq-ldpy at the level ε about the record, by its own clients and aggregators.

    Tables of two columns are asked for as columns of their own, one for each pair. `RS+FD` at the same level takes ε
    where it is published with ln(d(e^ε − 1) + 1): see `true_level`.
    """
    from multi_freq_ldpy.mdim_freq_est import RSpFD_solution, SMP_solution

    codes, sizes = codes_of(rows, names)
    truth = truths(rows, names)
    pairs = list(combinations(names, 2))
    two = {p: codes[p[0]] * sizes[p[1]] + codes[p[1]] for p in pairs}
    alone, both = (list(zip(*x, strict=True)) for x in ([codes[c] for c in names], [two[p] for p in pairs]))
    one_k, two_k = [sizes[c] for c in names], [sizes[a] * sizes[b] for a, b in pairs]
    lowered = math.log((math.exp(epsilon) - 1) / len(names) + 1)  # which the client raises to ε again
    np.random.seed(1)  # noqa: NPY002
    out: dict[str, tuple[float, float | None]] = {}
    for name, module, client, total, level in (
        ("SMP, adaptive", SMP_solution, "SMP_ADP_Client", "SMP_ADP_Aggregator_MI", epsilon),
        ("RS+FD, adaptive, at the same level", RSpFD_solution, "RSpFD_ADP_Client", "RSpFD_ADP_Aggregator_MI", lowered),
    ):
        def errors(records: list[Any], ks: list[int], held: list[Any], level: float = level, module: Any = module,
                   client: str = client, total: str = total) -> float:
            said = [getattr(module, client)(r, ks, len(ks), level) for r in records]
            found = getattr(module, total)(said, ks, len(ks), level)
            away = [np.asarray(f) - truth[h].ravel() for f, h in zip(found, held, strict=True)]
            return math.sqrt(sum(float((x**2).sum()) for x in away))

        two_way = errors(both, two_k, pairs) if name.startswith("SMP") else None
        out[name] = errors(alone, one_k, [(c,) for c in names]), two_way
    return out


def true_level(columns: int, labels: int, epsilon: float) -> float:
    """The level of RS+FD with GRR about the whole record, by enumeration of all outputs for two opposite records.

    Each output is one column's answer at ε' = ln(d(e^ε − 1) + 1) and even draws for the others. Where all of them agree
    with one record and none with the other, every term of the sum over the column drawn has the ratio e^ε'.
    """
    raised = math.log(columns * (math.exp(epsilon) - 1) + 1)
    hit, miss = (x / (math.exp(raised) + labels - 1) for x in (math.exp(raised), 1.0))
    worst = 0.0
    for y in np.ndindex(*(labels,) * columns):
        chances = [sum((hit if a == r else miss) for a in y) / columns / labels ** (columns - 1) for r in (0, 1)]
        worst = max(worst, chances[0] / chances[1])
    return math.log(worst)


def coverage(runs: int) -> tuple[int, int]:
    """Runs of a small bundle in which every interval of every table is right, after the projection."""
    rows = people(10_000, columns=4, labels=4)
    bundle = sf.bundle(rows, "secret", TEN[:4], 1.0).bundle
    truth, right = truths(rows, ["secret", *TEN[:4]]), 0
    for seed in range(runs):
        found = sf.estimate(sf.release(rows, bundle, seed=seed), bundle)
        held = found.intervals(0.95).items()
        right += all(bool(((low <= truth[n]) & (truth[n] <= high)).all()) for n, (low, high) in held)
    return right, runs


def query_coverage(runs: int) -> tuple[int, int]:
    """Of the intervals by simulation, for an event of three neighbours of a chain."""
    rows, event = people(20_000, columns=4, labels=3), {"c0": "v0", "c1": "v0", "c2": "v0"}
    bundle = sf.bundle(rows, "secret", TEN[:4], 2.0).bundle
    held = [rows.column(n).to_numpy(zero_copy_only=False) == v for n, v in event.items()]
    true = np.logical_and.reduce(held).mean()
    right = 0
    for seed in range(runs):
        _, low, high = sf.estimate(sf.release(rows, bundle, seed=seed), bundle).query(event, draws=30)
        right += bool(low <= true <= high)
    return right, runs


def trained(rows: pa.Table, target: str, names: list[str], held_out: pa.Table) -> float:
    """Accuracy on held-out rows of naive Bayes, counts plus one."""
    labels = {n: sorted({*rows.column(n).to_pylist(), *held_out.column(n).to_pylist()}) for n in (*names, target)}
    codes = {n: {x: i for i, x in enumerate(own)} for n, own in labels.items()}

    def coded(table: pa.Table, n: str) -> Any:
        return np.array([codes[n][x] for x in table.column(n).to_pylist()])

    y, k = coded(rows, target), len(codes[target])
    score = np.log(np.bincount(y, minlength=k) + 1.0)[None].repeat(held_out.num_rows, 0)
    for n in names:
        table = np.ones((k, len(codes[n])))
        np.add.at(table, (y, coded(rows, n)), 1.0)
        score += np.log(table / table.sum(1, keepdims=True))[:, coded(held_out, n)].T
    return float((score.argmax(1) == coded(held_out, target)).mean())


def learning(epsilon: float) -> list[str]:
    """Naive Bayes on the truth, on records that a bundle's model makes up, and on independent columns."""
    rows = adult_rows()
    held = np.random.default_rng(0).random(rows.num_rows) < 0.25
    train, test = rows.filter(pa.array(~held)), rows.filter(pa.array(held))
    bundle = sf.bundle(train, "sex", list(ADULT), epsilon).bundle
    made = sf.estimate(sf.release(train, bundle, seed=1), bundle).synthesise(train.num_rows, seed=1)
    rng, out = np.random.default_rng(1), []
    columns = {n: train.column(n).to_numpy(zero_copy_only=False) for n in train.column_names}
    shuffled = pa.table({n: pa.array(rng.permutation(values)) for n, values in columns.items()})
    for target in TARGETS:
        names = [n for n in train.column_names if n != target]
        shown = [f"{100 * trained(x, target, names, test):.1f} %" for x in (train, made, shuffled)]
        out.append(f"| {target} | {epsilon:g} | {' | '.join(shown)} |")
    return out


def kept(name: str, make: Callable[[], Any]) -> Any:
    """What was worked out before, in the folder PIECES if there is one; a long run can be taken up again."""
    place = Path(os.environ["PIECES"]) / f"{name}.json" if os.environ.get("PIECES") else None
    if place is not None and place.exists():
        return json.loads(place.read_text())
    found = make()
    if place is not None:
        place.write_text(json.dumps(found))
    return found


def errors_rows() -> list[str]:
    wanted = [("ten columns of eight", n, e) for n in (100_000, 1_000_000) for e in (1.0, 2.0)]
    wanted += [("adult", 32_561, e) for e in (1.0, 2.0)] if os.environ.get("ADULT") else []
    return [line for kind, n, e in wanted for line in kept(f"{kind} {n} {e:g}", lambda: compared(kind, n, e))]  # noqa: B023


def compared(kind: str, n: int, epsilon: float) -> list[str]:
    """One table's errors by every protocol."""
    rows, secret, names = data(kind, n)
    now, then = ours(rows, secret, names, epsilon, 1), before(kind, n, epsilon)
    one = ours(rows, secret, names, epsilon, 1, tables=1)
    size = f"{kind}, {n:,} rows, ε = {epsilon:g}"
    lines = {"this bundle, shown": now["shown"], "this bundle, unbiased": now["raw"],
             "this bundle for single columns, shown": (one["shown"][0], None),
             "this bundle for single columns, unbiased": (one["raw"][0], None)}
    if then:
        lines |= {"the bundle before, shown": then["shown"], "the bundle before, unbiased": then["raw"]}
    if n <= 100_000 and epsilon == 1.0:
        lines |= peers(rows, [secret, *names], epsilon)
    out = [f"| {size} | {what} | {a:.4f} | {'–' if b is None else f'{b:.4f}'} |" for what, (a, b) in lines.items()]
    measured = math.hypot(*now["raw"])
    return [*out, f"| {size} | *all tables, unbiased: expected {now['expected']:.4f}, measured {measured:.4f}* | | |"]


TEXT = """# Many columns in figures

Written by `make columns` (benchmarks/columns_page.py). Errors are $\\sqrt{}∑\\Vert \\hat p − p\\Vert ²$ over all tables
of one column (the secret among them) and over all of two, in one run with one seed; ten columns are a chain
secret → c0 → … → c9 of eight values each, Adult its nine categorical columns with sex as the secret. *Unbiased* are
pooled effects (`.raw`), *shown* what `.p` holds: none below 0, tables that agree, noise drawn towards independence.
*Before* is the version in which tables were estimated one by one.

| rows | protocol | one column | two columns |
|---|---|---|---|
@errors

SMP (each row tells one column, or one pair of columns, at all of ε) is multi-freq-ldpy with its own clients and
aggregators, which cut at 0 and scale: compare them with what is shown. Its two figures are two releases, one for
single columns and one for pairs; a bundle for all tables has both from one, and a bundle for single columns
(`tables=1`) is beside it too. Rows are divided for the least error of all tables together, so that single columns
may be told less well than before (Adult at ε = 2) where pairs are told better. **RS+FD** does not have the level
that it is published with: one column is answered at $ε' = \\ln(d(e^ε − 1) + 1)$ and the others with even draws, and
where all $d$ values of an answer agree with one record and none with another, every term of the probability has the
ratio $e^{ε'}$. By enumeration, three columns of two labels at ε = 1: level @level, where ε' = @raised. A promise
for any distribution covers columns that all follow the secret, so at the same promise it may answer at ε only, as
in its row.

**Intervals after the projection** (five columns, 10,000 rows, ε = 1): every interval of every table of one and two
columns was right in @right of @runs runs at 95 %. **Intervals by simulation** of an event of three columns, by the
model: right in @queried of @asked runs.

## Learning from records that were made up

Adult, three quarters of the rows released by a bundle for all nine columns, as many records drawn from its model; naive
Bayes on them, tested on the last quarter. Other protocols tell tables of one column, from which records have
independent columns: the commonest value is then the best guess.

| target | ε | trained on the truth | on records of the bundle's model | on independent columns |
|---|---|---|---|---|
@learned
"""


def page() -> str:
    errors = errors_rows()
    right, runs = kept("coverage", lambda: coverage(200))
    queried, asked = kept("queries", lambda: query_coverage(40))
    learned = [line for e in (1.0, 4.0) for line in kept(f"learning {e:g}", lambda: learning(e))]  # noqa: B023
    told = {
        "errors": "\n".join(errors), "level": f"{true_level(3, 2, 1.0):.4f}",
        "raised": f"{math.log(3 * (math.e - 1) + 1):.4f}", "right": right, "runs": runs, "queried": queried,
        "asked": asked, "learned": "\n".join(learned),
    }
    text = TEXT
    for name, value in told.items():
        text = text.replace(f"@{name}", str(value))
    return text


PIECES = {
    "errors": errors_rows, "coverage": lambda: kept("coverage", lambda: coverage(200)),
    "queries": lambda: kept("queries", lambda: query_coverage(40)),
    "learning": lambda: [kept(f"learning {e:g}", lambda: learning(e)) for e in (1.0, 4.0)],  # noqa: B023
}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--errors"]:
        kind, n, epsilon = sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
        rows, secret, names = data(kind, n)
        print(json.dumps(ours(rows, secret, names, epsilon, 1)))
    elif sys.argv[1:2] == ["--piece"]:  # one of them, for a run in steps
        PIECES[sys.argv[2]]()
    else:
        PAGE.write_text(page())
