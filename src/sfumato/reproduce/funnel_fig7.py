"""001 Figure 7: the difference in α of CR and GRR explains the difference in utility, a = c = 5, 100 tables."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from sfumato.reproduce.drawing import Line, lines, verdict, write_csv
from sfumato.reproduce.funnel_fig6 import jeffreys, kept

EPSILONS = (0.5, 1.0, 1.5)  # three panels; the text gives their correlations without naming ε
PRINTED = (0.9815, 0.9889, 0.9731)


def run(out: Path, *, full: bool) -> str:
    """001 Figure 7: the difference in α of CR and GRR explains the difference in utility, a = c = 5, 100 tables."""
    count = 100 if full else 40
    rows, panels, found = [], [], []
    for epsilon in EPSILONS:
        alpha, gain = [], []
        for k in range(count):
            joint = jeffreys(5, 5, k)
            (u_cr, a_cr), (u_grr, a_grr) = kept(joint, epsilon, "cr"), kept(joint, epsilon, "grr")
            if math.isfinite(a_cr) and math.isfinite(a_grr):
                alpha.append(a_cr - a_grr)
                gain.append(u_cr - u_grr)
                rows.append((epsilon, k, a_cr, a_grr, u_cr, u_grr))
        found.append(float(np.corrcoef(alpha, gain)[0, 1]))
        series: dict[str, Line] = {"tables": (alpha, gain)}
        panels.append((f"ε = {epsilon:g}, ρ = {found[-1]:.4f}", "α_CR − α_GRR", "difference of I/H", series))
    write_csv(out / "001-fig7.csv", ("epsilon", "table", "alpha_cr", "alpha_grr", "kept_cr", "kept_grr"), rows)
    remark = lines(out / "001-fig7.svg", panels, style="o")
    text = (
        f"correlations {', '.join(f'{x:.4f}' for x in found)} at ε = {', '.join(f'{e:g}' for e in EPSILONS)} "
        f"(printed {', '.join(map(str, PRINTED))}, ε not stated)"
    )
    return verdict("001-fig7", {"correlations above 0.9": min(found) > 0.9}, text, remark)
