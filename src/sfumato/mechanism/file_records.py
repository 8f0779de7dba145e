"""Claims, sets and laws as the mechanism file holds them: one record for each kind, and the way there and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import get_args

import msgspec
import numpy as np
from msgspec import structs

from sfumato.alphabet import Alphabet, Column
from sfumato.errors import At, FileFormatError, InputError
from sfumato.joint import Joint, Noise
from sfumato.mechanism.cells import Cells, Conditional, Constant
from sfumato.mechanism.law import Law
from sfumato.mechanism.mechanism import READS, Claim
from sfumato.mechanism.product import Factor, Product
from sfumato.mechanism.subset_laws import Blocks, Unary
from sfumato.mechanism.table import Layout, Table
from sfumato.uncertainty import Anything, ChiSquareBall, Custom, Exactly, Polytope, RenyiBall, UncertaintySet
from sfumato_kernel import documents


class SetRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The distributions a claim covers, around the design distribution."""

    kind: str
    radius: float | None = None
    confidence: float | None = None
    calibration: str | None = None  # how the radius of a χ² ball follows from the confidence; null: asymptotic
    alpha: float | None = None  # the order of a Rényi ball
    vertices: list[list[list[float]]] | None = None  # of a polytope, [vertex][s][u]
    name: str | None = None  # of a set defined by code, which the file does not hold


class ClaimRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A promise; orders of leakage are numbers, or "inf", which JSON has no number for."""

    notion: str
    epsilon: float
    within: SetRecord | None = None
    alpha: float | str | None = None
    beta: float | str | None = None
    also: list[ClaimRecord] = []


def set_record(within: UncertaintySet) -> SetRecord:
    """The record of a set."""
    match within:
        case ChiSquareBall():
            how = None if within.calibration == "asymptotic" else within.calibration
            return SetRecord(within.kind, within.radius, within.confidence, how)
        case RenyiBall():
            return SetRecord(within.kind, within.radius, within.confidence, alpha=within.alpha)
        case Polytope(vertices=vertices) if vertices is not None:
            return SetRecord(within.kind, vertices=vertices.tolist())
        case Polytope():
            raise InputError("a claim over a polytope given by inequalities cannot be saved", next="List its vertices.")
        case Custom():
            return SetRecord(within.kind, name=within.name)
    return SetRecord(within.kind)


def set_of(record: SetRecord, joint: Joint) -> UncertaintySet:
    """The set of a record around the design distribution."""
    if record.kind == ChiSquareBall.kind and record.radius is not None:
        if record.confidence is None and record.calibration is not None:
            raise FileFormatError("a calibration is stated without a confidence", value=record.calibration)
        how = None if record.confidence is None else record.calibration or "asymptotic"
        return ChiSquareBall(joint, radius=record.radius, confidence=record.confidence, calibration=how)
    if record.kind == RenyiBall.kind and record.radius is not None and record.alpha is not None:
        renyi = RenyiBall(joint, alpha=record.alpha, radius=record.radius)
        object.__setattr__(renyi, "confidence", record.confidence)
        return renyi
    if record.kind == Polytope.kind and record.vertices is not None:
        return Polytope(joint, vertices=record.vertices)
    if record.kind == Custom.kind:
        return Custom(joint, None, trusted=True, name=record.name or "custom")
    if record.kind == Exactly.kind:
        return Exactly(joint)
    if record.kind == Anything.kind:
        return Anything(joint)
    raise FileFormatError(f"the claim is about a set of kind {record.kind!r}, which this version does not know.")


def _order_record(order: float | None) -> float | str | None:
    return "inf" if order is not None and math.isinf(order) else order


def _order(record: float | str | None) -> float | None:
    if isinstance(record, str) and record != "inf":
        raise FileFormatError("an order of leakage is a number or 'inf'", value=record)
    return None if record is None else float(record)


def claim_record(claim: Claim) -> ClaimRecord:
    """A claim as the file holds it; equal claims have equal records."""
    return ClaimRecord(
        claim.notion, float(claim.epsilon), None if claim.within is None else set_record(claim.within),
        _order_record(claim.alpha), _order_record(claim.beta), [claim_record(c) for c in claim.also],
    )


def claim_of(record: ClaimRecord, joint: Joint | None) -> Claim:
    """The claim of a record; one about a set needs the design distribution."""
    within = None
    if record.within is not None:
        if joint is None:
            raise FileFormatError("the claim is about a set of distributions, but the design data are missing.")
        within = set_of(record.within, joint)
    also = tuple(claim_of(r, joint) for r in record.also)
    return Claim(record.notion, record.epsilon, within, _order(record.alpha), _order(record.beta), also)


# --- one record for each kind, and the way there and back -------------------------------------------------------------


class TableRecord(msgspec.Struct, tag="table", tag_field="kind", forbid_unknown_fields=True):
    """weights[y][x], each column sums to 2^bits."""

    bits: int
    weights: list[list[int]]
    meaning: str


class CellsRecord(msgspec.Struct, tag="cells", tag_field="kind", forbid_unknown_fields=True):
    """Four weights: both agree, the secret agrees, the useful value agrees, neither."""

    bits: int
    truth: int
    same_secret: int
    same_useful: int
    neither: int


class ConstantRecord(msgspec.Struct, tag="constant", tag_field="kind", forbid_unknown_fields=True):
    """An output that ignores the input."""

    bits: int


class ConditionalRecord(msgspec.Struct, tag="conditional", tag_field="kind", forbid_unknown_fields=True):
    """base[s][y], and keep[s] more for y = u; base and keep of a secret sum to 2^bits."""

    bits: int
    keep: list[int]
    base: list[list[int]]


class UnaryRecord(msgspec.Struct, tag="unary", tag_field="kind", forbid_unknown_fields=True):
    """A bit for each input: 1 with weight `on` for the true one and `off` for the others, out of 2^bits."""

    bits: int
    on: int
    off: int


class LayoutRecord(msgspec.Struct, tag="layout", tag_field="kind", forbid_unknown_fields=True):
    """Per secret the lengths of its atoms and heights[atom][u]; lengths times heights sum to 2^bits for every u."""

    bits: int
    lengths: list[list[int]]
    heights: list[list[list[int]]]


class BlocksRecord(msgspec.Struct, tag="blocks", tag_field="kind", forbid_unknown_fields=True):
    """Sets of useful values, hyperplanes over GF(order): weights of a set that holds u, of one that does not, and of
    any set beside another secret."""

    bits: int
    order: int
    inside: int
    outside: int
    other: int


SimpleRecord = (
    TableRecord | CellsRecord | ConstantRecord | ConditionalRecord | UnaryRecord | LayoutRecord | BlocksRecord
)


class PartRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One release among several: its law, the useful columns it reads (by place) and whether it reads the secret."""

    law: SimpleRecord
    columns: list[int]
    reads: str
    times: int = 1


class ProductRecord(msgspec.Struct, tag="product", tag_field="kind", forbid_unknown_fields=True):
    """Several releases of one record, drawn independently given the record."""

    parts: list[PartRecord]


LawRecord = SimpleRecord | ProductRecord


def law_record(law: Law) -> LawRecord:
    """The record of a law, which may be a product of several."""
    if isinstance(law, Product):
        reads = ["both" if p.law.rows > 1 else "useful" for p in law.parts]
        return ProductRecord([
            PartRecord(simple_record(p.law), list(p.columns), r, p.times) for p, r in zip(law.parts, reads, strict=True)
        ])
    return simple_record(law)


_LAWS: dict[str, Callable[..., Law]] = {
    law.kind: law for law in (Table, Cells, Constant, Conditional, Unary, Layout, Blocks)
}
_RECORDS = {record.__struct_config__.tag: record for record in get_args(SimpleRecord)}


def simple_record(law: Law) -> SimpleRecord:
    """The record of one law, whose fields have the names of the law's; equal laws have equal records."""
    if law.kind not in _RECORDS:
        raise InputError(f"laws of kind {law.kind!r} cannot be saved.")
    record = _RECORDS[law.kind]
    made: SimpleRecord = record(*(_plain(getattr(law, name)) for name in record.__struct_fields__))
    return made


