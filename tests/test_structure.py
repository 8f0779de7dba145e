"""The house keeps its shape: imports only go forward, tables and folders agree, names do not hide each other."""

import ast
import importlib
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.designers.choose import _HOMES, designer
from sfumato.drawing import manifest
from sfumato.mechanism import bundle, file
from sfumato.privacy.information import _BY_KIND

HOME = Path(sf.__file__).parent
ROOT = Path(__file__).parent.parent
ORDER = [
    "errors", "libraries", "processes", "decimals", "tolerances", "frames", "atomic", "alphabet", "joint", "noise", "sources", "datasets",
    "uncertainty", "mechanism", "optimise", "privacy", "certification", "designers", "composing",
    "drawing", "estimation", "reporting", "releasing", "ledgers", "auditing", "survey",
    "reproduce", "studio", "cli", "__main__",
]
# alphabet encodes through sources.values, loaded when a whole column comes: the one call backwards.
BACKWARDS = {("alphabet", "sources")}


PUBLIC = """
    __version__ Alphabet Anything Arimoto BayesLeakage BudgetError Bundle BundleDesign ChiSquareBall ClaimError
    Column Composition Contraction Custom DataError Design Exactly GainLeakage InputError Joint LDP LIP Leakage
    Ledger MaximalAlphaLeakage MaximalCorrelation MaximalLeakage Mechanism PML Place Plan PointwiseLeakage Polytope
    Promise Question RLDP Release RenyiBall RenyiLDP SRLIP SfumatoError Shannon Sibson Tabular TiltedLeakage
    TotalVariation WorstInputLeakage about_one_person audit bundle certify compare compose covering datasets design designs
    estimate expected_distortion lattice leakage_map least_epsilon least_information least_leakage level load
    load_counts measure methods mutual_information nmi noisy_counts numbers plan promises publish recovery release
    save_counts seal tabulate tradeoff verify
""".split()
MANIFEST = """
    format version sfumato date rows columns decode meaning method mechanism claim engine randomness design_data
    notes packages size entry publisher command
""".split()
MECHANISM = """
    format version method reads secret useful law claim design answers checksum
""".split()
BUNDLE = """
    format version secret parts turns promise source checksum
""".split()
# What others rely on: a name may be added here, and none may go.


def modules():
    return sorted(HOME.rglob("*.py"))


def place(path):
    return path.relative_to(HOME).parts[0].removesuffix(".py")


def test_every_module_has_a_place_in_the_order_and_on_the_map():
    assert {place(p) for p in modules()} - {"__init__"} <= set(ORDER)
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert [name for name in ORDER if f"`{name}/`" not in guide and f"`{name}.py`" not in guide] == []
    assert [name for name in dict.fromkeys(re.findall(r"^\| `(\w+)(?:/|\.py)`", guide, re.MULTILINE)) if name in ORDER] == ORDER


