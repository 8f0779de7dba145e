"""What no private mechanism exceeds at P̂, what a release tells at least over a set, and what one output is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.optimise.arrays import information as information_of
from sfumato.optimise.arrays import most_told, xlogx
from sfumato.privacy.measures import STARTS
from sfumato.tolerances import EXPONENT, HALVINGS, RANK, SLIP, SQUARE
from sfumato.uncertainty import ChiSquareBall, Exactly, UncertaintySet
from sfumato.uncertainty.power_tilting import mass_range


def ceiling(joint: Joint, epsilon: float, *, reads: str = "both", notion: str = "rldp") -> float:
    """H(U|S) + min{H(S), κ − 1 − log κ} with κ = ε / (1 − e^{−ε}), in nats (ours).

    I(X;Y) = I(S;Y) + I(U;Y|S). The second term is at most H(U|S). For the first, P(y|s) lies within a factor e^ε
    of every other, and the greatest mutual information of such a channel, over all priors, is κ − 1 − log κ.
    A mechanism that reads U alone is also limited by H(U). ε-LIP and ε-SRLIP allow 2ε between two secrets and
    I(S;Y) ≤ ε; ε-PML allows I(S;Y) ≤ ε, the mean of log P(y|s)/P(y); a claim of that alone ('mi') allows no less.

    >>> joint = Joint.from_counts([[1, 1], [1, 1]])
    >>> round(ceiling(joint, 0.0), 6), round(ceiling(joint, 100.0), 6)
    (0.693147, 1.386294)
    """
    told = ("lip", "srlip", "pml", "mi")  # that bound I(S;Y) by ε
    about_secret = min(joint.entropy_secret, epsilon) if notion in told else joint.entropy_secret
    if notion not in ("mi", "pml"):
        about_secret = min(about_secret, most_told(2 * epsilon if notion in ("lip", "srlip") else epsilon))
    limit = joint.entropy_useful_given_secret + about_secret
    return limit if reads == "both" else min(limit, joint.entropy_useful)


# --- what a release tells at least, over all distributions in a set ---------------------------------------------------
# Mutual information is concave in P, so its minimum is hard; a proved lower bound and the worst point found enclose
# it.


@dataclass(frozen=True, slots=True, eq=False)
class LeastInformation:
    """I(input; Y) over a set: at least `proved`, at most `found`, which is its value at `p`."""
    proved: float
    found: float
    p: Floats  # the distribution of the worst value found, as [s, u] (or [u])


def least_information(mechanism: Mechanism, within: UncertaintySet, *, seed: int = 0) -> LeastInformation:
    """The least I(input; Y) over the set, enclosed (ours).

    J(μ) = Σ_x μ_x D(Q_x ‖ Qμ/|μ|) is concave. With L_x = min P_x over F every P in F lies in the simplex with corners
    L + (1 − ΣL)·e_x, and a concave function on a simplex is least at a corner. The search walks from corner to corner
    of F itself along the gradient.
    """
    if isinstance(within, Exactly):
        p = mechanism.input_law(within.joint)
        told = information_of(_matrix(mechanism), p)
        return LeastInformation(told * (1 - SLIP), told, p)
    if not isinstance(within, ChiSquareBall):
        raise InputError(f"the least information over a set of kind {within.kind!r} is not known how to bound.")
    q = _matrix(mechanism)
    p = mechanism.input_law(within.joint)
    floor = mass_range(p, np.array(1 + within.radius))[0] * (1 - SLIP)
    corners = _corner_values(q, floor)
    rng = np.random.default_rng(seed)
    best, at = np.inf, p
    for start in range(STARTS):
        begin = 0.5 * p + 0.5 * rng.dirichlet(np.full(len(p), 0.3)) if start else p
        value, point = _descend(q, mechanism, within, begin)
        if value < best:
            best, at = value, point
    return LeastInformation(max(0.0, float(corners.min()) * (1 - SLIP)), best, at)


def _matrix(mechanism: Mechanism) -> Floats:
    q = mechanism.matrix
    if q is None:
        raise InputError("the least information needs the matrix of the mechanism, which is too large to list.")
    return q


def _corner_values(q: Floats, floor: Floats) -> Floats:
    """I at every corner L + (1 − ΣL)·e_x."""
    spare = 1 - floor.sum()
    each, base = xlogx(q).sum(0), q @ floor
    spoken = np.array([xlogx(base + spare * q[:, x]).sum() for x in range(q.shape[1])])
    return np.asarray(each @ floor + spare * each - spoken)


def _descend(q: Floats, mechanism: Mechanism, ball: ChiSquareBall, p: Floats) -> tuple[float, Floats]:
    """Minimise the linearisation over the ball until the value stops falling; both steps are exact."""
    best, at = np.inf, p
    shape = ball.joint.shape
    for _ in range(HALVINGS):
        with np.errstate(divide="ignore"):
            slope = xlogx(q).sum(0) - np.where(q > 0, q, 0).T @ np.nan_to_num(np.log(q @ p), neginf=-EXPONENT)
        full = slope.reshape(shape) if mechanism.reads == "both" else np.broadcast_to(slope, shape)
        joint = ball.support(-np.asarray(full)).p
        p = joint.ravel() if mechanism.reads == "both" else joint.sum(0)
        value = information_of(q, p)
        if not value < best - SLIP:
            break
        best, at = value, p
    return best, at


# --- what one output is worth: expected loss, and how often the input is recovered ------------------------------------


def loss_of(mechanism: Mechanism, distance: Floats) -> Floats:
    """E[d(u, Y) | s, u] as [s, u] (one row for a mechanism that reads U alone); distance[u, y]."""
    q = mechanism.matrix
    if q is None:
        raise InputError(f"{mechanism.outputs} outputs of {mechanism.inputs} inputs are too many to list.")
    if distance.shape != (mechanism.useful.size, mechanism.outputs):
        raise InputError(
            f"distance must be a matrix of {mechanism.useful.size} useful values by {mechanism.outputs} outputs, got "
            f"shape {distance.shape}."
        )
    rows = q.reshape(len(q), mechanism.law.rows, mechanism.law.useful)
    return np.asarray(np.einsum("ysu,uy->su", rows, distance))


def expected_distortion(mechanism: Mechanism, source: Joint | UncertaintySet, distance: Floats) -> float:
    """E d(U, Y) under a joint, or the greatest over a set of them (over a χ² ball never too small)."""
    joint = source if isinstance(source, Joint) else source.joint
    c = np.broadcast_to(loss_of(mechanism, np.asarray(distance, float)), joint.shape)
    return float((c * joint.p).sum()) if isinstance(source, Joint) else source.support(c).value


# --- whether, and how well, the distribution of the input can be estimated from what is released ----------------------


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """The rank of Q against the number of inputs, its condition, and standard errors of cells from n released rows."""

    rank: int
    inputs: int
    condition: float
    n: int
    standard_errors: Floats | None  # in the shape of the input's distribution; None when some cell is not identified

    @property
    def complete(self) -> bool:
        """Whether every cell of the input's distribution can be estimated."""
        return self.rank == self.inputs


def recovery(mechanism: Mechanism, joint: Joint, n: int | None = None) -> Recovery | None:
    """How well p can be recovered at this joint; None for mechanisms too large to list.

    The best unbiased linear estimate has covariance ((Qᵀ diag(1/P(y)) Q)⁻¹ − p pᵀ) / n.
    """
    q = mechanism.matrix
    if q is None or q.shape[1] > SQUARE:
        return None
    rows = n if n is not None else joint.n if joint.n is not None else 1
    p = mechanism.input_law(joint)
    law = q @ p
    seen = law > 0
    weighted = q[seen] / np.sqrt(law[seen])[:, None]
    values = np.linalg.svd(weighted, compute_uv=False)
    rank = int((values > RANK * values[0]).sum())
    if rank < q.shape[1]:
        return Recovery(rank, q.shape[1], np.inf, rows, None)
    variance = np.diag(np.linalg.inv(weighted.T @ weighted)) - p**2
    errors = np.sqrt(np.maximum(variance, 0) / rows)
    shape = joint.shape if mechanism.reads == "both" else (joint.shape[1],)
    return Recovery(rank, q.shape[1], float(values[0] / values[-1]), rows, errors.reshape(shape))
