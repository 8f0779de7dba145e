"""Errors of estimates from laws in closed form, of any size: four weights, or one bit for each value."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.joint import Joint
from sfumato.mechanism import Cells, Law, Unary
from sfumato.mechanism.law import scale
from sfumato.optimise.arrays import Floats

LOST = 1e-12  # of a part of the table: what is multiplied by less is not told


def closed_errors(law: Law, joint: Joint, reads: str, columns: Sequence[int]) -> dict[str, float] | None:
    """n times the mean variance of what a reader looks at (see `parts_of`), or None where there is no closed form."""
    tables = _tables(joint, reads, columns)
    if isinstance(law, Unary):
        return {
            name: float((_bits(law, seen).sum() + 1 - (p**2).sum()) / p.size) for name, (p, seen) in tables.items()
        }
    if not isinstance(law, Cells):
        return None
    total, r, k = scale(law.bits), law.rows, law.useful
    own = law.truth - law.same_secret - law.same_useful + law.neither
    s, u = own + (law.same_secret - law.neither) * k, own + (law.same_useful - law.neither) * r
    a, b, c = (_inverse_square(float(x) / total) for x in (s, u, own))
    return {name: _cells_error(name, p, a, b, c, r, k) for name, (p, _) in tables.items()}


def untouched_errors(joint: Joint, reads: str, columns: Sequence[int]) -> dict[str, float]:
    """The same for the table itself: sampling alone."""
    return {name: float((1 - (p**2).sum()) / p.size) for name, (p, _) in _tables(joint, reads, columns).items()}


def _tables(joint: Joint, reads: str, columns: Sequence[int]) -> dict[str, tuple[Floats, Floats]]:
    """The distribution of each part of the table, and the cells that the mechanism sees."""
    seen = joint.p.ravel() if reads == "both" else joint.p_useful
    out = {"joint": (seen, seen), "secret": (joint.p_secret, seen)} if reads == "both" else {}
    if reads == "useful" and len(columns) > 1:
        out = {"useful": (seen, seen)}
    shaped = joint.p_useful.reshape(tuple(columns) or (-1,))
    for i in range(shaped.ndim):
        out[f"column {i}"] = shaped.sum(tuple(j for j in range(shaped.ndim) if j != i)), seen
    return out


def _bits(law: Unary, p: Floats) -> Floats:
    """c(x) = [p on(1 − on) + (1 − p) off(1 − off)] / (on − off)²: what the bit of each cell adds to a variance."""
    on, off = float(law.on) / scale(law.bits), float(law.off) / scale(law.bits)
    if on - off <= LOST:
        return np.full(p.shape, math.inf)
    return np.asarray((p * on * (1 - on) + (1 - p) * off * (1 - off)) / (on - off) ** 2)


def _inverse_square(x: float) -> float:
    return 1 / x**2 if abs(x) > LOST else math.inf


def _cells_error(name: str, p: Floats, s: float, u: float, both: float, r: int, k: int) -> float:
    """Σ Var = ‖L‖² − ‖p‖², and all outputs have the same ‖L‖²: the sum over the parts of the table that Q multiplies by
    one number each, of their dimension over that number squared, divided by the number of cells (estimation/cells)."""

    def times(dimension: int, x: float) -> float:
        return dimension * x if dimension else 0.0

    if name == "joint" or (name == "useful" and r == 1):
        held = 1 + times(r - 1, s) + times(k - 1, u) + times((r - 1) * (k - 1), both)
    else:
        held = 1 + times(p.size - 1, s if name == "secret" else u)
    return float(max(held / p.size - (p**2).sum(), 0.0) / p.size)
