"""Points: one mechanism at one ε, with everything a comparison says about it. Light, so that the cache is quick."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from sfumato.alphabet import Floats

MEAN_SIZE = math.sqrt(2 / math.pi)  # E|N(0, 1)|


@dataclass(frozen=True, slots=True)
class Spread:
    """Errors of one estimated distribution: ∞ where it is not identified."""

    standard_error: float  # root mean square over its values
    distance: float  # expected total variation, ½ Σ E|p̂ − p| of normal errors

    @classmethod
    def of(cls, variance: Floats) -> Spread:
        """From the variances of its values."""
        each = np.sqrt(np.maximum(np.asarray(variance, float), 0.0))
        return cls(float(np.sqrt((each**2).mean())), float(0.5 * MEAN_SIZE * each.sum()))


UNKNOWN = Spread(math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Precision:
    """Errors of the useful marginal, of the secret marginal and of the joint table."""

    useful: Spread
    secret: Spread
    joint: Spread


@dataclass(frozen=True, slots=True)
class Realised:
    """The level about the secret at distributions drawn from the posterior of the counts."""

    median: float
    high: float  # 95 % of the draws are below
    share: float  # of the draws that keep to ε
    draws: int


@dataclass(frozen=True, slots=True)
class Point:
    """What a method reaches at one ε. Information in nats; errors are ∞ where nothing can be estimated."""

    method: str
    epsilon: float
    promise: str  # the notion and the set it holds over, in a few words
    level: float  # the certified level of that promise
    reads: str
    kept: float | None  # I(S, U; Y) at the counts
    nmi: float | None  # the same as a share of H(S, U)
    about_useful: float | None  # I(U; Y)
    about_secret: float | None  # I(S; Y)
    bound: float | None  # proved limit of the method's own family, when it maximises what is kept
    ceiling: float | None  # limit of every mechanism with its promise
    precision: Precision | None  # errors of estimates from n rows; None when the law is too large to invert
    realised: Realised | None  # levels at resampled truths
    outputs: int | None
    seconds: float

    def error(self, of: str) -> float:
        """The standard error of 'useful', 'secret' or 'joint', ∞ when it is not known to be finite."""
        return math.inf if self.precision is None else float(getattr(self.precision, of).standard_error)


@dataclass(frozen=True, slots=True)
class Missing:
    """A method that has no design at this ε, and why."""

    method: str
    epsilon: float
    why: str


def record(point: Point | Missing) -> dict[str, Any]:
    """As JSON has it; ∞ is the string 'inf'."""
    return {k: _plain(v) for k, v in asdict(point).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def point_of(found: dict[str, Any]) -> Point | Missing:
    """The point that was recorded; an error when it is none."""
    if "why" in found:
        return Missing(str(found["method"]), float(found["epsilon"]), str(found["why"]))
    given = {f.name: _number(found[f.name]) for f in fields(Point)}
    if given["precision"] is not None:
        parts = ({k: _number(v) for k, v in given["precision"][side].items()} for side in ("useful", "secret", "joint"))
        given["precision"] = Precision(*(Spread(**part) for part in parts))
    if given["realised"] is not None:
        given["realised"] = Realised(**{k: _number(v) for k, v in given["realised"].items()})
    return Point(**given)


def _number(value: Any) -> Any:
    return math.inf if value == "inf" else value
