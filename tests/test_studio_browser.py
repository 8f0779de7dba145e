"""The studio in a browser: the whole road by mouse and by keyboard alone, for everyone, with no word to anybody else."""

from __future__ import annotations

import json
import time
import zipfile

import pytest
from tests import chromium
from tests.studio import Studio, people

import sfumato as sf

pytestmark = pytest.mark.skipif(chromium.path() is None, reason=chromium.ABSENT)
SOON = 100  # milliseconds in which the slider answers
LATE = 1.0  # seconds by which an answer is held back
HOSTILE = "<img src=x onerror=alert(1)>"
TIMED = """() => new Promise((resolve) => {
  const slider = document.getElementById("slider"), times = [];
  const step = (i) => {
    if (i === Number(slider.max) + 1) return resolve(times);
    slider.value = i;
    const began = performance.now();
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    const shown = document.getElementById("design").dataset.epsilon;
    document.getElementById("design").getBoundingClientRect();
    requestAnimationFrame(() => { times.push([shown, performance.now() - began]); step(i + 1); });
  };
  step(0);
})"""


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    made = Studio(TMPDIR=str(tmp_path_factory.mktemp("home")), SFUMATO_PATIENCE="0.005")
    yield made
    assert made.end() == 0


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return people(tmp_path_factory.mktemp("tables") / "people.csv")


@pytest.fixture(scope="module")
def context(browser, studio):
    """One browser that has used the token; nothing but the studio is asked for, and nothing is complained about."""
    asked, said = [], []
    made = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    made.on("request", lambda request: asked.append(request.url))
    made.on("console", lambda message: said.append(message.text))
    made.on("weberror", lambda error: said.append(str(error.error)))
    made.on("dialog", lambda dialog: said.append(dialog.message))
    page = made.new_page()
    page.goto(studio.address)
    made.first = page
    yield made
    made.close()
    assert said == [] and asked and all(url.startswith((f"http://{studio.host}/", "data:", "blob:")) for url in asked)


def choose(page, column, role):
    page.drag_and_drop(f".card:has(h3:text-is('{column}')) h3", f".lane.{role}")


