"""Overview: every measure of one mechanism side by side, over all orders, and when everybody else is known."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.privacy.alpha_beta import Leakage, WorstInputLeakage, nothing_leaks
from sfumato.privacy.beliefs import LIP
from sfumato.privacy.gain import PML, BayesLeakage, MaximalLeakage, PointwiseLeakage
from sfumato.privacy.inequalities import Lattice, lattice
from sfumato.privacy.ldp import LDP, RenyiLDP, pairwise, widest
from sfumato.privacy.measures import (
    GAP,
    Live,
    Measure,
    OverviewLine,
    Reading,
    as_channel,
    lines_of,
    listed,
    live,
    seen_from_secret,
)
from sfumato.privacy.mutual_information import (
    Arimoto,
    Contraction,
    MaximalAlphaLeakage,
    MaximalCorrelation,
    Shannon,
    Sibson,
    TotalVariation,
)
from sfumato.privacy.rldp import RLDP
from sfumato.uncertainty import UncertaintySet

# --- maximal (α, β)-leakage of one channel over a grid of orders: the data behind [004, Fig. 1] -----------------------


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
    levels = np.array([widest(pairwise(seen.q, beta))[0] for beta in columns])
    row = partial(_row, seen, columns, order, levels, gap)
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
    from sfumato.optimise.saddle.tilted import Orders, worst_reference

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


# --- any measure about one person of a database, when everybody else is known to the adversary ------------------------


@dataclass(frozen=True, slots=True)
class Person:
    """The reading for the worst person, who it is, and the others' records then (with a 0 at the person's place)."""

    reading: Reading
    person: int
    others: tuple[int, ...]


def about_one_person(measure: Measure, channel: npt.ArrayLike, sizes: tuple[int, ...]) -> Person:
    """max_i max_{x_{−i}} of the measure for X_i → Y with x_{−i} held; inputs are (x_1, …, x_n), last fastest.

    For L_{α,β} this is the multi-user leakage [004, (16)], so the paper's conjecture holds: given x_{−i} the chain U
    − X_i − Y is that of one user, so numerator and denominator of (16) are sums over x_{−i} whose terms have ratio at
    most exp((α−1)β/α · L_{α,β}(X_i → Y | x_{−i})), and so has the ratio of the sums; putting all mass on the worst
    x_{−i} attains it. α = β gives Rényi DP, α = β = ∞ DP, between databases that differ in one record.
    """
    q = as_channel(channel)
    if prod(sizes) != q.shape[1]:
        raise InputError(f"sizes {sizes} make {prod(sizes)} databases, the channel has {q.shape[1]} inputs.")
    cube = q.reshape(q.shape[0], *sizes)
    worst: Person | None = None
    for i in range(len(sizes)):
        slices = np.moveaxis(cube, i + 1, -1)
        for others in np.ndindex(*slices.shape[1:-1]):
            reading = measure.of(slices[(slice(None), *others)])
            if worst is None or reading.value > worst.reading.value:
                worst = Person(reading, i, (*others[:i], 0, *others[i:]))
    assert worst is not None
    return worst


# --- every measure of one mechanism side by side, about the record and about the secret -------------------------------


MEASURES: tuple[Measure, ...] = (
    LDP(), RenyiLDP(5.0), RenyiLDP(2.0), RenyiLDP(1.0), Leakage(5.0, 2.0), WorstInputLeakage(2.0), MaximalLeakage(),
    MaximalAlphaLeakage(2.0), PointwiseLeakage(), LIP(), BayesLeakage(), Sibson(2.0), Arimoto(2.0), Shannon(),
    TotalVariation(), Contraction(), MaximalCorrelation(),
)


@dataclass(frozen=True, slots=True, eq=False)
class Overview:
    """The table of measures, the level over the claimed set, and the lattice of the record (and of the secret)."""

    lines: tuple[OverviewLine, ...]
    levels: dict[str, float]  # notions known for laws of any size
    lattices: dict[str, Lattice]
    notes: tuple[str, ...] = ()


def overview(mechanism: Mechanism, joint: Joint | None = None) -> Overview:
    """Every measure of a mechanism, at a joint and in the worst case; the design distribution is the default joint."""
    joint = mechanism.joint if joint is None else joint
    levels = {"LDP about the record": LDP().level(mechanism)}
    if joint is not None:
        levels["LDP about the secret"] = LDP(joint).level(mechanism)
        levels["LIP about the secret"] = LIP(joint).level(mechanism)
        levels["PML about the secret"] = PML(joint).level(mechanism)
    within: UncertaintySet | None = None if mechanism.claim is None else mechanism.claim.within
    if within is not None:
        levels[f"RLDP over the claimed set ({within.kind})"] = RLDP(within).level(mechanism)
    try:
        channels = _channels(mechanism, joint)
    except InputError as error:
        return Overview((), levels, {}, (str(error),))
    lines = [line for about, (q, p) in channels.items() for line in lines_of(MEASURES, about, q, p)]
    return Overview(tuple(lines), levels, {about: lattice(q, p) for about, (q, p) in channels.items()})


def map_of(mechanism: Mechanism, points: int = 25, *, workers: int = 1) -> LeakageMap:
    """The (α, β) map of a mechanism at orders 1/(1 − t), t evenly spaced from 0 to 1."""
    orders = spaced(points)
    return leakage_map(listed(mechanism), orders, orders, workers=workers)


def spaced(points: int) -> list[float]:
    """Orders from 1 to ∞ that are evenly spaced in 1 − 1/order.

    >>> spaced(3)
    [1.0, 2.0, inf]
    """
    return [1 / (1 - t) if t < 1 else float("inf") for t in np.linspace(0, 1, points).tolist()]


def _channels(mechanism: Mechanism, joint: Joint | None) -> dict[str, tuple[Floats, Floats | None]]:
    q = listed(mechanism)
    out: dict[str, tuple[Floats, Floats | None]] = {
        "record": (q, None if joint is None else mechanism.input_law(joint))
    }
    if joint is not None and joint.secret.size > 1:
        seen, secret = seen_from_secret(mechanism, q, joint)
        kept = secret > 0
        out["secret"] = (seen[:, kept], secret[kept])
    return out
