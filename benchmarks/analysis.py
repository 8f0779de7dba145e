"""Coverage of all intervals that an analyst reads off a release: python benchmarks/analysis.py [--runs 500] [--out F]

For each of five tables, a population with the table's shares is released again and again: the counts of outputs are
drawn from Q·p, which is what rows drawn from p and randomised give. Each run asks for every figure at 50, 90 and 95 %,
one by one and together; the table says how often intervals held the truth.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from sfumato.estimation.models import model_of
from sfumato.estimation.tables import TableEstimate

LEVELS = (0.5, 0.9, 0.95)
SEED = 16


def populations() -> list[tuple[str, Any, str, float]]:
    """(name, joint, method, ε): two and three columns, few and many values, weak and strong noise."""
    adult = sf.datasets.adult
    return [
        ("sex × race", adult("sex", "race"), "srr", 1.0),
        ("sex × education", adult("sex", "education"), "grr", 2.0),
        ("race × sex", adult("race", "sex"), "precise", 1.5),
        ("two columns × sex", _three(), "srr", 2.0),
        ("small, n = 2,000", sf.Joint.from_counts([[400, 300, 200], [300, 500, 300]]), "oue", 3.0),
    ]


def _three() -> Any:
    """A secret and two useful columns whose logistic regression has main effects only."""
    from sfumato.alphabet import Alphabet, Column

    region, group = np.meshgrid(np.arange(2), np.arange(3), indexing="ij")
    log_odds = -0.5 + 0.8 * region - np.array([0.0, 0.6, -0.4])[group]
    share = np.array([[0.2, 0.15, 0.15], [0.1, 0.25, 0.15]])
    ill = 1 / (1 + np.exp(-log_odds))
    p = np.stack([share * (1 - ill), share * ill]).reshape(2, 6)
    useful = Alphabet.of(Column.of("region", ["north", "south"]), Column.of("group", ["a", "b", "c"]))
    return sf.Joint.from_counts(np.rint(60_000 * p).astype(int), Alphabet.of(Column.of("ill", ["no", "yes"])), useful)


def figures(level: float, together: bool) -> dict[str, Callable[[TableEstimate], Any]]:
    """What is asked of the table of two columns."""
    given = {"level": level, "together": together}
    return {
        "shares": lambda t: t.shares(**given),
        "conditional shares": lambda t: t.shares(t.names[0], **given),
        "differences": lambda t: t.differences(t.names[0], **given),
        "log odds ratios": lambda t: t.odds_ratios(log=True, **given),
    }


def covered(joint: Any, mechanism: Any, runs: int) -> dict[tuple[str, float, bool], float]:
    """How often intervals hold the truth: the mean over figures one by one, all of them together."""
    rng = np.random.default_rng(SEED)
    truth = exact(mechanism, joint)
    names = [c.name for c in truth.columns]
    outcome = names[0], names[1:], str(truth.columns[0].labels[-1])
    known = {name: ask(truth.table(*names[:2])).estimate for name, ask in figures(0.5, False).items()}
    effects = truth.logistic(*outcome).coefficients
    held: dict[tuple[str, float, bool], list[float]] = {}
    for _ in range(runs):
        found = sf.estimate(drawn(mechanism, joint, joint.n, rng), mechanism, n=joint.n)
        table, model = found.table(*names[:2]), found.logistic(*outcome)
        for level, together in product(LEVELS, (False, True)):
            for name, ask in figures(level, together).items():
                _note(held, (name, level, together), ask(table), known[name])
            _note(held, ("logistic regression", level, together), model.effects(level, together=together), effects)
    return {key: float(np.mean(x)) for key, x in held.items()}


def _note(held: dict[Any, list[float]], key: tuple[str, float, bool], found: Any, true: Any) -> None:
    inside = ((found.low <= true + 1e-12) & (true <= found.high + 1e-12))[np.isfinite(true)]
    held.setdefault(key, []).append(float(inside.all()) if key[2] else float(inside.mean()))


def exact(mechanism: Any, joint: Any) -> Any:
    """The estimate from endless rows: its figures are the truth."""
    model = model_of(mechanism)
    many = 10**15
    return sf.estimate(model.forward(mechanism.input_law(joint)) * many, mechanism, n=many)


def sizes(joint: Any, mechanism: Any, runs: int) -> dict[float, float]:
    """How often the test of independence does not reject at each level, where secret and useful are independent."""
    p = np.outer(joint.p_secret, joint.p_useful)
    independent = sf.Joint.from_probabilities(p / p.sum(), joint.secret, joint.useful)
    rng = np.random.default_rng(SEED)
    names = [c.name for c in exact(mechanism, joint).columns][:2]
    values = [
        sf.estimate(drawn(mechanism, independent, joint.n, rng), mechanism, n=joint.n).table(*names).independence()
        for _ in range(runs)
    ]
    return {level: float(np.mean([x.p_value > 1 - level for x in values])) for level in LEVELS}


def drawn(mechanism: Any, joint: Any, n: int, rng: np.random.Generator) -> Any:
    """Counts of outputs, or of ones by bit, of n rows that follow the joint."""
    p = mechanism.input_law(joint)
    if mechanism.law.meaning == "subset":
        on, off = (float(w) / (1 << mechanism.law.bits) for w in (mechanism.law.on, mechanism.law.off))
        people = rng.multinomial(n, p)
        return rng.binomial(people, on) + rng.binomial(n - people, off)
    expected = model_of(mechanism).forward(p)
    return rng.multinomial(n, expected / expected.sum())


def designed(joint: Any, method: str, epsilon: float) -> Any:
    limits = {} if method != "precise" else {"time_limit": 5}
    return sf.design(sf.ChiSquareBall(joint), epsilon, method, **limits).mechanism


def report(runs: int) -> str:
    lines = [
        "# Coverage of an analyst's intervals", "",
        f"Made by `python benchmarks/analysis.py --runs {runs} --out docs/coverage.md`. How often intervals held the "
        f"truth in {runs} releases: of single figures (the mean over all), and of all figures of a call at once. The "
        f"error of the simulation is about {100 * math.sqrt(0.25 / runs):.1f} points at 50 % and "
        f"{100 * math.sqrt(0.05 * 0.95 / runs):.1f} at 95 %.", "",
    ]
    for name, joint, method, epsilon in populations():
        started = time.perf_counter()
        mechanism = designed(joint, method, epsilon)
        found, size = covered(joint, mechanism, runs), sizes(joint, mechanism, runs)
        lines += [f"## {name}: {joint.n:,} rows, {method}, ε = {epsilon:g}", "",
                  "| figures | " + " | ".join(f"{x:.0%}" for x in LEVELS) + " | " +
                  " | ".join(f"{x:.0%} together" for x in LEVELS) + " |", "|---|" + "---|" * 6]
        for kind in dict.fromkeys(key[0] for key in found):
            cells = [f"{100 * found[kind, level, together]:.1f}" for together in (False, True) for level in LEVELS]
            lines.append(f"| {kind} | {' | '.join(cells)} |")
        cells = [f"{100 * size[level]:.1f}" for level in LEVELS]
        lines += [f"| test of independence (not rejected, where independent) | {' | '.join(cells)} | | | |", ""]
        print("\n".join(lines[-9:]), f"{time.perf_counter() - started:.0f} s", flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    text = report(given.runs)
    if given.out is not None:
        given.out.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
