"""Surveys and their intake, at full size: python benchmarks/survey.py [vectors | answers | intake | kills | people] ...

vectors  10^5 shared (input, words) for every law: the page's sampler in node against Python's
answers  10^5 answers drawn by a page in Chromium, against Q by a χ² test
intake   answers a second on the loopback address, beside what the disk allows
kills    200 times kill -9 while answers arrive
people   5,000 respondents: through real pages for as long as five minutes allow, the rest through the API
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sfumato.survey import Form, Survey, lines
from sfumato.survey.collected import Store, new_token, one_way

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests import chromium, intake
from tests import sampler_vectors as shared

HOME = Path(__file__).resolve().parent.parent
QUESTIONS = {"drug": ["yes", "no"], "age": ["18-29", "30-49", "50+"], "job": [f"job {i}" for i in range(9)]}
VECTORS, ANSWERS, KILLS, PEOPLE = 100_000, 100_000, 200, 5_000
PAGES = 300.0  # seconds of respondents in real pages


def vectors(folder: Path) -> None:
    """Every law at its full width."""
    rng = np.random.default_rng(11)
    for law in shared.laws(rng, 62):
        codes = rng.integers(0, law.rows * law.useful, VECTORS)
        words = rng.integers(0, 2**64, (VECTORS, law.words), dtype=np.uint64)
        found = shared.drawn_in_node([shared.vector(law, codes, words)], folder)[0]
        same = sum(a == b for a, b in zip(found, shared.plain(law, law.draw(codes, words)), strict=True))
        print(f"vectors  {law.kind:12} {law.rows} × {law.useful}: {same:,} of {VECTORS:,} equal", flush=True)


def answers(folder: Path) -> None:
    """A page in Chromium draws for one record after another, each with a key of its own."""
    from playwright.sync_api import sync_playwright
    from scipy.stats import chi2
    from tests.test_survey_browser import DRAWN

    asked = {"grr": ("drug", 1.0), "subset": ("job", 0.5)}
    surveys = {name: Survey.of_labels({q: QUESTIONS[q]}, epsilon) for name, (q, epsilon) in asked.items()}
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium.path(), args=chromium.ARGUMENTS)
        for name, survey in surveys.items():
            page_file, law, n = folder / f"{name}.html", survey.mechanism, ANSWERS // len(surveys)
            page_file.write_text(survey.page())
            page = browser.new_page()
            page.goto(page_file.as_uri())
            page.wait_for_selector("#verdict.good")
            started, seen = time.perf_counter(), []
            for _ in range(n // 5000):
                seen += page.evaluate(DRAWN, [{survey.questions[0].name: 1}, 5000])
            expected = law.matrix[:, 1] * n
            statistic = float(((np.bincount(seen, minlength=law.outputs) - expected) ** 2 / expected).sum())
            p = chi2.sf(statistic, law.outputs - 1)
            print(f"answers  {name}: {n:,} in Chromium, {law.outputs} outputs, χ² = {statistic:.1f}, p = {p:.3f}, "
                  f"{n / (time.perf_counter() - started):,.0f} a second", flush=True)
        browser.close()


def synced(folder: Path, seconds: float = 3.0) -> float:
    """Writes of one page with fsync that the disk finishes in a second."""
    descriptor = os.open(folder / "sync", os.O_CREAT | os.O_WRONLY)
    done, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        os.write(descriptor, b"x" * 4096)
        os.fsync(descriptor)
        done += 1
    os.close(descriptor)
    return done / seconds


def made(folder: Path) -> tuple[Survey, Path, Path]:
    survey = Survey.of_labels(QUESTIONS, 2.0, asks="apart")
    page, mechanism = survey.save(folder / "survey.html", force=True)
    return survey, page, mechanism


def drawn(form: Form, n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [form.line(new_token(), tuple(int(rng.integers(k)) for k in form.outputs)) for _ in range(n)]


def spent(server: intake.Server) -> float:
    """Seconds of CPU that the server has used."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(port: int, sent: list[str]) -> float:
    started = time.perf_counter()
    got = asyncio.run(intake.posted(port, sent, 64))
    assert set(got.values()) == {200} and len(got) == len(sent)
    return len(sent) / (time.perf_counter() - started)


