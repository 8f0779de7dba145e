"""Entry: one release in a ledger."""

from __future__ import annotations

from dataclasses import dataclass

RESERVED, DELIVERED, VOID = "reserved", "delivered", "void"
REMARKS = "; "  # what divides them in a note
CHANGED = "the answers are remembered and values may have changed, so that a changed answer shows the change"


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
    note: str | None  # remarks, one after another
    person: str | None = None  # the column that tells people apart, if it was named
    who: str | None = None  # keyed fingerprint of that column and its name; fingerprints are then bound to it

    @property
    def changed(self) -> bool:
        """Whether its remembered answers may show that values have changed, which has no level."""
        return (self.note or "").split(REMARKS)[0] == CHANGED
