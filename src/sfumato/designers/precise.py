"""precise: the mechanism from which the table is estimated best, under the same promise as ballopt."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sfumato.alphabet import Floats
from sfumato.certification import seal
from sfumato.designers.base import ENDED, RELATIVE, Draft, Task, curve_seconds, listed_rows, silent
from sfumato.designers.closed_forms import grr, srr
from sfumato.designers.worth import CLOSED, seconds_of
from sfumato.errors import InputError, SfumatoError
from sfumato.libraries import scipy
from sfumato.mechanism import Blocks, Constant, Law, Mechanism, Table
from sfumato.mechanism.subset_laws import incidence
from sfumato.optimise.budget import INTERRUPTED, STAGE, Budget, Progress, patience
from sfumato.optimise.cone import RatioCone, settled
from sfumato.optimise.estimates.goal import Goal, goal, mean_of, parts_of
from sfumato.optimise.estimates.mixing import least_error
from sfumato.optimise.estimates.searching import REACHED, filled, fitting, searched, searched_along
from sfumato.tolerances import CHANNEL

TABLE_BESIDE = 1e-5  # weight of the whole table beside another target, so that all of it stays identified
SEARCHING = 26.0  # of search, when no time_limit is given
INVERTED = 3e-10  # seconds of the error of a listed law, for each of the products that its inverse takes
PROVING = 0.2  # of the time, for the proof that little more is possible
PROVABLE = 60  # numbers to estimate beyond which branch and bound proves nothing within minutes: no time is spent on it


def precise(
    task: Task, *, target: object = "joint", time_limit: float | None = None, progress: Progress | None = None,
    working: float | None = None,
) -> Draft:
    """The least standard error of estimates under ε-RLDP over a set: an A-optimal mixture of private rows (ours).

    target is what shall be estimated well: the 'joint' table, the 'useful' or the 'secret' marginal, 'each' of the
    whole table, the secret and every useful column (variances relative to the best found for each, so that none is
    ruined; d.value is then the root mean square of these ratios), weights of the first three as a mapping, weights of
    the squared errors of cells [s, u], or sums [k, s, u] that shall be known; the rest stays identified. d.value is the
    root mean square standard error at as many rows as were counted; no mechanism with this promise is below d.bound.
    Ordinary protocols at the same promise compete as whole designs. `working` are seconds of work, not of time.
    """
    work = Budget.of_work(patience() * SEARCHING if working is None else working, progress)
    budget = work if time_limit is None else Budget.of(time_limit, progress)
    return next(Estimated([task], target).drafts(budget.less(3 * task.proving), [()]))  # more rows than cells


def precise_along(
    tasks: Sequence[Task], *, target: object = "joint", working: float | None = None, bounded: bool = True,
    starts: Sequence[Mechanism] = (), once: float | None = None,
) -> Iterator[Draft]:
    """The same at increasing ε: in one search where the set allows it, else each begun with the rows of the one before.

    bounded=False proves no bound but the error of the untouched table. `starts` are designs for the whole table at the
    same ε, with which a search for another target begins; `once` is as in `Together.run`, in parts of the error."""
    asked, task = Estimated(tasks, target), tasks[0]
    seconds = (seconds_of(task) if asked.name == "each" else patience() * SEARCHING) if working is None else working
    laws = [x.law for x in starts if x.reads == task.reads]
    known = [[asked.aim.coordinates.taken(x)] for x in listed_rows(task, laws)]
    budget = Budget.of_work(curve_seconds(len(tasks), seconds))
    return asked.drafts(budget, known if len(known) == len(tasks) else [()] * len(tasks), bounded, once)


def beside(aim: Goal) -> Goal:
    """An aim with a little weight on the whole table."""
    little = TABLE_BESIDE * float(aim.cost.diagonal().mean())
    return Goal(aim.coordinates, aim.cost + little * scipy.sparse.eye_array(len(aim.p)))


class Estimated:
    """What is asked for: a target of a task at increasing ε, over all cells; those that were never counted have a trace
    of mass."""

    def __init__(self, tasks: Sequence[Task], target: object) -> None:
        task = tasks[0]
        if task.notion != "rldp":
            raise InputError(f"precise is for notion='rldp', got {task.notion!r}.")
        if len(task.within.possible) < 2:
            raise InputError("fewer than two secrets occur in the table: there is nothing to tell apart.")
        self.tasks, self.task, self.within = tasks, task, filled(task.within)
        self.name = target if isinstance(target, str) else "given"
        if task.reads == "useful" and self.name in ("joint", "table"):
            self.name = target = "useful"  # it is all that is read
        if self.name == "each":
            target = "joint" if task.reads == "both" else "useful"
        self.aim = goal(self.within.joint, target, task.reads)  # of the whole table where that is each of its parts
        self.alone = goal(self.within.joint, "useful", "useful")  # from a mechanism that reads nothing else

    # --- the search, for one target or for each part of the table -----------------------------------------------------

    def drafts(
        self, budget: Budget, known: Sequence[Sequence[Floats]], bounded: bool = True, once: float | None = None
    ) -> Iterator[Draft]:
        """The designs, one for each ε; `known` are rows from which the whole table can be estimated there."""
        if self.task.epsilon == 0 or self.aim.coordinates.p.size < 2:  # nothing is told, or there is nothing to tell
            law = Constant(self.task.rows, self.task.joint.useful.size)
            least = self.aim.untouched / (self.task.joint.n or 1)
            yield from [self._draft(law, math.sqrt(least), lambda _: math.inf if least else 0.0)] * len(self.tasks)
            return
        if self.name == "each":
            rows = None
            for i, task in enumerate(self.tasks):
                draft, rows = self._for_each(task, budget.part(1 / (len(self.tasks) - i)), rows)
                yield draft
            return
        x, epsilons = self.task, [task.epsilon for task in self.tasks]
        provable, least = bounded and len(self.aim.p) <= PROVABLE, self.aim.untouched
        search = budget.part(1 - PROVING) if provable else budget
        found = searched_along(x.within, epsilons, beside(self.aim), x.reads, search, known, x.at_most, once)
        for i, (task, one) in enumerate(zip(self.tasks, found, strict=True)):
            proof, proved = budget.part(1.0 if i + 1 == len(found) else STAGE), 0.0
            if provable and one is not None and not proof.over:
                proved = least_error(one, self.aim, proof)
            yield self._best(task, self.aim, [] if one is None else [one.rows], max(least, proved), search, bounded)

    def _for_each(self, task: Task, budget: Budget, known: Floats | None) -> tuple[Draft, Floats | None]:
        """The least mean of variances, each relative to the best found for its own: C = Σ C_k / (K f*_k) (ours).

        Each part has a search of its own, begun with the rows of those before it, and so has the mean in the end. Any
        mixture of K designs with equal weights has at most about K times each one's own best, so that nothing is ruined
        however little time there is. `known` are rows of a design at another ε.
        """
        goals, best = parts_of(self.within.joint, task.reads), dict[str, float]()
        cone = RatioCone(self.within, task.epsilon, task.reads, task.at_most)
        begun = [] if known is None else [settled(cone, known)]
        held: list[Floats] = []  # whole designs, the last one first

        def sought(aim: Goal, share: float) -> None:
            own, rows = budget.part(share), [*held, *begun]
            found = searched(task.within, task.epsilon, beside(aim), task.reads, own, rows, task.at_most)
            held[:0] = [] if found is None else [found.rows]

        for i, (name, aim) in enumerate(goals.items()):
            sought(aim, 1 / (len(goals) + 2 - i))
            errors = [error for error, *_ in self._protocols(task, aim, name == "useful", budget)]
            best[name] = min([*map(aim.of_rows, held), *errors], default=math.inf)
        sought(mean_of(goals, best), 1.0)
        rows = [*held, *([np.concatenate(held) / len(held)] if held else [])]
        for name, part in goals.items():  # the search for the mean may have found the best of one: no share is below 1
            best[name] = min([best[name], *map(part.of_rows, rows)])
        aim = mean_of(goals, best)
        return self._best(task, aim, rows, aim.untouched, budget, best=best), held[0] if held else None

    # --- the draft: the best of what was found and of the protocols ---------------------------------------------------

    def _best(
        self, task: Task, aim: Goal, rows: Sequence[Floats], least: float, budget: Budget, asked: bool = True,
        **details: object,
    ) -> Draft:
        """The best of the rows found and of the protocols, by the error of the aim; `asked`: whether a proof was."""
        full = [q if task.reads == "useful" else aim.coordinates.full(q) for q in rows]
        tables = [Table(np.asarray(q / q.sum(0)), task.rows) for q in full]
        laws: list[tuple[float, Law, str, str]] = [(aim.of_law(x), x, "precise", task.reads) for x in tables]
        laws = sorted([*laws, *self._protocols(task, aim, self.name == "useful", budget)], key=lambda x: x[0])
        sealable = (x for x in laws if x[2] in ("precise", "srr") or _sealable(task, x[1], x[3]))
        error, law, name, reads = next(sealable, (math.inf, grr(task).law, "grr", task.reads))
        of = "(s, u)" if reads == "both" else "u alone"
        notes = [] if name == "precise" else [f"{name} of {of} has the least error found"]
        if budget.over:
            notes.append(INTERRUPTED if budget.halted else ENDED)
        if asked and least <= aim.untouched < error / (1 + REACHED):
            notes.append("only the error of the untouched table is proved to be out of reach within the time")
        n = 1 if self.name == "each" else task.joint.n or 1

        def score(mechanism: Mechanism) -> float:
            """Of designs of other levels too, which may read another input."""
            own = aim if mechanism.reads == task.reads else self.alone
            return math.sqrt(own.of_law(mechanism.law) / n)

        draft = self._draft(law, math.sqrt(min(least, error) / n), score, **details, origin=name)
        return replace(draft, notes=tuple(notes), task=None if reads == task.reads else replace(task, reads=reads))

    def _draft(self, law: Law, bound: float, score: Callable[[Mechanism], float], **details: object) -> Draft:
        unit = RELATIVE if self.name == "each" else "of standard error"
        return Draft(law, "precise", bound, details={"target": self.name, **details}, score=score, unit=unit)

    def _protocols(self, task: Task, aim: Goal, useful: bool, budget: Budget) -> Iterator[tuple[float, Law, str, str]]:
        """(error, law, name, reads) of protocols at the same promise that can be listed, and while somebody waits in
        time, SRR in any case; `useful`: of U alone too."""
        for reads, own in ({task.reads: aim} | ({"useful": self.alone} if useful else {})).items():
            asked = replace(task, reads=reads)
            makers: list[Callable[[Task], Draft]] = [*CLOSED[reads]]
            if reads == "both":
                makers += [partial(srr, fit=True), *(partial(_blocks, order=x) for x in fitting(asked.epsilon))]
            inputs = asked.rows * asked.joint.useful.size
            slow = not getattr(task.within, "closed", True)  # each is calibrated by searches
            for i, make in enumerate(makers):
                if i and slow and budget.firm.over:
                    break
                draft = make(asked)
                law, soon = draft.law, not i or draft.method == "srr" or budget.firm.fits(INVERTED * inputs**3)
                if law.kind == "unary" or (law.outputs * inputs <= CHANNEL and soon):
                    yield own.of_law(law), law, draft.method, reads


def _sealable(task: Task, law: Law, reads: str) -> bool:
    """Whether a protocol's promise can be proved: proofs of some closed forms are looser than their calibration."""
    asked = replace(task, reads=reads)
    with contextlib.suppress(SfumatoError):
        seal(Draft(law, "precise").mechanism(asked), asked.claim)
        return True
    return False


def _blocks(task: Task, order: int) -> Draft:
    """SRR with projective blocks in the place of single values: private for any distribution."""
    (rows, useful), up, down = task.joint.shape, math.exp(task.epsilon), math.exp(-task.epsilon)
    try:
        sets = np.array(incidence(useful, order))
    except InputError:
        return silent(task, "blocks")
    inside = int(sets[:, 0].sum())  # blocks that hold a value, as many for each
    total = inside * up + (len(sets) - inside) * down + (rows - 1) * len(sets)
    return Draft(Blocks(rows, useful, order, up / total, down / total, 1 / total), "blocks")
