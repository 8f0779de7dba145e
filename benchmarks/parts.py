"""Parts of a page that a command makes: what stands between <!-- name --> and <!-- end of name -->."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "two-promises.md"


def put(page: str, name: str, text: str) -> str:
    """The page with a part replaced.

    >>> put("a <!-- x -->old<!-- end of x --> b", "x", "new")
    'a <!-- x -->\\nnew\\n<!-- end of x --> b'
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"the page has no part {name!r}: it needs {begin} and {end}.")
    return f"{before}{begin}\n{text.strip()}\n{end}{after}"


class Both(io.StringIO):
    """Text that is shown as it comes, and held."""

    def write(self, text: str) -> int:
        sys.__stdout__.write(text)
        sys.__stdout__.flush()
        return super().write(text)


def run(name: str, make: Callable[[], None], *, write: bool) -> None:
    """Print what a benchmark prints, and put it into the page if asked."""
    with contextlib.redirect_stdout(Both()) as held:
        make()
    if write:
        PAGE.write_text(put(PAGE.read_text("utf-8"), name, held.getvalue()), "utf-8")
