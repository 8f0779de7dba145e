"""srlip: several attributes, private also against those who know some of them; and the paper's own design."""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification import certificate
from sfumato.designers.base import Draft, Task
from sfumato.designers.funnel import perfect
from sfumato.errors import InputError
from sfumato.mechanism import Constant, Mechanism, Table
from sfumato.optimise.budget import Budget
from sfumato.optimise.funnel.posteriors import Funnel, generated, optimum, repaired
from sfumato.optimise.funnel.products import best_product, paper_product, srlip_rows, whole
from sfumato.privacy.beliefs import attributes, output_level, product_level
from sfumato.uncertainty import Exactly

LISTABLE = 12  # values of x up to which all rays of the joint design are listed; beyond, side channels make many facets
LARGEST = 64  # values of x up to which a joint design is tried when none is asked for
SECONDS = 60.0  # for both designs, unless another limit is given
LEAST_SECONDS = 0.5  # that the joint design has when it is asked for, whatever the product took
JOINT_SECONDS = 0.6  # given to the joint design when nothing is said: the product design is then still under a second


def srlip(
    task: Task, *, time_limit: float | None = None, joint: bool | None = None, starts: int = 4, gap: float = 1e-5
) -> Draft:
    """High I(X;Y) under ε-SRLIP for X = (x¹, …, x^m), the columns of the useful variable [001, Def. 3; design ours].

    A product of mechanisms by block ascent from several budget splits; and, where the alphabet allows it, one
    mechanism on all attributes, whose bound holds for every product too. The better of the two is sealed and its
    level certified over every J and x^J. joint=True or False asks for or forbids the second.
    """
    p = _table(task, "srlip")
    if p.ndim == 2 and task.epsilon == 0.0:
        return perfect(task, "srlip")
    if task.epsilon == 0.0:
        note = "ε = 0 against side channels: answers that ignore the input (a better design is not sought)"
        return Draft(Constant(1, task.joint.useful.size), "srlip", task.joint.entropy_useful, (note,))
    budget = Budget.of(SECONDS if time_limit is None else time_limit)
    parts = best_product(p, task.epsilon, product_level, starts=starts, budget=budget)
    matrix, value, bound, notes = whole(parts.mechanisms), parts.value, task.joint.entropy_useful, []
    if joint or (joint is None and task.joint.useful.size <= LARGEST):
        quick = time_limit is None and joint is None
        left = Budget.of(JOINT_SECONDS if quick else max(LEAST_SECONDS, budget.left))
        direct = joint_design(p, task.epsilon, left, gap=gap)
        bound = min(bound, direct.bound)
        more = direct.value / value if value > 0 else float("inf")
        notes.append(f"one mechanism on all columns keeps {more:.4g} times as much as a product of one for each")
        if direct.value > value:
            matrix = direct.matrix
    else:
        notes.append("no joint design was tried; the bound is H(X)")
    details = {"product": parts.value, "product_level": parts.level}
    return Draft(Table(matrix, 1), "srlip", bound, tuple(notes), details, fine=True)


def srlip_paper(task: Task) -> Draft:
    """The paper's product with the budget split equally, for comparison [001, Thm 4 (false)].

    Its claim is what the paper promises; its certificate is the true level. When that exceeds the claim, `release` and
    `verify` refuse the mechanism.
    """
    p = _table(task, "srlip-paper")
    found = paper_product(p, task.epsilon, product_level)
    labels, proof, law = task.joint, None, Table(whole(found.mechanisms), 1)
    for margin in (0.0, 2.0**-46, 2.0**-40):
        sealed = law.rounded(None, margin)
        proof = certificate(Mechanism(sealed, labels.secret, labels.useful, "useful", claim=task.claim), wider=False)
        if proof.holds:
            break
    assert proof is not None
    verdict = "keeps" if proof.holds else "BREAKS"
    note = f"the paper's composition {verdict} its promise: claimed ε ≤ {task.epsilon:g}, true level {proof.level:.6g}"
    return Draft(sealed, "srlip-paper", found.value, (note,), {"true_level": proof.level})


def _table(task: Task, method: str) -> Floats:
    """p[s, x¹, …, x^m]."""
    if not isinstance(task.within, Exactly):
        raise InputError(f"{method} is for a known distribution; give sf.Exactly(joint), not {task.within.kind!r}.")
    return np.asarray(task.joint.p.reshape(-1, *attributes(task.joint)))


def joint_design(p: Floats, epsilon: float, budget: Budget, *, gap: float = 1e-5) -> Funnel:
    """The mechanism Q[y, x] on the flat index of (x¹, …, x^m) with the largest I(X;Y) under ε-SRLIP, and its bound."""
    p = p / p.sum()
    column, rows = p.sum(axis=0).ravel(), srlip_rows(p, epsilon)
    solve = optimum if len(column) <= LISTABLE else generated
    found = solve(column, rows, budget, gap=gap)

    def level(matrix: Floats) -> float:
        return max(output_level(p, np.broadcast_to(row.reshape(p.shape[1:]), p.shape)) for row in matrix)

    return repaired(found, column, epsilon, level)
