"""Foreseen: the linear estimate from n rows that follow a joint, before any row is released."""

from __future__ import annotations

from sfumato.errors import InputError
from sfumato.estimation.inversion import Inversion
from sfumato.estimation.models import model_of
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism


def foreseen(mechanism: Mechanism, joint: Joint, n: int, decode: str = "symbols") -> Inversion | None:
    """The unbiased estimate of the whole table at the expected frequencies; None when the law is too large to invert.

    It is linear in the output frequencies f, so its covariance is exact: L (diag f − f fᵀ) Lᵀ / n at f = Q p.
    """
    try:
        model = model_of(mechanism, decode)
        return model.invert(model.forward(mechanism.input_law(joint)) * n, n)
    except InputError:
        return None
