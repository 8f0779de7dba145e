"""The funnel: optimal LIP and LDP about S, several attributes, a thousand random designs, growth, balls.

`python benchmarks/funnel.py` prints the table; `--large` adds the growth up to a = 64, c = 32 (about five minutes).
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
from scipy.optimize import linprog

import sfumato as sf
from measure import Row, table
from sfumato.optimise.arrays import xlogx
from sfumato.optimise.funnel.posteriors import likelihood, lip_rows
from sfumato.optimise.funnel.products import best_product, paper_product
from sfumato.privacy.beliefs import product_level

EPSILONS = (0.5, 1.0, 1.5, 2.0)


def random_joint(seed: int, *shape: int) -> sf.Joint:
    p = np.random.default_rng(seed).random(shape)
    useful = sf.Alphabet.of(*(sf.Column.of(f"x{j}", range(n)) for j, n in enumerate(shape[1:])))
    return sf.Joint.from_probabilities(p.reshape(shape[0], -1) / p.sum(), useful=useful)


def enumeration(joint: sf.Joint, rows: np.ndarray) -> float:
    """The optimum by every basis of the cone, solved by scipy: a second route."""
    column, size = joint.p_useful, joint.useful.size
    facets, points = np.concatenate([rows, -np.eye(size)]), []
    for tight in itertools.combinations(range(len(facets)), size - 1):
        system = np.concatenate([facets[list(tight)], np.ones((1, size))])
        if abs(np.linalg.det(system)) > 1e-13:
            point = np.linalg.solve(system, np.append(np.zeros(size - 1), 1.0))
            if (facets @ point).max() < 1e-10:
                points.append(np.maximum(point, 0.0))
    v = np.array(points)
    tight_options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(-xlogx(v).sum(1), A_eq=v.T, b_eq=column, method="highs-ds", options=tight_options)
    return float(-found.fun - xlogx(column).sum())


def pair_rows(p: np.ndarray, epsilon: float) -> np.ndarray:
    g = likelihood(p)
    return np.array([g[i] - np.exp(epsilon) * g[j] for i, j in itertools.permutations(range(len(g)), 2)])


def small() -> list[Row]:
    """a = 5, c = 2, ten random tables, each ε: median time of the whole design, sealed and certified."""
    joints = [random_joint(k, 2, 5) for k in range(10)]
    sf.design(sf.Exactly(joints[0]), 1.0, "lip")
    out = []
    for method, rows in (("lip", lip_rows), ("ldp", pair_rows)):
        times, cpu, off, values = [], [], 0.0, []
        for epsilon, joint in itertools.product(EPSILONS, joints):
            start, spent = time.perf_counter(), time.process_time()
            made = sf.design(sf.Exactly(joint), epsilon, method)
            times.append(time.perf_counter() - start)
            cpu.append(time.process_time() - spent)
            off = max(off, abs(made.value - enumeration(joint, rows(joint.p, epsilon))))
            values.append(made.value)
        figure = 1e3 * float(np.median(cpu))
        out.append(Row(
            f"{method}, a = 5, c = 2", figure, "ms (CPU)", "< 10 ms, 1e-9", figure < 10 and off <= 1e-9,
            f"mean {np.mean(values):.6f} nats; off enumeration ≤ {off:.1e}", "40 designs",
            f"median wall {1e3 * np.median(times):.1f} ms; certified ≤ ε",
        ))
    return out


def adult(method: str = "lip") -> list[Row]:
    worst_gap, slowest, values = 0.0, 0.0, []
    for secret, useful in itertools.product(("marital-status", "occupation"), ("education", "relationship", "sex")):
        for epsilon in (0.1, 0.5, 1.0, 2.0):
            start = time.perf_counter()
            made = sf.design(sf.Exactly(sf.datasets.adult(secret, useful)), epsilon, method)
            seconds = time.perf_counter() - start
            told = f"{made.value:.6f} gap {made.gap:.1e} {seconds:.2f} s"
            print(f"  {method} {secret} × {useful} ε = {epsilon:g}: {told}", flush=True)
            worst_gap, slowest = max(worst_gap, made.gap), max(slowest, seconds)
            values.append(made.value)
    return [Row(
        f"{method} on Adult", slowest, "s (slowest)", "< 20 s, gap ≤ 1e-4", slowest < 20 and worst_gap <= 1e-4,
        f"gap ≤ {worst_gap:.1e}; sum {sum(values):.4f} nats", "24 cases",
    )]


def attributes() -> list[Row]:
    out = []
    for epsilon in EPSILONS:
        times, kept = [], {"lip": [], "srlip": [], "product": [], "srlip-paper": []}
        for seed in range(3):
            joint = random_joint(seed, 2, 3, 3, 4)
            spent = time.process_time()
            made = sf.design(sf.Exactly(joint), epsilon, "srlip")
            times.append(time.process_time() - spent)
            kept["srlip"].append(made.value)
            kept["product"].append(made.details["product"])
            kept["lip"].append(sf.design(sf.Exactly(joint), epsilon, "lip").value)
            kept["srlip-paper"].append(sf.design(sf.Exactly(joint), epsilon, "srlip-paper").value)
        figure, mean = float(np.median(times)), {k: np.mean(v) for k, v in kept.items()}
        out.append(Row(
            f"srlip, 3 × 3 × 4, ε = {epsilon:g}", figure, "s (CPU)", "< 1 s", figure < 1,
            f"srlip {mean['srlip']:.4f} (best product {mean['product']:.4f}), lip {mean['lip']:.4f}, "
            f"paper {mean['srlip-paper']:.4f} nats", "3 tables",
        ))
    return out


def correlated(shape: tuple[int, ...], kind: float | None, seed: int) -> np.ndarray:
    """A Dirichlet table, or (kind None) views of one hidden trait: attributes correlated given S, as real ones are."""
    rng = np.random.default_rng(seed)
    if kind is not None:
        p = rng.dirichlet(np.full(int(np.prod(shape)), kind)).reshape(shape)
    else:
        traits, prior = rng.dirichlet(np.ones(3), size=shape[0]), rng.dirichlet(np.ones(shape[0]) * 3)
        shown, p = [rng.dirichlet(np.full(n, 0.3), size=3) for n in shape[1:]], np.zeros(shape)
        for s, z in itertools.product(range(shape[0]), range(3)):
            part = np.array(prior[s] * traits[s, z])
            for view in shown:
                part = np.multiply.outer(part, view[z])
            p[s] += part
    p = np.maximum(p, 1e-9)
    return p / p.sum()


def thousand(count: int = 1000) -> list[Row]:
    """Random SRLIP designs: the true level of ours, and of the paper's construction."""
    shapes, kinds = [(2, 2, 2), (2, 3, 3), (3, 2, 3), (2, 2, 2, 2), (2, 3, 3, 4)], (0.1, 0.3, 1.0, None)
    ours, leaks = 0, []
    values = []
    start = time.process_time()
    for k in range(count):
        epsilon = EPSILONS[(k // 20) % 4]
        p = correlated(shapes[k % 5], kinds[(k // 5) % 4], k)
        made, printed = best_product(p, epsilon, product_level, starts=1), paper_product(p, epsilon, product_level)
        ours += made.level > epsilon
        values.append((made.value, printed.value))
        if printed.level > epsilon + 1e-9:
            leaks.append(printed.level / epsilon)
    mean = np.mean(values, axis=0)
    worst = f"by up to {max(leaks):.3f} times ε (median {np.median(leaks):.3f})" if leaks else "never"
    return [Row(
        "random SRLIP designs above ε", float(ours), "of ours", "0", ours == 0,
        f"the paper's exceed ε in {len(leaks)} of {count}, {worst}", f"{count} tables",
        f"mean value {mean[0]:.4f}, the paper's {mean[1]:.4f}; {time.process_time() - start:.0f} s CPU in all",
    )]


def growth(shapes: list[tuple[int, int]], limit: float = 50.0) -> list[Row]:
    out = []
    for c, a in shapes:
        joint = random_joint(a + c, c, a)
        start = time.perf_counter()
        made = sf.design(sf.Exactly(joint), 1.0, "lip", time_limit=limit)
        seconds = time.perf_counter() - start
        out.append(Row(
            f"lip, a = {a}, c = {c}", seconds, "s", "< 60 s", seconds < 60 and made.certificate.holds,
            f"{made.value:.6f} ≤ {made.bound:.6f} nats, gap {made.gap:.1e}", made.details["status"],
        ))
        print(" ", out[-1].what, out[-1].answer, f"{seconds:.1f} s", flush=True)
    return out


def robust() -> list[Row]:
    out = []
    for method, shape, n in (("lip", (2, 5), 1000), ("ldp", (2, 5), 1000), ("lip", (3, 4), 10_000)):
        epsilon = 1.0
        rng = np.random.default_rng(1)
        joint = sf.Joint.from_counts(rng.multinomial(n, rng.dirichlet(np.ones(shape[0] * shape[1]))).reshape(shape))
        spent = time.process_time()
        made = sf.design(sf.ChiSquareBall(joint, confidence=0.95), epsilon, method)
        spent = time.process_time() - spent
        known = sf.design(sf.Exactly(joint), epsilon, method).value
        out.append(Row(
            f"robust {method}", spent, "s (CPU)", "proved", made.certificate.holds,
            f"{made.value:.6f} ≤ {made.bound:.6f} nats (known distribution {known:.6f})",
            f"{shape[0]} × {shape[1]}, n = {n:,}",
        ))
    return out


def results(large: bool = False) -> list[Row]:
    shapes = [(2, 64), (4, 32), (16, 16), *([(8, 64), (32, 32), (16, 64), (32, 64)] if large else [])]
    return [*small(), *adult(), *attributes(), *thousand(1000 if large else 200), *growth(shapes), *robust()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    print(table(results(parser.parse_args().large)))
