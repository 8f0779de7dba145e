"""Overview: every measure of one mechanism side by side, over all orders, when everybody else is known; and which is
never larger than which, when, and why: data, checked by tests, drawn by reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sfumato import optimise
from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.privacy import dependence, measures
from sfumato.privacy.beliefs import LIP, PML, BayesLeakage, MaximalLeakage, PointwiseLeakage
from sfumato.privacy.ldp import LDP, RLDP, RenyiLDP, pairwise, widest
from sfumato.privacy.measures import Live, Measure, OverviewLine, Reading
from sfumato.uncertainty import UncertaintySet


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
    gap: float = measures.GAP,
    workers: int = 1,
) -> LeakageMap:
    """The whole grid. Rows share the Rényi divergences of β ≥ α, and each β starts from its neighbour's solution."""
    seen = measures.live(channel, None)
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
    values, bounds = np.empty(betas.size), np.empty(betas.size)
    crowd: Floats | None = None
    plain = dependence.nothing_leaks(seen.q) or np.isinf(alpha) or bool((seen.q == 0).any())
    for j in order[::-1]:
        beta = float(betas[j])
        if 1 < alpha <= beta < np.inf and not plain:
            values[j] = bounds[j] = alpha * (beta - 1) / ((alpha - 1) * beta) * widest[j]
        elif not 1 < beta < alpha or plain:
            reading = dependence.Leakage(alpha, beta, gap).of(seen.q)
            values[j], bounds[j] = reading.value, reading.bound
        else:
            orders = optimise.Orders(alpha, (alpha - beta) / (beta * (alpha - 1)))
            winner = optimise.worst_reference(seen.q, orders, gap, crowd)
            values[j], bounds[j], crowd = winner.value, winner.bound, winner.crowd
    return values, bounds


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
    q = measures.as_channel(channel)
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


