"""What people wait for: `sfumato compare` cold and warm, and the report until it can be used in a browser."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from measure import Row

COMPARE = ("compare", "adult", "--secret", "sex", "--useful", "race", "--epsilon", "0.1:4", "--points", "12", "--json")
CHROMIUM = "/usr/bin/chromium"
ROWS = 100_000


def results() -> list[Row]:
    return [*comparing(), *report()]


def comparing() -> list[Row]:
    """Whole processes, with an empty cache and with a full one."""
    with tempfile.TemporaryDirectory() as cache:
        cold = _run(cache)
        warm = statistics.median(_run(cache) for _ in range(5))
    size, answer = "sex × race, 12 levels, every method", "the same document"
    return [
        Row("sfumato compare, cold", cold, "s", "< 30 s", cold < 30, answer, size, "whole process"),
        Row("sfumato compare, warm", warm, "s", "< 1 s", warm < 1, answer, size, "whole process, median of 5"),
    ]


def _run(cache: str) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "sfumato.cli", *COMPARE]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "XDG_CACHE_HOME": cache})
    return time.perf_counter() - start


def report() -> list[Row]:
    """Seconds from the request until a page answers a key, in headless Chromium: one table of 15 × 16, and a bundle."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        rows = [_usable(browser, Path(folder) / "page.html", size, page) for size, page in _pages()]
        browser.close()
    return rows


def _pages() -> Iterator[tuple[str, str]]:
    from sfumato.certification import certify
    from sfumato.reporting import public_report

    joint = sf.datasets.adult("occupation", "education")
    made = sf.design(sf.ChiSquareBall(joint), 1.0, "srr").mechanism
    found = sf.estimate(sf.release(sf.datasets.rows(joint), made), made)
    yield "occupation × education", public_report(made, certify(made), found)
    rng = np.random.default_rng(8)
    people = pa.table({"secret": rng.integers(0, 2, ROWS), **{f"c{i}": rng.integers(0, 8, ROWS) for i in range(10)}})
    several = sf.bundle(people, "secret", [f"c{i}" for i in range(10)], 2.0)
    known = sf.estimate(sf.release(people, several.bundle), several.bundle)
    yield "a bundle of ten columns × 8", public_report(several.bundle, several.certificate, known)


def _usable(browser: Any, path: Path, size: str, text: str) -> Row:
    path.write_text(text, "utf-8")
    times = []
    for _ in range(6):
        page = browser.new_page()
        start = time.perf_counter()
        page.goto(path.as_uri(), wait_until="load")
        page.locator("input, select, summary").first.focus()
        page.keyboard.press("ArrowRight")
        times.append(time.perf_counter() - start)
        page.close()
    usable = statistics.median(times[1:])
    return Row(
        "report, usable in Chromium", usable, "s", "< 1 s", usable < 1, f"{path.stat().st_size / 1000:.0f} kB", size,
        "loaded and its first control answered a key; median of 5",
    )
