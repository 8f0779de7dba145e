"""Sources: whatever holds rows, read as Arrow record batches."""

from sfumato.sources.places import Place, Where, located
from sfumato.sources.source import Rows, Source, open_source

__all__ = ["Place", "Rows", "Source", "Where", "located", "open_source"]
