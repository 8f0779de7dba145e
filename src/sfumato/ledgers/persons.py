"""People: names that nobody can tell apart are one account; keyed fingerprints of the values they had."""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.alphabet import Column
from sfumato.drawing.randomness import names_of
from sfumato.errors import At, DataError, InputError

if TYPE_CHECKING:
    from sfumato.alphabet import Array, Ints
    from sfumato.releasing.flow import Flow

# --- spellings that nobody can tell apart are one account, and letters that only look alike are refused ---------------
# Two accounts have two budgets, so a name that looks like another one would be a second budget for the same people.


# Letters of other scripts that are drawn like Latin ones, small or capital, once they are folded [Unicode TS 39].
ALIKE = str.maketrans("авеѕіјкӏмнорԛстуԝхһԁɡαβεζηικμνορτυχϲϳı", "abesijklmhopqctywxhdgabezhikmnoptyxcji")


def tidy(name: str) -> str:
    """The name as it is kept: NFKC, single spaces, nothing invisible.

    >>> tidy(" Cohort\\u200b  7 ")
    'Cohort 7'
    """
    steering = [c for c in name if unicodedata.category(c) == "Cc" and not c.isspace()]
    if steering:
        raise InputError(f"the name of people has a control character (U+{ord(steering[0]):04X})", next="Leave it out.")
    seen = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    out = unicodedata.normalize("NFKC", " ".join(seen.split()))
    if not out:
        raise InputError("a ledger needs to know whose data these are: people='survey 2026' (--people NAME).")
    return out


def folded(name: str) -> str:
    """What two spellings of one name have in common.

    >>> folded("Ａ ") == folded("a\\u200b") == "a"
    True
    """
    seen = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) not in ("Cf", "Cc"))
    return unicodedata.normalize("NFKC", " ".join(unicodedata.normalize("NFKC", seen).casefold().split()))


