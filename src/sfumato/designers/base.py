"""What every designer returns: a sealed mechanism and everything needed to distrust it; and designers of others."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import designers
from sfumato.alphabet import Column, Floats
from sfumato.certification import Certificate, certificate
from sfumato.certification.certificate import FINE, MARGINS, sealed_by
from sfumato.decimals import LEVEL, SHORT, at_least, at_most, near, percent
from sfumato.errors import InputError, designed_epsilon, is_number
from sfumato.frames import Record, tabled, titled
from sfumato.joint import Joint
from sfumato.mechanism import Claim, Constant, Law, Mechanism
from sfumato.privacy import Information, LeastInformation, ceiling, information, least_information
from sfumato.tolerances import SLIP
from sfumato.uncertainty import Anything, Exactly, UncertaintySet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.designers.worth import Foreseen

LARGEST = 12.0  # nats up to which the optimisers work: heights up to e^ε exceed an LP's digits from about 16 on
SEARCH = 0.65  # of the time of a design beside the proof, for its search: what is left is for the bound
PROVED = 4e-7  # seconds of a proof for each output, pair of secrets and value
LIMIT = 60.0  # seconds of a search that is known to end, unless another limit is given
ENDED = "stopped at the time limit: the best design so far"
Options = dict[str, Any]  # of a method by their names, as its callers give them: its function says what they are
Details = dict[str, Any]  # what a method tells of a design beyond its value and bound, by names of its own
RELATIVE = "times the least standard errors"  # the unit of a design for estimates


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """A sealed and certified mechanism, with what it reaches and what is proved to be out of reach."""

    mechanism: Mechanism
    certificate: Certificate
    value: float  # what the method maximises (or, as a loss, minimises), of the sealed mechanism
    bound: float  # what no mechanism with the promise exceeds (for errors and losses: goes below)
    ceiling: float  # limit of every ε-private mechanism
    information: Information | None
    notes: tuple[str, ...] = ()  # what a reader should know: why this method, what was not proved
    seconds: float = 0.0
    details: Details = field(default_factory=dict)
    unit: str = "nats"  # of value, bound and ceiling

    @property
    def gap(self) -> float:
        """|bound − value| relative to the value, which counts as 1e-12 at least."""
        return abs(self.bound - self.value) / max(abs(self.value), SLIP)

    @property
    def least(self) -> LeastInformation:
        """The least I(input; Y) over the claimed set: proved from below, and the worst distribution found."""
        claim, joint = self.mechanism.claim, self.mechanism.joint
        if claim is None or joint is None:
            raise InputError("the design carries no claim about a set of distributions.")
        return least_information(self.mechanism, Exactly(joint) if claim.within is None else claim.within)

    @property
    def epsilon(self) -> float:
        return self.certificate.epsilon

    @property
    def method(self) -> str:
        return self.mechanism.method

    def foreseen(self, n: int | None = None) -> Foreseen:
        """What estimates from n released rows will be worth, by column, and what would help most."""
        return designers.foreseen(self.mechanism, n=n)

    def plot(self, axes: Axes | None = None) -> Axes:
        """The mechanism as a picture of Q(y|x); returns matplotlib's axes."""
        return self.mechanism.plot(axes)

    def _repr_html_(self) -> str:
        told: Record = {"method": self.method, f"value ({self.unit})": self.value, "bound": self._limit(self.bound),
                "outputs": self.mechanism.outputs, "seconds": self.seconds}
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return titled(repr(self), tabled([told]), tabled(self.certificate.records()), notes)

    def __repr__(self) -> str:
        told = f"value {near(self.value, SHORT)}, bound {self._limit(self.bound)}, ceiling {self._limit(self.ceiling)}"
        proved = f"ε = {self.epsilon:g} proved at {at_most(self.certificate.level, LEVEL)}"
        return f"<Design {self.method}: {told} {self.unit}; {proved}>"

    def _limit(self, x: float) -> str:
        """A limit on the side on which it holds: below what is minimised, above what is maximised."""
        return at_least(x) if x < self.value or self.unit != "nats" else at_most(x)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What a designer is asked for."""

    within: UncertaintySet
    epsilon: float
    notion: str = "rldp"
    reads: str = "both"
    at_most: float | None = None  # nats for any distribution, a second promise of the same mechanism

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", designed_epsilon(self.epsilon))
        if self.at_most is not None and not (is_number(self.at_most) and self.epsilon <= self.at_most):
            raise InputError(
                f"at_most must be a finite number of nats, ε = {self.epsilon:g} or more, got {self.at_most!r}: what "
                "holds for any distribution holds over the set too."
            )
        if self.reads not in ("both", "useful"):
            raise InputError(f"reads must be 'both' or 'useful', got {self.reads!r}.")

    @property
    def joint(self) -> Joint:
        return self.within.joint

    @property
    def claim(self) -> Claim:
        also = () if self.at_most is None else (Claim("rldp", self.at_most, Anything(self.joint)),)
        return Claim(self.notion, self.epsilon, None if self.notion == "ldp" else self.within, also=also)

    @property
    def promises(self) -> tuple[Task, ...]:
        """The promise, and the second one as a task of its own."""
        if self.at_most is None:
            return (self,)
        return replace(self, at_most=None), Task(Anything(self.joint), self.at_most, "rldp", self.reads)

    @property
    def rows(self) -> int:
        return self.joint.secret.size if self.reads == "both" else 1

    @property
    def ceiling(self) -> float:
        """What no mechanism under this claim can exceed; ε-LIP implies 2ε about the secret."""
        return ceiling(self.joint, self.epsilon, reads=self.reads, notion=self.notion)

    @property
    def proving(self) -> float:
        """Seconds that the proof of a table with an output for every input takes, about."""
        S, U = self.joint.shape
        return PROVED * self.rows * U * S * (S - 1) * U


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A designer's answer in floats: a suggestion until it is sealed."""

    law: Law
    method: str
    bound: float | None = None  # proved for every mechanism with the promise; None: no more than the ceiling is
    notes: tuple[str, ...] = ()
    details: Details = field(default_factory=dict)
    claim: Claim | None = None  # what the designer promises, when it is not the task's claim
    score: Callable[[Mechanism], float] | None = None  # what the method optimises, when it is not I(input; Y)
    answers: Column | None = None  # what the outputs are called, when they are values
    task: Task | None = None  # what was designed for, when it is not what was asked (privacy at P̂ alone, another ε)
    unit: str = "nats"  # of the score
    fine: bool = False  # a vertex worth sealing with the smallest mixture that rounding allows

    def with_note(self, note: str) -> Draft:
        return replace(self, notes=(*self.notes, note))

    def mechanism(self, task: Task) -> Mechanism:
        """The floats with the labels of a task, and where design data come from as far as they tell: noise says it, and
        even weights of labels come from nobody."""
        joint = task.joint
        public = joint.n is None and joint.counts is None and not np.ptp(joint.p)
        source = "noisy" if joint.noise and joint.counts is not None else "public" if public else "unstated"
        return Mechanism(self.law, joint.secret, joint.useful, task.reads, self.method, joint=joint,
                         answers=self.answers, source=source)

    def least(self, task: Task) -> float:
        """The proved least I(input; Y) of the floats over the task's set."""
        return least_information(self.mechanism(task), task.within).proved

    def value(self, task: Task) -> float:
        """I(input; Y) of the floats at P̂, or NaN where it cannot be summed."""
        told, _ = _informed(self.mechanism(task), task.joint)
        return float("nan") if told is None else told.both


