"""Audits: a black box or a released table is asked, attacked and judged."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Alphabet, Floats, Ints
from sfumato.auditing import attacks
from sfumato.drawing.randomness import Stream
from sfumato.drawing.sampling import Sampler
from sfumato.errors import ClaimError, DataError, InputError, option
from sfumato.estimation.tally import manifest_beside
from sfumato.joint import Joint
from sfumato.mechanism import Bundle, Claim, Mechanism, load_mechanism
from sfumato.privacy import RLDP
from sfumato.sources import Source, open_source
from sfumato.tolerances import CHANNEL
from sfumato.uncertainty import Exactly

if TYPE_CHECKING:
    from sfumato.sources.source import TableLike

Box = Callable[[Ints], npt.ArrayLike]  # codes of inputs, one per record → codes of outputs, one per record
LEAST_RECORDS = 1000  # of a part of a bundle: fewer show hardly anything


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Codes of inputs, secrets and outputs, row by row; `drawn` says whether the auditor chose the inputs."""

    inputs: Ints
    secrets: Ints
    outputs: Ints
    drawn: bool


def check_size(mechanism: Mechanism) -> None:
    if mechanism.law.meaning == "subset" or mechanism.outputs * mechanism.inputs > CHANNEL:
        raise InputError(
            f"an audit counts every output for every input, at most {CHANNEL:,} pairs; this law of kind "
            f"{mechanism.law.kind!r} has more",
            next="Pass a function of its outputs as the box, with its own mechanism.",
        )


def as_box(given: object, seed: int | None) -> Box:
    """A callable as it is; a sealed mechanism through the sampler that releases use."""
    if isinstance(given, Mechanism):
        if not given.sealed:
            raise InputError("only a sealed mechanism can answer; design() and seal() return sealed ones.")
        sampler, places = Sampler(given.law, Stream.of(seed)), itertools.count(step=2**40)
        return lambda codes: sampler.draw(codes, next(places))  # words of its own for every interview
    if not callable(given):
        raise InputError(
            "audit takes a function from codes of inputs to codes of outputs, a sealed mechanism, or a released table "
            "with truth="
        )
    return cast(Box, given)


def _people(joint: Joint, records: int, rng: np.random.Generator, *, at_joint: bool) -> tuple[Ints, Ints]:
    """Secrets that occur, equally often or as often as they do, each with a useful value from p(u|s)."""
    seen = np.flatnonzero(joint.p_secret > 0)
    weight = joint.p_secret[seen] if at_joint else np.ones(seen.size)
    secrets = rng.choice(seen, size=records, p=weight / weight.sum())
    edges = np.cumsum(joint.useful_given_secret, axis=1)
    edges[:, -1] = 1.0
    draws, useful = rng.random(records), np.empty(records, np.int64)
    for s in seen:
        here = secrets == s
        useful[here] = np.searchsorted(edges[s], draws[here], side="right")
    return secrets, useful


def asked(
    box: Box, mechanism: Mechanism, joint: Joint | None, records: int, rng: np.random.Generator, *, about_secret: bool,
    at_joint: bool,
) -> Records:
    """Query with inputs of the auditor's choice.

    About the record: uniform inputs. About the secret: s uniform, u from p(u|s), so that every secret is heard equally
    often at a distribution the promise covers; at_joint draws s from p(s) as well.
    """
    k, both = mechanism.useful.size, mechanism.reads == "both"
    if about_secret:
        assert joint is not None
        secrets, useful = _people(joint, records, rng, at_joint=at_joint)
        inputs = secrets * k + useful if both else useful
    else:
        inputs = rng.integers(mechanism.inputs, size=records)
        secrets = inputs // k if both else np.zeros(records, np.int64)
    heard = np.asarray(box(inputs))
    if heard.shape != inputs.shape or not np.issubdtype(heard.dtype, np.integer):
        raise InputError(f"the box must answer {records:,} inputs with as many whole numbers", value=heard.shape)
    if heard.min() < 0 or heard.max() >= mechanism.outputs:
        outside = f"the box answered with an output outside 0 … {mechanism.outputs - 1}"
        raise InputError(f"{outside}: it is not the mechanism it says it is.")
    return Records(inputs, secrets, heard.astype(np.int64), True)


