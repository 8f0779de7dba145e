"""Spark as it is used: executors that die, a remote session, a submitted job."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.spark_cluster import run
from tests.spark_definition import expected, multiset
from tests.test_release import ALL, rows

import sfumato as sf

HERE = Path(__file__).parent
SRR = ALL["srr"]


@pytest.mark.long
def test_killed_and_overtaken_tasks_repeat_their_noise_and_write_no_row_twice(tmp_path):
    said = json.loads(run([sys.executable, str(HERE / "spark_killing.py"), str(tmp_path)], tmp_path).splitlines()[-1])

    calm, share = said.pop("calm"), said.pop("calm share")
    assert len(calm) == len(share) == 2000
    for name in (name for name in said if name != "calm bundle"):
        assert (tmp_path / f"{name}.struck").exists(), f"nothing was struck in {name}"
    assert said.pop("share") == share
    assert said.pop("bundle") == said.pop("calm bundle")
    for name, found in said.items():
        assert found == calm, name
        ids = Counter(pq.read_table(tmp_path / f"{name}.parquet").column("id").to_pylist())
        assert ids == Counter(range(2000))
    assert sorted(said) == ["draw", "id", "names", "place", "slow", "write"]
    assert not [x for x in os.listdir(tmp_path) if x.startswith(".")]


def test_spark_connect_serves_all_three(tmp_path):
    said = json.loads(run([sys.executable, str(HERE / "spark_connecting.py"), str(tmp_path)], tmp_path).splitlines()[-1])

    table = rows(400)
    assert said["kind"].startswith("pyspark.sql.connect")
    assert said["counts"] == sf.tabulate(table, "ill", "town").counts.tolist()
    assert Counter(json.dumps([str(x) for x in r.values()]) for r in said["plain"]) == expected(SRR, table, 3)
    assert Counter(json.dumps([str(x) for x in r.values()]) for r in said["kept"]) == expected(SRR, table, 3, ["id"])
    counts = Counter((r["ill"], r["town"]) for r in said["plain"])
    cells = [counts[s, u] for s in SRR.secret.labels for u in SRR.useful.labels]
    assert np.allclose(said["p"], sf.estimate(cells, SRR).p)
    assert said["refused"].startswith("column 'town': the value is not in the alphabet") and "s3cret" not in said["refused"]
    assert not (tmp_path / "bad.parquet").exists()


@pytest.mark.long
def test_the_example_runs_under_spark_submit(tmp_path):
    import pyspark

    pq.write_table(rows(400), tmp_path / "people.parquet")
    SRR.save(tmp_path / "m.json")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    job = HERE.parent / "examples" / "spark_release.py"

    out = run([str(submit), "--master", "local[2]", "--conf", "spark.ui.enabled=false", str(job), "people.parquet", "m.json",
               "released.parquet", "--keep", "id", "--id", "id"], tmp_path)

    released = pq.read_table(tmp_path / "released.parquet")
    assert "400 rows released" in out and SRR.claim.sentence in out
    assert released.column_names == ["id", "ill", "town"]
    assert multiset(released.select(["id"])) == multiset(rows(400).select(["id"]))
    estimate = sf.estimate(released, SRR, decode="symbols").p.round(4)
    assert str(estimate) in out
