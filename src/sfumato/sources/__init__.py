"""Sources: whatever holds rows, read as Arrow record batches."""

from sfumato.sources.source import Source, open_source

__all__ = ["Source", "open_source"]
