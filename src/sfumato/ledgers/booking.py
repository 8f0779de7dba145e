"""A reserved place in a ledger, while the release is under way."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sfumato.decimals import SHORT, level, near
from sfumato.errors import OutputError, SfumatoError
from sfumato.ledgers.entries import DELIVERED, VOID, Entry
from sfumato.ledgers.evidence import Evidence, evidence
from sfumato.ledgers.store import connected, writing
from sfumato.releasing.ledger_place import Memo

if TYPE_CHECKING:
    from sfumato.frames import Record


@dataclass(slots=True)
class Reserved:
    """A reservation. When it is left without an error the release was delivered; with one, the disk tells."""

    path: Path
    entry: Entry
    memo: Memo | None = field(default=None, repr=False)

    @property
    def token(self) -> str:
        return self.entry.token

    @property
    def account(self) -> Record:
        e = self.entry
        return {
            "ledger": str(self.path), "release": e.id, "people": e.people, "notion": e.notion, "composed": e.composed,
            "budget": e.budget, "repeats": e.repeats, "note": e.note,
        }

    def ready(self, rows: int | None) -> None:
        """Committed before the first file gets its name, so that what was not ready was never released."""
        self._set(ready=1, rows=rows)
        self.entry = replace(self.entry, ready=True, rows=rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        if kind is None:
            return self._deliver(now)
        # This process knows that it took nothing away: what is not there was never named. Rows in memory were not
        # handed over when an error was raised.
        delivered = evidence(self.entry) is Evidence.DELIVERED
        why = self.entry.note or f"stopped by {kind.__name__}"
        return self._set(state=DELIVERED if delivered else VOID, settled_at=now, note=why)

    def _deliver(self, now: str) -> None:
        try:
            self._set(state=DELIVERED, settled_at=now)
        except SfumatoError as error:
            raise OutputError(
                f"the rows were released, but the ledger could not be told: {error} Release {self.entry.id} stays "
                "reserved, and counts", next="Settle it as delivered.",
            ) from None

    def _set(self, **values: Any) -> None:
        names = ", ".join(f"{name} = :{name}" for name in values)
        with connected(self.path, create=False) as connection, writing(connection):
            connection.execute(f"UPDATE releases SET {names} WHERE id = :id", {**values, "id": self.entry.id})


def account_text(account: Mapping[str, Any]) -> str:
    """What all releases about the same people amount to."""
    together = account["composed"]
    total = f"{level(together)} ({account['notion'].upper()})" if math.isfinite(together) else level(together)
    limit = "no budget" if account["budget"] is None else f"budget {near(account['budget'], SHORT)}"
    again = "" if account["repeats"] is None else f"; the answers of release {account['repeats']} again, at no cost"
    note = "" if account["note"] is None else f"; {account['note']}"
    return f"release {account['release']} about {account['people']!r}: together {total}, {limit}{again}{note}"
