"""Tally: how often each output was released, counted from rows, answers or counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.alphabet import Alphabet, Column, Floats, Ints
from sfumato.drawing import manifest as manifests
from sfumato.errors import DataError, InputError
from sfumato.mechanism import Bundle, Mechanism
from sfumato.mechanism.bundle import ANSWER, TURN, answer_labels, part_name
from sfumato.sources import Source, open_source
from sfumato.sources.places import whole_size
from sfumato.sources.tabulation import counted_groups
from sfumato.tolerances import LISTED

if TYPE_CHECKING:
    import numpy.typing as npt

    from sfumato.sources.source import TableLike


def _numeric(x: object) -> bool:
    if isinstance(x, (list, tuple, np.ndarray)):
        return len(x) > 0 and all(_numeric(v) for v in x)
    return isinstance(x, (int, float, np.number)) and not isinstance(x, bool)


def table_of(answers: Sequence[object], mechanism: Mechanism | Bundle) -> pa.Table:
    """The released table of some answers, as `respond` gives them or as dictionaries by column."""
    if isinstance(mechanism, Bundle):
        return _by_name(answers, mechanism.names) if mechanism.turns is None else _in_turn(answers)
    if isinstance(answers[0], Mapping):
        return _by_name(answers, list(answers[0]))
    return _KINDS[mechanism.law.meaning](answers, mechanism)


def _by_name(answers: Sequence[object], names: Sequence[str]) -> pa.Table:
    for i, answer in enumerate(answers):
        for name in names:
            if not isinstance(answer, Mapping) or name not in answer:
                raise DataError(f"answer {i + 1} has no {name!r}, which the first one has.")
    return pa.table({name: pa.array([a[name] for a in answers if isinstance(a, Mapping)]) for name in names})


def _in_turn(answers: Sequence[object]) -> pa.Table:
    told = [a for a in answers if isinstance(a, Mapping) and len(a) == 1]
    if len(told) < len(answers):
        raise DataError("each answer must be a dictionary with the one part that was answered.")
    pairs = [next(iter(a.items())) for a in told]
    return pa.table({TURN: [name for name, _ in pairs], ANSWER: pa.array([x for _, x in pairs], pa.string())})


def _label_columns(answers: Sequence[object], columns: Sequence[Column]) -> pa.Table:
    """A column for each part of an answer; pairs of tuples are told flat."""
    rows = [tuple(_flat(a)) for a in answers]
    for i, row in enumerate(rows):
        if len(row) != len(columns):
            raise DataError(f"answer {i + 1} has {len(row)} value(s), but there are {len(columns)} columns.")
    return pa.table({c.name: pa.array([row[k] for row in rows], pa.string()) for k, c in enumerate(columns)})


def _flat(answer: object) -> Iterator[object]:
    if isinstance(answer, (tuple, list)):
        for x in answer:
            yield from _flat(x)
    else:
        yield answer


def _sets(answers: Sequence[object], mechanism: Mechanism) -> pa.Table:
    """Sets of inputs as strings of zeros and ones; such strings are taken as they are."""
    place = {mechanism.input_label(x): x for x in range(mechanism.inputs)}
    texts = []
    for i, answer in enumerate(answers):
        if isinstance(answer, str) and len(answer) == len(place) and set(answer) <= {"0", "1"}:
            texts.append(answer)
            continue
        if isinstance(answer, str) or not isinstance(answer, Iterable) or not all(x in place for x in answer):
            raise DataError(f"answer {i + 1} is no set of this mechanism's labels, nor {len(place)} zeros and ones.")
        held = {place[x] for x in answer}
        texts.append("".join("01"[x in held] for x in range(len(place))))
    return pa.table({"bits": texts})


_KINDS: dict[str, Callable[[Sequence[object], Mechanism], pa.Table]] = {
    "symbol": lambda answers, m: _label_columns(answers, [m.symbols]),
    "useful": lambda answers, m: _label_columns(answers, m.useful.columns),
    "cell": lambda answers, m: _label_columns(answers, [*m.secret.columns, *m.useful.columns]),
    "subset": _sets,
}


def checked_answers(
    source: TableLike | npt.ArrayLike, mechanism: Mechanism | Bundle
) -> TableLike | npt.ArrayLike:
    """The source, as a table if it is a list of answers and not of counts: those are numbers, all the way down."""
    if not isinstance(source, (list, tuple)) or not source or _numeric(source[0]):
        return source
    try:
        return table_of(source, mechanism)
    except (pa.ArrowException, TypeError):
        raise InputError(
            "the answers are not of one kind", next="Give what respond returned, or counts by output."
        ) from None


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts by output (ones by bit for subsets), the number of rows, and how they had been decoded."""

    counts: Floats
    n: int
    decode: str


