"""Agreeing: estimated tables as margins of one distribution: shares from 0 on, the same wherever a column occurs."""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.estimation.inversion import COVARIANCE_CELLS, Inversion
from sfumato.estimation.scores import PairInversion, centred

STEPS = 2000  # of alternating projections
CLOSE = 1e-12  # a negative share that is left to the last step
LISTED = 20_000_000  # numbers of a covariance that is worked out to see how much noise there is


def agreeing(inversion: Inversion, first: Floats, second: Floats) -> Floats:
    """The table of two columns whose own shares are known: nearest to the estimate, with these margins, none below 0.

    What the columns have to do with each other is drawn towards independence by as much as noise explains (`kept`):
    where it explains all of it, they are shown as independent.
    """
    shape = (len(first), len(second))
    raw, even = inversion.raw.reshape(shape), np.outer(first, second)
    if not inversion.identified.all():
        return even
    told = centred(raw - even, shape)
    return _with_margins(even + kept(inversion, told) * told, first, second)


def kept(inversion: Inversion, told: Floats) -> float:
    """The share of an interaction that is not put down to noise: James and Stein's 1 − (tr Σ − 2 λ_max) / ‖x‖², or 0.

    For normal x with covariance Σ, x(1 − a/‖x‖²) has a smaller squared error than x for 0 < a < 2(tr Σ − 2 λ_max): by
    Stein's identity the difference is E[(a² − 2a (tr Σ − 2 xᵀΣx/‖x‖²))/‖x‖²]. Cut at 0 it is smaller still. Here Σ
    is estimated and independence is too, which costs little where all columns are told better than two together.
    """
    cells = told.size
    if isinstance(inversion, PairInversion) and inversion.a.size * inversion.b.size > LISTED:
        return 1.0
    if cells > COVARIANCE_CELLS:
        return 1.0
    noise = centred(centred(inversion.covariance(), told.shape).T, told.shape)
    spread = float(np.trace(noise) - 2 * np.linalg.eigvalsh(noise)[-1])
    size = float((told**2).sum())
    return max(0.0, 1 - max(spread, 0.0) / size) if size > 0 else 0.0


def _with_margins(table: Floats, first: Floats, second: Floats) -> Floats:
    """The nearest table with these margins and no negative cell, by Dykstra's alternating projections; the last step
    mixes in as much of the independent table as the last negative shares need, which has the same margins."""
    out = np.zeros(table.shape)
    live = np.ix_(first > 0, second > 0)
    a, b = first[first > 0], second[second > 0]
    even, q = np.outer(a, b), table[live]
    q = _moved(q, a, b)
    change = np.zeros(q.shape)
    for _ in range(STEPS):
        if q.min() >= -CLOSE:
            break
        positive = np.maximum(q + change, 0.0)
        change += q - positive
        q = _moved(positive, a, b)
    low = q < 0
    mixed = float((-q[low] / (even[low] - q[low])).max()) if low.any() else 0.0
    out[live] = np.maximum((1 - mixed) * q + mixed * even, 0.0)
    return out


def _moved(q: Floats, a: Floats, b: Floats) -> Floats:
    """The nearest table with margins a and b."""
    rows, others = a - q.sum(1), b - q.sum(0)
    return np.asarray(q + rows[:, None] / len(b) + others / len(a) - rows.sum() / q.size)
