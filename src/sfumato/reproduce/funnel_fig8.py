"""001 Figure 8: α of GRR and CR against ε on Adult, for the panels 5(b) and 5(d)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.datasets import adult
from sfumato.designers import design
from sfumato.reproduce.drawing import Line, lines, verdict, write_csv
from sfumato.uncertainty import Exactly

CASES = (("occupation", "education"), ("occupation", "relationship"))  # 5(b) and 5(d) when panels run by X, then S


def run(out: Path, *, full: bool) -> str:
    """001 Figure 8: α of GRR and CR against ε on Adult, for the panels 5(b) and 5(d)."""
    epsilons = np.linspace(0.1, 2.0, 39 if full else 10).tolist()
    rows, panels, told = [], [], []
    for secret, useful in CASES:
        joint, series = adult(secret, useful), {}
        kept: dict[str, list[float]] = {"grr": [], "cr": []}
        for method in ("grr", "cr"):
            alphas = []
            for epsilon in epsilons:
                reads = "both" if method == "cr" else "useful"
                made = design(Exactly(joint), epsilon, method, notion="lip", reads=reads)
                assert made.information is not None
                alphas.append(float(made.details["strength"]))
                kept[method].append(made.information.useful)
                rows.append((secret, useful, method, epsilon, alphas[-1], kept[method][-1]))
            series[method] = (epsilons, alphas)
        whole: dict[str, Line] = dict(series)
        panels.append((f"{secret}, {useful}", "ε (LIP)", "α", whole))
        higher = [a > b for a, b in zip(series["grr"][1], series["cr"][1], strict=True)]
        better = [a > b for a, b in zip(kept["grr"], kept["cr"], strict=True)]
        agree = float(np.mean([h == b for h, b in zip(higher, better, strict=True)]))
        told.append((f"{secret} × {useful}", float(np.mean(higher)), agree))
    write_csv(out / "001-fig8.csv", ("secret", "useful", "method", "epsilon", "alpha", "value"), rows)
    remark = lines(out / "001-fig8.svg", panels)
    monotone = all(np.all(np.diff(p[3][m][1]) >= -1e-12) for p in panels for m in ("grr", "cr"))
    text = "; ".join(
        f"{name}: α_GRR > α_CR at {share:.0%} of ε, the larger α has the larger utility at {agree:.0%}"
        for name, share, agree in told
    )
    opposite = told[0][1] > 0.5 > told[1][1]
    claims = {"the panels are opposite": opposite, "α grows": monotone}
    return verdict("001-fig8", claims, f"{text}; α grows with ε: {monotone}", remark)
