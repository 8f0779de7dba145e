"""The engine's figures, kept in engine_figures.json as they come and shown in docs/engine.md.

    python benchmarks/engine.py pairs                  # value and bound for all pairs of Adult's columns (make pairs)
    python benchmarks/engine.py proofs [SECONDS]       # longer proofs for those below .95 of their bound
    python benchmarks/engine.py laws [COUNT] [FIRST]   # laws of any correct search over random tables (make laws)
    python benchmarks/engine.py routes [FIRST LAST]    # random tables: now against the best of the old routes
    python benchmarks/engine.py orders                 # χ² balls beside balls of order ½, on a few tables
    python benchmarks/engine.py adult                  # pairs of Adult columns on which the old routes lost most
    python benchmarks/engine.py page                   # the page alone

Old values are those of old_routes.json. Every design is sealed and certified, on all cores. What is in the file already
is made again only if the last word is `again` and it is of another commit, so that what was interrupted can go on.
SFUMATO_PATIENCE makes all searches here longer or shorter, and is noted.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from tests.random_tables import random_counts

import sfumato as sf
from sfumato.errors import InputError
from sfumato.optimise.bound import bound
from sfumato.optimise.budget import PATIENCE, Budget, patience

OLD = pathlib.Path(__file__).with_name("old_routes.json")
FIGURES = pathlib.Path(__file__).with_name("engine_figures.json")
PAGE = pathlib.Path(__file__).parents[1] / "docs" / "engine.md"
LEVELS = (0.5, 0.1, 1.5)
GOOD = 0.95  # of the bound
WITHIN = 2e-3  # relative: laws of optima, asked of a search
LAWS = ("methods", "merged", "epsilon", "radius", "permuted")
OTHERS = ("srr", "ir", "grr", "cr", "sue", "oue", "polyopt")  # that keep the same promise
LONGER = 3.2  # times: a law of optima that a short search breaks is asked of longer ones, up to the default's time
ADULT = (  # secret, useful, ε and what the old routes reached at best (NMI)
    ("sex", "native-country", 0.1, 0.170), ("sex", "native-country", 0.5, 0.385), ("sex", "native-country", 1.5, 0.600),
    ("education", "sex", 1.5, 0.3178), ("occupation", "income", 1.5, 0.2374),
    ("sex", "race", 0.5, 0.4818), ("sex", "race", 1.5, 0.6197),
    ("race", "sex", 0.5, 0.5393), ("race", "sex", 1.5, 0.6161),
    ("native-country", "relationship", 0.5, 0.6012), ("native-country", "relationship", 1.5, 0.6610),
    ("occupation", "education", 0.5, 0.1832), ("occupation", "education", 1.5, 0.3768),
)
ORDERED = ("sex|race", "race|sex", "income|relationship", "relationship|sex", "random 28", "random 39")


class Figures:
    """What was measured so far: every entry is written at once, so that stopping loses nothing."""

    def __init__(self, again: bool = False) -> None:
        self.all: dict[str, dict[str, Any]] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
        self.again = again

    def fill(self, part: str, made: Callable[..., dict[str, Any]], asked: dict[str, tuple[Any, ...]]) -> None:
        """Have every entry that is asked for."""
        known, at = self.all.setdefault(part, {}), state()
        absent = {k: x for k, x in asked.items() if k not in known or (self.again and known[k].get("at") != at)}
        self.make(part, made, absent)

    def make(self, part: str, made: Callable[..., dict[str, Any]], asked: dict[str, tuple[Any, ...]]) -> None:
        """Entries made now, each by a process with one core."""
        at = state()
        with ProcessPoolExecutor(initializer=threadpool_limits, initargs=(1,)) as pool:
            waiting = {pool.submit(made, *x): name for name, x in asked.items()}
            for done in as_completed(waiting):
                self.put(part, waiting[done], {**done.result(), "at": at})

    def put(self, part: str, name: str, entry: dict[str, Any]) -> None:
        known = self.all[part].get(name, {})
        if "bound" in known and part == "pairs":  # what was proved once stays proved
            entry = {**entry, "bound": min(known["bound"], entry["bound"])}
        self.all[part][name] = entry
        print(f"{part} {name}: {entry}", flush=True)
        parts = []
        for title, entries in self.all.items():
            lines = (f"  {json.dumps(a)}: {json.dumps(b)}" for a, b in entries.items())
            parts.append(f"{json.dumps(title)}: {{\n" + ",\n".join(lines) + "\n}")
        FIGURES.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def kept(counts: Any, epsilon: float, radius: float | None = None) -> Any:
    joint = sf.Joint.from_counts(counts)
    ball = sf.ChiSquareBall(joint) if radius is None else sf.ChiSquareBall(joint, radius=radius)
    return sf.design(ball, epsilon, "ballopt")


def pair(secret: str, useful: str, epsilon: float) -> dict[str, float]:
    """Value and bound as NMI = I(X;Y)/H(X), seconds of work, and the patience of the searches."""
    joint, started = sf.datasets.adult(secret, useful), time.thread_time()
    d = sf.design(sf.ChiSquareBall(joint), epsilon, "ballopt")
    return {
        "value": round(d.value / joint.entropy, 5), "bound": round(d.bound / joint.entropy, 5),
        "seconds": round(time.thread_time() - started, 1), "patience": patience(),
    }


def pairs(figures: Figures) -> None:
    """All 72 ordered pairs of Adult's nine categorical columns, small tables first."""
    every = sorted(sf.datasets.adult_pairs(), key=lambda x: sf.datasets.adult(*x).p.size)
    figures.fill("pairs", pair, {f"{a}|{b}|{epsilon:g}": (a, b, epsilon) for a, b in every for epsilon in LEVELS})


