"""Precision: how far estimates from n released rows will be from the truth, before any row is released."""

from __future__ import annotations

import numpy as np

from sfumato.comparing.points import UNKNOWN, Precision, Spread
from sfumato.estimation.foreseen import foreseen
from sfumato.estimation.inversion import Inversion
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism


def precision(mechanism: Mechanism, joint: Joint, n: int) -> Precision | None:
    """The errors of `sf.estimate` from n rows that follow the joint; None when the law is too large to invert.

    Sampling is part of them: the table itself, released untouched, has `untouched(joint, n)`.
    """
    whole = foreseen(mechanism, joint, n)
    if whole is None:
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
