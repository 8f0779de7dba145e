"""precise: the mechanism from which the table is estimated best, under the same promise as ballopt."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification import seal
from sfumato.designers.aiming import seconds_of
from sfumato.designers.base import RELATIVE, Draft, Task, listed_rows
from sfumato.designers.closed_forms import grr, oue, srr, sue
from sfumato.designers.curves import along, curve_seconds
from sfumato.errors import InputError, SfumatoError
from sfumato.joint import Joint
from sfumato.mechanism import Blocks, Constant, Law, Mechanism, Table
from sfumato.mechanism.subset_laws import incidence
from sfumato.optimise.all_levels import Carried
from sfumato.optimise.budget import FREE, Budget, Progress, patience
from sfumato.optimise.cone import Coordinates, RatioCone, settled
from sfumato.optimise.estimates.goal import Goal, goal, mean_of, parts_of
from sfumato.optimise.estimates.proved_gap import PreciseRows, least_error
from sfumato.optimise.estimates.searching import REACHED, filled, fitting, searched, searched_along
from sfumato.privacy.ldp import compared
from sfumato.tolerances import CHANNEL

BESIDE = 1e-5  # weight of the whole table beside another target, so that all of it stays identified
SECONDS = 26.0  # of search, when no time_limit is given
SHARE = 0.85  # of the time limit: the rest is for sealing and certifying
PROOF = 0.2  # of the search, for the proof that little more is possible
PROVABLE = 60  # numbers to estimate beyond which branch and bound proves nothing within minutes: no time is spent on it


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
    if time_limit is None:
        budget = Budget.of_work(SHARE * (patience() * SECONDS if working is None else working), progress)
    else:
        budget = Budget.of(SHARE * time_limit, progress)
    return _made(task, target, budget, None)[0]


def precise_along(
    tasks: Sequence[Task], *, target: Any = "joint", working: float | None = None, bounded: bool = True,
    starts: Sequence[Mechanism] = (), once: float | None = None,
) -> Iterator[Draft]:
    """The same at increasing ε: one search for all levels where the set allows it, else each begun with the rows of the
    one before. bounded=False proves no bound but the error of the untouched table. `starts` are designs for the whole
    table at the same ε, with which a search for another target begins; `once` is the gain of a turn of moves, in parts
    of the error, below which it is a level's last: without it two in a row may gain little."""
    first, each = tasks[0], isinstance(target, str) and target == "each"
    seconds = SHARE * ((seconds_of(first) if each else patience() * SECONDS) if working is None else working)
    for task in tasks:
        _check(task)
    found, whole = None, curve_seconds(len(tasks), seconds)
    if len(tasks) > 1 and not each and first.epsilon > 0 and first.at_most is None:
        found = searched_along(
            first.within, [x.epsilon for x in tasks], _beside(first, _aim(first, target)), first.reads,
            Budget.of_work(whole * (1 - PROOF if bounded else 1.0)), _rows_of(tasks, starts), once,
        )
    if found is None:
        return along(tasks, lambda task, budget, known: _made(task, target, budget, known), seconds)
    proof = Budget.of_work(PROOF * whole)  # the smallest ε first: there the untouched table says least
    return (
        _proved(x, target, y, proof.part() if bounded else None) for x, y in zip(tasks, found, strict=True)
    )


def _rows_of(tasks: Sequence[Task], starts: Sequence[Mechanism]) -> list[Floats]:
    """The rows of one start for each ε over the coordinates; nothing where one of them lists none."""
    laws = [x.law for x in starts if x.reads == tasks[0].reads]
    rows = [_coordinates(tasks[0]).taken(x) for x in listed_rows(tasks[0], laws)]
    return rows if len(rows) == len(tasks) else []


def _check(task: Task) -> None:
    if task.notion != "rldp":
        raise InputError(f"precise is for notion='rldp', got {task.notion!r}.")
    if len(compared(task.within)) < 2:
        raise InputError("fewer than two secrets occur in the table: there is nothing to tell apart.")


# --- what is estimated, over all cells: those that were never counted have a trace of mass ----------------------------


def _joint(task: Task) -> Joint:
    return filled(task.within).joint


def _coordinates(task: Task) -> Coordinates:
    return Coordinates.of(_joint(task), task.reads)


