"""000 Example 2: conditional projections of the ball."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.reproduce.drawing import apart, verdict, write_csv
from sfumato.reproduce.robust_tables import BALL, ESTIMATE

PRINTED = {
    "B_s1": 0.3782, "B_s2": 0.0900, "L_u1|s1": 0.1620, "L_u2|s1": 0.2829, "L_u1|s2": 0.1923, "L_u2|s2": 0.5337,
    "rad_s1": 0.6107, "rad_s2": 0.3061,
}
CORRECTED = {
    "B_s1": 0.406733, "B_s2": 0.090312, "L_u1|s1": 0.155223, "L_u2|s1": 0.272720, "L_u1|s2": 0.192131,
    "L_u2|s2": 0.533372, "rad_s1": 0.631030, "rad_s2": 0.306749,
}


def numbers() -> dict[str, float]:
    low, high = BALL.spikes()
    q = ESTIMATE.useful_given_secret
    values = [*np.log(BALL.spread()), *low.ravel(), *(2 * np.maximum(q - low, high - q).max(1))]
    return {name: float(x) for name, x in zip(PRINTED, values, strict=True)}


def run(out: Path, *, full: bool) -> str:
    found = numbers()
    rows = [(k, x, CORRECTED[k], PRINTED[k]) for k, x in found.items()]
    write_csv(out / "000-ex2.csv", ("name", "found", "corrected", "printed"), rows)
    off = apart(found, PRINTED)
    return verdict(
        "000-ex2", {"the corrected numbers": not apart(found, CORRECTED, 6)},
        f"By (23) B_s = {found['B_s1']:.6f}, {found['B_s2']:.6f}, the least L = {found['L_u1|s1']:.6f}, rad = "
        f"{found['rad_s1']:.6f}, {found['rad_s2']:.6f}. Erratum (unsafe): {len(off)} of {len(PRINTED)} printed numbers "
        "differ (0.3782, 0.0900; 0.6107, 0.3061), and the printed lower bounds of s1 cut points of the ball off; "
        "Examples 3 and 5 use the right ones", corrected=True,
    )
