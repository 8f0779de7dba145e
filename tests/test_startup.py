"""What a command loads: small work starts at once because each command imports what it needs and no more."""

import contextlib
import io
import json
import subprocess
import sys

import pytest

import sfumato as sf
from sfumato.cli import console
from sfumato.errors import WHOLE

RUN = """
import json, sys
from sfumato.cli import cli
cli.main(sys.argv[1:], standalone_mode=False)
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
OWN = {"sfumato", "sfumato_kernel", "cython_runtime", "typing_extensions"}  # and what comes along with anything
PARTS = {  # packages of sfumato, and packages of others, that each command may load
    "verify": ({"certification", "cli", "mechanism", "uncertainty", "reporting"}, {"click", "numpy", "msgspec"}),
    "inspect": ({"certification", "cli", "mechanism", "uncertainty"}, {"click", "numpy", "msgspec"}),
    "estimate": (
        {"certification", "cli", "designers", "drawing", "estimation", "mechanism", "releasing", "sources",
         "uncertainty"}, {"click", "numpy", "msgspec", "pyarrow"},
    ),
    "respond": (
        {"cli", "drawing", "mechanism", "uncertainty"}, {"click", "numpy", "msgspec", "cryptography"},
    ),
}
SLOW = {"numpy.ma", "importlib.metadata", "email.message"}  # what comes along with a call that can be avoided
MODULES = {  # of packages that are large, the only modules that a command may load
    "verify": {"reporting": {"figures"}},
    "inspect": {"certification": {"promises"}},
    "estimate": {
        "releasing": {"wishes"}, "certification": {"promises"}, "designers": {"distances"},
        "drawing": {"manifest"},
    },
    "respond": {},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    joint = sf.Joint.from_counts([[30, 40], [50, 60]], secret=["ill", "well"], useful=["no", "yes"])
    mechanism = sf.design(sf.ChiSquareBall(joint), 1.0, "srr").mechanism
    mechanism.save(folder / "released.mechanism.json")
    sf.release(sf.datasets.rows(joint), mechanism, folder / "released.csv")
    return folder


def loaded(*words):
    run = subprocess.run([sys.executable, "-c", RUN, *words], capture_output=True, text=True, check=True)
    return set(json.loads(run.stderr.splitlines()[-1]))


@pytest.mark.parametrize(("command", "file", "words"), [
    ("verify", "released.mechanism.json", ()), ("inspect", "released.mechanism.json", ()),
    ("estimate", "released.csv", ()), ("respond", "released.mechanism.json", ("secret=ill", "useful=yes")),
])
def test_a_command_loads_only_what_its_work_needs(files, command, file, words):
    modules = loaded(command, str(files / file), *words)
    own, others = PARTS[command]

    inside = {name.split(".")[1] for name in modules if name.startswith("sfumato.") and name.count(".") > 1}
    outside = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) - OWN

    assert inside <= own
    assert not modules & SLOW
    assert {name for name in outside if not name.startswith("_")} <= others
    for package, allowed in MODULES[command].items():
        found = {name.split(".")[2] for name in modules if name.startswith(f"sfumato.{package}.")}
        assert found <= allowed


def test_text_for_a_pipe_is_what_rich_would_print(monkeypatch):
    prose = "Nobody learns ε > 0.8 (see released.mechanism.json); the rest is independent of the others, given it. " * 3 + "/a/very/long/path" * 9
    pairs = [("holds", "ε ≤ 1"), ("worst at", prose), ("", "and nothing else")]
    head, cells = ["value", "", "from"], [["A · B", "12.5 %", "3"], ["(missing)", "", "−1"], ["a longer one", "1", "2"]]
    ways = [
        lambda: console.story("\n" + prose + "\n\nAnd on."), lambda: console.heading("\ntown × age"),
        lambda: console.pairs(pairs), lambda: console.columns(head, cells, numbers=2),
        lambda: console.columns(head, cells, numbers=1, plots=1),
    ]
    for width in (24, 60, 80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        for way in ways:
            plain, rich = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(plain):
                way()
            with monkeypatch.context() as patch, contextlib.redirect_stdout(rich):
                patch.setattr(console, "window", lambda stream: None)
                way()
            assert plain.getvalue() == rich.getvalue()


def test_a_package_finds_its_names_where_modules_bear_them():
    import sfumato.certification.promises  # a module and a function of the package
    import sfumato.estimation.numbers

    assert callable(sfumato.certification.promises) and callable(sfumato.estimation.numbers)
    assert "promises" in dir(sfumato.certification)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sfumato.certification.nothing
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from sfumato.certification import nothing  # noqa: F401


def test_a_release_by_a_mechanism_needs_no_solver_and_makes_no_page(files, tmp_path):
    without = f"import sys\nfor name in {(*WHOLE, 'numba')}: sys.modules[name] = None\n{RUN}"
    rows = tmp_path / "people.csv"
    rows.write_text("secret,useful\nill,no\nwell,yes\n")
    words = ["release", str(rows), "--mechanism", str(files / "released.mechanism.json"),
             "--out", str(tmp_path / "out.csv")]

    run = subprocess.run([sys.executable, "-c", without, *words], capture_output=True, text=True)

    assert run.returncode == 0, run.stderr
    assert (tmp_path / "out.csv").exists()
    assert not (tmp_path / "out.report.html").exists()
