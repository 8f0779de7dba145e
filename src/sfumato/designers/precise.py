"""precise: the mechanism from which the table is estimated best, under the same promise as ballopt."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification import seal
from sfumato.designers.base import Draft, Task
from sfumato.designers.grr import grr
from sfumato.designers.srr import srr
from sfumato.designers.unary import oue, sue
from sfumato.errors import InputError, SfumatoError
from sfumato.mechanism import Blocks, Constant, Law, Mechanism, Table
from sfumato.optimise.budget import Budget, Progress
from sfumato.optimise.estimates.bound import least_error
from sfumato.optimise.estimates.goal import TARGETS, Goal, goal
from sfumato.optimise.estimates.searching import Found, filled, searched
from sfumato.optimise.estimates.starts import fitting
from sfumato.privacy.rldp import compared

BESIDE = 1e-5  # weight of the whole table beside another target, so that all of it stays identified
SECONDS = 26.0  # of search, when no time_limit is given
SHARE = 0.85  # of the time limit: the rest is for sealing and certifying
PROOF = 0.2  # of the search, for the proof that little more is possible
PROVABLE = 60  # numbers to estimate beyond which branch and bound proves nothing within minutes: no time is spent on it
NEAR = 1e-3  # of the error: a design this close to the untouched table needs no other bound
LISTED = 4_000_000  # numbers in a protocol that is compared by listing it


def precise(
    task: Task, *, target: Any = "joint", time_limit: float | None = None, progress: Progress | None = None
) -> Draft:
    """The least standard error of estimates under ε-RLDP over a set: an A-optimal mixture of private rows (ours).

    target is what shall be estimated well: the 'joint' table, the 'useful' or the 'secret' marginal, 'each' of them
    (each divided by its own best error; d.value is then the root mean square of these ratios), weights of these as a
    mapping, weights of the squared errors of cells [s, u], or sums [k, s, u] that shall be known; the rest stays
    identified. d.value is the root mean square standard error at as many rows as were counted;
    d.bound lies below it: no mechanism with this promise has a smaller one. Ordinary protocols, of the useful variable
    alone or with the secret, calibrated to the same promise, compete as whole designs.
    """
    _check(task)
    joint = filled(task.within).joint
    whole = isinstance(target, str) and target in ("joint", "table")
    wanted = "useful" if whole and task.reads == "useful" else target
    budget = _budget(time_limit, progress)
    first = goal(joint, _parts_of(wanted, task), task.reads)
    details: dict[str, Any] = {"target": target if isinstance(target, str) else "given"}
    if task.epsilon == 0:
        law = Constant(task.rows, joint.useful.size)
        bound = math.sqrt(first.untouched / (joint.n or 1))
        return Draft(law, "precise", bound, details=details, score=lambda m: math.inf, unit="of standard error")
    aim, known = _each(task, budget) if _is_each(wanted) else (first, None)
    return _draft(task, aim, wanted, known, budget, details)


def _draft(task: Task, aim: Goal, wanted: Any, known: Floats | None, budget: Budget, details: dict[str, Any]) -> Draft:
    joint = filled(task.within).joint
    provable = len(aim.p) <= PROVABLE
    found = _found(task, aim, budget.part(1 - PROOF) if provable else budget, known)
    laws: list[tuple[float, Law, str, str]] = []
    if found is not None:
        table = Table(_columns(found), task.rows)
        laws.append((aim.of_law(table), table, "precise", task.reads))
    laws += [(error, law, name, reads) for error, law, name, reads in _protocols(task, aim, wanted) if error == error]
    laws.sort(key=lambda x: x[0])
    error, law, name, reads = next(x for x in laws if x[2] in ("precise", "srr") or _sealable(task, x[1], x[3]))
    least = aim.untouched if found is None or not provable else max(aim.untouched, least_error(found, aim, budget))
    of = "(s, u)" if reads == "both" else "u alone"
    notes = [] if name == "precise" else [f"{name} of {of} has the least error found"]
    if budget.over:
        notes.append("stopped at the time limit: the best design so far")
    if least <= aim.untouched < error * (1 - NEAR):
        notes.append("only the error of the untouched table is proved to be out of reach within the time")
    measured = aim if reads == task.reads else goal(joint, "useful", "useful")

    def score(mechanism: Mechanism) -> float:
        return math.sqrt(measured.of_law(mechanism.law) / (joint.n or 1))

    bound = math.sqrt(min(least, error) / (joint.n or 1))
    other = None if reads == task.reads else task.with_reads(reads)
    details = {**details, "origin": name}
    return Draft(law, "precise", bound, tuple(notes), details, score=score, unit="of standard error", task=other)


def _sealable(task: Task, law: Law, reads: str) -> bool:
    """Whether a protocol's promise can be proved: the proofs of some closed forms are looser than their calibration."""
    joint = task.joint
    mechanism = Mechanism(law, joint.secret, joint.useful, reads, "precise", joint=joint)
    try:
        seal(mechanism, task.with_reads(reads).claim)
    except SfumatoError:
        return False
    return True


