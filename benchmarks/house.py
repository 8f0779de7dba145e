"""The house in figures: files, lines, names that mean several things, `Any`, lazy imports, borders a release crosses.

`python benchmarks/house.py [TREE …]` prints one column for each checkout (this one if none is named). All figures but
the last three are read from the source. Those follow one release from the command line, a design included, by a
profiler: a border is crossed where a function of one package calls one of another, and each pair of functions counts
once. A property of a value (`joint.shape`) is such a call too, though it reads as a field; how many of the pairs are
of this kind is told beside.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
LONG_FILE, LONG_FUNCTION = 250, 25  # lines that most stay below
ENGINE = {"solve", "optimise", "designers"}  # the first is what the second replaced

WALK = """
import inspect, pathlib, sys, tempfile, threading
import numpy as np, pyarrow as pa
from click.testing import CliRunner
from pyarrow import csv
import sfumato
from sfumato.cli import cli

HOME = str(pathlib.Path(sfumato.__file__).parent) + "/"
rng = np.random.default_rng(5)
folder = pathlib.Path(tempfile.mkdtemp())
people = pa.table({"health": rng.choice(["ill", "well"], 6_000), "town": rng.choice(["A", "B"], 6_000)})
csv.write_csv(people, folder / "t.csv")
crossed, first = set(), {}

def place(code):
    name = code.co_filename
    return name[len(HOME):].split("/")[0].removesuffix(".py") if name.startswith(HOME) else None

def note(frame, event, arg):
    if event != "call" or (here := place(frame.f_code)) is None:
        return
    first.setdefault(frame.f_code.co_filename[len(HOME):], len(first))
    above = frame.f_back
    while above is not None and place(above.f_code) is None:
        above = above.f_back
    if above is not None and place(above.f_code) != here:
        crossed.add((above.f_code, frame.f_code))

def release(name):
    words = f"release {folder}/t.csv --secret health --epsilon 1 --method srr --out {folder}/{name}"
    done = CliRunner().invoke(cli, words.split())
    assert done.exit_code == 0, done.output

release("warm.csv")  # so that no import is counted
threading.setprofile(note)
sys.setprofile(note)
release("walk.csv")
sys.setprofile(None)

def is_property(code):
    *path, name = code.co_qualname.split(".")
    module = sys.modules["sfumato." + code.co_filename[len(HOME):].removesuffix(".py").replace("/", ".")]
    owner = module
    for part in path:
        owner = getattr(owner, part, None)
    return isinstance(inspect.getattr_static(owner, name, None), property)

print(len(crossed), sum(is_property(callee) for _, callee in crossed), len(first))
"""


def modules(tree: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    """Every module of the library and the kernel, with its text."""
    for path in sorted((tree / "src").rglob("*.py")):
        text = path.read_text()
        yield path.relative_to(tree / "src"), text, ast.parse(text)


def is_number(node: ast.AST | None) -> bool:
    """Whether an expression is written with numbers alone."""
    known = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.Tuple, ast.expr_context)
    parts = list(ast.walk(node)) if node is not None else []
    figures = [p for p in parts if isinstance(p, ast.Constant)]
    return bool(figures) and all(isinstance(p, known) for p in parts) and all(
        isinstance(p.value, (int, float)) and not isinstance(p.value, bool) for p in figures
    )


def constants(module: ast.Module) -> Iterator[str]:
    """The names of a module that stand for numbers."""
    for node in module.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or not is_number(node.value):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (x.id for t in targets for x in ast.walk(t) if isinstance(x, ast.Name) and x.id.isupper())


def functions(module: ast.Module) -> Iterator[ast.FunctionDef]:
    return (n for n in ast.walk(module) if isinstance(n, ast.FunctionDef))


def code_lines(text: str, module: ast.Module) -> int:
    """Lines that are code: not blank, no comments, no docstrings or other free strings."""
    told = {
        line for n in ast.walk(module) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
        for line in range(n.lineno, (n.end_lineno or n.lineno) + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") and i not in told for i, line in lines)


def measured(tree: Path) -> dict[str, int]:
    """All figures of one checkout."""
    files = [(path, text, module) for path, text, module in modules(tree)]
    stems = Counter(path.stem for path, _, _ in files if not path.stem.startswith("__"))
    classes = Counter(n.name for _, _, m in files for n in ast.walk(m) if isinstance(n, ast.ClassDef))
    held = [name for _, _, m in files for name in constants(m)]
    lazy = [
        n for _, _, m in files for f in functions(m) for n in ast.walk(f) if isinstance(n, (ast.Import, ast.ImportFrom))
    ]
    long = [f for _, _, m in files for f in functions(m) if (f.end_lineno or f.lineno) - f.lineno + 1 > LONG_FUNCTION]
    engine = [(text, m) for path, text, m in files if ENGINE & set(path.parts)]
    crossed, read, walked = walk(tree)
    return {
        "packages": len({path.parts[:2] for path, _, _ in files if len(path.parts) > 2}) + 1,  # the kernel is one
        "files": len(files),
        "lines": sum(text.count("\n") for _, text, _ in files),
        "files of the engine": len(engine),
        "lines of the engine": sum(text.count("\n") for text, _ in engine),
        "of these, neither blank nor told to people": sum(code_lines(text, m) for text, m in engine),
        f"files above {LONG_FILE} lines": sum(text.count("\n") > LONG_FILE for _, text, _ in files),
        f"functions above {LONG_FUNCTION} lines": len(long),
        "module names used more than once": sum(n > 1 for n in stems.values()),
        "class names used more than once": sum(n > 1 for n in classes.values()),
        "numeric constants of modules": len(held),
        "of these, names used more than once": sum(n > 1 for n in Counter(held).values()),
        "`Any`": sum(isinstance(n, ast.Name) and n.id == "Any" for _, _, m in files for n in ast.walk(m)),
        "lazy imports": len(lazy),
        "files that a release calls into": walked,
        "borders that a release crosses": crossed,
        "of these, to read a property": read,
    }


def walk(tree: Path) -> tuple[int, int, int]:
    """(borders crossed, those to read a property, files called into) by a release from the command line."""
    ours = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", WALK], env=ours, capture_output=True, text=True, check=True)
    crossed, read, walked = map(int, done.stdout.split())
    return crossed, read, walked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path, default=[HERE], metavar="TREE", help="Checkouts to compare.")
    found = [measured(tree.resolve()) for tree in parser.parse_args().trees]
    print("| figure |" + "".join(f" {i} |" for i in range(1, len(found) + 1)))
    print("|---|" + "---:|" * len(found))
    for name in found[0]:
        print(f"| {name} |" + "".join(f" {x[name]:,} |" for x in found))


if __name__ == "__main__":
    main()