def spellings(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are spellings of this one; older ledgers may hold several."""
    return [other for other in known if folded(other) == folded(name)]


def account_name(name: str, known: Iterable[str]) -> str:
    """The name under which a release is entered: the first spelling of it, or a new one that looks like no other."""
    own, known = tidy(name), list(known)
    if same := spellings(own, known):
        return same[0]
    for other in known:
        if _drawn(other) == _drawn(own):
            raise InputError(
                f"the name {own!a} looks like {other!r} ({other!a}), which the ledger knows, and is spelled with "
                "other letters",
                next=f"Say --people {other!r} if they are the same people, or choose a name that cannot be mistaken.",
            )
    return own


def _drawn(name: str) -> str:
    """How a name looks: letters of other scripts as the Latin ones that they look like."""
    return folded(name).translate(ALIKE)


# --- keyed fingerprints of the columns that a release reads, bound to the people whose values they are ----------------
# Codes in row order are no evidence of unchanged values: after two people of a sorted table have changed places it
# looks as before. Bound to a column that names everybody once, a fingerprint is of the map from people to values, in
# no order.


Marks = npt.NDArray[np.uint64]  # sorted keyed marks, each of one person or of one person's answer
MARK = 8  # bytes of a mark: among a million people, a chance of 2⁻⁴⁴ that a changed one passes for unchanged


@dataclass(frozen=True, slots=True, eq=False)
class Persons:
    """Who is in a table, as far as a ledger may know: without the key these are random numbers."""

    column: str
    who: str  # fingerprint of the column and its name
    ids: Marks | None = None  # of each person; kept for remembered answers
    answers: Marks | None = None  # of each person with the values that the mechanism reads


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What one pass over a table tells a ledger."""

    fingerprints: dict[str, str] | None = None  # column → keyed fingerprint; None: it can be read only once
    persons: Persons | None = None


def seen(key: bytes, flow: Flow, person: str | None = None, *, checksum: str | None = None) -> Seen:
    """The keyed fingerprint of every column that a release reads, in one pass; of persons too, if a column names them.

    Columns are known by the mechanism's names, and fingerprints are of codes, so that the same values in CSV and in
    Parquet have the same. With `checksum`, the mechanism's, persons have marks one by one, so that who joins or leaves
    can be told from who was given another name.
    """
    if flow.source.once or flow.source.cluster is not None:
        if person is not None:
            raise InputError(
                f"people can be told apart by {person!r} only in rows that can be read twice, in files and frames of "
                f"this machine; {flow.source.name} cannot", next="Write it to a file first.",
            )
        return Seen()
    columns = list(flow.drawer.reading)
    if person is None:
        return Seen(_unbound(key, flow, columns))
    flow.source.find(person)
    names, codes = _read(flow, columns, person)
    return _bound(key, columns, person, names, codes, checksum)


def _unbound(key: bytes, flow: Flow, columns: list[Column]) -> dict[str, str]:
    """Of codes in row order: equal tables have equal ones, and so may others."""
    made = {c.name: hmac.new(key, repr((c.name, c.labels)).encode(), hashlib.sha256) for c in columns}
    row = 0
    for batch in flow.source.batches(list(flow.coded.values())):
        for column in columns:
            codes = column.encode(batch.column(flow.coded[column.name]), first_row=row)
            made[column.name].update(codes.astype("<i4", copy=False).tobytes())
        row += batch.num_rows
    return {name: mac.hexdigest() for name, mac in made.items()}


def _read(flow: Flow, columns: list[Column], person: str) -> tuple[pa.Array, dict[str, Array]]:
    """The names of people and the codes of every column, in the order of the names."""
    parts: list[pa.Array] = []
    codes: dict[str, list[Array]] = {c.name: [] for c in columns}
    row, also = 0, () if person in flow.coded.values() else (person,)
    for batch in flow.source.batches(list(flow.coded.values()), also):
        parts.append(names_of(batch.column(person), person, row).cast(pa.large_string()))
        for column in columns:
            codes[column.name].append(column.encode(batch.column(flow.coded[column.name]), first_row=row))
        row += batch.num_rows
    names = pa.chunked_array(parts).combine_chunks()
    order = np.asarray(pc.sort_indices(names))
    _check_once(names, order, person)
    return names.take(pa.array(order)), {name: np.concatenate(own)[order] for name, own in codes.items()}


def _check_once(names: pa.Array, order: Ints, column: str) -> None:
    """Two rows of one name would get one answer when their values are equal, and so show whether they are."""
    ranked = names.take(pa.array(order))
    twice = np.flatnonzero(np.asarray(pc.equal(ranked.slice(1), ranked.slice(0, len(ranked) - 1))))
    if len(twice):
        row = int(max(order[twice[0]], order[twice[0] + 1])) + 1
        raise DataError(
            "it names somebody a second time, so that it does not tell people apart",
            next="Give a column with another value in every row.", where=At(column, row=row),
        )


def _bound(
    key: bytes, columns: list[Column], person: str, names: pa.Array, codes: dict[str, Array], checksum: str | None
) -> Seen:
    ids = [name.encode() for name in names.to_pylist()]
    who = hmac.new(key, b"sfumato persons " + repr(person).encode(), hashlib.sha256)
    for name in ids:
        who.update(len(name).to_bytes(8, "big") + name)
    marks = {}
    for c in columns:
        content = repr((c.name, c.labels)).encode() + who.digest() + codes[c.name].astype("<i4").tobytes()
        marks[c.name] = hmac.new(key, content, hashlib.sha256).hexdigest()
    if checksum is None:
        return Seen(marks, Persons(person, who.hexdigest()))
    own = hmac.new(key, f"sfumato marks {checksum} {person}".encode(), hashlib.sha256).digest()
    values = np.stack([codes[c.name].astype(">i4") for c in columns], axis=1)
    answers = [value.tobytes() + name for value, name in zip(values, ids, strict=True)]
    return Seen(marks, Persons(person, who.hexdigest(), _marks(own, ids, b"person"), _marks(own, answers, b"answer")))


def _marks(key: bytes, records: list[bytes], use: bytes) -> Marks:
    made = b"".join(hashlib.blake2b(r, key=key, digest_size=MARK, person=use).digest() for r in records)
    return np.sort(np.frombuffer(made, "<u8"))
