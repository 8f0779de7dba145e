"""The levels of a comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.errors import InputError, designed_epsilon

POINTS = 12
MOST = 200  # levels in one comparison


def levels(epsilon: str | float | Sequence[float], points: int = POINTS) -> tuple[float, ...]:
    """ε as a grid: '0.1:4' (equal ratios between the ends), '0.5,1,2', a number or numbers; increasing, each once.

    >>> levels("0.5:2", 3)
    (0.5, 1.0, 2.0)
    >>> levels([2, 0.5])
    (0.5, 2.0)
    """
    found = _read(epsilon, points) if isinstance(epsilon, str) else epsilon
    listed = [found] if isinstance(found, (int, float)) else list(found)
    out = tuple(sorted({designed_epsilon(x) for x in listed}))
    if not out or len(out) > MOST:
        raise InputError(f"give between 1 and {MOST} levels of ε, got {len(out)}.")
    return out


def _read(text: str, points: int) -> Sequence[float]:
    try:
        numbers = [float(x) for x in text.replace(":", ",").split(",")]
    except ValueError:
        raise _unread(text) from None
    if ":" not in text:
        return numbers
    if len(numbers) != 2 or "," in text:
        raise _unread(text)
    low, high = numbers
    if not (0 < low < high and math.isfinite(high)):
        raise InputError(f"a range of ε runs from a positive number to a larger one, got {text!r}.")
    if not 2 <= points <= MOST:
        raise InputError(f"a range needs between 2 and {MOST} points, got {points}.")
    inside = [float(f"{low * (high / low) ** (i / (points - 1)):.6g}") for i in range(1, points - 1)]
    return [low, *inside, high]  # six digits, so that the same range is the same grid on every machine


def _unread(text: str) -> InputError:
    return InputError(f"{text!r} is no grid of ε; write 0.1:4 for a range or 0.5,1,2 for a list.")
