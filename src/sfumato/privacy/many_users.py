"""Any measure about one person of a database, when everybody else is known to the adversary."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from sfumato.errors import InputError
from sfumato.privacy.channel import as_channel
from sfumato.privacy.reading import Measure, Reading


@dataclass(frozen=True, slots=True)
class Person:
    """The reading for the worst person, who it is, and the others' records then (with a 0 at the person's place)."""

    reading: Reading
    person: int
    others: tuple[int, ...]


def about_one_person(measure: Measure, channel: npt.ArrayLike, sizes: tuple[int, ...]) -> Person:
    """max_i max_{x_{−i}} of the measure for X_i → Y with x_{−i} held; inputs are (x_1, …, x_n), last fastest.

    For L_{α,β} this is the multi-user leakage [004, (16)], so the paper's conjecture holds: given x_{−i} the chain U
    − X_i − Y is that of one user, so numerator and denominator of (16) are sums over x_{−i} whose terms have ratio at
    most exp((α−1)β/α · L_{α,β}(X_i → Y | x_{−i})), and so has the ratio of the sums; putting all mass on the worst
    x_{−i} attains it. α = β gives Rényi DP, α = β = ∞ DP, between databases that differ in one record.
    """
    q = as_channel(channel)
    if prod(sizes) != q.shape[1]:
        raise InputError(f"sizes {sizes} make {prod(sizes)} databases, the channel has {q.shape[1]} inputs.")
    cube = q.reshape(q.shape[0], *sizes)
    worst: Person | None = None
    for i in range(len(sizes)):
        slices = np.moveaxis(cube, i + 1, -1)
        for others in np.ndindex(*slices.shape[1:-1]):
            reading = measure.of(slices[(slice(None), *others)])
            if worst is None or reading.value > worst.reading.value:
                worst = Person(reading, i, (*others[:i], 0, *others[i:]))
    assert worst is not None
    return worst
