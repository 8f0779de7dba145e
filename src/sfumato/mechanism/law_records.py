"""Laws as the mechanism file holds them: one record for each kind, and the way there and back."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from sfumato.errors import FileFormatError, InputError
from sfumato.mechanism.blocks import Blocks
from sfumato.mechanism.cells import Cells
from sfumato.mechanism.conditional import Conditional
from sfumato.mechanism.constant import Constant
from sfumato.mechanism.law import Law
from sfumato.mechanism.layout import Layout
from sfumato.mechanism.mechanism import READS
from sfumato.mechanism.product import Part, Product
from sfumato.mechanism.table import Table
from sfumato.mechanism.unary import Unary


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


def simple_record(law: Law) -> SimpleRecord:
    """The record of one law; equal laws have equal records."""
    assert law.bits is not None
    match law:
        case Table():
            return TableRecord(law.bits, law.weights.tolist(), law.meaning)
        case Cells():
            return CellsRecord(law.bits, *(int(w) for w in law.four))
        case Constant():
            return ConstantRecord(law.bits)
        case Conditional():
            return ConditionalRecord(law.bits, law.keep.tolist(), law.base.tolist())
        case Unary():
            return UnaryRecord(law.bits, int(law.on), int(law.off))
        case Layout():
            return LayoutRecord(law.bits, [x.tolist() for x in law.lengths], [h.tolist() for h in law.heights])
        case Blocks():
            return BlocksRecord(law.bits, law.order, int(law.inside), int(law.outside), int(law.other))
    raise InputError(f"laws of kind {law.kind!r} cannot be saved.")


def law_of(record: LawRecord, rows: int, sizes: tuple[int, ...]) -> Law:
    """The law of a record, for so many secrets and useful columns of these sizes; its weights are checked anew."""
    if not isinstance(record, ProductRecord):
        return _simple_law(record, rows, math.prod(sizes))
    parts = []
    for p in record.parts:
        if not all(0 <= c < len(sizes) for c in p.columns) or p.reads not in READS:
            raise FileFormatError("a part of the product reads a column that the file does not have.")
        inner = math.prod(sizes[c] for c in p.columns)
        parts.append(Part(_simple_law(p.law, rows if p.reads == "both" else 1, inner), tuple(p.columns), p.times))
    return Product(tuple(parts), rows, sizes)


def _simple_law(record: SimpleRecord, rows: int, useful: int) -> Law:
    match record:
        case TableRecord():
            return Table(np.array(record.weights, np.int64), rows, record.bits, record.meaning)
        case CellsRecord():
            four = (record.truth, record.same_secret, record.same_useful, record.neither)
            return Cells(rows, useful, *four, bits=record.bits)
        case ConstantRecord():
            return Constant(rows, useful, record.bits)
        case ConditionalRecord():
            return Conditional(np.array(record.keep), np.array(record.base), record.bits)
        case UnaryRecord():
            return Unary(rows, useful, record.on, record.off, record.bits)
        case BlocksRecord():
            three = (record.inside, record.outside, record.other)
            return Blocks(rows, useful, record.order, *three, bits=record.bits)
        case LayoutRecord():
            if len(record.lengths) != rows:
                raise FileFormatError(f"the layout is for {len(record.lengths)} secrets, the labels for {rows}.")
            return Layout(
                tuple(np.array(x, np.int64) for x in record.lengths),
                tuple(np.array(h, np.int64) for h in record.heights), record.bits,
            )