def paired(released: TableLike, truth: TableLike, mechanism: Mechanism) -> Records:
    """A released table beside the table it came from, row by row; a release keeps the order of rows."""
    released = open_source(released)
    manifest = manifest_beside(released)
    if manifest is not None and manifest.decode != "symbols":
        raise InputError(
            f"the table was written as {manifest.decode!r}, which hides the outputs themselves",
            next="Audit a release made with --decode symbols.",
        )
    written = {"cell": [mechanism.secret, mechanism.useful], "useful": [mechanism.useful]}
    symbols = [Alphabet.of(mechanism.symbols)]
    outputs = _codes(released.verbatim(), Alphabet.written(*written.get(mechanism.law.meaning, symbols)))
    true = open_source(truth).knowing((*mechanism.secret.columns, *mechanism.useful.columns))
    secrets, useful = _codes(true, mechanism.secret), _codes(true, mechanism.useful)
    if len(outputs) != len(useful):
        raise DataError(
            f"the released table has {len(outputs):,} rows and the true one {len(useful):,}: an audit needs them side "
            "by side, in the same order."
        )
    inputs = secrets * mechanism.useful.size + useful if mechanism.reads == "both" else useful
    return Records(inputs, secrets, outputs, False)


def _codes(source: Source, alphabet: Alphabet) -> Ints:
    parts, row = [], 0
    for batch in source.batches(list(alphabet.names)):
        parts.append(np.asarray(alphabet.encode(batch, first_row=row), np.int64))
        row += batch.num_rows
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """What an attack found: lower bounds beside claims, whether the answers follow the file, how well S was guessed."""

    records: int
    risk: float
    judgements: tuple[attacks.Judgement, ...]
    conformity: attacks.Conformity | None  # None when the mechanism has no weights to compare with
    guessing: attacks.Guessing | None  # of the secret, or of the function asked for
    parts: tuple[tuple[str, Audit], ...] = ()  # of a bundle, by name: its promise follows from theirs

    @property
    def conforms(self) -> bool:
        return self.conformity is None or not self.conformity.refuted(self.risk / 2)

    @property
    def refuted(self) -> bool:
        """Whether some promise, or the file itself, is false at the stated risk."""
        return not self.conforms or any(j.refuted for j in self.judgements) or any(x.refuted for _, x in self.parts)


def audit(
    box: Box | Mechanism | Bundle | TableLike,
    mechanism: Mechanism | Bundle | str | os.PathLike[str] | None = None, *,
    truth: TableLike | None = None, epsilon: float | None = None, function: npt.ArrayLike | None = None,
    records: int = 1_000_000, risk: float = 1e-3, seed: int | None = None,
) -> Audit:
    """Attack a box that claims to be a mechanism.

    `box` is a function from codes of inputs to codes of outputs, a sealed mechanism (answers come from the sampler of
    releases), or, with truth=, a released table beside the table it came from. A bundle is attacked part by part, at
    the level that each claims; its audit has `.parts`. `mechanism` carries the promise;
    epsilon= replaces its level, to ask what another claim would survive. function[x] is something about the input to
    guess (default: the secret). Answers are judged on records that did not choose the attack, by exact binomial bounds;
    `risk` is the chance to refute anything that is true; seed= repeats an audit. Sampling cannot see faults rarer than
    about 1/records.
    """
    if isinstance(box, Bundle) or isinstance(mechanism, Bundle):
        if not isinstance(box, Bundle) or not all(x is None for x in (mechanism, truth, epsilon, function)):
            asked = option("--released, --truth and --epsilon", "truth=, epsilon= and function=")
            raise InputError("a bundle is attacked part by part through its own sampler, at the level that each claims",
                             next=f"Leave out {asked}.")
        return _each(box, records, risk, seed)
    claimed = _mechanism(box, mechanism)
    check_size(claimed)
    claims = _claims(claimed, epsilon)
    if records < 1 or not 0 < risk < 1:
        raise InputError(f"records must be 1 or more and risk between 0 and 1, got {records} and {risk}.")
    rng = np.random.default_rng(seed)
    share = risk / 2 / max(1, len(claims))
    if truth is not None:
        told = paired(box, truth, claimed)
        judged = [_judged(claim, claimed, told, rng, share) for claim in claims]
        heard = [told]
    else:
        heard, judged = _interviews(as_box(box, seed), claimed, claims, records, rng, share)
    return Audit(
        sum(len(r.inputs) for r in heard), risk, tuple(judged), _conformity(claimed, heard),
        _guesses(claimed, heard[0], function, rng, risk),
    )


