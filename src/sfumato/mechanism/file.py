"""The mechanism file: one JSON document with alphabets, weights, claim, design distribution and a checksum."""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from sfumato.alphabet import Alphabet, Column
from sfumato.atomic import as_output_error, check_target, drafts
from sfumato.errors import FileFormatError, InputError, SfumatoError
from sfumato.joint import Joint
from sfumato.mechanism.blocks import Blocks
from sfumato.mechanism.cells import Cells
from sfumato.mechanism.conditional import Conditional
from sfumato.mechanism.constant import Constant
from sfumato.mechanism.law import Law
from sfumato.mechanism.layout import Layout
from sfumato.mechanism.mechanism import READS, Claim, Mechanism
from sfumato.mechanism.product import Part, Product
from sfumato.mechanism.table import Table
from sfumato.mechanism.unary import Unary
from sfumato.uncertainty import Anything, ChiSquareBall, Custom, Exactly, Polytope, RenyiBall, UncertaintySet

if TYPE_CHECKING:
    from sfumato.sources.places import Place

FORMAT, VERSION = "sfumato/mechanism", 1


class ColumnRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One column: its name, its labels in code order (null: missing) and how raw values reach them."""

    name: str
    labels: list[str | None]
    other: str | None = None
    cuts: list[float] | None = None
    dtype: str = "string"


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


class DesignRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The design distribution: counts[s][u], or probabilities with the number of rows behind them."""

    source: str
    counts: list[list[int]] | None = None
    probabilities: list[list[float]] | None = None
    n: int | None = None
    fingerprint: str | None = None


