"""Prose and tables for a file or a pipe, as rich would print them, without loading it.

Returns None where rich has to decide: at a terminal, in colour, with wide characters, or where a table must shrink.
Where rich is not installed nothing else decides, and such text comes as it is.
"""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TextIO

ALONE = find_spec("rich") is None
COLOURED = ("FORCE_COLOR", "TTY_COMPATIBLE", "JPY_PARENT_PID")  # with these rich colours what goes into a pipe
GAP, BETWEEN = "  ", "   "  # after a name, and between the columns of a table


def window(stream: TextIO) -> int | None:
    """How many columns a stream that is no terminal has; None where it is one, or is to be treated as one."""
    if not ALONE and (stream.isatty() or any(map(os.environ.get, COLOURED))):
        return None
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    for descriptor in (0, 1, 2):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            return os.get_terminal_size(descriptor).columns or 80
    return 80


def paragraph(text: str, width: int) -> list[str] | None:
    """The lines of a text, broken between words, and within those that are longer than a line."""
    if not _narrow(text):
        return None
    lines: list[str] = []
    for line in text.split("\n"):
        made = [""]
        for word in re.findall(r"\s*\S+\s*", line):
            letters = len(word.rstrip())
            if letters > width:
                pieces = [word[i : i + width] for i in range(0, len(word), width)]
                made = [*filter(None, made), *pieces]
            elif letters > width - len(made[-1]) and made[-1]:
                made.append(word)
            else:
                made[-1] += word
        lines += [part.rstrip() for part in made]
    return lines


def named(rows: Sequence[tuple[str, str]], width: int) -> list[str] | None:
    """Names on the left, what they are on the right, wrapped beside them."""
    left = max((len(name) for name, _ in rows), default=0)
    right = width - left - len(GAP)
    lines: list[str] = []
    for name, text in rows:
        made = paragraph(text, right) if right > 0 and _narrow(name) and "\n" not in name else None
        if made is None:
            return None
        lines += [f"{(name if not i else '').ljust(left)}{GAP}{part}".rstrip() for i, part in enumerate(made)]
    return lines


def table(names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int) -> list[str] | None:
    """Columns under a head and a thin rule; None where they do not fit."""
    cells = [names, *rows]
    widest = [max(1, *(len(row[i]) for row in cells)) for i in range(len(names))]
    fits = ALONE or (bool(rows) and sum(widest) + len(BETWEEN) * (len(names) - 1) <= width)
    if not fits or (not ALONE and not all(_plain(x) for row in cells for x in row)):
        return None

    def line(row: Sequence[str]) -> str:
        placed = (x.rjust(w) if r else x.ljust(w) for x, w, r in zip(row, widest, right, strict=True))
        return BETWEEN.join(placed).rstrip()

    rule = "─" * (sum(widest) + len(BETWEEN) * (len(names) - 1))
    return [line(names), rule, *map(line, rows)]


def _plain(cell: str) -> bool:
    """Whether a cell is words with single spaces between them."""
    return _narrow(cell) and cell == " ".join(cell.split())


def _narrow(text: str) -> bool:
    """Whether every character takes one column."""
    odd = (c == "\t" or unicodedata.combining(c) or unicodedata.east_asian_width(c) in "WF" for c in text)
    return ALONE or not any(odd)
