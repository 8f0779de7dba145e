"""000 Example 1: the radius of the ball, and the truth inside it."""

from __future__ import annotations

import math
from pathlib import Path

from sfumato.reproduce.drawing import apart, verdict, write_csv
from sfumato.reproduce.robust_tables import BALL, ESTIMATE, TRUTH

PRINTED = {"B": 0.0752, "D2(estimate, truth)": 0.0281}


def numbers() -> dict[str, float]:
    from scipy.special import chdtri

    divergence = math.log(float((ESTIMATE.p**2 / TRUTH.p).sum()))
    return {
        "B": math.log1p(BALL.radius), "D2(estimate, truth)": divergence,
        "B with the quantile as printed": math.log1p(float(chdtri(3, 0.95)) / 100),
    }


def run(out: Path, *, full: bool) -> str:
    found = numbers()
    write_csv(out / "000-ex1.csv", ("name", "found", "printed"), [(k, x, PRINTED.get(k)) for k, x in found.items()])
    claims = {"the printed numbers": not apart(found, PRINTED), "P* in F": found["D2(estimate, truth)"] < found["B"]}
    return verdict(
        "000-ex1", claims,
        f"B = {found['B']:.6f}, D₂(P̂‖P*) = {found['D2(estimate, truth)']:.4f} (printed 0.0752 and 0.0281). Erratum: "
        f"(9) and (13) print F⁻¹(0.05), which would give B = {found['B with the quantile as printed']:.4f}; 0.0752 is "
        "F⁻¹(0.95)",
    )
