"""What ε means: guesses and beliefs, as dots and as limits. Nothing here is estimated: these are the definitions."""

from __future__ import annotations

import math

from sfumato.reporting.comparison_page import Axes, ChartLine, chart
from sheet import Sheet

LEVELS = (0.1, 0.5, 1.0, 2.0, 4.0)
RARE = 0.01


def raised(p: float, epsilon: float) -> float:
    """The greatest belief after a release that changes odds by e^ε at most."""
    return p / (p + math.exp(-epsilon) * (1 - p))


def up(share: float) -> int:
    """Dots of a hundred for a limit: never fewer than it."""
    return math.ceil(100 * share - 1e-9)


def epsilon() -> str:
    """A guess between two equally likely values, and a belief of one in a hundred, before and after."""
    told = "; ".join(
        f"ε = {e:g}: {up(raised(0.5, e))} of 100 guesses, {100 * raised(RARE, e):.3g} in 100 believed" for e in LEVELS
    )
    sheet = Sheet(860, 330, "What a released row can tell, at five levels", told)
    sheet.text(20, 30, "A guess between two equally likely values is right 50 times in 100 (blue).", bold=True)
    sheet.text(
        20,
        50,
        "After seeing the released row it is right at most this often (orange is what the row adds):",
        kind="soft",
    )
    for i, e in enumerate(LEVELS):
        x = 30 + 168 * i
        full = up(raised(0.5, e))
        sheet.text(x - 6, 86, f"ε = {e:g}", size=17, bold=True)
        sheet.text(x + 132, 86, f"≤ {full}", size=17, at="end", kind="orange", bold=True)
        sheet.hundred(x, 106, full, 50)
    sheet.line((20, 258), (840, 258))
    sheet.text(20, 284, "Somebody who believed 1 in 100 believes, after the row, at most:", kind="soft")
    for i, e in enumerate(LEVELS):
        shown = math.ceil(1000 * raised(RARE, e) - 1e-9) / 10
        sheet.text(24 + 168 * i, 312, f"{shown:g} in 100", size=16, bold=True)
    return sheet.document()


def pml() -> str:
    """The belief after a release against the belief before, at ε = 1: what each promise allows."""
    at = [i / 20 for i in range(21)]
    e = math.e
    lines = [
        ChartLine("PML, at most", tuple((p, min(1.0, e * p)) for p in at)),
        ChartLine("LIP, at most", tuple((p, min(e * p, 1 - (1 - p) / e)) for p in at)),
        ChartLine("RLDP, at most", tuple((p, raised(p, 1.0)) for p in at)),
        ChartLine("nothing released", tuple((p, p) for p in at), True),
        ChartLine("RLDP, at least", tuple((p, raised(p, -1.0)) for p in at)),
        ChartLine("LIP, at least", tuple((p, max(p / e, 1 - e * (1 - p))) for p in at)),
        ChartLine("PML, at least", tuple((p, 0.0) for p in at)),
    ]
    axes = Axes(
        "Beliefs after a release, at ε = 1",
        "the belief in a value before",
        "the belief after a release",
        log_x=False,
        percent=True,
    )
    return chart(
        axes,
        lines,
        "Under RLDP odds move by a factor e at most; LIP bounds the ratio of beliefs both ways; PML "
        "bounds it from above only, so a value may be ruled out.",
    )


def choose() -> str:
    """Choose in a minute: three questions, six answers."""
    sheet = Sheet(
        860,
        400,
        "Choose in a minute",
        "An attacker who knows the person: srr. Otherwise, for single values near the "
        "truth: distortion or hamming; for shares and tables: precise; for everything else ballopt, or a bundle "
        "where there are many columns.",
    )

    def question(x: float, y: float, words: str) -> None:
        sheet.box(x, y, 250, 44, kind="pale")
        sheet.text(x + 125, y + 27, words, at="middle", bold=True)

    def answer(y: float, name: str, why: str) -> None:
        sheet.box(520, y, 320, 52, kind="faint", edge="green")
        sheet.text(536, y + 22, name, size=15, kind="green", bold=True)
        sheet.text(536, y + 42, why, kind="soft", size=12)

    def arrow(*points: tuple[float, float], words: str, x: float, y: float) -> None:
        sheet.line(*points, kind="soft", thick=1.4)
        (x1, y1), (x2, y2) = points[-2:]
        turn = math.atan2(y2 - y1, x2 - x1)
        sheet.line(
            *((x2 - 8 * math.cos(turn + a), y2 - 8 * math.sin(turn + a)) if a else (x2, y2) for a in (0.45, 0, -0.45)),
            kind="soft",
            thick=1.4,
        )
        sheet.text(x, y, words, size=12)

    question(20, 24, "Whom do you fear?")
    question(20, 158, "What is the release for?")
    question(20, 306, "How many useful columns?")
    answer(20, "srr", "holds for every distribution, and adds up")
    answer(110, "distortion, hamming", "answers near the true value")
    answer(176, "precise", "the smallest errors of estimated shares")
    answer(268, "ballopt", "the most that the promise lets through")
    answer(334, "bundle", "many parts under one promise")
    arrow((270, 46), (514, 46), words="somebody who knows the person", x=284, y=40)
    arrow((145, 68), (145, 152), words="somebody who knows statistics", x=155, y=114)
    arrow((270, 172), (490, 172), (490, 136), (514, 136), words="single values (ages, grades)", x=284, y=166)
    arrow((270, 190), (490, 190), (490, 202), (514, 202), words="shares and tables", x=284, y=208)
    arrow((145, 202), (145, 300), words="bits: whatever readers may ask", x=155, y=256)
    arrow((270, 320), (490, 320), (490, 294), (514, 294), words="few: up to some 10,000 cells", x=284, y=314)
    arrow((270, 338), (490, 338), (490, 360), (514, 360), words="many", x=284, y=356)
    return sheet.document()