def _plain(value: object) -> object:
    """Weights as Python's own numbers and lists."""
    if isinstance(value, tuple):
        return [_plain(x) for x in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def law_of(record: LawRecord, rows: int, sizes: tuple[int, ...]) -> Law:
    """The law of a record, for so many secrets and useful columns of these sizes; its weights are checked anew."""
    if not isinstance(record, ProductRecord):
        return _simple_law(record, rows, math.prod(sizes))
    parts = []
    for p in record.parts:
        if not all(0 <= c < len(sizes) for c in p.columns) or p.reads not in READS:
            raise FileFormatError("a part of the product reads a column that the file does not have.")
        inner = math.prod(sizes[c] for c in p.columns)
        parts.append(Factor(_simple_law(p.law, rows if p.reads == "both" else 1, inner), tuple(p.columns), p.times))
    return Product(tuple(parts), rows, sizes)


def _simple_law(record: SimpleRecord, rows: int, useful: int) -> Law:
    law = _LAWS[str(record.__struct_config__.tag)]
    known = {f.name for f in fields(law) if f.init}  # type: ignore[arg-type]  # every law is a dataclass
    shape = {name: size for name, size in (("rows", rows), ("useful", useful)) if name in known}
    made = law(**shape, **structs.asdict(record))
    if made.rows != rows:
        raise FileFormatError(f"the {made.kind} is for {made.rows} secrets, the labels for {rows}.")
    return made


class ColumnRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One column: its name, its labels in code order (null: missing) and how raw values reach them."""

    name: str
    labels: list[str | None]
    other: str | None = None
    cuts: list[float] | None = None
    dtype: str = "string"


class NoiseRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What was paid for what is told here of a table: ε_d about a record, the part of it that the counts took (0 where
    there are none, and only labels and edges were found), δ of the labels, and the coverage that was simulated for the
    set around them; draw names the draw, so that it is paid for once. New in version 2."""

    epsilon: float
    rows: int
    counts: float
    sampler: str
    delta: float = 0.0
    coverage: float | None = None
    draw: str = ""


class DesignRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The design distribution: counts[s][u], or probabilities with the number of rows behind them."""

    source: str
    counts: list[list[int]] | None = None
    probabilities: list[list[float]] | None = None
    n: int | None = None
    fingerprint: str | None = None
    noise: NoiseRecord | None = None


def column_records(alphabet: Alphabet) -> list[ColumnRecord]:
    return [column_record(c) for c in alphabet.columns]


def column_record(c: Column) -> ColumnRecord:
    for i, label in enumerate((c.name, *c.labels)):
        if label is not None and documents.CONTROL.search(label):
            what = "its name" if i == 0 else f"label {i}"
            raise InputError(
                f"has line breaks, tabs or other control characters in {what}, which no mechanism file may hold",
                next="Replace them in the table, by blanks say, or leave the column out.", where=At(c.name),
            )
    return ColumnRecord(c.name, list(c.labels), c.other, None if c.cuts is None else list(c.cuts), c.dtype)


def alphabet_of(columns: list[ColumnRecord]) -> Alphabet:
    return Alphabet(tuple(column_of(c) for c in columns))


def column_of(c: ColumnRecord) -> Column:
    return Column(c.name, tuple(c.labels), c.other, None if c.cuts is None else tuple(c.cuts), c.dtype)


def noise_record(noise: Noise | None) -> NoiseRecord | None:
    if noise is None:
        return None
    return NoiseRecord(**asdict(noise))


def noise_of(record: NoiseRecord | None, counted: bool) -> Noise | None:
    if record is None:
        return None
    fits = 0 <= record.counts <= record.epsilon > 0 and (record.counts > 0) == counted
    if not (fits and 0 <= record.delta < 1 and record.rows > 0):
        raise FileFormatError("the noise of the design counts is described by numbers that no noise has.")
    return Noise(**structs.asdict(record))
