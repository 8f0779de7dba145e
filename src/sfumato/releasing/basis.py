"""What a mechanism is designed from: exact counts, counts with noise, or none; of a table, or of a part of it."""

from __future__ import annotations

import contextlib
import math
import random
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sfumato.decimals import with_unit
from sfumato.drawing.randomness import Lane, Stream, WordSource
from sfumato.errors import At, DataError, InputError, option
from sfumato.joint import Joint
from sfumato.noise import DELTA, SEEDED, noisy_counts
from sfumato.releasing.alphabets import Kept, Learnt, check_kept
from sfumato.releasing.columns import CHOOSING
from sfumato.releasing.spending import split
from sfumato.releasing.wishes import Wishes
from sfumato.sources import Source
from sfumato.uncertainty import Anything, ChiSquareBall, UncertaintySet, covering


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """A set to design for, and what is left of ε for the rows."""

    within: UncertaintySet
    epsilon: float
    source: str | None = None  # of design data that are neither noisy nor exact counts of the table
    notes: tuple[str, ...] = ()
    kept: Kept | None = None  # None where nothing was paid for, it is kept already, or has no place


def exact_basis(joint: Joint, wishes: Wishes) -> Basis:
    """The confidence ball around exact counts, which will be in the mechanism file."""
    return Basis(ChiSquareBall(joint, confidence=wishes.confidence), wishes.epsilon)


def basis_of(joint: Joint, told: Learnt, seed: int | None) -> Basis:
    """The set that the wishes ask for around the counts of a private table of which labels and edges are told."""
    wishes, before = told.wishes, told.counts
    if before is not None and before.noise is not None and before.noise.rows != joint.n:
        raise _other_table(told)
    if 0 < told.paid >= wishes.epsilon:
        raise _nothing_left(told, told.paid)
    if wishes.design == "any" or wishes.notion == "ldp":
        return _free(joint, told, "designed for any distribution, from no counts")
    if before is not None and before.counts is not None:
        _check_same(before, joint, told)
        return _again(before, told)
    spent, why = _spent(joint, told)
    return _free(joint, told, why) if spent == 0 else _drawn(joint, told, spent, why, seed)


def _drawn(joint: Joint, told: Learnt, spent: float, why: str, seed: int | None) -> Basis:
    """The set around counts with noise, drawn now and kept, at `spent` beside what the labels took."""
    wishes = told.wishes
    check_kept(told.place)
    below = secrets.randbelow if seed is None else random.Random(seed).randrange
    found = noisy_counts(joint, spent, public=True, below=below)
    assert found.noise is not None
    noise = replace(
        found.noise, epsilon=round(spent + told.paid, 9), delta=0.0 if told.noise is None else told.noise.delta,
        sampler=found.noise.sampler if seed is None else SEEDED,
    )
    found = replace(found, noise=noise)
    kept = None if told.place is None else Kept(found, told.place, told.counts is not None)
    notes = (why, *told.notes, *_left(wishes.epsilon, noise.epsilon))
    return Basis(covering(found, wishes.confidence), wishes.epsilon - noise.epsilon, None, notes, kept)


def _left(whole: float, spent: float) -> tuple[str, ...]:
    """How parts of ε that are told one by one add up."""
    parts = f"{spent:g} of ε = {whole:g} went to what is told of the table, {whole - spent:.9g} is left for the rows"
    return (f"in all {parts}",) if spent else ()


def at_level(drawn: Basis, joint: Joint, told: Learnt) -> Basis:
    """The basis of another ε, with what was drawn of the table: however many levels are tried, it is paid once.

    Where noisy counts leave nothing of ε, or where so many rows are better designed for without, there are none.
    """
    wishes, noise = told.wishes, drawn.within.joint.noise
    if 0 < told.paid >= wishes.epsilon:
        raise _nothing_left(told, told.paid)
    if drawn.source is not None or noise is None:
        return _free(joint, told, drawn.notes[0])
    if noise.epsilon >= wishes.epsilon:
        took = with_unit(f"{noise.epsilon:g}", "nat")
        return _free(joint, told, f"designed for any distribution: noisy counts took {took}")
    spent, why = _spent(joint, told)
    if spent == 0:
        return _free(joint, told, why)
    note = f"ε_d = {noise.epsilon:g} of {wishes.epsilon:g} goes to what is told of the table"
    return Basis(drawn.within, wishes.epsilon - noise.epsilon, None, (note, *told.notes), drawn.kept)