def _found(task: Task, aim: Goal, budget: Budget, known: Floats | None = None) -> Found | None:
    """The search for a goal, with a little weight on the whole table."""
    beside = goal(filled(task.within).joint, "useful" if task.reads == "useful" else "joint", task.reads)
    mixed = Goal(aim.coordinates, aim.cost + BESIDE * float(np.trace(aim.cost) / np.trace(beside.cost)) * beside.cost)
    return searched(task.within, task.epsilon, mixed, task.reads, budget, known, task.at_most)


def _columns(found: Found) -> Floats:
    """Rows over all inputs, columns that sum to 1."""
    coordinates = found.cone.coordinates
    rows = found.rows if found.cone.reads == "useful" else coordinates.full(found.rows)
    return np.asarray(rows / rows.sum(0))


def _is_each(target: Any) -> bool:
    return isinstance(target, str) and target == "each"


def _parts_of(target: Any, task: Task) -> Any:
    if _is_each(target):
        return "useful" if task.reads == "useful" else dict.fromkeys(TARGETS, 1.0)
    return target


def _each(task: Task, budget: Budget) -> tuple[Goal, Floats | None]:
    """Σ C_k / f*_k: each target divided by the best error found for it, so that none is ruined; and the rows found."""
    joint = filled(task.within).joint
    if task.reads == "useful":
        return goal(joint, "useful", "useful"), None
    best, rows = {}, []
    for i, name in enumerate(TARGETS):
        aim = goal(joint, name)
        found = _found(task, aim, budget.part(1 / (len(TARGETS) + 2 - i)))
        errors = [e for e, *_ in _protocols(task, aim, name)] if found is None else [aim.of_rows(found.rows)]
        best[name] = min(e for e in errors if e == e)
        rows += [] if found is None else [found.rows]
    weights = {name: (task.joint.n or 1) / (len(TARGETS) * e) if 0 < e < math.inf else 0.0 for name, e in best.items()}
    return goal(joint, weights if any(weights.values()) else "joint"), np.concatenate(rows) if rows else None


def _protocols(task: Task, aim: Goal, wanted: Any) -> Iterator[tuple[float, Law, str, str]]:
    """(error, law, name, reads) of the ordinary protocols at the same promise; NaN where they are too large to list."""
    makers: tuple[Callable[[Task], Draft], ...] = (grr, oue, sue)
    alone = isinstance(wanted, str) and wanted == "useful"
    useful = goal(filled(task.within).joint, "useful", "useful") if alone else None
    for reads, measured in {"both": aim if task.reads == "both" else None, "useful": useful}.items():
        if measured is None:
            continue
        asked = task.with_reads(reads)
        laws = [(make(asked).law, make.__name__) for make in makers]
        if reads == "both":
            laws += [(srr(task, fit=fit).law, "srr") for fit in (False, True)]
            laws += [(_blocks(task, order), "blocks") for order in fitting(task.epsilon)]
        for law, name in laws:
            few = law.kind == "unary" or law.outputs * asked.rows * task.joint.useful.size <= LISTED
            yield measured.of_law(law) if few else math.nan, law, name, reads


def _blocks(task: Task, order: int) -> Law:
    """SRR with projective blocks in the place of single values: private for any distribution."""
    up, down = math.exp(task.epsilon), math.exp(-task.epsilon)
    try:
        one = Blocks(1, task.joint.useful.size, order, *_summing(task.joint.useful.size, order))
    except InputError:
        return Constant(*task.joint.shape)
    inside, outside = one.copies
    total = inside * up + outside * down + (task.rows - 1) * one.blocks
    return Blocks(task.rows, task.joint.useful.size, order, up / total, down / total, 1 / total)


def _summing(useful: int, order: int) -> tuple[float, float, float]:
    """Even weights of the blocks of one secret: only their number is asked for."""
    from sfumato.mechanism.blocks import incidence

    even = 1 / len(incidence(useful, order))
    return even, even, even


def _budget(time_limit: float | None, progress: Progress | None) -> Budget:
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"time_limit must be a positive number of seconds, got {time_limit!r}.")
    return Budget.of(SHARE * (SECONDS if time_limit is None else time_limit), progress)


def _check(task: Task) -> None:
    if task.notion != "rldp":
        raise InputError(f"precise is for notion='rldp', got {task.notion!r}.")
    if len(compared(task.within)) < 2:
        raise InputError("fewer than two secrets occur in the table: there is nothing to tell apart.")
