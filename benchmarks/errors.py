"""Standard errors at the same promise about the secret: our designs beside GRR, OUE and OLH, into docs/errors.md.

    python benchmarks/errors.py --seconds 120          # for each of our searches on the large table
    python benchmarks/errors.py --large 1              # at one level of the large table, for a look

OLH's covariance is a formula; it is checked against reports of multi-freq-ldpy where that is installed.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import sfumato as sf
from sfumato.designers.base import Task
from sfumato.designers.closed_forms import subsets
from sfumato.reporting.comparison import UNKNOWN, Precision, Spread
from sfumato.reporting.measuring import covariance, olh_precision, precision

TARGET = Path(__file__).parent.parent / "docs" / "errors.md"
PAIRS = (("sex", "race"), ("occupation", "education"))
LEVELS = (0.5, 1.0, 2.0)
LARGE = 100  # cells from which the searches take all of their time
HEAD = "| promise | mechanism | useful marginal | whole table |\n|---|---|---:|---:|"
OURS = "ε about the secret, in the ball"
SAME = "the same"
LDP = "ε-LDP of the record"


def ours(ball: Any, epsilon: float, seconds: float) -> Iterator[tuple[str, str, Precision]]:
    joint = ball.joint
    for name, method, options in (
        ("**precise**, target joint", "precise", {"target": "joint", "time_limit": seconds}),
        ("**precise**, target useful", "precise", {"target": "useful", "time_limit": seconds}),
        ("ballopt, recoverable", "ballopt", {"recoverable": True, "time_limit": min(seconds, 20.0)}),
    ):
        made = sf.design(ball, epsilon, method, **options)
        assert made.certificate.holds
        found = precision(made.mechanism, joint, joint.n)
        assert found is not None
        yield OURS, name, found


def protocols(ball: Any, epsilon: float) -> Iterator[tuple[str, str, Precision]]:
    """GRR, OUE and OLH calibrated to the same promise, and as ε-LDP of the whole record."""
    joint = ball.joint
    for reads, where in (("both", "of (s, u)"), ("useful", "of u alone")):
        for method in ("grr", "oue"):
            made = sf.design(ball, epsilon, method, reads=reads)
            found = precision(made.mechanism, joint, joint.n)
            assert found is not None
            yield SAME, f"{method.upper()} {where}, calibrated", found
        ratio = 1 + subsets(Task(ball, epsilon, reads=reads))
        if math.isfinite(ratio):
            alone = Spread.of(np.diag(covariance(joint.p_useful, ratio, joint.n)))
            both = olh_precision(joint, ratio, joint.n)
            found = both if reads == "both" else Precision(alone, UNKNOWN, UNKNOWN)
            yield SAME, f"OLH {where}, calibrated", found
    for method in ("grr", "oue"):
        made = sf.design(ball, epsilon, method, notion="ldp")
        found = precision(made.mechanism, joint, joint.n)
        assert found is not None
        yield LDP, f"{method.upper()} of (s, u)", found
    yield LDP, "OLH of (s, u)", olh_precision(joint, math.exp(epsilon), joint.n)


def points(x: float) -> str:
    return "–" if math.isinf(x) else f"{100 * x:.3g}"


def section(pair: tuple[str, str], epsilon: float, seconds: float) -> tuple[str, bool]:
    """The table of one pair at one ε, and whether our best is below every protocol with the same promise."""
    joint = sf.datasets.adult(*pair)
    ball = sf.ChiSquareBall(joint)
    mine = list(ours(ball, epsilon, seconds))
    rest = list(protocols(ball, epsilon))
    free = Precision(*(Spread.of(p * (1 - p) / joint.n) for p in (joint.p_useful, joint.p_secret, joint.p)))
    rows = [("none", "the table itself", free), *mine, *rest]
    lines = [
        f"| {promise} | {name} | {points(p.useful.standard_error)} | {points(p.joint.standard_error)} |"
        for promise, name, p in rows
    ]
    told, holds = [], True
    for side, what in (("useful", "useful marginal"), ("joint", "whole table")):
        best = min(getattr(p, side).standard_error for _, _, p in mine)
        other = min(getattr(p, side).standard_error for _, _, p in rest)
        holds &= best <= other
        told.append(f"{other / best:.2f} on the {what}")
    title = f"## {pair[0]} × {pair[1]}, ε = {epsilon:g}"
    last = f"The best protocol's error over ours: {', '.join(told)}."
    return f"{title}\n\n{HEAD}\n" + "\n".join(lines) + f"\n\n{last}\n", holds


def checked() -> str:
    """The formula for OLH against reports of multi-freq-ldpy: root mean square errors over repeats."""
    try:
        import xxhash
        from multi_freq_ldpy.pure_frequency_oracles import LH
    except ImportError:
        return "multi-freq-ldpy is not installed here: the formula for OLH was not checked."

    def xxh32(text: str, seed: int) -> Any:
        return xxhash.xxh32(text.encode(), seed=int(seed) % 2**32)  # as xxhash once did by itself

    LH.xxhash = SimpleNamespace(xxh32=xxh32)
    p, n, repeats, epsilon = sf.datasets.adult("sex", "race").p.ravel(), 1000, 60, 1.0
    np.random.seed(0)  # noqa: NPY002 - the peer draws from it
    g = round(math.exp(epsilon)) + 1
    a, b = math.exp(epsilon) / (math.exp(epsilon) + g - 1), 1 / g
    rng, errors = np.random.default_rng(0), []
    for _ in range(repeats):
        support = np.zeros(p.size)
        for x in rng.choice(p.size, n, p=p):
            value, seed = LH.LH_Client(int(x), p.size, epsilon)
            support += [value == xxh32(str(v), seed).intdigest() % g for v in range(p.size)]
        errors.append((support / n - b) / (a - b) - p)
    seen = float(np.sqrt(np.mean(np.square(errors))))
    told = float(np.sqrt(np.diag(covariance(p, math.exp(epsilon), n)).mean()))
    width = 3 / math.sqrt(2 * repeats * p.size)
    assert abs(seen / told - 1) < 2 * width, (seen, told)
    return (
        f"OLH's formula against {repeats} × {n:,} reports of multi-freq-ldpy at ε = {epsilon:g} on sex × race: root "
        f"mean square error {seen:.4f}, by formula {told:.4f} (ratio {seen / told:.3f}; chance alone moves it by about "
        f"{width / 3:.3f})."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="for each search on a large table")
    parser.add_argument("--large", type=float, nargs="*", default=LEVELS, help="levels for the large table")
    parser.add_argument("--out", type=Path, default=TARGET)
    arguments = parser.parse_args()
    parts: list[str] = []
    fine = True
    for pair in PAIRS:
        large = sf.datasets.adult(*pair).p.size >= LARGE
        for epsilon in arguments.large if large else LEVELS:
            text, holds = section(pair, epsilon, arguments.seconds if large else 20.0)
            parts.append(text)
            fine &= holds
            print(text, flush=True)
    arguments.out.write_text(written(parts, arguments.seconds))
    return 0 if fine else 1


def written(parts: list[str], seconds: float) -> str:
    """The page."""
    return (
        "# Errors at the same promise\n\n"
        "Written by `python benchmarks/errors.py`. Standard errors in percentage points, as the root mean square over\n"
        "the values of the useful marginal and over the cells of the whole table, of unbiased estimates from the "
        "32,561\n"
        "rows of Adult, sampling included: what no release can go below is shown as *the table itself*. The first "
        "column\n"
        "of a pair is the secret. Ours and the protocols marked *the same* promise ε about the secret for every\n"
        "distribution in the 95 % ball; OUE and OLH that read the secret have outputs that hold all values of one "
        "secret\n"
        "and none of another, so their calibration is ε-LDP itself. *ε-LDP of the record* promises more, about the\n"
        "useful columns too. Estimates are those of `sf.estimate`, for OLH those of its paper. A dash: it cannot be\n"
        "estimated, or (OLH) there is nothing left to randomise.\n\n"
        f"{seconds:g} seconds of search for each design on the large table; more time makes them better.\n\n"
        "![The best ordinary protocol's error over ours, for two tables and three levels.](pictures/errors.svg)\n\n"
        + "\n".join(parts) + f"\n{checked()}\n"
    )

if __name__ == "__main__":
    sys.exit(main())