class MechanismRecord(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A sealed mechanism and its promise."""

    format: str
    version: int
    method: str
    reads: str
    secret: list[ColumnRecord]
    useful: list[ColumnRecord]
    law: LawRecord
    claim: ClaimRecord | None = None
    design: DesignRecord | None = None
    answers: ColumnRecord | None = None
    checksum: str = ""


def checksum(record: Any) -> str:
    """SHA-256 over the document with an empty checksum, keys in file order."""
    bare = msgspec.structs.replace(record, checksum="")
    return "sha256:" + hashlib.sha256(msgspec.json.encode(bare)).hexdigest()


def _law_record(law: Law) -> LawRecord:
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


def _law(record: LawRecord, rows: int, sizes: tuple[int, ...]) -> Law:
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


def _set_record(within: UncertaintySet) -> SetRecord:
    match within:
        case ChiSquareBall():
            how = None if within.calibration == "asymptotic" else within.calibration
            return SetRecord(within.kind, within.radius, within.confidence, how)
        case RenyiBall():
            return SetRecord(within.kind, within.radius, within.confidence, alpha=within.alpha)
        case Polytope(vertices=vertices) if vertices is not None:
            return SetRecord(within.kind, vertices=vertices.tolist())
        case Polytope():
            raise InputError("a claim over a polytope given by inequalities cannot be saved. List its vertices.")
        case Custom():
            return SetRecord(within.kind, name=within.name)
    return SetRecord(within.kind)


def _set(record: SetRecord, joint: Joint) -> UncertaintySet:
    if record.kind == ChiSquareBall.kind and record.radius is not None:
        ball = ChiSquareBall(joint, radius=record.radius)
        object.__setattr__(ball, "confidence", record.confidence)
        how = record.calibration or (None if record.confidence is None else "asymptotic")
        object.__setattr__(ball, "calibration", how)
        return ball
    if record.kind == RenyiBall.kind and record.radius is not None and record.alpha is not None:
        renyi = RenyiBall(joint, alpha=record.alpha, radius=record.radius)
        object.__setattr__(renyi, "confidence", record.confidence)
        return renyi
    if record.kind == Polytope.kind and record.vertices is not None:
        return Polytope(joint, vertices=record.vertices)
    if record.kind == Custom.kind:
        return Custom(joint, None, trusted=True, name=record.name or "custom")
    plain: dict[str, Any] = {Exactly.kind: Exactly, Anything.kind: Anything}
    if record.kind in plain:
        made: UncertaintySet = plain[record.kind](joint)
        return made
    raise FileFormatError(f"the claim is about a set of kind {record.kind!r}, which this version does not know.")


def _order_record(order: float | None) -> float | str | None:
    return "inf" if order is not None and math.isinf(order) else order


def _order(record: float | str | None) -> float | None:
    if isinstance(record, str) and record != "inf":
        raise FileFormatError(f"an order of leakage is a number or 'inf', got {record!r}.")
    return None if record is None else float(record)


def claim_record(claim: Claim) -> ClaimRecord:
    """A claim as the file holds it; equal claims have equal records."""
    return ClaimRecord(
        claim.notion, claim.epsilon, None if claim.within is None else _set_record(claim.within),
        _order_record(claim.alpha), _order_record(claim.beta), [claim_record(c) for c in claim.also],
    )


def _claim(record: ClaimRecord, joint: Joint | None) -> Claim:
    within = None
    if record.within is not None:
        if joint is None:
            raise FileFormatError("the claim is about a set of distributions, but the design data are missing.")
        within = _set(record.within, joint)
    also = tuple(_claim(r, joint) for r in record.also)
    return Claim(record.notion, record.epsilon, within, _order(record.alpha), _order(record.beta), also)


def _columns(alphabet: Alphabet) -> list[ColumnRecord]:
    return [_column(c) for c in alphabet.columns]


def _column(c: Column) -> ColumnRecord:
    return ColumnRecord(c.name, list(c.labels), c.other, None if c.cuts is None else list(c.cuts), c.dtype)


def _alphabet(columns: list[ColumnRecord]) -> Alphabet:
    return Alphabet(tuple(_column_of(c) for c in columns))


def _column_of(c: ColumnRecord) -> Column:
    return Column(c.name, tuple(c.labels), c.other, None if c.cuts is None else tuple(c.cuts), c.dtype)


def record_of(mechanism: Mechanism) -> MechanismRecord:
    """The file's content for a sealed mechanism."""
    if not mechanism.sealed:
        raise InputError("only a sealed mechanism can be saved: its weights must be integers. Call sf.seal first.")
    claim, joint = mechanism.claim, mechanism.joint
    if joint is None and claim is not None and claim.within is not None:
        joint = claim.within.joint
    design = None
    if joint is not None:
        counted = joint.counts is not None
        design = DesignRecord(
            mechanism.source, joint.counts.tolist() if joint.counts is not None else None,
            None if counted else joint.p.tolist(), joint.n, joint.fingerprint,
        )
    record = MechanismRecord(
        FORMAT, VERSION, mechanism.method, mechanism.reads, _columns(mechanism.secret), _columns(mechanism.useful),
        _law_record(mechanism.law),
        None if claim is None else claim_record(claim),
        design, None if mechanism.answers is None else _column(mechanism.answers),
    )
    return msgspec.structs.replace(record, checksum=checksum(record))


def mechanism_of(record: MechanismRecord) -> Mechanism:
    """The mechanism a file's content describes; every part is checked again on the way in."""
    secret, useful = _alphabet(record.secret), _alphabet(record.useful)
    law = _law(record.law, secret.size if record.reads == "both" else 1, tuple(c.size for c in useful.columns))
    joint = None
    if record.design is not None:
        d = record.design
        if d.counts is not None:
            joint = Joint.from_counts(d.counts, secret, useful)
        elif d.probabilities is not None:
            joint = Joint.from_probabilities(d.probabilities, secret, useful, d.n)
    claim = None if record.claim is None else _claim(record.claim, joint)
    source = record.design.source if record.design is not None else "unstated"
    answers = None if record.answers is None else _column_of(record.answers)
    return Mechanism(law, secret, useful, record.reads, record.method, claim, joint, source, answers)


def save(mechanism: Mechanism, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write the mechanism file; an existing file is only replaced with force=True, and never half."""
    return save_record(record_of(mechanism), path, force=force)


def save_record(record: msgspec.Struct, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    target = Path(path)
    check_target(target, None, force=force)
    text = msgspec.json.format(msgspec.json.encode(record), indent=1)
    with drafts(target) as (draft,), as_output_error(target):
        Path(draft.path).write_bytes(text + b"\n")
        draft.settle()
        draft.publish(replace=force)
    return target


class _Head(msgspec.Struct):
    format: str


def load(path: str | os.PathLike[str] | Place) -> Any:
    """The mechanism (or the bundle of mechanisms) in a file, after its format, checksum and weights were checked."""
    try:
        data = _content(path)
    except OSError as error:
        raise InputError(f"the mechanism file {path} could not be read: {error.strerror}.") from None
    try:
        kind = msgspec.json.decode(data, type=_Head).format
    except msgspec.DecodeError:
        kind = FORMAT  # what is wrong with it is said by the reader of mechanisms
    from sfumato.mechanism import bundle_file

    return bundle_file.decoded(data, path) if kind == bundle_file.FORMAT else _decoded(data, path)


def known(mechanism: Any) -> Any:
    """A mechanism or bundle, from itself, from a design that has one, or from the path of its file."""
    if isinstance(mechanism, (str, os.PathLike)):
        return load(mechanism)
    found = getattr(mechanism, "mechanism", getattr(mechanism, "bundle", mechanism))
    if not hasattr(found, "claim"):
        raise InputError(
            f"a mechanism was expected, or the path of its file, got a {type(mechanism).__name__}. The table comes "
            "first, then the mechanism."
        )
    return found


def load_mechanism(path: str | os.PathLike[str] | Place) -> Mechanism:
    """The mechanism in a file; a bundle is refused."""
    found = load(path)
    if not isinstance(found, Mechanism):
        raise InputError(f"{path} is a bundle of {len(found.parts)} mechanisms; this is for a single mechanism.")
    return found


def _content(path: Any) -> bytes:
    """The bytes of a file; only one that lies in a store needs Arrow."""
    if isinstance(path, (str, os.PathLike)) and "://" not in os.fspath(path):
        return Path(path).read_bytes()
    from sfumato.sources.places import located, opened

    with opened(located(path)) as file:
        return bytes(file.read())


def _decoded(data: bytes, path: str | os.PathLike[str] | Place) -> Mechanism:
    try:
        record = msgspec.json.decode(data, type=MechanismRecord)
    except msgspec.DecodeError as error:
        raise FileFormatError(f"{path} is not a mechanism file: {error}.") from None
    if record.format != FORMAT or record.version != VERSION:
        raise FileFormatError(
            f"{path} has format {record.format!r} version {record.version}; "
            f"this version of sfumato reads {FORMAT!r} version {VERSION}."
        )
    if record.checksum != checksum(record):
        raise FileFormatError(
            f"{path} was changed after it was written: the checksum does not match. "
            "Ask its author for the original; do not release with this one."
        )
    try:
        return mechanism_of(record)
    except FileFormatError:
        raise
    except (SfumatoError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{path} does not describe a mechanism: {error}") from None
