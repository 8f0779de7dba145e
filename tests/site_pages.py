"""The built site, looked at in a browser: `python -m tests.site_pages site`, the last step of `make docs`.

It has to open from its folder without a network, set every formula, say nothing in the console, and be usable by
everyone: axe finds nothing serious on the pages that newcomers see, in light and in dark.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests import chromium

FIRST = ("index", "tutorial", "epsilon", "choosing")  # what newcomers see
OTHERS = ("robust", "funnel", "leakage", "reproduced", "notebooks/researcher", "benchmarks", "commands")
UNSET = "[...document.querySelectorAll('.math')].filter(m => !m.querySelector('.katex')).length"


def faults(site: Path) -> list[str]:
    """What is wrong with the pages of a site, in words."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium.path(), args=chromium.ARGUMENTS)
        looks = [(name, scheme) for name in FIRST for scheme in ("light", "dark")] + [
            (name, "light") for name in OTHERS
        ]
        found = [f"{name}, {scheme}: {fault}" for name, scheme in looks for fault in _seen(browser, site, name, scheme)]
        browser.close()
    return found


def _seen(browser: Any, site: Path, name: str, scheme: str) -> list[str]:
    found: list[str] = []
    context = browser.new_context(offline=True, color_scheme=scheme, viewport={"width": 390, "height": 900})
    page = context.new_page()
    page.on("console", lambda said: found.append(said.text))
    page.on("request", lambda asked: asked.url.startswith(("file:", "data:")) or found.append(f"asks for {asked.url}"))
    page.goto((site / f"{name}.html").resolve().as_uri())
    if page.evaluate("document.documentElement.scrollWidth") > 390:
        found.append("wider than a phone")
    if unset := page.evaluate(UNSET):
        found.append(f"{unset} formulas are not set")
    if name in FIRST:
        found += chromium.serious(page)
    context.close()
    return found


if __name__ == "__main__":
    if chromium.path() is None:
        sys.exit(chromium.ABSENT)
    wrong = faults(Path(sys.argv[1]))
    sys.exit("\n".join(wrong) or 0)
