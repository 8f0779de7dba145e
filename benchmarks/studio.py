"""The studio at full size, in Chromium: python benchmarks/studio.py [rows]

adult    from choosing columns of Adult's 32,561 people to the first design on the screen, and the search after it
large    the whole road on a CSV of 10^6 rows (or as many as said): by mouse, then by keyboard alone
slider   how long each move of the slider takes to be on the screen
"""

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

ROWS = 1_000_000
LONG = 180_000  # milliseconds to wait for anything


def held(studio: Studio) -> str:
    """Memory of the server and of its workers."""
    server = psutil.Process(studio.process.pid)
    sizes = [p.memory_info().rss / 2**20 for p in (server, *server.children(recursive=True))]
    return f"server {sizes[0]:.0f} MiB, others {', '.join(f'{x:.0f}' for x in sorted(sizes[1:], reverse=True))}"


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


def slid(page: Any) -> str:
    page.click("nav >> text=Privacy")
    page.wait_for_selector(".ticks:not(:has(span:not(.coarse, .made, .now)))", timeout=LONG)  # no level without a design
    times = sorted(ms for _, ms in page.evaluate(TIMED))
    return f"{times[len(times) // 2]:.0f} ms in the middle, {times[-1]:.0f} ms at most, of {len(times)} moves"


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


def adult(page: Any, studio: Studio, folder: Path) -> None:
    table = people(folder / "adult.csv")
    print(f"adult    cards of 32,561 rows after {opened(page, table):.2f} s", flush=True)
    print(f"adult    first design after {chosen(page, 'sex', ('race',)):.2f} s", flush=True)
    began = time.perf_counter()
    page.click("nav >> text=Privacy")
    page.locator("text=The best design that was found").wait_for(timeout=120_000)
    print(f"adult    searched design at ε = 1 after {time.perf_counter() - began:.1f} s more", flush=True)
    print(f"slider   {slid(page)}", flush=True)


def large(page: Any, studio: Studio, folder: Path, rows: int) -> None:
    table = people(folder / "large.csv", rows)
    print(f"large    {rows:,} rows, {table.stat().st_size / 2**20:.0f} MiB; {held(studio)}", flush=True)
    print(f"large    cards after {opened(page, table):.1f} s; {held(studio)}", flush=True)
    print(f"large    first design of sex × race × age after {chosen(page, 'sex', ('race', 'age')):.1f} s", flush=True)
    print(f"slider   {slid(page)}", flush=True)
    page.click("nav >> text=Release")
    print(f"large    released after {released(page, lambda: page.click('#go')):.1f} s; {held(studio)}", flush=True)
    took = analysed(page, lambda: page.click("text=Analyse this release"))
    print(f"large    analysed after {took:.1f} s", flush=True)


def by_keyboard(page: Any, rows: int) -> None:
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
    print(f"keyboard columns, level, release and analysis of {rows:,} rows in {took:.0f} s", flush=True)


def main() -> None:
    from playwright.sync_api import sync_playwright

    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as made, sync_playwright() as engine:
        folder, studio = Path(made), Studio(TMPDIR=made)
        browser = engine.chromium.launch(executable_path=chromium.path(), args=chromium.ARGUMENTS)
        try:
            page = browser.new_page()
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            page.goto(studio.address)
            adult(page, studio, folder)
            large(page, studio, folder, rows)
            by_keyboard(page, rows)
            away = [url for url in asked if not url.startswith((f"http://{studio.host}/", "data:", "blob:"))]
            print(f"requests {len(asked):,}, of which {len(away)} to anywhere else", flush=True)
        finally:
            browser.close()
            studio.end()
        print(f"left     {len(list(folder.glob('sfumato-studio-*')))} folders after Ctrl-C", flush=True)


if __name__ == "__main__":
    main()
