"""People: names that nobody can tell apart are one account; keyed fingerprints of the values they had, and what these
tell of several releases."""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.alphabet import Column
from sfumato.drawing.randomness import names_of
from sfumato.errors import At, DataError, InputError
from sfumato.ledgers.entries import VOID, Entry, Marks, marks_in

if TYPE_CHECKING:
    import sqlite3

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


# --- which releases count, and which of them are known to have had the same values of the same people -----------------


def counted(entries: Sequence[Entry]) -> list[Entry]:
    """Those that count: not the void ones, and remembered answers once, whoever of their releases came through.

    A repeat without marks of its people was entered on the word of its values alone, and counts as any other.
    """
    seen: set[int] = set()
    out = []
    for entry in entries:
        root = entry.id if entry.repeats is None or entry.who is None else entry.repeats
        if entry.state != VOID and root not in seen:
            seen.add(root)
            out.append(entry)
    return out


@dataclass(slots=True, eq=False)
class _Group:
    """Releases of one state of the values: every fingerprint that a column had in it."""
    entries: list[Entry]
    marks: dict[str, set[str]]

    @classmethod
    def of(cls, entries: list[Entry]) -> _Group:
        marks: dict[str, set[str]] = {}
        for entry in entries:
            for column, mark in _known(entry).items():
                marks.setdefault(column, set()).add(mark)
        return cls(entries, marks)

    def holds(self, entry: Entry) -> bool:
        """Every column that the entry read was seen in this state, as it was then."""
        own = _known(entry)
        return bool(own) and all(mark in self.marks.get(column, ()) for column, mark in own.items())

    def within(self, entry: Entry) -> bool:
        """Every column that was read in this state was seen by the entry, as it was."""
        own, known = _known(entry), all(_known(e) for e in self.entries)
        return known and all(marks == {own.get(column)} for column, marks in self.marks.items())


def same_inputs(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Entries in groups within which the values that went in are known to be the same.

    Known means: it was declared, or one release of the group read all columns of the others, and each of theirs has
    the fingerprint that it had then. Fingerprints tell only when they are bound to a column of persons: of codes in
    row order alone, a sorted table has the same ones after people have changed places. Sharing one column is not
    enough either: others that two releases read at different times may have changed together with the secret.
    """
    groups: list[_Group] = []
    for entry in entries:
        if entry.same_values:
            groups = [_Group.of([*(e for group in groups for e in group.entries), entry])]
            continue
        inside = [g for g in groups if g.within(entry)]
        outside = next((g for g in groups if not inside and g.holds(entry)), None)
        if outside is not None:
            outside.entries.append(entry)
            continue
        joined = _Group.of([*(e for g in inside for e in g.entries), entry])
        groups = [*(g for g in groups if g not in inside), joined]
    return [group.entries for group in groups]


def _known(entry: Entry) -> dict[str, str]:
    """The fingerprints of an entry as far as they are about persons, under the key that made them."""
    if entry.fingerprints is None or entry.who is None:
        return {}
    return {column: f"{entry.key} {mark}" for column, mark in entry.fingerprints.items()}


# --- whether a release repeats answers that its people have given before, told from the marks of both -----------------


CONTRADICTED = (
    "it was declared that values are unchanged (--same-values), but people of release {} have other values now. "
    "Leave the declaration out; nothing was released."
)


def repeats(
    connection: sqlite3.Connection, before: Sequence[Entry], entry: Entry, persons: Persons
) -> tuple[int | None, bool]:
    """The release whose remembered answers this one repeats, if it does; and whether somebody's values have changed.

    Releases whose people are known by the same column, under the same key and mechanism, form families. One more
    belongs to a family if all its people are in it, or all people of the family are in it: a row is a person, so those
    who are new then are no others under a new name. Within a family, therefore, nobody has two names, and nobody who
    keeps his values has two answers. Where somebody left and somebody joined, the one may be the other: such a release
    begins a family of its own, and counts in full.
    """
    assert persons.ids is not None and persons.answers is not None
    families: dict[int, list[tuple[Marks, Marks]]] = {}
    for e in before:
        if e.state != VOID and e.memoised and e.who is not None and _asked(e) == _asked(entry):
            families.setdefault(e.repeats or e.id, []).append(marks_in(connection, e.id))
    found = None
    for root, members in families.items():
        ids, answers = (reduce(np.union1d, part) for part in zip(*members, strict=True))
        again = int(np.isin(persons.ids, ids).sum())
        if int(np.isin(persons.answers, answers).sum()) < again:
            if entry.same_values:
                raise InputError(CONTRADICTED.format(root))
            return None, True
        found = root if again in (len(persons.ids), len(ids)) else found
    return found, False


def _asked(entry: Entry) -> tuple[str, str, str | None]:
    return entry.mechanism, entry.key, entry.person


def check_declared(before: Sequence[Entry], entry: Entry) -> None:
    """Refuse to declare values unchanged that the fingerprints of the same people show to have changed."""
    if entry.same_values and entry.who is not None:
        for e in before:
            same = (e.who, *_asked(e)) == (entry.who, *_asked(entry)) and e.state != VOID
            if same and e.fingerprints != entry.fingerprints:
                raise InputError(CONTRADICTED.format(e.id))