def ordered(table: str, epsilon: float) -> dict[str, Any]:
    """Value and bound as NMI over the χ² ball and over the ball of order ½, both of 95 %."""
    counts = table.startswith("random") and sf.Joint.from_counts(random_counts(int(table.split()[1]))[0])
    joint, started = counts or sf.datasets.adult(*table.split("|")), time.thread_time()
    found: dict[str, Any] = {"shape": joint.shape, "n": joint.n}
    for name, ball in (("χ²", sf.ChiSquareBall(joint)), ("½", sf.RenyiBall(joint, alpha=0.5, confidence=0.95))):
        d = sf.design(ball, epsilon, "ballopt")
        found[name] = [round(d.value / joint.entropy, 5), round(d.bound / joint.entropy, 5)]
    return {**found, "seconds": round(time.thread_time() - started, 1), "patience": patience()}


def orders(figures: Figures) -> None:
    figures.fill("orders", ordered, {f"{table}|{x:g}": (table, x) for table in ORDERED for x in (0.5, 1.5)})


def proofs(figures: Figures, seconds: int = 20) -> None:
    """The bound alone, with so many seconds of work, where a design is not within 5 % of it."""
    known = figures.all["pairs"]
    below = [k for k, x in known.items() if x["value"] < GOOD * x["bound"] and x.get("proof", 0) < seconds]
    figures.make("pairs", proof, {name: (known[name], *name.split("|"), seconds) for name in below})


def proof(known: dict[str, Any], secret: str, useful: str, epsilon: str, seconds: int) -> dict[str, Any]:
    joint = sf.datasets.adult(secret, useful)
    found = bound(joint.p, sf.ChiSquareBall(joint), float(epsilon), budget=Budget.of_work(seconds))
    return {**known, "bound": math.ceil(found.value / joint.entropy * 1e5) / 1e5, "proof": seconds}


def against_old(row: dict[str, Any]) -> dict[str, Any]:
    old = [x for x in row["values"].values() if not isinstance(x, str)]
    if not old:
        return {}
    found = kept(*random_counts(row["number"]))
    return {"old": max(old), "value": round(found.value, 7), "bound": round(found.bound, 7), "patience": patience()}


def routes(figures: Figures, first: int = 0, last: int = 200) -> None:
    rows = json.loads(OLD.read_text())["tables"][first:last]
    figures.fill("routes", against_old, {str(x["number"]): (x,) for x in rows})


def law(number: int) -> dict[str, Any]:
    """A law with as much time as it needs to hold within 0.2 %, and what it was with the least."""
    short, found = patience(), {}
    for share in (short, LONGER * short, 1.0):
        with mock.patch.dict(os.environ, {PATIENCE: str(share)}):
            found = {**found, **_law(number), "patience": share}
        found.setdefault("short", found.get("gap", 0.0))
        if found.get("gap", 0.0) <= WITHIN or share >= 1.0:
            break
    return found


def _law(number: int) -> dict[str, Any]:
    """By how much (relative) a law drawn for this table is broken, and the law of the bound; 0 or less where they hold.

    A law costs two designs, so that thousands of tables can be asked one each.
    """
    counts, epsilon = random_counts(number)
    rng = np.random.default_rng([number, 7])
    name = LAWS[rng.integers(len(LAWS))]
    try:
        base = kept(counts, epsilon)
    except InputError as error:  # tables that say in words why nothing can be designed
        return {"refused": str(error)[:60]}
    value, radius = max(base.value, 1e-9), base.mechanism.claim.within.radius
    gap = other(name, base, counts, epsilon, radius, rng) / value - 1
    return {"law": name, "gap": round(float(abs(gap) if name == "permuted" else gap), 6),
            "bound": round(float(base.value / max(base.bound, 1e-12) - 1), 6)}


