"""Leakage: every measure, the strip of orders, the map and designs at stated sizes; agreement with dit and qif."""

from __future__ import annotations

import math
import os
import resource
import time
from collections import defaultdict
from typing import Any

import numpy as np

import sfumato as sf
from measure import Row, medians, table
from sfumato.privacy.overview import MEASURES, spaced

SIDE, ORDERS, CHANNELS = 100, 50, 200
STRIP = ((1.001, 1.0005), (1.2, 1.1), (2.0, 1.5), (5.0, 2.0), (20.0, 10.0), (200.0, 3.0))
LN2 = math.log(2)


def channel(kind: str, side: int = SIDE) -> Any:
    rng = np.random.default_rng(0)
    q = np.full((side, side), 0.5 / side) + 0.5 * np.eye(side) if kind == "randomised response" else rng.dirichlet(
        np.full(side, float(kind.split()[-1])), size=side
    ).T
    q = np.maximum(q, 1e-9)
    return q / q.sum(axis=0)


def results(oracles: bool = True) -> list[Row]:
    rows = [*_measures(), *_strip(), *_map(), *_designs()]
    return [*rows, *(_agreement() if oracles else [])]


def _measures() -> list[Row]:
    q, prior = channel("dirichlet 1"), np.full(SIDE, 1 / SIDE)
    closed = [m for m in MEASURES if not (isinstance(m, sf.Leakage) and 1 < m.beta < m.alpha)]
    runs = {f"{m.name}, {'worst prior' if p is None else 'uniform prior'}": (lambda m=m, p=p: m.of(q, p))
            for m in closed for p in (None, prior)}
    found = medians(runs, repeats=3)
    slowest = max(found, key=lambda name: found[name])
    gap = max(run().gap for name, run in runs.items() if not name.startswith("total variation"))
    limit = 0.05
    return [Row("slowest of all measures", 1e3 * found[slowest], "ms", "< 50 ms", found[slowest] < limit,
                f"{slowest}: {runs[slowest]().value:.9f}", f"{SIDE} × {SIDE}, {len(runs)} readings",
                f"median {1e3 * np.median(list(found.values())):.2f} ms; widest gap {gap:.1e} (total variation apart)")]


def _strip() -> list[Row]:
    worst, where, gap, value = 0.0, "", 0.0, 0.0
    for kind in ("dirichlet 1", "dirichlet 5", "dirichlet 50", "randomised response"):
        q = channel(kind)
        for alpha, beta in STRIP:
            start = time.process_time()
            found = sf.Leakage(alpha, beta).of(q)
            seconds = time.process_time() - start
            gap = max(gap, found.gap)
            if seconds > worst:
                worst, where, value = seconds, f"({alpha:g}, {beta:g}) of {kind}", found.value
    return [Row("slowest (α, β) with 1 < β < α", worst, "s CPU", "< 1 s, gap ≤ 1e-10", worst < 1 and gap <= 1e-10,
                f"{where}: {value:.9f}", f"{SIDE} × {SIDE}, {4 * len(STRIP)} cases", f"widest gap {gap:.1e}")]


def _map() -> list[Row]:
    rows, orders = [], spaced(ORDERS)
    workers = min(2, os.cpu_count() or 1)
    for kind in ("dirichlet 1", "dirichlet 50"):
        q = channel(kind)
        start, before = time.perf_counter(), _work()
        found = sf.leakage_map(q, orders, orders, workers=workers)
        wall, seconds = time.perf_counter() - start, (_work() - before) / workers
        finite = np.isfinite(found.values)
        gap = float(np.max(found.bounds[finite] - found.values[finite]))
        rows.append(Row(
            f"map over (α, β), {kind}", seconds, f"s CPU on each of {workers}", "< 30 s on two cores", seconds < 30,
            f"L at the middle {found.values[ORDERS // 2, ORDERS // 4]:.9f}",
            f"{SIDE} × {SIDE}, {ORDERS} × {ORDERS} orders",
            f"{wall:.1f} s on the clock at load {os.getloadavg()[0]:.1f}, widest gap {gap:.1e}",
        ))
    return rows


