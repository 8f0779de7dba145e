"""What people see: prose and tables on stdout, notices and progress on stderr, one JSON document with --json."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO, TypeAlias

from sfumato.decimals import BITS, at_most, capitalised, near
from sfumato.errors import spelled
from sfumato.frames import as_json
from sfumato.libraries import rich

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import ProgressColumn

    from sfumato.frames import Record
    from sfumato.optimise.budget import Heard
    from sfumato.releasing.wishes import Notice, Tell, Total

A_MOMENT = 2.0  # seconds of a search that nobody need be told of
HOW_LONG = ("this search takes some ten seconds as a rule, and a few minutes on a busy machine. A release of what it "
            "finds is refused where it would be worth next to nothing. --time-limit SECONDS ends it sooner.")
LONGEST_LINE = 110  # lines of prose longer than this are hard to read
WORD = 24  # letters of a word that is not broken over lines
ROOM = 76  # columns of text from which a table has room for a plot, or for a column that explains


def screen(*, err: bool = False, wide: bool = False) -> rich.console.Console:
    """A console on stdout or stderr as they are now; plain when piped. Tables are `wide` and use the whole window."""
    stream = sys.stderr if err else sys.stdout
    console = rich.console.Console(file=stream, highlight=False, emoji=False, markup=False)
    if not wide:
        console.width = min(console.width, LONGEST_LINE)
    return console


def written(text: str, style: str = "") -> rich.text.Text:
    """Text as it can be shown: names and labels come from files, and must not steer the terminal."""
    return rich.text.Text(printable(text), style)


def printable(text: str) -> str:
    """The text with its options as a shell writes them, and without control characters.

    >>> printable("a\\x1b[31mb")
    'a�[31mb'
    """
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in spelled(text, shell=True))


def _show(
    lines: Callable[[int], list[str] | None], content: Callable[[], RenderableType], *, err: bool = False,
    wide: bool = False,
) -> None:
    """Lines for a file or a pipe, which need no rich; what rich makes of it at a terminal, and where lines do not do.
    """
    stream = sys.stderr if err else sys.stdout
    room = window(stream)
    made = None if room is None else lines(room if wide else min(room, LONGEST_LINE))
    if made is None:
        console = screen(err=err, wide=wide)
        if console.is_terminal:
            console.print(content())
            return
        with console.capture() as captured:
            console.print(content())
        made = [line.rstrip() for line in captured.get().removesuffix("\n").split("\n")]  # which rich has padded
    stream.write("\n".join([*made, ""]))
    stream.flush()


def story(text: str, *, err: bool = False, style: str = "") -> None:
    """A paragraph."""
    _show(lambda room: paragraph(printable(text), room), lambda: written(text, style), err=err)


def heading(text: str) -> None:
    story(text, style="bold")


def notice(told: Notice) -> None:
    """A box on stderr that cannot be missed."""
    text = spelled("\n".join(told.paragraphs), shell=True)
    if ALONE:
        story(f"\n{told.title}\n{text}\n", err=True)
        return
    head, body = written(told.title, "bold"), written(text)
    panel = rich.panel.Panel(body, title=head, title_align="left", border_style="bold yellow", padding=(0, 1))
    _show(lambda room: None, lambda: panel, err=True)


def pairs(rows: Sequence[tuple[str, str]]) -> None:
    """Names on the left, what they are on the right, wrapped beside them."""
    shown = [(printable(name), printable(text)) for name, text in rows]

    def grid() -> rich.table.Table:
        made = rich.table.Table.grid(padding=(0, 2))
        made.add_column(no_wrap=True)
        made.add_column(overflow="fold")
        for name, text in shown:
            made.add_row(written(name, "bold"), written(text))
        return made

    _show(lambda room: named(shown, room), grid)


def columns(names: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int = 0, plots: int = 0) -> None:
    """A table with a thin rule under its head; the last columns are plots, and those before them numbers, set right."""
    rights = [len(names) - numbers - plots <= i < len(names) - plots for i in range(len(names))]
    cells = [[printable(cell) for cell in row] for row in rows]
    _show(lambda room: table([*map(printable, names)], cells, rights, room), lambda: _table(names, rows, rights),
          wide=True)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], rights: Sequence[bool]) -> rich.table.Table:
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i, (name, right) in enumerate(zip(names, rights, strict=True)):
        whole = any(rights[: i + 1])  # numbers and what is drawn of them are not broken over lines
        longest = max((len(word) for cell in (name, *(row[i] for row in rows)) for word in cell.split()), default=1)
        table.add_column(written(name), justify="right" if right else "left", no_wrap=whole, overflow="fold",
                         min_width=None if whole else min(longest, WORD))
    for row in rows:
        table.add_row(*(written(cell) for cell in row))
    return table


BLOCKS = "▁▂▃▄▅▆▇█"


def spark(values: Sequence[float | None], high: float | None = None) -> str:
    """A curve in one line of text; a dot where there is no value.

    >>> spark([0, 1, None, 2])
    '▁▅·█'
    """
    known = [v for v in values if v is not None and math.isfinite(v)]
    top = max(known, default=1.0) if high is None else high
    span = top if top > 0 else 1.0
    place = [None if v is None or not math.isfinite(v) else min(max(v / span, 0.0), 1.0) for v in values]
    return "".join("·" if x is None else BLOCKS[round(x * (len(BLOCKS) - 1))] for x in place)


def span(low: float, at: float, high: float, top: float, cells: int = 20) -> str:
    """An interval with its estimate on an axis from 0 to `top`, in one line of text.

    >>> span(0.2, 0.5, 0.8, 1.0, cells=11)
    '  ├──●──┤  '
    """
    a, m, b = (round(min(max(x / top if top > 0 else 0.0, 0.0), 1.0) * (cells - 1)) for x in (low, at, high))
    m = min(max(m, 1), cells - 2)  # so that both whiskers are seen
    a, b = min(a, m - 1), max(b, m + 1)
    line = [" "] * cells
    line[a : b + 1] = "─" * (b + 1 - a)
    line[a], line[b], line[m] = "├", "┤", "●"
    return "".join(line)


def width(*, wide: bool = False) -> int:
    """Columns of text that fit, in prose or in a table."""
    return screen(wide=wide).width


def plots_fit() -> bool:
    """Whether there is somebody to look at small plots, and room for them."""
    if window(sys.stdout) is not None:
        return False
    console = screen()
    return console.is_terminal and console.width >= ROOM


@contextlib.contextmanager
def _line(what: str, *shown: ProgressColumn, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A line on stderr while something runs; the function that is yielded changes it."""
    parts = rich.progress
    with parts.Progress(
        parts.SpinnerColumn(), parts.TextColumn("{task.description}", markup=False), *shown, parts.TimeElapsedColumn(),
        console=screen(err=True), transient=True,
    ) as running:
        yield partial(running.update, running.add_task(printable(what), total=total, told=""))