def tally(
    source: TableLike | npt.ArrayLike, mechanism: Mechanism, *, decode: str | None = None, n: int | None = None
) -> Tally:
    """Counts of a released table, or the given counts checked."""
    if isinstance(source, (list, tuple, np.ndarray)):
        return _given(source, mechanism, decode or "symbols", n)
    source = open_source(source).verbatim()
    return _counted(source, mechanism, check_manifest(source, mechanism, decode) or "symbols")


def manifest_beside(source: Source) -> manifests.Manifest | manifests.Told | None:
    """The manifest of a released table: in the file beside it, or in what a frame or an Arrow table carries."""
    if source.cluster is not None:
        return manifests.told_by(source.cluster)
    if source.path is None:
        carried = source.metadata.get(manifests.METADATA_KEY)
        return None if carried is None else manifests.decoded_manifest(carried, source.name)
    path = manifests.file_beside(source.path, "manifest.json")
    if not path.exists():
        return None
    manifest = manifests.read_manifest(path)
    size = whole_size(source.path)
    if manifest.size is not None and size != manifest.size:
        raise InputError(
            f"describes a table of {manifest.size} bytes, but {source.path.name} has {size}: it was changed or "
            "replaced after the release", next="Move the manifest away and say decode= to estimate anyway.",
            where=path.name,
        )
    return manifest


def check_manifest(source: Source, mechanism: Mechanism | Bundle, decode: str | None = None) -> str | None:
    """How rows were decoded, by their manifest where there is one, which must be of this mechanism."""
    if (manifest := manifest_beside(source)) is None:
        return decode
    if mechanism.sealed and mechanism.checksum != manifest.mechanism:
        raise InputError(
            "the table was released with another mechanism than this one (their checksums differ)",
            next="Load the mechanism file that was written with it.",
        )
    if decode is not None and decode != manifest.decode:
        told = f"{manifests.DECODES.get(manifest.decode, 'otherwise')} ({manifest.decode})"
        raise InputError(f"decode is {decode!r}, but by the manifest the rows were written {told}.")
    return manifest.decode


def _given(given: npt.ArrayLike, mechanism: Mechanism, decode: str, n: int | None) -> Tally:
    try:
        counts = np.asarray(given, float).ravel()
    except (TypeError, ValueError):
        raise InputError(
            "a list must hold the count of every output, in their order",
            next="Give released rows as a table or its path.",
        ) from None
    if not np.all(np.isfinite(counts)) or np.any(counts < 0):
        raise InputError("counts must be finite numbers, zero or more.")
    if mechanism.law.meaning == "subset" and decode == "symbols":
        if n is None or counts.max(initial=0) > n:
            raise InputError("counts of SUE or OUE are ones by bit", next="Say how many rows there were with n=.")
        return Tally(counts, n, decode)
    total = float(counts.sum())
    if n is not None and abs(total - n) > 0.5:
        raise InputError(f"the counts sum to {total:g}, but n is {n}.")
    return Tally(counts, round(total), decode)


def _counted(source: Source, mechanism: Mechanism, decode: str) -> Tally:
    """Counts of the rows of a table, where they are: on a cluster, rows are counted under a key of their own."""
    columns, size, count = _reader(mechanism, decode)
    if source.cluster is None:
        return counted(source.batches(columns), mechanism, decode)

    def part(batch: pa.RecordBatch, first_row: int, weights: Ints | None) -> pa.Table:
        totals = count(batch, first_row, weights)
        assert weights is not None  # a cluster has always counted
        at = np.flatnonzero(totals)
        return pa.table({"y": np.append(at, -1), "n": np.append(totals[at], weights.sum())})

    source.find(*columns)
    few = decode != "symbols" or mechanism.law.meaning != "subset"
    found = source.summed(columns, part, pa.schema([("y", pa.int64()), ("n", pa.int64())]), few=few)
    at, n = (np.asarray(found.column(name)) for name in ("y", "n"))
    totals = np.zeros(size)
    totals[at[at >= 0]] = n[at >= 0]
    return Tally(totals, int(n[at < 0].sum()), decode)


