"""SRLIP: side-channel resistant LIP, for an attacker who knows any of the attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism


def side_channels(attributes: int) -> list[tuple[int, ...]]:
    """Every subset J of the attributes but the full one, where Y says nothing more about S."""
    return [known for size in range(attributes) for known in combinations(range(attributes), size)]


def attributes(joint: Joint) -> tuple[int, ...]:
    """The sizes of x¹, …, x^m: the columns of the useful variable."""
    return tuple(column.size for column in joint.useful.columns)


@dataclass(frozen=True, slots=True, eq=False)
class SRLIP:
    """max |log P(y|s,x^J) / P(y|x^J)| over y, s, J and x^J [001, Def. 3]; x^j are the columns of the useful variable.

    With one column it is LIP. J = all attributes is left out: a mechanism on X says nothing more about S then.

    >>> from sfumato.mechanism import Tabular
    >>> joint = Joint.from_counts([[3, 1], [1, 3]])
    >>> round(SRLIP(joint).level(Tabular([[0.75, 0.25], [0.25, 0.75]], joint=joint, reads="useful")), 6)
    0.287682
    """

    joint: Joint

    def level(self, mechanism: Mechanism) -> float:
        q = mechanism.matrix
        if q is None:
            raise InputError("the SRLIP level needs the matrix of the mechanism, which is too large to list.")
        sizes = attributes(self.joint)
        rows = q.reshape(len(q), mechanism.law.rows, -1)
        worst = 0.0
        for each in rows:
            row = np.broadcast_to(each, self.joint.shape)
            worst = max(worst, output_level(self.joint.p.reshape(-1, *sizes), row.reshape(-1, *sizes)))
        return worst


def output_level(p: Floats, row: Floats) -> float:
    """The SRLIP level of one output: p[s, x¹…x^m] and Q(y|·) of the same shape."""
    worst = 0.0
    for known in side_channels(p.ndim - 1):
        hidden = tuple(j + 1 for j in range(p.ndim - 1) if j not in known)
        worst = max(worst, largest_shift(p.sum(axis=hidden), (p * row).sum(axis=hidden)))
    return worst


def product_level(p: Floats, mechanisms: Sequence[Floats]) -> float:
    """The SRLIP level of Q¹ ⊗ … ⊗ Q^m (each [y^j, x^j]) for the table p[s, x¹, …, x^m].

    Given x^J the outputs y^J are independent of everything else, so they cancel: it is enough to send the attributes
    outside J through their mechanisms and to compare P(s | x^J, y^∖J) with P(s | x^J) [ours].
    """
    worst = 0.0
    for known in side_channels(p.ndim - 1):
        seen = p
        for j, matrix in enumerate(mechanisms):
            if j not in known:
                seen = np.moveaxis(np.tensordot(seen, matrix, axes=(j + 1, 1)), -1, j + 1)
        hidden = tuple(j + 1 for j in range(p.ndim - 1) if j not in known)
        worst = max(worst, largest_shift(np.broadcast_to(p.sum(axis=hidden, keepdims=True), seen.shape), seen))
    return worst


def largest_shift(prior: Floats, posterior: Floats) -> float:
    """max |log (posterior_s/Σ posterior) / (prior_s/Σ prior)| where the prior is positive and the output occurs."""
    total, mass = posterior.sum(axis=0, keepdims=True), prior.sum(axis=0, keepdims=True)
    counts = (prior > 0.0) & (total > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.abs(np.log((posterior * mass) / (prior * total)))
    worst = float(np.where(counts, shift, 0.0).max(initial=0.0))
    return worst if math.isfinite(worst) else math.inf