def test_the_whole_road_by_mouse(context, table, tmp_path):
    page = context.first
    assert page.evaluate("document.cookie") == "" and "token" not in page.url
    page.set_input_files("#step-table input[type=file]", table)
    page.wait_for_selector("#step-table .panel")
    assert "32,561 rows" in page.inner_text("#step-table .panel") and chromium.violations(page) == []

    page.click("text=Choose columns")
    choose(page, "sex", "secret")
    choose(page, "race", "useful")
    choose(page, "age", "useful")
    page.wait_for_selector("#outlook >> text=for age")
    assert page.inner_text("#cells") == "2 × 5 × 5 = 50 cells" and chromium.violations(page) == []
    page.click("button[aria-label='Bins of age']")
    stage = page.locator("dialog .stage").bounding_box()
    assert page.locator("dialog .edge").count() == 0 and page.locator("dialog .ghost").count() == 4
    page.mouse.click(stage["x"] + stage["width"] * 0.5, stage["y"] + 60)
    box = page.locator("dialog .edge").bounding_box()
    assert 45 < float(page.input_value("dialog input[type=text]")) < 65
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(stage["x"] + stage["width"] * 0.15, box["y"] + 60, steps=6)
    page.mouse.up()
    least = page.input_value("dialog input[type=text]").split(";")[0]
    assert 25 < float(least) < 35
    page.locator(f"dialog .chart[aria-label*='values: < {least} ']").wait_for()
    assert chromium.violations(page) == []
    page.fill("dialog input[type=number]", "3")
    page.press("dialog input[type=number]", "Tab")
    page.locator("dialog p >> text=2 × 5 × 3 = 30 cells").wait_for()
    page.click("dialog >> text=Done")
    page.select_option("select[aria-label='What age is for']", "out")
    page.wait_for_selector("#outlook:not(:has-text('for age'))")

    page.click("nav >> text=Privacy")
    page.locator(".ticks :is(.coarse, .made, .now)").nth(7).wait_for()
    page.wait_for_function("document.querySelectorAll('.ticks > *').length == 8")  # labels took 0.2, which lower levels leave no rows
    page.click("nav >> text=Columns")
    page.check("#public")
    page.click("nav >> text=Privacy")
    page.wait_for_selector("#design[data-epsilon='1']")
    page.locator(".ticks :is(.coarse, .made, .now)").nth(9).wait_for()
    shown = page.evaluate(TIMED)
    assert [float(at) for at, _ in shown] == [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4]
    assert min(ms for _, ms in shown) < SOON  # the quickest: the machine does other things too
    assert page.locator("#design .dots").count() == 2 and page.locator(".light").count() == 4 and chromium.violations(page) == []
    page.fill("#exact", "2.5")
    page.press("#exact", "Enter")
    page.wait_for_selector("#design[data-epsilon='2.5']")
    page.reload()
    page.wait_for_selector("#design[data-epsilon='2.5']")
    page.evaluate("() => [...document.querySelectorAll('button')].find(b => b.textContent === 'Stop searching')?.click()")  # if it is still there

    page.click("nav >> text=Release")
    page.locator("pre >> text=--epsilon 2.5").wait_for()
    page.click("#go")
    page.wait_for_selector("#released", timeout=60_000)
    assert chromium.violations(page) == []
    with page.expect_download() as coming:
        page.click("text=Download all")
    with zipfile.ZipFile(coming.value.path()) as archive:
        archive.extractall(tmp_path)
    assert sf.verify(tmp_path / "released.mechanism.json").holds
    assert sf.estimate(tmp_path / "released.csv", tmp_path / "released.mechanism.json").n == 32561
    frame = page.frame_locator("iframe.report")
    assert "with sex protected" in frame.locator("h1").inner_text()

    page.click("text=Analyse this release")
    page.wait_for_selector("#estimates")
    assert page.inner_text("#verdict h2").startswith("Holds:")
    page.select_option("#step-analyse form select >> nth=0", "sex")
    page.select_option("#step-analyse form select >> nth=1", "race")
    page.click("#step-analyse button:text-is('Odds ratios')")
    page.locator("text=Odds ratios of sex and race").wait_for()
    page.click("#step-analyse button:text-is('Table')")
    page.locator("summary >> text=sex within race").wait_for()
    assert chromium.violations(page) == []
    page.fill("#step-analyse input[type=number]", "500")
    with page.expect_download() as coming:
        page.click("text=Draw and download")
    lines = coming.value.path().read_text().splitlines()
    assert lines[0].replace('"', "") == "sex,race" and len(lines) == 501


def press_until(page, key, holds, most=60):
    """Press a key until the focus is where something holds of the element."""
    for _ in range(most):
        if page.evaluate(f"(() => {{ const e = document.activeElement; return {holds}; }})()"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"the keyboard does not reach: {holds}")


