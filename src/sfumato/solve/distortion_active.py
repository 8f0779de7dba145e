"""Cones for the pairs of secrets that need them: most constraints of a large table are slack at the optimum.

All pairs hold with the slack split in halves (2|Y||S| sides, cheap and nearly right); those that the answer breaks, or
nearly, get the exact cone in the next, larger program. Each program is a relaxation, so each of them proves a bound.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from sfumato.solve.arrays import Bools, Floats
from sfumato.solve.distortion_cones import Found, Pairs, solve_by_cones
from sfumato.solve.distortion_problem import Problem
from sfumato.solve.pair_ratios import all_pairs, exactly_at

ACCURACY = (1e-6, 1e-5)  # of the solver: halves only, then a rough look at the chosen pairs
EARNEST = (1e-9, 1e-4)  # afterwards: at least, and of the tolerance
CLOSE = (3e-3, 3e-2, 1e-6)  # a ratio this close to e^ε earns a pair its exact cone; after a rough look one is generous
ROUNDS = 6
SHARE = 1.5  # of the time of the last round: what the next may need


def solve_by_active_cones(problem: Problem, *, tolerance: float = 1e-6, time_limit: float = 600.0) -> Found:
    """The best value and the best bound of a few growing programs, until they agree or the time is over."""
    deadline = time.monotonic() + time_limit
    pairs = all_pairs(problem.outputs, problem.p.shape[0])
    exact: Bools = np.zeros(len(pairs[0]), dtype=np.bool_)
    best: Found | None = None
    accuracy = (*ACCURACY, *(max(EARNEST[0], EARNEST[1] * tolerance) for _ in range(ROUNDS - len(ACCURACY))))
    for turn in range(ROUNDS):
        began = time.monotonic()
        chosen = _listed(pairs, exact)
        found = solve_by_cones(problem, exact=chosen, tolerance=accuracy[turn], time_limit=max(deadline - began, 0.1))
        best = found if best is None else _better(best, found)
        spent = time.monotonic() - began
        enough = best.value - best.bound <= tolerance * abs(best.value)
        if enough or time.monotonic() + SHARE * spent > deadline:
            break
        grown = _chosen(problem, pairs, exact, found.unmended, turn)
        if turn >= 2 and np.array_equal(grown, exact):
            break
        exact = grown
    assert best is not None
    return best


def _listed(pairs: Pairs, which: Bools) -> Pairs:
    y, s1, s2 = pairs
    return y[which], s1[which], s2[which]


def _better(best: Found, found: Found) -> Found:
    """The mechanism of the lower value with the proof of the higher bound."""
    proof = found if found.bound >= best.bound else best
    made = found if found.value <= best.value else best
    return replace(proof, q=made.q, value=made.value, unmended=made.unmended)


def _chosen(problem: Problem, pairs: Pairs, exact: Bools, q: Floats, turn: int) -> Bools:
    """Which pairs get their exact cone next."""
    ratio = exactly_at(problem.ball, problem.expand(q), *pairs).ratio
    close = ratio > float(np.exp(problem.epsilon)) * (1.0 - CLOSE[min(turn, 2)])
    return np.asarray(close | exact)  # a pair once broken is kept: without its cone it would be broken again
