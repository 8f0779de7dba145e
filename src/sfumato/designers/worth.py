"""Estimates before a row is released: what `auto` aims at, what they will be worth, and what would help.

Bits are the aim of the papers; whoever reads a release wants estimates, another thing (docs/choosing.md, "By numbers").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from sfumato.alphabet import Alphabet, Column
from sfumato.decimals import near, percent, with_unit
from sfumato.designers.base import LARGEST, RELATIVE, Draft, Task
from sfumato.designers.closed_forms import grr, ir, oue, srr, sue
from sfumato.errors import ClaimError, InputError
from sfumato.frames import Framed, Record
from sfumato.joint import Joint
from sfumato.mechanism import Cells, Constant, Mechanism, Unary
from sfumato.optimise.budget import patience
from sfumato.optimise.estimates.goal import closed_errors, parts_of, untouched_errors
from sfumato.tolerances import AT_A_GLANCE
from sfumato.uncertainty import Anything, ChiSquareBall, RenyiBall

AIMS = ("estimates", "information", "either", "closed")  # either is estimates; closed are those that need no search
AIM = "estimates"  # what `auto` aims at when nobody says, in Python and on the command line
SEARCHED_CELLS = 600  # cells up to which the best estimates are searched for
SOON, LATE, CELLS_A_SECOND = 3.0, 12.0, 25.0  # seconds of search where nobody says: at least, at most, and between
CLOSED: dict[str, tuple[Callable[[Task], Draft], ...]] = {"both": (srr, grr, oue, sue, ir), "useful": (grr, oue, sue)}


def searched(task: Task) -> bool:
    fits = task.notion == "rldp" and 0 < task.epsilon <= LARGEST
    return fits and task.joint.p.size <= SEARCHED_CELLS and len(task.within.possible) > 1


def seconds_of(task: Task) -> float:
    """Of work, where nobody says."""
    return patience() * min(SOON + task.joint.p.size / CELLS_A_SECOND, LATE)


def noted(draft: Draft) -> Draft:
    return draft.with_note("auto took precise: the least errors of the whole table, the secret and each useful column "
                           "(the aim information keeps the most bits)")


@dataclass(frozen=True, slots=True, eq=False)
class Closed:
    """The closed forms for a task with their errors, and the least error of each part of the table."""

    drafts: dict[str, tuple[Draft, dict[str, float]]]
    best: dict[str, float]

    @classmethod
    def of(cls, task: Task) -> Closed:
        found = {}
        for make in CLOSED[task.reads]:
            with suppress(InputError, ClaimError):  # it is not calibrated to this promise
                draft = make(task)
                if (errors := closed_errors(draft.law, task.joint, task.reads)) is not None:
                    found[draft.method] = draft, errors
        each = [errors for _, errors in found.values()]
        return cls(found, {part: min(errors[part] for errors in each) for part in each[0]} if each else {})

    def mean(self, errors: Mapping[str, float]) -> float:
        """The mean of the errors, each in units of the least of its own."""
        return float(np.mean([errors[k] / b if 0 < b < math.inf else 1.0 for k, b in self.best.items()]))

    @property
    def means(self) -> dict[str, float]:
        """By method, of those from which everything can be estimated."""
        return {x: self.mean(e) for x, (_, e) in self.drafts.items() if all(map(math.isfinite, e.values()))}

    @property
    def least(self) -> str | None:
        """The method with the least mean, None if none is finite: SRR's may not be (docs/choosing.md)."""
        means = self.means
        return min(means, key=means.__getitem__, default=None)


def best_closed(task: Task) -> Draft | None:
    """The closed form with the least `Closed.mean`."""
    closed = Closed.of(task)
    if (name := closed.least) is None:
        return None
    listed = ", ".join(f"{x} {math.sqrt(v):.3g}" for x, v in closed.means.items())

    def score(mechanism: Mechanism) -> float:
        own = closed_errors(mechanism.law, task.joint, task.reads)
        return math.nan if own is None else math.sqrt(closed.mean(own))

    least = math.sqrt(min(closed.mean(untouched_errors(task.joint, task.reads)), closed.means[name]))
    note = f"auto took {name}: the least errors of the closed forms ({RELATIVE}: {listed})"
    return replace(closed.drafts[name][0].with_note(note), score=score, bound=least, unit=RELATIVE)


# --- what a release will be worth -------------------------------------------------------------------------------------


