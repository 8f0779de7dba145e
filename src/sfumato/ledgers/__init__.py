"""Ledgers: a memory of what has been released about whom, and of what it amounts to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.ledgers.entries import Entry
    from sfumato.ledgers.ledger import Ledger, account_of, account_text, evidence

__all__ = on_demand(__name__)
