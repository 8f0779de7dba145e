"""The Spark engine against the local one on the same file, and two Spark workers against one. About ten minutes.

    python benchmarks/spark.py --rows 10000000 --bundle-rows 10000000

Both engines read one Parquet file and write Parquet by pyarrow with its default settings and an fsync, both are warm:
the session runs, and Java has seen WARM releases, for it compiles what it runs often. Beside the seconds stand those of
the processor, of all processes together, which others who use the machine do not change. One worker is Spark with one
task at a time on one core, two workers are two tasks on two cores, each in a process of its own; they take turns. The
machine's limit is what two processes of pure arithmetic gain over one, measured in the same turns.

A frame that is nothing but files is read by the workers themselves; one that Spark has to compute (here with a filter
that keeps every row) comes to them through Spark's own conversion of rows. What that costs alone, with nothing done to
the rows and nothing written, stands beside it: no release of such a frame can take less.
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
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from files import mechanism, write_people
from measure import Row, table
from sfumato.sources.data_frames import map_in_arrow

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.columns_data import people
from tests.spark_cluster import java_home

ROWS, BUNDLE_ROWS = 10_000_000, 10_000_000
SLOWER, BY_ID, BUNDLE, FASTER = 3.0, 4.0, 3.0, 1.6
WARM, REPEATS, TURNS = 3, 3, 5
ARITHMETIC = 300  # blocks of 16 MB to hash: about as long as a release takes
GROUP = 1 << 18  # rows of a row group, of which a file needs several to be shared out


class Spent(NamedTuple):
    """The seconds of a run: on the clock, and of the processor in this process and all that it has started."""

    clock: float
    work: float


def work() -> float:
    """Seconds of the processor so far, by this process and its descendants, those that have ended too."""
    told: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            told[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def ours(process: int) -> bool:
        while process in told and process != os.getpid():
            process = told[process][0]
        return process == os.getpid()

    return sum(seconds for process, (_, seconds) in told.items() if ours(process))


def spent(runs: dict[str, Callable[[], None]], repeats: int, before: int = 1) -> dict[str, Spent]:
    """Medians of each, taken in turns so that a busy moment hits all alike; so many runs of each go before."""
    found: dict[str, list[Spent]] = {name: [] for name in runs}
    for turn in range(before + repeats):
        for name, run in runs.items():
            start, done = time.perf_counter(), work()
            run()
            if turn >= before:
                found[name].append(Spent(time.perf_counter() - start, work() - done))
    return {name: Spent(*(statistics.median(x) for x in zip(*each, strict=True))) for name, each in found.items()}


def told(first: Spent, second: Spent, names: tuple[str, str] = ("local", "Spark")) -> str:
    of_all = f"of the processor {first.work:.1f} s and {second.work:.1f} s"
    return f"{names[0]} {first.clock:.2f} s, {names[1]} {second.clock:.2f} s; {of_all}"


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


def in_spark(spark: Any, source: Path, target: Path, law: Any = None, where: str = "true", **options: Any) -> None:
    frame = spark.read.parquet(str(source)).where(where)
    sf.release(frame, law or mechanism(), target, force=True, **options)


def here(source: Path, target: Path, law: Any = None, **options: Any) -> None:
    sf.release(source, law or mechanism(), target, force=True, **options)


def carried(spark: Any, source: Path) -> None:
    """Spark's rows to its Python workers, and nothing else."""
    def number(batches: Any) -> Any:
        yield pa.record_batch({"n": [sum(b.num_rows for b in batches)]})

    frame = spark.read.parquet(str(source)).where("id >= 0").select("sex", "race", "id")
    map_in_arrow(frame, number, pa.schema([("n", pa.int64())])).toArrow()


def against_local(folder: Path, rows: int) -> list[Row]:
    source, there = folder / "people.parquet", folder / "there.parquet"
    numbered, own, theirs = (folder / f"{n}.parquet" for n in ("numbered", "k", "K"))
    write_people(source, rows)
    whole = pq.read_table(source)
    whole = whole.append_column("id", [np.arange(len(whole))])
    pq.write_table(whole, numbered, row_group_size=GROUP)
    spark, kept = session(2, folder), dict(keep=["id"])
    times = spent({
        "local": lambda: here(source, own), "spark": lambda: in_spark(spark, source, there),
    }, REPEATS, before=WARM)
    times |= spent({
        "local, by id": lambda: here(numbered, own, **kept),
        "spark, by id": lambda: in_spark(spark, numbered, theirs, id="id", **kept),
    }, REPEATS, before=WARM)
    ids = spark.read.parquet(str(theirs)).selectExpr("count(distinct id)").first()[0]
    times |= spent({
        "local, computed": lambda: here(numbered, own, **kept),
        "spark, computed": lambda: in_spark(spark, numbered, theirs, where="id >= 0", id="id", **kept),
        "carried": lambda: carried(spark, numbered),
    }, 1)
    times |= spent({
        "local, id kept": lambda: here(numbered, own, **kept),
        "spark, id kept": lambda: in_spark(spark, numbered, theirs, **kept),
    }, 1)
    truth, out = (sf.tabulate(x, "sex", "race").counts for x in (source, spark.read.parquet(str(there))))
    off = np.abs(out.ravel() - mechanism().matrix @ truth.ravel()).max() / np.sqrt(rows)
    spark.stop()

    def row(what: str, name: str, limit: float | None, answer: str, size: int, more: str = "") -> Row:
        local, there = times[f"local{name}"], times[f"spark{name}"]
        ratio, allowed = there.clock / local.clock, "none set" if limit is None else f"≤ {limit}×"
        return Row(what, ratio, "× local", allowed, limit is None or ratio <= limit, answer, f"{size:,} rows",
                   told(local, there) + more)

    return [
        row("Spark with two workers, Parquet → Parquet", "", SLOWER, f"counts within {off:.2f} √n of Q·p", rows),
        row("the same with an id kept, released by it", ", by id", BY_ID, f"{ids:,} different ids", rows,
            ", its ids compared on the way"),
        row("the same of a frame that Spark computes", ", computed", None, "every id once", rows,
            f"; Spark's rows to Python alone {times['carried'].clock:.2f} s"),
        row("the same with an id kept, without a name for rows", ", id kept", None, "every id once", rows),
    ]


