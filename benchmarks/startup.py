"""How long it takes to begin: importing the package, and asking the command for help."""

from __future__ import annotations

import subprocess
import sys

from measure import Row, medians, table

IMPORT = [sys.executable, "-c", "import sfumato; print(sfumato.__version__)"]
HELP = [sys.executable, "-c", "import sys; sys.argv = ['sfumato', '--help']; from sfumato.cli import main; main()"]


def output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def results() -> list[Row]:
    times = medians({
        "nothing": lambda: output([sys.executable, "-c", ""]), "import": lambda: output(IMPORT),
        "help": lambda: output(HELP),
    }, repeats=9)
    note = f"Python alone {times['nothing']:.3f} s"
    return [
        Row("import sfumato", times["import"], "s", "< 0.3 s", times["import"] < 0.3,
            f"version {output(IMPORT).strip()}", "one process", note),
        Row("sfumato --help", times["help"], "s", "< 0.5 s", times["help"] < 0.5,
            f"{len(output(HELP).splitlines())} lines", "one process", note),
    ]


if __name__ == "__main__":
    print(table(results()))