def _each(bundle: Bundle, records: int, risk: float, seed: int | None) -> Audit:
    """An attack on every part, which share the questions and the risk."""
    each, share = max(LEAST_RECORDS, records // len(bundle.parts)), risk / len(bundle.parts)
    found = [audit(part, records=each, risk=share, seed=seed) for part in bundle.parts]
    judged = tuple(j for one in found for j in one.judgements)
    parts = tuple(zip(bundle.names, found, strict=True))
    return Audit(sum(one.records for one in found), risk, judged, None, None, parts)


def _mechanism(box: object, mechanism: Mechanism | str | os.PathLike[str] | None) -> Mechanism:
    if mechanism is None and isinstance(box, Mechanism):
        return box
    if isinstance(mechanism, (str, os.PathLike)):
        return load_mechanism(mechanism)
    if isinstance(mechanism, Mechanism):
        return mechanism
    raise InputError("audit needs the mechanism that the box claims to be: its file, or a Mechanism.")


def _claims(mechanism: Mechanism, epsilon: float | None) -> list[Claim]:
    claim = mechanism.claim
    if claim is None:
        if epsilon is None:
            raise ClaimError("the mechanism claims nothing",
                             next=f"Give {option('--epsilon', 'epsilon=')} to test LDP about its input.")
        return [Claim("ldp", epsilon)]
    if epsilon is None:
        return [claim, *claim.also]
    return [Claim(claim.notion, epsilon, claim.within, claim.alpha, claim.beta)]


def _interviews(
    box: Box, mechanism: Mechanism, claims: list[Claim], records: int, rng: np.random.Generator, share: float
) -> tuple[list[Records], list[attacks.Judgement]]:
    """One interview for each way in which claims want the inputs to be drawn; claims of one way share it."""
    heard: dict[tuple[bool, bool], Records] = {}
    extra: list[Records] = []
    judged: list[attacks.Judgement] = []
    for claim in claims:
        way = (claim.within is not None, claim.notion in ("lip", "pml"))
        if way not in heard:
            joint = mechanism.joint if claim.within is None else claim.within.joint
            heard[way] = asked(box, mechanism, joint, records, rng, about_secret=way[0], at_joint=way[1])
        hard = hardest(claim, mechanism)
        judged.append(_judged(claim, mechanism, heard[way], rng, share if hard is None else share / 2))
        if hard is not None:  # the promise covers other distributions, and one of them is worse
            told = asked(box, mechanism, hard, records, rng, about_secret=True, at_joint=False)
            again = _judged(Claim(claim.notion, claim.epsilon, Exactly(hard)), mechanism, told, rng, share / 2)
            judged[-1] = max(judged[-1], again, key=lambda j: j.found)
            extra.append(told)
    return [*heard.values(), *extra], judged


def hardest(claim: Claim, mechanism: Mechanism) -> Joint | None:
    """Two secrets with the conditionals of a distribution in the claimed set that is worst for the mechanism's file."""
    if claim.notion != "rldp" or claim.within is None or isinstance(claim.within, Exactly):
        return None
    found, q = RLDP(claim.within).reading(mechanism).witness, mechanism.matrix
    if found.input is None or found.other is None or found.output is None or q is None:
        return None
    shape = claim.within.joint.shape
    row = np.broadcast_to(q[found.output].reshape(mechanism.law.rows, mechanism.law.useful), shape)
    worst = claim.within.worst(row, found.input, found.other)
    p = np.zeros(shape)
    p[found.input], p[found.other] = worst.given_first, worst.given_second
    return Joint.from_probabilities(p / p.sum(), mechanism.secret, mechanism.useful)


def _judged(
    claim: Claim, mechanism: Mechanism, told: Records, rng: np.random.Generator, share: float
) -> attacks.Judgement:
    about, size = (told.secrets, mechanism.secret.size) if claim.within is not None else (told.inputs, mechanism.inputs)
    halves = attacks.split(about, told.outputs, (mechanism.outputs, size), rng)
    return attacks.JUDGES[claim.notion](attacks.AuditCounts(halves, _prior(claim, told, size)), claim, share)


def _prior(claim: Claim, told: Records, size: int) -> Floats | None:
    """The law from which the auditor drew what the claim is about."""
    if not told.drawn:
        return None
    if claim.within is None:
        return np.full(size, 1 / size)
    joint = claim.within.joint
    p = joint.p_secret if claim.notion in ("lip", "pml") else (joint.p_secret > 0).astype(float)
    return np.asarray(p / p.sum())


def _conformity(mechanism: Mechanism, heard: list[Records]) -> attacks.Conformity | None:
    q = mechanism.matrix
    if q is None:
        return None
    counts = sum(attacks.tally(r.inputs, r.outputs, (mechanism.outputs, mechanism.inputs)) for r in heard)
    return attacks.conformity(np.asarray(counts), q)


def _guesses(
    mechanism: Mechanism, told: Records, function: npt.ArrayLike | None, rng: np.random.Generator, risk: float
) -> attacks.Guessing | None:
    """How much better the secret, or f(x), is guessed with the output than without."""
    if function is None:
        if mechanism.reads != "both" and told.drawn:
            return None
        target: Ints = told.secrets
    else:
        table = np.asarray(function, np.int64)
        if table.shape != (mechanism.inputs,) or table.min() < 0:
            raise InputError(f"function gives a whole number, zero or more, for each of {mechanism.inputs} inputs.")
        target = table[told.inputs]
    halves = attacks.split(target, told.outputs, (mechanism.outputs, int(target.max(initial=0)) + 1), rng)
    return attacks.guessing(halves, risk)
