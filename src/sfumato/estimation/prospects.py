"""Prospects: what estimates from a bundle will be worth, before a row is released, by what its file tells anybody."""

from __future__ import annotations

import math

import numpy as np

from sfumato.bundles.outlook import helps
from sfumato.designers.outlook import Z95, Foreseen, ForeseenPart
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
