"""001 Figure 6: GRR against CR on synthetic tables from the Jeffreys prior, I(X;Y)/H(X) for several a and c."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.designers import design
from sfumato.joint import Joint
from sfumato.reproduce.drawing import Line, lines, verdict, write_csv
from sfumato.uncertainty import Exactly

EPSILONS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
SHAPES = ((5, 5), (10, 5), (20, 5), (5, 10), (5, 20))  # (a, c); the printed panels do not name more than the trend


def jeffreys(c: int, a: int, seed: int) -> Joint:
    """A table from the symmetric Dirichlet law with parameter ½ [001, §VIII-D]."""
    p = np.random.default_rng(seed).dirichlet(np.full(a * c, 0.5)).reshape(c, a)
    return Joint.from_probabilities(p / p.sum())


def kept(joint: Joint, epsilon: float, method: str) -> tuple[float, float]:
    """I(X;Y)/H(X) and α of GRR or CR calibrated to ε-LIP."""
    reads = "both" if method == "cr" else "useful"
    made = design(Exactly(joint), epsilon, method, notion="lip", reads=reads)
    assert made.information is not None
    return made.information.useful / joint.entropy_useful, float(made.details["strength"])


def run(out: Path, *, full: bool) -> str:
    """001 Figure 6: GRR against CR on synthetic tables from the Jeffreys prior, I(X;Y)/H(X) for several a and c."""
    count = 100 if full else 12
    rows, panels, gains = [], [], {}
    for a, c in SHAPES:
        joints = [jeffreys(c, a, k) for k in range(count)]
        series: dict[str, Line] = {}
        for method in ("grr", "cr"):
            means = []
            for epsilon in EPSILONS:
                values = [kept(joint, epsilon, method)[0] for joint in joints]
                rows.append((a, c, method, epsilon, np.mean(values), np.std(values)))
                means.append(float(np.mean(values)))
            series[method] = (EPSILONS, means)
        panels.append((f"a = {a}, c = {c}", "ε (LIP)", "I(X;Y) / H(X)", series))
        gains[a, c] = float(np.mean(np.array(series["cr"][1]) - np.array(series["grr"][1])))
    write_csv(out / "001-fig6.csv", ("a", "c", "method", "epsilon", "mean", "deviation"), rows)
    remark = lines(out / "001-fig6.svg", panels)
    rising = gains[20, 5] > gains[5, 5] > gains[5, 20]
    listed = ", ".join(f"a={a} c={c}: {gain:+.3f}" for (a, c), gain in gains.items())
    text = f"CR gains on GRR as a grows against c: {rising} (mean difference of I/H: {listed}; {count} tables each)"
    return verdict("001-fig6", {"CR gains as a grows": rising}, text, remark)
