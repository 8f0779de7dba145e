"""Bounds for all 72 ordered pairs of Adult's nine categorical columns: no private mechanism keeps more.

    python benchmarks/bounds.py                            # ε = 0.1, 0.5 and 1.5, five seconds each
    python benchmarks/bounds.py --seconds 60 --epsilon 0.5
    python benchmarks/bounds.py --values reached.json      # beside what was reached: {"sex|race|0.5": NMI, …}
    python benchmarks/bounds.py --only occupation education

NMI is I(X;Y)/H(X). The last lines count the pairs whose value is at least 95 % of the bound.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import sfumato as sf
from sfumato.optimise.bound import bound
from sfumato.optimise.budget import Budget

LEVELS = (0.1, 0.5, 1.5)
GOOD = 0.95
Reached = Callable[[str, str, float], float | None]
HEAD = "| secret × useful | ε | value (NMI) | bound | value/bound | proved by | point | s |\n" + "|---" * 8 + "|"


@dataclass(frozen=True, slots=True)
class Line:
    """One table at one level."""

    secret: str
    useful: str
    epsilon: float
    value: float | None
    bound: float
    route: str
    point: float
    seconds: float

    @property
    def ratio(self) -> float | None:
        return None if self.value is None else self.value / self.bound

    def __str__(self) -> str:
        value, ratio = ("–" if x is None else f"{x:.4f}" for x in (self.value, self.ratio))
        return (
            f"| {self.secret} × {self.useful} | {self.epsilon:g} | {value} | {self.bound:.4f} | {ratio} | "
            f"{self.route} | {self.point:.4f} | {self.seconds:.1f} |"
        )


def lines(
    pairs: Iterable[tuple[str, str]], levels: Iterable[float], seconds: float, reached: Reached
) -> Iterator[Line]:
    """The bound of each pair at each level over its 95 % ball, with what was reached there."""
    levels = tuple(levels)
    for secret, useful in pairs:
        joint = sf.datasets.adult(secret, useful)
        ball = sf.ChiSquareBall(joint)
        for epsilon in levels:
            value, began = reached(secret, useful, epsilon), time.perf_counter()
            aim = {} if value is None else {"value": value * joint.entropy}
            found = bound(joint.p, ball, epsilon, budget=Budget.of(seconds), **aim)
            nmi = [x / joint.entropy for x in (found.value, found.routes["point"])]
            yield Line(secret, useful, epsilon, value, nmi[0], found.route, nmi[1], time.perf_counter() - began)


def from_file(path: Path | None) -> Reached:
    """What a file of values says; nothing without one."""
    known = {} if path is None else json.loads(path.read_text())
    return lambda secret, useful, epsilon: known.get(f"{secret}|{useful}|{epsilon:g}")


def counted(found: list[Line]) -> str:
    """How many pairs are within 5 % at each level."""
    out = []
    for epsilon in sorted({x.epsilon for x in found}):
        ratios = [x.ratio for x in found if x.epsilon == epsilon and x.ratio is not None]
        good = sum(r >= GOOD for r in ratios)
        out.append(f"ε = {epsilon:g}: {good} of {len(ratios)} pairs with value/bound ≥ {GOOD:g}")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, nargs="*", default=LEVELS)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--values", type=Path)
    parser.add_argument("--only", nargs=2, metavar=("SECRET", "USEFUL"))
    given = parser.parse_args()
    pairs = [tuple(given.only)] if given.only else sorted(sf.datasets.adult_pairs())
    found = []
    print(HEAD)
    for line in lines(pairs, given.epsilon, given.seconds, from_file(given.values)):
        print(line, flush=True)
        found.append(line)
    print("\n" + counted(found))


if __name__ == "__main__":
    main()