def _spent(joint: Joint, told: Learnt) -> tuple[float, str]:
    """What counts take and why; 0 where no counts are better."""
    wishes, paid = told.wishes, told.paid
    if wishes.design_epsilon is not None:
        if not paid < wishes.design_epsilon < wishes.epsilon:
            raise InputError(
                f"{option('--design-epsilon', 'design_epsilon=')} must be positive and less than ε = "
                f"{wishes.epsilon:g}, of which it is a part", value=wishes.design_epsilon,
            )
        spent = round(wishes.design_epsilon - paid, 9)
        return spent, f"ε_d = {spent:g} of {wishes.epsilon:g} goes to noisy counts"
    assert joint.n is not None
    chosen = split(joint.n, *joint.shape, wishes.epsilon - paid, wishes.at_most or wishes.epsilon)
    if wishes.design == "noisy" and chosen.counts == 0:
        spent = round(CHOOSING.counts * (wishes.epsilon - paid), 6)
        return spent, f"ε_d = {spent:g} of {wishes.epsilon:g} goes to noisy counts"
    return chosen.counts, chosen.why


def _free(joint: Joint, told: Learnt, why: str) -> Basis:
    """Any distribution over labels that are public, or were paid for."""
    even = replace(joint.evened, noise=told.noise)
    kept = None
    if told.noise is not None and told.place is not None and told.counts is None:
        kept = Kept(even, told.place)
    whole, spent = told.wishes.epsilon, told.paid
    return Basis(Anything(even), whole - spent, "public", (why, *told.notes, *_left(whole, spent)), kept)


def _check_same(found: Joint, joint: Joint, told: Learnt) -> None:
    """Refuse noisy counts that noise hardly ever makes of these rows: they would speak of other people.

    No noise is beyond `most`, but for a chance of DELTA. Counts are lowered alike until they sum to the rows, which
    is by `most` at most.
    """
    assert found.noise is not None and found.counts is not None and joint.counts is not None
    most = found.noise.scale * math.log(2 * joint.p.size / DELTA) + 1
    if np.abs(found.counts - joint.counts).max() > 2 * most:
        raise _other_table(told)


def _other_table(told: Learnt) -> InputError:
    return InputError(
        "holds noisy counts of another table", where=told.place,
        next="If the table has changed, remove the file: new ones are drawn then, at their own ε_d.",
    )


def _again(found: Joint, told: Learnt) -> Basis:
    """Counts that were drawn before: another draw would cost their ε_d once more."""
    assert found.noise is not None
    spent, whole = found.noise.epsilon, told.wishes.epsilon
    if spent >= whole:
        raise _nothing_left(told, spent)
    note = f"the noisy counts in {told.place} are used again: ε_d = {spent:g} of {whole:g}, paid once"
    return Basis(covering(found, told.wishes.confidence), whole - spent, None, (note, *told.notes))


def _nothing_left(told: Learnt, spent: float) -> InputError:
    return InputError(
        f"what is told of the table takes ε_d = {spent:g}, which leaves nothing of ε = {told.wishes.epsilon:g} for "
        "the rows",
        next=f"Ask for more, for a design without counts ({option('--design any', 'design=any')}), or say which "
        f"labels are public ({option('--public-labels', 'public=')}).",
    )


def divided(source: Source, fraction: float, seed: int | None = None) -> tuple[Source, Source]:
    """Two sources that share no row: each row goes to the first with probability `fraction`.

    Which rows these are follows from the row number and a key of the system's entropy, so both parts can be
    streamed, in as many passes as it takes, and nobody can tell afterwards who was in which.
    """
    if not 0 < fraction < 1:
        raise InputError("split must be a fraction between 0 and 1", value=fraction)
    if source.cluster is not None:
        raise InputError("a split goes by the order of rows, which those on a cluster do not have",
                         next="Divide the frame there (randomSplit), and give one part as reference=.")
    stream, edge = Stream.of(seed), np.uint64(int(fraction * 2**64))
    return _part(source, stream, edge, first=True), _part(source, stream, edge, first=False)


def _part(source: Source, stream: WordSource, edge: np.uint64, *, first: bool) -> Source:
    def read(coded: Sequence[str], kept: Sequence[str]) -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in source.read(coded, kept):
            words = np.empty(batch.num_rows, np.uint64)
            stream.words(row, words, lane=Lane.SPLIT())
            row += batch.num_rows
            yield batch.filter(pa.array((words < edge) == first))

    part = "set aside for the design" if first else "to be released"
    return replace(source, name=f"{source.name} (the part {part})", read=read, rows=None)


@contextlib.contextmanager
def counting_within(part: bool) -> Iterator[None]:
    """Row numbers of a part of the table are not those of the file: say so."""
    try:
        yield
    except DataError as error:
        if not part or not isinstance(error.where, At) or error.where.row is None:
            raise
        raise error.followed_by("(After a split, rows are counted within their part.)") from None