def bundles(folder: Path, rows: int) -> list[Row]:
    """Ten columns of eight values, all of which every row answers."""
    source = folder / "chain.parquet"
    table_of = people(rows)
    pq.write_table(table_of.append_column("id", pa.array(np.arange(rows))), source, row_group_size=GROUP)
    law = sf.bundle(table_of.slice(0, 20_000), "secret", table_of.column_names[1:], 1.0, asking="together").bundle
    spark, found = session(2, folder / "bundles"), []
    for what, options, named in (("a bundle", {}, {}), ("a bundle by id", dict(keep=["id"]), dict(id="id"))):
        mine, theirs = folder / "b.parquet", folder / "B.parquet"
        times = spent({
            "local": lambda options=options, mine=mine: here(source, mine, law, **options),
            "spark": lambda options=options, named=named, theirs=theirs: in_spark(
                spark, source, theirs, law, **options, **named),
        }, REPEATS, before=WARM)
        ratio, released = times["spark"].clock / times["local"].clock, pq.read_metadata(mine).num_rows
        there = sum(pq.read_metadata(f).num_rows for f in theirs.iterdir())
        found.append(Row(what, ratio, "× local", f"≤ {BUNDLE}×", ratio <= BUNDLE and there == released,
                         f"{there:,} rows of {len(law.parts)} answers", f"{rows:,} rows",
                         told(times["local"], times["spark"])))
    spark.stop()
    return found


@contextlib.contextmanager
def workers(count: int, folder: Path) -> Iterator[Callable[[], Spent]]:
    """A process in which so many workers, each with a core, release a file whenever they are told to."""
    command = [sys.executable, __file__, "--workers", str(count), "--folder", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None

        def turn() -> Spent:
            process.stdin.write("once more\n")
            process.stdin.flush()
            return Spent(*map(float, process.stdout.readline().split()))

        yield turn
        process.stdin.close()


def as_workers(count: int, folder: Path) -> None:
    """The other side of `workers`: a warm session, then a release and its seconds for every line."""
    on_cores(count)
    own = folder / f"of {count}"
    own.mkdir()
    spark = session(count, own)
    source, target = folder / "numbered.parquet", own / "out.parquet"
    for _ in range(WARM):
        in_spark(spark, source, target, keep=["id"], id="id")
    for _ in sys.stdin:
        start, done = time.perf_counter(), work()
        in_spark(spark, source, target, keep=["id"], id="id")
        print(time.perf_counter() - start, work() - done, flush=True)
    spark.stop()


def on_cores(count: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def arithmetic(share: float) -> float:
    """The seconds of a share of ARITHMETIC blocks."""
    start, data = time.perf_counter(), bytes(1 << 24)
    for _ in range(round(ARITHMETIC * share)):
        hashlib.sha256(data).digest()
    return time.perf_counter() - start


def scaling(folder: Path, rows: int) -> Row:
    """Two workers against one, and beside it the same arithmetic by one process on one core and by two on two."""
    one, two, gains, limits = [], [], [], []
    with (workers(1, folder) as by_one, workers(2, folder) as by_two,
          ProcessPoolExecutor(1, initializer=on_cores, initargs=(1,)) as alone, ProcessPoolExecutor(2) as pool):
        for _ in range(TURNS):
            one.append(by_one())
            two.append(by_two())
            gains.append(one[-1].clock / two[-1].clock)
            limits.append(alone.submit(arithmetic, 1.0).result() / max(pool.map(arithmetic, [0.5, 0.5])))
    value, limit = statistics.median(gains), statistics.median(limits)
    first, second = (Spent(*(statistics.median(x) for x in zip(*each, strict=True))) for each in (one, two))
    return Row("two Spark workers, by id", value, "× one", f"≥ {FASTER}×, or the machine's limit",
               value >= min(FASTER, limit), f"machine's limit {limit:.2f}×", f"{rows:,} rows",
               f"{told(first, second, ('one', 'two'))}; load {os.getloadavg()[0]:.1f}")


def results(rows: int = ROWS, bundle_rows: int = BUNDLE_ROWS) -> list[Row]:
    if reason := missing():
        sys.exit(f"Spark is left out: {reason}.")
    with tempfile.TemporaryDirectory(dir=os.environ.get("SFUMATO_BENCHMARK_FOLDER")) as name:
        folder = Path(name)
        return [*against_local(folder, rows), *bundles(folder, bundle_rows), scaling(folder, rows)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--bundle-rows", type=int, default=BUNDLE_ROWS)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.workers:
        as_workers(asked.workers, asked.folder)
    else:
        print(table(results(asked.rows, asked.bundle_rows)))
