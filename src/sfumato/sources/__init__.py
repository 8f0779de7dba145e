"""Sources: whatever holds rows, read as Arrow record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.alphabet import DATE_PARTS
    from sfumato.sources.data_frames import expanded, frame_source, relation_source, spark_source, sums_there
    from sfumato.sources.delimited import guarded, stream_source
    from sfumato.sources.dialect import READING, Said
    from sfumato.sources.file_formats import file_source
    from sfumato.sources.places import Place, Where, located, opened
    from sfumato.sources.source import RowSource, Source, open_source
    from sfumato.sources.tabulation import counted, tabulate
    from sfumato.sources.values import encode_column

__all__ = on_demand(__name__)
