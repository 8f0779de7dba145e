"""Release a table on a Spark cluster, with a mechanism file made elsewhere.

    spark-submit examples/spark_release.py people.parquet mechanism.json released.parquet --keep id

Paths may be anything Spark reads and writes (a shared folder, hdfs://, s3a://); docs/spark.md tells what workers need.
"""

import argparse

from pyspark.sql import SparkSession

import sfumato as sf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="Parquet, as a path or URL")
    parser.add_argument("mechanism", help="a mechanism file, on the machine that runs this")
    parser.add_argument("out", help="the folder to write")
    parser.add_argument("--keep", default="", help="columns that pass through without protection: COL,COL")
    parser.add_argument("--id", default="", help="columns that no two rows share: rows are released one by one")
    parser.add_argument("--decode", default="symbols", choices=["symbols", "likely", "sample"])
    asked = parser.parse_args()

    spark = SparkSession.builder.appName("sfumato release").getOrCreate()
    mechanism = sf.load(asked.mechanism)
    keep = [name for name in asked.keep.split(",") if name]
    names = [name for name in asked.id.split(",") if name]
    done = sf.release(spark.read.parquet(asked.table), mechanism, asked.out, keep=keep, id=names, decode=asked.decode)
    print(f"{done.rows:,} rows released to {done.path}: {done.manifest.claim}")
    released = spark.read.parquet(str(done.path))
    print(sf.estimate(released, mechanism, decode=asked.decode).p.round(4))
    spark.stop()


if __name__ == "__main__":
    main()
