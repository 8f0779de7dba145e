"""Wheels and sdist by role, and each of them tried in an empty environment.

    verify   sfumato-kernel    proves the claim of a mechanism file; the standard library alone
    release  sfumato-release   the same package as sfumato, its requirements without the solvers
    design   sfumato           all of it
    fast     sfumato[fast]     with numba, for large releases

    python wheels/build.py [python3.12 …]

tries the wheels with this interpreter and those named, and prints what each role weighs beside the interpreter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAVY = ("scipy", "highspy", "clarabel", "rich", "jinja2")  # what designs and makes pages
ROLES = {"verify": "sfumato-kernel", "release": "sfumato-release", "design": "sfumato", "fast": "sfumato[fast]"}
ROWS = "diagnosis,town\n" + "well,A\nsick,B\nwell,B\nwell,A\n" * 250
BUILD = """
import sys
from setuptools import build_meta
_, out, what = sys.argv  # which setuptools overwrites
print(build_meta.build_wheel(out))
if what == "sdist":
    print(build_meta.build_sdist(out))
"""


def run(*command: str | Path, cwd: Path | None = None, **extra: str) -> str:
    """What a command prints; everything it said if it fails."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | extra
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def environment(interpreter: str, folder: Path, *requirements: str) -> Path:
    """A new environment with these packages; its Python."""
    run(interpreter, "-m", "venv", folder)
    python = folder / "bin" / "python"
    if requirements:
        run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *requirements)
    return python


def lighter(text: str) -> str:
    """The project file of sfumato-release, from that of sfumato."""
    project = tomllib.loads(text)["project"]
    kept = [x for x in project["dependencies"] if not x.startswith(HEAVY)]
    old = text[text.index("dependencies = [") : text.index("]\n", text.index("dependencies = [")) + 2]
    new = "dependencies = [\n" + "".join(f'  "{x}",\n' for x in kept) + "]\n"
    return text.replace(old, new).replace('name = "sfumato"', 'name = "sfumato-release"', 1)


def staged(folder: Path, role: str) -> Path:
    """What a distribution is made from, in a folder of its own."""
    place = folder / role
    source = place if role == "verify" else place / "src"
    names = ["sfumato_kernel"] if role == "verify" else ["sfumato", "sfumato_kernel"]
    for name in names:
        shutil.copytree(ROOT / "src" / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / "LICENSE", place)
    text, readme = (ROOT / "pyproject.toml").read_text("utf-8"), ROOT / "README.md"
    if role == "verify":
        text, readme = (ROOT / "kernel" / "pyproject.toml").read_text("utf-8"), ROOT / "kernel" / "README.md"
    elif role == "release":
        text, readme = lighter(text), ROOT / "wheels" / "README.md"
    (place / "pyproject.toml").write_text(text, "utf-8")
    shutil.copy(readme, place / "README.md")
    return place


def built(folder: Path, out: Path) -> dict[str, Path]:
    """The wheel of each role, and the sdist of the whole."""
    python = environment(sys.executable, folder / "builder", "setuptools>=77")
    made = {}
    for role in ("verify", "release", "design"):
        said = run(python, "-c", BUILD, out, "sdist" if role == "design" else "wheel", cwd=staged(folder, role))
        made |= {"sdist" if line.endswith(".tar.gz") else role: out / line for line in said.split("\n")
                 if line.endswith((".whl", ".tar.gz"))}
    return made


def megabytes(python: Path) -> float:
    """What lies in an environment's packages, pip and its like left out."""
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    own = ("pip", "setuptools", "_distutils_hack", "pkg_resources", "distutils-precedence")
    files = (x for x in packages.rglob("*") if x.is_file() and not x.is_symlink())
    return sum(x.stat().st_size for x in files if not x.relative_to(packages).parts[0].startswith(own)) / 1e6


def commands(sfumato: Path, folder: Path) -> int:
    """Every command's help; how many there are."""
    code = "from sfumato.cli import COMMANDS; print(*COMMANDS)"
    names = run(sfumato.with_name("python"), "-c", code, cwd=folder).split()
    for name in names:
        assert "Example" in run(sfumato, name, "--help", cwd=folder), name
    return len(names)


def tried(role: str, python: Path, folder: Path, mechanism: Path) -> str:
    """One release and one verification where the role has them."""
    if role == "verify":
        assert "proved" in run(python.with_name("sfumato-kernel"), mechanism, cwd=folder)
        return "verified one file"
    sfumato = python.with_name("sfumato")
    table = folder / "people.csv"
    table.write_text(ROWS)
    count = commands(sfumato, folder)
    wished = ["--secret", "diagnosis", "--useful", "town", "--epsilon", "1"]
    way = ["--mechanism", str(mechanism)] if role == "release" else wished
    run(sfumato, "release", table, *way, "--out", folder / "released.csv", SFUMATO_PATIENCE="0.1", cwd=folder)
    made = mechanism if role == "release" else folder / "released.mechanism.json"
    assert "proved" in run(sfumato, "verify", made, cwd=folder)
    run(sfumato, "estimate", folder / "released.csv", "--mechanism", made, cwd=folder)
    if role == "design" and not mechanism.exists():
        shutil.copy(made, mechanism)
    return f"{count} commands' help, released {len(ROWS.splitlines()) - 1:,} rows, verified, estimated"


def main(others: list[str]) -> None:
    out = ROOT / "dist"
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made_in:
        folder = Path(made_in)
        wheels = built(folder, out)
        for name, path in wheels.items():
            print(f"{name:8} {path.name}  {path.stat().st_size / 1e6:.1f} MB")
        mechanism = folder / "law.mechanism.json"
        trials = [("design", sys.executable), *(("design", x) for x in others), ("release", sys.executable),
                  ("verify", sys.executable), ("fast", sys.executable), ("sdist", sys.executable)]
        for i, (role, interpreter) in enumerate(trials):
            place = folder / f"tried{i}"
            wheel = wheels.get(role, wheels["design"])
            python = environment(interpreter, place, f"{wheel}[fast]" if role == "fast" else str(wheel))
            version = run(python, "-c", "import platform; print(platform.python_version())").strip()
            size = megabytes(python)
            (place / "work").mkdir()
            said = tried("design" if role in ("fast", "sdist") else role, python, place / "work", mechanism)
            print(f"{role:8} Python {version:8} {size:6.1f} MB  {said}", flush=True)
            shutil.rmtree(place)


if __name__ == "__main__":
    main(sys.argv[1:])
