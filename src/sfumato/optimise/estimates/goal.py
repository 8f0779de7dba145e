"""Goals: what shall be estimated, as a quadratic form of errors; how well a law does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sfumato.errors import InputError, unknown
from sfumato.joint import Joint
from sfumato.libraries import scipy
from sfumato.mechanism import Cells, Law, Unary
from sfumato.optimise.arrays import DUST, REPAIRED, Bools, Floats, Ints
from sfumato.optimise.cone import Coordinates

TARGETS = ("joint", "useful", "secret")
SOUND = 1e-4  # least pivot beside the greatest of a factor: its square is far above rounding, so that nothing is untold


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """min tr(C J⁻¹) − pᵀCp over the coordinates with mass: the mean square error of what is asked for, times n."""

    coordinates: Coordinates
    cost: Floats | scipy.sparse.csr_array  # C[i, i] over the coordinates with mass

    @property
    def seen(self) -> Bools:
        return np.asarray(self.coordinates.p > 0)

    @property
    def p(self) -> Floats:
        return np.asarray(self.coordinates.p[self.seen])

    @property
    def own(self) -> float:
        """pᵀCp: what tr(C J⁻¹) contains beyond the error."""
        return float(self.p @ self.cost @ self.p)

    @property
    def untouched(self) -> float:
        """The error of the table itself, by sampling alone: no release is below it."""
        return max(float(self.cost.diagonal() @ self.p) - self.own, 0.0)

    def of_rows(self, rows: Floats) -> float:
        """The error of a mechanism Q[y, i] over all coordinates; ∞ where C asks for what it does not tell."""
        law = rows @ self.coordinates.p
        unit = rows[law > 0][:, self.seen] / np.sqrt(law[law > 0])[:, None]
        J = unit.T @ unit
        factor, failed = scipy.linalg.lapack.dpotrf(J, lower=1)
        if not failed and factor.diagonal().min() > SOUND * factor.diagonal().max():
            half = scipy.linalg.lapack.dpotri(factor, lower=1)[0]
            return max(float((self.cost @ (half + np.tril(half, -1).T)).trace()) - self.own, 0.0)
        values, vectors = np.linalg.eigh(J)
        told = values > DUST * values[-1]
        asked = ((vectors.T @ self.cost) * vectors.T).sum(1)
        if asked[~told].sum() > REPAIRED * asked.sum():
            return float("inf")
        return max(float((asked[told] / values[told]).sum()) - self.own, 0.0)

    def of_law(self, law: Law) -> float:
        """The error from a law over all cells, or over useful values where these are the coordinates; ∞ if not listed.

        Bits of a unary law are counted one by one, as `estimate` does; their covariance is diag(c + p) − ppᵀ with the c
        of `_bits`, because two bits of one answer are independent given the input.
        """
        if isinstance(law, Unary):
            return float(self.cost.diagonal() @ (_bits(*law.chances, self.p) + self.p) - self.own)
        rows = law.matrix()
        return math.inf if rows is None else self.of_rows(np.asarray(rows, float)[:, self.coordinates.cell])


def inverse(J: Floats) -> Floats:
    """J⁻¹; a trace of ridge keeps J invertible while rows are few."""
    J = J.copy()
    diagonal(J)[:] += DUST * np.trace(J)
    return np.asarray(np.linalg.inv(J), np.float64)


def diagonal(square: Floats) -> Floats:
    """A view of it: numpy's own ways to write there cost more than a step's arithmetic."""
    return square.reshape(-1)[:: len(square) + 1]


def goal(joint: Joint, target: object, reads: str = "both") -> Goal:
    """The goal of a target: 'joint' (the whole table), 'useful', 'secret', a mapping from these to weights, weights of
    the squared errors of cells [s, u], or sums that shall be known [k, s, u]."""
    coordinates = Coordinates.of(joint, reads)
    at = coordinates.cell[coordinates.p > 0]
    if isinstance(target, Mapping):
        for name, weight in target.items():
            if not (isinstance(weight, (int, float)) and 0 <= weight < float("inf")):
                raise InputError(f"the weight of target {name!r} must be a number, zero or more, got {weight!r}.")
        if not any(target.values()):
            raise InputError("a target needs a weight above zero.")
        return Goal(coordinates, sum(w * goal(joint, k, reads).cost for k, w in target.items() if w))
    if not isinstance(target, str):
        return Goal(coordinates, _given(target, at, joint.shape, reads))
    name = "joint" if target == "table" else target
    if name not in TARGETS:
        raise unknown("a target", target, (*TARGETS, "each"))
    if reads == "useful" and name != "useful":
        raise InputError(f"a mechanism that reads the useful variable alone tells nothing else: target {target!r} "
                         "needs reads='both'.")
    U = joint.shape[1]
    return Goal(coordinates, _mean_square({"joint": at, "useful": at % U, "secret": at // U}[name]))


def codes_of(joint: Joint, reads: str) -> dict[str, Ints]:
    """What a reader of a release looks at, each as a code of every input: the whole table, the secret, and each useful
    column by itself."""
    (S, U), sizes = joint.shape, tuple(c.size for c in joint.useful.columns)
    inputs = np.arange(S * U if reads == "both" else U)
    out = {"joint": inputs, "secret": inputs // U} if reads == "both" else {"useful": inputs} if len(sizes) > 1 else {}
    return out | {f"column {i}": code for i, code in enumerate(np.unravel_index(inputs % U, sizes))}


def parts_of(joint: Joint, reads: str = "both") -> dict[str, Goal]:
    """The goals of what a reader looks at."""
    coordinates = Coordinates.of(joint, reads)
    at = coordinates.cell[coordinates.p > 0]
    return {k: Goal(coordinates, _mean_square(code[at])) for k, code in codes_of(joint, reads).items()}


def mean_of(goals: Mapping[str, Goal], best: Mapping[str, float]) -> Goal:
    """The mean of the errors, each in units of the best one of its own: C = Σ C_k / (K f*_k)."""
    parts = [goals[name].cost / (len(best) * f) for name, f in best.items() if 0 < f < float("inf")]
    first = next(iter(goals.values()))
    return Goal(first.coordinates, sum(parts) if parts else first.cost)


def _mean_square(code: Ints) -> scipy.sparse.csr_array:
    """C of the mean square error of the sums over cells of one code."""
    found, place = np.unique(code, return_inverse=True)
    sums = scipy.sparse.csr_array((np.ones(len(code)), (place, np.arange(len(code)))), shape=(len(found), len(code)))
    return (sums.T @ sums / len(found)).tocsr()


def _given(target: object, at: Ints, shape: tuple[int, int], reads: str) -> Floats:
    try:
        weights = np.asarray(target, float)
    except (TypeError, ValueError):
        raise InputError(f"target must be a name, weights or sums of cells, got {type(target).__name__}.") from None
    if reads != "both" or weights.shape[-2:] != shape or weights.ndim not in (2, 3) or not np.isfinite(weights).all():
        raise InputError(f"weights must be finite, one for each cell {shape}, or a list of tables of coefficients, "
                         f"with reads='both', got shape {weights.shape}.")
    flat = weights.reshape(-1, shape[0] * shape[1])[:, at]
    if not flat.any() or (weights.ndim == 2 and (flat < 0).any()):
        raise InputError("weights of cells must not be negative, and some cell that occurs needs one above zero.")
    return np.diag(flat[0]) / len(at) if weights.ndim == 2 else np.asarray(flat.T @ flat / len(flat))


# --- laws in closed form, of any size: four weights, or one bit for each value ----------------------------------------


def closed_errors(law: Law, joint: Joint, reads: str) -> dict[str, float] | None:
    """n times the mean variance of what a reader looks at (see `codes_of`), or None where there is no closed form.

    All outputs of a law of four weights have the same ‖L‖², the sum over the effects, which Q multiplies by one number
    each, of their dimension over that number squared, divided by the number of cells: Σ Var = ‖L‖² − ‖p‖².
    """
    seen, tables = _tables(joint, reads)
    if isinstance(law, Unary):
        bits = _bits(*law.chances, seen).sum()
        return {name: float((bits + 1 - p @ p) / p.size) for name, p in tables.items()}
    if not isinstance(law, Cells):
        return None
    (s, u, both), r, k = law.spectrum, law.rows - 1, law.useful - 1
    effects = {name: [(p.size - 1, s if name == "secret" else u)] for name, p in tables.items()}
    effects |= {name: [(r, s), (k, u), (r * k, both)] for name, p in tables.items() if p.size == law.rows * law.useful}
    held = {x: 1 + sum(d / m**2 if abs(m) > DUST else math.inf for d, m in of if d) for x, of in effects.items()}
    return {name: max(held[name] / p.size - float(p @ p), 0.0) / p.size for name, p in tables.items()}


def untouched_errors(joint: Joint, reads: str) -> dict[str, float]:
    """The same for the table itself: sampling alone."""
    return {name: float((1 - p @ p) / p.size) for name, p in _tables(joint, reads)[1].items()}


def _tables(joint: Joint, reads: str) -> tuple[Floats, dict[str, Floats]]:
    """The distribution of the inputs, and that of each part of the table."""
    seen = joint.p.ravel() if reads == "both" else joint.p_useful
    return seen, {name: np.asarray(np.bincount(x, seen), np.float64) for name, x in codes_of(joint, reads).items()}


def _bits(on: float, off: float, p: Floats) -> Floats:
    """c(x) = [p on(1 − on) + (1 − p) off(1 − off)] / (on − off)²: what the bit of each cell adds to a variance."""
    if on - off <= DUST:
        return np.full(p.shape, math.inf)
    return np.asarray((p * on * (1 - on) + (1 - p) * off * (1 - off)) / (on - off) ** 2)
