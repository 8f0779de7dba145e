"""Figures: every number a report shows, before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato import certification
from sfumato.alphabet import Floats
from sfumato.decimals import capitalised, near, total
from sfumato.decimals import level as level_text
from sfumato.mechanism import Bundle
from sfumato.tolerances import LINES

if TYPE_CHECKING:
    from sfumato.certification.certificate import Certificate
    from sfumato.estimation.numbers import Figure
    from sfumato.mechanism import Mechanism

USUAL_ROWS = 10_000  # that errors are told for when nothing was released and the design data have no number
VAGUE = 0.9  # an interval of a share this wide says nothing
WORTH_LITTLE = 0.1  # of the rows: a release that is worth less is worth little, and the page says so
SHADES = 10  # steps of colour


@dataclass(frozen=True)
class PromiseFigures:
    """What is promised and what was proved."""

    notion: str
    within: str
    epsilon: float
    factor: float  # e^ε
    level: float
    holds: bool
    confidence: float | None
    beliefs: tuple[tuple[float, float], ...]  # belief before, greatest belief after
    elsewhere: tuple[tuple[str, float, float], ...]  # where, level, factor
    witness: tuple[tuple[str, str], ...]
    sentence: str = ""  # the claim
    title: str = ""  # the notion's name, with its orders
    told: tuple[str, ...] = ()  # who learns how much, in words
    capped: float | None = None  # promised for any distribution, as a second promise
    basis: str = ""  # what the proof rests on
    also: tuple[str, ...] = ()  # further promises, as promised and proved


def consequences(made: Mechanism | Bundle, proof: Certificate) -> Iterator[str]:
    """What follows from a claim that holds, and what the file tells beside it, in sentences."""
    if isinstance(made, Bundle):
        if spent := certification.drawn_for([made])[0]:
            whole = level_text(total(proof.level, spent))
            yield f"With the noisy counts in the file, which took ε_d = {near(spent)} as it says: {whole} in all."
        return
    for told in certification.promises(made, proof):
        yield f"{capitalised(told.sentence)}."
    if made.noise is not None:
        yield f"The file: {certification.design_sentence(made.noise)}. {certification.THEOREM}"
    if exactly := certification.told_exactly(made):
        yield f"But {exactly}."


@dataclass(frozen=True)
class Cost:
    """Information in bits at the design distribution."""

    kept: float | None
    whole: float  # H of what is read
    ceiling: float | None
    share: float | None  # kept / whole


@dataclass(frozen=True)
class Suspect:
    """One value of the secret: belief before a released row, after the most telling one, and as promised."""

    label: str
    before: float
    least: float  # after the output that speaks most against it, under the design distribution
    most: float  # after the output that speaks most for it, under the design distribution
    promised: float | None  # no belief may exceed it, for any distribution the promise covers; None: no such promise


@dataclass(frozen=True)
class Attack:
    """What an attacker makes of a released row when the data follow the design distribution."""

    suspects: tuple[Suspect, ...]
    left_out: int
    guessed_before: float  # right guesses of the secret in one try, without the row
    guessed_after: float
    factor: float  # greatest change of the odds between two values of the secret


@dataclass(frozen=True)
class Leak:
    """One measure of leakage about the secret."""

    name: str
    meaning: str
    here: float  # at the design distribution
    worst: float  # whatever the shares of the secret are
    unit: str  # 'nats', or '' for a share


@dataclass(frozen=True)
class PrecisionFigures:
    """How well the shares of a variable can be estimated, on average over its values."""

    name: str
    role: str
    n: int
    error: float | None  # root mean square standard error; ∞: the rows do not fix the shares; None: not worked out
    plain: float  # the same without any protection

    @property
    def equal(self) -> float | None:
        """Rows without protection that would be as exact."""
        if not self.error:
            return None if self.error is None else float(self.n)
        return self.n * min(1.0, (self.plain / self.error) ** 2)


@dataclass(frozen=True)
class Series:
    """What a kind of mechanism keeps at each stop of the curve; None where it is not known."""

    key: str
    label: str
    bits: tuple[float | None, ...]
    errors: tuple[float | None, ...]  # of the useful shares, as in Precision


@dataclass(frozen=True)
class Curve:
    """The trade-off: how much can be kept at other levels of the same promise."""

    stops: tuple[float, ...]
    chosen: int  # which stop is the promise
    whole: float  # bits in what is read
    limit: tuple[float, ...]  # no mechanism keeps more, at each stop
    fine: tuple[tuple[float, float], ...]  # the limit at many ε, for the line
    series: tuple[Series, ...]
    kept: float | None  # of this mechanism, at the chosen stop
    error: float | None
    n: int  # rows the errors are for
    priors: tuple[tuple[str, float], ...]
    beliefs: tuple[tuple[float, ...], ...]  # [prior][stop]: the greatest belief after a released row


@dataclass(frozen=True)
class Heat:
    """values[output][input] with labels; `inputs` and `outputs` say how many there are in truth."""

    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    inputs: int
    outputs: int | None  # None: too many to count in figures
    what: str
    rest: bool = False  # the last row adds up the outputs that are not shown
    shares: tuple[float, ...] = ()  # p(x) of the inputs under the design distribution, when there is one
    seen: tuple[float, ...] = ()  # P(y) of the outputs under it

    @property
    def most(self) -> float:
        """The greatest value among the outputs that are shown."""
        rows = self.values[:-1] if self.rest else self.values
        return max(max(row) for row in rows)

    @cached_property
    def shades(self) -> tuple[tuple[int, ...], ...]:
        """Steps of colour, even in probability: the last is the greatest value shown."""
        top = self.most or 1.0
        return tuple(tuple(min(SHADES - 1, round((SHADES - 1) * x / top)) for x in row) for row in self.values)

    @property
    def sampled(self) -> bool:
        return self.inputs > len(self.column_labels)


@dataclass(frozen=True)
class Seal:
    """What identifies the file."""

    checksum: str
    fingerprint: str | None
    bits: int


@dataclass(frozen=True)
class DesignData:
    """What anybody who holds the mechanism file knows about the data it was designed from."""

    source: str
    rows: int | None
    cells: int
    counted: bool
    small: int  # cells with a few people
    smallest: int | None
    empty: int
    noise: float | None = None  # ε of the noise that the counts carry, for every person


@dataclass(frozen=True)
class Value:
    """One value of a marginal: estimate, simultaneous interval and, in private reports, the truth."""

    label: str
    p: float
    low: float
    high: float
    truth: float | None = None


@dataclass(frozen=True)
class SideFigures:
    """The estimated distribution of one variable."""

    name: str
    role: str
    identified: bool
    values: tuple[Value, ...]
    left_out: int
    distance: float | None = None  # total variation from the truth
    covered: bool | None = None  # whether every interval holds the truth

    @classmethod
    def of(
        cls, name: str, role: str, identified: bool, text: Callable[[int], str], p: Floats,
        interval: tuple[Floats, Floats], truth: Floats | None, most: int = LINES,
    ) -> SideFigures:
        """Estimates with their intervals, the largest first, beside the truth where it is given."""
        p, low, high = (x.ravel() for x in (p, *interval))
        true = None if truth is None else truth.ravel()
        values = tuple(
            Value(text(i), float(p[i]), float(low[i]), float(high[i]), None if true is None else float(true[i]))
            for i in sorted(range(p.size), key=lambda i: -float(p[i]))[:most]
        )
        compared = (None, None) if true is None else (
            float(np.abs(p - true).sum() / 2), bool(((low <= true) & (true <= high)).all())
        )
        return cls(name, role, identified, values, p.size - len(values), *compared)

    @property
    def vague(self) -> bool:
        """Whether no interval says anything to speak of."""
        return all(v.high - v.low >= VAGUE for v in self.values)


@dataclass(frozen=True)
class RowFigures:
    """The released rows and what they say."""

    n: int
    decode: str
    level: float
    sides: tuple[SideFigures, ...]
    notes: tuple[str, ...]
    cells: SideFigures | None = None  # the table of both, cell by cell
    numbers: tuple[tuple[str, Figure], ...] = ()  # of a numeric variable: mean and quantiles
    tables: tuple[SideFigures, ...] = ()  # of two columns, of a bundle


@dataclass(frozen=True)
class Private:
    """What only the holder of the true table may see."""

    n: int | None
    kept: float | None  # bits, at the true distribution
    whole: float | None  # None of a bundle, which never builds the table of all columns
    distance: float | None  # total variation of the table; of a bundle's tables, on average
    covered: bool | None


@dataclass(frozen=True)
class PartFact:
    """One part of a bundle: the columns it is about, how it answers, and the share of rows that answer it."""

    name: str
    method: str
    outputs: int
    share: float


@dataclass(frozen=True)
class Guesser:
    """Of a hundred guesses at the secret: how many are right before a released row, and at most after it."""

    knows: str
    before: int
    after: int | None  # None: nothing is promised about a single row
    level: float


@dataclass(frozen=True)
class Worth:
    """What the released rows are worth to an analyst, in rows without protection."""

    name: str
    n: int
    equal: float | None  # None: not worked out
    fixed: bool  # whether the rows fix the shares at all

    @property
    def share(self) -> float:
        return 0.0 if self.equal is None else self.equal / self.n

    @property
    def little(self) -> bool:
        return not self.fixed or (self.equal is not None and self.share < WORTH_LITTLE)


@dataclass(frozen=True)
class Facts:
    """All of it; `asdict` makes it JSON."""

    title: str
    method: str
    reads: str
    secret: str
    useful: str
    secret_values: int
    file: str
    table: tuple[str, ...]  # columns of the released table
    kept_columns: tuple[str, ...]
    imprint: tuple[tuple[str, str], ...]  # date, publisher and command, as the manifest has them
    seeded: bool
    record_level: float = math.inf  # LDP about the whole record
    promise: PromiseFigures | None = None
    guessers: tuple[Guesser, ...] = ()
    cost: Cost | None = None
    design: DesignData | None = None
    heat: Heat | None = None  # None of a bundle, which has parts instead
    parts: tuple[PartFact, ...] = ()
    rows: RowFigures | None = None
    columns: tuple[SideFigures, ...] = ()  # the useful ones, one by one
    precision: tuple[PrecisionFigures, ...] = ()
    worth: Worth | None = None
    attack: Attack | None = None
    leaks: tuple[Leak, ...] = ()
    curve: Curve | None = None
    seal: Seal | None = None
    private: Private | None = None
