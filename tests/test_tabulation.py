"""tabulate counts what is there, under the rules it was given, and records the rules."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.sources import source as source_module

labels = st.sampled_from(["a", "b", "c", "10", "9", "", None])
tables = st.lists(st.tuples(labels, labels, st.sampled_from(["x", "y"])), min_size=2, max_size=60)


@given(tables)
@settings(deadline=None, max_examples=60)
def test_counts_are_those_of_a_plain_count(rows):
    rows = [*rows, ("a", "a", "x"), ("b", "a", "y")]
    columns = [list(c) for c in zip(*rows, strict=True)]

    joint = sf.tabulate(pa.table(columns, names=["s", "u", "v"]), secret="s", useful=["u", "v"])

    plain = Counter((s or None, u or None, v) for s, u, v in rows)
    counted = {
        (s, *joint.useful.label(j)): int(joint.counts[i, j])
        for i, s in enumerate(joint.secret.labels) for j in range(joint.useful.size) if joint.counts[i, j]
    }
    assert counted == dict(plain)
    assert joint.counts.dtype == np.int64


@given(tables)
@settings(deadline=None, max_examples=30)
def test_batches_do_not_matter(rows):
    rows = [*rows, ("a", "a", "x"), ("b", "a", "y")]
    whole = pa.table([list(c) for c in zip(*rows, strict=True)], names=["s", "u", "v"])
    pieces = pa.Table.from_batches([b for i in range(len(rows)) for b in whole.slice(i, 1).to_batches()])

    joint = sf.tabulate(pieces, "s", ["u", "v"])

    assert joint.fingerprint == sf.tabulate(whole, "s", ["u", "v"]).fingerprint


def test_partial_counts_merge(monkeypatch):
    monkeypatch.setattr(source_module, "ROWS_AT_ONCE", 5)
    monkeypatch.setattr(source_module, "BATCH_ROWS", 7)
    rng = np.random.default_rng(1)
    s, u = rng.integers(0, 3, 500), rng.integers(0, 4, 500)

    joint = sf.tabulate(pa.table({"s": s, "u": u}), "s", "u")

    assert joint.counts.tolist() == np.histogram2d(s, u, bins=[np.arange(4), np.arange(5)])[0].astype(int).tolist()


def test_labels_are_sorted_by_value_where_they_are_numbers():
    joint = sf.tabulate(pa.table({"s": ["10", "9", "b"], "u": [10, 9, -1]}), "s", "u")

    assert joint.secret.labels == ("10", "9", "b")
    assert joint.useful.labels == ("-1", "9", "10")


def test_codes_with_leading_zeros_and_two_spellings_stay_text():
    joint = sf.tabulate(pa.table({"s": ["01", "1", "02"], "u": ["250.1", "250.10", "x"]}), "s", "u")

    assert [c.dtype for c in (*joint.secret.columns, *joint.useful.columns)] == ["string", "string"]
    assert joint.shape == (3, 3)


def people(n=1000):
    rng = np.random.default_rng(3)
    return pa.table({"sex": rng.choice(["F", "M"], n), "age": rng.integers(18, 90, n)})


def test_given_edges_bin_half_open_to_the_right():
    joint = sf.tabulate(pa.table({"sex": list("FMFMF"), "age": [29.9, 30, 64, 65, 100]}), "sex", "age",
                        bins={"age": [30, 65]})

    assert joint.useful.labels == ("< 30", "30 to < 65", "≥ 65")
    assert joint.counts.tolist() == [[1, 1, 1], [0, 1, 1]]
    assert joint.useful.columns[0].cuts == (30.0, 65.0)


@pytest.mark.parametrize("bins", [2, 4, 5])
def test_quantile_bins_hold_about_equally_many(bins):
    joint = sf.tabulate(people(), "sex", "age", bins={"age": bins})

    assert joint.useful.size == bins
    assert np.abs(joint.p_useful - 1 / bins).max() < 0.03


def test_quantile_bins_work_on_text_and_on_a_stream_that_is_read_once():
    text = people().set_column(1, "age", people()["age"].cast(pa.string()))

    joints = [sf.tabulate(x, "sex", "age", bins={"age": 4}) for x in (people(), text, people().to_reader())]

    assert len({j.fingerprint for j in joints}) == 1


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50), st.integers(2, 8))
@settings(deadline=None, max_examples=50)
def test_quantile_bins_are_never_empty_and_split_ties_nowhere(values, bins):
    if len(set(values)) < 2:
        return
    table = pa.table({"s": ["a", "b"] * len(values), "x": np.repeat(values, 2)})

    joint = sf.tabulate(table, "s", "x", bins={"x": bins})

    assert joint.useful.size <= bins
    assert (joint.p_useful > 0).all()


def test_missing_numbers_get_a_bin_of_their_own():
    table = pa.table({"s": ["a", "b", "a"], "x": [1.0, math.nan, None]})

    joint = sf.tabulate(table, "s", "x", bins={"x": [0.5]})

    assert joint.useful.labels == ("< 0.5", "≥ 0.5", None)
    assert joint.counts.tolist() == [[0, 1, 1], [0, 0, 1]]


def test_rare_labels_are_grouped_by_count_and_by_fraction():
    table = pa.table({"s": list("aabb") * 5, "u": ["x"] * 12 + ["y"] * 6 + ["z", "w"]})

    by_count = sf.tabulate(table, "s", "u", rare={"u": 2})
    by_fraction = sf.tabulate(table, "s", "u", rare=0.35, other="rest")

    assert by_count.useful.labels == ("x", "y", "other")
    assert by_count.counts.sum(0).tolist() == [12, 6, 2]
    assert by_count.useful.columns[0].other == "other"
    assert by_fraction.useful.labels == ("x", "rest")
    assert by_fraction.secret.columns[0].other is None
    assert by_count.useful.columns[0].encode(pa.array(["z", "never seen", "x"])).tolist() == [2, 2, 0]


REFUSED = {
    "secret is useful": (dict(secret="s", useful=["u", "s"]), "'s' is both secret and useful"),
    "a name twice": (dict(secret=["s", "s"], useful="u"), "named twice"),
    "no name": (dict(secret=[], useful="u"), "secret names no column"),
    "unknown": (dict(secret="s", useful="uu"), "'uu' is not a column"),
    "one secret": (dict(secret="one", useful="u"), "single value"),
    "bins of another": (dict(secret="s", useful="u", bins={"x": 3}), "yet bins names it"),
    "rare of another": (dict(secret="s", useful="u", rare={"x": 3}), "yet rare names it"),
    "one bin": (dict(secret="s", useful="x", bins={"x": 1}), "at least two bins"),
    "edges fall": (dict(secret="s", useful="x", bins={"x": [3, 2]}), "increasing inner edges"),
    "edges infinite": (dict(secret="s", useful="x", bins={"x": [math.inf]}), "increasing inner edges"),
    "bins of text": (dict(secret="s", useful="u", bins={"u": 2}), "row 1: the value is not a number"),
    "missing": (dict(secret="s", useful="gap", missing="refuse"), "'gap', row 3: the value is missing"),
    "policy": (dict(secret="s", useful="u", missing="drop"), "missing must be"),
    "rare not a number": (dict(secret="s", useful="u", rare=math.nan), "rare must be a number"),
    "cells": (dict(secret="s", useful=["u", "x"], limit=10), r"12 cells.*limit of 10.*s 2, u 2, x 3.*bins="),
    "other exists": (dict(secret="s", useful="x", rare=2, other="3"), "has a label '3' already"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_requests_are_refused(case):
    table = pa.table({
        "s": list("abab"), "u": list("xyyx"), "one": list("kkkk"), "x": [1, 2, 3, 3], "gap": ["a", "b", None, ""],
    })
    arguments, match = REFUSED[case]

    with pytest.raises(sf.InputError, match=match):
        sf.tabulate(table, **arguments)


def test_missing_is_found_behind_the_first_batch(monkeypatch):
    monkeypatch.setattr(source_module, "BATCH_ROWS", 4)
    table = pa.table({"s": list("ab") * 5, "u": ["x"] * 9 + [None]})

    with pytest.raises(sf.DataError, match="column 'u', row 10"):
        sf.tabulate(table, "s", "u", missing="refuse")


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows_are_refused(rows):
    table = pa.table({"s": pa.array(["a"] * rows, pa.string()), "u": pa.array(["x"] * rows, pa.string())})

    with pytest.raises(sf.DataError, match="one row" if rows else "no rows"):
        sf.tabulate(table, "s", "u")


def test_an_identifier_is_recognised_before_memory_runs_out():
    n = 120_000
    table = pa.table({"s": ["a", "b"] * (n // 2), "id": np.arange(n)})

    with pytest.raises(sf.InputError, match=r"'id' has more than 100,000 distinct values.*Bin it"):
        sf.tabulate(table, "s", "id")


def test_mixed_types_and_nan_in_pandas():
    mixed = pd.DataFrame({"s": ["a", "b", 3], "u": [1.0, math.nan, 2.0]})

    with pytest.raises(sf.DataError, match="column 's' mixes"):
        sf.tabulate(mixed, "s", "u")
    joint = sf.tabulate(mixed.assign(s=["a", "b", "c"]), "s", "u")
    assert joint.useful.labels == ("1", "2", None)


def test_what_was_said_to_be_cut_is_no_news():
    people = pa.table({"s": ["a", "b"] * 500, "age": [x % 60 for x in range(1000)]})
    found = sf.tabulate(people, "s", "age", automatic=True)
    assert ["is cut at" in x for x in found.notes] == [True]
    assert not sf.tabulate(people, "s", "age", labels={"age": found.useful.columns[0]}).notes