def silent(task: Task, method: str, bound: float | None = None) -> Draft:
    """The answer at ε = 0."""
    return Draft(Constant(task.rows, task.joint.useful.size), method, bound, ("ε = 0: the output ignores the input",))


def listed_rows(task: Task, laws: Sequence[Law]) -> list[Floats]:
    """Rows of laws for the inputs of this table, as far as they are listed."""
    inputs, listed = task.joint.useful.size * task.rows, [x for law in laws if (x := law.matrix()) is not None]
    if strange := [x.shape[1] for x in listed if x.shape[1] != inputs]:
        raise InputError(f"a start has {strange[0]} inputs, this table {inputs}; give designs of this table.")
    return [np.asarray(rows[rows.sum(1) > 0], float) for rows in listed]


def _informed(mechanism: Mechanism, joint: Joint) -> tuple[Information | None, tuple[str, ...]]:
    """What a mechanism keeps, or why that cannot be summed."""
    try:
        return information(mechanism, joint), ()
    except InputError as error:
        return None, (str(error),)


def finished(task: Task, draft: Draft, started: float) -> Design:
    """Seal a draft, certify it and measure it."""
    task = task if draft.task is None else draft.task
    mechanism, claim = draft.mechanism(task), task.claim if draft.claim is None else draft.claim
    if mechanism.sealed:  # integers of the designer's own: certified as they are, whether or not the claim holds
        sealed = mechanism.with_claim(claim)
        proof = certificate(sealed)
    else:
        sealed, proof, mixed = sealed_by(mechanism, claim, margins=FINE if draft.fine else MARGINS)
        if mixed > MARGINS[-1]:
            draft = draft.with_note(f"{percent(mixed)} of the answers are drawn blindly, else nothing is proved")
    told, untold = _informed(sealed, task.joint)
    bound = task.ceiling if draft.bound is None else draft.bound
    value = draft.score(sealed) if draft.score else told.both if told else float("nan")
    ceiling = task.ceiling if draft.score is None else bound  # the bound of a score holds for every mechanism
    took = time.perf_counter() - started
    return Design(sealed, proof, value, bound, ceiling, told, (*draft.notes, *untold), took, draft.details, draft.unit)


FIRST_OF_CURVE, NEXT_OF_CURVE = 0.75, 0.25  # of the time of a design alone, for the first and for each of the others


def curve_seconds(points: int, seconds: float) -> float:
    """Of work for designs at increasing ε, where one alone takes so many."""
    return (FIRST_OF_CURVE + NEXT_OF_CURVE * (points - 1)) * seconds
