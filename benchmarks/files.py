"""A release of ten million rows against a copy of the same file by the same reader and writer, and its memory.

With --rows 100000000: throughput and memory of a Parquet file of that many rows against one of ten million.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf
from measure import Row, medians, table
from sfumato.mechanism import Cells, Claim, Mechanism
from sfumato.releasing.flow import ahead
from sfumato.releasing.writing import writer_for
from sfumato.sources import open_source

ROWS = 10_000_000
BLOCK = 1_000_000
RACES = ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White")
LIMITS = {".parquet": 1.25, ".csv": 1.15}
MEMORY_MB, FLAT = 600, 1.2


SLOWER = 1.15  # the most seconds per row of a large file, in those of a small one


def into(path: Path) -> Callable[[str], pa.NativeFile]:
    return lambda name: pa.OSFile(str(path), "wb")


def write_people(path: Path, rows: int) -> None:
    """Rows of two text columns, block by block."""
    rng = np.random.default_rng(0)
    sex, race = pa.array(["Female", "Male"]), pa.array(RACES)
    writer = None
    for _ in range(rows // BLOCK):
        batch = pa.record_batch({
            "race": race.take(pa.array(rng.integers(0, 5, BLOCK))), "sex": sex.take(pa.array(rng.integers(0, 2, BLOCK)))
        })
        writer = writer or writer_for(path)(into(path), batch.schema)
        writer.write(batch)
    writer.close()


def mechanism() -> Mechanism:
    joint = sf.Joint.from_counts([[1] * 5] * 2, sf.Column.of("sex", ["Female", "Male"]), sf.Column.of("race", RACES))
    law = Cells(2, 5, 0.4, 0.06, 0.06, 0.075).rounded(None, 1e-9)
    return Mechanism(law, joint.secret, joint.useful, method="srr", claim=Claim("ldp", 2.0), joint=joint)


def copy(source: Path, target: Path) -> None:
    """What a release does, without the release: the same reader in its thread, the same writer, the same fsync."""
    writer = None
    for batch in ahead(open_source(source).batches(["race", "sex"])):
        writer = writer or writer_for(target)(into(target), batch.schema)
        writer.write(batch)
    writer.close()
    descriptor = os.open(target, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def peak(folder: Path, suffix: str, rows: int) -> float:
    """Peak memory in MB of a release in a process of its own (ru_maxrss would count the parent's too)."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; import files;"
        "files.sf.release(Path(sys.argv[2]), files.mechanism(), Path(sys.argv[3]), force=True);"
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    here, source, target = Path(__file__).parent, folder / f"{rows}{suffix}", folder / f"peak{suffix}"
    if not source.exists():
        write_people(source, rows)
    command = [sys.executable, "-c", code, here, source, target]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1e3


def ratio(folder: Path, suffix: str) -> Row:
    source, released, copied = folder / f"{ROWS}{suffix}", folder / f"released{suffix}", folder / f"copied{suffix}"
    write_people(source, ROWS)
    times = medians({
        "copy": lambda: copy(source, copied),
        "release": lambda: sf.release(source, mechanism(), released, force=True),
    })
    truth, out = (sf.tabulate(x, "sex", "race").counts for x in (source, released))
    q = mechanism().matrix @ truth.ravel()
    off = np.abs(out.ravel() - q).max() / np.sqrt(ROWS)
    value = times["release"] / times["copy"]
    return Row(f"release {suffix} → {suffix}", value, "× a copy", f"≤ {LIMITS[suffix]}×", value <= LIMITS[suffix],
               f"counts within {off:.2f} √n of Q·p", f"{ROWS:,} rows, {released.stat().st_size / 1e6:.0f} MB",
               f"copy {times['copy']:.2f} s, release {times['release']:.2f} s")


def memory(folder: Path, suffix: str, large: bool) -> Row:
    first = peak(folder, suffix, ROWS)
    if not large:
        holds = first < MEMORY_MB
        return Row(f"memory, {suffix}", first, "MB", f"< {MEMORY_MB} MB", holds, "peak RSS", f"{ROWS:,} rows")
    second = peak(folder, suffix, 10 * ROWS)
    holds = max(first, second) < MEMORY_MB and second <= FLAT * first
    return Row(f"memory, {suffix}", second, "MB", f"< {MEMORY_MB} MB, flat", holds,
               f"{first:.0f} MB at {ROWS:,} rows", f"{10 * ROWS:,} rows", f"{second / first:.2f}×")


MEASURED = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import files
files.sf.release(Path(sys.argv[2]), files.mechanism(), Path(sys.argv[4]), force=True)  # imports, numba, the cache
spent, start = time.process_time(), time.perf_counter()
done = files.sf.release(Path(sys.argv[3]), files.mechanism(), Path(sys.argv[4]), force=True)
spent, start = time.process_time() - spent, time.perf_counter() - start
print(done.rows, start, spent, Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])
"""


def measured(folder: Path, rows: int) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak memory in MB of one release in a process of its own that is warm already."""
    here, source, target = Path(__file__).parent, folder / f"{rows}.parquet", folder / "measured.parquet"
    command = [sys.executable, "-c", MEASURED, here, folder / f"{ROWS}.parquet", source, target]
    done, *figures = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(done) == rows
    seconds, spent, memory = map(float, figures)
    return seconds, spent, memory / 1e3


def scaling(rows: int, repeats: int = 3) -> list[Row]:
    """A large Parquet file against a small one: seconds per row, in turns, and peak memory."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("SFUMATO_BENCHMARK_FOLDER")) as name:
        folder = Path(name)
        for n in (ROWS, rows):
            write_people(folder / f"{n}.parquet", n)
        found: dict[int, list[tuple[float, float, float]]] = {ROWS: [], rows: []}
        for _ in range(repeats):
            for n, runs in found.items():
                runs.append(measured(folder, n))
        rate = {n: [statistics.median(run[i] for run in runs) / n for i in (0, 1)] for n, runs in found.items()}
        memory = max(run[2] for run in found[rows])
        size = f"{rows:,} rows, {(folder / f'{rows}.parquet').stat().st_size / 1e6:.0f} MB"
    ratios = [rate[rows][i] / rate[ROWS][i] for i in (0, 1)]
    return [
        Row("release .parquet → .parquet at scale", ratios[0], f"× the seconds per row of {ROWS:,} rows",
            f"≤ {SLOWER}×", ratios[0] <= SLOWER, f"{1e-6 / rate[rows][0]:.1f} M rows/s", size,
            f"CPU seconds per row {ratios[1]:.2f}×; {1e-6 / rate[ROWS][0]:.1f} M rows/s at {ROWS:,} rows"),
        Row("memory at scale", memory, "MB", f"< {MEMORY_MB} MB", memory < MEMORY_MB, "peak RSS", size),
    ]


def results(large: bool = False) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        rows = [ratio(Path(folder), suffix) for suffix in LIMITS]
        return rows + [memory(Path(folder), suffix, large) for suffix in LIMITS]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also 10^8 rows (about 3 GB of disk and some minutes)")
    parser.add_argument("--rows", type=int, help="only: a Parquet file of so many rows against one of ten million")
    parser.add_argument("--repeats", type=int, default=3, help="of --rows (default 3)")
    given = parser.parse_args()
    print(table(scaling(given.rows, given.repeats) if given.rows else results(given.large)))
