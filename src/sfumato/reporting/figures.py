"""Figures: every number a report shows, before anything is drawn."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sfumato.reporting.heat import Heat


@dataclass(frozen=True)
class Promise:
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
    title: str = ""  # the notion's name, with its orders


@dataclass(frozen=True)
class Cost:
    """Information in bits at the design distribution."""

    kept: float | None
    whole: float  # H of what is read
    ceiling: float | None
    share: float | None  # kept / whole
    of_ceiling: float | None


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


@dataclass(frozen=True)
class Value:
    """One value of a marginal: estimate, simultaneous interval and, in private reports, the truth."""

    label: str
    p: float
    low: float
    high: float
    truth: float | None = None


@dataclass(frozen=True)
class Side:
    """The estimated distribution of one variable."""

    name: str
    role: str
    identified: bool
    values: tuple[Value, ...]
    left_out: int
    distance: float | None = None  # total variation from the truth
    covered: bool | None = None  # whether every interval holds the truth


@dataclass(frozen=True)
class Rows:
    """The released rows and what they say."""

    n: int
    decode: str
    method: str
    level: float
    sides: tuple[Side, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Private:
    """What only the holder of the true table may see."""

    n: int | None
    kept: float | None  # bits, at the true distribution
    whole: float
    distance: float | None  # total variation of the table
    covered: bool | None


@dataclass(frozen=True)
class Facts:
    """All of it; `asdict` makes it JSON."""

    title: str
    method: str
    reads: str
    secret: str
    useful: str
    secret_values: int
    useful_values: int
    promise: Promise | None
    cost: Cost | None
    design: DesignData | None
    heat: Heat
    rows: Rows | None
    kept_columns: tuple[str, ...]
    seeded: bool
    verify: str
    private: Private | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
