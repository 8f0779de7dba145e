"""Files and folders as sources, by their suffix."""

from __future__ import annotations

from sfumato.errors import InputError
from sfumato.sources.delimited import csv_source
from sfumato.sources.dialect import Said
from sfumato.sources.parquet import folder_source, parquet_source
from sfumato.sources.places import Where, kind_of, opened, size_of
from sfumato.sources.programmes import READERS, sheet_source, statistical_source
from sfumato.sources.programmes import SUFFIXES as SHEETS
from sfumato.sources.source import Source

PACKINGS = {"": None, ".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}  # suffix → Arrow's name
DELIMITERS = {f"{kind}{packed}": mark for kind, mark in ((".csv", ","), (".tsv", "\t")) for packed in PACKINGS}
OTHERS = {".txt": ",", ".dat": ",", ".psv": "|", ".tab": "\t"}  # read, but not written
TEXT = DELIMITERS | {f"{kind}{packed}": mark for kind, mark in OTHERS.items() for packed in PACKINGS}
KNOWN = (
    ".csv, .tsv or .txt (also packed: .csv.gz, .csv.zst, .csv.bz2), .parquet, .xlsx or .ods, .dta, .sav or .sas7bdat"
)


def suffix_of(path: Where) -> str:
    """The suffix that says the format: '.csv', '.csv.gz', '.parquet', …

    >>> from pathlib import Path
    >>> suffix_of(Path("a.b.CSV.gz"))
    '.csv.gz'
    """
    parts = [s.lower() for s in path.suffixes]
    packed = parts[-1:] and parts[-1] in PACKINGS
    return "".join(parts[-2:]) if packed else "".join(parts[-1:])


def packing_of(suffix: str) -> str | None:
    """Arrow's name for how a CSV file is packed, or None.

    >>> packing_of(".csv.zst"), packing_of(".csv")
    ('zstd', None)
    """
    return PACKINGS.get("." + suffix.rpartition(".")[2])


def file_source(where: Where, said: Said | None = None, sheet: str | None = None) -> Source:
    """The file or folder as a source, after its header has been read."""
    said = said or Said()
    try:
        if kind_of(where) == "folder":
            return folder_source(where)
        suffix = suffix_of(where)
        if suffix not in (*TEXT, ".parquet", *SHEETS, *READERS):
            raise InputError(f"cannot tell the format of {where.name} from its suffix {suffix!r}", next=f"Use {KNOWN}.")
        if size_of(where) == 0 and kind_of(where) == "file":
            raise InputError("is empty: it has neither a header nor rows", where=where.name)
        if sheet is not None and suffix not in SHEETS:
            raise InputError(f"sheet= is for spreadsheets, and {where.name} is none.")
        if said.delimiter is not None and suffix not in TEXT:
            raise InputError(f"delimiter= is for text, and {where.name} is none.")
        if (said.decimal or said.dates) and suffix not in (*TEXT, *SHEETS):
            raise InputError(f"decimal= and dates= are for text, and {where.name} has types.")
        if suffix in SHEETS:
            return sheet_source(where, sheet, said)
        if suffix in READERS:
            return statistical_source(where, said.encoding, said.na)
        if suffix == ".parquet":
            return parquet_source(where)
        return csv_source(
            where.name, lambda: opened(where), TEXT[suffix], packing=packing_of(suffix), path=where,
            size=size_of(where), said=said,
        )
    except OSError as error:
        raise InputError(f"could not be read: {error.strerror or 'the file is damaged'}", where=where) from None
