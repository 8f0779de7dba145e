"""Run by test_spark_cluster: tabulate, release and estimate through Spark Connect; prints what came out.

python spark_connecting.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.spark_cluster import SETTINGS
from tests.test_release import ALL, rows

import sfumato as sf


def main(folder: Path) -> None:
    builder = SparkSession.builder.remote("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    frame = spark.createDataFrame(rows(400))
    plain = sf.release(frame, ALL["srr"], seed=3)
    sf.release(frame, ALL["srr"], folder / "out.parquet", keep=["id"], seed=3)
    bad = frame.selectExpr("ill", "'s3cret' as town")
    try:
        sf.release(bad, ALL["srr"], folder / "bad.parquet")
        refused = ""
    except sf.DataError as error:
        refused = str(error)
    print(json.dumps({
        "kind": type(frame).__module__, "counts": sf.tabulate(frame, "ill", "town").counts.tolist(),
        "plain": plain.toArrow().to_pylist(), "kept": pq.read_table(folder / "out.parquet").to_pylist(),
        "p": sf.estimate(plain, ALL["srr"]).p.tolist(), "refused": refused,
    }))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
