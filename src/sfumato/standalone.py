"""Standalone pages: one HTML file that needs nothing else, with its script, style and data inside."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from sfumato.libraries import jinja2

if TYPE_CHECKING:
    from sfumato.frames import Datum


@cache
def part_of(package: str, name: str) -> str:
    """A file of a page, which lies in the package that makes it."""
    return files(package).joinpath(name).read_text("utf-8")


@cache
def environment(package: str) -> jinja2.Environment:
    """What fills the templates of a package."""
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: part_of(package, name)), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )


def digest(text: str) -> str:
    """A script or a style as a Content-Security-Policy names it: nothing else may run beside it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded(content: Datum) -> str:
    """What a script works from, as JSON that can neither end its element nor hide an address."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text.replace("//", "/\\u002f")
