"""precise: the mechanism from which the table is estimated best, under the same promise as ballopt."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification import seal
from sfumato.designers.aiming import seconds_of
from sfumato.designers.base import RELATIVE, Draft, Task, listed_rows
from sfumato.designers.closed_forms import grr, oue, srr, sue
from sfumato.designers.curves import along, curve_seconds
from sfumato.errors import InputError, SfumatoError
from sfumato.mechanism import Blocks, Constant, Law, Mechanism, Table
from sfumato.optimise.budget import FREE, Budget, Progress, patience
from sfumato.optimise.carrying import Carried
from sfumato.optimise.cone import Coordinates, RatioCone, settled
from sfumato.optimise.estimates.first_rows import fitting
from sfumato.optimise.estimates.goal import Goal, goal, mean_of, parts_of
from sfumato.optimise.estimates.mixing import PreciseRows, least_error
from sfumato.optimise.estimates.searching import filled, made_private, remixed, searched, searched_along
from sfumato.privacy.ldp import compared

BESIDE = 1e-5  # weight of the whole table beside another target, so that all of it stays identified
SECONDS = 26.0  # of search, when no time_limit is given
SHARE = 0.85  # of the time limit: the rest is for sealing and certifying
PROOF = 0.2  # of the search, for the proof that little more is possible
CURVE_PROOF, HALF = 0.1, 0.5  # of a curve, for proofs, and of what is left of that for each level, the smallest ε
# first, where the untouched table says least: a proof needs a while before it says anything
PROVABLE = 60  # numbers to estimate beyond which branch and bound proves nothing within minutes: no time is spent on it
NEAR = 1e-3  # of the error: a design this close to the untouched table needs no other bound
FIRST = 0.4  # of the time, for the whole table, where each part shall be estimated well
EACH = 0.1  # of what is left, for the best of each part
HANDED = 8  # rows for each coordinate that a design leaves to the next ε
MIXED = 300  # inputs up to which protocols are mixed with what is found
LISTED = 4_000_000  # numbers in a protocol that is compared by listing it


def precise(
    task: Task, *, target: Any = "joint", time_limit: float | None = None, progress: Progress | None = None,
    working: float | None = None,
) -> Draft:
    """The least standard error of estimates under ε-RLDP over a set: an A-optimal mixture of private rows (ours).

    target is what shall be estimated well: the 'joint' table, the 'useful' or the 'secret' marginal, 'each' of the
    whole table, the secret and every useful column (variances relative to the best found for each, so that none is
    ruined; d.value is then the root mean square of these ratios), weights of the first three as a mapping, weights of
    the squared errors of cells [s, u], or sums [k, s, u] that shall be known; the rest stays identified. d.value is the
    root mean square standard error at as many rows as were counted; d.bound lies below it: no mechanism with this
    promise has a smaller one. Ordinary protocols, of the useful variable alone or with the secret, calibrated to the
    same promise, compete as whole designs. `working` are seconds of work instead of a time limit, whatever else the
    machine does.
    """
    return _made(task, target, _budget(time_limit, progress, working), None)[0]


def precise_along(
    tasks: Sequence[Task], *, target: Any = "joint", working: float | None = None, bounded: bool = True,
    starts: Sequence[Mechanism] = (), once: float | None = None,
) -> Iterator[Draft]:
    """The same at increasing ε: one search for all levels where the set allows it, else each begun with the rows of the
    one before. bounded=False proves no bound but the error of the untouched table. `starts` are designs for the whole
    table at the same ε, with which a search for another target begins; `once` is the gain of a turn of moves, in parts
    of the error, below which it is a level's last: without it two in a row may gain little."""
    each = isinstance(target, str) and target == "each"
    seconds = SHARE * ((seconds_of(tasks[0]) if each else patience() * SECONDS) if working is None else working)
    for task in tasks:
        _check(task)
    found = None
    if len(tasks) > 1 and not each and tasks[0].epsilon > 0 and tasks[0].at_most is None:
        whole = Budget.of_work(curve_seconds(len(tasks), seconds) * (1 - CURVE_PROOF if bounded else 1.0))
        aim = _beside(tasks[0], _aim(tasks[0], target)[0])
        known = _rows_of(tasks, starts)
        levels = [x.epsilon for x in tasks]
        found = searched_along(tasks[0].within, levels, aim, tasks[0].reads, whole, known, once)
    if found is None:
        return along(tasks, lambda task, budget, known: _made(task, target, budget, known), seconds)
    proof = Budget.of_work(CURVE_PROOF * curve_seconds(len(tasks), seconds))
    return (
        _drawn_up(x, target, y, Budget.of_work(HALF * proof.left) if bounded else None)
        for x, y in zip(tasks, found, strict=True)
    )


