"""Outlook: what estimates from a release will be worth, and what would help, before a row is released."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.alphabet import Alphabet, Column
from sfumato.designers.aiming import SEARCHED, Closed
from sfumato.designers.base import Task
from sfumato.errors import InputError, SfumatoError
from sfumato.frames import Framed
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.optimise.estimates.closed import closed_errors, untouched_errors
from sfumato.optimise.estimates.goal import parts_of
from sfumato.uncertainty import Anything, ChiSquareBall

Z95 = 1.959963984540054  # of a normal law: 95 % lie within
EVERYTHING = 100.0  # points
LITTLE = 0.01  # of the rows: a release that is worth less is made only when asked for once more
HELPS = 4  # ways that are told
MANY = 12  # tables of several columns from which on only the best and the worst are told


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
        return f"± {self.points:.2g} points" if self.points < EVERYTHING else f"± {self.points:.0f} points: no estimate"


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

    @property
    def share(self) -> float:
        """Of the rows that the release is worth: the mean over its columns."""
        return float(np.mean([part.rows for part in self.parts[: -self.tables or None] or self.parts])) / self.n

    @property
    def little(self) -> bool:
        """Whether it is worth less than a hundredth of its rows."""
        return self.share < LITTLE

    def records(self) -> Iterator[dict[str, Any]]:
        for part in self.parts:
            yield {"table": part.name, "values": part.values, "± points": part.points, "worth rows": part.rows}

    @property
    def lines(self) -> list[str]:
        """In words."""
        listed = self.parts if self.tables < MANY else self.parts[: -self.tables]
        out = [f"{p.name}: {p.error}, worth {p.rows:,.0f} unprotected rows" for p in listed]
        if len(listed) < len(self.parts):
            ends = sorted(self.parts[-self.tables :], key=lambda p: p.points)
            out.append(f"{self.tables:,} tables of two columns: {ends[0].error} ({ends[0].name}) to {ends[-1].error} "
                       f"({ends[-1].name})")
        told = ", ".join(f"{h.what} ({h.times:.2g} times as large)" for h in self.ways)
        worth = f"for a column, on average, worth {self.share:.1%} of {self.n:,} rows"
        return [*out, worth, *([f"what would make the ± smaller: {told}"] if told else [])]

    @property
    def ways(self) -> tuple[Help, ...]:
        """What would help: nothing of these where nothing is told, however large the ± of others would be."""
        return self.helps if any(math.isfinite(part.points) for part in self.parts) else ()

    def __repr__(self) -> str:
        return "\n  ".join([f"<Foreseen from {self.n:,} rows>", *self.lines])


def foreseen(mechanism: Mechanism, joint: Joint | None = None, n: int | None = None) -> Foreseen:
    """What will be known of each column and of the whole table from n released rows that follow a joint (by default
    the design distribution, and as many rows as it was counted from)."""
    joint = mechanism.joint if joint is None else joint
    if joint is None:
        raise InputError("the mechanism does not carry its design distribution: say which joint the rows will follow.")
    rows = joint.n if n is None else n
    if not rows or rows < 1:
        raise InputError("say how many rows will be released (n=).")
    columns = mechanism.useful.columns
    sizes = [c.size for c in columns]
    errors = errors_of(mechanism, joint, sizes)
    untouched = untouched_errors(joint, mechanism.reads, sizes)
    names = _names(mechanism)
    size = {"joint": joint.p.size, "useful": joint.shape[1], "secret": joint.shape[0],
            **{f"column {i}": k for i, k in enumerate(sizes)}}
    parts = [
        ForeseenPart(names[k], size[k], 100 * Z95 * math.sqrt(e / rows), rows * untouched[k] / e if e else rows)
        for k, e in errors.items()
    ]
    order = [*(p for p, k in zip(parts, errors, strict=True) if k not in ("joint", "useful")),
             *(p for p, k in zip(parts, errors, strict=True) if k in ("joint", "useful"))]
    return Foreseen(rows, tuple(order), tuple(_helps(mechanism, joint)))


def errors_of(mechanism: Mechanism, joint: Joint, sizes: list[int]) -> dict[str, float]:
    """n times the mean variance of each part; ∞ where nothing is known of it."""
    closed = closed_errors(mechanism.law, joint, mechanism.reads, sizes)
    if closed is not None:
        return closed
    goals = parts_of(joint, mechanism.reads, sizes) if joint.p.size <= SEARCHED else {}
    found = {name: goal.of_law(mechanism.law) for name, goal in goals.items()}
    known = untouched_errors(joint, mechanism.reads, sizes)
    return {name: e if (e := found.get(name, math.nan)) == e else math.inf for name in known}


def _names(mechanism: Mechanism) -> dict[str, str]:
    whole = " × ".join([*(mechanism.secret.names if mechanism.reads == "both" else ()), *mechanism.useful.names])
    useful = {f"column {i}": c.name for i, c in enumerate(mechanism.useful.columns)}
    return {"joint": whole, "useful": whole, "secret": " × ".join(mechanism.secret.names), **useful}


def _helps(mechanism: Mechanism, joint: Joint) -> list[Help]:
    """Ways to smaller errors, the best first, each by the best closed form with and without it."""
    claim = mechanism.claim
    if claim is None or claim.within is None:
        return [Help("twice as many rows", math.sqrt(0.5))]
    task = Task(claim.within, claim.epsilon, claim.notion, mechanism.reads)
    whole = task.epsilon + (0.0 if joint.noise is None else joint.noise.epsilon)
    tried = {f"ε = {2 * whole:g} instead of {whole:g}": replace(task, epsilon=task.epsilon + whole)}
    for i, column in enumerate(joint.useful.columns):
        if len(joint.useful.columns) > 1 and (other := _around(task, _without(joint, i))) is not None:
            tried[f"leaving out {column.name}"] = other
        if column.size > 3 and (other := _around(task, _coarser(joint, i))) is not None:
            tried[f"{(column.size + 1) // 2} instead of {column.size} values of {column.name}"] = other
    now = _least(task)
    found = [Help(what, times) for what, one in tried.items() if (times := _times(now, _least(one))) < 1]
    found.append(Help("twice as many rows", math.sqrt(0.5)))
    return sorted(found, key=lambda h: h.times)[:HELPS]


def _around(task: Task, joint: Joint) -> Task | None:
    """The same promise about another table; None where the set says too little of itself to be moved."""
    within = task.within
    if isinstance(within, Anything):
        return replace(task, within=Anything(joint))
    if isinstance(within, ChiSquareBall) and within.confidence is not None and joint.n is not None:
        return replace(task, within=ChiSquareBall(joint, radius=within.radius))
    return None


def _least(task: Task) -> dict[str, float]:
    """Errors by column of the closed form with the least mean; none where there is none."""
    try:
        closed = Closed.of(task)
    except SfumatoError:
        return {}
    means = closed.means
    if not means:
        return {}
    errors = closed.drafts[min(means, key=lambda x: means[x])][1]
    return {" × ".join(task.joint.secret.names) if k == "secret" else task.joint.useful.columns[int(k[7:])].name: e
            for k, e in errors.items() if k == "secret" or k.startswith("column ")}


def worth_of_one(mechanism: Mechanism, joint: Joint) -> float:
    """The share of the rows that one mechanism is worth for a column: the harmonic mean over the columns, so that
    variances in units of those without protection are averaged."""
    sizes = [c.size for c in joint.useful.columns]
    errors, plain = errors_of(mechanism, joint, sizes), untouched_errors(joint, mechanism.reads, sizes)
    times = [max(e / plain[k], 1.0) for k, e in errors.items() if k not in ("joint", "useful") and plain[k] > 0]
    return 1 / float(np.mean(times)) if times else 1.0


def _times(now: Mapping[str, float], then: Mapping[str, float]) -> float:
    """How large errors would be in units of those now: root mean square over the columns that both have."""
    both = [name for name in now if name in then and now[name] > 0]
    return math.sqrt(float(np.mean([then[name] / now[name] for name in both]))) if both else math.inf


def _without(joint: Joint, i: int) -> Joint:
    """The table without one useful column."""
    columns = joint.useful.columns
    shaped = joint.p.reshape(joint.shape[0], *(c.size for c in columns)).sum(i + 1)
    rest = Alphabet.of(*(c for j, c in enumerate(columns) if j != i))
    return Joint.from_probabilities(shaped.reshape(joint.shape[0], -1), joint.secret, rest, n=joint.n)


def _coarser(joint: Joint, i: int) -> Joint:
    """The table with every two neighbouring values of one useful column in one."""
    columns = joint.useful.columns
    shaped = joint.p.reshape(joint.shape[0], *(c.size for c in columns))
    merged = np.add.reduceat(shaped, np.arange(0, columns[i].size, 2), axis=i + 1)
    own = Column.of(columns[i].name, range(merged.shape[i + 1]))
    rest = Alphabet.of(*(own if j == i else c for j, c in enumerate(columns)))
    return Joint.from_probabilities(merged.reshape(joint.shape[0], -1), joint.secret, rest, n=joint.n)
