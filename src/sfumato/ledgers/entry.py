"""Entry: one release in a ledger."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RESERVED, DELIVERED, VOID = "reserved", "delivered", "void"


@dataclass(frozen=True, slots=True)
class Entry:
    """A release: reserved before a row is drawn, then delivered or void. All but void ones count."""

    id: int
    people: str
    state: str
    token: str  # the random name that the release's manifest bears
    mechanism: str  # the checksum of the mechanism file
    claim: str | None
    level: float | None  # proved for this release alone
    notion: str  # in which the budget is kept
    composed: float  # proved for all releases that counted when this was reserved, with this one
    budget: float | None
    fingerprints: dict[str, str] | None  # column → keyed fingerprint of its codes; None: read only once
    key: str  # which key made them
    same_values: bool  # people in this and earlier releases were declared to have unchanged values
    memoised: bool
    repeats: int | None  # the earlier release whose remembered answers this one repeats: it costs nothing
    target: str | None
    ready: bool  # everything was written, and names were about to be given
    rows: int | None
    process: str
    reserved_at: str
    settled_at: str | None
    note: str | None


def counted(entries: Sequence[Entry]) -> list[Entry]:
    """Those that count: not the void ones, and remembered answers once, whoever of their releases came through."""
    seen: set[int] = set()
    out = []
    for entry in entries:
        root = entry.id if entry.repeats is None else entry.repeats
        if entry.state != VOID and root not in seen:
            seen.add(root)
            out.append(entry)
    return out


def same_inputs(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Entries in groups within which the values that went in are known to be the same.

    Two releases had the same values if all columns they share have the same fingerprint under the same key, or if it
    was declared. Releases that share no column need not agree on anything.
    """
    groups: list[list[Entry]] = []
    for entry in entries:
        if entry.same_values:
            groups = [[e for group in groups for e in group] + [entry]]
            continue
        known = entry.fingerprints is not None
        fitting = next((g for g in groups if known and all(_agree(e, entry) for e in g)), None)
        if fitting is None:
            groups.append([entry])
        else:
            fitting.append(entry)
    return groups


def _agree(a: Entry, b: Entry) -> bool:
    if a.fingerprints is None or b.fingerprints is None or a.key != b.key:
        return False
    return all(b.fingerprints[c] == mark for c, mark in a.fingerprints.items() if c in b.fingerprints)


def this_process() -> str:
    """Host, process and when it began, so that a later process of the same number is not taken for it."""
    return f"{socket.gethostname()}:{os.getpid()}:{_began(os.getpid())}"


def may_be_running(process: str) -> bool | None:
    """Whether a process still runs; None when it ran on another host."""
    host, number, began = process.rsplit(":", 2)
    if host != socket.gethostname():
        return None
    if Path("/proc/self/stat").exists():
        return _began(int(number)) == began
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _began(number: int) -> str:
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]  # a zombie has ended
