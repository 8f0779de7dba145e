"""What every designer returns: a sealed mechanism and everything needed to distrust it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from sfumato.certification import Certificate, seal
from sfumato.errors import InputError, checked_epsilon
from sfumato.joint import Joint
from sfumato.mechanism import Claim, Law, Mechanism
from sfumato.uncertainty import UncertaintySet
from sfumato.utility import Information, ceiling, information


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """A sealed and certified mechanism, with what it reaches and what is proved to be out of reach."""

    mechanism: Mechanism
    certificate: Certificate
    value: float  # what the method maximises, of the sealed mechanism, at P̂
    bound: float  # proved limit of the method's own family
    ceiling: float  # limit of every ε-private mechanism
    information: Information | None
    notes: tuple[str, ...] = ()  # what a reader should know: why this method, what was not proved
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """|bound − value| / max(|value|, 1e-12)."""
        return abs(self.bound - self.value) / max(abs(self.value), 1e-12)

    @property
    def epsilon(self) -> float:
        return self.certificate.epsilon

    @property
    def method(self) -> str:
        return self.mechanism.method

    def __repr__(self) -> str:
        return (
            f"<Design {self.method}: value {self.value:.6g}, bound {self.bound:.6g}, ceiling {self.ceiling:.6g} nats; "
            f"ε = {self.epsilon:g} proved at {self.certificate.level:.10g}>"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What a designer is asked for."""

    within: UncertaintySet
    epsilon: float
    notion: str = "rldp"
    reads: str = "both"

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        if self.reads not in ("both", "useful"):
            raise InputError(f"reads must be 'both' or 'useful', got {self.reads!r}.")

    @property
    def joint(self) -> Joint:
        return self.within.joint

    @property
    def claim(self) -> Claim:
        return Claim(self.notion, self.epsilon, None if self.notion == "ldp" else self.within)

    @property
    def rows(self) -> int:
        return self.joint.secret.size if self.reads == "both" else 1

    def with_reads(self, reads: str) -> Task:
        return replace(self, reads=reads)


def finished(
    task: Task, law: Law, method: str, *, bound: float | None = None, notes: tuple[str, ...] = (),
    started: float | None = None, **details: Any,
) -> Design:
    """Seal a law, certify it and measure it. Without a bound of its own a family of one member is its own limit."""
    joint = task.joint
    draft = Mechanism(law, joint.secret, joint.useful, task.reads, method, joint=joint)
    sealed, proof = seal(draft, task.claim)
    if bound is None:
        try:
            bound = information(draft, joint).both
        except InputError:
            bound = float("nan")
    return measured(task, sealed, proof, bound=bound, notes=notes, started=started, **details)


def measured(
    task: Task, sealed: Mechanism, proof: Certificate, *, bound: float, notes: tuple[str, ...] = (),
    started: float | None = None, **details: Any,
) -> Design:
    """A sealed mechanism with its certificate, and what it keeps."""
    try:
        told: Information | None = information(sealed, task.joint)
    except InputError as error:
        told, notes = None, (*notes, str(error))
    value = told.both if told else float("nan")
    if told and told.within > 0:
        notes = (*notes, f"the information of so many outputs is an enclosure: proved to ± {told.within:.2g} nats")
    limit = ceiling(task.joint, task.epsilon, reads=task.reads, notion=task.notion)
    seconds = 0.0 if started is None else time.perf_counter() - started
    return Design(sealed, proof, value, bound, limit, told, notes, seconds, details)