def watched() -> bool:
    """Whether somebody looks at stderr while something runs."""
    return not ALONE and sys.stderr.isatty()


@contextlib.contextmanager
def progress(what: str, total: Total = None, *, rows: bool = False) -> Iterator[Tell]:
    """A line on stderr while something runs, told how many rows are done; nothing when it is not a terminal.

    With `rows` it shows rows per second, and the time left where the number of rows is known or can be guessed:
    `total` is that number, or a function that gives it for the rows done.
    """
    if not watched():
        yield lambda rows: None
        return
    parts = rich.progress
    shown = [parts.TextColumn("{task.completed:,} rows"), parts.TextColumn("{task.fields[told]}")] if rows else []
    ending = [parts.BarColumn(20), parts.TimeRemainingColumn(), parts.TextColumn("left")] if total else []
    with _line(what, *shown, *ending, total=total if isinstance(total, int) else None) as change:
        start = time.monotonic()

        def tell(done: int) -> None:
            rate = f"{done / max(time.monotonic() - start, 1e-9):,.0f} rows/s"
            guess = total(done) if callable(total) else total
            change(completed=done, told=rate, total=None if guess is None else max(guess, done))

        yield tell


@contextlib.contextmanager
def searching(what: str) -> Iterator[Heard | None]:
    """A line on stderr while a search runs: its stage, its value, what is out of reach, the time left. Where it is not
    a terminal, a line that stays, once it takes longer than a moment."""
    if watched():
        with _line(what, rich.progress.TextColumn("{task.fields[told]}", markup=False)) as change:
            yield lambda *heard: change(told=search_words(*heard))
        return
    later = threading.Timer(A_MOMENT, story, [f"{capitalised(what)}: {HOW_LONG}"], {"err": True})
    later.daemon = True
    later.start()
    try:
        yield None
    finally:
        later.cancel()


