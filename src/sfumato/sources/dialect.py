"""Dialect: how a file of delimited text is written, found out from its beginning."""

from __future__ import annotations

import codecs
import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from sfumato.errors import InputError, option, unknown
from sfumato.libraries import charset_normalizer
from sfumato.sources.meaning import BY_MARK, DATES, Guess, Meaning, looked
from sfumato.sources.places import AGAIN

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True, slots=True)
class Looking:
    """How much of a file is looked at before it is read."""

    bytes: int = 1 << 22  # bytes read for the encoding: all of most files, a moment of the largest
    records: int = 5_000  # looked at for the delimiter and for spellings
    header: int = 1 << 24
    block: int = 1 << 16


LOOKING = Looking()
COMMENT = "#"
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}
CP1252 = "cp1252"  # what programs of Western Europe write that do not write UTF-8; it holds latin-1
WESTERN = "utf_8_or_cp1252"  # each character by itself, so that none decides how others are read
SPOKEN = {WESTERN: "UTF-8 or cp1252"}
ENCODING = option("--encoding latin-1, for example", "encoding='latin-1', for example")
OTHER_SCRIPTS = ("cp1251", "cp1253", "cp1255", "cp1256", "cp932", "gb18030", "big5", "euc_kr")
READING = ("na", "counts", "delimiter", "encoding", "decimal", "dates", "sheet")  # what `open_source` can be told


class Readable(Protocol):
    """A file of Arrow, a pipe, or a stream of Python."""

    def read(self, n: int, /) -> bytes:
        """At most n bytes; none at the end."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a caller knows about a file; None is found out.

    >>> Said("tab").delimiter
    '\\t'
    """

    delimiter: str | None = None  # a tab has a name, as it is hard to type
    encoding: str | None = None
    na: tuple[str, ...] | None = None
    decimal: str | None = None
    dates: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter in ("tab", "\\t"):
            object.__setattr__(self, "delimiter", "\t")
        if self.decimal is not None and self.decimal not in BY_MARK:
            raise unknown("a mark of decimals", self.decimal, (".", ","))
        if self.dates is not None and self.dates not in DATES:
            raise unknown("an order of dates", self.dates, tuple(DATES))
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise InputError("a delimiter is one character, such as ; or a tab", value=self.delimiter)
        try:
            if self.encoding is not None:
                codecs.lookup(self.encoding)
        except LookupError:
            raise unknown("an encoding", self.encoding or "", ("utf-8", "utf-16", "cp1252", "latin-1")) from None


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file is written, and what its text means."""

    encoding: str
    delimiter: str
    skipped: int  # lines before the header
    columns: tuple[str, ...]  # as they are written
    reading: Meaning


def dialect_of(stream: Readable, name: str, own: str, said: Said) -> tuple[Dialect, bytes]:
    """The dialect of a file or pipe whose suffix stands for the delimiter `own`, and the bytes read to find it."""
    data, ended = _beginning(stream, name)
    encoding = said.encoding or _encoding(data, ended)
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(data).removeprefix("\ufeff")
    at, mark = _preamble(text, said.delimiter)
    lines = text[at:]
    if not lines.strip():
        raise InputError("is empty: its first line must name the columns", where=name)
    delimiter = said.delimiter or mark or _delimiter(lines, own, ended)
    header, *records = _records(lines, delimiter, ended)
    if any("\ufffd" in x for x in header):
        raise InputError(f"the header of {name} is not written in {encoding}", next=f"Say which it has ({ENCODING}).")
    skipped = len(re.findall(r"\r\n|\r|\n", text[:at]))
    reading = looked(header, records, said.na, comma=delimiter == ",", decimal=said.decimal, dates=said.dates)
    guessed = []
    if said.encoding is None and encoding in OTHER_SCRIPTS:
        guessed += [Guess(f"the encoding {encoding}", "encoding", encoding)]
    if said.delimiter is None and mark is None and delimiter != _by_header(lines, own):
        guessed += [Guess(f"the delimiter {delimiter!r}", "delimiter", delimiter)]
    told = (*_unusual(delimiter, own, encoding, skipped), *reading.said)
    meant = replace(reading, said=told, guessed=(*guessed, *reading.guessed))
    return Dialect(encoding, delimiter, skipped, tuple(header), meant), data


def _unusual(delimiter: str, own: str, encoding: str, skipped: int) -> list[str]:
    """What is not as the suffix of the file says, for whoever gave it."""
    above = "1 line above the header is" if skipped == 1 else f"{skipped} lines above the header are"
    return [
        *([f"{DELIMITERS.get(delimiter, repr(delimiter))} divide its fields"] if delimiter != own else []),
        *([f"it is read as {SPOKEN.get(encoding, encoding)}"] if encoding != "utf-8" else []),
        *([f"{above} passed over"] if skipped else []),
    ]


def _beginning(stream: Readable, name: str) -> tuple[bytes, bool]:
    """The first bytes, with the header whole, and whether that is all. A pipe is not waited for beyond its header."""
    data, take = b"", getattr(stream, "read1", None)
    try:
        while len(data) < (LOOKING.header if _open(data) else LOOKING.bytes):
            part = bytes((take or stream.read)(LOOKING.block))
            data += part
            if not part or (take is not None and not _open(data)):
                break
    except OSError:
        raise InputError("could not be read: the file is damaged or cut short", next=AGAIN, where=name) from None
    if not data:
        raise InputError("is empty: it has neither a header nor rows", where=name)
    if len(data) >= LOOKING.header and _open(data):
        raise InputError(
            f"the header of {name} does not end within {LOOKING.header:,} bytes", next="Is a quote left open?"
        )
    return data, not part


def _open(data: bytes) -> bool:
    """Whether no line break stands outside quotes yet."""
    return not any(data.count(b'"', 0, found.start()) % 2 == 0 for found in re.finditer(rb"[\r\n]", data))


def _encoding(data: bytes, ended: bool) -> str:
    """By its mark, else UTF-8 where that is possible, else UTF-16 without a mark, another script, or Western."""
    for mark, name in MARKS.items():
        if data.startswith(mark):
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final=ended)
        if b"\0" not in data:
            return "utf-8"
    except UnicodeDecodeError:
        pass
    header = data[: (data.find(b"\n") + 1 or len(data))]
    for at, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(header) > 1 and 2 * header[at::2].count(0) > len(header[at::2]):
            return name

    telling = b"\n".join(line for line in data.splitlines() if not line.isascii())[:LOOKING.block]
    best = charset_normalizer.from_bytes(telling, cp_isolation=[CP1252, "cp1250", *OTHER_SCRIPTS]).best()
    return best.encoding if best is not None and best.encoding in OTHER_SCRIPTS and _one_script(str(best)) else WESTERN


def _byte_by_byte(errors: str) -> Callable[[UnicodeError], tuple[str, int]]:
    def decoded(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        return error.object[error.start : error.end].decode(CP1252, errors), error.end

    return decoded


for _errors in ("strict", "replace"):
    codecs.register_error(f"{CP1252}_{_errors}", _byte_by_byte(_errors))


class _Western(codecs.IncrementalDecoder):
    """UTF-8, and cp1252 for what is none."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        inner = codecs.getincrementaldecoder("utf-8")(f"{CP1252}_{errors}")
        self.decode, self.reset = inner.decode, inner.reset  # type: ignore[method-assign]


