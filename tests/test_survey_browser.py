"""Survey pages in a browser: they prove before they ask, everyone can use them, and nothing leaves but one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import chdtrc
from tests import chromium, intake, kernel_vectors

from sfumato.survey import Form, Question, Survey
from sfumato.survey.collected import Store

pytestmark = pytest.mark.skipif(chromium.path() is None, reason=chromium.ABSENT)
JOBS = [f"job {i}" for i in range(9)]
QUESTIONS = [
    Question("drug", ("yes", "no"), "Have you taken any drugs in the last month?", ("Yes, I have", "No")),
    Question("age", ("18-29", "30-49", "50+"), "How old are you?"), Question("job", tuple(JOBS), "What do you do?"),
]
PHONE = {"width": 390, "height": 844}
DRAWN = """async ([codes, n]) => {
  const out = [];
  for (let i = 0; i < n; i += 1) {
    localStorage.removeItem("sfumato.key");
    out.push((await sfumatoSurvey.answer(new Map(Object.entries(codes))))[0]);
  }
  return out;
}"""


@pytest.fixture(scope="module")
def surveys():
    return {
        "apart": Survey.of_labels(QUESTIONS, 2.0, title="Health and work", introduction="Three questions."),
        "turn": Survey.of_labels(QUESTIONS, 2.0, asks="in turn"), "together": Survey.of_labels(QUESTIONS, 4.0, asks="together"),
        "subset": Survey.of_labels({"job": JOBS}, 0.5), "waves": Survey.of_labels({"drug": ["yes", "no"]}, once=0.5, forever=1.5),
        "bits": Survey.of_labels({"job": JOBS}, once=0.5, forever=1.5),
        "secret": Survey.of_labels([QUESTIONS[0], Question("age", ("a", "b", "c"), sensitive=False)], 1.0, protects="sensitive"),
    }


@pytest.fixture(scope="module")
def home(surveys, tmp_path_factory):
    folder = tmp_path_factory.mktemp("surveys")
    for name, survey in surveys.items():
        (folder / f"{name}.html").write_text(survey.page(language="de" if name == "turn" else "en"))
    return folder


@pytest.fixture
def opened(browser, home):
    """Open a page on a phone without a network; at the end nothing may have been asked for or complained about."""
    contexts, asked, said = [], [], []

    def open_page(name, **options):
        context = browser.new_context(viewport=PHONE, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(name if ":" in name else (home / f"{name}.html").as_uri())
        page.wait_for_selector("#verdict.good, #verdict.bad")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == [] and all(url.startswith(("file:", "blob:")) for url in asked)


def filled(page, survey, choice=0):
    """Choose an answer to every question and draw."""
    for i, q in enumerate(survey.questions):
        if len(q.labels) > 8:
            page.select_option(f"select[name=q{i}]", str(choice))
        else:
            page.check(f"input[name=q{i}][value='{choice}']")
    page.click("button[type=submit]")
    page.wait_for_selector("#result:not([hidden])")
    return page.input_value("#line")


def again(page):
    """Load the page anew until it knows what was given: the browser stores that in a process of its own."""
    for pause in (100, 200, 400, 800, 1600, 3200):  # ms: a machine with other work may leave that process waiting
        page.wait_for_timeout(pause)
        page.reload()
        page.wait_for_selector("#before:not([hidden]), #form:not([hidden])")
        if page.is_visible("#before"):
            return
    raise AssertionError(f"forgotten; the browser holds {page.evaluate('Object.keys(localStorage)')}")


@pytest.mark.parametrize("name", ["apart", "turn", "waves", "bits", "secret"])
def test_every_page_proves_its_promise_draws_and_remembers(opened, surveys, name):
    page = opened(name, color_scheme="dark" if name == "turn" else "light")
    assert page.locator("#verdict").get_attribute("class") == "good"
    assert page.locator("#beliefs svg").count() == (2 if name in ("waves", "bits") else 1)

    line = filled(page, surveys[name])
    Form.of(surveys[name].mechanism).read(line)

    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    if name in ("apart", "turn", "waves"):
        assert chromium.violations(page) == []
    page.click("#back")
    filled(page, surveys[name], 1)
    page.click("#back")
    assert filled(page, surveys[name]) == line
    page.click("#code")
    assert page.locator("#square svg").count() == 1 and not page.is_visible("#back")
    again(page)
    assert page.input_value("#line") == line
    page.click("#other")
    assert filled(page, surveys[name]).split(":")[3] != line.split(":")[3]


def test_a_respondent_answers_by_keyboard_and_the_answer_arrives_once(browser, surveys, tmp_path):
    page_file, mechanism = surveys["apart"].save(tmp_path / "survey.html")
    store = Store(tmp_path / "a.sqlite", Form.of(surveys["apart"].mechanism).survey)
    tokens = store.invite(1)
    server = intake.Server(mechanism, tmp_path / "a.sqlite", page_file)
    context = browser.new_context(viewport=PHONE)
    try:
        page = context.new_page()
        page.goto(f"{server.url}/#t={tokens[0]}")
        page.wait_for_selector("#form:not([hidden])")
        for key in ("Tab", "Tab", "Space", "Tab", "ArrowDown", "Tab", "j", "Tab", "Enter"):  # past the check-it-yourself
            page.keyboard.press(key)
        page.wait_for_selector("#result:not([hidden])")
        assert "Yes, I have" in page.inner_text("#said") and "30-49" in page.inner_text("#said")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "send"
        page.keyboard.press("Enter")
        page.locator("#status", has_text="Thank you").wait_for()
        line = page.input_value("#line")
        again(page)
        assert page.input_value("#line") == line and not page.is_visible("#mine")
        page.click("#send")
        page.locator("#status", has_text="has been used").wait_for()
        assert store.counts() == {line.split(":")[-1]: 1} and line.split(":")[3] == tokens[0]
        page.goto(f"{server.url}/estimates?key={store.key}")
        assert "1 answers" in page.inner_text("main") and page.locator("table").count() == 3
        assert chromium.violations(page) == []
    finally:
        context.close()
        server.end()


def test_a_page_that_does_not_keep_its_promise_asks_nothing(opened, home, surveys):
    text = surveys["together"].page()
    (home / "claims.html").write_text(text.replace('"claim":{"about":"record","epsilon":4.0}', '"claim":{"about":"record","epsilon":3.9}'))
    (home / "weights.html").write_text(text.replace('\\"truth\\":', '\\"truth\\":1', 1))
    assert "3.9" in (home / "claims.html").read_text() and (home / "weights.html").read_text() != text
    waves = surveys["waves"].page()
    other = Survey.of_labels({"drug": ["yes", "no"]}, once=0.4, forever=1.4)
    from sfumato.survey.survey_page import _file

    quoted = [json.dumps(_file(w.waves.instantaneous))[1:-1] for w in (surveys["waves"], other)]
    (home / "swapped.html").write_text(waves.replace(*quoted))
    assert (home / "swapped.html").read_text() != waves

    for name in ("claims", "weights", "swapped"):
        page = opened(name)
        assert page.locator("#verdict").get_attribute("class") == "bad" and not page.is_visible("#form")


def test_the_verifier_in_the_page_agrees_with_the_kernel_on_all_shared_files(opened):
    vectors = json.loads(kernel_vectors.HERE.read_text())
    page = opened("apart")

    found = page.evaluate("async (files) => { const out = []; for (const f of files) out.push((await sfumatoVerify(f)).proved); return out; }",
                          [v["file"] for v in vectors])

    assert found == [v["proved"] for v in vectors]


def test_answers_of_many_devices_follow_the_law(opened, surveys):
    law, n = surveys["subset"].mechanism, 2000
    drawn = np.array(opened("subset").evaluate(DRAWN, [{"job": 3}, n]))

    expected = law.matrix[:, 3] * n
    statistic = ((np.bincount(drawn, minlength=law.outputs) - expected) ** 2 / expected).sum()

    assert chdtrc(law.outputs - 1, statistic) > 1e-7  # drawn by the browser, anew in every run
