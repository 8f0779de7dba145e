"""Estimates by `precise` beside the best ordinary protocol with the same promise: errors in points, bounds, seconds.

    python benchmarks/estimates.py                 # Adult at ε = 1, a 100 × 20 table, some small ones
    python benchmarks/estimates.py --seconds 120   # longer searches
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import Any

import numpy as np

import sfumato as sf
from sfumato.optimise.estimates.goal import goal
from sfumato.optimise.estimates.searching import filled

EPSILON = 1.0
CASES = (("occupation", "education", "useful"), ("occupation", "education", "joint"), ("sex", "race", "joint"),
         ("sex", "race", "useful"), ("sex", "race", "secret"))
HEAD = "| table | target | precise | bound | best protocol | ratio | seconds |\n|---|---|---:|---:|---|---:|---:|"


def large(secrets: int = 100, useful: int = 20, n: int = 1_000_000) -> sf.Joint:
    """A table of many secrets with a weak tie to the useful values."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(secrets, 2.0))[:, None] * rng.dirichlet(np.full(useful, 5.0), secrets)
    return sf.Joint.from_counts(rng.multinomial(n, (p / p.sum()).ravel()).reshape(secrets, useful))


def protocols(ball: Any, target: str) -> tuple[float, str]:
    """The least standard error of a calibrated protocol whose promise is proved, and its name."""
    found = []
    for reads in ("both", "useful") if target == "useful" else ("both",):
        for method in ("grr", "sue", "oue", *(("srr",) if reads == "both" else ())):
            try:
                law = sf.design(ball, EPSILON, method, reads=reads).mechanism.law
            except sf.SfumatoError:
                continue
            error = goal(filled(ball).joint, target, reads).of_law(law)
            found.append((math.sqrt(error / ball.joint.n), f"{method} of {'(s, u)' if reads == 'both' else 'u'}"))
    return min(x for x in found if x[0] == x[0])


def line(name: str, joint: sf.Joint, target: str, seconds: float | None) -> tuple[str, bool]:
    ball = sf.ChiSquareBall(joint)
    began = time.perf_counter()
    made = sf.design(ball, EPSILON, "precise", target=target, **({} if seconds is None else {"time_limit": seconds}))
    took = time.perf_counter() - began
    other, called = protocols(ball, target)
    shown = (f"| {name} | {target} | {100 * made.value:.4g} | {100 * made.bound:.3g} | {100 * other:.4g} ({called}) "
             f"| {other / made.value:.2f} | {took:.1f} |")
    return shown, made.certificate.holds and made.value <= other * (1 + 1e-6)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=None, help="for each search; 26 if not given")
    seconds = parser.parse_args().seconds
    tables = [(f"{s} × {u}", sf.datasets.adult(s, u), target) for s, u, target in CASES]
    tables += [("100 × 20", large(), "joint"), ("100 × 20", large(), "useful")]
    print(HEAD)
    fine = True
    for name, joint, target in tables:
        shown, holds = line(name, joint, target, seconds)
        print(shown, flush=True)
        fine &= holds
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