def _codec(name: str) -> codecs.CodecInfo | None:
    """The codec as Arrow asks for it; it only reads."""
    if name != WESTERN:
        return None
    return codecs.CodecInfo(
        codecs.utf_8_encode, lambda data, errors="strict": codecs.utf_8_decode(data, f"{CP1252}_{errors}", True),
        incrementaldecoder=_Western, name=WESTERN,
    )


codecs.register(_codec)


def _one_script(text: str) -> bool:
    """Whether words with other letters than ASCII's have no Latin ones: accents stand among these, a script alone."""
    words = [word for word in re.findall(r"[^\W\d_]{2,}", text) if not word.isascii()]
    return bool(words) and not any(unicodedata.name(c, "").startswith("LATIN") for word in words for c in word)


def _preamble(text: str, delimiter: str | None) -> tuple[int, str | None]:
    """Where the header begins, behind comments, blank lines and Excel's sep=; and the delimiter that this says.

    A line that begins with # is a comment unless it has as many fields as the first line that does not: it is then the
    header of a file whose first column is so named.
    """
    at, mark = 0, delimiter
    passed: list[tuple[int, str]] = []
    for line in text.splitlines(keepends=True):
        bare = line.strip().lower()
        if bare.startswith("sep=") and len(bare) == 5:
            mark = mark or line.strip()[4]
        elif bare and not bare.startswith(COMMENT):
            if passed and any(line.count(d) == passed[-1][1].count(d) > 0 for d in ([mark] if mark else DELIMITERS)):
                return passed[-1][0], mark
            return at, mark
        if bare.startswith(COMMENT):
            passed.append((at, line))
        at += len(line)
    return (passed[0][0], mark) if passed and at == len(text) else (at, mark)


def _delimiter(text: str, own: str, ended: bool) -> str:
    """The one that the suffix stands for where it divides all records alike; else the one that makes most fields so.

    A guess from the frequency of characters, as that of Python's csv module, is misled by commas in quotes and in
    numbers; fields are counted here as they will be read.
    """
    widths = {mark: {len(r) for r in _records(text, mark, ended)} for mark in (own, *DELIMITERS)}
    even = {mark: max(found) for mark, found in widths.items() if len(found) == 1 and max(found) > 1}
    if own in even or not even:
        return own
    return max(even, key=lambda mark: even[mark])


def _by_header(text: str, own: str) -> str:
    """The delimiter that makes most fields of the header, that of the suffix where others make as many."""
    fields = {mark: len(next(_parsed(text, mark), [])) for mark in (own, *DELIMITERS)}
    return max(fields, key=lambda mark: fields[mark])


def _records(text: str, delimiter: str, ended: bool) -> list[list[str]]:
    """The first records as they are read, the header in front; comments and the last one, which may be cut, are not."""
    found = list(islice(_parsed(text, delimiter), LOOKING.records + 1))
    if not ended and len(found) > 2 and len(found) <= LOOKING.records:
        del found[-1]
    return found or [[]]


def _parsed(text: str, delimiter: str) -> Iterator[list[str]]:
    width = None
    with suppress(csv.Error):
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if row and (width is None or len(row) == width or not row[0].startswith(COMMENT)):
                width = width or len(row)
                yield row
