"""DP leakage against mutual-information leakage over the distortion: what [003, Fig. 6 and 7] share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers import least_epsilon, least_leakage
from sfumato.reproduce.drawing import lines, verdict, write_csv


def both_leakages(name: str, sources: Floats, budgets: Floats, title: str, folder: Path) -> str:
    """ε* and the least worst-case I(X; Y) against D, both proved: data, picture and what was found."""
    dp = [least_epsilon(sources, d).epsilon for d in budgets]
    found = [least_leakage(sources, d) for d in budgets]
    told = [x.information for x in found]
    gap = max(x.gap for x in found)
    second = np.diff(np.interp(np.linspace(budgets[0], budgets[-1], 41), budgets, told), 2)
    below = all(a <= b + 1e-9 for a, b in zip(told, dp, strict=True))
    text = (
        f"Mutual information is convex in D up to {max(0.0, -float(second.min())):.1e}; "
        f"its proved gap is at most {gap:.1e} nats."
    )
    at = budgets.tolist()
    rows = list(zip(at, dp, told, [x.bound for x in found], strict=True))
    write_csv(folder / f"{name}.csv", ("distortion", "epsilon", "information", "bound"), rows)
    curves = {"DP leakage": (at, dp), "MI leakage": (at, told)}
    panel = (title, "Hamming distortion D", "leakage (nats)", curves)
    remark = lines(folder / f"{name}.svg", [panel], style="-", ends=False)
    return verdict(name, {"mutual information stays below ε": below}, text, remark)
