"""Pages: facts into one HTML file that needs nothing else."""

from __future__ import annotations

import math
from functools import cache
from importlib.resources import files
from typing import Any

from sfumato.estimation import Estimate
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.reporting.facts import facts_of
from sfumato.reporting.figures import Facts
from sfumato.reporting.words import words


def public_report(
    mechanism: Mechanism, certificate: Any, released: Estimate | None = None, *, manifest: Any = None,
    title: str | None = None, level: float = 0.95, file: str = "released.mechanism.json",
) -> str:
    """The page for everyone: nothing in it was computed from private rows beyond the mechanism file and the
    released rows, because it is given nothing else."""
    return page(facts_of(mechanism, certificate, released, manifest=manifest, title=title, level=level, file=file))


def private_report(
    mechanism: Mechanism, certificate: Any, released: Estimate | None, truth: Joint, *, manifest: Any = None,
    title: str | None = None, level: float = 0.95, file: str = "released.mechanism.json",
) -> str:
    """The page for those who may see the true table: the public one, and the comparison with the truth."""
    return page(facts_of(
        mechanism, certificate, released, truth=truth, manifest=manifest, title=title, level=level, file=file
    ))


def page(found: Facts) -> str:
    """The HTML of a set of facts."""
    return str(_template().render(f=found, w=words(found)))


@cache
def _template() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    home = files(__package__)
    environment = Environment(
        loader=FunctionLoader(lambda name: home.joinpath(name).read_text("utf-8")), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, number=number, short=short, count=count)
    return environment.get_template("page.html")


def percent(x: float | None) -> str:
    """A share as a percentage that does not break over lines: 0.0312 → 3.1 %."""
    if x is None:
        return "–"
    shown = 100 * x
    if 0 < shown < 0.01:
        return "<\u00a00.01\u00a0%"
    return f"{shown:.2f}\u00a0%" if shown < 1 else f"{shown:.1f}\u00a0%"


def number(x: float | None, digits: int = 3) -> str:
    if x is None:
        return "–"
    return "unlimited" if math.isinf(x) else f"{x:,.{digits}f}" if abs(x) < 1000 else f"{x:,.0f}"


def count(x: int | None) -> str:
    return "–" if x is None else f"{x:,}"


def short(text: str, most: int = 26) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
