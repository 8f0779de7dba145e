"""Every code block of the documentation runs, prints what the page says, and no command escapes the check."""

import json
import re
import subprocess
import sys

import pytest
from tests.documents import PAGES, ROOT, SETUP, blocks, steps, workshop

import sfumato as sf

CODE = ("python", "console", "output", "sh", "text", "json", "{toctree}", "{eval-rst}")
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def title(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p.read_text())], ids=title)
def test_the_code_of_a_page_runs_and_prints_what_it_shows(page, tmp_path, patient_file):
    with workshop(tmp_path):
        for step in steps(page):
            assert step.holds, f"{page.name}:{step.line}: {step.code}\n{step.seen}"


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_no_code_of_a_page_escapes_the_check(page):
    text = page.read_text()
    for block in blocks(text):
        assert block.language in CODE, f"{page.name}:{block.line}: a fence needs one of the languages {CODE}"
        if block.language == "sh":
            assert all(line.startswith(SETUP) for line in block.text.splitlines() if line.strip()), f"{page.name}:{block.line}"
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    loose = [line for line in outside.splitlines() if re.match(r"    (\$ )?(sfumato |import sfumato|sf\.)", line)]
    assert not loose, f"{page.name}: code outside a fence is not checked: {loose[0]}"


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_stands_in_the_contents_of_the_site():
    contents = (ROOT / "docs" / "index.md").read_text().splitlines()
    pages = [str(p.relative_to(ROOT / "docs").with_suffix("")) for p in PAGES if p.is_relative_to(ROOT / "docs")]
    assert [p for p in pages if p not in contents] == ["index"]


def test_every_public_name_stands_in_the_reference():
    listed = set(re.findall(r"^\.\. auto\w+:: sfumato\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE))
    assert listed == set(sf.__all__) - {"__version__"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=title)
def test_a_notebook_runs_in_a_kernel(path, tmp_path):
    """In a process of its own: a kernel's sockets and loops are no concern of ours."""
    script = (
        "import sys, nbformat, nbclient; "
        "nbclient.NotebookClient(nbformat.read(sys.argv[1], 4), timeout=300).execute()"
    )
    done = subprocess.run([sys.executable, "-c", script, path], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def test_there_are_three_notebooks_without_stored_output():
    assert len(NOTEBOOKS) >= 3
    for path in NOTEBOOKS:
        assert all(not c.get("outputs") for c in json.loads(path.read_text())["cells"]), path.name
