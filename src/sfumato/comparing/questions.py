"""What a comparison is about: a joint and a set around it, named before anything heavy is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.joint import Joint

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The joint, the set's description for the cache (None when it has none), and how the set is made."""

    joint: Joint
    described: dict[str, Any] | None
    within: Callable[[], Any]


def question(source: Any, secret: Any, useful: Any, confidence: float | None, counting: dict[str, Any]) -> Question:
    """From a set, a joint, or a table of people with the names of its columns."""
    if hasattr(source, "worst") and hasattr(source, "joint"):
        if confidence is not None or secret is not None or useful is not None or counting:
            raise InputError("an uncertainty set says everything already; leave out confidence=, secret= and useful=.")
        return Question(source.joint, _described(source), lambda: source)
    if isinstance(source, Joint):
        if secret is not None or useful is not None or counting:
            raise InputError("a Joint has its columns already; leave out secret= and useful=.")
        return _ball(source, confidence)
    if secret is None or useful is None:
        raise InputError("say which columns of the table are compared: secret= and useful=.")
    from sfumato.tabulation import tabulate

    path = os.fspath(source) if isinstance(source, os.PathLike) else source
    return _ball(tabulate(path, secret, useful, **counting), confidence)


def _ball(joint: Joint, confidence: float | None) -> Question:
    level = CONFIDENCE if confidence is None else confidence
    if not 0 < level < 1:
        raise InputError(f"confidence must lie strictly between 0 and 1, got {confidence!r}.")
    if joint.n is None:
        raise InputError(
            "a comparison surrounds the counts with a confidence ball, but this joint does not say how many rows it "
            "was counted from. Give a set instead, sf.Exactly(joint) or sf.ChiSquareBall(joint, radius=…)."
        )

    def within() -> Any:
        from sfumato.uncertainty import ChiSquareBall

        return ChiSquareBall(joint, confidence=level)

    return Question(joint, {"kind": "chi-square-ball", "confidence": level, "calibration": "asymptotic"}, within)


def _described(within: Any) -> dict[str, Any] | None:
    """The set's own numbers; None for sets made of functions, which are not cached."""
    if within.kind == "chi-square-ball" and within.calibration == "asymptotic":
        return {"kind": within.kind, "confidence": within.confidence, "calibration": within.calibration}
    out: dict[str, Any] = {"kind": within.kind}
    for name in getattr(type(within), "__slots__", ()) or vars(within):
        value = getattr(within, name)
        if isinstance(value, Joint):
            out[name] = value.fingerprint
        elif value is None or isinstance(value, (bool, int, float, str)):
            out[name] = value
        elif isinstance(value, np.ndarray):
            out[name] = [str(value.shape), value.tobytes().hex()]
        else:
            return None
    return out
