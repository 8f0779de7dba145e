"""The page of running estimates: a table for each question, with intervals as bars."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from sfumato.alphabet import MISSING
from sfumato.survey.page import policy_of


def estimates_page(n: int, tables: list[dict[str, Any]]) -> str:
    """The HTML of what can be said so far."""
    script, style = _text("estimates.js"), _text("estimates.css")
    return str(_template().render(
        n=f"{n:,}", tables=tables, missing=MISSING, script=script, style=style, policy=policy_of(script, style, None)
    ))


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined).from_string(_text("estimates.html"))
