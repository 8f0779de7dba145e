"""The Spark engine against the local one on the same file, and two Spark workers against one.

    python benchmarks/spark.py --rows 10000000 --large-rows 100000000

Times are after start-up: the session runs and one release went before. One worker is Spark with one task at a time on
one core, two workers are two tasks on two cores. The machine's limit is what two processes of pure arithmetic gain over
one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import sfumato as sf
from files import mechanism, write_people
from measure import Row, medians, table

ROWS, LARGE_ROWS = 10_000_000, 100_000_000
SLOWER, FASTER = 3.0, 1.6
REPEATS = 3


def session(workers: int) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = str(Path(sf.__file__).parents[1])
    settings = {
        "spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": 2 * workers, "spark.driver.memory": "2g",
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
    numbered = folder / "numbered.parquet"
    whole = pq.read_table(source).slice(0, rows // 10)
    pq.write_table(whole.append_column("id", [np.arange(len(whole))]), numbered, row_group_size=1 << 18)
    spark = session(2)
    times = medians({
        "local": lambda: sf.release(source, mechanism(), here, force=True),
        "spark": lambda: in_spark(spark, source, there),
        "local, id kept": lambda: sf.release(numbered, mechanism(), folder / "k.parquet", keep=["id"], force=True),
        "spark, id kept": lambda: in_spark(spark, numbered, folder / "K.parquet", keep=["id"]),
        "spark copy": lambda: spark.read.parquet(str(source)).write.mode("overwrite").parquet(str(folder / "copy")),
    }, REPEATS)
    truth, out = (sf.tabulate(x, "sex", "race").counts for x in (source, spark.read.parquet(str(there))))
    off = np.abs(out.ravel() - mechanism().matrix @ truth.ravel()).max() / np.sqrt(rows)
    spark.stop()
    value, kept = (times[f"spark{x}"] / times[f"local{x}"] for x in ("", ", id kept"))
    copied = times["spark"] / times["spark copy"]
    return [
        Row("Spark with two workers, Parquet → Parquet", value, "× local", f"≤ {SLOWER}×", value <= SLOWER,
            f"counts within {off:.2f} √n of Q·p", f"{rows:,} rows",
            f"local {times['local']:.2f} s, Spark {times['spark']:.2f} s, {copied:.2f}× Spark's own copy of the file"),
        Row("the same with a distinct column kept", kept, "× local", "none set", True, "every id once",
            f"{len(whole):,} rows", f"local {times['local, id kept']:.2f} s, Spark {times['spark, id kept']:.2f} s"),
    ]


def timed(workers: int, source: Path, target: Path) -> float:
    """Median seconds of a release by so many workers, each with a core, in a process of its own."""
    command = [sys.executable, __file__, "--workers", str(workers), "--source", str(source), "--target", str(target)]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return float(out.splitlines()[-1])


def as_worker(workers: int, source: Path, target: Path) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:workers])
    spark, times = session(workers), []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        in_spark(spark, source, target)
        times.append(time.perf_counter() - start)
    spark.stop()
    print(statistics.median(times[1:]))


def arithmetic(_: int) -> float:
    start, data = time.perf_counter(), bytes(1 << 24)
    for _ in range(60):
        hashlib.sha256(data).digest()
    return time.perf_counter() - start


def machine_limit() -> float:
    """How much more two processes compute than one, in the same time."""
    with ProcessPoolExecutor(2) as pool:
        alone = statistics.median(next(iter(pool.map(arithmetic, [0]))) for _ in range(REPEATS))
        both = statistics.median(max(pool.map(arithmetic, [0, 1])) for _ in range(REPEATS))
    return 2 * alone / both


def scaling(folder: Path, rows: int) -> Row:
    source = folder / "large.parquet"
    write_people(source, rows)
    one, two = (timed(k, source, folder / "out.parquet") for k in (1, 2))
    limit, value = machine_limit(), one / two
    return Row("two Spark workers", value, "× one", f"≥ {FASTER}×, or the machine's limit", value >= min(FASTER, limit),
               f"machine's limit {limit:.2f}×", f"{rows:,} rows", f"one {one:.1f} s, two {two:.1f} s")


def results(rows: int = ROWS, large_rows: int = LARGE_ROWS) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return [*against_local(Path(folder), rows), scaling(Path(folder), large_rows)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--large-rows", type=int, default=LARGE_ROWS)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--target", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.workers:
        as_worker(asked.workers, asked.source, asked.target)
    else:
        print(table(results(asked.rows, asked.large_rows)))
