"""DP leakage against mutual-information leakage over the distortion: what [003, Fig. 6 and 7] share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers import least_epsilon, least_leakage
from sfumato.reproduce.curves import lines, write_columns


def both_leakages(name: str, sources: Floats, budgets: Floats, title: str, folder: Path) -> str:
    """ε* and the least worst-case I(X; Y) against D, both proved: data, picture and what was found."""
    dp = [least_epsilon(sources, d).epsilon for d in budgets]
    found = [least_leakage(sources, d) for d in budgets]
    told = [x.information for x in found]
    gap = max(x.gap for x in found)
    second = np.diff(np.interp(np.linspace(budgets[0], budgets[-1], 41), budgets, told), 2)
    below = all(a <= b + 1e-9 for a, b in zip(told, dp, strict=True))
    verdict = (
        f"{name}: mutual information stays below epsilon at every D: {below};"
        f" it is convex in D up to {max(0.0, -float(second.min())):.1e}; its proved gap is at most {gap:.1e} nats."
    )
    columns = {"distortion": budgets.tolist(), "epsilon": dp, "information": told, "bound": [x.bound for x in found]}
    write_columns(folder / f"{name}.csv", columns)
    curves = {"DP leakage": dp, "MI leakage": told}
    lines(folder / f"{name}.png", budgets.tolist(), curves, ("Hamming distortion D", "leakage (nats)"), title)
    return verdict
