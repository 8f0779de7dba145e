"""Collecting: randomised answers come in, are stored once each, and become a table that can be estimated from."""

from sfumato.collecting.collected import Store, new_token

__all__ = ["Store", "new_token"]
