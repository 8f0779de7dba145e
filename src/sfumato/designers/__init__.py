"""Designers: from an uncertainty set and a level to a sealed, certified mechanism."""

from sfumato.designers.base import Design, Draft, Task
from sfumato.designers.choose import design, methods, options_of
from sfumato.designers.least import LeastEpsilon, LeastLeakage, Tradeoff, least_epsilon, least_leakage, tradeoff
from sfumato.designers.registry import register

__all__ = [
    "Design", "Draft", "LeastEpsilon", "LeastLeakage", "Task", "Tradeoff", "design", "least_epsilon",
    "least_leakage", "methods", "options_of", "register", "tradeoff",
]
