"""Estimate: the distribution behind released rows, with what is known about its error."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sfumato.alphabet import Alphabet, Floats
from sfumato.errors import InputError
from sfumato.estimation.identifiable import Identifiable
from sfumato.estimation.intervals import simultaneous
from sfumato.estimation.inversion import COVARIANCE_CELLS, Inversion
from sfumato.estimation.simplex import on_simplex
from sfumato.mechanism import Mechanism


@dataclass(frozen=True, eq=False)
class Marginal:
    """The estimated distribution of one variable, from the released rows directly.

    It need not equal the sums of a projected table: projecting a table moves its cells, and summing adds that up.
    """

    alphabet: Alphabet
    p: Floats
    inversion: Inversion = field(repr=False)

    @classmethod
    def of(cls, alphabet: Alphabet, inversion: Inversion, project: bool) -> Marginal:
        raw = inversion.raw
        return cls(alphabet, on_simplex(raw) if project else raw, inversion)

    @property
    def identified(self) -> bool:
        return bool(self.inversion.identified.all())

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) that hold for all values of this variable at once."""
        return simultaneous(self.inversion, level, self.p)


@dataclass(frozen=True, eq=False)
class Estimate:
    """p[s, u] (or p[u] when the mechanism reads U alone) estimated from n released rows."""

    p: Floats
    n: int
    method: str  # 'inverse' or 'em'
    decode: str  # how the rows had been decoded
    identifiable: Identifiable
    secret: Marginal | None
    useful: Marginal
    notes: tuple[str, ...]
    mechanism: Mechanism = field(repr=False)
    inversion: Inversion = field(repr=False)

    @property
    def raw(self) -> Floats:
        """The unbiased estimate before projection; some values may be negative."""
        return self.inversion.raw

    @property
    def variance(self) -> Floats:
        """Variance of each value of `raw`."""
        return self.inversion.variance

    @property
    def covariance(self) -> Floats:
        """Covariance [x, x] of `raw`, x = s·|U| + u."""
        if self.raw.size > COVARIANCE_CELLS:
            raise InputError(
                f"a covariance of {self.raw.size} × {self.raw.size} numbers is too large to build; "
                "use .variance, or the marginals .secret and .useful."
            )
        return self.inversion.covariance()

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) that hold for all cells at once; [0, 1] where a cell cannot be identified."""
        return simultaneous(self.inversion, level, self.p)

    @property
    def error(self) -> float:
        """Root of the summed variances: how far the raw table is from the truth, in all."""
        return float(np.sqrt(self.variance.sum()))
