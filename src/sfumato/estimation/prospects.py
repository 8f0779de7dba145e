"""Prospects: what estimates from a bundle will be worth, before a row is released, by what its file tells anybody, and
what would make their errors smaller."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sfumato.bundles.plans import least_error
from sfumato.bundles.sharing import TurnLayout
from sfumato.designers.outlook import HELPS, Z95, Foreseen, ForeseenPart, Help
from sfumato.estimation.bundle_tables import BundleEstimate, expected_estimate
from sfumato.mechanism import Bundle


def prospects(bundle: Bundle, n: int) -> Foreseen:
    """The expected error of every table of one and two columns from n rows that follow the design distribution.

    It is that of the unbiased estimate, whose variance at the expected answers is exact; what is shown in the end, with
    shares from 0 on and noise drawn towards independence, is nearer to the truth as a rule.
    """
    expected = expected_estimate(bundle, n)
    parts = [_part(expected, names) for names in expected.names]
    pairs = sum(len(names) == 2 for names in expected.names)
    return Foreseen(n, tuple(parts), tuple(helps(bundle)), pairs)


def _part(expected: BundleEstimate, names: tuple[str, ...]) -> ForeseenPart:
    table = expected.table(*names)
    p, title = table.raw.ravel(), " × ".join(names)
    if not table.identified:
        return ForeseenPart(title, p.size, math.inf, 0.0)
    spread = float(np.mean(table.inversion.variance))
    plain = float(np.mean(np.maximum(p * (1 - p), 0.0)))
    rows = min(plain / spread, float(expected.n)) if spread else float(expected.n)
    return ForeseenPart(title, p.size, 100 * Z95 * math.sqrt(spread), rows)


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