Z95 = 1.959963984540054  # of a normal law: 95 % lie within
EVERYTHING = 100.0  # points
LITTLE = 0.01  # of the rows: a release that is worth less is made only when asked for once more
HELPS = 4  # ways that are told
WHOLE = ("joint", "useful")  # parts that are no single column


@dataclass(frozen=True, slots=True)
class ForeseenPart:
    """One column, or the whole table: its expected error from as many rows as will be released."""

    name: str
    values: int
    points: float  # ± of a share, in percentage points: 95 %, root mean square over the values; ∞ if it is not told
    rows: float  # as many rows without protection would tell as much

    @property
    def error(self) -> str:
        """The ± in words; a share cannot be further off than everything, and of some the mechanism tells nothing."""
        if math.isinf(self.points):
            return "not told, by however many rows"
        told = with_unit(near(self.points, 2), "point")
        return f"± {told}" if self.points < EVERYTHING else f"± {told}: no estimate"


@dataclass(frozen=True, slots=True)
class Help:
    """Something that would make errors smaller, with how many times as large they would be."""

    what: str
    times: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Foreseen(Framed):
    """What estimates from n released rows will be worth."""

    n: int
    parts: tuple[ForeseenPart, ...]  # the whole table last
    helps: tuple[Help, ...]
    tables: int = 1  # of several columns, the last of the parts
    share: float = field(init=False)  # of the rows that the release is worth: the mean over its columns
    little: bool = field(init=False)  # it is worth less than a hundredth of its rows

    def __post_init__(self) -> None:
        columns = self.parts[: -self.tables or None] or self.parts
        object.__setattr__(self, "share", float(np.mean([part.rows for part in columns])) / self.n)
        object.__setattr__(self, "little", self.share < LITTLE)

    def records(self) -> Iterator[Record]:
        for part in self.parts:
            yield {"table": part.name, "values": part.values, "± points": part.points, "worth rows": part.rows}

    @property
    def lines(self) -> list[str]:
        """In words."""
        listed = self.parts if self.tables < AT_A_GLANCE else self.parts[: -self.tables]
        out = [f"{p.name}: {p.error}, worth {with_unit(f'{p.rows:,.0f}', 'unprotected row')}" for p in listed]
        if len(listed) < len(self.parts):
            ends = sorted(self.parts[-self.tables :], key=lambda p: p.points)
            out.append(f"{self.tables:,} tables of two columns: {ends[0].error} ({ends[0].name}) to {ends[-1].error} "
                       f"({ends[-1].name})")
        told = ", ".join(f"{h.what} ({h.times:.2g} times as large)" for h in self.ways)
        worth = f"for a column, on average, worth {percent(self.share, 1)} of {self.n:,} rows"
        return [*out, worth, *([f"what would make the ± smaller: {told}"] if told else [])]

    @property
    def ways(self) -> tuple[Help, ...]:
        """What would help: nothing of these where nothing is told, however large the ± of others would be."""
        return self.helps if any(math.isfinite(part.points) for part in self.parts) else ()

    def __repr__(self) -> str:
        return "\n  ".join([f"<Foreseen from {self.n:,} rows>", *self.lines])


def foreseen(mechanism: Mechanism, joint: Joint | None = None, n: int | None = None) -> Foreseen:
    """What n rows (as many as counted) that follow a joint (that of the design) tell of each column and the table."""
    joint = mechanism.joint if joint is None else joint
    if joint is None:
        raise InputError("the mechanism does not carry its design distribution: say which joint the rows will follow.")
    rows = joint.n if n is None else n
    if not rows or rows < 1:
        raise InputError("say how many rows will be released (n=).")
    (errors, untouched), names = errors_of(mechanism, joint), _named(joint)
    parts = [
        ForeseenPart(*names[k], 100 * Z95 * math.sqrt(e / rows), rows * untouched[k] / e if e else rows)
        for k, e in sorted(errors.items(), key=lambda x: x[0] in WHOLE)
    ]
    return Foreseen(rows, tuple(parts), tuple(_helps(mechanism, joint, errors)))


def is_foreseeable(mechanism: Mechanism) -> bool:
    """Whether its errors can be told: by a closed form, of rows that tell nothing, or of a table not too large."""
    few = mechanism.joint is not None and mechanism.joint.p.size <= SEARCHED_CELLS
    return few or isinstance(mechanism.law, (Cells, Constant, Unary))


