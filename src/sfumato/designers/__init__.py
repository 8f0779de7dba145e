"""Designers: from an uncertainty set and a level to a sealed, certified mechanism."""

from sfumato.designers.base import Design, Draft, Task
from sfumato.designers.choose import design, methods
from sfumato.designers.least import LeastEpsilon, LeastInformation, Tradeoff, least_epsilon, least_information, tradeoff

__all__ = [
    "Design", "Draft", "LeastEpsilon", "LeastInformation", "Task", "Tradeoff", "design", "least_epsilon",
    "least_information", "methods", "tradeoff",
]
