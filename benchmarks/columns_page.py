"""Many columns in figures: errors of all one- and two-way tables beside other protocols, coverage, and learning.

Usage: python benchmarks/columns_page.py            writes docs/columns-figures.md
       BEFORE=…/src …                               beside an earlier version of this library, by its source folder
       PIECES=folder …                              where finished pieces are kept: a run that was stopped goes on there
       multi-freq-ldpy (requirements/bench.txt) must be there for the rows of other protocols
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import columns_peers as peers
import sfumato as sf
from columns_data import TEN, codes_of, data, distances, people, truths

PAGE = Path(__file__).parents[1] / "docs" / "columns-figures.md"
SETTINGS = [
    *(("ten columns of eight", n, e) for n in (100_000, 1_000_000) for e in (1.0, 2.0)),
    *(("adult", 32_561, e) for e in (1.0, 2.0)),
]
LEVELS = (1.0, 4.0)  # of learning
RUN = 100_000  # rows up to which peers are run; their clients answer row by row in Python


def seeds(n: int) -> int:
    """Runs of which errors are the root mean square."""
    return 3 if n <= 100_000 else 1


def ours(kind: str, n: int, epsilon: float, bundle: Any = None) -> dict[str, list[float]]:
    """Mean squared errors of a bundle, [one column, two], as unbiased and as shown."""
    rows, secret, names = data(kind, n)
    bundle, truth = bundle or sf.bundle(rows, secret, names, epsilon).bundle, truths(rows, [secret, *names])
    raw, shown = [], []
    for seed in range(seeds(n)):
        found = sf.estimate(sf.release(rows, bundle, seed=seed), bundle)
        tables = {t: found.table(*t) for t in found.names}
        raw.append(distances({t: x.raw for t, x in tables.items()}, truth))
        shown.append(distances({t: x.p for t, x in tables.items()}, truth))
    return {"raw": np.mean(raw, 0).tolist(), "shown": np.mean(shown, 0).tolist()}


def now(kind: str, n: int, epsilon: float, **options: Any) -> dict[str, list[float]]:
    """The same with what was expected, before a row was released, at the even distribution."""
    from sfumato.estimation.bundle_tables import expected_estimate

    rows, secret, names = data(kind, n)
    bundle, out = sf.bundle(rows, secret, names, epsilon, **options).bundle, [0.0, 0.0]
    foreseen = expected_estimate(bundle, n)
    for table in foreseen.names:
        out[len(table) - 1] += float(foreseen.table(*table).inversion.variance.sum())
    return {**ours(kind, n, epsilon, bundle), "expected": out}


def before(kind: str, n: int, epsilon: float) -> dict[str, list[float]] | None:
    """The same by an earlier version, in a process of its own."""
    if not os.environ.get("BEFORE"):
        return None
    words = [sys.executable, __file__, "--errors", kind, str(n), str(epsilon)]
    there = {**os.environ, "PYTHONPATH": os.environ["BEFORE"]}
    done = subprocess.run(words, env=there, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def others(kind: str, n: int, epsilon: float) -> dict[str, dict[str, list[float | None]]]:
    """Squared errors of the peers at the same level about the record: by formula, and by their clients where feasible.

    Tables of two columns are asked for as columns of their own, one for each pair.
    """
    rows, secret, names = data(kind, n)
    names = [secret, *names]
    truth, (codes, sizes) = truths(rows, names), codes_of(rows, names)
    asked = [[(c,) for c in names], list(combinations(names, 2))]
    out: dict[str, dict[str, list[float | None]]] = {}
    for name in peers.PROTOCOLS:
        out[name] = {"expected": [], "raw": [None, None], "shown": [None, None]}
        for way, held in enumerate(asked):
            true = [truth[h].ravel() for h in held]
            out[name]["expected"].append(peers.expected(name, true, n, epsilon) ** 2)
            if n > RUN or (way and not name.startswith("SMP")):
                continue
            joint = [np.ravel_multi_index([codes[c] for c in h], [sizes[c] for c in h]) for h in held]
            made = peers.run(name, joint, [t.size for t in true], epsilon, 1)
            for what, tables in zip(("shown", "raw"), made, strict=True):
                away = zip(tables, true, strict=True)
                out[name][what][way] = sum(float(((f - t) ** 2).sum()) for f, t in away)
    return out


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


def learned(epsilon: float) -> dict[str, list[float]]:
    from columns_learning import learning

    return learning(epsilon)


def steps() -> dict[str, Callable[[], Any]]:
    """Everything that is worked out, in pieces of a minute or a few."""
    out: dict[str, Callable[[], Any]] = {}
    for kind, n, e in SETTINGS:
        own = f"{kind} {n} {e:g}"
        out[f"{own} now"] = lambda k=kind, n=n, e=e: now(k, n, e)
        out[f"{own} single"] = lambda k=kind, n=n, e=e: now(k, n, e, tables=1)
        out[f"{own} before"] = lambda k=kind, n=n, e=e: before(k, n, e)
        out[f"{own} peers"] = lambda k=kind, n=n, e=e: others(k, n, e)
    for e in LEVELS:
        out[f"learning {e:g}"] = lambda e=e: learned(e)
    return out | {"queries": lambda: query_coverage(200), "coverage": lambda: coverage(200)}


def worked_out() -> dict[str, Any]:
    """All pieces, those that are kept in PIECES as they are."""
    found = {}
    for name, make in steps().items():
        place = Path(os.environ["PIECES"]) / f"{name}.json" if os.environ.get("PIECES") else None
        if place is not None and place.exists():
            found[name] = json.loads(place.read_text())
            continue
        print(name, file=sys.stderr, flush=True)
        found[name] = make()
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(found[name]))
    return found


def shown(value: float | None) -> str:
    return "–" if value is None else f"{math.sqrt(value):.4f}"


def line(size: str, what: str, errors: dict[str, list[float | None]], ways: int = 2) -> str:
    """One protocol: of one column, then of two: expected, measured without bias, and as shown."""
    cells = [shown(errors.get(kind, [None, None])[way]) for way in range(2) for kind in ("expected", "raw", "shown")]
    return f"| {size} | {what} | {' | '.join(c if i < 3 * ways else '–' for i, c in enumerate(cells))} |"


def errors_rows(found: dict[str, Any]) -> list[str]:
    out = []
    for kind, n, e in SETTINGS:
        own, size = f"{kind} {n} {e:g}", f"{kind}, {n:,} rows, ε = {e:g}"
        if f"{own} now" not in found:
            continue
        out.append(line(size, "**this bundle**", found[f"{own} now"]))
        out.append(line(size, "this bundle for single columns", found[f"{own} single"], 1))
        if found[f"{own} before"]:
            out.append(line(size, "the bundle before", found[f"{own} before"]))
        out += [line(size, name, errors) for name, errors in found[f"{own} peers"].items()]
    return out


def learned_rows(found: dict[str, Any]) -> list[str]:
    rows = [(e, t, x) for e in LEVELS for t, x in found.get(f"learning {e:g}", {}).items()]
    return [f"| {t} | {e:g} | {' | '.join(f'{100 * y:.1f} %' for y in x)} |" for e, t, x in rows]


def never_worse(found: dict[str, Any]) -> str:
    """Said only as far as it is so."""
    worse = []
    for kind, n, e in SETTINGS:
        own = f"{kind} {n} {e:g}"
        then, here = found.get(f"{own} before"), found.get(f"{own} now")
        for what in ("raw", "shown") if then else ():
            ways = [w for w in range(2) if here[what][w] > then[what][w]]
            worse += [f"{kind} at {n:,} rows, ε = {e:g} ({('one column', 'two columns')[w]}, {what})" for w in ways]
    if not any(found.get(f"{k} {n} {e:g} before") for k, n, e in SETTINGS):
        return ""
    return f"Worse than before: {', '.join(worse)}." if worse else "No line is worse than before."


def page(found: dict[str, Any]) -> str:
    told = {
        "errors": "\n".join(errors_rows(found)), "learned": "\n".join(learned_rows(found)),
        "worse": never_worse(found), "level": f"{peers.true_level(3, 2, 1.0):.4f}",
        "raised": f"{math.log(3 * (math.e - 1) + 1):.4f}", "right": found["coverage"][0], "runs": found["coverage"][1],
        "queried": found["queries"][0], "asked": found["queries"][1],
    }
    text = (Path(__file__).parent / "columns_page.md").read_text()
    for name, value in told.items():
        text = text.replace(f"@{name}", str(value))
    return text


if __name__ == "__main__":
    if sys.argv[1:2] == ["--errors"]:
        print(json.dumps(ours(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))))
    else:
        PAGE.write_text(page(worked_out()))
