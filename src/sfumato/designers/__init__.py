"""Designers: from an uncertainty set and a level to a sealed, certified mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.designers.base import Design, Draft, Task, register
    from sfumato.designers.choose import design, methods, options_of
    from sfumato.designers.curves import designs
    from sfumato.designers.least import LeastEpsilon, LeastLeakage, Tradeoff, least_epsilon, least_leakage, tradeoff

__all__ = [
    "Design", "Draft", "LeastEpsilon", "LeastLeakage", "Task", "Tradeoff", "design", "designs", "least_epsilon",
    "least_leakage", "methods", "options_of", "register", "tradeoff",
]

on_demand(__name__, {
    "Design": ".base", "Draft": ".base", "LeastEpsilon": ".least", "LeastLeakage": ".least", "Task": ".base",
    "Tradeoff": ".least", "design": ".choose", "designs": ".curves", "least_epsilon": ".least",
    "least_leakage": ".least", "methods": ".choose", "options_of": ".choose", "register": ".base",
    "tradeoff": ".least",
})
