"""Information that a mechanism keeps: I(S, U; Y), I(U; Y) and I(S; Y), in closed form where a law has one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.mechanism.cells import Cells, Conditional, Constant
from sfumato.mechanism.law import scale
from sfumato.mechanism.product import UNLISTED, Product
from sfumato.mechanism.subset_laws import Blocks, Unary
from sfumato.mechanism.table import Layout, Table
from sfumato.optimise.arrays import xlogx
from sfumato.tolerances import LEAST, LISTED

if TYPE_CHECKING:
    from sfumato.alphabet import Ints


# --- I(X;Y) of unary encodings (OUE, SUE) without listing their 2^a outputs -------------------------------------------
# Output bits are independent given x: bit x is 1 with probability `on`, the others with probability `off`. With g =
# on/off and h = (1−on)/(1−off), P(y|x) = P₀(y)·(g if y_x else h), P₀ the law of all bits at `off`. So I(X;Y) = on·log
# g + (1−on)·log h − E L log L, where L = h + (g−h) Σ_x p_x y_x has mean 1 under P₀, whose bits are independent. And as
# log L = ∫ (e^{−z} − e^{−Lz}) dz/z, E L log L = ∫ (e^{−z} − E L e^{−Lz}) dz/z, whose expectation is a product [ours].


@dataclass(frozen=True, slots=True)
class Nodes:
    """Where that integral is summed, at z = e^y. It is analytic for |Im y| < π/2, and what the trapezoidal rule misses
    falls as e^{−π²/step}: below the rounding of floats here."""

    step: float = 0.2
    first: float = -18.0  # of y + log g: to the left, terms fall as e^y to within e^{−36}, a geometric series
    last: float = 38.0  # E L e^{−Lz} ≤ 1/(ez) says that no more than e^{−38} is left
    spent: float = 40.0  # of zL from which e^{−zL} is nothing
    at_once: int = 1 << 12  # masses


NODES = Nodes()
RUN = 256  # outputs of a layout in a row whose differences are summed: rounding stays below as many units


def unary_information(p: Floats, on: float, off: float) -> float:
    """I(X;Y) for the law p of x, to within the rounding of floats.

    >>> round(unary_information(np.full(40, 1 / 40), 0.5, 0.25), 12)
    0.139680545879
    """
    p = p[p > 0.0]
    if len(p) < 2 or on == off:
        return 0.0
    if off == 0.0:
        return on * float(-(p * np.log(p)).sum())  # the bit tells x, or nothing does
    g, h = on / off, (1 - on) / (1 - off)
    first = on * math.log(g) + ((1 - on) * math.log(h) if h > 0 else 0.0)
    return first - _mean(*np.unique(p, return_counts=True), off, g, h)


def _mean(masses: Floats, times: Ints, off: float, g: float, h: float) -> float:
    """E L log L; equal masses count together."""
    last = min(NODES.last, math.log(NODES.spent / max(h, LEAST)))
    z = np.exp(NODES.step * np.arange((NODES.first - math.log(g)) // NODES.step, last / NODES.step))
    log, slope = -h * z, np.full(len(z), h)  # of E e^{−Lz}, less its factors, and of its logarithm
    for at in range(0, len(masses), NODES.at_once):
        p, n = masses[at : at + NODES.at_once], times[at : at + NODES.at_once]
        low = off * np.expm1(-(g - h) * np.multiply.outer(z, p))
        log, slope = log + np.log1p(low) @ n, slope + (g - h) * (((off + low) / (1 + low)) @ (n * p))
    terms = np.exp(-z) - slope * np.exp(log)
    return NODES.step * float(terms.sum() + terms[0] / math.expm1(NODES.step))


@dataclass(frozen=True, slots=True)
class Information:
    """What a release tells: about the whole record, the useful part and the secret, in nats at the given joint."""

    both: float  # I(S, U; Y)
    useful: float  # I(U; Y)
    secret: float  # I(S; Y)


def _table(law: Table, p: Floats) -> Information:
    return _listed(np.asarray(law.weights, float).reshape(law.outputs, law.rows, law.useful) / scale(law.bits), p)


def _matrix(law: Product | Blocks, p: Floats) -> Information:
    q = law.matrix()
    if q is None:
        raise InputError(UNLISTED)
    return _listed(q.reshape(-1, law.rows, law.useful), p)


def _listed(q: Floats, p: Floats) -> Information:
    """From Q[y, s, u], with one s for all when the secret is not read."""
    parts = [np.broadcast_to(q[:, min(s, q.shape[1] - 1)], (len(q), q.shape[2])) for s in range(len(p))]
    mean = sum(part @ row for part, row in zip(parts, p, strict=True))
    of_y = -xlogx(mean).sum()
    given_both = -sum(float((xlogx(part) @ row).sum()) for part, row in zip(parts, p, strict=True))
    ps = p.sum(1)
    given_s = -sum(float(m * xlogx(part @ (row / m)).sum()) for part, row, m in zip(parts, p, ps, strict=True) if m)
    pu = p.sum(0)
    joint_yu = sum(part * row for part, row in zip(parts, p, strict=True))
    given_u = -float((xlogx(joint_yu / np.where(pu > 0, pu, 1)) * pu).sum())
    return Information(of_y - given_both, of_y - given_u, of_y - given_s)


def _cells(law: Cells, p: Floats) -> Information:
    """In O(|S||U|): the law of Y given x is the same four weights for every x, and P(y|s), P(y|u) are two-valued."""
    w11, w10, w01, w00 = law.chances
    rows, k = law.rows, law.useful
    if rows == 1 and len(p) > 1:
        both = _cells(law, p.sum(0, keepdims=True)).both
        return Information(both, both, _secret_of_cells(law, p))
    given_both = -sum(n * float(xlogx(w)) for w, n in zip((w11, w10, w01, w00), law.copies, strict=True))
    ps, pu = p.sum(1, keepdims=True), p.sum(0, keepdims=True)
    mean = w00 + (w10 - w00) * ps + (w01 - w00) * pu + (w11 - w10 - w01 + w00) * p
    of_y = -float(xlogx(mean).sum())
    of_u = np.divide(p, ps, out=np.zeros_like(p), where=ps > 0)
    own, other = w10 + (w11 - w10) * of_u, w00 + (w01 - w00) * of_u
    given_s = -float((ps * (xlogx(own) + (rows - 1) * xlogx(other))).sum())
    of_s = np.divide(p, pu, out=np.zeros_like(p), where=pu > 0)
    match, miss = w01 + (w11 - w01) * of_s, w00 + (w10 - w00) * of_s
    given_u = -float((pu * (xlogx(match) + (k - 1) * xlogx(miss))).sum())
    return Information(of_y - given_both, of_y - given_u, of_y - given_s)


def _conditional(law: Conditional, p: Floats) -> Information:
    base, keep = (np.asarray(x, float) / scale(law.bits) for x in (law.base, law.keep[:, None]))
    ps, pu = p.sum(1, keepdims=True), p.sum(0)
    of_s = base * ps + keep * p  # joint of s and y
    of_y = -float(xlogx(of_s.sum(0)).sum())
    given_s = -float((xlogx(np.divide(of_s, ps, out=np.zeros_like(of_s), where=ps > 0)) * ps).sum())
    each = xlogx(base).sum(1, keepdims=True) - xlogx(base) + xlogx(base + keep)
    given_both = -float((p * each).sum())
    of_uy = p.T @ base + np.diag((keep * p).sum(0))
    given_u = -float((xlogx(of_uy / np.where(pu > 0, pu, 1)[:, None]) * pu[:, None]).sum())
    return Information(of_y - given_both, of_y - given_u, of_y - given_s)


def _unary(law: Unary, p: Floats) -> Information:
    """I(X;Y), and I(S;Y) = I(X;Y) − I(X;Y|S), likewise for U [errata 001, OUE]."""

    def within(laws: Floats) -> float:
        """Σ m·I(X;Y|group) over the groups, rows of unnormalised laws."""
        return sum(float(m) * unary_information(row / m, *law.chances) for row in laws if (m := row.sum()) > 0)

    total = unary_information((p if law.rows > 1 else p.sum(0)).ravel(), *law.chances)
    return Information(total, total - within(p.T) if law.rows > 1 else total, total - within(p))


def _layout(law: Layout, p: Floats) -> Information:
    """Outputs by their lengths: I(X;Y) = Σ_y |y| (Σ p h log h − z log z), with heights h and z = Σ p h per unit."""
    width = np.asarray(law.widths, float) / float(np.sum(law.widths))
    unit = float(np.sum(law.widths)) / scale(law.bits)
    z, both, secret = np.zeros(law.outputs), 0.0, 0.0
    for s, (x, h) in enumerate(zip(law.lengths, law.heights, strict=True)):
        tall, share, mass = np.asarray(h, float) * unit, x / np.sum(x), p[s].sum()
        of_s = tall @ p[s]
        z += of_s[law.atoms_at[:, s]]
        both += float(share @ (xlogx(tall) @ p[s]))
        secret += float(share @ xlogx(of_s / mass)) * mass if mass else 0.0
    told, listed = float(width @ xlogx(z)), law.outputs * law.useful <= LISTED
    useful = _of_useful(law, p, unit, width) if listed else float("nan")
    return Information(both - told, useful - told, secret - told)


def _of_useful(law: Layout, p: Floats, unit: float, width: Floats) -> float:
    """Σ_y |y| Σ_u p(u) φ(h), h = Σ_s p(s|u) times its height.

    From one output to the next few secrets come to another atom: only what these change is added.
    """
    heights, first = np.concatenate(law.heights), np.cumsum([0, *(len(x) for x in law.lengths[:-1])])
    told, pu = 0.0, p.sum(0)
    for start in range(0, law.outputs, RUN):
        at = law.atoms_at[start : start + RUN] + first
        y, s = np.nonzero(at[1:] != at[:-1])
        here, begins = np.unique(y, return_index=True)
        rows = np.zeros((len(at), law.useful))
        rows[0] = (heights[at[0]] * p).sum(0)
        if len(y):
            rows[here + 1] = np.add.reduceat((heights[at[y + 1, s]] - heights[at[y, s]]) * p[s], begins)
        h = np.cumsum(rows, 0) * (unit / np.where(pu > 0, pu, 1))
        told += float(width[start : start + RUN] @ (xlogx(h) @ pu))
    return told


def _constant(law: Constant, p: Floats) -> Information:
    return Information(0.0, 0.0, 0.0)


_BY_KIND: dict[str, Callable[..., Information]] = {  # (law of this kind, p) → what it keeps
    Table.kind: _table, Blocks.kind: _matrix, Cells.kind: _cells, Conditional.kind: _conditional, Unary.kind: _unary,
    Constant.kind: _constant, Layout.kind: _layout, Product.kind: _matrix,
}


def information(mechanism: Mechanism, joint: Joint) -> Information:
    """I(S, U; Y), I(U; Y) and I(S; Y) of a mechanism under a joint."""
    if joint.shape != (mechanism.secret.size, mechanism.useful.size) and mechanism.secret.size > 1:
        raise InputError(
            f"the mechanism is for {mechanism.secret.size} × {mechanism.useful.size} values, the joint for "
            f"{joint.shape[0]} × {joint.shape[1]}."
        )
    found = _BY_KIND[mechanism.law.kind](mechanism.law, joint.p)
    return Information(max(0.0, found.both), max(0.0, found.useful), max(0.0, found.secret))


def _secret_of_cells(law: Cells, p: Floats) -> float:
    """I(S; Y) for a cell response that reads U alone."""
    hit, miss, *_ = law.chances
    ps = p.sum(1, keepdims=True)
    laws = miss + (hit - miss) * np.divide(p, ps, out=np.zeros_like(p), where=ps > 0)
    return float((ps * xlogx(laws)).sum() - xlogx((ps * laws).sum(0)).sum())


def mutual_information(mechanism: Mechanism, joint: Joint) -> float:
    """I(X; Y) in nats, X being what the mechanism reads: (S, U), or U alone."""
    return information(mechanism, joint).both


def nmi(mechanism: Mechanism, joint: Joint) -> float:
    """I(X; Y) / H(X): the share of the input's entropy that survives."""
    whole = joint.entropy if mechanism.reads == "both" else joint.entropy_useful
    return mutual_information(mechanism, joint) / whole if whole > 0 else 0.0
