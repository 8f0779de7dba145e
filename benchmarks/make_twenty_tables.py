"""Counts of twenty real tables, from facts that anybody may have: python benchmarks/make_twenty_tables.py FOLDER

Adult tables come with sfumato. The others are counted from files in the package statsmodels that it states to be in the
public domain (anes96: American national election study of 1996; randhie: RAND health insurance experiment). FOLDER is
statsmodels/datasets; the counts are written into benchmarks/twenty_tables.json, so that nobody else needs it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd

import sfumato as sf

ADULT = [
    ("sex", "race"), ("race", "sex"), ("income", "education"), ("income", "occupation"), ("income", "sex"),
    ("sex", "income"), ("marital-status", "education"), ("race", "occupation"), ("relationship", "workclass"),
    ("occupation", "education"),
]


def tables(folder: Path) -> dict[str, list[list[int]]]:
    """Name → counts, rows = secret."""
    out = {f"adult: {s} × {u}": sf.datasets.adult(s, u).counts.tolist() for s, u in ADULT}
    anes = pd.read_csv(folder / "anes96" / "anes96.csv", sep="\t")
    anes.columns = [c.strip("'") for c in anes.columns]
    anes["age"] = pd.cut(anes["age"], [0, 30, 40, 50, 65, 120])
    anes["income"] = pd.cut(anes["income"], [0, 10, 15, 20, 24])
    rand = pd.read_csv(folder / "randhie" / "randhie.csv")
    rand["visits"] = pd.cut(rand["mdvis"], [-1, 0, 1, 3, 6, 1000])
    rand["diseases"] = pd.cut(rand["disea"], [-1, 5, 10, 15, 100])
    rand["health"] = rand["hlthp"] * 3 + rand["hlthf"] * 2 + rand["hlthg"]
    rand["limited"] = (rand["physlm"] > 0).astype(int)
    asked = [(anes, "anes96", "vote", ["educ", "age", "income", "PID", "selfLR"]), (anes, "anes96", "income", ["vote"]),
             (rand, "randhie", "limited", ["visits", "health"]), (rand, "randhie", "health", ["visits", "diseases"])]
    for frame, name, secret, columns in asked:
        for useful in columns:
            out[f"{name}: {secret} × {useful}"] = pd.crosstab(frame[secret], frame[useful]).to_numpy().tolist()
    return out


if __name__ == "__main__":
    found = tables(Path(sys.argv[1]))
    target = Path(__file__).parent / "twenty_tables.json"
    target.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", "utf-8")
    print(len(found), "tables")
