"""Collecting: randomised answers come in, are stored once each, and become a table that can be estimated from."""

from sfumato.collecting.store import Store, new_token
from sfumato.collecting.tables import export, one_way, table_of

__all__ = ["Store", "export", "new_token", "one_way", "table_of"]
