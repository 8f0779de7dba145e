"""Checking: the one place where the claim of a mechanism is proved before a row goes through it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sfumato.certification import Certificate
from sfumato.certification.certificate import certify_any
from sfumato.errors import ClaimError, InputError, option
from sfumato.mechanism import Bundle, Mechanism

OTHERWISE = option(
    "Ask its author for one that does",
    "Give it a claim that can be certified, or pass allow_unclaimed=True if no promise is needed",
)


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A mechanism that may touch rows: sealed, with a claim that has been proved from its integers.

    To make one is to prove it, and a `Flow` is made of nothing else, so that no way of releasing can go around it.
    """

    mechanism: Mechanism | Bundle
    allow_unclaimed: bool = False  # no promise is needed
    certificate: Certificate | None = field(init=False)

    def __post_init__(self) -> None:
        if not self.mechanism.sealed:
            raise InputError("only a sealed mechanism can release rows; design() and seal() return sealed ones.")
        if self.mechanism.claim is None and not self.allow_unclaimed:
            raise ClaimError("this mechanism claims no privacy, so nothing was released", next=f"{OTHERWISE}.")
        proof = None if self.mechanism.claim is None else certify_any(self.mechanism)
        object.__setattr__(self, "certificate", proof)
