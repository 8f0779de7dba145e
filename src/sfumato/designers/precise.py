"""precise: the mechanism from which the table is estimated best, under the same promise as ballopt."""

from __future__ import annotations

import math
import time

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import Draft, Task
from sfumato.designers.grr import response, strength
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Constant, Mechanism, Table
from sfumato.solve.precise import precise as most_precise
from sfumato.solve.precise import trace
from sfumato.solve.watch import Progress, Watch
from sfumato.uncertainty import ChiSquareBall, Exactly

def watch_for(time_limit: float, progress: Progress | None, cells: int) -> Watch:
    return Watch(time.monotonic() + 0.85 * time_limit, progress)


TARGETS = ("joint", "useful", "secret")
BESIDE = 1e-4  # weight of the whole table beside another target, so that all of it stays identified
SECONDS = 60.0  # of search, when no time_limit is given
MOST_CELLS = 400  # the mixture's Newton steps cost the cube of a few times this


def weights(joint: Joint, target: str) -> Floats:
    """C[x, x] of the mean square error of a target: of the cells, or of the values of a marginal."""
    r, k = joint.shape
    sums = {
        "joint": np.eye(r * k), "secret": np.kron(np.eye(r), np.ones((1, k))),
        "useful": np.kron(np.ones((1, r)), np.eye(k)),
    }[target]
    return np.asarray(sums.T @ sums / len(sums))


def standard_error(rows: Floats, joint: Joint, cost: Floats) -> float:
    """Root of (tr(C J⁻¹) − pᵀCp)/n, n = 1 when it is not known: of the efficient unbiased estimate."""
    p = joint.p.ravel()
    return math.sqrt(max(trace(rows, joint.p, cost) - float(p @ cost @ p), 0.0) / (joint.n or 1))


def precise(
    task: Task, *, target: str = "joint", time_limit: float | None = None, progress: Progress | None = None
) -> Draft:
    """The least standard error of estimates under ε-RLDP over the ball: an A-optimal mixture of extreme rows (ours).

    target is what shall be estimated well: the 'joint' table, the 'useful' marginal or the 'secret' one; the others
    stay identified. d.value is the root mean square standard error over its values at as many rows as were counted;
    d.bound is that of the untouched table, below which no release can be. The rows of GRR on (s, u) and on u alone are
    among those that are mixed.
    """
    if target not in TARGETS:
        raise InputError(f"target must be one of {', '.join(TARGETS)}, got {target!r}.")
    joint, cost = task.joint, weights(task.joint, target)
    slack = _slack(task)
    watch = watch_for(SECONDS if time_limit is None else time_limit, progress, joint.p.size)
    free = math.sqrt(max(float(np.diag(cost) @ joint.p.ravel() - joint.p.ravel() @ cost @ joint.p.ravel()), 0.0))
    common = {"bound": free / math.sqrt(joint.n or 1), "details": {"target": target}, "unit": "of standard error"}
    if task.epsilon == 0:
        return Draft(Constant(*joint.shape), "precise", score=lambda m: math.inf, **common)  # type: ignore[arg-type]
    start = np.concatenate([_randomised(task), _randomised(task.with_reads("useful"))])
    mixed = cost if target == "joint" else cost + BESIDE * weights(joint, "joint")
    rows, _ = most_precise(joint.p, slack, task.epsilon, mixed, start=start, watch=watch)

    def score(mechanism: Mechanism) -> float:
        q = mechanism.matrix
        return math.nan if q is None else standard_error(q, joint, cost)

    late = ("stopped at the time limit: the best design so far",) if watch.over else ()
    note = "which rows are tried is a search: only the error of the untouched table bounds what others could reach"
    law = Table(rows / rows.sum(0), joint.shape[0])
    return Draft(law, "precise", notes=(*late, note), score=score, **common)  # type: ignore[arg-type]


def _randomised(task: Task) -> Floats:
    """The rows [y, x] of GRR over what the task reads, for every secret."""
    rows = response(task.rows, task.joint.useful.size, strength(task)).matrix()
    assert rows is not None
    return np.asarray(rows if task.rows > 1 else np.tile(rows, (1, task.joint.secret.size)))


def _slack(task: Task) -> float:
    """The shared slack of the ball; none for a known distribution."""
    if task.notion != "rldp" or task.reads != "both":
        raise InputError(f"precise is for notion='rldp' and reads='both', got {task.notion!r} and {task.reads!r}.")
    joint = task.joint
    if not isinstance(task.within, (ChiSquareBall, Exactly)):
        raise InputError(f"precise needs a χ² ball or a known distribution, got a set of kind {task.within.kind!r}.")
    if (joint.p_secret <= 0).any() or (joint.p_useful <= 0).any():
        raise InputError("a secret or a useful value never occurs in the table; leave it out, or use method='grr'.")
    if joint.secret.size < 2:
        raise InputError("fewer than two secrets occur in the table: there is nothing to tell apart.")
    if joint.p.size > MOST_CELLS:
        raise InputError(f"precise takes {MOST_CELLS} cells at most, got {joint.p.size}; use ballopt.")
    return task.within.slack if isinstance(task.within, ChiSquareBall) else 0.0
