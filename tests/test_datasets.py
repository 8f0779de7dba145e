"""The bundled tables agree with each other and with what is known of Adult; rows give the counts back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato import datasets
from sfumato.alphabet import Alphabet, Column

PAIRS = datasets.adult_pairs()


def counts_of(table, joint):
    codes = joint.secret.encode(table) * joint.useful.size + joint.useful.encode(table)
    return np.bincount(codes, minlength=joint.p.size).reshape(joint.shape)


@pytest.mark.parametrize(("secret", "useful"), PAIRS)
def test_every_table_counts_all_people(secret, useful):
    joint = datasets.adult(secret, useful)

    assert joint.n == 32_561 == joint.counts.sum()
    assert joint.secret.names == (secret,) and joint.useful.names == (useful,)


def test_marginals_of_a_column_are_the_same_in_every_table():
    seen = {}
    for secret, useful in PAIRS:
        joint = datasets.adult(secret, useful)
        assert seen.setdefault(secret, joint.counts.sum(1).tolist()) == joint.counts.sum(1).tolist()
        assert seen.setdefault(useful, joint.counts.sum(0).tolist()) == joint.counts.sum(0).tolist()


def test_the_other_order_is_the_transpose():
    assert np.array_equal(datasets.adult("sex", "race").counts, datasets.adult("race", "sex").counts.T)


def test_known_counts():
    joint = datasets.adult("sex", "race")

    assert joint.secret.labels == ("Female", "Male")
    assert joint.counts.sum(1).tolist() == [10771, 21790]
    assert joint.counts[0, joint.useful.labels.index("White")] == 8642
    assert datasets.adult("occupation", "education").shape == (15, 16)
    assert datasets.adult("native-country", "relationship").shape == (42, 6)
    assert datasets.adult("marital-status", "education").shape == (7, 16)


def test_every_ordered_pair_of_the_nine_categorical_columns_is_there():
    columns = {name for pair in PAIRS for name in pair}
    assert len(columns) == 9 and len(set(PAIRS)) == 72


def test_the_cells_of_all_nine_columns_have_the_tables_of_two():
    told = json.loads((Path(__file__).parents[1] / "benchmarks" / "adult_cells.json").read_text())
    names, sizes = list(told["labels"]), [len(x) for x in told["labels"].values()]
    digits = np.unravel_index(np.cumsum(told["steps"]), sizes)
    for a, b in PAIRS:
        table, (i, j) = datasets.adult(a, b), (names.index(n) for n in (a, b))
        counts = np.zeros((sizes[i], sizes[j]), int)
        np.add.at(counts, (digits[i], digits[j]), told["counts"])
        assert np.array_equal(counts, table.counts)


def test_an_unknown_pair_lists_the_known_columns():
    with pytest.raises(sf.InputError, match=r"occupation.*Did you mean 'race'"):
        datasets.adult("sex", "raec")


@pytest.mark.parametrize("shuffle", [True, False])
def test_rows_have_exactly_the_counts(shuffle):
    joint = datasets.adult("occupation", "sex")

    table = datasets.rows(joint, seed=3, shuffle=shuffle)

    assert np.array_equal(counts_of(table, joint), joint.counts)


def test_rows_of_products_bins_and_missing_values_encode_to_the_same_counts():
    secret = Alphabet.of(Column.of("a", ["x", "y"]), Column.of("age", cuts=[30, 65], missing=True))
    useful = Alphabet.of(Column.of("u", ["p", "q", None]))
    joint = sf.Joint.from_counts(np.arange(24).reshape(8, 3), secret, useful)

    assert np.array_equal(counts_of(datasets.rows(joint, seed=1), joint), joint.counts)


def test_samples_follow_the_joint():
    joint = datasets.adult("sex", "race")

    seen = counts_of(datasets.sample(joint, 50_000, seed=2), joint)

    assert seen.sum() == 50_000
    assert np.abs(seen / 50_000 - joint.p).max() < 0.01


def test_uncounted_joints_have_no_rows():
    with pytest.raises(sf.InputError, match="sample"):
        datasets.rows(sf.Joint.from_probabilities([[0.5, 0.5]]))
