"""Pages: facts into one HTML file that needs nothing else, written whole or not at all."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from sfumato.atomic import check_target, write_all
from sfumato.decimals import BITS, at_most, near, percent, share_at_most
from sfumato.designers.worth import Z95
from sfumato.errors import InputError
from sfumato.frames import digest, embedded, environment, part_of
from sfumato.joint import Joint
from sfumato.mechanism import Bundle, Mechanism
from sfumato.reporting.facts import Truth, facts_of
from sfumato.reporting.figures import VAGUE, Curve, Facts
from sfumato.reporting.words import Told, words
from sfumato.tolerances import ALIKE, NAMED

if TYPE_CHECKING:
    from typing import Unpack

    from jinja2 import Template

    from sfumato.certification.certificate import Certificate
    from sfumato.drawing.manifest import Manifest
    from sfumato.estimation.bundle_tables import BundleEstimate
    from sfumato.estimation.result import Estimate

UNLIMITED = 1000.0  # a change of the odds by more than this limits nothing that anybody would notice


def private_path(path: str | os.PathLike[str]) -> Path:
    """Where the private report lies: released.report.html → released.private-report.html.

    >>> private_path("out/released.report.html").name
    'released.private-report.html'
    """
    target = Path(path)
    return target.with_name(target.name.removesuffix(".html").removesuffix(".report") + ".private-report.html")


class ReportOptions(TypedDict, total=False):
    """What a page may be told beside its facts."""

    manifest: Manifest | None
    title: str | None
    level: float
    file: str


def write_reports(
    path: str | os.PathLike[str], mechanism: Mechanism | Bundle, certificate: Certificate | None,
    released: Estimate | BundleEstimate | None = None, *, truth: Joint | Truth | None = None,
    private: str | os.PathLike[str] | None = None, force: bool = False, **options: Unpack[ReportOptions],
) -> tuple[Path, ...]:
    """Write the public report to `path` and, when the true table is given, the private one beside it."""
    pages = {Path(path): public_report(mechanism, certificate, released, **options)}
    if truth is not None:
        second = private_path(path) if private is None else Path(private)
        if second in pages:
            raise InputError(f"the public and the private report cannot both be {second}.")
        pages[second] = private_report(mechanism, certificate, released, truth, **options)
    for target in pages:
        check_target(target, None, force=force)
    write_all({target: text.encode() for target, text in pages.items()}, replace=force)
    return tuple(pages)


def public_report(
    mechanism: Mechanism | Bundle, certificate: Certificate | None, released: Estimate | BundleEstimate | None = None,
    **options: Unpack[ReportOptions],
) -> str:
    """The page for everyone: nothing in it was computed from private rows beyond the mechanism file and the
    released rows, because it is given nothing else."""
    return page(facts_of(mechanism, certificate, released, **options))


def private_report(
    mechanism: Mechanism | Bundle, certificate: Certificate | None, released: Estimate | BundleEstimate | None,
    truth: Joint | Truth, **options: Unpack[ReportOptions],
) -> str:
    """The page for those who may see the true table: the public one, and the comparison with the truth."""
    return page(facts_of(mechanism, certificate, released, truth=truth, **options))


def page(found: Facts) -> str:
    """The HTML of a set of facts."""
    script, told = part_of(__package__, "page.js"), words(found)
    return str(_template().render(
        f=found, w=told, vague=VAGUE, few=NAMED, data=_data(found, told["change"]), script=script,
        style=part_of(__package__, "page.css"), script_hash=digest(script),
    ))


def _data(found: Facts, change: Told) -> str:
    """What the script draws from; `change` is what e^ε bounds."""
    h, c = found.heat, found.curve
    return embedded({
        "useful": found.useful,
        "heat": None if h is None else {
            "rows": h.row_labels, "columns": h.column_labels, "values": [[_six(x) for x in row] for row in h.values],
            "shares": [_six(x) for x in h.shares], "seen": [_six(x) for x in h.seen], "rest": h.rest,
            "unary": h.outputs is None,
        },
        "curve": None if c is None or c.whole <= 0 else {
            "stops": c.stops, "chosen": c.chosen, "whole": c.whole, "limit": c.limit, "kept": c.kept,
            "error": _told(c.error), "own": any(s.key == "own" for s in c.series),
            "series": [{"label": s.label, "bits": s.bits, "errors": [_told(x) for x in s.errors]} for s in c.series],
            "priors": c.priors, "beliefs": [[most(x) for x in row] for row in c.beliefs],
            "most": [most(x / c.whole) for x in c.limit], "factors": [factor(math.exp(x)) for x in c.stops],
            "change": change,
        },
    })


def _six(x: float) -> float:
    return float(f"{x:.6g}")


def _told(error: float | None) -> float | str | None:
    """JSON has no infinity."""
    return "unlimited" if error == math.inf else error


@cache
def _template() -> Template:
    filling = environment(__package__)
    filling.filters.update(
        percent=shown_share, number=number, short=short, count=count, points=in_points,
        most=most, level=level, factor=factor, rows=rows, leak=leak, heatcell=heatcell, ticks=ticks,
        curve_words=curve_words,
    )
    return filling.get_template("page.html")


def shown_share(x: float | None) -> str:
    """A share as a percentage that does not break over lines: 0.0312 → 3.1 %."""
    if x is None:
        return "–"
    shown = "< 0.01 %" if 0 < 100 * x < 0.01 else percent(x, 0 if x == 0 else 2 if 100 * x < 1 else 1)
    return shown.replace(" ", "\u00a0")


def most(x: float) -> str:
    """A share that is a limit, rounded up."""
    return share_at_most(x).replace(" ", "\u00a0")


def level(x: float, digits: int = BITS) -> str:
    """A number that is a limit, rounded up."""
    return "unlimited" if math.isinf(x) else at_most(x, digits)


def factor(x: float) -> str:
    """A factor that is a limit; one that lets everything through is not spelled out."""
    return "practically unlimited" if x > UNLIMITED else f"×\u00a0{level(x, 3)}"


def number(x: float | None, digits: int = 3) -> str:
    if x is None:
        return "–"
    return "unlimited" if math.isinf(x) else f"{x:,.{digits}f}" if abs(x) < 1000 else f"{x:,.0f}"


def in_points(x: float | None) -> str:
    """The ± of a share with this standard error in percentage points: 95 %, as wherever errors are told."""
    if x is None:
        return "–"
    return f"±\u00a0{near(100 * Z95 * x, 2)}" if Z95 * x < 1 else "not fixed" if math.isinf(x) else "over 100"


def rows(x: float | None) -> str:
    return "–" if x is None else "less than 1" if x < 1 else f"{x:,.0f}"


def leak(x: float, unit: str) -> str:
    """A measure of leakage: nats, or a share."""
    if math.isinf(x):
        return "unlimited"
    return f"{x:.4f}" if unit == "nats" else shown_share(x)


def heatcell(x: float) -> str:
    """A probability in percent, in as few signs as a small cell has room for."""
    shown = 100 * x
    if x == 0:
        return "0"
    return f"{shown:.0f}" if shown >= 9.95 else f"{shown:.1f}" if shown >= 0.05 else "~0"


def ticks(curve: Curve) -> list[float]:
    """Levels named on the axis."""
    wide = curve.stops[-1]
    step = next(s for s in (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, math.inf) if wide / s <= 8)
    return [0.0] if math.isinf(step) else [i * step for i in range(int(wide / step + ALIKE) + 1)]


def curve_words(c: Curve) -> str:
    """The picture in words, for those who cannot see it."""
    def share(x: float) -> str:
        return shown_share(x / c.whole if c.whole > 0 else 0.0)

    text = (
        f"Line chart of the share of information kept against ε. The limit of every mechanism rises from "
        f"{share(c.limit[0])} at ε = {c.stops[0]:g} to {share(c.limit[-1])} at ε = {c.stops[-1]:g}."
    )
    for s in c.series:
        known = [(e, x) for e, x in zip(c.stops, s.bits, strict=True) if x is not None]
        text += (
            f" {s.label.capitalize()}: from {share(known[0][1])} at ε = {known[0][0]:g} to "
            f"{share(known[-1][1])} at ε = {known[-1][0]:g}."
        )
    here = "" if c.kept is None else f" This release keeps {share(c.kept)} at ε = {c.stops[c.chosen]:g}."
    return text + here + " The table below has the same numbers."


def count(x: int | None) -> str:
    return "–" if x is None else f"{x:,}"


def short(text: str, most: int = 26) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
