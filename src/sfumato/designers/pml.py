"""pml: the most informative mechanism under pointwise maximal leakage about the secret, P(y|s) ≤ e^ε·P(y) over F."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sfumato.alphabet import Floats
from sfumato.designers.base import ENDED, LARGEST, Draft, Task, listed_rows, silent
from sfumato.designers.funnel import law_of_rows, perfect, robust_or_known
from sfumato.mechanism import Mechanism, Table
from sfumato.optimise.arrays import DUST
from sfumato.optimise.budget import Budget
from sfumato.optimise.cone import BeliefCone, repaired
from sfumato.optimise.funnel.posteriors import best_pml, response_bound, telling_rows
from sfumato.optimise.search import InformationAim, Tangents, improve, mixed_again
from sfumato.tolerances import ALIKE, EXPONENT

SECONDS = 30.0  # of a design, where nobody says
WORK = 20_000  # |S|·cells² up to which the worst cases of rows are searched, about a second each time


def pml(
    task: Task, *, time_limit: float | None = None, gap: float = 1e-6, starts: Sequence[Mechanism] = (),
    working: float | None = None,
) -> Draft:
    """The mechanism that keeps the most I(input; Y) at P̂ while no output raises a belief by more than e^ε [ours].

    At a known distribution the optimum is a linear programme: H(U|S) + max I(S;Y) for mechanisms that read both, the
    funnel's for those that read the useful variable alone. Over a χ² ball rows are searched from these and from those
    of `starts`, mechanisms for the same table under any promise. `working` are seconds of work instead of a time
    limit, whatever else the machine does.
    """
    whole = Budget.of(SECONDS if time_limit is None else time_limit) if working is None else Budget.of_work(working)
    budget = whole.part()  # what is left is for the proof
    robust = robust_or_known(task, "pml")
    if task.epsilon == 0.0:
        if task.reads == "useful" and not robust:
            return perfect(task, "pml")  # P(y|s) ≤ P(y), the mean over s: then they are equal
        return silent(task, "pml", 0.0 if robust else task.ceiling)
    if task.joint.secret.size == 1:
        truth = Table(np.eye(task.joint.useful.size), 1)
        return Draft(truth, "pml", task.joint.entropy, ("one secret: nothing to hide",))
    if robust or task.at_most is not None:
        return _over_ball(task, budget, starts)
    if task.reads == "useful":
        found = best_pml(task.joint.p, min(task.epsilon, EXPONENT), budget, gap=gap)
        return Draft(Table(found.matrix, 1), "pml", found.bound, (found.status,), {"status": found.status}, fine=True)
    told = _telling(task, BeliefCone(task.within, min(task.epsilon, LARGEST)))
    note = "the optimum at the design distribution"
    return Draft(law_of_rows(told, task), "pml", _limit(task, budget), (note,), fine=True)


def _telling(task: Task, cone: BeliefCone) -> InformationAim:
    """The best mixture at P̂ of rows that read both."""
    master = InformationAim(cone.coordinates)
    master.add(cone.coordinates.taken(telling_rows(task.joint.p, cone.E)))
    master.solve()
    return master


def _over_ball(task: Task, budget: Budget, starts: Sequence[Mechanism]) -> Draft:
    """Rows of the optimum at P̂ made private and what moves find from them; on large tables those that read U alone."""
    joint = task.joint
    cone = BeliefCone(task.within, min(task.epsilon, LARGEST), task.reads, at_most=task.at_most)
    if task.reads == "both" and joint.secret.size * len(cone.coordinates.p) ** 2 > WORK:
        alone = task.with_reads("useful")
        note = f"{joint.p.size:,} cells are too many to move rows: the best that does not read the secret"
        return replace(_over_ball(alone, budget, ()), task=alone, bound=_limit(task, budget), notes=(note,))
    master = InformationAim(cone.coordinates)
    master.add(repaired(cone, _known(task, cone), loose=True))
    if begun := [cone.coordinates.taken(x) for x in listed_rows(task, [x.law for x in starts])]:
        master.add(repaired(cone, np.concatenate(begun) + DUST, loose=True))
    if master.solve() < joint.entropy * (1 - ALIKE):
        improve(master, [Tangents(cone, master)], budget)
    notes = (ENDED,) if budget.over else ()
    return Draft(law_of_rows(mixed_again(cone, master), task), "pml", _limit(task, budget), notes)


def _known(task: Task, cone: BeliefCone) -> Floats:
    """The rows of the optimum at P̂, and the truth about each number."""
    truth = np.eye(len(cone.coordinates.p)) + DUST
    if task.reads == "useful":
        return np.concatenate([best_pml(task.joint.p, math.log(cone.E), Budget.of(1.0)).matrix + DUST, truth])
    return np.concatenate([_telling(task, cone).used()[0], truth])


def _limit(task: Task, budget: Budget) -> float:
    """What no mechanism private at P̂ exceeds, and P̂ lies in the set."""
    joint = task.joint
    limit = joint.entropy_useful_given_secret + response_bound(joint.p_secret, task.epsilon)
    if task.reads == "both":
        return min(limit, task.ceiling)
    known = best_pml(joint.p, min(task.epsilon, EXPONENT), Budget.of(max(1.0, budget.left)))
    return min(limit, task.ceiling, known.bound)
