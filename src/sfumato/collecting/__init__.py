"""Collecting: randomised answers come in, are stored once each, and become a table that can be estimated from."""

from sfumato.collecting.store import Store, new_token

__all__ = ["Store", "new_token"]
