"""What released rows tell for sure: intervals, and what can be identified however many rows there are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.estimation.inversion import DenseInversion, Inversion, Mask
from sfumato.mechanism import Mechanism

# --- intervals that hold for all cells of a table at once -------------------------------------------------------------


DRAWS = 4000  # of the Gaussian maximum: the quantile's own error is then 0.3 % of coverage
SIMULATED_NUMBERS = 40_000_000  # the most Gaussian numbers spent on one quantile; larger tables use Šidák's bound
FEWEST_DRAWS = 1000
FACTORED = 400  # cells up to which the covariance is factored once instead of being applied to every draw
SEED = 20260101  # intervals of the same data are the same


def critical(inversion: Inversion, level: float) -> float:
    """z with P(|p̂ − p| ≤ z·sd in every cell) = level in the normal limit.

    The quantile of max |Z| under the estimate's own correlations, by simulation; for large tables Šidák's
    z = Φ⁻¹((1 + level^{1/K})/2), which bounds it for every correlation.
    """
    sd = np.sqrt(inversion.variance.ravel())
    cells = int(inversion.identified.sum())
    draws = min(DRAWS, SIMULATED_NUMBERS // max(sd.size, 1))
    shown = inversion.identified.ravel() & (sd > 0)
    if draws < FEWEST_DRAWS or not shown.any():  # rows that are all alike show no spread, and are no certainty
        return NormalDist().inv_cdf((1 + level ** (1 / max(cells, 1))) / 2)
    if sd.size <= FACTORED:
        z = correlated(inversion.covariance()[np.ix_(shown, shown)], draws)
    else:
        z = inversion.deviations(np.random.default_rng(SEED), draws)[:, shown] / sd[shown]
    doubt = 2 * np.sqrt(level * (1 - level) / draws)  # of the simulation: err on the wide side
    return _quantile(np.abs(z).max(1), min(level + doubt, 1 - (1 - level) / 2))


def _quantile(values: Floats, share: float) -> float:
    """Between the two nearest order statistics; numpy's own loads its masked arrays, which takes longer than all of
    this."""
    ordered, place = np.sort(values), share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return float(ordered[low] + (place - low) * (ordered[high] - ordered[low]))


def correlated(covariance: Floats, draws: int) -> Floats:
    """Gaussian draws [i, cell] with unit variances and the correlations of a covariance."""
    sd = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    return np.asarray(_noise(draws, len(sd)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T)


@lru_cache(maxsize=4)
def _noise(draws: int, size: int) -> Floats:
    return np.random.default_rng(SEED).standard_normal((draws, size))


def simultaneous(inversion: Inversion, level: float, p: Floats) -> tuple[Floats, Floats]:
    """(low, high) around the unbiased estimate, inside [0, 1] and containing the estimate shown.

    Half width z·√(Var + z²·jump²/2): the second term is what Wilson's interval adds to a count (z²/2 more
    observations), without which a cell whose outputs were seen rarely or never gets an interval
    of almost no width. Cells that are not identified get [0, 1].
    """
    if not 0 < level < 1:
        raise InputError("the level must lie strictly between 0 and 1", value=level)
    z = critical(inversion, level)
    half = z * np.sqrt(inversion.variance + z**2 / 2 * inversion.jump**2)
    low = np.clip(np.minimum(inversion.raw - half, p), 0.0, 1.0)
    high = np.clip(np.maximum(inversion.raw + half, p), 0.0, 1.0)
    known = inversion.identified
    return np.where(known, low, 0.0), np.where(known, high, 1.0)


# --- what the released rows can tell about the inputs however many there are, and what they cannot --------------------


NAMED = 6  # cells that a sentence lists


@dataclass(frozen=True, eq=False)
class Identifiable:
    """True when the whole table is identified; otherwise says which cells and marginals are.

    p can be identified up to the null space of Q: Q p = Q p′ gives the same released rows. A linear functional
    c·p is identified if and only if c lies in the row space of Q.
    """

    rank: int
    inputs: int
    cells: Mask  # [s, u] or [u]
    secret: Mask | None  # [s]; None when the mechanism does not read the secret
    useful: Mask  # [u]
    sentence: str

    def __bool__(self) -> bool:
        return self.rank == self.inputs

    def __str__(self) -> str:
        return self.sentence


def identifiable(mechanism: Mechanism, whole: Inversion, secret: Inversion | None, useful: Inversion) -> Identifiable:
    """The summary of an inversion and of its two marginals."""
    known_s = None if secret is None else secret.identified
    return Identifiable(
        whole.rank, mechanism.inputs, whole.identified, known_s, useful.identified,
        _sentence(mechanism, whole, known_s, useful.identified),
    )


def _sentence(mechanism: Mechanism, whole: Inversion, secret: Mask | None, useful: Mask) -> str:
    names = {"secret": ", ".join(mechanism.secret.names), "useful": ", ".join(mechanism.useful.names)}
    table = f"p({names['secret']}; {names['useful']})" if secret is not None else f"p({names['useful']})"
    if whole.rank == mechanism.inputs:
        return f"Every cell of {table} can be identified (rank {whole.rank} of {mechanism.inputs})."
    parts = [f"Of {table} only {whole.rank} of {mechanism.inputs} dimensions can be identified."]
    sides = [("secret", secret)] if secret is not None else []
    for side, mask in [*sides, ("useful", useful)] if secret is not None else []:
        if mask is not None:
            verb = "can" if mask.all() else "cannot" if not mask.any() else "can only in part"
            parts.append(f"The distribution of {names[side]} {verb}.")
    parts.append(_cells(mechanism, whole.identified))
    return " ".join(parts)


def _cells(mechanism: Mechanism, known: Mask) -> str:
    lost = (~known).ravel().nonzero()[0]
    if lost.size == known.size:
        return "No single cell can."
    shown = []
    for x in lost[:NAMED]:
        s, u = divmod(int(x), mechanism.useful.size)
        both = f"{mechanism.secret.text(s)} · " if known.ndim == 2 else ""
        shown.append(both + mechanism.useful.text(u))
    more = f" and {lost.size - NAMED} more" if lost.size > NAMED else ""
    return f"These cells cannot: {', '.join(shown)}{more}." if lost.size else "Every cell can."


# --- everything that agrees with the released rows --------------------------------------------------------------------


LISTED = 40_000  # the largest |Y| × |X| for which the linear programmes are solved
FUNCTIONALS = 300


@dataclass(frozen=True, eq=False)
class Bounds:
    """The distributions p with Qp inside the simultaneous intervals of the output frequencies.

    The truth is among them with the stated probability, so the least and the greatest c·p over them bound any
    number of functionals c at once, whether or not they are identified.
    """
    q: Floats  # [y, x]
    f: Floats  # [y]
    n: int

    def interval(self, sums: Floats, level: float) -> tuple[Floats, Floats]:
        """(low, high) of each row of `sums`[i, x]; [0, 1] when there are too many or no p agrees."""
        low, high = np.zeros(len(sums)), np.ones(len(sums))
        if self.q.size > LISTED or len(sums) > FUNCTIONALS:
            return low, high
        from scipy.optimize import linprog

        eye = np.eye(len(self.f))
        outputs = DenseInversion(eye, self.f, self.n, self.f.shape, eye, eye, len(self.f))
        least, most = simultaneous(outputs, level, self.f)
        above, limits = np.vstack([self.q, -self.q]), np.concatenate([most, -least])
        total = np.ones((1, self.q.shape[1]))
        for i, c in enumerate(sums):
            found = [linprog(sign * c, above, limits, total, [1.0], (0, None)) for sign in (1, -1)]
            if all(x.status == 0 for x in found):
                low[i], high[i] = found[0].fun, -found[1].fun
        return np.clip(low, 0, 1), np.clip(high, 0, 1)