def _rows_of(tasks: Sequence[Task], starts: Sequence[Mechanism]) -> list[Floats]:
    """The rows of one start for each ε over the coordinates; nothing where one of them lists none."""
    taken = Coordinates.of(filled(tasks[0].within).joint, tasks[0].reads).taken
    laws = [x.law for x in starts if x.reads == tasks[0].reads]
    rows = [taken(x) for x in listed_rows(tasks[0], laws)]
    return rows if len(rows) == len(tasks) else []


def _aim(task: Task, target: Any) -> tuple[Goal, Any]:
    """What is estimated, and its name among the targets."""
    whole = isinstance(target, str) and target in ("joint", "table")
    wanted = "useful" if whole and task.reads == "useful" else target
    return goal(filled(task.within).joint, wanted, task.reads), wanted


def _drawn_up(
    task: Task, target: Any, found: PreciseRows | None, proof: Budget | None, search: Budget = FREE
) -> Draft:
    """The draft of rows that were found, with what is proved about others within the time, if that is asked for."""
    aim, wanted = _aim(task, target)
    details: dict[str, Any] = {"target": target if isinstance(target, str) else "given"}
    least, rows = aim.untouched, [] if found is None else [found.rows]
    if found is not None and proof is not None and len(aim.p) <= PROVABLE and not proof.over:
        least = max(least, least_error(found, aim, proof))
    n, asked = task.joint.n or 1, proof is not None
    return _draft(task, aim, rows, least, n, wanted, search, details, "of standard error", asked=asked)


def _made(task: Task, target: Any, budget: Budget, known: Carried | None) -> tuple[Draft, Carried | None]:
    """The design, and its rows for another ε."""
    _check(task)
    begun = None if known is None else settled(RatioCone(filled(task.within), task.epsilon, task.reads), known.rows)
    if isinstance(target, str) and target == "each":
        return _for_each(task, budget, begun)
    aim, _ = _aim(task, target)
    if task.epsilon == 0:
        return _nothing(task, aim, {"target": target if isinstance(target, str) else "given"}), None
    found = _found(task, aim, budget.part(1 - PROOF) if len(aim.p) <= PROVABLE else budget, begun)
    return _drawn_up(task, target, found, budget, budget), _carried(task, [] if found is None else [found.rows])


def _carried(task: Task, rows: Sequence[Floats]) -> Carried | None:
    """The heaviest rows: those of little weight cost as much to make private anew, and bring little."""
    if not rows:
        return None
    p, every = Coordinates.of(filled(task.within).joint, task.reads).p, np.concatenate(rows)
    heavy = np.argsort(-(every @ p), kind="stable")[: HANDED * len(p)]
    return Carried(every[heavy], np.zeros((0, len(p))), math.exp(task.epsilon), math.inf)


def _nothing(task: Task, aim: Goal, details: dict[str, Any]) -> Draft:
    """At ε = 0 nothing can be estimated that depends on the secret, and here nothing is."""
    bound = math.sqrt(aim.untouched / (task.joint.n or 1))
    law = Constant(task.rows, task.joint.useful.size)
    return Draft(law, "precise", bound, details=details, score=lambda m: math.inf, unit="of standard error")


def _draft(
    task: Task, aim: Goal, rows: Sequence[Floats], least: float, n: float, wanted: Any, budget: Budget,
    details: dict[str, Any], unit: str, asked: bool = True,
) -> Draft:
    """The best of the private rows that were found and of the protocols, by the error of the aim; `asked` says
    whether a proof that little more is possible was asked for."""
    laws: list[tuple[float, Law, str, str]] = []
    for q in rows:
        table = Table(_columns(task, q), task.rows)
        laws.append((aim.of_law(table), table, "precise", task.reads))
    laws += [(error, law, name, reads) for error, law, name, reads in _protocols(task, aim, wanted) if error == error]
    laws.sort(key=lambda x: x[0])
    error, law, name, reads = next(x for x in laws if x[2] in ("precise", "srr") or _sealable(task, x[1], x[3]))
    of = "(s, u)" if reads == "both" else "u alone"
    notes = [] if name == "precise" else [f"{name} of {of} has the least error found"]
    if budget.over:
        notes.append("stopped at the time limit: the best design so far")
    if asked and least <= aim.untouched < error * (1 - NEAR):
        notes.append("only the error of the untouched table is proved to be out of reach within the time")

    def score(mechanism: Mechanism) -> float:
        """Of designs of other levels too, which may read another input."""
        own = aim if mechanism.reads == task.reads else goal(filled(task.within).joint, "useful", "useful")
        return math.sqrt(own.of_law(mechanism.law) / n)

    other = None if reads == task.reads else task.with_reads(reads)
    bound = math.sqrt(min(least, error) / n)
    return Draft(
        law, "precise", bound, tuple(notes), {**details, "origin": name}, score=score, unit=unit, task=other
    )


