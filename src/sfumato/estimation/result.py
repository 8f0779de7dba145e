"""Estimate: the distribution behind released rows, with what is known about its error."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sfumato.alphabet import Alphabet, Floats
from sfumato.errors import InputError
from sfumato.estimation.bounds import Bounds
from sfumato.estimation.identifiable import Identifiable
from sfumato.estimation.intervals import simultaneous
from sfumato.estimation.inversion import COVARIANCE_CELLS, Inversion
from sfumato.estimation.simplex import on_simplex
from sfumato.estimation.summing import Summed
from sfumato.mechanism import Mechanism


@dataclass(frozen=True, eq=False)
class Marginal:
    """The estimated distribution of one variable, from the released rows directly.

    It need not equal the sums of a projected table: projecting a table moves its cells, and summing adds that up.
    """

    alphabet: Alphabet
    p: Floats
    inversion: Inversion = field(repr=False)
    sums: Floats | None = field(default=None, repr=False)  # [value, x], when it has to be bounded
    bounds: Bounds | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, alphabet: Alphabet, inversion: Inversion, project: bool, fitted: Floats, sums: Floats | None,
        bounds: Bounds | None,
    ) -> Marginal:
        """Unbiased where it is identified; otherwise the sums of the fitted table."""
        if not inversion.identified.all():
            return cls(alphabet, fitted, inversion, sums, bounds)
        raw = inversion.raw
        return cls(alphabet, on_simplex(raw) if project else raw, inversion)

    @property
    def identified(self) -> bool:
        return bool(self.inversion.identified.all())

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) that hold for all values of this variable at once, identified or not."""
        if self.bounds is None or self.sums is None:
            return simultaneous(self.inversion, level, self.p)
        low, high = self.bounds.interval(self.sums, level)
        return np.minimum(low, self.p), np.maximum(high, self.p)

    def by_column(self) -> tuple[Marginal, ...]:
        """The same for each column by itself, where the variable is made of several and is small enough to sum."""
        sizes = [column.size for column in self.alphabet.columns]
        if len(sizes) < 2 or self.p.size > COVARIANCE_CELLS:
            return (self,)
        digits = np.unravel_index(np.arange(self.p.size), sizes)
        return tuple(
            self._summed(Alphabet.of(column), np.equal.outer(np.arange(column.size), digit).astype(float))
            for column, digit in zip(self.alphabet.columns, digits, strict=True)
        )

    def _summed(self, alphabet: Alphabet, sums: Floats) -> Marginal:
        inversion = Summed(self.inversion, sums)
        fitted = np.asarray(sums @ self.p)
        whole = None if self.sums is None else np.asarray(sums @ self.sums)
        return Marginal.of(alphabet, inversion, bool((self.p >= 0).all()), fitted, whole, self.bounds)


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
    bounds: Bounds | None = field(default=None, repr=False)  # when not everything is identified

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
        """(low, high) that hold for all cells at once.

        A cell that cannot be identified gets the range of everything that agrees with the released rows (in
        tables too large for that, [0, 1]).
        """
        if self.bounds is None:
            return simultaneous(self.inversion, level, self.p)
        low, high = self.bounds.interval(np.eye(self.p.size), level)
        return np.minimum(low.reshape(self.p.shape), self.p), np.maximum(high.reshape(self.p.shape), self.p)

    @property
    def error(self) -> float:
        """Root of the summed variances: how far the raw table is from the truth, in all."""
        return float(np.sqrt(self.variance.sum()))
