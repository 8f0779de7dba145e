"""Outlook: what would make the errors of a bundle smaller."""

from __future__ import annotations

import math
from dataclasses import replace

from sfumato.bundles.plans import least_error
from sfumato.bundles.sharing import TurnLayout
from sfumato.designers.aiming import HELPS, Help
from sfumato.mechanism import Bundle


def layout_of(bundle: Bundle) -> TurnLayout:
    """The columns of a bundle by size, and the tables that its parts hold."""
    names = bundle.useful.names
    order = max(len(part.useful.columns) for part in bundle.parts)
    sizes = tuple(c.size for c in bundle.useful.columns)
    return TurnLayout(bundle.secret.size, sizes, (1.0,) * len(names), bundle.reads == "both", min(2, order))


def helps(bundle: Bundle) -> list[Help]:
    """Ways to smaller errors of a share on average, the best first, by plans with and without them."""
    rows = Help("twice as many rows", math.sqrt(0.5))
    if bundle.claim is None or bundle.claim.assuming != "nothing" or not bundle.claim.epsilon:
        return [rows]
    layout, epsilon = layout_of(bundle), bundle.claim.epsilon
    now = _each(layout, epsilon)
    tried = {f"ε = {2 * epsilon:g} instead of {epsilon:g}": _each(layout, 2 * epsilon)}
    if (k := len(layout.sizes)) > 2:
        fewest = sorted(range(k), key=lambda c: layout.sizes[c])[: (k + 1) // 2]
        tried[f"the {len(fewest)} useful columns with the fewest values"] = _each(_only(layout, fewest), epsilon)
    widest = max(range(k), key=lambda c: layout.sizes[c])
    if layout.sizes[widest] > 3:
        half = (layout.sizes[widest] + 1) // 2
        coarse = replace(layout, sizes=tuple(half if c == widest else x for c, x in enumerate(layout.sizes)))
        name = bundle.useful.columns[widest].name
        tried[f"{half} instead of {layout.sizes[widest]} values of {name}"] = _each(coarse, epsilon)
    found = [Help(what, math.sqrt(x / now)) for what, x in tried.items() if 0 < x < now]
    return sorted([*found, rows], key=lambda h: h.times)[:HELPS]


def _only(layout: TurnLayout, columns: list[int]) -> TurnLayout:
    return replace(layout, sizes=tuple(layout.sizes[c] for c in columns), weights=(1.0,) * len(columns))


def _each(layout: TurnLayout, epsilon: float) -> float:
    """n times the squared error of a share, on average."""
    return least_error(layout, epsilon)
