"""lip, ldp and mi-funnel: the most informative mechanism on X under a promise about S; perfect privacy where ε = 0."""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.certification import certificate
from sfumato.designers.base import Draft, Task
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism, Table
from sfumato.mechanism.table import ALIAS_BITS
from sfumato.optimise.budget import Budget
from sfumato.optimise.funnel.average import best_mutual
from sfumato.optimise.funnel.lattice import kernel, nearby, primitive, reduced
from sfumato.optimise.funnel.posteriors import Funnel, best_ldp, best_lip, enumerated, independence_rows
from sfumato.uncertainty import ChiSquareBall, Exactly

NEVER = 2.0**-30  # an output less likely than this whatever the input is left out of an exact design
SMEARS = tuple(2.0**-k for k in (44, 40, 36, 32, 28, 24, 20, 17, 14, 12, 11, 10, 9, 8, 7, 6))  # of a constant law


def robust_or_known(task: Task, method: str) -> bool:
    """Whether the task is about a ball (True) or one distribution (False); other sets have no funnel design."""
    if isinstance(task.within, ChiSquareBall):
        return task.within.radius > 0
    if isinstance(task.within, Exactly):
        return False
    raise InputError(
        f"{method} designs for a known distribution or a χ² ball, not for a set of kind {task.within.kind!r}. "
        "Over any distribution it is LDP about the input: use grr with notion='ldp', reads='useful'."
    )


def lip(task: Task, *, time_limit: float = 60.0, gap: float = 1e-6) -> Draft:
    """The mechanism that reads X alone and keeps the most I(X;Y) under ε-LIP about S [001, Thm 3].

    Small cones: all extreme rays and an LP. Large ones: column generation, with a bound from branch and bound. Over a
    χ² ball: cutting planes, each a distribution in the ball [ours]. ε = 0 asks for an output independent of S.
    """
    if robust_or_known(task, "lip"):
        from sfumato.designers.robust_funnel import robust_lip

        return robust_lip(task, time_limit=time_limit)
    if task.epsilon == 0.0:
        return perfect(task, "lip")
    return _drafted(best_lip(task.joint.p, task.epsilon, Budget.of(time_limit), gap=gap), "lip")


def ldp(task: Task, *, time_limit: float = 60.0, gap: float = 1e-6) -> Draft:
    """The mechanism that reads X alone and keeps the most I(X;Y) under ε-LDP about S [001, Thm 2, by a shorter way].

    The paper lists vertices in a² − a dimensions; the extreme rays of the a-dimensional cone and an LP give the same.
    """
    if robust_or_known(task, "ldp"):
        from sfumato.designers.robust_funnel import robust_ldp

        return robust_ldp(task, time_limit=time_limit)
    if task.epsilon == 0.0:
        return perfect(task, "ldp")
    return _drafted(best_ldp(task.joint.p, task.epsilon, Budget.of(time_limit), gap=gap), "ldp")


def mi_funnel(task: Task, *, time_limit: float = 5.0) -> Draft:
    """High I(X;Y) with I(S;Y) ≤ ε nats (M in the literature), by greedy merging and local ascent. A baseline.

    Makhdoumi et al. 2014; Ding and Sadeghi 2019. The promise is about the average: single outputs may tell S outright.
    The certificate proves I(S;Y) ≤ ε and states the worst-case level beside it. Not a global optimum.
    """
    if not isinstance(task.within, Exactly):
        raise InputError(f"mi-funnel is for a known distribution; give sf.Exactly(joint), not {task.within.kind!r}.")
    if task.epsilon == 0.0:
        return perfect(task, "mi-funnel")  # no average can hide anything: this is perfect privacy
    found = best_mutual(task.joint.p, task.epsilon, Budget.of(time_limit))
    note = "average case: I(S;Y) ≤ ε says nothing about single outputs; see the worst output in the certificate"
    return Draft(Table(found.matrix, 1), "mi-funnel", found.bound, (note,), fine=True)


def _drafted(found: Funnel, method: str) -> Draft:
    """A funnel's matrix; its bound is for every mechanism that reads X alone."""
    note = f"{found.status}; the bound holds for every mechanism that reads the useful variable alone"
    return Draft(Table(found.matrix, 1), method, found.bound, (note,), {"status": found.status}, fine=True)


def perfect(task: Task, method: str) -> Draft:
    """ε = 0: Y independent of S with the largest I(X;Y), in integers that are independent exactly."""
    p = task.joint.p / task.joint.p.sum()
    found = enumerated(p.sum(axis=0), np.zeros((0, p.shape[1])), independence_rows(p))
    basis = independent_rows(task.joint)
    for smear in SMEARS:
        weights, bits = independent_weights(found.matrix, basis, smear)
        if weights is not None and certificate(_sealed(task, Table(weights, 1, bits)), wider=False).holds:
            note = f"{found.status}; rounded inside the lattice of integer mechanisms exactly independent of S"
            return Draft(Table(weights, 1, bits), method, found.bound, (note,), {"smear": smear})
    law = Table(found.matrix, 1).rounded(None, 2.0**-22)
    level = certificate(_sealed(task, law), wider=False).level
    note = f"no integers nearby are exactly independent of the secret; ε = {level:.3g} is claimed instead of 0"
    return Draft(law, method, found.bound, (found.status, note), epsilon=level)


def _sealed(task: Task, law: Table) -> Mechanism:
    return Mechanism(law, task.joint.secret, task.joint.useful, "useful", claim=task.claim, joint=task.joint)


def independent_rows(joint: Joint) -> list[list[int]]:
    """A short basis of the integer rows r with Σ_x r(x) p(x|s) the same for every s that occurs."""
    exact, _ = joint.weights()
    sizes = [int(n) for n in exact.sum(1)]
    seen = [s for s, n in enumerate(sizes) if n]
    first = seen[0]
    equations = [
        primitive([int(exact[s, x]) * sizes[first] - int(exact[first, x]) * sizes[s] for x in range(exact.shape[1])])
        for s in seen[1:]
    ]
    return reduced(kernel([e for e in equations if any(e)], exact.shape[1]))


def independent_weights(q: Floats, basis: list[list[int]], smear: float) -> tuple[Ints | None, int]:
    """Integer weights near a perfectly private mechanism whose rows all lie in the lattice; None if one is negative.

    The lattice holds the constant row, so all rows but one are moved to lattice points nearby and the last is what
    remains of 2^bits; a smear of the constant law keeps weights that should be 0 from falling below.
    """
    q = q[q.max(axis=1) > NEVER]
    q = q / q.sum(axis=0)
    q = (1 - smear) * q + smear / len(q)
    bits = ALIAS_BITS + max(0, (len(q) - 1).bit_length())
    rows = [nearby(basis, [round(float(w)) for w in np.ldexp(row, bits)]) for row in q[:-1]]
    weights = [*rows, [2**bits - sum(row[x] for row in rows) for x in range(q.shape[1])]]
    if min(min(row) for row in weights) < 0:
        return None, bits
    return np.array(weights, np.int64), bits
