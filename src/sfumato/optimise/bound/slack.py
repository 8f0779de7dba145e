"""What the conditionals of F share, for every order alike: Σ_s P̂_s T(D_s) ≤ total."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.optimise.arrays import Floats
from sfumato.optimise.budget import spend
from sfumato.tolerances import HALVINGS
from sfumato.uncertainty import ChiSquareBall, RenyiBall
from sfumato.uncertainty.power_tilting import kappa

INWARD = 1e-9  # relative: budgets are made this much smaller, so that rounding leaves every law used here inside F


@dataclass(frozen=True, slots=True)
class Slack:
    """The order as κ = (α − 1)/α and the total price T(B) that conditionals may spend together.

    Conditionals with divergences D_s occur together in F iff Σ_s P̂_s T(D_s) ≤ T(B), T(D) = (e^{κD} − 1)/κ
    (uncertainty/power_tilting.py). A χ² ball is κ = 1/2, T(D) = 2(√C − 1), total 2b.
    """

    kappa: float
    total: float

    @staticmethod
    def of(within: Any) -> Slack | None:
        """Of a ball, or of the slack b of a χ² ball given as a number; None for any other set."""
        if isinstance(within, RenyiBall):
            return Slack(kappa(within.alpha), within.budget)
        if isinstance(within, ChiSquareBall):
            return Slack(0.5, 2.0 * within.slack)
        return Slack(0.5, 2.0 * float(within)) if isinstance(within, int | float | np.floating) else None

    def given(self, mass: float, part: float = 1.0) -> float:
        """What T(D_s) may be where a secret of this mass takes this part of the slack."""
        return part * self.total / mass * (1.0 - INWARD)


def curve(x: Floats, order: float) -> Floats:
    """h(x) = (x^κ − 1)/κ, log x at κ = 0: concave for κ ≤ 1, and at most x − 1."""
    if order == 0.5:
        return np.asarray(2.0 * np.sqrt(x) - 2.0)  # χ²: good to 1e-16, and k is not small beside that
    logs = np.log(x)
    return np.asarray(np.expm1(order * logs) / order if order != 0.0 else logs)


def reach(mass: Floats, k: float, order: float) -> tuple[Floats, Floats]:
    """Least and greatest R(H) over conditionals with T(D) ≤ k for sets of these masses, rounded to the inside.

    R ∝ q on H and on its complement is best (Hölder), so D is that of two cells: T = (Σ q^α r^{1−α})^{1/α} less 1,
    over κ.
    """

    def price(r: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            if order == 0.0:
                return np.asarray(mass * np.log(mass / r) + (1 - mass) * np.log((1 - mass) / (1 - r)))
            alpha = 1.0 / (1.0 - order)
            total = mass**alpha * r ** (1 - alpha) + (1 - mass) ** alpha * (1 - r) ** (1 - alpha)
            return np.asarray((total ** (1 - order) - 1.0) / order)

    spend(20 * HALVINGS, mass.size)
    ends = []
    for far in (np.zeros_like(mass), np.ones_like(mass)):
        inside, outside = mass.copy(), far
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            fits = price(middle) <= k
            inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
        ends.append(inside)
    return ends[0], ends[1]
