"""Run by test_spark_cluster: releases on two executors, calm and with executors killed; prints what came out.

python spark_killing.py FOLDER
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
from pyspark.sql import SparkSession
from tests.spark_cluster import QUICK, SETTINGS
from tests.test_release import ALL, rows

import sfumato as sf
from sfumato.releasing import spark as spark_release
from sfumato.releasing.spark import by_id, by_value


def kill_executor() -> None:
    """kill -9 of the Java process above this worker: daemon first, executor above it."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()
    executor = int(stat[1])
    assert Path(f"/proc/{executor}/comm").read_text().strip() == "java"
    os.kill(executor, signal.SIGKILL)
    time.sleep(60)


def linger() -> None:
    """A task so slow that Spark starts it a second time elsewhere, and takes what comes first."""
    time.sleep(30)


def disturbed(work, flag, strike):
    """The same work, struck once when it has had its first batch; `flag` says that it happened."""
    def run(*arguments):
        *before, batches = arguments

        def struck():
            for batch in batches:
                yield batch
                try:
                    os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                strike()

        return work(*before, struck())

    return run


def released(frame, to: Path, keep: list[str], name: str | None = None, law=ALL["srr"]) -> list[str]:
    sf.release(frame, law, to, keep=keep, seed=9, id=name)
    return sorted(map(str, pq.read_table(to).to_pylist()))


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Two workers on two hosts of this machine: Spark starts no second attempt on the host of the first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    kind = "org.apache.spark.deploy"
    own = ["-c", "1", "-m", "768m", "--webui-port", "0", "-d", str(folder / "work"), f"spark://127.0.0.1:{port}"]
    commands = [[*start, f"{kind}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    commands += [[*start, f"{kind}.worker.Worker", "--host", host, *own] for host in ("127.0.0.1", "127.0.0.2")]
    env = {k: v for k, v in os.environ.items() if k != "SPARK_LOCAL_IP"} | {"SPARK_DAEMON_JAVA_OPTS": QUICK}
    running = [subprocess.Popen(x, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for x in commands]
    try:
        yield f"spark://127.0.0.1:{port}"
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(30)


def main(folder: Path) -> None:
    with cluster(folder) as address:
        released_while_struck(folder, SparkSession.builder.master(address))


def released_while_struck(folder: Path, builder: Any) -> None:
    settings = {
        **SETTINGS, "spark.executor.memory": "600m", "spark.sql.shuffle.partitions": "4",
        "spark.shuffle.io.maxRetries": "1", "spark.shuffle.io.retryWait": "1s",
        "spark.speculation": "true", "spark.speculation.interval": "200ms", "spark.speculation.multiplier": "2",
        "spark.speculation.quantile": "0.5",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    (folder / "people").mkdir()
    for part in range(3):  # a task each
        pq.write_table(rows(2000).slice(700 * part, 700), folder / "people" / f"{part}.parquet")
    frame = spark.read.parquet(str(folder / "people"))
    bundle = sf.bundle(rows(2000), "ill", ["town"], 1.0).bundle
    result = {"calm bundle": released(frame, folder / "b.parquet", ["id"], None, bundle)}
    moved = frame.where("id >= 0")  # computed: rows that no file numbers, so that equal ones are brought together
    result |= {"calm": released(moved, folder / "calm.parquet", ["id"]), "calm share": released(frame, folder / "c.parquet", [])}
    for name, module, work, keep, row, strike, *law in (
        ("draw", by_value, "_draw", ["id"], None, kill_executor), ("write", spark_release, "_write", ["id"], None, kill_executor),
        ("place", by_value, "_place", ["id"], None, kill_executor), ("bundle", by_value, "_answer", ["id"], None, kill_executor, bundle),
        ("share", by_value, "_draw_shares", [], None, kill_executor), ("id", by_id, "_write_and_tell", ["id"], "id", kill_executor),
        ("names", by_id, "_compare", ["id"], "id", kill_executor), ("slow", by_id, "_write_and_tell", ["id"], "id", linger),
    ):
        own = getattr(module, work)
        setattr(module, work, disturbed(own, str(folder / f"{name}.struck"), strike))
        start = time.time()
        rows_of = moved if name in ("draw", "write", "place") else frame
        result[name] = released(rows_of, folder / f"{name}.parquet", keep, row, *law)
        setattr(module, work, own)
        print(name, took := time.time() - start, file=sys.stderr)
    assert took < 30, "the slow task was waited for"
    print(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
