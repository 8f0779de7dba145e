"""How long it takes to begin: importing the package, asking for help, and small work by whole commands.

Times of commands are processor time, so that they can be compared on a machine that has other work, with bytecode in a
cache of this run's own, as an installed package has it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import sfumato as sf
from measure import Row, table

SMALL = 0.4  # seconds of process time for small work
REPEATS = 9
MAIN = "import sys; sys.argv[0] = 'sfumato'; from sfumato.cli import main; main()"
CASES = {
    "import numpy": ("import numpy",), "import sfumato": ("import sfumato",), "sfumato --help": (MAIN, "--help"),
    "sfumato verify": (MAIN, "verify", "released.mechanism.json"),
    "sfumato inspect": (MAIN, "inspect", "released.mechanism.json"),
    "sfumato estimate": (MAIN, "estimate", "released.csv"),
}


def made(folder: Path) -> None:
    """A release of two thousand rows, as `sfumato release` makes it."""
    joint = sf.Joint.from_counts([[600, 100, 300], [200, 500, 300]], secret=["well", "ill"], useful=["A", "B", "C"])
    plan = sf.plan(sf.datasets.rows(joint), "secret", 1.0, "useful", design="noisy", at_most=3.0)
    sf.publish(plan, folder / "released.csv", report=False)


def seconds(case: tuple[str, ...], folder: Path) -> float:
    """Processor time of a process of its own."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPYCACHEPREFIX": str(folder / "cache"), "PYTHONPATH": str(Path(sf.__file__).parents[1])}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", *case], cwd=folder, env=env, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def results() -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made(folder)
        times = {name: [seconds(case, folder) for _ in range(REPEATS + 1)][1:] for name, case in CASES.items()}
    least = {name: min(found) for name, found in times.items()}
    note = f"importing numpy takes {least.pop('import numpy'):.3f} s here"
    goals = {"import sfumato": 0.3, "sfumato --help": 0.5}
    return [
        Row(name, value, "s", f"< {goals.get(name, SMALL)} s", value < goals.get(name, SMALL),
            f"version {sf.__version__}", "one process, least of nine", note)
        for name, value in least.items()
    ]


if __name__ == "__main__":
    print(table(results()))
