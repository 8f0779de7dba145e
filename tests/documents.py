"""The code of the documentation, as blocks that can be run.

Three fences are code: `python` (run in one namespace per page; what it prints, if shown, in an `output` block right
after it), `console` (lines with `$ `: a command, and after it what it prints), and `sh` (for a person's machine, such
as `make demo`: not run, and only commands of SETUP may stand there). In expected output `…` stands for anything, and
numbers, which are drawn anew in every run, may differ from the page by NEAR of themselves or by LITTLE.
`python -m tests.documents` prints what differs from the pages, to bring them up to date.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from sfumato.cli import cli

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SETUP = ("make ", "git ", "cd ", "pip ", "python", "eval ", "spark-submit", "sfumato completion", "export ", "#", "sfumato ledger settle", "sfumato collect serve", "sfumato studio")
FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n", re.MULTILINE)
PIECES = re.compile(r"(\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)|(…)|(\s+)")
NEAR, LITTLE = 0.2, 0.3


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text and the line where it begins."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Step:
    """A piece of code that was run, what the page shows of it and what was seen."""

    line: int
    code: str
    wanted: str | None
    seen: str

    @property
    def holds(self) -> bool:
        return self.wanted is None or agrees(self.wanted.strip(), self.seen.strip())


def agrees(wanted: str, seen: str) -> bool:
    """Whether the text is the same up to white space and …, and the numbers are near.

    >>> agrees("kept 0.92 of … bits", "kept  0.9189 of 1.705 bits"), agrees("kept 0.9", "kept 1.9")
    (True, False)
    """
    pattern, last = "", 0
    for piece in PIECES.finditer(wanted):
        pattern += re.escape(wanted[last : piece.start()])
        pattern += r"(\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)" if piece[1] else ".*?" if piece[2] else r"\s+"
        last = piece.end()
    found = re.fullmatch(pattern + re.escape(wanted[last:]), seen, re.DOTALL)
    shown = [_number(m[1]) for m in PIECES.finditer(wanted) if m[1]]
    return found is not None and all(
        abs(a - b) <= max(LITTLE, NEAR * abs(a)) for a, b in zip(shown, map(_number, found.groups()), strict=True)
    )


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def blocks(text: str) -> list[Block]:
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(text)]


def steps(page: Path) -> Iterator[Step]:
    """Run the code of a page in the current folder, in order."""
    names: dict[str, object] = {"__name__": "__main__"}
    found = blocks(page.read_text())
    for block, after in zip(found, [*found[1:], Block("", "", 0)], strict=True):
        if block.language == "python":
            yield Step(block.line, block.text, after.text if after.language == "output" else None, _python(block, names))
        elif block.language == "console":
            yield from _console(block)


def _python(block: Block, names: dict[str, object]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(block.text, f"<line {block.line}>", "exec"), names)
    return out.getvalue()


def _console(block: Block) -> Iterator[Step]:
    parts = COMMAND.split(block.text)
    assert not parts[0].strip(), f"line {block.line}: a console block begins with '$ '"
    for line, wanted in zip(parts[1::2], parts[2::2], strict=True):
        yield Step(block.line, line, wanted if wanted.strip() else None, _command(line))


def _command(line: str) -> str:
    """What a command prints to its standard output, then its errors; an exit code other than the one noted is an error.

    `# exit 5` after the command is the code expected instead of 0.
    """
    words = shlex.split(line, comments=True)
    if words[0] == "head":
        return "".join(Path(words[3]).read_text().splitlines(keepends=True)[: int(words[2])])
    assert words[0] == "sfumato", f"{line!r} is not a command of ours"
    done = CliRunner().invoke(cli, words[1:], env={"COLUMNS": "88"})
    expected = int(line.split("# exit ")[1]) if "# exit " in line else 0
    assert done.exit_code == expected, f"{line!r} ended with {done.exit_code}:\n{done.output}\n{done.exception!r}"
    return done.stdout if expected == 0 else done.stdout + done.stderr


@contextlib.contextmanager
def workshop(folder: Path) -> Iterator[None]:
    """A folder with the files that the pages speak of, as the current one."""
    for path in [*(ROOT / "examples").glob("*.csv"), *(ROOT / "examples").glob("*.toml")]:
        shutil.copy(path, folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main(names: list[str]) -> None:
    for page in [Path(n).resolve() for n in names] or PAGES:
        with tempfile.TemporaryDirectory() as folder, workshop(Path(folder)):
            for step in steps(page):
                if not step.holds:
                    print(f"{page.name}:{step.line}: {step.code.strip()}\n{step.seen}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