def test_the_whole_road_by_keyboard_alone(context, tmp_path):
    page = context.first
    page.once("filechooser", lambda chooser: chooser.set_files(tmp_path / "odd.csv"))
    page.goto(page.url.split("#")[0] + "#table")
    page.reload()
    rows = "".join(f"{'FM'[i % 2]},{(HOSTILE, '=1+1', 'c')[i // 2 % 3]},{20 + i % 50}\n" for i in range(6000))
    (tmp_path / "odd.csv").write_text(f"sex,\"{HOSTILE}\",age\n{rows}")

    press_until(page, "Tab", "e.textContent === 'Choose a file'")
    page.keyboard.press("Enter")
    page.wait_for_selector("#step-table .panel:has-text('odd.csv')")
    press_until(page, "Tab", "e.textContent === 'Choose columns'")
    page.keyboard.press("Enter")
    page.wait_for_selector(".card")
    press_until(page, "Tab", "e.getAttribute('aria-label') === 'What sex is for'")
    page.keyboard.press("s")
    press_until(page, "Tab", "(e.getAttribute('aria-label') || '').startsWith('What <img')")
    page.keyboard.press("u")
    page.wait_for_selector("#outlook")
    assert page.evaluate("(document.activeElement.getAttribute('aria-label') || '').startsWith('What <img')")
    assert page.locator(".lane.useful .card h3").inner_text() == HOSTILE and page.locator(".card img").count() == 0
    press_until(page, "Shift+Tab", "e.getAttribute('aria-label') === 'What sex is for'")
    press_until(page, "Tab", "e.getAttribute('aria-label') === 'Groups of sex'")
    page.keyboard.press("Enter")
    press_until(page, "Tab", "e.closest('dialog') && e.textContent === 'Done'", 10)
    page.keyboard.press("Enter")
    press_until(page, "Tab", "e.textContent === 'Choose how private'")
    page.keyboard.press("Enter")
    page.wait_for_selector("#design")
    press_until(page, "Tab", "e.id === 'slider'")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector("#design[data-epsilon='4']")
    assert page.get_attribute("#slider", "aria-valuetext").startswith("ε = 4, guesses sex right")
    press_until(page, "Tab", "e.textContent === 'Release' && e.classList.contains('button')")
    page.keyboard.press("Enter")
    press_until(page, "Tab", "e.id === 'go'")
    page.keyboard.press("Enter")
    page.wait_for_selector("#released", timeout=60_000)
    press_until(page, "Tab", "e.textContent === 'Analyse this release'")
    page.keyboard.press("Enter")
    page.wait_for_selector("#estimates")
    assert HOSTILE in page.inner_text("#estimates") and page.locator("#estimates img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 820, 1440])
def test_every_step_fits_its_window_and_is_for_everyone(context, width, scheme):
    page = context.first
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    for step in ("table", "columns", "level", "release", "analyse"):
        page.goto(f"{page.url.split('#')[0]}#{step}")
        page.wait_for_selector(f"#t-{step}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if (width, scheme) == (390, "dark") and step in ("columns", "level"):
            assert chromium.violations(page) == []


def late(route):
    """An answer that comes after what the stream of events has to say."""
    answer = route.fetch()
    time.sleep(LATE)
    route.fulfill(response=answer)


def test_errors_stand_beside_their_field_and_a_release_of_others_is_read(context, tmp_path):
    page = context.first
    page.goto(page.url.split("#")[0] + "#table")
    (tmp_path / "empty.csv").write_text("")
    page.route("**/table?*", late)
    with page.expect_response("**/table?*"):
        page.set_input_files("#step-table input[type=file]", tmp_path / "empty.csv")
    page.locator("#step-table .error", has_text="empty.csv is empty").wait_for()
    page.unroute("**/table?*")
    joint = sf.Joint.from_counts([[900, 300], [200, 700]], secret=["ill", "well"], useful=["no", "yes"])
    law = sf.design(sf.ChiSquareBall(joint), 2.0, "srr").mechanism
    law.save(tmp_path / "m.json")
    sf.release(sf.datasets.rows(joint, seed=1), law, tmp_path / "r.csv")

    page.goto(page.url.split("#")[0] + "#analyse")
    page.reload()
    forged = json.loads((tmp_path / "m.json").read_text())
    forged["claim"]["epsilon"] = 1.0
    (tmp_path / "forged.json").write_text(json.dumps(forged))
    page.set_input_files("#step-analyse input[type=file]", [tmp_path / "forged.json", tmp_path / "r.csv"])
    assert "checksum" in page.locator("#step-analyse .error").inner_text()
    page.set_input_files("#step-analyse input[type=file]", [tmp_path / "m.json", tmp_path / "r.csv"])
    page.wait_for_selector("#estimates")
    assert page.inner_text("#verdict h2").startswith("Holds") and page.locator("#step-analyse .error").count() == 0
