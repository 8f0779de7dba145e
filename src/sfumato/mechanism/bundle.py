"""Bundle: several mechanisms for the same row, each with columns of its own, under one promise; and its file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from sfumato.alphabet import Alphabet, Column
from sfumato.decimals import at_most
from sfumato.errors import InputError, checked_epsilon, unknown
from sfumato.mechanism import file
from sfumato.mechanism.file import Head, MechanismRecord, mechanism_of, sealed
from sfumato.mechanism.file_records import ColumnRecord, alphabet_of, column_records
from sfumato.mechanism.law import MOST_BITS, joint_code, record_codes
from sfumato.mechanism.mechanism import Mechanism

if TYPE_CHECKING:
    from sfumato.alphabet import Ints, Label
    from sfumato.mechanism.law import Words
    from sfumato.sources.places import Place

TURN, ANSWER = "part", "answer"  # columns of a table in which each row answers one part
ASSUMING = ("nothing", "tables", "star", "tree")
_HOLDS = {
    "nothing": "for every distribution of all columns",
    "tables": "for every distribution whose table of the secret with the columns of each part lies in that part's set, "
    "however the columns depend on each other",
    "star": "IF the columns of different parts are independent given the secret (a model, not proved), for every such "
    "distribution whose table of the secret with each part lies in that part's set",
    "tree": "IF the columns form the stated tree (a model, not proved), for every such distribution whose table along "
    "each edge of the tree lies in that edge's set",
}


@dataclass(frozen=True, slots=True)
class Promise:
    """P(y|s) ≤ e^ε P(y|s') for all answers y of a row together, and what has to be assumed for it.

    'nothing': every distribution. 'tables': each part's table with the secret lies in the set of the part's claim, and
    each row answers one part only. 'star': besides, columns of different parts are independent given the secret.
    'tree': besides, each part depends on the secret through its parent alone.
    """

    epsilon: float
    assuming: str = "nothing"

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        if self.assuming not in ASSUMING:
            raise unknown("what a promise assumes", self.assuming, ASSUMING)

    @property
    def notion(self) -> str:
        return "rldp"

    @property
    def sentence(self) -> str:
        return f"ε = {at_most(self.epsilon)} (RLDP) about the secret {_HOLDS[self.assuming]}"

    @property
    def title(self) -> str:
        """The notion's name: one that rests on a model is called so, and is not RLDP."""
        return "RLDP" if self.assuming in ("nothing", "tables") else f"RLDP under a {self.assuming} model"


@dataclass(frozen=True, eq=False)
class Bundle:
    """Sealed mechanisms with independent noise, all answered by every row, or one of them by each row.

    `turns` are the weights with which a row draws the part that it answers; None when it answers all.
    In a tree the `secret` of a part is what it hangs from: the secret itself, or the columns of its parent part.
    """

    parts: tuple[Mechanism, ...]
    secret: Alphabet
    turns: tuple[int, ...] | None = None
    claim: Promise | None = None
    source: str = "unstated"  # where the design data came from, as for a mechanism

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts or not all(part.sealed and part.law.words == 1 for part in self.parts):
            raise InputError("a bundle needs one or more sealed mechanisms that answer with a single value each.")
        self._check_columns()
        self._check_turns()
        self._check_promise()

    def _check_columns(self) -> None:
        known: dict[str, Column] = {c.name: c for c in self.secret.columns}
        for part in self.parts:
            if set(part.useful.names) & set(self.secret.names):
                raise InputError(f"a part reads {min(set(part.useful.names) & set(self.secret.names))!r} as useful, "
                                 "but it is secret.")
            for column in part.useful.columns:
                if known.setdefault(column.name, column) != column:
                    raise InputError(f"two parts know column {column.name!r} by different labels.")
            if part.reads == "both" and part.secret != self.secret:
                raise InputError(f"part {part_name(part)!r} reads another secret than the bundle's.")
        if len(set(self.names)) != len(self.names):
            raise InputError("two parts read the same columns", next="Merge them into one.")
        useful = [name for part in self.parts for name in part.useful.names]
        if self.turns is None and len(set(useful)) != len(useful):
            raise InputError("a column is read by two parts, which is possible only when parts are answered in turn.")

    def _check_turns(self) -> None:
        if self.turns is None:
            return
        if len(self.turns) != len(self.parts) or min(self.turns) <= 0 or sum(self.turns) != 2**MOST_BITS:
            raise InputError(f"turns must be a positive weight for each part, 2^{MOST_BITS} in all.")

    def _check_promise(self) -> None:
        assuming = "nothing" if self.claim is None else self.claim.assuming
        if (assuming == "tables" and self.turns is None) or (assuming in ("star", "tree") and self.turns is not None):
            raise InputError(f"a promise that assumes {assuming!r} is for parts answered "
                             f"{'in turn' if assuming == 'tables' else 'together'}.")
        if assuming == "tree":
            _ = self.parents
        elif any(part.secret != self.secret for part in self.parts):
            raise InputError("every part must be about the bundle's secret; only in a tree it hangs from another part.")

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """For each part the part it hangs from; −1 for the secret."""
        homes = {part.useful.columns: i for i, part in enumerate(self.parts)}
        homes[self.secret.columns] = -1
        if not all(part.secret.columns in homes for part in self.parts):
            raise InputError("a part hangs from columns that are neither the secret nor another part.")
        found = tuple(homes[part.secret.columns] for part in self.parts)
        for start in range(len(found)):
            at, steps = start, 0
            while at >= 0:
                at, steps = found[at], steps + 1
                if steps > len(found):
                    raise InputError("the parts hang from each other in a circle: no tree.")
        return found

    @cached_property
    def useful(self) -> Alphabet:
        """All useful columns; their product is only ever counted, never listed."""
        columns = {c.name: c for part in self.parts for c in part.useful.columns}
        return Alphabet(tuple(columns.values()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(part_name(part) for part in self.parts)

    @property
    def confidence(self) -> float | None:
        """With which the balls of all parts hold at once: 1 less the sum of their risks; None without such balls.

        A tree of k edges was chosen among the k(k + 1)/2 pairs of its nodes, so that the risk is of all of them.
        """
        sets = [part.claim.within for part in self.parts if part.claim is not None]
        given = [c for c in (getattr(within, "confidence", None) for within in sets) if c is not None]
        chosen = (len(given) + 1) / 2 if self.claim is not None and self.claim.assuming == "tree" else 1
        return float(1 - chosen * sum(1 - c for c in given)) if given else None

    @property
    def asks(self) -> str:
        return "together" if self.turns is None else "in turn"

    @property
    def method(self) -> str:
        return f"bundle of {len(self.parts)}, {self.asks}"

    @property
    def sealed(self) -> bool:
        return True

    @property
    def reads(self) -> str:
        return "both" if any(part.reads == "both" for part in self.parts) else "useful"

    def reading(self, part: Mechanism) -> tuple[Column, ...]:
        """The columns that make up a part's input code."""
        return (*(self.secret.columns if part.reads == "both" else ()), *part.useful.columns)

    def drawn_turns(self, words: Words) -> Ints:
        """The part each row answers, from a random word each; exact in distribution."""
        assert self.turns is not None
        ends = np.cumsum(np.array(self.turns, np.uint64))
        return np.searchsorted(ends, words & np.uint64(2**MOST_BITS - 1), side="right")

    def respond(self, *values: object, **named: object) -> dict[str, Label] | list[dict[str, Label]]:
        """Randomised answers by the names of the parts, with the system's entropy: records as for a mechanism."""
        columns = {c.name: c for part in self.parts for c in self.reading(part)}
        found, alone = record_codes(tuple(columns.values()), values, named)
        n = len(next(iter(found.values())))
        turns = None if self.turns is None else self.drawn_turns(np.frombuffer(os.urandom(8 * n), np.uint64))
        out: list[dict[str, Label]] = [{} for _ in range(n)]
        for i, part in enumerate(self.parts):
            at = np.arange(n) if turns is None else np.flatnonzero(turns == i)
            codes = joint_code([(found[c.name][at], c.size) for c in self.reading(part)])
            words, labels = np.frombuffer(os.urandom(8 * len(at)), np.uint64)[:, None], answer_labels(part)
            for row, y in zip(at, part.law.draw(codes, words), strict=True):
                out[row][part_name(part)] = labels[int(y)]
        return out[0] if alone else out

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write parts, promise and design data as one JSON file."""
        return file.save_record(self.record, path, force=force)

    @property
    def record(self) -> BundleRecord:
        """The content of its file, made anew each time: what is proved of it is what its weights are now."""
        return record_of(self)

    @property
    def checksum(self) -> str:
        """What tells its file from all others."""
        return self.record.checksum

    def __repr__(self) -> str:
        promise = f", {self.claim.sentence}" if self.claim else ""
        return f"<Bundle of {len(self.parts)} parts answered {self.asks}, {self.useful.size:,} joint cells{promise}>"


def part_name(part: Mechanism) -> str:
    """The columns a part reads, joined by +."""
    return "+".join((*(part.secret.names if part.reads == "both" else ()), *part.useful.names))


def answer_labels(part: Mechanism) -> tuple[Label, ...]:
    """Every output as it is written in a table: a label (None: missing), labels joined by ' · ', or a symbol.

    Symbols also where labels would not tell outputs apart.
    """
    if part.law.meaning == "symbol":
        return part.symbols.labels
    columns = (*(part.secret.columns if part.law.meaning == "cell" else ()), *part.useful.columns)
    if len(columns) == 1:
        return columns[0].labels
    cells = Alphabet(columns)
    texts = tuple(cells.text(y) for y in range(cells.size))
    return texts if len(set(texts)) == len(texts) else tuple(f"y{y}" for y in range(cells.size))


# --- the file of a bundle: one JSON document with every part as in a mechanism file, the turns and the promise --------


FORMAT, VERSION = "sfumato/bundle", 1


class PromiseRecord(msgspec.Struct, forbid_unknown_fields=True):
    """ε in nats about the secret, for all answers of a row together, and what it assumes."""

    epsilon: float
    assuming: str


class BundleRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Mechanisms for one row, under one promise about the secret."""

    format: str
    version: int
    secret: list[ColumnRecord]
    parts: list[MechanismRecord]
    turns: list[int] | None = None  # weights of the parts, 2^62 in all; null: every row answers all parts
    promise: PromiseRecord | None = None
    source: str = "unstated"
    checksum: str = ""


def record_of(bundle: Bundle) -> BundleRecord:
    """The file's content."""
    promise = None if bundle.claim is None else PromiseRecord(bundle.claim.epsilon, bundle.claim.assuming)
    return sealed(BundleRecord(
        FORMAT, VERSION, column_records(bundle.secret), [part.record for part in bundle.parts],
        None if bundle.turns is None else list(bundle.turns), promise, bundle.source,
    ))


def made_of(data: bytes) -> Mechanism | Bundle:
    """A mechanism or a bundle from bytes that this library wrote itself."""
    if msgspec.json.decode(data, type=Head).format == FORMAT:
        return bundle_of(msgspec.json.decode(data, type=BundleRecord))
    return mechanism_of(msgspec.json.decode(data, type=MechanismRecord))


def bundle_of(record: BundleRecord) -> Bundle:
    """The bundle that a file's content describes; every part is checked again on the way in."""
    promise = None if record.promise is None else Promise(record.promise.epsilon, record.promise.assuming)
    turns = None if record.turns is None else tuple(record.turns)
    return Bundle(tuple(map(mechanism_of, record.parts)), alphabet_of(record.secret), turns, promise, record.source)


def decoded(data: bytes, path: str | os.PathLike[str] | Place) -> Bundle:
    """The bundle in the bytes of a file, after format, checksums and weights were checked."""
    return file.decoded(data, path, BundleRecord, FORMAT, (VERSION,), bundle_of)