STAGES = {  # what a search is doing, in words
    "starts": "known mechanisms", "others": "known designs", "carried": "the last level's design", "outside": "bounds",
    "product": "products", "prices": "products", "spikes": "tall rows", "coarser": "a coarser table",
    "moves": "better rows", "rows": "better rows", "blocks": "blocks",
}


def search_words(stage: str, value: float, bound: float, left: float) -> str:
    """How a search goes, in a few words; a search for estimates tells minus the variance that one row would leave.

    >>> search_words("rows", 0.61234, 0.67, 12.3), search_words("blocks", -1.44, math.inf, 0.0)
    ('better rows: keeps 0.6123 nats of at most 0.67, 13 s left', 'blocks: error 1.2/√rows, ending')
    """
    name = "what is out of reach" if stage.startswith("bound") else STAGES.get(stage, stage)
    most = f" of at most {at_most(bound, BITS)}" if math.isfinite(bound) else ""
    found = f"keeps {near(value, BITS)} nats{most}" if value >= 0 else f"error {near(math.sqrt(-value), BITS)}/√rows"
    time_left = (", ending" if left < 1 else f", {math.ceil(left)} s left") if math.isfinite(left) else ""
    return f"{name}: {found if math.isfinite(value) else 'nothing yet'}{time_left}"


@dataclass(frozen=True, slots=True)
class Screen:
    """The terminal as a listener of a release."""
    quiet: bool = False  # a program reads what comes out: choices are in the document

    step = staticmethod(progress)
    search = staticmethod(searching)
    warn = staticmethod(notice)

    def say(self, text: str) -> None:
        if not self.quiet:
            story(text, err=True)


@dataclass(frozen=True, slots=True)
class Board:
    """What is shown while many pieces of work are done."""
    tell: Callable[[int, str], None]  # how many are done, and the last of them
    table: Callable[[Sequence[str], Sequence[Sequence[str]], int], None]  # what there is so far, with so many numbers


@contextlib.contextmanager
def board(what: str, total: int) -> Iterator[Board]:
    """A bar on stderr for many pieces of work, and above it a table of what is there so far; nothing when piped."""
    if not watched():
        yield Board(lambda done, last: None, lambda names, rows, numbers: None)
        return
    parts = rich.progress
    bar = parts.Progress(
        parts.TextColumn("{task.description}", markup=False), parts.BarColumn(), parts.MofNCompleteColumn(),
        parts.TimeRemainingColumn(), parts.TextColumn("{task.fields[last]}", markup=False), console=screen(err=True),
    )
    task = bar.add_task(printable(what), total=total, last="")
    with rich.live.Live(bar, console=bar.console, transient=True, vertical_overflow="crop") as live:
        def table(names: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> None:
            rights = [i >= len(names) - numbers for i in range(len(names))]
            live.update(rich.console.Group(_table(names, rows, rights), bar))

        yield Board(lambda done, last: bar.update(task, completed=done, last=printable(last)), table)


Answer: TypeAlias = "Record | Sequence[tuple[str, str]]"  # what a command found, for programs or for people


def show_answer(told: Answer) -> None:
    """What a command found: a document for programs, or lines for people."""
    if isinstance(told, dict):
        document(told)
    else:
        pairs(told)


def document(content: Record) -> None:
    """One JSON document on stdout; what cannot be printed is written as JSON's escapes."""
    text = json.dumps(as_json(content), ensure_ascii=False, indent=1, allow_nan=False)
    print("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


# --- prose and tables for a file or a pipe, as rich would print them, without loading it ------------------------------
# None where rich has to decide: at a terminal, in colour, with wide characters, or where a table must shrink. Where it
# is not installed nothing else decides, and such text comes as it is.


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
