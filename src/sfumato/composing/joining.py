"""Joining: mechanisms for the same rows as one mechanism over all the columns they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from sfumato.alphabet import Alphabet, Column
from sfumato.errors import At, InputError
from sfumato.mechanism import Factor, Mechanism, Product
from sfumato.mechanism.file_records import simple_record


def joined(mechanisms: Sequence[Mechanism]) -> Mechanism:
    """The joint mechanism: it reads every column that one of them reads, and releases all their outputs.

    Columns are known by name; a column that two mechanisms read must have the same labels in both. Releases with the
    same weights are counted, not repeated, so that k releases of one mechanism cost multisets of outputs, not tuples.
    """
    if not mechanisms:
        raise InputError("give at least one mechanism to compose.")
    secret = mechanisms[0].secret
    for m in mechanisms:
        if not m.sealed:
            raise InputError(
                "only sealed mechanisms can be composed: weights must be integers", next="Call sf.seal first."
            )
        if m.secret != secret:
            raise InputError(
                f"these mechanisms protect different secrets: {', '.join(secret.names)} with {secret.size} labels and "
                f"{', '.join(m.secret.names)} with {m.secret.size}",
                next="Compose releases about one secret, with one set of labels; a ledger adds up what cannot be "
                "composed.",
            )
    columns = _columns(mechanisms, secret)
    useful = Alphabet(tuple(columns.values()))
    rows = secret.size if any(m.law.rows > 1 for m in mechanisms) else 1
    law = Product(_counted(mechanisms, list(columns)), rows, tuple(c.size for c in useful.columns))
    joint = next((m.joint for m in mechanisms if m.joint is not None and m.joint.useful == useful), None)
    known = [m.source for m in mechanisms if m.joint is joint]
    return Mechanism(
        law, secret, useful, "both" if rows == secret.size else "useful", "composed", None, joint,
        known[0] if joint is not None else "unstated",
    )


def _columns(mechanisms: Sequence[Mechanism], secret: Alphabet) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for column in (c for m in mechanisms for c in m.useful.columns):
        if column.name in secret.names:
            raise InputError(f"{column.name!r} is the secret of one mechanism and a useful column of another.")
        if columns.setdefault(column.name, column) != column:
            raise InputError(
                "has different labels in two of the mechanisms, so it cannot be told which of them are the same",
                next="Design both with the same labels (bins, grouping, missing values).", where=At(column.name),
            )
    return columns


def _counted(mechanisms: Sequence[Mechanism], names: list[str]) -> tuple[Factor, ...]:
    """The releases, equal ones once with the number of times."""
    found: dict[bytes, Factor] = {}
    written: dict[int, bytes] = {}  # laws that are the same object need not be written out to be compared
    for m in mechanisms:
        own = [names.index(n) for n in m.useful.names]
        inner = m.law.parts if isinstance(m.law, Product) else (Factor(m.law, tuple(range(len(own)))),)
        for part in inner:
            columns = tuple(own[c] for c in part.columns)
            if id(part.law) not in written:
                written[id(part.law)] = msgspec.json.encode((simple_record(part.law), part.law.rows))
            key = written[id(part.law)] + bytes(str(columns), "ascii")
            before = found.get(key)
            times = part.times + (0 if before is None else before.times)
            found[key] = Factor(part.law, columns, times) if before is None else replace(before, times=times)
    return tuple(found.values())