def _for_each(task: Task, budget: Budget, begun: Floats | None) -> tuple[Draft, Carried | None]:
    """The least mean of variances, each relative to the best found for its own: C = Σ C_k / (K f*_k) (ours).

    The best for one part is sought among all mixtures of what the search for the whole table and the protocols bring;
    then all of these are mixed, and searched on, for the mean. Any mixture of K designs with equal weights has at most
    about K times each one's own best, so that nothing is ruined however little time there is.
    """
    joint = filled(task.within).joint
    goals = parts_of(joint, task.reads, [c.size for c in task.joint.useful.columns])
    whole = next(iter(goals.values()))
    details: dict[str, Any] = {"target": "each"}
    if task.epsilon == 0:
        return replace(_nothing(task, whole, details), unit=RELATIVE), None
    found = _found(task, whole, budget.part(FIRST), begun)
    held = [] if found is None else [found.rows]  # whole designs
    pool = np.concatenate([*held, *_listed(task), *([] if begun is None else [begun])])  # rows to mix
    best = {}
    for name, aim in goals.items():
        own = remixed(pool, aim, math.exp(task.epsilon), budget.part(EACH))
        held += [] if own is None else [own]
        errors = [*(aim.of_rows(q) for q in held), *(e for e, *_ in _protocols(task, aim, name))]
        best[name] = min((e for e in errors if e == e), default=math.inf)
    details["best"] = best
    aim = mean_of(goals, best)
    pool = np.concatenate([pool, *held])
    mixed = remixed(pool, aim, math.exp(task.epsilon), budget.part(EACH))
    last = _found(task, aim, budget, pool)
    rows = [*held, *(q for q in (mixed, None if last is None else last.rows) if q is not None)]
    rows += [np.concatenate(held) / len(held)] if held else []
    for name, part in goals.items():  # the search for the mean may have found the best of one: no share is below 1
        best[name] = min([best[name], *(e for q in rows if (e := part.of_rows(q)) == e)])
    aim = mean_of(goals, best)
    used = held if last is None else [*held, last.rows]
    return _draft(task, aim, rows, aim.untouched, 1.0, "each", budget, details, RELATIVE), _carried(task, used)


def _listed(task: Task) -> list[Floats]:
    """Rows of protocols that can be mixed with others, over the coordinates: those of u alone too, lifted."""
    cell = Coordinates.of(filled(task.within).joint, task.reads).cell
    out = [np.ones((1, len(cell)))]
    for reads in (("both", "useful") if task.reads == "both" else ("useful",)):
        asked = task.with_reads(reads)
        for make in (grr, srr) if reads == "both" else (grr,):
            q = make(asked).law.matrix() if asked.rows * task.joint.useful.size <= MIXED else None
            if q is not None:
                rows = np.asarray(q, float)[:, cell if reads == task.reads else cell % task.joint.useful.size]
                out.append(made_private(task.within, task.epsilon, task.reads, rows))
    return out


def _sealable(task: Task, law: Law, reads: str) -> bool:
    """Whether a protocol's promise can be proved: the proofs of some closed forms are looser than their calibration."""
    joint = task.joint
    mechanism = Mechanism(law, joint.secret, joint.useful, reads, "precise", joint=joint)
    try:
        seal(mechanism, task.with_reads(reads).claim)
    except SfumatoError:
        return False
    return True


def _found(task: Task, aim: Goal, budget: Budget, known: Floats | None = None) -> PreciseRows | None:
    """The search for a goal, with a little weight on the whole table."""
    return searched(task.within, task.epsilon, _beside(task, aim), task.reads, budget, known, task.at_most)


def _beside(task: Task, aim: Goal) -> Goal:
    beside = goal(filled(task.within).joint, "useful" if task.reads == "useful" else "joint", task.reads)
    return Goal(aim.coordinates, aim.cost + BESIDE * float(np.trace(aim.cost) / np.trace(beside.cost)) * beside.cost)


def _columns(task: Task, rows: Floats) -> Floats:
    """Rows over all inputs, columns that sum to 1."""
    coordinates = Coordinates.of(filled(task.within).joint, task.reads)
    full = rows if task.reads == "useful" else coordinates.full(rows)
    return np.asarray(full / full.sum(0))


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
    from sfumato.mechanism.subset_laws import incidence

    even = 1 / len(incidence(useful, order))
    return even, even, even


def _budget(time_limit: float | None, progress: Progress | None, working: float | None) -> Budget:
    """The time limit by the clock on the wall, or so many seconds of work where there is none."""
    if time_limit is None:
        return Budget.of_work(SHARE * (patience() * SECONDS if working is None else working), progress)
    return Budget.of(SHARE * time_limit, progress)


def _check(task: Task) -> None:
    if task.notion != "rldp":
        raise InputError(f"precise is for notion='rldp', got {task.notion!r}.")
    if len(compared(task.within)) < 2:
        raise InputError("fewer than two secrets occur in the table: there is nothing to tell apart.")
