"""Precision: how far estimates from n released rows will be from the truth, before any row is released."""

from __future__ import annotations

import numpy as np

from sfumato.comparing.points import UNKNOWN, Precision, Spread
from sfumato.errors import InputError
from sfumato.estimation.inversion import Inversion
from sfumato.estimation.models import model_of
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism


def precision(mechanism: Mechanism, joint: Joint, n: int) -> Precision | None:
    """The errors of `sf.estimate` from n rows that follow the joint; None when the law is too large to invert.

    The estimate is linear in the output frequencies f, so its covariance is exact: L (diag f − f fᵀ) Lᵀ / n at
    f = Q p. Sampling is part of it: the table itself, released untouched, has `untouched(joint, n)`.
    """
    try:
        model = model_of(mechanism)
        whole = model.invert(model.forward(mechanism.input_law(joint)) * n, n)
    except InputError:
        return None
    if mechanism.reads != "both":
        return Precision(_spread(whole.marginal(1)), UNKNOWN, UNKNOWN)
    return Precision(_spread(whole.marginal(1)), _spread(whole.marginal(0)), _spread(whole))


def _spread(inversion: Inversion) -> Spread:
    return Spread.of(inversion.variance) if bool(inversion.identified.all()) else UNKNOWN


def untouched(joint: Joint, n: int) -> Precision:
    """The errors of sampling alone: p(1 − p)/n."""
    tables = (joint.p_useful, joint.p_secret, joint.p)
    return Precision(*(Spread.of(np.asarray(p * (1 - p) / n)) for p in tables))