def _named(task: Task, target: Any) -> Any:
    """Whoever reads the useful variable alone has it for a table."""
    whole = isinstance(target, str) and target in ("joint", "table")
    return "useful" if whole and task.reads == "useful" else target


def _aim(task: Task, target: Any) -> Goal:
    return goal(_joint(task), _named(task, target), task.reads)


def _beside(task: Task, aim: Goal) -> Goal:
    """The aim with a little weight on the whole table."""
    whole = _aim(task, "joint").cost
    return Goal(aim.coordinates, aim.cost + BESIDE * float(np.trace(aim.cost) / np.trace(whole)) * whole)


# --- the search, for one target or for each part of the table ---------------------------------------------------------


def _made(task: Task, target: Any, budget: Budget, known: Carried | None) -> tuple[Draft, Carried | None]:
    """The design, and its rows for another ε."""
    _check(task)
    begun = None if known is None else settled(RatioCone(filled(task.within), task.epsilon, task.reads), known.rows)
    if isinstance(target, str) and target == "each":
        return _for_each(task, budget, begun)
    aim = _aim(task, target)
    if task.epsilon == 0:
        return _nothing(task, aim, target), None
    found = _found(task, aim, budget.part(1 - PROOF) if len(aim.p) <= PROVABLE else budget, begun)
    return _proved(task, target, found, budget, budget), _carried(task, found)


def _found(task: Task, aim: Goal, budget: Budget, known: Floats | None) -> PreciseRows | None:
    return searched(task.within, task.epsilon, _beside(task, aim), task.reads, budget, known, task.at_most)


def _carried(task: Task, found: PreciseRows | None) -> Carried | None:
    return None if found is None else Carried(found.rows, found.rows[:0], math.exp(task.epsilon), math.inf)


def _nothing(task: Task, aim: Goal, target: Any) -> Draft:
    """At ε = 0 nothing can be estimated that depends on the secret, and here nothing is."""
    bound = math.sqrt(aim.untouched / (task.joint.n or 1))
    law = Constant(task.rows, task.joint.useful.size)
    return Draft(law, "precise", bound, details=_told(target), score=lambda m: math.inf, unit=_unit(target))


def _proved(
    task: Task, target: Any, found: PreciseRows | None, proof: Budget | None, search: Budget = FREE
) -> Draft:
    """The draft of rows that were found, with what is proved about others within the time, if that is asked for."""
    aim = _aim(task, target)
    least, rows = aim.untouched, [] if found is None else [found.rows]
    if found is not None and proof is not None and len(aim.p) <= PROVABLE and not proof.over:
        least = max(least, least_error(found, aim, proof))
    return _draft(task, aim, rows, least, target, search, asked=proof is not None)


def _for_each(task: Task, budget: Budget, begun: Floats | None) -> tuple[Draft, Carried | None]:
    """The least mean of variances, each relative to the best found for its own: C = Σ C_k / (K f*_k) (ours).

    Each part has a search of its own, begun with the rows of those before it, and so has the mean in the end. Any
    mixture of K designs with equal weights has at most about K times each one's own best, so that nothing is ruined
    however little time there is.
    """
    goals = parts_of(_joint(task), task.reads, [c.size for c in task.joint.useful.columns])
    if task.epsilon == 0:
        return _nothing(task, next(iter(goals.values())), "each"), None
    best: dict[str, float] = {}
    held: list[Floats] = []  # whole designs

    def sought(aim: Goal, share: float) -> PreciseRows | None:
        known = [*reversed(held), *([] if begun is None else [begun])]
        found = _found(task, aim, budget.part(share), np.concatenate(known) if known else None)
        held.extend([] if found is None else [found.rows])
        return found

    for i, (name, aim) in enumerate(goals.items()):
        sought(aim, 1 / (len(goals) + 2 - i))
        best[name] = min([*map(aim.of_rows, held), *(e for e, *_ in _protocols(task, aim, name))], default=math.inf)
    last = sought(mean_of(goals, best), 1.0)
    rows = [*held, *([np.concatenate(held) / len(held)] if held else [])]
    for name, part in goals.items():  # the search for the mean may have found the best of one: no share is below 1
        best[name] = min([best[name], *map(part.of_rows, rows)])
    aim = mean_of(goals, best)
    return _draft(task, aim, rows, aim.untouched, "each", budget, best=best), _carried(task, last)


