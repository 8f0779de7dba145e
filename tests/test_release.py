"""release writes what the mechanism drew, where it belongs, and says how in the manifest."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.alphabet import Alphabet, Column
from sfumato.drawing.manifest import METADATA_KEY
from sfumato.drawing.posterior import CellsPosterior, likeliest, listed_ends, posterior_draw
from sfumato.drawing.randomness import Stream
from sfumato.drawing.sampling import Sampler
from sfumato.mechanism import Cells, Claim, Conditional, Constant, Mechanism, Table, Unary
from sfumato.releasing import manifest_path, read_manifest

COUNTS = np.array([[40, 30, 10], [20, 50, 50]])
SECRET, USEFUL = Column.of("ill", ["no", "yes"]), Column.of("town", ["A, north", "B", "C"], missing=False)


def rows(n=3000, seed=0) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = rng.choice(6, n, p=COUNTS.ravel() / COUNTS.sum())
    return pa.table({
        "id": np.arange(n), "ill": np.array(SECRET.labels)[x // 3], "note": [f'say "{i}",\n' for i in range(n)],
        "town": np.array(USEFUL.labels)[x % 3],
    })


def joint() -> sf.Joint:
    return sf.Joint.from_counts(COUNTS, SECRET, USEFUL)


def mechanism(law, reads="both", claim=None):
    return Mechanism(law.rounded(None, 1e-9), joint().secret, joint().useful, reads, "test", claim, joint(), "private")


SRR = mechanism(Cells(2, 3, 0.4, 0.1, 0.1, 0.15), claim=Claim("ldp", 1.4))
GRR_USEFUL = mechanism(Cells(1, 3, 0.5, 0.25, 0.0, 0.0), "useful", Claim("ldp", 0.7))
Q = np.random.default_rng(8).random((4, 6)) + 0.2
SYMBOLS = mechanism(Table(Q / Q.sum(0), 2), claim=Claim("ldp", 3.0))
SETS = mechanism(Unary(2, 3, 0.5, 0.25), claim=Claim("ldp", 1.2))
REPORTING = mechanism(Conditional(np.array([0.3, 0.4]), np.array([[0.2, 0.3, 0.2], [0.2, 0.2, 0.2]])),
                      claim=Claim("ldp", 2.0))
NOTHING = mechanism(Constant(2, 3), claim=Claim("ldp", 0.0))
ALL = {"srr": SRR, "grr": GRR_USEFUL, "symbols": SYMBOLS, "sets": SETS, "reporting": REPORTING, "nothing": NOTHING}


def read(path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    delimiter = "\t" if ".tsv" in path.name else ","
    return pacsv.read_csv(
        path, parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(column_types={"bits": pa.string(), "id": pa.string()}),
    )


def plain(table) -> dict[str, list[str | None]]:
    return {n: [None if x is None else str(x) for x in table.column(n).to_pylist()] for n in table.column_names}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("decode", ["symbols", "likely", "sample"])
def test_every_law_and_decoding_is_the_same_in_every_format(name, decode, tmp_path):
    source = rows(500)
    pq.write_table(source, tmp_path / "in.parquet")
    pacsv.write_csv(source, tmp_path / "in.csv")
    table = sf.release(source, ALL[name], decode=decode, keep=["id", "note"], seed=4)

    for given_as, out in (
        ("in.parquet", "a.parquet"), ("in.parquet", "b.csv"), ("in.csv", "c.csv"), ("in.csv", "d.parquet"),
        ("in.csv", "e.csv.gz"), (pl.from_arrow(source), "f.tsv"),
    ):
        given_as = tmp_path / given_as if isinstance(given_as, str) else given_as
        done = sf.release(given_as, ALL[name], tmp_path / out, decode=decode, keep=["id", "note"], seed=4)

        assert done.rows == 500
        assert plain(read(tmp_path / out)) == plain(table)
    assert table.column_names[0] == ("symbol" if name == "symbols" and decode == "symbols" else
                                     "bits" if name == "sets" and decode == "symbols" else "id")
    assert plain(table)["id"] == [str(i) for i in range(500)]
    assert plain(table)["note"] == source.column("note").to_pylist()


def codes_of(table: pa.Table) -> np.ndarray:
    s = SECRET.encode(table.column("ill")) if "ill" in table.column_names else 0
    return np.asarray(s) * 3 + USEFUL.encode(table.column("town"))


@pytest.mark.parametrize("name", ["srr", "grr", "reporting", "nothing"])
def test_labels_are_the_drawn_cells(name):
    m, source = ALL[name], rows()
    x = codes_of(source) % (m.law.rows * 3)

    released = codes_of(sf.release(source, m, seed=9))

    assert (released == Sampler(m.law, Stream.of(9)).draw(x, 0)).all()


def test_symbols_and_bits_are_the_drawn_outputs():
    source = rows()
    x = codes_of(source)

    symbols = sf.release(source, SYMBOLS, seed=9).column("symbol").to_pylist()
    bits = sf.release(source, SETS, seed=9).column("bits").to_pylist()

    assert symbols == [f"y{y}" for y in Sampler(SYMBOLS.law, Stream.of(9)).draw(x, 0)]
    assert bits == ["".join(map(str, b)) for b in Sampler(SETS.law, Stream.of(9)).draw(x, 0).tolist()]


@pytest.mark.parametrize("name", ["srr", "symbols", "sets", "reporting"])
def test_sampled_decoding_has_the_right_marginals_when_rows_follow_the_design(name):
    source = rows(60_000, seed=3)

    released = codes_of(sf.release(source, ALL[name], decode="sample", seed=1))

    share = np.bincount(released, minlength=6) / 60_000
    assert np.abs(share - joint().p.ravel()).max() < 5 * np.sqrt(0.25 / 60_000)


@pytest.mark.parametrize("name", ["srr", "symbols", "reporting", "nothing"])
def test_likely_decoding_is_the_greatest_posterior(name):
    m = ALL[name]
    best = m.posterior().reshape(m.outputs, -1).argmax(1)

    assert (likeliest(m)(np.arange(m.outputs), 0) == best).all()


def test_decoding_sets_follows_bayes():
    drawn = np.array([[(y >> i) & 1 for i in range(6)] for y in range(64)])
    weight = np.stack([SETS.law.row(y).ravel() for y in range(64)]) * joint().p.ravel()

    assert (likeliest(SETS)(drawn, 0) == weight.argmax(1)).all()
    many = posterior_draw(SETS, Stream.of(2))(np.repeat(drawn[5:6], 40_000, 0), 0)
    share = np.bincount(many, minlength=6) / 40_000
    assert np.abs(share - weight[5] / weight[5].sum()).max() < 0.0125


def test_a_listed_posterior_is_drawn_with_its_integer_weights():
    posterior = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])

    ends = listed_ends(posterior)

    assert (ends == np.array([2, 3, 4, 4, 8, 8]) << 38).all()


@st.composite
def cell_posteriors(draw):
    shape = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    counts = np.array(draw(st.lists(st.integers(0, 6), min_size=16, max_size=16))).reshape(4, 4)[: shape[0], : shape[1]]
    counts[0, 0] += 1
    four = tuple(float(draw(st.integers(0, 5))) for _ in range(3))
    return CellsPosterior((draw(st.integers(1, 9)) * 1.0, *four), counts), counts


@given(cell_posteriors())
@settings(deadline=None, max_examples=60)
def test_the_posterior_of_cells_agrees_with_the_listed_one(case):
    posterior, counts = case
    rows_, useful = counts.shape
    law = Cells(rows_, useful, 1, 0, 0, 0)
    for y in range(counts.size):
        kind = np.array([0 if x == y else 1 if x // useful == y // useful else 2 if x % useful == y % useful else 3
                         for x in range(law.outputs)])
        weight = np.array(posterior.four)[kind] * counts.ravel()
        if weight.sum() == 0:
            continue
        grid = (np.arange(4000) + 0.5) / 4000
        words = (grid * 2.0**64).astype(np.uint64)

        drawn = posterior.draw(np.full(4000, y), words)

        share = np.bincount(drawn, minlength=counts.size) / 4000
        assert np.abs(share - weight / weight.sum()).max() <= 4 * counts.size / 4000
        assert (share[weight == 0] == 0).all()
        assert weight[posterior.likeliest()[y]] == weight.max()


def test_tables_too_large_to_list_can_be_decoded():
    k = 300
    counts = np.random.default_rng(0).integers(0, 9, (k, k))
    big = sf.Joint.from_counts(counts)
    law = Cells(k, k, 0.6, 0.2 / (k - 1), 0.1 / (k - 1), 0.1 / (k - 1) ** 2).rounded(None, 1e-9)
    m = Mechanism(law, big.secret, big.useful, joint=big)
    x = np.divmod(np.random.default_rng(1).choice(k * k, 4000, p=big.p.ravel()), k)
    table = pa.table({"secret": x[0], "useful": x[1]})

    for decode, expected in (("symbols", 0.8), ("likely", 0.8), ("sample", 0.64)):
        out = sf.release(table, m, decode=decode, seed=3, allow_unclaimed=True)
        agree = np.mean(out.column("secret").cast(pa.string()).to_numpy(False) == x[0].astype(str))
        assert abs(agree - expected) < 0.05


def test_missing_other_and_bins_are_written_as_labels():
    secret = Column.of("s", ["a", "other"], other="other")
    useful = (Column.of("age", cuts=[30, 65], missing=True), Column.of("t", ["x", "y"], missing=True))
    truthful = Cells(2, 12, 1.0, 0.0, 0.0, 0.0).rounded(None, 0.0)
    m = Mechanism(truthful, Alphabet.of(secret), Alphabet.of(*useful))
    table = pa.table({"age": [10, None, 70], "s": ["a", "new", "b"], "t": ["", "y", None]})

    out = sf.release(table, m, seed=1, allow_unclaimed=True)

    assert out.to_pydict() == {"age": ["< 30", None, "≥ 65"], "s": ["a", "other", "other"], "t": [None, "y", None]}


def test_a_single_missing_column_survives_csv(tmp_path):
    useful = Column.of("t", ["x", "y"], missing=True)
    m = Mechanism(Cells(1, 3, 1.0, 0.0, 0.0, 0.0).rounded(None, 0.0), Alphabet.of(SECRET), Alphabet.of(useful),
                  "useful")
    sf.release(pa.table({"t": ["x", None, "y", None]}), m, tmp_path / "o.csv", allow_unclaimed=True)

    assert (tmp_path / "o.csv").read_text() == 't\nx\n""\ny\n""\n'
    assert sf.release(tmp_path / "o.csv", m, allow_unclaimed=True).column("t").to_pylist() == ["x", None, "y", None]


def test_columns_may_have_other_names_and_order(tmp_path):
    renamed = rows().rename_columns(["id", "sick", "note", "place"])

    out = sf.release(renamed, SRR, secret="sick", useful=["place"], keep="id", seed=2)

    assert out.column_names == ["id", "ill", "town"]
    same = sf.release(rows(), SRR, seed=2)
    assert plain(out.select(["ill", "town"])) == plain(same)


def test_a_mechanism_that_reads_useful_needs_no_secret_and_writes_none():
    out = sf.release(rows().drop_columns(["ill"]), GRR_USEFUL, seed=2)

    assert out.column_names == ["town"]


def test_the_manifest_tells_what_happened_and_nothing_of_the_rows(tmp_path):
    done = sf.release(rows(), SRR, tmp_path / "out.csv.gz", keep=["id"], decode="sample", seed=5)

    manifest = read_manifest(tmp_path / "out.manifest.json")
    told = json.loads((tmp_path / "out.manifest.json").read_text())
    assert manifest == done.manifest
    assert manifest_path(done.path).name == "out.manifest.json"
    assert told["randomness"] == "seeded: not for release"
    assert told["rows"] == 3000
    assert told["claim"] == SRR.claim.sentence
    assert told["columns"] == [{"name": "id", "role": "kept"}, {"name": "ill", "role": "secret"},
                               {"name": "town", "role": "useful"}]
    assert told["size"] == done.path.stat().st_size
    SRR.save(tmp_path / "m.json")
    assert told["mechanism"] == json.loads((tmp_path / "m.json").read_text())["checksum"]
    assert len(told["date"]) == 10
    assert any("without any protection: id" in note for note in told["notes"])


def test_without_a_seed_two_releases_differ_and_a_table_carries_its_manifest():
    first, second = sf.release(rows(), SRR), sf.release(rows(), SRR)

    assert not first.column("town").equals(second.column("town"))
    assert json.loads(first.schema.metadata[METADATA_KEY])["randomness"] == "system"


def test_progress_counts_rows():
    seen = []
    sf.release(rows(300_000), SRR, seed=1, progress=seen.append)

    assert seen[-1] == 300_000
    assert seen == sorted(seen) and len(seen) > 1