def _work() -> float:
    """CPU seconds of this process and of the workers it has waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _designs() -> list[Row]:
    p = np.random.default_rng(1).dirichlet(np.full(10, 2.0))
    within = sf.Exactly(sf.Joint.from_probabilities(p[None, :]))
    rows = []
    for alpha, beta in ((math.inf, 1.0), (2.0, 2.0)):
        options: dict[str, Any] = {"alpha": alpha, "beta": beta, "reads": "useful"}
        sf.design(within, epsilon=0.5, method="leakage", **options)
        start = time.perf_counter()
        made = sf.design(within, epsilon=1.0, method="leakage", **options)
        seconds = time.perf_counter() - start
        rows.append(Row(
            f"design under L_({alpha:g}, {beta:g}) ≤ 1, Hamming", seconds, "s", "< 2 s, gap ≤ 1e-6",
            seconds < 2 and made.gap <= 1e-6 and made.certificate.holds,
            f"distortion {made.value:.9f}, bound {made.bound:.9f}", "M = 10",
            f"gap {made.gap:.1e}, proved level {made.certificate.level:.12f}",
        ))
    return rows


def _agreement() -> list[Row]:
    """The largest difference from dit and qif, over max(1, |theirs|); no row where they are not installed."""
    try:
        import dit
        import qif
    except ImportError:
        return []
    worst: dict[str, float] = defaultdict(float)
    rng = np.random.default_rng(0)

    def note(name: str, mine: float, theirs: float) -> None:
        worst[name] = max(worst[name], abs(mine - theirs) / max(1.0, abs(theirs)))

    for _ in range(CHANNELS):
        m, n = rng.integers(2, 7, size=2)
        q = np.maximum(rng.dirichlet(np.full(m, rng.choice([0.5, 1, 5])), size=n).T, 1e-4)
        q /= q.sum(axis=0)
        p = rng.dirichlet(np.ones(n)) + 0.01
        p /= p.sum()
        rows = np.ascontiguousarray(q.T)
        pairs = [str(x) + chr(97 + y) for x in range(n) for y in range(m)]
        joint = dit.Distribution(pairs, (q * p).T.ravel())
        apart = dit.Distribution(pairs, np.outer(p, q @ p).ravel())
        columns = [dit.Distribution([chr(97 + y) for y in range(m)], q[:, x]) for x in range(n)]
        told = sf.Shannon().of(q, p).value
        note("dit mutual information", told, dit.shannon.mutual_information(joint, [0], [1]) * LN2)
        note("dit maximal correlation", sf.MaximalCorrelation().of(q, p).value,
             dit.divergences.maximum_correlation(joint, [[0], [1]]))
        note("dit total variation", sf.TotalVariation().of(q, p).value,
             dit.divergences.variational_distance(joint, apart))
        for order in (2.0, 7.0):
            theirs = max(dit.divergences.renyi_divergence(a, b, order) for a in columns for b in columns if a is not b)
            note(f"dit Rényi divergence {order:g}", sf.RenyiLDP(order).of(q).value, theirs * LN2)
        note("dit capacity", sf.Shannon().of(q).value,
             float(dit.algorithms.channel_capacity(rows, rtol=1e-15, atol=1e-15)[0]) * LN2)
        bayes, gains = qif.measure.bayes_vuln, rng.random((4, n))
        note("qif min-entropy leakage", sf.BayesLeakage().of(q, p).value, bayes.min_entropy_leakage(p, rows) * LN2)
        note("qif multiplicative capacity", sf.MaximalLeakage().of(q).value, np.log(bayes.mult_capacity(rows)))
        note("qif g-leakage", sf.GainLeakage(gains).of(q, p).value,
             np.log(qif.measure.g_vuln.mult_leakage(gains, p, rows)))
        note("qif mutual information", told, qif.measure.shannon.add_leakage(p, rows) * LN2)
        note("qif LDP", sf.LDP().of(q).value, qif.measure.d_privacy.smallest_epsilon(rows, qif.metric.discrete()))
    name = max(worst, key=lambda key: worst[key])
    return [Row("largest disagreement with dit and qif", worst[name], "", "≤ 1e-9", worst[name] <= 1e-9, name,
                f"{CHANNELS} random channels, {len(worst)} measures",
                ", ".join(f"{key} {value:.0e}" for key, value in worst.items()))]


if __name__ == "__main__":
    print(table(results()))
