"""Ledgers: a memory of what has been released about whom, and of what it amounts to."""

from sfumato.ledgers.entries import Entry
from sfumato.ledgers.ledger import Ledger

__all__ = ["Entry", "Ledger"]