# --- the draft: the best of what was found and of the protocols -------------------------------------------------------


def _told(target: Any) -> dict[str, Any]:
    return {"target": target if isinstance(target, str) else "given"}


def _unit(target: Any) -> str:
    return RELATIVE if isinstance(target, str) and target == "each" else "of standard error"


def _draft(
    task: Task, aim: Goal, rows: Sequence[Floats], least: float, target: Any, budget: Budget, asked: bool = True,
    **details: Any,
) -> Draft:
    """The best of the private rows that were found and of the protocols, by the error of the aim; `asked` says
    whether a proof that little more is possible was asked for."""
    tables = [Table(_columns(task, q), task.rows) for q in rows]
    laws: list[tuple[float, Law, str, str]] = [(aim.of_law(x), x, "precise", task.reads) for x in tables]
    laws = sorted([*laws, *_protocols(task, aim, _named(task, target))], key=lambda x: x[0])
    error, law, name, reads = next(x for x in laws if x[2] in ("precise", "srr") or _sealable(task, x[1], x[3]))
    of = "(s, u)" if reads == "both" else "u alone"
    notes = [] if name == "precise" else [f"{name} of {of} has the least error found"]
    if budget.over:
        notes.append("stopped at the time limit: the best design so far")
    if asked and least <= aim.untouched < error / (1 + REACHED):
        notes.append("only the error of the untouched table is proved to be out of reach within the time")
    n = 1 if _unit(target) == RELATIVE else task.joint.n or 1

    def score(mechanism: Mechanism) -> float:
        """Of designs of other levels too, which may read another input."""
        own = aim if mechanism.reads == task.reads else goal(_joint(task), "useful", "useful")
        return math.sqrt(own.of_law(mechanism.law) / n)

    other = None if reads == task.reads else task.with_reads(reads)
    return Draft(
        law, "precise", math.sqrt(min(least, error) / n), tuple(notes), {**_told(target), **details, "origin": name},
        score=score, unit=_unit(target), task=other,
    )


def _columns(task: Task, rows: Floats) -> Floats:
    """Rows over all inputs, columns that sum to 1."""
    full = rows if task.reads == "useful" else _coordinates(task).full(rows)
    return np.asarray(full / full.sum(0))


def _sealable(task: Task, law: Law, reads: str) -> bool:
    """Whether a protocol's promise can be proved: the proofs of some closed forms are looser than their calibration."""
    joint = task.joint
    try:
        seal(Mechanism(law, joint.secret, joint.useful, reads, "precise", joint=joint), task.with_reads(reads).claim)
    except SfumatoError:
        return False
    return True


def _protocols(task: Task, aim: Goal, wanted: Any) -> Iterator[tuple[float, Law, str, str]]:
    """(error, law, name, reads) of the ordinary protocols at the same promise, as far as they can be listed."""
    makers: tuple[Callable[[Task], Draft], ...] = (grr, oue, sue)
    alone = isinstance(wanted, str) and wanted == "useful"
    useful = goal(_joint(task), "useful", "useful") if alone else None
    for reads, measured in {"both": aim if task.reads == "both" else None, "useful": useful}.items():
        if measured is None:
            continue
        asked = task.with_reads(reads)
        laws = [(make(asked).law, make.__name__) for make in makers]
        if reads == "both":
            laws += [(srr(task, fit=fit).law, "srr") for fit in (False, True)]
            laws += [(_blocks(task, order), "blocks") for order in fitting(task.epsilon)]
        for law, name in laws:
            if law.kind == "unary" or law.outputs * asked.rows * task.joint.useful.size <= CHANNEL:
                error = measured.of_law(law)
                yield from [] if math.isnan(error) else [(error, law, name, reads)]


def _blocks(task: Task, order: int) -> Law:
    """SRR with projective blocks in the place of single values: private for any distribution."""
    (rows, useful), up, down = task.joint.shape, math.exp(task.epsilon), math.exp(-task.epsilon)
    try:
        sets = np.array(incidence(useful, order))
    except InputError:
        return Constant(rows, useful)
    inside = int(sets[:, 0].sum())  # blocks that hold a value, as many for each
    total = inside * up + (len(sets) - inside) * down + (rows - 1) * len(sets)
    return Blocks(rows, useful, order, up / total, down / total, 1 / total)
