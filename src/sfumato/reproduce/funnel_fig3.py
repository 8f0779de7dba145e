"""001 Figure 3: time and I(X;Y) of optimal ε-LDP and ε-LIP mechanisms, c = 2, a = 5, ten random tables."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers import design
from sfumato.joint import Joint
from sfumato.reproduce.drawing import Line, lines, verdict, write_csv
from sfumato.uncertainty import Exactly

EPSILONS = (0.5, 1.0, 1.5, 2.0)
PRINTED = {"ldp": 133.0, "lip": 0.0206}  # mean seconds at ε = 0.5 [001, §VIII-A]


def tables(shape: tuple[int, ...], count: int) -> list[Floats]:
    """Each p(s, x) uniform on [0, 1], normalised, as the paper does."""
    out = [np.random.default_rng(k).random(shape) for k in range(count)]
    return [p / p.sum() for p in out]


def kept_and_spent(path: Path, kept: dict[str, list[float]], spent: dict[str, list[float]]) -> str:
    """The two halves of the paper's picture, which draws one against the other, side by side against ε."""
    value: dict[str, Line] = {name: (EPSILONS, x) for name, x in kept.items()}
    seconds: dict[str, Line] = {name: (EPSILONS, x) for name, x in spent.items()}
    return lines(path, [("what is kept", "ε", "I(X;Y), nats", value), ("time", "ε", "seconds", seconds)])


def run(out: Path, *, full: bool) -> str:
    """001 Figure 3: time and I(X;Y) of optimal ε-LDP and ε-LIP mechanisms, c = 2, a = 5, ten random tables."""
    joints = [Joint.from_probabilities(p) for p in tables((2, 5), 100 if full else 10)]
    rows = []
    design(Exactly(joints[0]), 1.0, "lip")  # loads the solver
    for epsilon in EPSILONS:
        for i, joint in enumerate(joints):
            for name, share in (("lip", 1.0), ("ldp", 1.0), ("ldp/2", 0.5)):
                start = time.perf_counter()
                made = design(Exactly(joint), share * epsilon, name[:3])
                rows.append((name, epsilon, i, made.value, made.bound, time.perf_counter() - start))
    write_csv(out / "001-fig3.csv", ("method", "epsilon", "table", "value", "bound", "seconds"), rows)

    def mean(name: str, column: int) -> list[float]:
        return [float(np.mean([r[column] for r in rows if r[0] == name and r[1] == e])) for e in EPSILONS]

    names = ("lip", "ldp", "ldp/2")
    remark = kept_and_spent(out / "001-fig3.svg", {n: mean(n, 3) for n in names}, {n: mean(n, 5) for n in names})
    values = {name: np.array(mean(name, 3)) for name in names}
    ordered = bool(np.all(values["lip"] >= values["ldp"] - 1e-9) and np.all(values["ldp"] >= values["ldp/2"] - 1e-9))
    text = (
        f"LIP keeps {values['lip'][0]:.4f} and LDP {values['ldp'][0]:.4f} nats at ε = 0.5 (LIP ≥ LDP: {ordered}); "
        f"mean seconds {mean('lip', 5)[0]:.4f} and {mean('ldp', 5)[0]:.4f} (printed {PRINTED['lip']} and "
        f"{PRINTED['ldp']:g}); ε/2-LDP lies below ε-LIP, as ε-LIP ⇒ 2ε-LDP and not ε/2 as printed"
    )
    claims = {"LIP ≥ LDP ≥ LDP at ε/2": ordered, "faster than the paper's": mean("ldp", 5)[0] < PRINTED["ldp"]}
    return verdict("001-fig3", claims, text, remark)
