"""What people wait for: `sfumato compare` cold and warm, and the report until it can be used in a browser."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import sfumato as sf
from measure import Row

COMPARE = ("compare", "adult", "--secret", "sex", "--useful", "race", "--epsilon", "0.1:4", "--points", "12", "--json")
CHROMIUM = "/usr/bin/chromium"


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
    """Seconds from the request until the page of occupation × education answers a key, in headless Chromium."""
    from playwright.sync_api import sync_playwright

    from sfumato.certification import certify
    from sfumato.reporting import public_report

    joint = sf.datasets.adult("occupation", "education")
    mechanism = sf.design(sf.ChiSquareBall(joint), 1.0, "srr").mechanism
    found = sf.estimate(sf.release(sf.datasets.rows(joint), mechanism), mechanism)
    times = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as engine:
        path = Path(folder) / "page.html"
        path.write_text(public_report(mechanism, certify(mechanism), found), "utf-8")
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(6):
            page = browser.new_page()
            start = time.perf_counter()
            page.goto(path.as_uri(), wait_until="load")
            page.locator("input[type=range]").first.focus()
            page.keyboard.press("ArrowRight")
            times.append(time.perf_counter() - start)
            page.close()
        browser.close()
        size = path.stat().st_size
    usable = statistics.median(times[1:])
    return [Row(
        "report, usable in Chromium", usable, "s", "< 1 s", usable < 1, f"{size / 1000:.0f} kB",
        "occupation × education", "loaded and the slider moved by a key; median of 5",
    )]