def errors_of(mechanism: Mechanism, joint: Joint) -> tuple[dict[str, float], dict[str, float]]:
    """n times the mean variance of each part, ∞ where nothing is known of it; and the same of untouched rows."""
    untouched = untouched_errors(joint, mechanism.reads)
    if (closed := closed_errors(mechanism.law, joint, mechanism.reads)) is not None:
        return closed, untouched
    goals = parts_of(joint, mechanism.reads) if joint.p.size <= SEARCHED_CELLS else {}
    found = {name: goal.of_law(mechanism.law) for name, goal in goals.items()}
    return {name: found.get(name, math.inf) for name in untouched}, untouched


def _named(joint: Joint) -> dict[str, tuple[str, int]]:
    """The names of the parts of a table, and of how many values each is."""
    secret, useful = joint.secret.columns, joint.useful.columns
    columns = {"joint": (*secret, *useful), "useful": useful, "secret": secret}
    columns |= {f"column {i}": (c,) for i, c in enumerate(useful)}
    return {k: (" × ".join(c.name for c in x), math.prod(c.size for c in x)) for k, x in columns.items()}


def _helps(mechanism: Mechanism, joint: Joint, errors: Mapping[str, float]) -> list[Help]:
    """Ways to smaller errors, the best first, each by what the best closed forms have now and would have instead."""
    claim = mechanism.claim
    if claim is None or claim.within is None:
        return [Help("twice as many rows", math.sqrt(0.5))]
    task = Task(claim.within, claim.epsilon, claim.notion, mechanism.reads)
    whole = task.epsilon + (0.0 if joint.noise is None else joint.noise.epsilon)
    tried = {f"ε = {2 * whole:g} instead of {whole:g}": replace(task, epsilon=task.epsilon + whole)}
    for i, column in enumerate(joint.useful.columns):
        if len(joint.useful.columns) > 1 and (other := _around(task, _merged(joint, i, column.size))) is not None:
            tried[f"leaving out {column.name}"] = other
        if column.size > 3 and (other := _around(task, _merged(joint, i, 2))) is not None:
            tried[f"{(column.size + 1) // 2} instead of {column.size} values of {column.name}"] = other
    now = _least(task) or _by_column(joint, errors)
    found = [Help(what, times) for what, one in tried.items() if (times := _times(now, _least(one))) < 1]
    found.append(Help("twice as many rows", math.sqrt(0.5)))
    return sorted(found, key=lambda h: h.times)[:HELPS]


def _around(task: Task, joint: Joint) -> Task | None:
    """The same promise about another table, merging cells keeps a ball's radius; None for sets of other kinds."""
    within = task.within
    if isinstance(within, Anything):
        return replace(task, within=Anything(joint))
    return replace(task, within=within.around(joint)) if isinstance(within, (ChiSquareBall, RenyiBall)) else None


def _least(task: Task) -> dict[str, float]:
    """Errors by column of the closed form with the least mean; none where there is none."""
    closed = Closed.of(task)
    return _by_column(task.joint, closed.drafts[closed.least][1]) if closed.least else {}


def _by_column(joint: Joint, errors: Mapping[str, float]) -> dict[str, float]:
    """Those of single columns, by their names."""
    return {_named(joint)[k][0]: e for k, e in errors.items() if k not in WHOLE}


def worth_of_one(mechanism: Mechanism, joint: Joint) -> float:
    """The share of the rows it is worth for a column: the harmonic mean, so that relative variances are averaged."""
    errors, plain = errors_of(mechanism, joint)
    times = [max(e / plain[k], 1.0) for k, e in errors.items() if k not in WHOLE and plain[k] > 0]
    return 1 / float(np.mean(times)) if times else 1.0


def _times(now: Mapping[str, float], then: Mapping[str, float]) -> float:
    """How large errors would be in units of those now: root mean square over the columns that both have."""
    both = [name for name in now if name in then and now[name] > 0]
    return math.sqrt(float(np.mean([then[name] / now[name] for name in both]))) if both else math.inf


def _merged(joint: Joint, i: int, together: int) -> Joint:
    """The table with so many neighbouring values of one useful column in one; without the column, if that is all."""
    columns = joint.useful.columns
    shaped = joint.p.reshape(joint.shape[0], *(c.size for c in columns))
    merged = np.add.reduceat(shaped, np.arange(0, columns[i].size, together), axis=i + 1)
    own = Column.of(columns[i].name, range(merged.shape[i + 1]))
    rest = [own if j == i else c for j, c in enumerate(columns) if j != i or own.size > 1]
    return Joint.from_probabilities(merged.reshape(joint.shape[0], -1), joint.secret, Alphabet.of(*rest), n=joint.n)