def intakes(folder: Path) -> None:
    survey, _, mechanism = made(folder)
    form = Form.of(survey.mechanism)
    disk = synced(folder)
    server = intake.Server(mechanism, folder / "rate.sqlite")
    load(server.port, drawn(form, 2000))
    before = spent(server)
    rate = load(server.port, drawn(form, 20_000, 1))
    each = (spent(server) - before) / 20_000
    server.end()
    store = Store(folder / "rate.sqlite", form.survey)
    alone = [form.read(x) for x in drawn(form, 300, 2)]
    started = time.perf_counter()
    for one in alone:
        store.accept([one])
    single = len(alone) / (time.perf_counter() - started)
    print(f"intake   {rate:,.0f} acknowledged answers a second over 64 connections, the client on the same cores, load "
          f"{os.getloadavg()[0]:.1f}; the server spends {1000 * each:.2f} ms of CPU on one", flush=True)
    print(f"intake   the disk syncs {disk:,.0f} times a second; one answer a commit: {single:,.0f}", flush=True)


def kills(folder: Path) -> None:
    survey, _, mechanism = made(folder)
    form, port, rng = Form.of(survey.mechanism), intake.free_port(), np.random.default_rng(3)
    acknowledged: dict[str, int] = {}
    for i in range(KILLS):
        server = intake.Server(mechanism, folder / "kills.sqlite", port=port)
        enough = int(np.exp(rng.uniform(0.0, 7.0)))  # from the first answer to about a thousand
        acknowledged |= asyncio.run(intake.killed_while_posting(server, drawn(form, 5000, i), enough))
    store = Store(folder / "kills.sqlite", form.survey)
    lost, odd = intake.loss(acknowledged, store)
    print(f"kills    {KILLS} times kill -9, {len(acknowledged):,} answers acknowledged, {store.spent():,} stored: "
          f"{lost} lost, {odd} doubled or without a token", flush=True)


def people(folder: Path) -> None:
    """The truth is drawn once; pages answer for as many as five minutes allow, Python draws for the others."""
    from playwright.sync_api import sync_playwright

    survey, page_file, mechanism = made(folder)
    form, rng = Form.of(survey.mechanism), np.random.default_rng(7)
    codes = {"drug": (rng.random(PEOPLE) > 0.2).astype(int), "age": rng.choice(3, PEOPLE, p=[0.3, 0.5, 0.2])}
    codes["job"] = rng.integers(0, 9, PEOPLE)
    store = Store(folder / "people.sqlite", form.survey)
    tokens = store.invite(PEOPLE)
    server = intake.Server(mechanism, folder / "people.sqlite", page_file)
    done, end = 0, time.perf_counter() + PAGES
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium.path(), args=chromium.ARGUMENTS)
        page = browser.new_page(viewport={"width": 390, "height": 844})
        while done < PEOPLE and time.perf_counter() < end:
            page.goto(f"{server.url}/?{done}#t={tokens[done]}")
            page.wait_for_selector("#form:not([hidden])")
            for i, (name, labels) in enumerate(QUESTIONS.items()):
                value = str(codes[name][done])
                if len(labels) > 8:
                    page.select_option(f"select[name=q{i}]", value)
                else:
                    page.check(f"input[name=q{i}][value='{value}']")
            page.click("button[type=submit]")
            page.wait_for_selector("#result:not([hidden])")
            page.click("#send")
            page.locator("#status", has_text="Thank you").wait_for()
            page.evaluate("localStorage.clear()")  # the next respondent has a device of their own
            done += 1
        browser.close()
    left = {name: [labels[i] for i in codes[name][done:]] for name, labels in QUESTIONS.items()}
    sent = lines(survey.mechanism, tokens[done:], left)
    asyncio.run(intake.posted(server.port, sent))
    server.end()
    print(f"people   {done:,} respondents through pages in Chromium, {PEOPLE - done:,} through the API, "
          f"{store.spent():,} answers", flush=True)
    for table in one_way(store.counts(), survey.mechanism):
        truth = np.bincount(codes[table["name"]], minlength=len(table["labels"])) / PEOPLE
        inside = np.all((table["low"] <= truth) & (truth <= table["high"]))
        print(f"people   {table['name']}: greatest error {np.abs(table['p'] - truth).max():.3f}, greatest half width "
              f"{((table['high'] - table['low']) / 2).max():.3f}, all 95 % intervals cover: {bool(inside)}", flush=True)


STEPS = {"vectors": vectors, "answers": answers, "intake": intakes, "kills": kills, "people": people}


def main() -> None:
    wanted = sys.argv[1:] or list(STEPS)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    print(f"{commit}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(dir=HOME, prefix=".survey-") as folder:  # on the disk, not in memory
        for name in wanted:
            STEPS[name](Path(folder))


if __name__ == "__main__":
    main()
