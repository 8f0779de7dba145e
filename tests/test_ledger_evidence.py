"""The ledger takes nothing for the same that it cannot see: values, people, names."""

import itertools
import json
import math
import sqlite3

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import linprog

import sfumato as sf
from sfumato.alphabet import Alphabet, Column
from sfumato.ledgers.persons import account_name, counted, folded, same_inputs
from sfumato.mechanism import Claim, Tabular

TOWNS = ["A", "B", "C"]
JOINT = sf.Joint.from_counts(
    [[300, 200, 100], [100, 400, 150]], Alphabet.of(Column.of("ill", ["no", "yes"])),
    Alphabet.of(Column.of("town", TOWNS)),
)


@pytest.fixture(scope="module")
def ir():
    return sf.design(sf.Exactly(JOINT), 0.5, "ir").mechanism


@pytest.fixture
def book(tmp_path):
    return sf.Ledger(tmp_path / "people.ledger")


def rows(towns, ids=None, ill=None, name="id"):
    n = len(towns)
    return pa.table({
        name: ids or [f"p{i}" for i in range(n)], "ill": ill or ["no", "yes"] * (n // 2) + ["no"] * (n % 2),
        "town": towns,
    })


PEOPLE = rows(["A", "B", "C", "A", "B"] * 20)


def renamed(table, prefix, name="id"):
    ids = [f"{prefix}{x}" for x in table["id"].to_pylist()]
    return rows(table["town"].to_pylist(), ids, table["ill"].to_pylist(), name)


# whose answers


def test_ids_renamed_in_every_wave_are_fresh_answers_and_count(book, ir):
    each = sf.certify(ir).level
    ask = dict(ledger=book, people="panel", memoise="id", budget=2 * each)
    sf.release(PEOPLE, ir, **ask)
    booked = 1
    with pytest.raises(sf.BudgetError):
        for wave in range(40):
            sf.release(renamed(PEOPLE, f"w{wave}-"), ir, **ask)
            booked += 1

    assert [e.repeats for e in book.entries()] == [None] * booked
    assert booked < 5 and book.composed("panel") <= 2 * each


@pytest.mark.parametrize("declared", [False, True])
def test_another_column_of_ids_is_another_memory(book, ir, declared):
    ask = dict(ledger=book, people="panel", same_values=declared)
    first = sf.release(PEOPLE, ir, memoise="id", **ask)
    again = sf.release(renamed(PEOPLE, "", name="number"), ir, memoise="number", **ask)  # the very same ids

    assert [e.repeats for e in book.entries()] == [None, None]
    assert first.to_pydict() != again.to_pydict()
    assert book.entries()[-1].composed > sf.certify(ir).level


def test_who_joins_or_leaves_repeats_and_who_may_have_been_renamed_counts(book, ir):
    ask = dict(ledger=book, people="panel", memoise="id")
    grown = pa.concat_tables([PEOPLE, rows(["A"] * 10, [f"new{i}" for i in range(10)])])
    exchanged = pa.concat_tables([PEOPLE.slice(1), rows(["A"], ["p0 again"], ["no"])])
    for table in (PEOPLE, grown, PEOPLE.slice(20), grown.take(list(range(109, -1, -1))), exchanged, exchanged):
        sf.release(table, ir, **ask)

    assert [e.repeats for e in book.entries()] == [None, 1, 1, 1, None, 5]
    assert len(counted(book.entries())) == 2


def test_one_changed_value_among_remembered_answers_leaves_no_level(book, ir):
    ask = dict(ledger=book, people="panel", memoise="id")
    towns = PEOPLE["town"].to_pylist()
    moved = rows(["B", *towns[1:]], ill=PEOPLE["ill"].to_pylist())
    sf.release(PEOPLE, ir, budget=3, **ask)

    with pytest.raises(sf.BudgetError, match="no finite ε"):
        sf.release(pa.concat_tables([moved, rows(["A"], ["new"])]), ir, **ask)
    with pytest.raises(sf.InputError, match=r"declared that values are unchanged.*release 1 have other values"):
        sf.release(moved, ir, same_values=True, **ask)
    with pytest.raises(sf.InputError, match="declared that values are unchanged"):
        sf.release(moved, ir, ledger=book, people="panel", person="id", same_values=True)


@pytest.mark.parametrize("how", ["memoise", "person"])
def test_a_column_that_names_somebody_twice_does_not_tell_people_apart(book, ir, how):
    twice = rows(["A", "B", "C", "A"], ["x", "y", "x", "z"])
    with pytest.raises(sf.DataError, match=r"column 'id', row 3: it names somebody a second time"):
        sf.release(twice, ir, ledger=book, people="panel", **{how: "id"})
    assert book.entries() == []


def test_what_can_be_read_only_once_has_no_persons(book, ir):
    with pytest.raises(sf.InputError, match="read twice"):
        sf.release(PEOPLE.to_reader(), ir, ledger=book, people="panel", memoise="id")
    with pytest.raises(sf.InputError, match="told apart by it, not by 'nr'"):
        sf.release(PEOPLE, ir, ledger=book, people="panel", memoise="id", person="nr")


# whose values


def coupled_level(q, p):
    """The greatest level of two releases when values may change between them, by linear programmes over couplings
    whose margins both are p(u|s): max over pairs of outputs of the dearest coupling under s₁ and the cheapest under s₂."""
    given = p / p.sum(axis=1, keepdims=True)
    sizes = p.shape
    q = q.reshape(-1, *sizes)
    margins = [np.kron(np.eye(sizes[1]), np.ones(sizes[1])), np.kron(np.ones(sizes[1]), np.eye(sizes[1]))]
    worst = 0.0
    for y1, y2 in itertools.product(range(len(q)), repeat=2):
        value = np.empty((2, sizes[0]))
        for s in range(sizes[0]):
            gain = np.outer(q[y1, s], q[y2, s]).ravel()
            for i, sign in enumerate((-1, 1)):
                solved = linprog(sign * gain, A_eq=np.vstack(margins), b_eq=np.tile(given[s], 2))
                value[i, s] = sign * solved.fun
        worst = max(worst, math.log(value[0].max() / value[1].min()))
    return worst


def test_equal_codes_in_row_order_are_no_evidence_of_equal_values(book, ir):
    """A sorted table looks the same after 60 of its people have changed town with each other."""
    towns = ["A"] * 60 + ["B"] * 60
    before = rows(towns, ill=["no"] * 120)
    after = before.take(list(range(30, 90)) + list(range(30)) + list(range(90, 120)))  # others live there now
    after = after.set_column(2, "town", pa.array(towns))
    assert sum(a != b for a, b in zip(
        before.sort_by("id")["town"].to_pylist(), after.sort_by("id")["town"].to_pylist(), strict=True)) == 60
    for who in ("unnamed", "named"):
        named = {"person": "id"} if who == "named" else {}
        for table in (before, after):
            sf.release(table, ir, ledger=book, people=who, **named)
    unnamed, named = book.entries("unnamed"), book.entries("named")
    reached = coupled_level(ir.matrix, JOINT.p)

    assert unnamed[0].fingerprints == unnamed[1].fingerprints and named[0].fingerprints != named[1].fingerprints
    assert sf.compose(ir, ir).level("rldp", sf.Exactly(JOINT)) < reached - 0.05  # what was stated is exceeded
    assert min(unnamed[1].composed, named[1].composed) >= reached


BITS = [Column.of(name, ["0", "1"]) for name in "sab"]
SECRET = Alphabet.of(BITS[0])
FIRST = sf.Joint.from_counts(  # at time 1: a = b = N, whatever s is
    [[1, 0, 0, 1], [1, 0, 0, 1]], SECRET, Alphabet.of(BITS[1], BITS[2]))


def reading(name, keep):
    """A mechanism that tells one column, which by itself has nothing to do with the secret."""
    column = BITS[1 if name == "a" else 2]
    joint = sf.Joint.from_counts([[1, 1], [1, 1]], SECRET, Alphabet.of(column))
    law = Tabular([[keep, 1 - keep], [1 - keep, keep]], joint=joint, reads="useful")
    return sf.seal(law, Claim("rldp", 1e-6, sf.Exactly(joint)))[0]


def reading_both():
    law = Tabular([[0.6, 0.5, 0.5, 0.4], [0.4, 0.5, 0.5, 0.6]], joint=FIRST, reads="useful")
    return sf.seal(law, Claim("rldp", 1e-6, sf.Exactly(FIRST)))[0]


@pytest.mark.parametrize("order", ["ABC", "ACB", "CBA", "BCA"])
def test_a_set_is_applied_to_the_values_it_is_about_and_to_no_others(book, order):
    """a = b = N at time 1, N ⊕ S at time 2. A tells a at time 1, B tells b at time 2: together they tell S, though
    C, which read both at time 1, claims a set in which a = b."""
    a, b, both = reading("a", 0.999), reading("b", 0.999), reading_both()
    n, s = np.divmod(np.arange(400), 2)[0] % 2, np.arange(400) % 2
    ids = [f"p{i}" for i in range(400)]

    def table(bits):
        return pa.table({"id": ids, "s": s.astype(str), "a": bits.astype(str), "b": bits.astype(str)})

    jobs = {"A": (table(n), a), "B": (table(n ^ s), b), "C": (table(n), both)}
    q = a.matrix.reshape(2, -1)[:, :2]
    reached = math.log((q[0, 0] * q[0, 0] + q[0, 1] * q[0, 1]) / (q[0, 0] * q[0, 1] + q[0, 1] * q[0, 0]))
    for who, named in (("named", {"person": "id"}), ("unnamed", {})):
        done = ""
        for name in order:
            sf.release(*jobs[name], ledger=book, people=who, **named)
            done += name
            stated = book.entries(who)[-1].composed
            assert stated == pytest.approx(book.composed(who))
            if {"A", "B"} <= set(done):
                assert stated >= reached - 1e-9
    groups = {frozenset(e.mechanism for e in g) for g in same_inputs(book.entries("named"))}
    assert sorted(map(len, groups)) == [1, 2]  # A with C, and B alone
    assert reached > 5


def test_a_shared_column_does_not_show_that_others_are_unchanged(book):
    """A reads a and z at time 1, B reads b and z at time 2; z never changes, a and b do, with the secret."""
    z = Column.of("z", ["0", "1"])
    both = [
        sf.design(sf.Anything(sf.Joint.from_counts(np.ones((2, 4)), SECRET, Alphabet.of(c, z))), 1.0, "grr").mechanism
        for c in BITS[1:]
    ]
    table = pa.table({"id": ["1", "2"], "s": ["0", "1"], "a": ["0", "1"], "b": ["1", "1"], "z": ["0", "1"]})
    for mechanism in both:
        sf.release(table, mechanism, ledger=book, people="x", person="id")

    assert [len(g) for g in same_inputs(book.entries())] == [1, 1]


def test_the_order_of_rows_and_the_format_do_not_matter_where_people_are_named(book, ir, tmp_path):
    sf.release(PEOPLE, ir, ledger=book, people="x", person="id")
    sf.release(PEOPLE.take(np.random.default_rng(0).permutation(100)), ir, ledger=book, people="x", person="id")

    assert [len(g) for g in same_inputs(book.entries())] == [2]
    assert book.composed("x") == pytest.approx(sf.compose(ir, ir).level("rldp", sf.Exactly(JOINT)), rel=1e-9)


# names


@pytest.mark.parametrize("name", ["A", "A ", "a", " a", "A\u200b", "Ａ", "\ufeffA", "A\u00ad", "a\u00a0"])
def test_spellings_of_one_name_are_one_account(book, ir, name):
    sf.release(PEOPLE, ir, ledger=book, people="A", budget=0.6)
    with pytest.raises(sf.BudgetError, match=r"budget of 'A' is 0\.6"):
        sf.release(PEOPLE, ir, ledger=book, people=name)

    assert len(book.entries(name)) == 1 and book.composed(name) == book.composed("A") > 0


def test_a_name_that_only_looks_like_another_is_refused_and_the_other_shown(book, ir):
    sf.release(PEOPLE, ir, ledger=book, people="Cohort A")
    with pytest.raises(sf.InputError, match=r"'\\u0421ohort \\u0410' looks like 'Cohort A'"):
        sf.release(PEOPLE, ir, ledger=book, people="Сohort А")  # Cyrillic С and А
    with pytest.raises(sf.InputError, match=r"control character \(U\+001B\)"):
        sf.release(PEOPLE, ir, ledger=book, people="\x1b[31mred")
    with pytest.raises(sf.InputError, match="whose data"):
        sf.release(PEOPLE, ir, ledger=book, people=" \u200b ")
    assert account_name("Cohort B", ["Cohort A"]) == "Cohort B"
    assert folded("Straße") == folded("STRASSE")


# ledgers of before


def test_ledgers_without_persons_open_and_their_spellings_are_one_account(book, ir):
    """What older ledgers hold stays; what they had taken for repeats without knowing the people counts."""
    mark = {"town": "1"}
    for name in ("A", "A"):
        book.reserve(ir, name, key="k", fingerprints=mark)
    with sqlite3.connect(book.path) as raw:
        assert not raw.execute("SELECT 1 FROM sqlite_master WHERE name = 'persons'").fetchall()
        raw.execute("UPDATE releases SET memoised = 1, repeats = CASE id WHEN 2 THEN 1 END")
        raw.execute("UPDATE releases SET people = 'a ' WHERE id = 2")
    raw.close()
    entries = sf.Ledger(book.path, create=False).entries("a")

    assert [(e.people, e.repeats, e.person) for e in entries] == [("A", None, None), ("a ", 1, None)]
    assert json.loads(json.dumps(entries[0].fingerprints)) == mark
    assert len(counted(entries)) == 2
    sf.release(PEOPLE, ir, ledger=book, people="A", memoise="id")
    assert [e.repeats for e in book.entries("A")] == [None, 1, None]
