"""Roles: what each column of a table is for, and how it is cut or grouped, as somebody chose it on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError
from sfumato.releasing.wishes import EVERY, Wishes, usual_cap

if TYPE_CHECKING:
    from sfumato.studio.hands import Asked

ROLES = ("secret", "useful", "keep", "out")
Bins = dict[str, int | str | list[float]]


@dataclass(frozen=True, slots=True)
class Roles:
    """Columns by what they are for, in the order of the table."""

    secret: tuple[str, ...]
    useful: tuple[str, ...]
    keep: tuple[str, ...]
    bins: Bins
    rare: dict[str, float]
    missing: str = "category"
    public: bool = False  # everybody knows which values there can be

    @classmethod
    def of(cls, given: Asked, columns: Sequence[str]) -> Roles:
        """What a page sent, as far as it is about columns that there are; rules count for what is counted."""
        roles = given.get("roles") or {}
        by = {role: tuple(c for c in columns if roles.get(c, "out") == role) for role in ROLES}
        counted = {*by["secret"], *by["useful"]}
        bins = {c: _rule(c, rule) for c, rule in (given.get("bins") or {}).items() if c in counted and rule is not None}
        rare = {c: _least(least) for c, least in (given.get("rare") or {}).items() if c in counted and c not in bins}
        missing = given.get("missing") or "category"
        return cls(by["secret"], by["useful"], by["keep"], bins, rare, missing, bool(given.get("public")))

    @property
    def complete(self) -> bool:
        """Whether there is something to protect and something to keep informative."""
        return bool(self.secret and self.useful)

    def wishes(self, epsilon: float) -> Wishes:
        """What `sfumato release` would be asked with these columns."""
        return Wishes(
            self.secret, self.useful, epsilon, bins=dict(self.bins) or None, rare=dict(self.rare) or None,
            missing=self.missing, columns="one", design="auto", at_most=usual_cap(epsilon),
            public=(EVERY,) if self.public else (),
        )


def _rule(column: str, rule: Any) -> int | str | list[float]:
    if isinstance(rule, (int, str)) and not isinstance(rule, bool):
        return rule
    if isinstance(rule, list) and rule and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in rule):
        return [float(x) for x in rule]
    raise InputError(f"bins of {column!r} must be a number or increasing inner edges", value=rule)


def _least(least: Any) -> float:
    if not isinstance(least, (int, float)) or isinstance(least, bool):
        raise InputError("rare must be a number of rows, or a fraction below 1", value=least)
    return float(least)
