"""Coarser tables: the commonest cells alone, the rest of every secret together.

Rows of the coarse table, spread over the fine one, are private there: by Cauchy–Schwarz (Hölder for other orders)
merging cells does not take a distribution out of a ball of the same radius. So a fine design is never worse than a
coarse one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.joint import Joint
from sfumato.optimise.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """A coarse table [s, group] and the group of every cell of the fine one [s, u]; groups differ from secret to
    secret."""

    joint: Joint
    group: Ints

    def spread(self, rows: Floats) -> Floats:
        """Rows over the coarse cells as rows over the fine ones."""
        S, U = self.group.shape
        cells = rows.reshape(len(rows), S, -1)
        return np.asarray(cells[:, np.arange(S)[:, None], self.group].reshape(len(rows), S * U))


def merged(joint: Joint, alone: int) -> Merged:
    """The `alone` commonest cells by themselves, the others of each secret in one group."""
    p = joint.p
    keep = np.zeros(p.size, bool)
    keep[np.argsort(-p.ravel(), kind="stable")[:alone]] = True
    keep = (keep & (p.ravel() > 0)).reshape(p.shape)  # type: ignore[assignment]
    group = np.where(keep, np.cumsum(keep, axis=1) - 1, keep.sum(1, keepdims=True))
    table = np.zeros((len(p), max(2, int(group.max()) + 1)))
    np.add.at(table, (np.arange(len(p))[:, None], group), p)
    return Merged(Joint.from_probabilities(table, n=joint.n), group)
