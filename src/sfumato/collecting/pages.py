"""The page of running estimates: a table for each question, with intervals as bars."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from sfumato.alphabet import MISSING


def estimates_page(n: int, tables: list[dict[str, Any]]) -> str:
    """The HTML of what can be said so far."""
    return str(_template().render(n=f"{n:,}", tables=tables, missing=MISSING))


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined).from_string(
        files(__package__).joinpath("estimates.html").read_text("utf-8")
    )
