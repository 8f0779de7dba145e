"""lip, ldp, pml, mi-funnel and srlip: the most informative mechanism under a promise about S, mostly on X alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sfumato.alphabet import Floats, Ints
from sfumato.certification import certificate
from sfumato.decimals import at_most
from sfumato.designers.base import ENDED, LARGEST, LIMIT, Details, Draft, Task, listed_rows, silent
from sfumato.designers.closed_forms import grr
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Constant, Mechanism, Table
from sfumato.optimise.all_levels import meet
from sfumato.optimise.arrays import DUST, GHOST, SEALING
from sfumato.optimise.budget import NUMBER, Budget
from sfumato.optimise.cone import BeliefCone, RatioCone
from sfumato.optimise.cone import repaired as private_rows
from sfumato.optimise.funnel import posteriors
from sfumato.optimise.funnel.products import best_product, paper_product, srlip_rows, whole
from sfumato.optimise.linear import LP_PASSES
from sfumato.optimise.search import InformationAim, Tangents, improve, last_rows, mixed_again
from sfumato.privacy.beliefs import attributes, output_level, product_level
from sfumato.uncertainty import ChiSquareBall, Exactly
from sfumato_kernel.laws import ALIAS_BITS

OverSet = RatioCone | BeliefCone
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


def lip(task: Task, *, time_limit: float = LIMIT, gap: float = 1e-6) -> Draft:
    """The mechanism that reads X alone and keeps the most I(X;Y) under ε-LIP about S [001, Thm 3] (docs/funnel.md)."""
    cone = partial(BeliefCone, task.within, reads="useful", below=True)
    return _funnel(task, "lip", cone, BeliefCone.MARGIN, posteriors.best_lip, Budget.of(time_limit), gap)


def ldp(task: Task, *, time_limit: float = LIMIT, gap: float = 1e-6) -> Draft:
    """The same under ε-LDP about S [001, Thm 2, by a shorter way]: rays in a dimensions, not vertices in a² − a."""
    cone = partial(RatioCone, task.within, reads="useful")
    return _funnel(task, "ldp", cone, SEALING, posteriors.best_ldp, Budget.of(time_limit), gap)


def _funnel(
    task: Task, method: str, cone: Callable[..., OverSet], margin: float, best: Callable[..., posteriors.Channel],
    budget: Budget, gap: float, starts: Sequence[Mechanism] = (),
) -> Draft:
    """The best at P̂, whose bound is for every mechanism that reads X alone; or `_over_ball`."""
    if robust_or_known(task, method) or task.at_most is not None:
        def known(budget: Budget) -> tuple[Floats, float]:
            found = best(task.joint.p, task.epsilon, budget)
            return found.matrix + DUST, found.bound

        return _over_ball(task, method, cone, margin, known, budget, gap, starts)
    if task.epsilon == 0.0:
        return perfect(task, method)
    found = best(task.joint.p, task.epsilon, budget, gap=gap)
    if budget.over and (closed := _closed(task, method, found.bound)).value(task) > found.value:
        return closed
    note = f"{found.status}; the bound holds for every mechanism that reads the useful variable alone"
    return Draft(Table(found.matrix, 1), method, found.bound, (note,), {"status": found.status}, fine=True)


def _closed(task: Task, method: str, bound: float) -> Draft:
    """The closed form that every set has, at RLDP, which implies the other notions."""
    law = grr(replace(task, notion="rldp")).law
    return Draft(law, method, bound, (f"{ENDED}: grr",))


def mi_funnel(task: Task, *, time_limit: float = 5.0) -> Draft:
    """High I(X;Y) with I(S;Y) ≤ ε nats (M in the literature), by local ascent: a baseline, not a global optimum.

    The funnel of Makhdoumi et al. 2014 and Ding and Sadeghi 2019: a promise about the average (docs/funnel.md).
    """
    p = _known(task, "mi-funnel")
    if task.epsilon == 0.0:
        return perfect(task, "mi-funnel")  # no average can hide anything: this is perfect privacy
    found = posteriors.best_mutual(p, task.epsilon, Budget.of(time_limit))
    note = "average case: I(S;Y) ≤ ε says nothing about single outputs; see the worst output in the certificate"
    return Draft(Table(found.matrix, 1), "mi-funnel", found.bound, (note,), fine=True)


WORK = 20_000  # |S|·cells² up to which the worst cases of rows are searched, about a second each time


def pml(
    task: Task, *, time_limit: float | None = None, gap: float = 1e-6, starts: Sequence[Mechanism] = (),
    working: float | None = None,
) -> Draft:
    """The mechanism that keeps the most I(input; Y) at P̂ while no output raises a belief by more than e^ε [ours].

    At a known distribution it is a linear programme (docs/pml.md); over a χ² ball rows are searched from its own and
    those of `starts`, mechanisms for the same table under any promise. `working` are seconds of work, not of time.
    """
    budget = Budget.of(time_limit or LIMIT / 2) if working is None else Budget.of_work(working)
    cone, joint = partial(BeliefCone, task.within, reads=task.reads), task.joint
    if task.reads == "useful":
        return _funnel(task, "pml", cone, BeliefCone.MARGIN, posteriors.best_pml, budget, gap, starts)
    robust, at = robust_or_known(task, "pml"), cone(min(task.epsilon, LARGEST))
    told = posteriors.response_bound(joint.p_secret, task.epsilon)
    limit = min(task.ceiling, joint.entropy_useful_given_secret + told)
    if not (robust or task.at_most is not None) and task.epsilon > 0.0:
        if not budget.fits(LP_PASSES * NUMBER * joint.p.size**2):  # it has about as many rows as cells
            return _closed(task, "pml", limit)
        note = "the optimum at the design distribution"
        return Draft(Table(posteriors.telling_rows(joint.p, at.E), task.rows), "pml", limit, (note,), fine=True)
    if task.epsilon == 0.0 or joint.secret.size * len(at.coordinates.p) ** 2 <= WORK:
        known = lambda _: (at.coordinates.taken(posteriors.telling_rows(joint.p, at.E)), limit)
        return _over_ball(task, "pml", cone, BeliefCone.MARGIN, known, budget, gap, starts)
    alone = replace(task, reads="useful")
    note = f"{joint.p.size:,} cells are too many to move rows: the best that does not read the secret"
    return replace(pml(alone, time_limit=time_limit, gap=gap, working=working), task=alone, bound=limit, notes=(note,))


def _known(task: Task, method: str) -> Floats:
    """p[s, x] of methods that are not for sets."""
    if not isinstance(task.within, Exactly):
        raise InputError(f"{method} is for a known distribution; give sf.Exactly(joint), not {task.within.kind!r}.")
    return task.joint.p


def perfect(task: Task, method: str) -> Draft:
    """ε = 0: Y independent of S with the largest I(X;Y), in integers that are independent exactly."""
    p = task.joint.p / task.joint.p.sum()
    found = posteriors.enumerated(p.sum(axis=0), np.zeros((0, p.shape[1])), posteriors.independence_rows(p))
    basis = independent_rows(task.joint)
    for smear in SMEARS:
        weights, bits = independent_weights(found.matrix, basis, smear)
        if weights is not None and certificate(_sealed(task, Table(weights, 1, bits)), wider=False).holds:
            note = f"{found.status}; rounded inside the lattice of integer mechanisms exactly independent of S"
            if found.bound > GHOST and not np.ptp(weights, axis=1).any():
                note = (f"the probabilities have so many digits that of all mechanisms in {bits} bits only those that "
                        "ignore the input are exactly independent of S; give counts, or a small ε such as 1e-9")
            return Draft(Table(weights, 1, bits), method, found.bound, (note,), {"smear": smear})
    law = Table(found.matrix, 1).rounded(None, 2.0**-22)
    level = certificate(_sealed(task, law), wider=False).level
    note = f"no integers nearby are exactly independent of the secret; ε = {at_most(level, 3)} is claimed instead of 0"
    return Draft(law, method, found.bound, (found.status, note), task=replace(task, epsilon=level))


def _sealed(task: Task, law: Table) -> Mechanism:
    return Mechanism(law, task.joint.secret, task.joint.useful, "useful", claim=task.claim, joint=task.joint)


def independent_rows(joint: Joint) -> list[posteriors.Vector]:
    """A short basis of the integer rows r with Σ_x r(x) p(x|s) the same for every s that occurs."""
    exact, _ = joint.weights()
    first, *others = (row for row in exact if row.any())
    equations = (row * int(first.sum()) - first * int(row.sum()) for row in others)
    return posteriors.reduced(posteriors.kernel([e // math.gcd(*e) for e in equations if e.any()], exact.shape[1]))


def independent_weights(q: Floats, basis: list[posteriors.Vector], smear: float) -> tuple[Ints | None, int]:
    """Integer weights near Q with rows in the lattice (docs/funnel.md, ε = 0), and their bits; None if one is < 0."""
    q = q[q.max(axis=1) > GHOST]
    q = q / q.sum(axis=0)
    q = (1 - smear) * q + smear / len(q)
    bits = ALIAS_BITS + max(0, (len(q) - 1).bit_length())
    rows = [posteriors.nearby(basis, [round(float(w)) for w in np.ldexp(row, bits)]) for row in q[:-1]]
    weights = np.array([*rows, 2**bits - sum(rows, np.zeros(q.shape[1], np.object_))])
    return (None if (weights < 0).any() else weights.astype(np.int64)), bits


# --- over a χ² ball: the most I(X;Y) at P̂ under ε-LIP or ε-LDP about S for every P in the ball [ours] ----------------


FUNNEL_GAP = 2e-5  # relative gap between value and bound, the least to ask for: the margin for a proof costs as much


def _over_ball(
    task: Task, method: str, cone: Callable[..., OverSet], margin: float,
    known: Callable[[Budget], tuple[Floats, float]], budget: Budget, gap: float, starts: Sequence[Mechanism] = (),
) -> Draft:
    """Cuts at the worst P from outside and rows from inside until they meet, or moves: the engine's rows.

    `cone` at a margin above ε is the cone at ε itself. `known` has the rows of the optimum at P̂, which lies in the
    ball, and its bound, which holds too; `starts` are other mechanisms. Sealed less finely, pml keeps odds finite.
    """
    if (unsought := _unsought(task, method)) is not None:
        return unsought
    close, alone = max(gap, FUNNEL_GAP), task.reads == "useful"
    inner, outer = cone(min(task.epsilon, LARGEST), at_most=task.at_most), cone(task.epsilon + margin)
    n = len(inner.coordinates.p)
    if not budget.fits(inner.cost(n) + inner.cost(last_rows(n))):  # to begin and to end
        return _closed(task, method, task.ceiling)
    budget = budget.less(inner.cost(last_rows(n)))
    master = InformationAim(inner.coordinates, budget)
    begun = [inner.coordinates.taken(x) + DUST for x in listed_rows(task, [x.law for x in starts])]
    master.add(private_rows(inner, np.concatenate([np.eye(n) + DUST, *begun]), loose=True))
    bound, _ = meet(inner, outer, master, budget.part(), gap=close)
    notes = [f"the bound is for every mechanism{' on X' if alone else ''} private over the ball"]
    if not bound - master.value <= close * master.value:
        rows, limit = known(budget.part())
        master.add(private_rows(inner, rows, loose=True))
        improve(master, [Tangents(inner, master)], moving := budget.part())
        bound = min(bound, limit, task.ceiling)
        notes = [notes[0] + "; cuts from outside did not meet it", *([ENDED] if moving.over else [])]
    rows, weights = mixed_again(inner, master).used()
    full = rows * weights[:, None] if alone else inner.coordinates.full(rows * weights[:, None])
    return Draft(Table(full / full.sum(0), task.rows), method, bound, tuple(notes), fine=method != "pml")


def _unsought(task: Task, method: str) -> Draft | None:
    """The draft where there is nothing to search for."""
    if task.epsilon == 0.0:
        return silent(task, method, 0.0 if robust_or_known(task, method) else task.ceiling)
    if task.joint.secret.size == 1:
        truth = Table(np.eye(task.joint.useful.size), 1)
        return Draft(truth, method, task.joint.entropy_useful, ("one secret: nothing to hide",), fine=True)
    if task.joint.useful.size == 1 and task.reads == "useful":
        return Draft(Constant(1, 1), method, 0.0, ("one useful value: nothing to tell",))
    return None


# --- several attributes, private also against those who know some of them; and the paper's own design -----------------


TRIED, UNASKED = 64, 2.5  # values of x up to which a joint design is tried when none is asked for, and seconds


def srlip(
    task: Task, *, time_limit: float | None = None, joint: bool | None = None, starts: int = 4, gap: float = 1e-5
) -> Draft:
    """High I(X;Y) under ε-SRLIP for X = (x¹, …, x^m), the columns of the useful variable [001, Def. 3; design ours].

    The better of a product, by block ascent from several splits, and one mechanism on all attributes, whose bound holds
    for every product too (docs/funnel.md, Several attributes). joint=True or False asks for or forbids the second.
    """
    p = _known(task, "srlip").reshape(-1, *attributes(task.joint))
    if task.epsilon == 0.0:  # against side channels a better design is not sought
        return perfect(task, "srlip") if p.ndim == 2 else silent(task, "srlip", task.joint.entropy_useful)
    budget = Budget.of(time_limit or LIMIT)
    parts = best_product(p, task.epsilon, product_level, starts=starts, budget=budget)
    details: Details = {"product": parts.value, "product_level": parts.level}
    law, bound = whole(parts.mechanisms), task.joint.entropy_useful
    note = "no joint design was tried; the bound is H(X)"
    if task.joint.useful.size <= TRIED if joint is None else joint:
        quick = time_limit is None and joint is None  # as long as the product takes, about
        direct = joint_design(p, task.epsilon, Budget.of(UNASKED) if quick else budget, gap=gap)
        more = direct.value / parts.value if parts.value > 0 else float("inf")
        note = f"one mechanism on all columns keeps {more:.4g} times as much as a product of one for each"
        law, bound = direct.matrix if more > 1 else law, min(bound, direct.bound)
    return Draft(Table(law, 1), "srlip", bound, (note,), details, fine=True)


def srlip_paper(task: Task) -> Draft:
    """The paper's product, ε split equally [001, Thm 4 (false)]: `release` refuses it if its true level is above ε."""
    p = _known(task, "srlip-paper").reshape(-1, *attributes(task.joint))
    found = paper_product(p, task.epsilon, product_level)
    for margin in (0.0, 2.0**-46, 2.0**-40):
        sealed = Table(whole(found.mechanisms), 1).rounded(None, margin)
        proof = certificate(_sealed(task, sealed), wider=False)
        if proof.holds:
            break
    verdict, true = "keeps" if proof.holds else "BREAKS", at_most(proof.level)
    note = f"the paper's composition {verdict} its promise: claimed ε ≤ {task.epsilon:g}, true level {true}"
    return Draft(sealed, "srlip-paper", found.value, (note,), {"true_level": proof.level})


def _joint_level(p: Floats, matrix: Floats) -> float:
    """ε of SRLIP of one mechanism Q[y, x] on the flat index of (x¹, …, x^m)."""
    return max(output_level(p, np.broadcast_to(row.reshape(p.shape[1:]), p.shape)) for row in matrix)


joint_design = partial(posteriors.best, srlip_rows, _joint_level)
