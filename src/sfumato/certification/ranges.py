"""Levels over a set that states its own ranges: as true as the statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.certification.vertices import LISTED
from sfumato.certification.witness import Attained
from sfumato.errors import InputError
from sfumato.mechanism import Atoms, Mechanism, Rows, Spikes, Subsets
from sfumato.privacy.rldp import subset_bound
from sfumato.uncertainty.pairs import best_pairs
from sfumato.uncertainty.stated import Custom

if TYPE_CHECKING:
    from sfumato.mechanism.law import Weight, Weights

SPARE = 1 + 1e-12  # for turning integers into floats and back; the ranges themselves are taken as given


def over_ranges(mechanism: Mechanism, within: Custom) -> Attained:
    """The product of the ranges that a trusted set gives for its secrets."""
    if not within.trusted:
        raise InputError(
            f"the set {within.name!r} states its ranges but not that they are proved, so nothing can be released "
            "under it",
            next="If they are, say so with trusted=True; the certificate will say that the bounds are given by the "
            "set.",
        )
    best = Attained(1.0, {})
    s, u = within.joint.shape
    if s < 2:
        return best
    for contrast in mechanism.law.contrasts():
        match contrast:
            case Rows():
                best = best.or_worse(_worst(within, contrast.floats, contrast.floats))
            case Spikes() as c:
                best = best.or_worse(_worst(within, _peaks(c.base_first, c.peak_first, s, u),
                                            _peaks(c.base_second, c.peak_second, s, u)))
            case Atoms() as c:
                low, high = within.ranges_of(np.asarray(c.heights, float), c.secret)
                top, bottom = np.zeros((s, 1)), np.full((s, 1), np.inf)
                np.maximum.at(top[:, 0], c.secret, high)
                np.minimum.at(bottom[:, 0], c.secret, low)
                best = best.or_worse(Attained(float(best_pairs(top, bottom).max()) * SPARE, {}))
            case Subsets() as c if u <= LISTED:
                members = ((np.arange(2**u)[:, None] >> np.arange(u)) & 1).astype(bool)
                rows = np.where(members, float(c.high), float(c.low))[:, None, :]
                best = best.or_worse(_worst(within, rows, rows))
            case Subsets() as c:
                best = best.or_worse(Attained(subset_bound(within, float(c.low), float(c.high)) * SPARE, {}))
    return best


def _peaks(base: Weight, peak: Weight, s: int, u: int) -> Weights:
    at = np.eye(u, dtype=bool)[:, None, :]
    spread = [np.broadcast_to(np.asarray(x, float), (s, u)).T[:, :, None] for x in (base, peak)]
    return np.where(at, spread[1], spread[0])


def _worst(within: Custom, first: Weights, second: Weights) -> Attained:
    high, low = within.ranges(np.asarray(first, float))[1], within.ranges(np.asarray(second, float))[0]
    return Attained(float(best_pairs(high.T, low.T).max()) * SPARE, {})
