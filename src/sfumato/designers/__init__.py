"""Designers: from an uncertainty set and a level to a sealed, certified mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.designers.base import Design, Draft, Task
    from sfumato.designers.choose import design, designs, methods, options_of, register
    from sfumato.designers.closed_forms import response, strength_rule
    from sfumato.designers.distances import letters
    from sfumato.designers.least import LeastEpsilon, LeastLeakage, Tradeoff, least_epsilon, least_leakage, tradeoff
    from sfumato.designers.precise import precise
    from sfumato.designers.worth import foreseen

__all__ = on_demand(__name__)
