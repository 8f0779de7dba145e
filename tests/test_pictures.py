"""The pictures and formulas of the pages: true, used, readable."""

from __future__ import annotations

import json
import math
import re
import sys

import pytest
from tests import chromium
from tests.documents import PAGES, ROOT

from sfumato.reproduce import FIGURES, papers

HOME = ROOT / "docs" / "pictures"
DEFINED = (
    "epsilon",
    "choose",
    "pml",
    "columns",
    "benchmarks",
    "errors",
)  # from formulas and from pages: no search in them


@pytest.fixture(scope="module")
def drawing():
    sys.path.insert(0, str(HOME))
    try:
        import draw

        yield draw
    finally:
        sys.path.remove(str(HOME))


def test_every_picture_is_drawn_by_the_script_and_shown_on_a_page(drawing):
    shown = {
        name for page in PAGES for name in re.findall(r"\]\((?:docs/|\.\./)?pictures/(\w+)\.svg\)", page.read_text())
    }
    assert {p.stem for p in HOME.glob("*.svg")} == set(drawing.PICTURES) == shown


@pytest.mark.parametrize("name", DEFINED)
def test_a_picture_without_a_search_is_what_the_script_draws_today(drawing, name):
    assert (HOME / f"{name}.svg").read_text("utf-8") == drawing.PICTURES[name](), "run `make pictures`"


def test_the_table_of_beliefs_is_rounded_up():
    rows = re.findall(r"^\| (\d+) in 100 \| (.*) \|$", (ROOT / "docs" / "epsilon.md").read_text(), re.MULTILINE)
    assert len(rows) == 4
    for before, cells in rows:
        for epsilon, cell in zip((0.1, 0.5, 1.0, 2.0, 4.0), cells.split(" | "), strict=True):
            p = int(before) / 100
            after = 100 * p / (p + math.exp(-epsilon) * (1 - p))
            assert 0 <= float(cell) - after < 0.1


def test_every_reproduced_figure_has_its_claim_beside_it():
    assert set(papers()) == set(FIGURES)
    page = (ROOT / "docs" / "reproduced.md").read_text()
    assert page.count("**The paper:**") == page.count("**Here:**") == len(FIGURES)


def formulas():
    """Every formula of every page, with whether it is displayed."""
    found = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for shown, inline in re.findall(r"\$\$(.*?)\$\$|\$([^$]+?)\$", text, re.DOTALL):
            found.append([(shown or inline).replace("\\|", "|"), bool(shown)])
    return found


CROSSING = """() => [...document.querySelectorAll('svg')].flatMap(svg => {
  const words = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  const paper = svg.getBoundingClientRect();
  const out = words.filter(([, r]) => r.left < paper.left || r.right > paper.right || r.bottom > paper.bottom).map(w => w[0] + ' leaves the paper');
  for (let i = 0; i < words.length; i++) for (let j = i + 1; j < words.length; j++) {
    const [a, b] = [words[i][1], words[j][1]];
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3) out.push(words[i][0] + ' / ' + words[j][0]);
  }
  return out;
})"""


@pytest.mark.skipif(chromium.path() is None, reason=chromium.ABSENT)
def test_formulas_are_understood_and_words_in_pictures_do_not_touch(tmp_path):
    from playwright.sync_api import sync_playwright

    place = tmp_path / "all.html"
    place.write_text(
        "<meta charset=utf-8>" + "".join(p.read_text("utf-8") for p in sorted(HOME.glob("*.svg"))), "utf-8"
    )
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium.path(), args=chromium.ARGUMENTS)
        page = browser.new_page()
        page.goto(place.as_uri())
        touching = page.evaluate(CROSSING)
        page.add_script_tag(path=ROOT / "docs" / "_static" / "katex" / "katex.min.js")
        wrong = page.evaluate(f"""{json.dumps(formulas())}.flatMap(([text, displayMode]) => {{
          try {{ katex.renderToString(text, {{displayMode, strict: 'ignore'}}); return []; }} catch (e) {{ return [text]; }}
        }})""")
        browser.close()
    assert touching == []
    assert wrong == []
