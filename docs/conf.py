"""How the site is built: `make docs`. Pages are Markdown; the reference comes from docstrings."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from pygments.lexers.special import OutputLexer

project = "sfumato"
author = "the authors of sfumato"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_heading_anchors = 3
html_theme = "furo"  # fonts and scripts are its own: the pages open without a network
html_title = "sfumato"
html_show_sphinx = False
exclude_patterns = ["figures/*.csv"]
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
autodoc_type_aliases = {name: name for name in ("Floats", "npt.ArrayLike")}
python_maximum_signature_line_length = 88


def as_written(app, what, name, obj, options, lines):
    """Docstrings are plain text with formulas, not reStructuredText: shown line by line, doctests as code."""
    text, shown = list(lines), []
    for line in text:
        if line.startswith(">>> ") and (not shown or not shown[-1].startswith((">>>", "..."))):
            shown.append("")
        plain = line.replace("*", "\\*").replace("|", "\\|").replace("_ ", "\\_ ")
        shown.append(line if line.startswith((">>>", "...")) else plain)
    lines[:] = shown


def setup(app):
    app.add_lexer("output", OutputLexer)
    app.connect("autodoc-process-docstring", as_written)
