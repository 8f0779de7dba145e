"""Charts of what the benchmarks wrote: read from the tables of the pages, so that both say the same."""

from __future__ import annotations

import math
import re
from pathlib import Path

from sheet import Sheet

DOCS = Path(__file__).parent.parent


def _rows(page: str, head: str) -> list[dict[str, str]]:
    """Every row of every table of a page whose first column is called `head`."""
    found: list[dict[str, str]] = []
    names: list[str] = []
    for line in (DOCS / page).read_text("utf-8").splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            names = []
        elif not names:
            names = cells
        elif names[0] == head and not set(cells[0]) <= set("-: "):
            found.append(dict(zip(names, cells, strict=False)))
    return found


def _number(text: str) -> float:
    seen = re.search(r"\d[\d,]*\.?\d*(?:e-?\d+)?", text)
    return float(seen[0].replace(",", "")) if seen else math.nan


def _bars(title: str, told: str, rows: list[tuple[str, float, str]], *, marks: tuple[float, ...], words: str) -> str:
    """Lying bars from 1 on a scale of ratios; each says its number."""
    low, high = min(marks[0], *(v for _, v, _ in rows)), max(marks[-1], *(v for _, v, _ in rows))
    sheet = Sheet(860, 96 + 24 * len(rows), title, told)
    sheet.text(20, 30, title, size=16, bold=True)
    sheet.text(20, 50, words, kind="soft")

    def at(v: float) -> float:
        return 330 + 410 * math.log(v / low) / math.log(high / low)

    bottom = 66 + 24 * len(rows)
    for mark in marks:
        sheet.line((at(mark), 62), (at(mark), bottom), kind="ink" if mark == 1 else "grid")
        sheet.text(at(mark), bottom + 18, f"{mark:g}", kind="soft", size=12, at="middle")
    for i, (name, value, label) in enumerate(rows):
        y, ends = 66 + 24 * i, sorted((at(1.0), at(value)))
        sheet.text(320, y + 15, name, size=12, at="end")
        sheet.box(ends[0], y + 3, max(ends[1] - ends[0], 1), 16, kind="blue" if value <= 1 else "orange", round=2)
        sheet.text(ends[1] + 6, y + 15, label, size=12)
    return sheet.document()


def benchmarks() -> str:
    """What was measured as a share of the limit that was set; left of the line is within it."""
    rows = []
    for row in _rows("benchmarks.md", "what"):
        limit = re.match(r"(<|≤|≥|>)\s*([\d.]+)(.*)", row["limit"])
        figure = _number(row["figure"])
        if limit and figure > 0 and float(limit[2]) > 0:
            share = figure / float(limit[2]) if limit[1] in "<≤" else float(limit[2]) / figure
            rows.append((row["what"].replace("sealed and certified", row["size"].split(",")[0]), share, row["figure"]))
    worst: dict[str, tuple[str, float, str]] = {}
    for name, share, label in rows:
        if name not in worst or share > worst[name][1]:
            worst[name] = (name, share, label)
    kept = sorted(worst.values(), key=lambda r: -r[1])[:26]
    missed = sum(r[1] > 1 for r in kept)
    return _bars(
        "Measured against its limit",
        f"{len(kept)} figures, nearest to their limits first; {missed} miss theirs.",
        kept,
        marks=(0.01, 0.1, 1.0),
        words="1 is the limit that was set; a bar to the left is within it, the number is what was measured",
    )


def columns() -> str:
    """How much smaller the error of a bundle is than that of noise for every column."""
    found = [
        (row["what"].removeprefix("bundle, "), _number(row["figure"]))
        for row in _rows("benchmarks.md", "what")
        if row["what"].startswith("bundle,") and "smaller error" in row["figure"]
    ]
    names = {
        "together": "all parts answered together",
        "in turn": "one part a row, nothing assumed",
        "tree": "IF the columns form a tree",
        "tables": "one part a row, tables in their balls",
    }
    rows = [(names[name], v, f"{v:g} times smaller") for name, v in found]
    return _bars(
        "Ten columns of eight values: error against noise for every column",
        ", ".join(f"{n}: {v:g}" for n, v in found),
        rows,
        marks=(1.0, 10.0, 100.0, 1000.0),
        words="how many times smaller the error over all 66 tables is, at ε = 1 and 100,000 rows",
    ).replace('class="orange"', 'class="blue"')


def errors() -> str:
    """The best ordinary protocol's error over ours, read from the page of errors."""
    text = (DOCS / "errors.md").read_text("utf-8")
    rows = []
    for part in text.split("\n## ")[1:]:
        seen = re.search(r"over ours: ([\d.]+) on the useful marginal, ([\d.]+) on the whole table", part)
        if seen:
            title = part.splitlines()[0]
            rows += [
                (f"{title}: whole table", float(seen[2]), f"{seen[2]} times"),
                (f"{title}: useful column", float(seen[1]), f"{seen[1]} times"),
            ]
    return _bars(
        "Errors of ordinary protocols over ours, at the same promise",
        "; ".join(f"{n}: {v:g}" for n, v, _ in rows),
        rows,
        marks=(1.0, 2.0, 5.0),
        words="1: as good as precise; to the right: how many times larger the best protocol's error is",
    ).replace('class="orange"', 'class="blue"')
