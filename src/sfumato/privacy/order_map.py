"""Maximal (α, β)-leakage of one channel over a grid of orders: the data behind [004, Fig. 1]."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sfumato.alphabet import Floats
from sfumato.privacy.alpha_beta import Leakage, nothing_leaks
from sfumato.privacy.ldp import pairwise, widest
from sfumato.privacy.measures import GAP, Live, live


@dataclass(frozen=True, slots=True, eq=False)
class LeakageMap:
    """values[i, j] ≤ L_{alphas[i], betas[j]} ≤ bounds[i, j]."""

    alphas: Floats
    betas: Floats
    values: Floats
    bounds: Floats


def leakage_map(
    channel: npt.ArrayLike,
    alphas: Sequence[float],
    betas: Sequence[float],
    *,
    gap: float = GAP,
    workers: int = 1,
) -> LeakageMap:
    """The whole grid. Rows share the Rényi divergences of β ≥ α, and each β starts from its neighbour's solution."""
    seen = live(channel, None)
    columns = np.asarray(betas, dtype=np.float64)
    order = np.argsort(columns)
    widest = np.array([widest(pairwise(seen.q, beta))[0] for beta in columns])
    row = partial(_row, seen, columns, order, widest, gap)
    if workers == 1:
        rows = [row(alpha) for alpha in alphas]
    else:
        with ProcessPoolExecutor(workers, initializer=threadpool_limits, initargs=(1,)) as pool:  # one core each
            rows = list(pool.map(row, alphas, chunksize=1))
    values = np.array([value for value, _ in rows])
    return LeakageMap(
        np.asarray(alphas, dtype=np.float64), columns, values, np.array([bound for _, bound in rows])
    )


def _row(
    seen: Live, betas: Floats, order: npt.NDArray[np.intp], widest: Floats, gap: float, alpha: float
) -> tuple[Floats, Floats]:
    """One α: closed forms where there are, a chain of warm starts from large β to small where there are none."""
    from sfumato.optimise.saddle.references import worst_reference
    from sfumato.optimise.saddle.tilted import Orders

    values, bounds = np.empty(betas.size), np.empty(betas.size)
    crowd: Floats | None = None
    plain = nothing_leaks(seen.q) or np.isinf(alpha) or bool((seen.q == 0).any())
    for j in order[::-1]:
        beta = float(betas[j])
        if 1 < alpha <= beta < np.inf and not plain:
            values[j] = bounds[j] = alpha * (beta - 1) / ((alpha - 1) * beta) * widest[j]
        elif not 1 < beta < alpha or plain:
            reading = Leakage(alpha, beta, gap).of(seen.q)
            values[j], bounds[j] = reading.value, reading.bound
        else:
            winner = worst_reference(seen.q, Orders(alpha, (alpha - beta) / (beta * (alpha - 1))), gap, crowd)
            crowd = winner.crowd
            values[j], bounds[j] = winner.saddle.value, winner.saddle.bound
    return values, bounds