def test_every_file_that_a_page_names_exists():
    for page in (ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")):
        named = re.findall(r"(?<![\w/.-])((?:[a-z_]+/)+[a-z_]+\.py)\b", page.read_text("utf-8"))
        homes = (ROOT, HOME, HOME.parent, HOME / "optimise")
        assert [x for x in named if not any((home / x).exists() for home in homes)] == [], page.name


@pytest.mark.parametrize("path", [p for p in modules() if place(p) != "__init__"], ids=lambda p: str(p.relative_to(HOME)))
def test_imports_only_go_forward(path):
    here = place(path)
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names = [f"sfumato.{a.name}" for a in node.names] if names == ["sfumato"] else names
        names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            if name.startswith("sfumato.") and (there := name.split(".")[1]) in ORDER:
                assert ORDER.index(there) <= ORDER.index(here) or (here, there) in BACKWARDS, f"{here} imports {there}"


def _at_import(body):
    """The imports that run when a module is loaded: not those of functions, nor those for types alone."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif not (isinstance(node, ast.FunctionDef) or getattr(getattr(node, "test", None), "id", "") == "TYPE_CHECKING"):
            yield from _at_import([x for name in ("body", "orelse", "finalbody", "handlers") for x in getattr(node, name, [])])


def test_every_module_can_be_the_first_to_be_imported():
    src = HOME.parent
    files = {".".join(p.relative_to(src).with_suffix("").parts).removesuffix(".__init__"): p for p in src.rglob("*.py")}
    above = {name: {name.rsplit(".", i)[0] for i in range(1, name.count(".") + 1)} for name in files}
    needs = {}
    for name, path in files.items():
        nodes = list(_at_import(ast.parse(path.read_text("utf-8")).body))
        said = {f"{n.module}.{a.name}" if f"{n.module}.{a.name}" in files else n.module
                for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names}
        said |= {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
        own = said & set(files)  # a package that is entered for one of its modules runs first, unless one is inside
        needs[name] = own | {a for x in own for a in above[x]} - above[name] - {name}

    order = list(TopologicalSorter(needs).static_order())  # a circle would have none

    assert set(order) == set(files)


def _decides_by_text(handler):
    """Whether an except clause looks into what its error says."""
    def says(node):
        texts = {f"str({handler.name})", f"{handler.name}.args", f"{handler.name}.what", f"{handler.name}.text()"}
        return any(isinstance(x, ast.expr) and ast.unparse(x) in texts for x in ast.walk(node))

    for node in ast.walk(handler):
        if isinstance(node, ast.Compare) and (says(node.left) or any(map(says, node.comparators))):
            return True
        looks = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if looks and node.func.attr in ("search", "match", "findall", "startswith", "endswith") and says(node):
            return True
    return False


def test_nothing_decides_by_the_text_of_a_message():
    told = {  # by others, who say in words alone what is wrong: Arrow's reader of CSV, and Spark of its workers
        "sources/delimited.py", "sources/data_frames.py",
    }
    found = {
        str(path.relative_to(HOME)) for path in modules() for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler) and node.name and _decides_by_text(node)
    }
    assert found == told


def test_certification_knows_nothing_of_designs():
    script = (
        "import sys, sfumato.certification; "
        "print([m for m in sys.modules if m.startswith(('sfumato.designers', 'sfumato.optimise.'))])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "[]"


def test_no_package_hides_a_public_function():
    names = {place(p) for p in modules()}
    assert not names & (set(sf.__all__) - {"datasets"})


def test_public_names_and_file_formats_are_those_that_others_rely_on():
    assert set(PUBLIC) <= set(sf.__all__)
    assert (manifest.FORMAT, manifest.VERSION) == ("sfumato/manifest", 1)
    assert (file.FORMAT, file.VERSIONS) == ('sfumato/mechanism', (1, 2))
    assert (bundle.FORMAT, bundle.VERSION) == ('sfumato/bundle', 1)
    fields = (manifest.Manifest, MANIFEST), (file.MechanismRecord, MECHANISM), (bundle.BundleRecord, BUNDLE)
    for kind, known in fields:
        assert list(kind.__struct_fields__) == known


def test_every_public_name_loads():
    for name in sf.__all__:
        assert getattr(sf, name) is not None


def test_public_names_are_all_that_a_package_shows():
    assert [name for name in dir(sf) if not name.startswith("__")] == sorted(set(sf.__all__) - {"__version__"})


def test_mypy_knows_each_name_where_it_lives():
    packages = [p for p in modules() if p.name == "__init__.py" and "on_demand(" in p.read_text()]
    assert len(packages) > 12
    for path in packages:
        package = importlib.import_module(".".join(path.relative_to(HOME.parent).parts[:-1]))
        guarded = next(n for n in ast.parse(path.read_text()).body if isinstance(n, ast.If))
        typed = {a.name: n.module for n in guarded.body for a in n.names if a.name != "datasets"}
        homes = {name: home for name, home in package._homes.items() if name != "datasets"}
        assert homes == typed, package.__name__
        assert all(hasattr(package, name) for name in homes)


def test_every_law_has_its_information():
    from sfumato import mechanism
    from sfumato.mechanism import law

    kinds = {getattr(mechanism, n).kind for n in mechanism.__all__ if hasattr(getattr(mechanism, n), "kind") and n != "Law"}
    assert kinds == set(_BY_KIND)
    assert law.Law is mechanism.Law


def test_methods_are_the_table_of_designers():
    assert set(sf.methods()) == {*_HOMES, "auto"}
    assert all(callable(designer(method)) for method in _HOMES)


def test_a_respondent_needs_only_small_imports(tmp_path):
    joint = sf.Joint.from_counts([[3, 4], [5, 6]], secret=["ill", "well"], useful=["no", "yes"])
    path = sf.design(sf.ChiSquareBall(joint), 1.0, "srr").mechanism.save(tmp_path / "m.json")
    script = (
        f"import sys, sfumato; m = sfumato.load({str(path)!r}); print(m.respond('ill', 'yes'));"
        "print([x for x in ('scipy', 'pyarrow', 'numba', 'pandas', 'highspy', 'click', 'rich') if x in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()
    assert out[1] == "[]"
    assert ast.literal_eval(out[0]) in {(s, u) for s in ("ill", "well") for u in ("no", "yes")}


@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_what_a_benchmark_imports_of_the_library_is_there(script):
    """Benchmarks are not run here, but a name that moved must not be found missing on the day they are."""
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("sfumato", "sfumato_kernel"):
            home = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(home, name.name) or importlib.import_module(f"{node.module}.{name.name}")
