"""How the site is built: `make docs`. Pages are Markdown, notebooks are run; the reference comes from docstrings."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from docutils import nodes
from pygments.lexers.special import OutputLexer

project = "sfumato"
author = "the authors of sfumato"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_labels = False
smartquotes = False  # an option is --help, with two hyphens
html_theme = "furo"  # fonts and scripts are its own: the pages open without a network
html_title = "sfumato"
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_math_renderer = "katex"
exclude_patterns = ["figures/*.csv"]
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
autodoc_type_aliases = {name: name for name in ("Floats", "npt.ArrayLike")}
python_maximum_signature_line_length = 88
nb_execution_mode = "force"  # what a page shows was computed by the library that it documents
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True
nb_merge_streams = True
copybutton_prompt_text = r"\$ |>>> |\.\.\. "  # copied is what would be typed
copybutton_prompt_is_regexp = True


def as_written(app, what, name, obj, options, lines):
    """Docstrings are plain text with formulas, not reStructuredText: shown line by line, doctests as code."""
    text, shown = list(lines), []
    for line in text:
        if line.startswith(">>> ") and (not shown or not shown[-1].startswith((">>>", "..."))):
            shown.append("")
        plain = line.replace("*", "\\*").replace("|", "\\|").replace("_ ", "\\_ ")
        shown.append(line if line.startswith((">>>", "...")) else plain)
    lines[:] = shown


def formula(tag):
    """A formula as its own text: without scripts it can still be read, and `site.js` sets it."""

    def visit(self, node):
        self.body.append(f'<{tag} class="math">{self.encode(node.astext().strip())}</{tag}>')
        raise nodes.SkipNode

    return visit


def scripts(app, page, template, context, doctree):
    """KaTeX, from the site's own folder, on the pages that have formulas."""
    if doctree is not None and any(doctree.findall(lambda n: isinstance(n, nodes.math | nodes.math_block))):
        app.add_css_file("katex/katex.min.css")
        app.add_js_file("katex/katex.min.js", priority=400, loading_method="defer")  # before site.js, which uses it


def setup(app):
    app.add_lexer("output", OutputLexer)
    app.add_html_math_renderer("katex", (formula("span"), None), (formula("div"), None))
    app.connect("autodoc-process-docstring", as_written)
    app.connect("html-page-context", scripts)
