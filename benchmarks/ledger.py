"""The ledger under stress: reservations that race for one budget, and releases killed at random moments."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import random
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

import sfumato as sf
from measure import Row, table
from sfumato.alphabet import Alphabet, Column
from sfumato.mechanism import Claim, Mechanism, Table
from sfumato.releasing import read_manifest

RACING, PROCESSES, KILLS, ROWS = 1000, 8, 200, 60_000
BUDGET = 6.0
MARK = "raw-7f3a91"  # in a column that is neither read nor released: it must be nowhere
LOADED = ("sfumato", "pyarrow", "numpy", "scipy", "cryptography", "msgspec", "sqlite3")  # before processes are made


def _reserve(path: Path, file: Path, count: int) -> list[int | None]:
    book, mechanism, got = sf.Ledger(path), sf.load(file), []
    for _ in range(count):
        try:
            got.append(book.reserve(mechanism, "raced", budget=BUDGET).id)
        except sf.BudgetError:
            got.append(None)
    return got


def racing(folder: Path) -> Row:
    """A coin with ratio 517/507: exactly as many fit as the budget over its level."""
    coin = Mechanism(
        Table(np.array([[517, 507], [507, 517]]), 2, 10), Alphabet.named("s", 2), Alphabet.named("u", 1),
        claim=Claim("ldp", 0.02),
    )
    path, file = folder / "race.ledger", coin.save(folder / "coin.json")
    start = time.perf_counter()
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("forkserver")) as pool:
        jobs = [pool.submit(_reserve, path, file, RACING // PROCESSES) for _ in range(PROCESSES)]
        got = [x for job in jobs for x in job.result()]
    seconds = time.perf_counter() - start
    entries = sf.Ledger(path).entries()
    granted, fits = sorted(x for x in got if x is not None), min(RACING, math.floor(BUDGET / sf.level(coin, sf.LDP())))
    holds = granted == [e.id for e in entries] and len(granted) == fits and max(e.composed for e in entries) <= BUDGET
    return Row(
        "ledger, racing reservations", RACING / seconds, "reservations/s", "none lost, none over budget", holds,
        f"{len(granted)} granted of the {fits} that fit, {len(entries)} in the ledger, together "
        f"ε ≤ {max(e.composed for e in entries):.6f} of {BUDGET:g}",
        f"{RACING:,} from {PROCESSES} processes",
    )


def _release(tell: Connection, source: Path, mechanism: Path, target: Path, ledger: Path) -> None:
    loaded = sf.load(mechanism)
    tell.send("begins")
    sf.release(source, loaded, target, ledger=sf.Ledger(ledger), people=target.name, budget=1)


def _begun(context: BaseContext, *where: Path) -> BaseProcess:
    """A process that has just begun to release."""
    hear, tell = context.Pipe(duplex=False)
    child = context.Process(target=_release, args=(tell, *where))
    child.start()
    hear.recv()
    return child


def _until(child: BaseProcess, share: float) -> float:
    """Wait until the process has had that many more seconds of the processor, which is a moment of the release however
    busy the machine is, or has ended; the seconds it has had."""
    assert child.pid is not None
    clock, had, start = (~child.pid << 3) | 2, 0.0, None  # the kernel's name for the processor time of a process
    while child.is_alive() and had < share:
        with contextlib.suppress(OSError):
            now = time.clock_gettime(clock)
            start = now if start is None else start
            had = now - start
        time.sleep(0.001)
    return had


def killing(folder: Path) -> Row:
    out, temporary = folder / "out", folder / "tmp"
    out.mkdir()
    temporary.mkdir()
    os.environ["TMPDIR"] = str(temporary)
    rng = np.random.default_rng(0)
    columns = {"ill": rng.choice(["no", "yes"], ROWS), "town": rng.choice(["A", "B", "C"], ROWS), "note": [MARK] * ROWS}
    source, ledger = folder / "people.csv", folder / "kill.ledger"
    pacsv.write_csv(pa.table(columns), source)
    joint = sf.Joint.from_counts(
        [[30, 20, 10], [10, 40, 15]], Alphabet.of(Column.of("ill", ["no", "yes"])),
        Alphabet.of(Column.of("town", ["A", "B", "C"])),
    )
    mechanism = sf.design(sf.Anything(joint), 0.25, "srr").mechanism.save(folder / "srr.json")
    sf.release(source, sf.load(mechanism), ledger=sf.Ledger(folder / "other.ledger"), people="all", budget=1)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([m for m in sys.modules if m.split(".")[0] in LOADED])
    child = _begun(context, source, mechanism, out / "whole.csv", ledger)
    whole = _until(child, math.inf)
    moments = random.SystemRandom()
    for i in range(KILLS):
        child = _begun(context, source, mechanism, out / f"{i}.csv", ledger)
        _until(child, moments.uniform(0, 1.2 * whole))
        child.kill()
        child.join()
    return _judged(sf.Ledger(ledger), out, temporary)


def _judged(book: sf.Ledger, out: Path, temporary: Path) -> Row:
    wrong: list[str] = []
    tables = list(out.glob("*.csv"))
    for path in tables:
        if read_manifest(path.with_suffix(".manifest.json")).size != path.stat().st_size:
            wrong.append(f"{path.name} is not whole")
    left = [p for p in (*out.iterdir(), *temporary.rglob("*")) if p.suffix not in (".csv", ".json")]
    wrong += [f"{p.name} was left" for p in left if p.is_file()]
    wrong += [f"raw data in {p.name}" for p in out.iterdir() if MARK.encode() in p.read_bytes()]
    states = {"delivered": 0, "settled as delivered": 0, "settled as void": 0, "said to be void": 0}
    for entry in book.entries():
        there = Path(str(entry.target)).exists()
        if entry.state == "delivered":
            states["delivered"] += 1
            wrong += [] if there else [f"{entry.id} is delivered but absent"]
            continue
        unsure = entry.ready and not there
        settled = book.settle(entry.id, delivered=False if unsure else None)
        states["said to be void" if unsure else f"settled as {settled.state}"] += 1
        wrong += [] if (settled.state == "delivered") == there else [f"{entry.id} was settled wrongly"]
    entered = {Path(str(e.target)) for e in book.entries()}
    wrong += [f"{p.name} is not in the ledger" for p in tables if p not in entered]
    told = ", ".join(f"{n} {what}" for what, n in states.items())
    return Row(
        "ledger, kill -9 at random moments", len(wrong), "violations", "none", not wrong, told,
        f"{KILLS} releases of {ROWS:,} rows", "; ".join(wrong[:3]),
    )


def results() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return [racing(Path(folder)), killing(Path(folder))]


if __name__ == "__main__":
    KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    with tempfile.TemporaryDirectory() as place:
        for measured in (killing, racing):
            print(table([measured(Path(place))]), flush=True)