def counted(batches: Iterable[pa.RecordBatch], mechanism: Mechanism, decode: str) -> Tally:
    """Counts of released rows, batch by batch as they come."""
    _, size, count = _reader(mechanism, decode)
    totals, rows = np.zeros(size, np.int64), 0
    for batch in batches:
        totals += count(batch, rows, None)
        rows += batch.num_rows
    return Tally(totals.astype(float), rows, decode)


def _reader(mechanism: Mechanism, decode: str) -> Reader:
    meaning = mechanism.law.meaning if decode == "symbols" else "cell" if mechanism.law.rows > 1 else "useful"
    return READERS[meaning](mechanism)


Count = Callable[[pa.RecordBatch, int, Ints | None], Ints]  # (rows, number of the first, how often each comes) → totals
Reader = tuple[list[str], int, Count]


def _labels(*alphabets: Alphabet) -> Reader:
    """Labels as they were written."""
    written = Alphabet.written(*alphabets)

    def count(batch: pa.RecordBatch, first_row: int, weights: Ints | None) -> Ints:
        codes = written.encode(batch, first_row=first_row)
        if weights is None:
            return np.bincount(codes, minlength=written.size)
        totals = np.zeros(written.size, np.int64)
        np.add.at(totals, codes, weights)
        return totals

    return list(written.names), written.size, count


def _bits(mechanism: Mechanism) -> Reader:
    width = mechanism.inputs

    def count(batch: pa.RecordBatch, first_row: int, weights: Ints | None) -> Ints:
        values = batch.column("bits")
        values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        text = "".join(x or "" for x in values.to_pylist()).encode()
        bits = np.frombuffer(text, np.uint8) - ord("0")
        if bits.size != batch.num_rows * width or bits.max(initial=0) > 1:
            raise DataError(f"column 'bits' must hold {width} zeros and ones in every row.")
        table = bits.reshape(-1, width)
        return np.asarray(table.sum(0, dtype=np.int64) if weights is None else weights @ table)

    return ["bits"], width, count


READERS: dict[str, Callable[[Mechanism], Reader]] = {
    "cell": lambda m: _labels(m.secret, m.useful), "useful": lambda m: _labels(m.useful),
    "symbol": lambda m: _labels(Alphabet.of(m.symbols)), "subset": _bits,
}


# --- the answers of a bundle: of every part and every two of them, or of whichever had its turn -----------------------


Counts = tuple[dict[tuple[int, ...], Floats], int]  # by part, or by pair of parts; and the rows


def counted_answers(batches: Iterable[pa.RecordBatch], bundle: Bundle) -> Counts:
    """Counts of a bundle's answers, batch by batch as they come."""
    written = [_written(part, bundle.reading(part)) for part in bundle.parts]
    return _counted_together(batches, written) if bundle.turns is None else _counted_in_turn(batches, bundle, written)


def _written(part: Mechanism, reading: Sequence[Column]) -> Column:
    """The column that a part's answers were written into: spelled as the column was, when they are its labels."""
    name, labels = part_name(part), answer_labels(part)
    if len(reading) == 1 and reading[0].labels == labels:
        return replace(reading[0], name=name, cuts=None, other=None)
    return Column(name, labels)


def _counted_together(batches: Iterable[pa.RecordBatch], written: Sequence[Column]) -> Counts:
    keys = [key for k in (1, 2) for key in combinations(range(len(written)), k)]
    shapes = {key: [written[i].size for i in key] for key in keys}
    if sum(map(math.prod, shapes.values())) > 2 * LISTED:
        raise InputError("the parts have too many outputs to count every two of them together.")
    totals, rows = counted_groups(batches, [[written[i] for i in key] for key in keys])
    return {key: total.reshape(shapes[key]).astype(float) for key, total in zip(keys, totals, strict=True)}, rows


def _counted_in_turn(batches: Iterable[pa.RecordBatch], bundle: Bundle, written: Sequence[Column]) -> Counts:
    turns = Column(TURN, bundle.names)
    totals: dict[tuple[int, ...], Floats] = {(i,): np.zeros(c.size) for i, c in enumerate(written)}
    rows = 0
    for batch in batches:
        turn = turns.encode(batch.column(TURN), first_row=rows)
        order = np.argsort(turn, kind="stable")
        answers = batch.column(ANSWER).take(pa.array(order))
        ends = np.searchsorted(turn[order], np.arange(len(written) + 1))
        for i, (start, stop) in enumerate(pairwise(ends.tolist())):
            if start < stop:
                codes = written[i].encode(answers.slice(start, stop - start), first_row=rows)
                totals[i,] += np.bincount(codes, minlength=written[i].size)
        rows += batch.num_rows
    return totals, rows
