"""Watch: how long a search may go on, who is told of it, and the best design so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.solve.layout import Layout

Progress = Callable[[str, float, float], None]
"""(stage, value in nats, proved bound or ∞), called at least once per outer iteration."""


@dataclass(eq=False)
class Watch:
    """A deadline on the monotonic clock, a listener, and the design to fall back to when the search is interrupted."""

    deadline: float = np.inf
    progress: Progress | None = None
    best: Layout | None = None
    value: float = -np.inf
    bound: float = np.inf

    @property
    def over(self) -> bool:
        return time.monotonic() > self.deadline

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    def tell(self, stage: str, value: float, bound: float = np.inf) -> None:
        if self.progress is not None:
            self.progress(stage, float(value), float(bound))

    def keep(self, layout: Layout, value: float, bound: float = np.inf) -> None:
        """A feasible design of the method's own family, in case nothing better follows."""
        if self is FREE:
            return
        self.bound = min(self.bound, bound)
        if value > self.value:
            self.best, self.value = layout, value

    def until(self, seconds: float) -> Watch:
        """A watch that ends `seconds` from now, or when this one does, and tells the same listener."""
        return Watch(min(self.deadline, time.monotonic() + seconds), self.progress)


FREE = Watch()  # no deadline, no listener
