"""Designers: from an uncertainty set and a level to a sealed, certified mechanism."""

from sfumato.designers.base import Design, Task
from sfumato.designers.choose import design, methods

__all__ = ["Design", "Task", "design", "methods"]
