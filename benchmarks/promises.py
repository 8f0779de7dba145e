"""What two promises cost: tables for docs/two-promises.md.

    python benchmarks/promises.py caps [seconds [first]]     # NMI under a cap: sex × race and four more pairs
    python benchmarks/promises.py anywhere [cells [above [seconds]]]   # any distribution beside SRR, on all Adult pairs
    python benchmarks/promises.py even       # the same at even weights, where the optimum is known
    python benchmarks/promises.py twice      # two releases, composed and proved
    python benchmarks/promises.py noise      # errors of estimates with noisy and with exact design counts

--write puts what is printed into the page.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import sfumato as sf
from parts import run
from sfumato.releasing.spending import split

CAPS = (2.0, 3.0, 4.0, 6.0, 8.0)
LEVELS = (0.5, 1.5)
TRIAL = {0.5: (0.0388, 0.2316, 0.3523, 0.4207, 0.4700, 0.4793), 1.5: (0.2650, 0.3570, 0.4803, 0.5585, 0.6107, 0.6180)}
PAIRS = (("sex", "race"), ("income", "race"), ("race", "sex"), ("sex", "relationship"), ("sex", "occupation"))
SMALL = 40  # cells up to which searches end by themselves
SEARCHED = 1_000  # cells up to which SRR is compared with a search
SECONDS = 400.0  # at most; searches of small tables end by themselves after a few
SIZES = (500, 5_000, 32_561)
RUNS = 3


def free(joint: sf.Joint) -> sf.Anything:
    """Any distribution, weighted as the table is."""
    return sf.Anything(sf.Joint.from_probabilities(joint.p, joint.secret, joint.useful))


def kept(within: sf.Anything | sf.ChiSquareBall, joint: sf.Joint, epsilon: float, method: str, **options: Any) -> float:
    design = sf.design(within, epsilon, method, **options)
    assert design.certificate.holds
    return float(sf.nmi(design.mechanism, joint))


def caps(seconds: float = SECONDS, first: int = 0) -> None:
    heads = " | ".join(f"κ = {k:g}" for k in CAPS)
    print(f"| pair | ε | SRR | κ = ε | {heads} | no cap |\n|---|---|---|---|{'---|' * len(CAPS)}---|")
    for pair in PAIRS[first:]:
        joint = sf.datasets.adult(*pair)
        ball = sf.ChiSquareBall(joint, confidence=0.95)
        for epsilon in LEVELS:
            found = [kept(ball, joint, epsilon, "srr")]
            found.append(kept(free(joint), joint, epsilon, "ballopt", time_limit=seconds))
            for cap in (*CAPS, None):  # what keeps a smaller cap keeps a larger one
                here = kept(ball, joint, epsilon, "ballopt", at_most=cap, time_limit=seconds)
                found.append(max(here, *found[1:]) if found[1:] else here)
            print(f"| {' × '.join(pair)} | {epsilon:g} | " + " | ".join(f"{x:.4f}" for x in found) + " |", flush=True)
            if pair == PAIRS[0]:
                assert all(x >= 0.99 * y for x, y in zip(found[1:-1], TRIAL[epsilon], strict=True)), found


def anywhere(most: int = SEARCHED, above: int = 0, seconds: float = SECONDS) -> None:
    least: dict[tuple[bool, float], tuple[float, str]] = {}
    count = {False: 0, True: 0}  # of small and of large tables
    for pair in sf.datasets.adult_pairs():
        joint = sf.datasets.adult(*pair)
        if not above < joint.p.size <= most:
            continue
        large = joint.p.size > SMALL
        count[large] += 1
        for epsilon in (0.1, *LEVELS):
            ours = kept(free(joint), joint, epsilon, "ballopt", time_limit=seconds)
            more = ours / kept(free(joint), joint, epsilon, "srr") - 1
            assert more > 0, (pair, epsilon, more)
            least[large, epsilon] = min(least.get((large, epsilon), (np.inf, "")), (more, " × ".join(pair)))
        print(pair, {e: f"{100 * g:.1f} %" for e, (g, _) in least.items()}, file=sys.stderr, flush=True)
    print("| cells | pairs | ε | least gain over SRR | on |\n|---|---|---|---|---|")
    for (large, epsilon), (more, pair) in sorted(least.items()):
        size = f"more than {SMALL}" if large else f"up to {SMALL}"
        print(f"| {size} | {count[large]} | {epsilon:g} | {100 * more:.2g} % | {pair} |")


def gain(parts: list[tuple[int, float]]) -> float:
    """Nats that an output tells whose row has these (number of cells, weight), at even weights of the cells."""
    cells, total = sum(n for n, _ in parts), sum(n * w for n, w in parts)
    return math.fsum(n * w / total * math.log(w / total * cells) for n, w in parts if n)


def even() -> None:
    """The optimum for any distribution at even weights: the best extreme row, moved by all exchanges of labels."""
    print("| table | ε | optimum | SRR | ratio | cells that an output makes likelier |\n|---|---|---|---|---|---|")
    for s, u in ((2, 2), (2, 5), (2, 15), (5, 5)):
        for epsilon in (0.1, *LEVELS, 2.0):
            K = math.exp(epsilon)
            told = {b: gain([(b, K), (u - b, 1 / K), ((s - 1) * u, 1.0)]) for b in range(1, u + 1)}
            one, some = max(told, key=lambda b: told[b]), {a: gain([(a, K), (s * u - a, 1.0)]) for a in range(1, s * u)}
            any_cells = max(some, key=lambda a: some[a])
            optimum = max(told[one], some[any_cells])
            rows = f"{one} of a secret" if told[one] >= optimum else f"{any_cells} of all"
            srr = sf.design(sf.Anything(sf.Joint.uniform(s, u)), epsilon, "srr").value
            assert abs(told[1] - srr) < 1e-6
            if s * u <= 10:
                found = sf.design(sf.Anything(sf.Joint.uniform(s, u)), epsilon, "ballopt", time_limit=10)
                assert found.value <= optimum + 1e-9 and abs(found.value / optimum - 1) < 1e-4
                assert found.bound >= optimum - 1e-9
            print(f"| {s} × {u} | {epsilon:g} | {optimum:.5f} | {srr:.5f} | {optimum / srr:.3f} | {rows} |", flush=True)


def twice() -> None:
    joint = sf.datasets.adult("sex", "race")
    ball = sf.ChiSquareBall(joint, confidence=0.95)
    print("| κ | one, over the ball | one, any | two, over the ball | two, any |\n|---|---|---|---|---|")
    for cap in (1.0, 2.0, 3.0, 4.0, None):
        made = sf.design(ball, 0.5, "ballopt", at_most=cap, time_limit=20).mechanism
        one, two = sf.compose(made), sf.compose(made, made)
        levels = [x.level("rldp", f) for x in (one, two) for f in (ball, sf.Anything(joint))]
        assert cap is None or levels[3] <= 2 * cap
        named = "none" if cap is None else f"{cap:g}"
        print(f"| {named} | " + " | ".join(f"{x:.3f}" for x in levels) + " |", flush=True)


def error(mechanism: sf.Mechanism, joint: sf.Joint, n: int) -> float:
    """The root mean square standard error of the cells, estimated from n released rows."""
    found = sf.recovery(mechanism, joint)
    if found is None or found.standard_errors is None:
        return float("nan")
    return float(np.sqrt((np.asarray(found.standard_errors) ** 2).mean() * (joint.n or 1) / n))


def noise(epsilon: float = 1.0) -> None:
    """Root mean square errors of the estimated joint table, in points, at the same total ε and the same cap."""
    print("| pair | n | exact counts | noisy counts | ε_d | any distribution | the command takes |")
    print("|---|---|---|---|---|---|---|")
    cap = max(3.0, 2 * epsilon)
    for pair in (("sex", "race"), ("sex", "occupation")):
        joint = sf.datasets.adult(*pair)
        even = sf.design(free(sf.Joint.uniform(*joint.shape)), epsilon).mechanism
        for n in SIZES:
            chosen, rng = split(n, *joint.shape, epsilon, cap), np.random.default_rng(n)
            spent = chosen.counts or 0.25 * epsilon
            errors: dict[str, list[float]] = {"exact": [], "noisy": []}
            for _ in range(RUNS):
                sample = sf.Joint.from_counts(rng.multinomial(n, joint.p.ravel()).reshape(joint.shape))
                for name, within, level in (
                    ("exact", sf.ChiSquareBall(sample, confidence=0.95), epsilon),
                    ("noisy", sf.covering(sf.noisy_counts(sample, spent)), epsilon - spent),
                ):
                    made = sf.design(within, level, at_most=cap).mechanism
                    errors[name].append(100 * error(made, joint, n))
            shown = " | ".join(f"{np.median(errors[k]):.2f}" for k in ("exact", "noisy"))
            print(f"| {' × '.join(pair)} | {n:,} | {shown} | {spent:.3g} | {100 * error(even, joint, n):.2f} | "
                  f"{'noisy counts' if chosen.counts else 'no counts'} |", flush=True)


MADE: dict[str, Callable[..., None]] = {
    "caps": caps, "anywhere": anywhere, "even": even, "twice": twice, "noise": noise,
}


if __name__ == "__main__":
    name, *given = [word for word in sys.argv[1:] if word != "--write"]
    run(name, partial(MADE[name], *map(int, given)), write="--write" in sys.argv)
