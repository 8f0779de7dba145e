"""Designers: from an uncertainty set and a level to a sealed, certified mechanism."""

from sfumato.designers.base import Design, Draft, Task
from sfumato.designers.choose import design, methods

__all__ = ["Design", "Draft", "Task", "design", "methods"]
