"""The studio in Chromium: first designs and moves of the slider on Adult, the whole road on a million rows by mouse and
by keyboard alone, memory, and what a page asks for."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests import chromium
from tests.studio import Studio, people
from tests.test_studio_browser import TIMED, press_until

from measure import Row

ROWS = 1_000_000
LONG = 180_000  # milliseconds to wait for anything


def results() -> list[Row]:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as made, sync_playwright() as engine:
        folder, studio = Path(made), Studio(TMPDIR=made)
        browser = engine.chromium.launch(executable_path=chromium.path(), args=chromium.ARGUMENTS)
        try:
            page = browser.new_page()
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            page.goto(studio.address)
            rows = [*adult(page, folder), *large(page, studio, folder), by_keyboard(page)]
            away = [url for url in asked if not url.startswith((f"http://{studio.host}/", "data:", "blob:"))]
        finally:
            browser.close()
            studio.end()
        left = len(list(folder.glob("sfumato-studio-*")))
    return [
        *rows, Row("requests to anywhere else", len(away), "", "0", not away, f"of {len(asked)}", "the whole run"),
        Row("folders left after Ctrl-C", left, "", "0", not left, "none" if not left else "some", "the whole run"),
    ]


def seconds(what: str, took: float, size: str, answer: str, limit: float | None = None) -> Row:
    return Row(what, took, "s", f"≤ {limit:g} s" if limit else "none set", not limit or took <= limit, answer, size)


def held(studio: Studio) -> float:
    """Memory of the server and of its workers together, in MiB."""
    server = psutil.Process(studio.process.pid)
    return sum(p.memory_info().rss / 2**20 for p in (server, *server.children(recursive=True)))


def opened(page: Any, table: Path) -> float:
    began = time.perf_counter()
    page.goto(f"{page.url.split('#')[0]}#table")
    page.set_input_files("#step-table input[type=file]", table)
    page.wait_for_selector(f"#step-table .panel:has-text('{table.name}')", timeout=LONG)
    return time.perf_counter() - began


def chosen(page: Any, secret: str, useful: tuple[str, ...]) -> float:
    """Seconds from the last choice to the first design."""
    page.click("text=Choose columns")
    for column, role in ((secret, "secret"), *((name, "useful") for name in useful)):
        page.drag_and_drop(f".card:has(h3:text-is('{column}')) h3", f".lane.{role}")
    began = time.perf_counter()
    page.wait_for_selector(f"#outlook >> text=for {useful[-1]}", timeout=LONG)
    return time.perf_counter() - began


def slid(page: Any, size: str) -> Row:
    page.click("nav >> text=Privacy")
    undesigned = "span:not(.coarse, .made, .now)"
    page.wait_for_selector(f".ticks:not(:has({undesigned}))", timeout=LONG)
    times = sorted(ms for _, ms in page.evaluate(TIMED))
    middle = f"{times[len(times) // 2]:.0f} ms in the middle of {len(times)} moves"
    return Row("slowest move of the slider", times[-1], "ms", "≤ 100 ms", times[-1] <= 100, middle, size)


def released(page: Any, go: Any) -> float:
    began = time.perf_counter()
    go()
    page.wait_for_selector("#released", state="detached", timeout=LONG)  # that of a release before it
    page.wait_for_selector("#released", timeout=LONG)
    return time.perf_counter() - began


def analysed(page: Any, go: Any) -> float:
    began = time.perf_counter()
    go()
    page.wait_for_selector("#estimates", timeout=LONG)
    assert page.inner_text("#verdict h2").startswith("Holds")
    return time.perf_counter() - began


def adult(page: Any, folder: Path) -> list[Row]:
    size = "Adult, 32,561 rows: sex × race"
    cards = seconds("cards of the columns", opened(page, people(folder / "adult.csv")), size, "every column")
    first = seconds("first design on the screen", chosen(page, "sex", ("race",)), size, "certified", limit=2)
    began = time.perf_counter()
    page.click("nav >> text=Privacy")
    page.locator("text=The best design that was found").wait_for(timeout=LONG)
    found = seconds("searched design at ε = 1, after it", time.perf_counter() - began, size, "certified")
    return [cards, first, found, slid(page, size)]


def large(page: Any, studio: Studio, folder: Path) -> list[Row]:
    table = people(folder / "large.csv", ROWS)
    size = f"{ROWS:,} rows, {table.stat().st_size / 2**20:.0f} MiB: sex × race × age"
    rows = [
        seconds("cards of the columns", opened(page, table), size, "every column"),
        seconds("first design on the screen", chosen(page, "sex", ("race", "age")), size, "certified"),
        slid(page, size),
    ]
    page.click("nav >> text=Release")
    took = released(page, lambda: page.click("#go"))
    memory = f"server and workers hold {held(studio):.0f} MiB"
    return [
        *rows, seconds("released", took, size, memory),
        seconds("analysed", analysed(page, lambda: page.click("text=Analyse this release")), size, "verified"),
    ]


def by_keyboard(page: Any) -> Row:
    """The same table once more, without a mouse."""
    began = time.perf_counter()
    page.goto(f"{page.url.split('#')[0]}#columns")
    page.reload()
    page.wait_for_selector(".card")
    for column, key in (("age", "l"), ("gender", "k")):
        press_until(page, "Tab", f"e.getAttribute('aria-label') === 'What {column} is for'")
        page.keyboard.press(key)
    page.wait_for_selector("#outlook:not(:has-text('for age'))", timeout=LONG)
    press_until(page, "Tab", "e.textContent === 'Choose how private'")
    page.keyboard.press("Enter")
    press_until(page, "Tab", "e.id === 'slider'")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#design", timeout=LONG)
    press_until(page, "Tab", "e.textContent === 'Release' && e.classList.contains('button')")
    page.keyboard.press("Enter")
    press_until(page, "Tab", "e.id === 'go'")
    released(page, lambda: page.keyboard.press("Enter"))
    press_until(page, "Tab", "e.textContent === 'Analyse this release'")
    analysed(page, lambda: page.keyboard.press("Enter"))
    took = time.perf_counter() - began
    return seconds("columns, level, release, analysis by keyboard", took, f"{ROWS:,} rows", "verified")
