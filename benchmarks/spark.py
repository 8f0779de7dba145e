"""The Spark engine against the local one on the same file, and two Spark workers against one. About four minutes.

    python benchmarks/spark.py --rows 10000000 --large-rows 100000000

Both engines read one Parquet file and write Parquet by pyarrow with its default settings and an fsync, both are warm:
the session runs, and Java has seen WARM releases, for it compiles what it runs often. One worker is Spark with one task
at a time on one core, two workers are two tasks on two cores, each in a process of its own; they take turns. The
machine's limit is what two processes of pure arithmetic gain over one, measured in the same turns.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import sfumato as sf
from files import mechanism, write_people
from measure import Row, medians, table

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.spark_cluster import java_home

ROWS, LARGE_ROWS = 10_000_000, 100_000_000
SLOWER, BY_ID, FASTER = 3.0, 4.0, 1.6
WARM, REPEATS, LARGE_REPEATS = 5, 5, 2


def missing() -> str | None:
    """Why this cannot run here, if so."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed here; requirements/test.txt has it"
    return None


def session(workers: int, folder: Path) -> Any:
    from pyspark.sql import SparkSession

    home = java_home(folder)
    os.environ.update({"JAVA_HOME": home} if home else {})
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path(sf.__file__).parents[1])
    settings = {
        "spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": workers, "spark.driver.memory": "2g",
        "spark.sql.files.openCostInBytes": 1 << 18,  # so that a file of a few MB is cut into as many parts as workers
    }
    builder = SparkSession.builder.master(f"local[{workers}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def in_spark(spark: Any, source: Path, target: Path, **options: Any) -> None:
    sf.release(spark.read.parquet(str(source)), mechanism(), target, force=True, **options)


def against_local(folder: Path, rows: int) -> list[Row]:
    source, here, there = (folder / name for name in ("people.parquet", "here.parquet", "there.parquet"))
    write_people(source, rows)
    numbered, tenth = folder / "numbered.parquet", folder / "tenth.parquet"
    whole = pq.read_table(source)
    whole = whole.append_column("id", [np.arange(len(whole))])
    pq.write_table(whole, numbered, row_group_size=1 << 18)
    pq.write_table(whole.slice(0, rows // 10), tenth, row_group_size=1 << 18)
    spark = session(2, folder)
    times = medians({
        "local": lambda: sf.release(source, mechanism(), here, force=True),
        "spark": lambda: in_spark(spark, source, there),
    }, REPEATS, before=WARM)
    times |= medians({
        "local, by id": lambda: sf.release(numbered, mechanism(), folder / "k.parquet", keep=["id"], force=True),
        "spark, by id": lambda: in_spark(spark, numbered, folder / "K.parquet", keep=["id"], id="id"),
    }, 3)
    times |= medians({
        "local, id kept": lambda: sf.release(tenth, mechanism(), folder / "k.parquet", keep=["id"], force=True),
        "spark, id kept": lambda: in_spark(spark, tenth, folder / "T.parquet", keep=["id"]),
    }, 1)
    ids = spark.read.parquet(str(folder / "K.parquet")).selectExpr("count(distinct id)").first()[0]
    truth, out = (sf.tabulate(x, "sex", "race").counts for x in (source, spark.read.parquet(str(there))))
    off = np.abs(out.ravel() - mechanism().matrix @ truth.ravel()).max() / np.sqrt(rows)
    spark.stop()
    value, by_id, kept = (times[f"spark{x}"] / times[f"local{x}"] for x in ("", ", by id", ", id kept"))
    return [
        Row("Spark with two workers, Parquet → Parquet", value, "× local", f"≤ {SLOWER}×", value <= SLOWER,
            f"counts within {off:.2f} √n of Q·p", f"{rows:,} rows",
            f"local {times['local']:.2f} s, Spark {times['spark']:.2f} s"),
        Row("the same with an id kept, released by it", by_id, "× local", f"≤ {BY_ID}×", by_id <= BY_ID,
            f"{ids:,} different ids", f"{rows:,} rows",
            f"local {times['local, by id']:.2f} s, Spark {times['spark, by id']:.2f} s, its ids looked at first"),
        Row("the same with an id kept, counted", kept, "× local", "none set", True, "every id once",
            f"{rows // 10:,} rows", f"local {times['local, id kept']:.2f} s, Spark {times['spark, id kept']:.2f} s"),
    ]


@contextlib.contextmanager
def workers(count: int, folder: Path) -> Iterator[Any]:
    """A process in which so many workers, each with a core, release a file whenever they are told to."""
    command = [sys.executable, __file__, "--workers", str(count), "--folder", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None

        def turn() -> float:
            process.stdin.write("once more\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        yield turn
        process.stdin.close()


def as_workers(count: int, folder: Path) -> None:
    """The other side of `workers`: a warm session, then a release and its seconds for every line."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    own = folder / f"of {count}"
    own.mkdir()
    spark = session(count, own)
    for _ in range(WARM // 2):
        in_spark(spark, folder / "people.parquet", own / "out.parquet")
    for _ in sys.stdin:
        start = time.perf_counter()
        in_spark(spark, folder / "large.parquet", own / "out.parquet")
        print(time.perf_counter() - start, flush=True)
    spark.stop()


def arithmetic(_: int) -> float:
    start, data = time.perf_counter(), bytes(1 << 24)
    for _ in range(60):
        hashlib.sha256(data).digest()
    return time.perf_counter() - start


def scaling(folder: Path, rows: int) -> Row:
    write_people(folder / "large.parquet", rows)
    one, two, gains, limits = [], [], [], []
    with workers(1, folder) as by_one, workers(2, folder) as by_two, ProcessPoolExecutor(2) as pool:
        for _ in range(LARGE_REPEATS):
            one.append(by_one())
            two.append(by_two())
            gains.append(one[-1] / two[-1])
            alone = next(iter(pool.map(arithmetic, [0])))
            limits.append(2 * alone / max(pool.map(arithmetic, [0, 1])))
    value, limit = statistics.median(gains), statistics.median(limits)
    return Row("two Spark workers", value, "× one", f"≥ {FASTER}×, or the machine's limit", value >= min(FASTER, limit),
               f"machine's limit {limit:.2f}×", f"{rows:,} rows",
               f"one {statistics.median(one):.1f} s, two {statistics.median(two):.1f} s, load {os.getloadavg()[0]:.1f}")


def results(rows: int = ROWS, large_rows: int = LARGE_ROWS) -> list[Row]:
    if reason := missing():
        sys.exit(f"Spark is left out: {reason}.")
    with tempfile.TemporaryDirectory(dir=os.environ.get("SFUMATO_BENCHMARK_FOLDER")) as folder:
        return [*against_local(Path(folder), rows), scaling(Path(folder), large_rows)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--large-rows", type=int, default=LARGE_ROWS)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.workers:
        as_workers(asked.workers, asked.folder)
    else:
        print(table(results(asked.rows, asked.large_rows)))
