"""The report in a browser: nothing leaves it, everyone can use it, and what moves shows the right numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests import chromium
from tests.test_report_numbers import random_layout

import sfumato as sf
from sfumato import datasets
from sfumato.certification import certify
from sfumato.estimation import estimate
from sfumato.releasing import release
from sfumato.reporting import facts_of, private_report, public_report
from sfumato.reporting.comparison_page import comparison_page as compare_page

pytestmark = pytest.mark.skipif(chromium.path() is None, reason=chromium.ABSENT)
WIDTHS = (360, 820, 1440)


@pytest.fixture(scope="module")
def race(patient_file):
    """A small optimal design, released and estimated."""
    joint = datasets.adult("sex", "race")
    made = sf.design(sf.ChiSquareBall(joint), 1.0, "ballopt")
    mechanism = replace(made.mechanism, source="private")
    return mechanism, made.certificate, estimate(release(datasets.rows(joint, seed=1), mechanism, seed=2), mechanism)


@pytest.fixture(scope="module")
def facts(race):
    return facts_of(*race)


def compared():
    """The page of a comparison of closed forms, which take no search."""
    found = sf.compare(
        datasets.adult("sex", "race"), epsilon=[0.5, 1.0, 2.0], methods=["ir", "srr", "grr", "oue", "plain-oue"],
        workers=1, cache=False,
    )
    return compare_page(found, 1.0)


@pytest.fixture(scope="module")
def pages(race, tmp_path_factory):
    """Pages of every kind: their addresses by name."""
    home = tmp_path_factory.mktemp("pages")
    joint = datasets.adult("occupation", "education")
    large = sf.design(sf.ChiSquareBall(joint), 1.0, "srr").mechanism
    bits = sf.design(sf.ChiSquareBall(joint), 1.0, "oue", notion="ldp").mechanism
    rows = release(datasets.rows(joint, seed=1), large, seed=2)
    layout = random_layout(120, 40, 2)
    made = {
        "race": public_report(*race), "private": private_report(*race, race[0].joint),
        "occupation": public_report(large, certify(large), estimate(rows, large)),
        "bits": public_report(bits, certify(bits)), "layout": public_report(layout, None),
        "compare": compared(),
    }
    for name, text in made.items():
        (home / f"{name}.html").write_text(text, "utf-8")
    return {name: (home / f"{name}.html").as_uri() for name in made}


@pytest.fixture
def opened(browser, pages):
    """Open a page; at the end nothing may have been asked of a network or complained about."""
    contexts, asked, said = [], [], []

    def open_page(name, width=1440, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(pages[name])
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert set(asked) <= set(pages.values())


@pytest.mark.parametrize("name", ["race", "occupation", "private", "compare"])
def test_axe_finds_nothing_serious(opened, name):
    page = opened(name, 820)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")

    assert chromium.serious(page) == []
    page.emulate_media(color_scheme="dark")  # which changes colours and nothing else
    assert chromium.serious(page, "color-contrast") == []


@pytest.mark.parametrize("name", ["race", "private", "occupation", "bits", "layout"])
def test_pages_fit_every_width(opened, name):
    page = opened(name, WIDTHS[0])
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")

    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("h1").count() == 1 and page.locator("main").count() == 1 and page.locator("nav").count() == 1


def test_four_answers_stand_on_the_first_screen(opened):
    """Within 900 px on a desk, within two screens of a phone, light and dark, and on paper on the first page."""
    parts = [f"#answer-{name}" for name in ("attacker", "analyst", "worth", "public")]
    for name in ("race", "occupation", "private"):
        page = opened(name, 1440)
        for width, height, most in ((1440, 900, 900), (820, 1180, 1180), (640, 1100, 1100), (390, 844, 2 * 844)):
            page.set_viewport_size({"width": width, "height": height})
            ends = page.evaluate("ids => ids.map(id => document.querySelector(id).getBoundingClientRect().bottom)", parts)
            assert max(ends) <= most, (name, width, ends)
            hidden = page.evaluate(OVERFLOWING)
            assert hidden == [], (name, width, hidden)
        page.emulate_media(media="print")
        assert page.evaluate(OVERFLOWING) == [] and page.locator("#glance circle").count() == 200


OVERFLOWING = """() => [...document.querySelectorAll('#glance section')].filter(
  s => s.scrollWidth > s.clientWidth + 1 || [...s.querySelectorAll('p, li, li *, figcaption')].some(
    e => e.getBoundingClientRect().right > s.getBoundingClientRect().right + 1)).map(s => s.id)"""


def test_the_comparison_is_read_by_pointing_and_by_keyboard_and_fits(opened):
    page = opened("compare", WIDTHS[0])
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    told = lambda: page.locator("#told tr").first.inner_text()
    assert page.locator("#said").inner_text() == "1" and page.locator(".three li").count() == 3
    at_one = told()
    page.locator("#epsilon").focus()
    page.keyboard.press("End")
    assert page.locator("#said").inner_text() == "2" and told() != at_one
    box = page.locator(".panel svg").first.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 50)
    assert page.locator("#said").inner_text() == "0.5"
    assert not page.locator(".panel g.other").first.is_visible()
    page.locator("#all").check()
    assert page.locator(".panel g.other").first.is_visible()


def test_dots_are_the_numbers_beside_them(opened, facts):
    guessers = facts.guessers
    page = opened("race")
    for i, who in enumerate(guessers):
        figure = page.locator("#answer-attacker figure").nth(i)
        assert figure.locator("circle").count() == 100
        assert figure.locator("circle.was").count() == who.before
        assert figure.locator("circle.more").count() == max(who.after - who.before, 0)
    assert guessers[0].before == 67 and 67 < guessers[0].after <= 74


def shown(page):
    """What the panel says, by name."""
    boxes = page.locator("#answers > div")
    return {box.locator("dt").inner_text(): box.locator("dd").all_inner_texts() for box in boxes.all()}


def percent_in(text):
    return float(text.replace("at most", "").replace("\u00a0%", ""))


def test_moving_epsilon_shows_the_numbers_of_the_library(opened, race, facts):
    joint, curve = race[0].joint, facts.curve
    page = opened("race")
    slider = page.locator("#epsilon")
    slider.focus()

    assert page.locator("#said").inner_text() == "1"
    kept = [f"{100 * curve.kept / curve.whole:.1f}\u00a0%", f"shares of race to ±\u00a0{196 * curve.error:.2g} points (95\u00a0%)"]
    assert shown(page)["Kept by this method"] == kept and kept[0] == "53.9\u00a0%"
    slider.press("Home")
    for epsilon in curve.stops:
        page.locator("#prior").select_option(index=3)
        told = shown(page)
        assert page.locator("#said").inner_text() == f"{epsilon:g}"
        assert f"ε = {epsilon:g}" in slider.get_attribute("aria-valuetext")
        factor = float(told["Odds change by at most"][0].replace("×\u00a0", ""))
        assert math.exp(epsilon) <= factor <= math.exp(epsilon) * 1.01
        belief = percent_in(told["Belief after a row, from 50.0\u00a0%"][0])
        assert 0 <= belief - 100 / (1 + math.exp(-epsilon)) < 0.1 + 1e-9
        kappa = epsilon / (1 - math.exp(-epsilon))
        limit = joint.entropy_useful_given_secret + min(joint.entropy_secret, kappa - 1 - math.log(kappa))
        assert percent_in(told["No mechanism keeps more than"][0]) == pytest.approx(100 * limit / joint.entropy, abs=0.11)
        slider.press("ArrowRight")
    page.locator("#prior").select_option(label="Male: 66.9 %, its share in the design data")
    odds = joint.p_secret[1] / joint.p_secret[0] * math.exp(curve.stops[-1])
    assert percent_in(shown(page)["Belief after a row, from 66.9\u00a0%"][0]) == pytest.approx(100 * odds / (1 + odds), abs=0.11)


def test_the_curve_in_the_page_is_the_design_at_that_level(opened, race):
    joint = race[0].joint
    page = opened("race")
    slider = page.locator("#epsilon")
    slider.focus()
    slider.press("End")

    made = sf.design(sf.ChiSquareBall(joint), 4.0, "ballopt")

    assert percent_in(shown(page)["Kept by this method"][0]) == pytest.approx(100 * made.value / joint.entropy, abs=0.06)


def test_cells_are_read_by_keyboard_and_by_pointing(opened, race):
    mechanism = race[0]
    q, page = mechanism.matrix, opened("race")
    page.locator("#heat").focus()

    page.keyboard.press("ArrowDown")  # the first key only marks where one is
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    row = page.locator("#heat tbody tr").nth(1)
    name = row.locator("th").inner_text()
    y = mechanism.symbols.labels.index(name.split("(")[1].rstrip(")"))
    x = mechanism.inputs - 1
    behind = q[y, x] * mechanism.joint.p.ravel()[x] / (q @ mechanism.joint.p.ravel())[y]
    said = page.locator("#cell").inner_text()
    assert said.startswith(f"Male · White becomes {name} with ")
    assert float(said.split(" with ")[1].split("\u00a0%")[0].strip("<\u00a0 ")) == pytest.approx(100 * q[y, x], abs=0.06)
    assert float(said.split("of these ")[1].split("\u00a0%")[0].strip("<\u00a0 ")) == pytest.approx(100 * behind, abs=0.06)
    assert row.locator("td").nth(x).get_attribute("class").split()[-1] == "at"

    page.locator("#heat tbody tr").nth(4).locator("td").nth(2).hover()
    assert page.locator("#cell").inner_text().startswith("Female · Black becomes ")
    assert page.locator("td.at").count() == 1


def test_a_keyboard_reaches_everything_and_the_focus_is_seen(opened):
    page = opened("race")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"epsilon", "prior", "heat", "SUMMARY", "A"} <= set(reached)
    page.locator("#heat").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_without_scripts_the_page_is_complete(opened, facts):
    curve = facts.curve
    page = opened("race", java_script_enabled=False)

    assert not page.locator("#panel").is_visible() and not page.locator("#cell").is_visible()
    page.get_by_text("The same as a table").click()
    table = page.get_by_role("region", name="The trade-off as a table")
    assert table.locator("tbody tr").count() == len(curve.stops)
    kept = table.locator("tbody tr").nth(curve.chosen).locator("td").nth(2).inner_text()
    assert percent_in(kept) == pytest.approx(100 * curve.kept / curve.whole, abs=0.051)


def test_print_is_light_and_shows_what_is_folded(opened):
    page = opened("race", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    page.emulate_media(media="print", color_scheme="dark")

    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()") == "#1b2430"
    assert not page.locator("nav").is_visible() and not page.locator("#panel").is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_motion_is_still_for_those_who_ask(opened):
    for asked, behaviour in (("reduce", "auto"), ("no-preference", "smooth")):
        page = opened("race", reduced_motion=asked)
        assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == behaviour
