"""What people wait for: `sfumato compare` cold and warm, and the report until it can be used in a browser."""

from __future__ import annotations

import os
import resource
import signal
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
        cold, worked = _run(cache)
        warm = statistics.median(_run(cache)[0] for _ in range(5))
    first, soon = _first_picture()
    size, answer = "sex × race, 12 levels, every method", "the same document"
    return [
        Row("sfumato compare, cold", cold, "s", "< 6 s", cold < 6, answer, size,
            f"from its start to its end; processor time of all its processes {worked:.1f} s"),
        Row("sfumato compare, warm", warm, "s", "< 1 s", warm < 1, answer, size, "whole process, median of 5"),
        Row("sfumato compare, first picture", first, "s", "< 1 s", first < 1, "closed forms", size,
            f"processor time of the command until its page is there; {soon:.1f} s on the wall"),
    ]


def _begun(cache: str, *more: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "XDG_CACHE_HOME": cache}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # as an installed package has it
    return subprocess.Popen([sys.executable, "-m", "sfumato", *COMPARE, *more], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, env=env)


def _run(cache: str) -> tuple[float, float]:
    """Seconds of the command, and of work by it and its processes."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    if _begun(cache).wait():
        raise RuntimeError("sfumato compare failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, worked


def _first_picture() -> tuple[float, float]:
    """Seconds of work and on the wall until there is a page; then the command is ended."""
    with tempfile.TemporaryDirectory() as place:
        page, start = Path(place) / "out" / "compare.html", time.perf_counter()
        process = _begun(place, "--out", str(page.parent))
        try:
            while not page.exists():
                if process.poll() is not None:
                    raise RuntimeError("sfumato compare made no page")
                time.sleep(0.002)
            took = time.perf_counter() - start
            spent = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        finally:
            process.send_signal(signal.SIGINT)  # as Ctrl-C: it ends its workers
            process.wait()
    return sum(map(int, spent)) / os.sysconf("SC_CLK_TCK"), took


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
