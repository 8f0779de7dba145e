"""Sources: whatever holds rows, read as Arrow record batches."""

from sfumato.sources.places import Place, Where, located
from sfumato.sources.source import RowSource, Source, open_source

__all__ = ["Place", "RowSource", "Source", "Where", "located", "open_source"]