def other(name: str, base: Any, counts: Any, epsilon: float, radius: float, rng: np.random.Generator) -> float:
    """The value of a design that may not be above the one at hand."""
    if name == "methods":
        ball = sf.ChiSquareBall(base.mechanism.joint)
        return max(sf.design(ball, epsilon, method).value for method in OTHERS)
    if name == "merged":
        groups = rng.integers(0, max(2, counts.shape[1] // 2), counts.shape[1])
        merged = np.stack([counts[:, groups == g].sum(1) for g in np.unique(groups)], 1)
        return float(kept(merged, epsilon, radius).value) if merged.shape[1] > 1 else 0.0
    if name == "epsilon":
        return float(kept(counts, epsilon * 0.9).value)
    if name == "radius":
        return float(kept(counts, epsilon, radius * 1.2).value)
    return float(kept(counts[rng.permutation(len(counts))][:, rng.permutation(counts.shape[1])], epsilon).value)


def guarded(number: int) -> dict[str, Any]:
    try:
        return law(number)
    except Exception as error:  # what law 6 forbids
        return {"error": f"{type(error).__name__}: {error}"[:120]}


def state() -> str:
    """The commit that is asked."""
    asked = ["git", "-C", str(PAGE.parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def laws(figures: Figures, count: int = 2_000, first: int = 0) -> None:
    figures.fill("laws", guarded, {str(number): (number,) for number in range(first, first + count)})


def adult() -> None:
    print("| secret × useful | ε | wanted | value (NMI) | bound | value/bound | s of work |\n" + "|---" * 7 + "|")
    for secret, useful, epsilon, wanted in ADULT:
        x = pair(secret, useful, epsilon)
        print(f"| {secret} × {useful} | {epsilon:g} | {wanted:.4f} | {x['value']:.4f} | {x['bound']:.4f} | "
              f"{x['value'] / x['bound']:.3f} | {x['seconds']:.1f} |", flush=True)


def page(figures: Figures) -> str:
    return "\n".join([*_head(), *_pairs(figures.all.get("pairs", {})), *_orders(figures.all.get("orders", {})),
                      *_laws(figures.all.get("laws", {})), *_routes(figures.all.get("routes", {}))]) + "\n"


def _head() -> Iterator[str]:
    yield "# What the engine reaches, and what it proves\n"
    yield ("Made by `python benchmarks/engine.py pairs`, `laws` and `routes` (`make pairs`, `make laws`). Designs by "
           "`ballopt` over χ² balls of 95 %, sealed and certified; bounds hold for every mechanism with the promise.\n")


def _pairs(found: dict[str, Any]) -> Iterator[str]:
    yield "## All pairs of Adult's nine categorical columns\n"
    yield ("Value and bound as NMI = I(X;Y)/H(X), and their ratio, at ε = 0.1, 0.5 and 1.5. "
           f"{len(found)} of 216 designs, {sum(x['seconds'] for x in found.values()):.0f} seconds of work in all; "
           f"searches had {_patient(found)}. {_states(found)} Bounds are the least proved so far. {_proved(found)}\n")
    for epsilon in sorted(LEVELS):
        here = [x for k, x in found.items() if k.endswith(f"|{epsilon:g}")]
        ratios = np.array([x["value"] / x["bound"] for x in here])
        if len(ratios):
            yield (f"- ε = {epsilon:g}: value/bound ≥ {GOOD} for **{int((ratios >= GOOD).sum())} of {len(ratios)}** "
                   f"pairs; median {np.median(ratios):.3f}, least {ratios.min():.3f}")
    yield "\n| secret × useful | 0.1: value | bound | ratio | 0.5: value | bound | ratio | 1.5: value | bound | ratio |"
    yield "|---" * 10 + "|"
    for secret, useful in sorted({tuple(k.split("|")[:2]) for k in found}):
        cells = []
        for epsilon in sorted(LEVELS):
            x = found.get(f"{secret}|{useful}|{epsilon:g}")
            told = x and f"| {x['value']:.4f} | {x['bound']:.4f} | {x['value'] / x['bound']:.3f} "
            cells.append(told or "| – | – | – ")
        yield f"| {secret} × {useful} {''.join(cells)}|"


def _orders(found: dict[str, Any]) -> Iterator[str]:
    yield "\n## Balls of order ½ beside χ² balls\n"
    yield ("The same search over the ball of D_½(P̂‖P) (Hellinger's distance) whose 95 % hold for every n, and over the "
           "χ² ball of 95 % by many rows; NMI as above. The former is the larger set here, so less is kept under it. "
           "Random tables are those of these numbers in tests/random_tables.py. "
           f"Made by `python benchmarks/engine.py orders`; searches had {_patient(found)}.\n")
    yield "| secret × useful | size | rows | ε | χ²: value | bound | ratio | order ½: value | bound | ratio |"
    yield "|---" * 10 + "|"
    for name, x in found.items():
        table, epsilon = name.rsplit("|", 1)
        cells = "".join(f"| {a:.4f} | {b:.4f} | {a / b:.3f} " for a, b in (x["χ²"], x["½"]))
        size = " × ".join(map(str, x["shape"]))
        yield f"| {table.replace('|', ' × ')} | {size} | {x['n']:,} | {epsilon} {cells}|"


def _patient(found: dict[str, Any]) -> str:
    shares = sorted({x["patience"] for x in found.values() if x and "patience" in x})
    return " or ".join("the default's time" if x == 1 else f"{x:g} of the default's time" for x in shares) or "no time"


def _proved(found: dict[str, Any]) -> str:
    longer = [x["proof"] for x in found.values() if "proof" in x]
    if not longer:
        return ""
    return (f"Where a design was not within 5 % of its bound, the bound alone was worked on for {max(longer)} seconds "
            f"({len(longer)} pairs).")


def _laws(found: dict[str, Any]) -> Iterator[str]:
    yield "\n## Laws of any correct search on random tables\n"
    errors, refused = ({k: x for k, x in found.items() if name in x} for name in ("error", "refused"))
    yield (f"{len(found)} tables of every shape from 2 × 2 to 20 × 20, n from 30 to 10^6 (tests/random_tables.py); "
           f"each is asked one law, drawn by its number, and that of the bound. {len(refused)} say in words why "
           f"nothing can be designed; {len(errors)} end in a Python error. A law of optima that a search with a tenth "
           f"of the default's time breaks is asked again with a third of it, then with all of it. {_states(found)}\n")
    yield "| law | tables | held within 0.2 % | by a tenth of the time | a third | worst | at table |"
    yield "|---" * 7 + "|"
    words = {"methods": f"never below {', '.join(OTHERS)}", "merged": "never below the table with useful values merged",
             "epsilon": "never below ε reduced by a tenth", "radius": "never below a radius a fifth larger",
             "permuted": "the same when labels are permuted"}
    told = {k: x for k, x in found.items() if "law" in x}
    for name, text in words.items():
        gaps = [(x["gap"], k) for k, x in told.items() if x["law"] == name]
        if gaps:
            worst = max(gaps)
            times = [x["patience"] for x in told.values() if x["law"] == name and x["gap"] <= WITHIN]
            soon = f"{sum(x <= 0.1 for x in times)} | {sum(x < 1 for x in times)}"
            yield f"| {text} | {len(gaps)} | {len(times)} | {soon} | {worst[0]:+.2%} | {worst[1]} |"
    over = [(x["bound"], k) for k, x in told.items()]
    if over:
        worst = max(over)
        held = " | ".join([str(sum(g <= 1e-6 for g, _ in over))] * 3)
        yield f"| the value is at most the bound | {len(over)} | {held} | {worst[0]:+.2%} | {worst[1]} |"


def _states(found: dict[str, Any]) -> str:
    """Which states of the engine tables were asked of, where that was noted."""
    noted = Counter(x.get("at", "earlier ones") for x in found.values())
    return "Asked of the engine at " + ", ".join(f"{k} ({n:,})" for k, n in noted.most_common()) + "."


def _routes(found: dict[str, Any]) -> Iterator[str]:
    gains = {k: x["value"] / max(x["old"], 1e-12) - 1 for k, x in found.items() if x and "value" in x}
    if not gains:
        return
    yield "\n## Against the best of the old routes\n"
    values, worst = np.array(list(gains.values())), min(gains, key=lambda k: gains[k])
    yield (f"{len(gains)} random tables, values of commit 19bc132 in benchmarks/old_routes.json: "
           f"{int((values < -WITHIN).sum())} below by more than 0.2 % (worst {gains[worst]:+.2%}, table {worst}), "
           f"median {np.median(values):+.2%}, best {values.max():+.0%}.")


def main() -> int:
    what, *rest = sys.argv[1:] or ["adult"]
    numbers, figures = [int(x) for x in rest if x != "again"], Figures("again" in rest)
    if what == "adult":
        adult()
        return 0
    commands = {"pairs": pairs, "proofs": proofs, "orders": orders, "laws": laws, "routes": routes}
    for name, command in commands.items():
        if what == name:
            command(figures, *numbers)  # type: ignore[operator]
    PAGE.write_text(page(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
