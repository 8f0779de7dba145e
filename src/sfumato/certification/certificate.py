"""Certificates: the level of the integers, proved, and what is left of it elsewhere; and sealing, which finds integers
that keep a promise."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from sfumato import certification
from sfumato.certification import proving
from sfumato.certification.outward import log_up
from sfumato.certification.rationals import about_anything
from sfumato.decimals import LEVEL, at_most, nats
from sfumato.errors import ClaimError, InputError, SfumatoError, Spot
from sfumato.frames import Datum, Framed
from sfumato.mechanism import Bundle, Claim, Mechanism, load
from sfumato.mechanism.mechanism import spoken
from sfumato.uncertainty import ChiSquareBall, Custom, RenyiBall

if TYPE_CHECKING:
    from sfumato.alphabet import Column
    from sfumato.frames import Record

PROVED, GIVEN = "proved from the integers", "as given by the set"  # what a level rests on
BOUNDED = "bounded from the integers of each release"
WIDER = (2.0, 4.0)  # times the radius, at which the level is stated as well
MARGINS = (2.0**-28, 2.0**-22, 2.0**-18, 2.0**-14, 2.0**-11, 2.0**-8)  # the least costs 4e-9 of the value
LOOSEST = 2.0**-4  # mixed in where a proof is looser than the search
FINE = (0.0, 2.0**-46, 2.0**-40, 2.0**-34, *MARGINS)  # for optima whose last digits are worth several proofs
Witness: TypeAlias = "Mapping[str, Datum]"  # where a level is attained, in labels


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Framed):
    """A proved statement about a sealed mechanism: its level is at most `level` nats.

    What no promise depends on is proved when it is first read and kept: levels elsewhere, and where the kernel
    confirmed the claim the least level itself, which is then the claimed one where the fast proof finds none as good.
    """

    notion: str
    within: str
    epsilon: float  # what is claimed
    prove: Callable[[], tuple[float, Witness]]  # the least level proved, with where it is attained
    outside: Callable[[], Mapping[str, float]] = dict  # levels outside the set
    title: str = ""  # the notion's name, with its orders
    also: tuple[Certificate, ...] = ()  # of the further promises of the claim
    basis: str = PROVED
    confirmed: float | None = None  # the level that the kernel confirmed

    @cached_property
    def _proof(self) -> tuple[float, Witness]:
        if self.confirmed is None:
            return self.prove()
        try:
            level, witness = self.prove()
        except SfumatoError:
            return self.confirmed, {}
        return min(level, self.confirmed), witness

    @cached_property
    def level(self) -> float:
        """What is proved, rounded up."""
        return self._proof[0]

    @cached_property
    def witness(self) -> Witness:
        """Where the level is attained or approached."""
        return self._proof[1]

    @cached_property
    def elsewhere(self) -> Mapping[str, float]:
        """Levels outside the set."""
        return self.outside()

    @property
    def holds(self) -> bool:
        own = self.confirmed is not None and self.confirmed <= self.epsilon
        return (own or self.level <= self.epsilon) and all(other.holds for other in self.also)

    def records(self) -> Iterator[Record]:
        """One record for each promise: what is claimed, and what is proved."""
        for one in (self, *self.also):
            yield {"notion": one.title or one.notion.upper(), "within": one.within, "claimed": one.epsilon,
                   "proved": one.level, "holds": one.level <= one.epsilon, "basis": one.basis}

    def __repr__(self) -> str:
        state, claimed = "holds" if self.holds else "does NOT hold", nats(self.epsilon)
        return (f"<Certificate: {self.title or self.notion.upper()} {state}, ε = {claimed} claimed, "
                f"{at_most(self.level)} {self.basis}, {self.within}>")


T = TypeVar("T")


def known(value: T) -> Callable[[], T]:
    """What is proved already, for whoever asks."""
    return partial(_itself, value)


def _itself(value: T) -> T:
    return value


def certificate(
    mechanism: Mechanism, claim: Claim | None = None, *, wider: bool = True, confirmed: bool = False
) -> Certificate:
    """The certificate of a claim, whether or not it holds; if the kernel confirmed it, its level is found when read."""
    claim = mechanism.claim if claim is None else claim
    if claim is None:
        raise InputError("the mechanism carries no claim", next="Give one, or design it with sf.design.")
    if not confirmed:
        proving.check_confidence(claim.within)
    kind = "everything" if claim.within is None else claim.within.kind
    outside = partial(elsewhere, mechanism, claim) if wider else dict
    basis = GIVEN if isinstance(claim.within, Custom) else BOUNDED if proving.unlisted(mechanism) else PROVED
    prove = partial(_proof, mechanism, claim)
    found = prove if confirmed else known(prove())
    also = tuple(certificate(mechanism, other, wider=False, confirmed=confirmed) for other in claim.also)
    level = claim.epsilon if confirmed else None
    return Certificate(claim.notion, kind, claim.epsilon, found, outside, claim.title, also, basis, level)


def _proof(mechanism: Mechanism, claim: Claim) -> tuple[float, Witness]:
    level, where = proving.level_of(mechanism, claim)
    return level, _named(mechanism, where, claim.within is not None)


def _named(mechanism: Mechanism, where: dict[str, int], about_secret: bool) -> Witness:
    """The witness in labels."""
    own = mechanism.secret.text if about_secret else mechanism.input_text
    name: dict[str, Callable[[int], Datum]] = {
        "output": mechanism.answer, "useful": mechanism.useful.text,
        "first": mechanism.secret.text, "second": mechanism.secret.text, "input": own, "other": own,
        "known": lambda code: known_text(code, mechanism.useful.columns),
    }
    return {key: name[key](value) for key, value in where.items()}


def known_text(code: int, columns: Sequence[Column]) -> str:
    """'age = 30, sex = F' from the code of J and x^J."""
    digits: list[int] = []
    for column in reversed(columns):
        code, digit = divmod(code, column.size + 1)
        digits.append(digit)
    named = zip(columns, reversed(digits), strict=True)
    return ", ".join(f"{c.name} = {c.labels[d - 1]}" for c, d in named if d)


def elsewhere(mechanism: Mechanism, claim: Claim | None = None) -> dict[str, float]:
    """Proved levels about the secret when the truth lies outside the claimed set."""
    claim = mechanism.claim if claim is None else claim
    out: dict[str, float] = {}
    if claim is not None and claim.notion == "leakage":
        return out  # levels of another measure would mislead beside this one
    told = claim is not None and claim.notion != "pml"  # which lets odds be infinite: their level would mislead too
    if claim is not None and told and isinstance(claim.within, ChiSquareBall | RenyiBall) and claim.within.radius > 0:
        for times in WIDER:
            found = proving.over_set(mechanism, claim.within.widened(times), "rldp", proving.target_of(claim.epsilon))
            out[f"{times:g} times the radius"] = log_up(found.ratio)
    if claim is not None and claim.notion == "mi" and claim.within is not None:
        out["the worst output (LIP)"] = log_up(proving.proved(mechanism, "lip", claim.within).ratio)
    if mechanism.secret.size < 2:
        return out  # nothing is secret but the record itself
    out["any distribution"] = level_anywhere(mechanism)
    return out


def level_anywhere(mechanism: Mechanism) -> float:
    """What is proved about the secret for any distribution."""
    return log_up(about_anything(mechanism).ratio)


def seal(
    mechanism: Mechanism, claim: Claim, *, bits: int | None = None, margins: tuple[float, ...] = MARGINS
) -> tuple[Mechanism, Certificate]:
    """Integer weights near the floats for which the claim is proved, with the certificate.

    Weights are rounded after mixing in a little of a law that ignores the input; the mixture is the least of a
    ladder for which the certificate holds. A proof that fails says how much is missing: what makes up for a level that
    is δ too high, about δ/(1 − e^{−ε}), is tried before the next step, also where it is more than the last one.
    Ghost outputs, unused but for rounding noise, are merged first.
    """
    return sealed_by(mechanism, claim, bits, margins)[:2]


def sealed_by(
    mechanism: Mechanism, claim: Claim, bits: int | None = None, margins: tuple[float, ...] = MARGINS
) -> tuple[Mechanism, Certificate, float]:
    """The same, and how much was mixed in."""
    needed, tuned, left = 0.0, False, list(margins)
    while left:
        margin = left.pop(0)
        if margin < needed and left:
            continue
        tried = replace(mechanism, law=mechanism.law.rounded(bits, margin), claim=claim)
        found = certificate(tried, wider=False)
        if found.holds:
            return tried, replace(found, outside=partial(elsewhere, tried)), margin
        if claim.notion not in proving.BELIEFS:  # those are proved at ε or not at all: a level that fails says little
            missing = found.level - claim.epsilon
            needed = missing / 8  # a smaller mixture could not make up for what is missing
            enough = 1.05 * missing / -math.expm1(-claim.epsilon) if claim.epsilon > 0 else 0.0
            if margin < enough < LOOSEST and not tuned:
                left, tuned = [enough, *(x for x in left if x > enough)], True
    raise ClaimError(
        f"the mechanism could not be sealed at ε = {at_most(claim.epsilon)}: after a margin of {margins[-1]:.3g} its "
        f"proved level is {at_most(found.level)}", next="Its floats do not satisfy the claim; check the design.",
    )


def witnessed(certificate: Certificate) -> tuple[tuple[str, str], ...]:
    """Where the level is attained, as texts."""
    return tuple((str(k), spoken(v)) for k, v in certificate.witness.items())


def placed(witness: tuple[tuple[str, str], ...]) -> str:
    """Where the level is attained, for whoever checks it."""
    found = dict(witness)
    versus = [f"{found.pop('first')} against {found.pop('second')}"] if {"first", "second"} <= found.keys() else []
    return ", ".join([*versus, *(f"{name} {text}" for name, text in found.items())])


def certify(mechanism: Mechanism, claim: Claim | None = None) -> Certificate:
    """Prove the claim from the integer weights alone, or raise ClaimError with a witness.

    What is small enough for the kernel it proves alone; what is not rests on the fast proofs.
    """
    claim, refused = mechanism.claim if claim is None else claim, None
    if claim is not None and mechanism.sealed:
        try:
            if proving.confirm(mechanism if claim is mechanism.claim else replace(mechanism, claim=claim)):
                return certificate(mechanism, claim, confirmed=True)
        except ClaimError as error:
            refused = error  # the fast proof may say where
    made = certificate(mechanism, claim)
    if not made.holds:
        made = next((c for c in (made, *made.also) if c.level > c.epsilon), made)
        where = placed(witnessed(made))
        raise ClaimError(
            f"claimed ε ≤ {at_most(made.epsilon, LEVEL)} ({made.title}), proved only ε ≤ "
            f"{at_most(made.level, LEVEL)}{', worst at ' + where if where else ''}", next="Nothing was released.",
        )
    if refused is not None:
        raise refused
    return made


def certificate_any(made: Mechanism | Bundle) -> Certificate:
    """What can be proved of a mechanism or a bundle, whether or not its claim holds."""
    return certification.bundle_certificate(made) if isinstance(made, Bundle) else certificate(made)


def certify_any(made: Mechanism | Bundle) -> Certificate:
    """Prove the claim of a mechanism, or the promise of a bundle."""
    return certification.certify_bundle(made) if isinstance(made, Bundle) else certify(made)


def judged(made: Mechanism | Bundle, where: Spot = None) -> tuple[Certificate, ClaimError | None]:
    """What is proved of the content of a file, and what is to be said where that is less than it claims.

    What one of two proofs refuses while the other finds it has no certificate that anybody should be shown.
    """
    if made.claim is None:
        raise ClaimError("claims no privacy: there is nothing to verify", where=where)
    try:
        return certify_any(made), None
    except ClaimError as error:
        found, wrong = certificate_any(made), ClaimError(error.what, next="Do not release with it.", where=where)
        if found.holds:
            raise wrong from None
        return found, wrong


def verify(path: str | os.PathLike[str]) -> Certificate:
    """Read a mechanism file and prove its claim anew, from the file alone."""
    found, wrong = judged(load(path), path)
    if wrong is not None:
        raise wrong
    return found
