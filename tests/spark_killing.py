"""Run by test_spark_cluster: releases on two executors, calm and with executors killed; prints what came out.

python spark_killing.py FOLDER
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
from pyspark.sql import SparkSession
from tests.spark_cluster import SETTINGS
from tests.test_release import ALL, rows

import sfumato as sf
from sfumato.releasing.spark import driver, worker
from sfumato.releasing.spark import folder as parts_of_a_folder


def kill_executor() -> None:
    """kill -9 of the Java process above this worker: daemon first, executor above it."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()
    executor = int(stat[1])
    assert Path(f"/proc/{executor}/comm").read_text().strip() == "java"
    os.kill(executor, signal.SIGKILL)
    time.sleep(60)


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


def released(frame, to: Path, keep: list[str], law=ALL["srr"]) -> list[str]:
    sf.release(frame, law, to, keep=keep, seed=9)
    return sorted(map(str, pq.read_table(to).to_pylist()))


def main(folder: Path) -> None:
    builder = SparkSession.builder.master("local-cluster[2,1,768]")
    settings = {
        **SETTINGS, "spark.executor.memory": "600m", "spark.sql.shuffle.partitions": "4",
        "spark.shuffle.io.maxRetries": "1", "spark.shuffle.io.retryWait": "1s",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    pq.write_table(rows(2000), folder / "people.parquet")
    frame = spark.read.parquet(str(folder / "people.parquet")).repartition(3)
    bundle = sf.bundle(rows(2000), "ill", ["town"], 1.0).bundle
    result = {"calm bundle": released(frame, folder / "b.parquet", ["id"], bundle)}
    result |= {"calm": released(frame, folder / "calm.parquet", ["id"]), "calm share": released(frame, folder / "c.parquet", [])}
    for name, module, work, keep, *law in (
        ("draw", worker, "draw", ["id"]), ("write", parts_of_a_folder, "_write", ["id"]),
        ("share", driver, "_draw_shares", []), ("bundle", worker, "draw", ["id"], bundle),
    ):
        own = getattr(module, work)
        setattr(module, work, disturbed(own, str(folder / f"{name}.struck"), kill_executor))
        start = time.time()
        result[name] = released(frame, folder / f"{name}.parquet", keep, *law)
        setattr(module, work, own)
        print(name, time.time() - start, file=sys.stderr)
    print(json.dumps(result))
    application = spark.sparkContext.applicationId
    spark.stop()
    # a local cluster keeps its executors' logs where Spark is installed, and nowhere else
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
