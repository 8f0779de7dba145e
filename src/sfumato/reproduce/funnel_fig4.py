"""001 Figure 4: LIP against SRLIP for three attributes, c = 2, 3 × 3 × 4 values; the paper's product and ours."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from sfumato.alphabet import Alphabet, Column
from sfumato.designers import design
from sfumato.joint import Joint
from sfumato.reproduce.drawing import verdict, write_csv
from sfumato.reproduce.funnel_fig3 import EPSILONS, kept_and_spent, tables
from sfumato.uncertainty import Exactly

SIZES = (3, 3, 4)
METHODS = ("lip", "srlip", "srlip-paper")


def run(out: Path, *, full: bool) -> str:
    """001 Figure 4: LIP against SRLIP for three attributes, c = 2, 3 × 3 × 4 values; the paper's product and ours."""
    useful = Alphabet.of(*(Column.of(f"x{j + 1}", range(n)) for j, n in enumerate(SIZES)))
    joints = [Joint.from_probabilities(p.reshape(2, -1), useful=useful) for p in tables((2, *SIZES), 10 if full else 3)]
    rows = []
    design(Exactly(joints[0]), 1.0, "srlip-paper")
    for epsilon in EPSILONS:
        for i, joint in enumerate(joints):
            for method in METHODS:
                start = time.perf_counter()
                made = design(Exactly(joint), epsilon, method)
                spent = time.perf_counter() - start
                rows.append((method, epsilon, i, made.value, made.bound, made.certificate.level, spent))
    write_csv(out / "001-fig4.csv", ("method", "epsilon", "table", "value", "bound", "level", "seconds"), rows)

    def mean(method: str, column: int) -> list[float]:
        return [float(np.mean([r[column] for r in rows if r[0] == method and r[1] == e])) for e in EPSILONS]

    remark = kept_and_spent(out / "001-fig4.svg", {m: mean(m, 3) for m in METHODS}, {m: mean(m, 6) for m in METHODS})
    values = {m: np.array(mean(m, 3)) for m in METHODS}
    ordered = bool(np.all(values["lip"] >= values["srlip"] - 1e-6) and np.all(values["srlip"] >= values["srlip-paper"]))
    kept = all(r[5] <= r[1] for r in rows if r[0] == "srlip")
    leaks = sum(r[5] > r[1] for r in rows if r[0] == "srlip-paper")
    text = (
        f"at ε = 1 LIP keeps {values['lip'][1]:.4f}, SRLIP {values['srlip'][1]:.4f}, the paper's product "
        f"{values['srlip-paper'][1]:.4f} nats; our levels hold: {kept}; the paper's exceed ε in {leaks} of "
        f"{sum(r[0] == 'srlip-paper' for r in rows)} tables"
    )
    return verdict("001-fig4", {"LIP ≥ SRLIP ≥ the paper's": ordered, "ours within ε": kept}, text, remark)