MEASURES: tuple[Measure, ...] = (
    LDP(), RenyiLDP(5.0), RenyiLDP(2.0), RenyiLDP(1.0), dependence.Leakage(5.0, 2.0), dependence.WorstInputLeakage(2.0),
    MaximalLeakage(), dependence.MaximalAlphaLeakage(2.0), PointwiseLeakage(), LIP(), BayesLeakage(),
    dependence.Sibson(2.0), dependence.Arimoto(2.0), dependence.Shannon(), dependence.TotalVariation(),
    dependence.Contraction(), dependence.MaximalCorrelation(),
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
    lines = [line for about, (q, p) in channels.items() for line in measures.lines_of(MEASURES, about, q, p)]
    return Overview(tuple(lines), levels, {about: lattice(q, p) for about, (q, p) in channels.items()})


def map_of(mechanism: Mechanism, points: int = 25, *, workers: int = 1) -> LeakageMap:
    """The (α, β) map of a mechanism at orders 1/(1 − t), t evenly spaced from 0 to 1."""
    orders = spaced(points)
    return leakage_map(measures.listed(mechanism), orders, orders, workers=workers)


def spaced(points: int) -> list[float]:
    """Orders from 1 to ∞ that are evenly spaced in 1 − 1/order.

    >>> spaced(3)
    [1.0, 2.0, inf]
    """
    return [1 / (1 - t) if t < 1 else float("inf") for t in np.linspace(0, 1, points).tolist()]


def _channels(mechanism: Mechanism, joint: Joint | None) -> dict[str, tuple[Floats, Floats | None]]:
    q = measures.listed(mechanism)
    out: dict[str, tuple[Floats, Floats | None]] = {
        "record": (q, None if joint is None else mechanism.input_law(joint))
    }
    if joint is not None and joint.secret.size > 1:
        seen, secret = measures.seen_from_secret(mechanism, joint, q)
        kept = secret > 0
        out["secret"] = (seen[:, kept], secret[kept])
    return out


# --- the lattice of inequalities --------------------------------------------------------------------------------------


Values = Mapping[str, float]
AT_PRIOR: dict[str, Measure] = {
    "I": dependence.Shannon(),
    "I_2": dependence.Sibson(2.0),
    "I_5": dependence.Sibson(5.0),
    "A_2": dependence.Arimoto(2.0),
    "bayes": BayesLeakage(),
    "pml": PointwiseLeakage(),
    "lip": LIP(),
    "tv": dependence.TotalVariation(),
    "rho": dependence.MaximalCorrelation(),
}
WORST: dict[str, Measure] = {
    "capacity": dependence.Shannon(),
    "L_2": dependence.MaximalAlphaLeakage(2.0),
    "L_5": dependence.MaximalAlphaLeakage(5.0),
    "maxl": MaximalLeakage(),
    "L_inf_2": dependence.WorstInputLeakage(2.0),
    "L_5_2": dependence.Leakage(5.0, 2.0),
    "L_5_3": dependence.Leakage(5.0, 3.0),
    "kl": RenyiLDP(1.0),
    "rdp_2": RenyiLDP(2.0),
    "rdp_5": RenyiLDP(5.0),
    "ldp": LDP(),
    "dobrushin": dependence.Contraction(),
    "rho*": dependence.MaximalCorrelation(),
}


@dataclass(frozen=True, slots=True)
class Edge:
    """left(values) ≤ right(values) for every channel and every prior that meets the condition."""

    smaller: str
    larger: str
    condition: str
    reason: str
    left: Callable[[Values], float]
    right: Callable[[Values], float]


def _plain(smaller: str, larger: str, reason: str, condition: str = "always") -> Edge:
    return Edge(smaller, larger, condition, reason, lambda v: v[smaller], lambda v: v[larger])


def _through(smaller: str, larger: str, formula: str, reason: str, right: Callable[[Values], float]) -> Edge:
    return Edge(smaller, f"{formula} of {larger}", "always", reason, lambda v: v[smaller], right)


def _tanh_half(v: Values) -> float:
    return float(np.tanh(v["ldp"] / 2))


EDGES: tuple[Edge, ...] = (
    _plain("I", "I_2", "Rényi divergence grows with its order, so does its minimum over output laws"),
    _plain("I_2", "I_5", "the same"),
    _plain("I", "capacity", "the capacity is the worst prior"),
    _plain("I_2", "L_2", "maximal α-leakage is Sibson's information at the worst prior [004, (2)]"),
    _plain("A_2", "L_2", "Arimoto's information is Sibson's at the tilted prior"),
    _plain("capacity", "L_2", "orders again, at the worst prior"),
    _plain("L_2", "L_5", "orders again"),
    _plain("L_5", "maxl", "orders again, up to α = ∞"),
    _plain("bayes", "maxl", "guessing X is one of the functions that maximal leakage allows"),
    _plain("maxl", "L_inf_2", "monotone in β [004, Thm 2]"),
    _plain("L_inf_2", "ldp", "monotone in β, up to β = ∞"),
    _plain("L_5", "L_5_2", "monotone in β"),
    _plain("L_5_2", "L_5_3", "monotone in β"),
    _plain("L_5_3", "rdp_5", "monotone in β, up to β = α"),
    _plain("capacity", "kl", "Σ p D(Q_x‖Qp) ≤ Σ p p' D(Q_x‖Q_x') by convexity of D in its second argument"),
    _plain("kl", "rdp_2", "orders again"),
    _plain("L_2", "rdp_2", "τ from 1 to 0 [004, Remark 1]"),
    _plain("rdp_2", "rdp_5", "orders again"),
    _plain("rdp_5", "ldp", "orders again, up to ∞"),
    _plain("pml", "lip", "the upper half of the absolute value"),
    _plain("I", "pml", "I is the mean of log Q(y|x)/P(y), pml its largest value"),
    _through("pml", "ldp", "−log(m + (1−m)e^{−x})",
             "P(y) ≥ Q(y|x)(p(x) + (1 − p(x))e^{−ε}), and p(x) ≥ m, the least of the prior",
             lambda v: -float(np.log(v["least"] + (1 - v["least"]) * np.exp(-v["ldp"])))),
    _plain("maxl", "pml", "e^maxl is the mean of e^{ℓ(Y)}, pml its logarithm's largest value"),
    _plain("lip", "ldp", "P(y) is between min and max of Q(y|x)"),
    Edge("ldp", "twice lip", "every input has mass", "Q(y|x)/Q(y|x') = Q(y|x)/P(y) · P(y)/Q(y|x')",
         lambda v: v["ldp"], lambda v: 2 * v["lip"]),
    _plain("rho", "rho*", "the worst prior"),
    _through("tv", "I", "√(x/2)", "Pinsker on p(x,y) against p(x)p(y)", lambda v: float(np.sqrt(v["I"] / 2))),
    _through("tv", "dobrushin", "(1 − 1/n)·x", "TV(Q_x, Qp) ≤ Σ p_x' TV(Q_x, Q_x')",
             lambda v: (1 - 1 / v["inputs"]) * v["dobrushin"]),
    _through("tv", "rho", "½√(k−1)·x", "Cauchy–Schwarz, and χ² has k − 1 terms of at most ρ²",
             lambda v: 0.5 * float(np.sqrt(v["rank"] - 1)) * v["rho"]),
    _through("I_2", "rho", "log(1 + (k−1)x²)", "I_2 ≤ D_2(p(x,y)‖p(x)p(y)) = log(1 + χ²)",
             lambda v: float(np.log1p((v["rank"] - 1) * v["rho"] ** 2))),
    _through("rho*", "dobrushin", "√x", "χ² contracts at least as fast as total variation",
             lambda v: float(np.sqrt(v["dobrushin"]))),
    _through("rho*", "ldp", "tanh(x/2)", "contraction of ε-LDP channels in χ²", _tanh_half),
    _through("dobrushin", "ldp", "tanh(x/2)", "two laws within e^ε of each other: binary randomised response is worst",
             _tanh_half),
    _through("kl", "ldp", "x·tanh(x/2)", "the same pair is worst for Kullback–Leibler",
             lambda v: v["ldp"] * _tanh_half(v) if np.isfinite(v["ldp"]) else np.inf),
    _through("maxl", "ldp", "log n/(1 + (n−1)e^{−x})", "a row with maximum M sums to at least M(1 + (n−1)e^{−ε})",
             lambda v: float(np.log(v["inputs"] / (1 + (v["inputs"] - 1) * np.exp(-v["ldp"]))))),
    Edge("maxl", "log of the smaller alphabet", "always", "Σ_y max_x Q is at most |Y| terms of 1 and at most Σ_x 1",
         lambda v: v["maxl"], lambda v: float(np.log(v["rank"]))),
)


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Every measure that the edges mention, read for one channel, and the inequalities between them with both sides."""

    readings: dict[str, Reading]
    names: dict[str, str]
    values: dict[str, float]

    @property
    def sides(self) -> list[tuple[Edge, float, float]]:
        """Each inequality with its left and right side here."""
        return [(edge, edge.left(self.values), edge.right(self.values)) for edge in EDGES]


def lattice(channel: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Lattice:
    """The lattice of inequalities for Q[y, x] with values on it; inputs without mass are left out.

    >>> found = lattice([[0.75, 0.25], [0.25, 0.75]])
    >>> all(left <= right + 1e-9 for _, left, right in found.sides)
    True
    """
    q = measures.as_channel(channel)
    p = np.full(q.shape[1], 1 / q.shape[1]) if prior is None else measures.as_prior(prior, q.shape[1])
    seen = measures.live(q, p)
    readings = {key: measure.of(seen.q, seen.p) for key, measure in AT_PRIOR.items()}
    readings |= {key: measure.of(seen.q) for key, measure in WORST.items()}
    names = {key: f"{m.name}, at the prior" for key, m in AT_PRIOR.items()}
    names |= {key: m.name for key, m in WORST.items()}
    names |= {"capacity": "capacity", "rho*": "maximal correlation, at the worst prior"}
    values = {key: found.value for key, found in readings.items()}
    return Lattice(readings, names, values | {
        "inputs": float(seen.q.shape[1]), "rank": float(min(seen.q.shape)), "least": float(seen.p.min()),
    })
