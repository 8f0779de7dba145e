"""Promises in plain words: who learns how much from a released row, and in all where the design counts were noisy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato import certification
from sfumato.decimals import BITS, at_most, capitalised, nats, sure
from sfumato.decimals import total as summed
from sfumato.errors import listed
from sfumato.joint import Noise
from sfumato.mechanism import Bundle, Mechanism

if TYPE_CHECKING:
    from sfumato.certification.certificate import Certificate

STATISTICS = "somebody who knows only statistics about such people"
THEOREM = (
    "Let what the file tells of the table be ε_d-differentially private, but for a chance of δ, and a row ε-private "
    "over the set given the file. Then whoever sees the file and all released rows learns at most ε + ε_d about a "
    "person's secret, if the distribution lies in the set and this person is independent of the others given it. Every "
    "further table of noisy counts costs its own ε_d."
)


@dataclass(frozen=True, slots=True)
class PromisesTold:
    """How much somebody learns about the secret, in nats: ∞ where nothing is promised and nothing could be proved."""

    who: str
    promised: float | None  # None: proved of these integers, but promised by nobody
    proved: float | None  # None: not looked at
    total: float  # with what the mechanism file tells

    @property
    def sentence(self) -> str:
        if self.promised is None:
            most = f"up to {nats(self.total, BITS)}" if self.total < float("inf") else "possibly everything"
            return f"{self.who} learns {most}: nothing is promised there"
        more = self.total > self.promised
        beside = f", {at_most(self.total, BITS)} with what the mechanism file tells" if more else ""
        return f"{self.who} learns at most {nats(self.promised, BITS)} about the secret{beside}"


def promises(mechanism: Mechanism, proof: Certificate | None = None) -> tuple[PromisesTold, ...]:
    """Both promises about the secret, the second as what is proved where none was made; nothing for other notions.

    Without a proof it says what is promised, and nothing about the second where that is nothing.
    """
    claim, noise = mechanism.claim, None if mechanism.joint is None else mechanism.joint.noise
    if claim is None or claim.notion not in ("rldp", "lip", "pml"):
        return ()
    spent = 0.0 if noise is None else noise.epsilon
    knowing = f"somebody who knows this person's {listed(mechanism.useful.names)}"
    who = f"anybody, even {knowing}," if claim.anywhere else STATISTICS
    first = PromisesTold(who, claim.epsilon, None if proof is None else proof.level, summed(claim.epsilon, spent))
    if claim.anywhere:
        return (first,)
    for i, other in enumerate(claim.also):
        if other.anywhere:
            found = None if proof is None else proof.also[i].level
            return first, PromisesTold(knowing, other.epsilon, found, summed(other.epsilon, spent))
    if proof is None:
        return (first,)
    level = proof.elsewhere.get("any distribution", float("inf"))
    return first, PromisesTold(knowing, None, level, summed(level, spent))


def sentences(mechanism: Mechanism, proof: Certificate | None = None) -> tuple[str, ...]:
    """Both promises in words."""
    return tuple(told.sentence for told in promises(mechanism, proof))


def design_sentence(noise: Noise) -> str:
    """What was paid for the design counts, and what is said about the set around them."""
    if noise.coverage is None:
        return noise.sentence
    return f"{noise.sentence}; in simulations the set around them covers the truth {sure(noise.coverage)} of the time"


def told_exactly(mechanism: Mechanism) -> str | None:
    """What must be said of a file that holds counts of the table without noise."""
    joint = mechanism.joint
    if joint is None or joint.counts is None or joint.noise is not None or mechanism.source != "private":
        return None
    return (
        "the file holds counts of the table without noise: the promise is about one released row by itself, and "
        "whoever sees the counts and all rows of a small table may learn more"
    )


def notes_of(made: Mechanism | Bundle) -> list[str]:
    """What a release says of its promises and of the mechanism file beside it, in sentences."""
    if made.claim is None:
        return ["The mechanism carries no claim: no privacy is promised for this table."]
    if isinstance(made, Bundle):
        spent = certification.drawn_for([made])[0]
        most = nats(summed(made.claim.epsilon, spent))
        held = f"The mechanism file holds noisy counts, ε_d = {at_most(spent)}: in all at most {most}."
        return [held] if spent else []
    noise, exactly = made.noise, told_exactly(made)
    return [
        *(f"{capitalised(told)}." for told in sentences(made)),
        *([] if noise is None else [f"The mechanism file holds {design_sentence(noise)}."]),
        *([] if exactly is None else [f"{capitalised(exactly)}."]),
    ]
