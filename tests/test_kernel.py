"""The kernel proves what the fast proofs prove, samplers draw what it expands, and nothing false is accepted."""

import ast
import contextlib
import itertools
import json
import math
import random
import subprocess
import sys
import time
import tomllib
import zipfile
from collections import Counter
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import forging, kernel_table, mechanism_files
from tests.mechanism_files import LAWS, NOTIONS, PAIRS

import sfumato as sf
import sfumato_kernel as kernel
from sfumato.certification import certificate
from sfumato.certification.proving import _OVER
from sfumato.errors import SfumatoError
from sfumato.mechanism import Mechanism, mechanism
from sfumato.mechanism.file import record_of
from sfumato.mechanism.file_records import LawRecord
from sfumato_kernel import exact, laws, verdict
from sfumato_kernel import verdict as bundles
from sfumato_kernel.exact import level

CLOSE = 2e-9  # what floats leave of a proof over a ball
SEARCHED = 2e-8  # nats that a law on outputs, searched by steps, may leave of a leakage
LOOSE = {"renyi-ball"}  # where the kernel is closer than the fast proof, never the other way


@pytest.fixture(scope="module")
def honest():
    """Files of every law, notion and set."""
    return mechanism_files.documents()


def refused(document):
    with pytest.raises(kernel.Refused) as caught:
        kernel.verify(forging.sealed(document))
    return str(caught.value)


# The pairs of law, notion and set.

def test_every_law_notion_and_set_of_the_package_is_in_the_table_of_pairs():
    kinds = {arm.__struct_config__.tag for arm in LawRecord.__args__}
    assert kinds == set(LAWS)
    assert set(NOTIONS) == set(mechanism.NOTIONS)
    assert set(_OVER) - {"custom"} == set(itertools.chain(*NOTIONS.values())) - {None}
    assert len(PAIRS) == len(LAWS) * sum(map(len, NOTIONS.values())) == len(set(PAIRS))


@pytest.mark.parametrize(("kind", "notion", "within"), PAIRS)
def test_the_kernel_and_the_fast_proof_agree(kind, notion, within):
    if (kind, notion) == ("unary", "leakage"):
        with pytest.raises(SfumatoError, match="outputs can be listed"):
            mechanism_files.mechanism(kind, notion, within)
        return
    for seed in range(2):
        made, fast = mechanism_files.mechanism(kind, notion, within, seed)
        found = kernel.admitted(mechanism_files.data(made))
        claim = found.claims[0]
        if notion in ("mi", "leakage"):
            nats = verdict.nats(found, claim)
            slow = math.inf if nats is None else float(nats)
        else:
            slow = level(verdict.bound(found.law, found.table, notion, claim["within"], Fraction(1)))
        close = SEARCHED if notion == "leakage" else CLOSE
        assert slow <= fast + close or slow == fast
        if within not in LOOSE and math.isfinite(fast):
            assert slow >= fast - close
        if math.isfinite(fast):
            assert kernel.verify(mechanism_files.data(made)).proved


def test_the_page_says_what_the_kernel_does_with_every_law_notion_and_set(honest):
    found = kernel_table.outcomes(honest)
    assert set(found) == {(law, *row) for law in LAWS for row in kernel_table.ROWS}
    page = (Path(__file__).parents[1] / "docs" / "mechanism-file.md").read_text()
    assert kernel_table.table(found) in page


@pytest.mark.parametrize(("notion", "within"), kernel_table.not_made())
def test_a_notion_over_a_set_that_it_has_no_meaning_for_is_no_claim(honest, notion, within):
    document = next(d for d in honest if d["law"]["kind"] == "table" and d["claim"]["notion"] == "rldp")
    sets = {d["claim"]["within"]["kind"]: d["claim"]["within"] for d in honest if (d.get("claim") or {}).get("within")}
    claim = {"notion": notion, "epsilon": 100.0} | ({"alpha": 2.0, "beta": 1.0} if notion == "leakage" else {})
    claim |= {} if within is None else {"within": sets.get(within, {"kind": within})}
    with pytest.raises(kernel.Malformed):
        kernel.verify(forging.sealed({**document, "claim": claim}))


@pytest.mark.parametrize("law", LAWS)
def test_a_second_promise_for_any_distribution_is_proved_exactly_beside_the_first(honest, law):
    """At the least double whose e^ε is reached, and no longer at half of it."""
    document = next(d for d in honest if d["law"]["kind"] == law and d["claim"]["notion"] == "mi")
    found = kernel.admitted(forging.sealed(document))
    ratio = exact.everywhere(found.law)
    least = level(ratio)
    while exact.exp_below(least) < ratio:
        least = math.nextafter(least, math.inf)
    also = {"notion": "rldp", "epsilon": least, "within": {"kind": "anything"}}
    assert len(kernel.verify(forging.sealed({**document, "claim": {**document["claim"], "also": [also]}})).proved) == 2
    if ratio > 1:
        also["epsilon"] = math.nextafter(least, 0) if exact.exp_below(math.nextafter(least, 0)) < ratio else least / 2
        assert "proved only" in refused({**document, "claim": {**document["claim"], "also": [also]}})


@pytest.mark.parametrize("place", [(), ("claim",), ("claim", "within"), ("law",), ("design",), ("useful", 0)])
def test_a_field_that_is_not_described_is_refused_wherever_it_stands(honest, place):
    document = json.loads(json.dumps(next(d for d in honest if d["claim"].get("within"))))
    node = document
    for key in place:
        node = node[key]
    node["kappa"] = 1.0
    assert "'kappa', which it must not have" in refused(document)


def test_bundles_of_every_kind_are_proved_by_both():
    for made in mechanism_files.bundles():
        assert kernel.verify(mechanism_files.data(made)).proved
        assert sf.certify(made) if isinstance(made, Mechanism) else True


@settings(max_examples=40)
@given(st.integers(0, 2**48))
def test_what_a_tree_promises_is_true_where_its_tables_are_the_truth(seed):
    """s → u → v by enumeration: P(y, z|s) = Σ_u p(u|s) Q(y|u) Σ_v p(v|u) Q(z|v)."""
    rng = random.Random(seed)
    columns = [{"name": n, "labels": ["0", "1", "2"][:2 + (n == "u")]} for n in "suv"]
    weights = [[rng.randrange(1, 64) for _ in c["labels"]] for c in columns[1:]]
    laws_ = [{"kind": "table", "bits": 6, "weights": [w, [64 - x for x in w]], "meaning": "symbol"} for w in weights]
    tables = [[[rng.randrange(1, 9) for _ in c["labels"]] for _ in above["labels"]] for above, c in itertools.pairwise(columns)]
    parts = [{"format": "sfumato/mechanism", "version": 1, "method": "forged", "reads": "useful", "secret": [above], "useful": [c],
              "law": law, "claim": {"notion": "rldp", "epsilon": 99.0, "within": {"kind": "exactly"}}, "design": {"source": "x", "counts": t}}
             for (above, c), law, t in zip(itertools.pairwise(columns), laws_, tables, strict=True)]
    document = {"format": "sfumato/bundle", "version": 1, "secret": [columns[0]], "parts": parts, "promise": {"epsilon": 99.0, "assuming": "tree"}}
    found = bundles._below(kernel.admitted(forging.sealed(document)), 0)
    mean = [[Fraction(sum(map(int.__mul__, row, w)), sum(row)) for row in tables[1]] for w in laws_[1]["weights"]]
    both = [[Fraction(sum(n * q * m for n, q, m in zip(row, w, z, strict=True)), sum(row)) for row in tables[0]]
            for w in laws_[0]["weights"] for z in mean]
    assert max(max(row) / min(row) for row in both) <= found


def test_a_custom_set_is_not_something_the_kernel_proves(honest):
    document = json.loads(json.dumps(next(d for d in honest if d.get("claim", {}).get("within"))))
    document["claim"]["within"] = {"kind": "custom", "name": "mine"}
    document["claim"]["notion"], document["claim"]["epsilon"] = "rldp", 1e-6
    with pytest.raises(kernel.Beyond, match="defined by code"):
        kernel.verify(forging.sealed(document))


# The sampler draws what the kernel expands.

@pytest.mark.parametrize("kind", [k for k in LAWS if k != "product"])
@pytest.mark.parametrize("reads", ["both", "useful"])
def test_every_word_of_a_small_width_is_drawn_as_the_kernel_says(kind, reads):
    reads = "both" if kind in ("conditional", "layout") else reads
    bits = {"unary": 3, "layout": 10}.get(kind, 8)
    made = mechanism_files.law(kind, 2, 2, reads, np.random.default_rng(5)).rounded(bits, 2.0**-3)
    numbers = msgspec.to_builtins(record_of(_named(made, reads)).law)
    law = laws.checked(numbers, made.rows, (2,))
    total = {}
    for row in law.listed:
        key = tuple(Fraction(p.at(u) * row.factor) for p in row.parts for u in range(2))
        key = key * (law.rows if len(row.parts) < law.rows else 1)
        total[_shape(key)] = total.get(_shape(key), 0) + sum(key)
    words = np.array(list(itertools.product(range(2**bits), repeat=made.words)), np.uint64)
    drawn = [np.atleast_2d(made.draw(np.full(len(words), x), words).T).T for x in range(made.rows * 2)]
    counts = [Counter(map(tuple, d.tolist())) for d in drawn]
    seen = {}
    for y in set().union(*counts):
        key = tuple(Fraction(c[y]) for c in counts)
        seen[_shape(key)] = seen.get(_shape(key), 0) + sum(key)
    assert seen == total


def _shape(row):
    """A row without its length: outputs with proportional rows tell the same."""
    return tuple(x / sum(row) for x in row)


def _named(law, reads):
    joint = sf.Joint.from_counts([[1, 2], [3, 4]])
    return Mechanism(law, joint.secret, joint.useful, reads, joint=joint)


def test_a_product_is_drawn_as_the_kernel_says():
    one = mechanism_files.law("cells", 2, 2, "both", np.random.default_rng(1)).rounded(5, 2.0**-3)
    two = mechanism_files.law("table", 2, 2, "useful", np.random.default_rng(2)).rounded(5, 2.0**-3)
    made = sf.mechanism.Product((sf.mechanism.Factor(one, (0,), 1), sf.mechanism.Factor(two, (0,), 1)), 2, (2,))
    law = kernel.admitted(mechanism_files.data(_named(made, "both"))).law
    words = np.array(list(itertools.product(range(32), repeat=2)), np.uint64)
    counts = [Counter(made.draw(np.full(len(words), x), words).tolist()) for x in range(4)]
    drawn = sorted(tuple(c[y] for c in counts) for y in set().union(*counts))
    assert drawn == sorted(tuple(row.factor * p.at(u) for p in row.parts for u in range(2)) for row in law.listed)


def test_turns_of_a_bundle_are_drawn_by_their_weights():
    made = list(mechanism_files.bundles())[1]
    ends = np.cumsum(np.array(made.turns, dtype=object))
    words = np.array([w for e in ends[:-1] for w in (int(e) - 1, int(e))] + [0, 2**62 - 1], np.uint64)
    assert made.drawn_turns(words).tolist() == [0, 1, 1, 2, 0, 2]


def test_the_widest_words_stay_within_int64():
    """At 62 bits the last word of every law is drawn, and belongs to an output that has weight."""
    for kind in (k for k in LAWS if k != "product"):
        made = mechanism_files.law(kind, 2, 3, "both", np.random.default_rng(3)).rounded(None, 2.0**-20)
        words = np.full((6, made.words), 2**64 - 1, np.uint64)
        drawn = made.draw(np.arange(6), words)
        if kind != "unary":
            assert all(int(np.ravel(made.row(int(y)))[x]) > 0 for x, y in enumerate(drawn))


# Forging.

def test_next_to_nothing_is_as_true_of_a_constant_law_as_nothing(honest):
    document = next(d for d in honest if d["law"]["kind"] == "constant" and d["claim"]["notion"] == "ldp")
    for epsilon in (0.0, 5e-324, 1e-300, 1e-40):
        assert kernel.verify(forging.sealed({**document, "claim": {"notion": "ldp", "epsilon": epsilon}})).proved


@settings(max_examples=400)
@given(st.integers(0, 2**48))
def test_no_forged_file_is_accepted_that_the_oracle_calls_false(honest, seed):
    rng = random.Random(seed)
    document = forging.mutated(rng.choice(honest), rng)
    data = forging.sealed(document)
    try:
        kernel.verify(data)
    except kernel.Refused:
        return
    assert forging.is_false(json.loads(data), rng) is None


@settings(max_examples=60)
@given(st.integers(0, 2**48))
def test_verify_refuses_what_the_kernel_refuses(honest, tmp_path_factory, seed):
    rng = random.Random(seed)
    data = forging.sealed(forging.mutated(rng.choice(honest), rng))
    try:
        kernel.verify(data)
        return
    except kernel.Beyond:
        return
    except kernel.Refused:
        pass
    path = tmp_path_factory.mktemp("forged") / "m.json"
    path.write_bytes(data)
    with pytest.raises(SfumatoError):
        sf.verify(path)


def test_the_oracle_finds_no_fault_in_honest_files_and_one_in_false_ones(honest):
    assert all(forging.is_false(d) is None for d in honest)
    lies = [d for d in honest if d["format"] == "sfumato/mechanism" and d["claim"]["notion"] in ("ldp", "mi")
            and d["claim"]["epsilon"] > 0.01]
    assert len(lies) > 8
    for document in lies:
        assert forging.is_false({**document, "claim": {**document["claim"], "epsilon": 1e-7}})


@pytest.mark.parametrize("data", [
    b'{"format":' + b"[" * 100_000, b'{"a":' * 50 + b"1" + b"}" * 50, b'{"bits":' + b"9" * 10_000 + b"}",
    b'{"x":1,"x":2}', b'{"x":NaN}', b'{"x":1e999}', b"[" + b"1," * 5_000_000 + b"1]", b"\xff\xfe", b"null",
], ids=["deep", "fifty", "digits", "twice", "nan", "infinite", "ten megabytes", "no text", "null"])
def test_monstrous_files_are_refused_within_seconds(tmp_path, data):
    start = time.process_time()
    with pytest.raises(kernel.Malformed):
        kernel.verify(data)
    path = tmp_path / "m.json"
    path.write_bytes(data)
    with pytest.raises(SfumatoError):
        sf.verify(path)
    assert time.process_time() - start < 10


def test_a_table_of_ten_megabytes_is_answered_within_seconds(honest):
    weights = [[2**30] * 10 for _ in range(65536)]
    document = json.loads(json.dumps(next(d for d in honest if d.get("law", {}).get("kind") == "table" and d["claim"]["notion"] == "ldp")))
    document |= {"reads": "useful", "law": {"kind": "table", "bits": 46, "weights": weights, "meaning": "symbol"},
                 "useful": [{"name": "u", "labels": list("0123456789")}]}
    document.pop("design")
    start = time.process_time()
    data = forging.sealed(document)
    assert len(data) > 7_000_000
    kernel.verify(data)
    assert time.process_time() - start < 20


@pytest.mark.parametrize("change", [
    {"law": {"kind": "product", "parts": [{"law": {"kind": "cells", "bits": 62, "truth": 2**61 + 1, "same_secret": 2**61 - 1,
                                                    "same_useful": 0, "neither": 0}, "columns": [0], "reads": "useful", "times": 10**6}]}},
    {"claim": {"notion": "rldp", "epsilon": 1e6, "within": {"kind": "renyi-ball", "radius": 1.0, "alpha": 0.4}}},
    {"useful": [{"name": f"u{i}", "labels": ["0", "1"]} for i in range(40)], "design": None,
     "law": {"kind": "unary", "bits": 2, "on": 3, "off": 1}},
    {"useful": [{"name": f"u{i}", "labels": ["0", "1"]} for i in range(22)], "design": None,
     "law": {"kind": "cells", "bits": 62, "truth": 2**62 - 2**22 + 1, "same_secret": 1, "same_useful": 0, "neither": 0}},
    {"claim": {"notion": "ldp", "epsilon": 9.0, "also": [{"notion": "ldp", "epsilon": 9.0}] * 16}},
], ids=["a million releases", "a million nats", "2^40 inputs", "2^22 outputs", "seventeen claims"])
def test_small_files_that_ask_for_great_work_are_answered_within_seconds(change):
    document = {"format": "sfumato/mechanism", "version": 1, "method": "forged", "reads": "useful",
                "secret": [{"name": "s", "labels": ["0", "1"]}], "useful": [{"name": "u", "labels": ["0", "1"]}],
                "law": {"kind": "table", "bits": 2, "weights": [[1, 3], [3, 1]], "meaning": "symbol"},
                "claim": {"notion": "ldp", "epsilon": 2.0}, "design": {"source": "unstated", "counts": [[3, 1], [1, 2]]}, **change}
    start = time.process_time()
    with contextlib.suppress(kernel.Refused):
        kernel.verify(forging.sealed(document))
    assert time.process_time() - start < 10


# A verifier alone.

def test_the_wheel_holds_all_that_the_verifier_needs(honest, tmp_path):
    """A zip of what kernel/pyproject.toml names, as a wheel is, proves a file with no other package in reach."""
    home, files = Path(kernel.__file__).parent, tmp_path / "wheel.zip"
    described = tomllib.loads((Path(__file__).parents[1] / "kernel" / "pyproject.toml").read_text())["tool"]["setuptools"]
    data = described["package-data"]["sfumato_kernel"]
    assert described["packages"] == ["sfumato_kernel"]
    assert {p.name for p in home.iterdir() if p.is_file()} == {p.name for p in home.glob("*.py")} | set(data)
    with zipfile.ZipFile(files, "w") as wheel:
        for path in home.glob("*.py"):
            wheel.write(path, f"sfumato_kernel/{path.name}")
    (tmp_path / "m.json").write_bytes(forging.sealed(honest[0]))
    script = (f"import sys, runpy; sys.path.insert(0, {str(files)!r}); sys.argv[1:] = [{str(tmp_path / 'm.json')!r}]; "
              "runpy.run_module('sfumato_kernel', run_name='__main__')")
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("proved: ")


def test_the_kernel_imports_itself_and_the_standard_library_alone():
    for path in Path(kernel.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module] if isinstance(node, ast.ImportFrom) else []
            assert {n.split(".")[0] for n in names} <= {*sys.stdlib_module_names, "sfumato_kernel"}


def test_the_kernel_needs_nothing_but_the_standard_library(honest, tmp_path):
    path = tmp_path / "m.json"
    path.write_bytes(forging.sealed(honest[0]))
    home = Path(kernel.__file__).parents[1]
    script = (
        f"import sys; sys.path.insert(0, {str(home)!r}); import sfumato_kernel.__main__ as m; code = m.main([{str(path)!r}]); "
        "print(code, [x for x in sys.modules if x.split('.')[0] in ('numpy', 'scipy', 'msgspec', 'sfumato')])"
    )
    out = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "0 []"


def test_exit_codes_of_the_kernel(honest, tmp_path):
    from sfumato_kernel.__main__ import main

    path = tmp_path / "m.json"
    document = next(d for d in honest if d["claim"]["notion"] == "ldp" and d["law"]["kind"] == "table")
    for change, code in (({}, 0), ({"epsilon": 1e-9}, 1), ({"notion": "x"}, 2)):
        path.write_bytes(forging.sealed({**document, "claim": {**document["claim"], **change}}))
        assert main([str(path)]) == code
    assert main([str(tmp_path / "nowhere")]) == 2 and main([]) == 2


def test_the_certificate_of_a_claim_says_what_the_kernel_bounds(honest):
    document = next(d for d in honest if d["claim"]["notion"] == "ldp" and d["law"]["kind"] == "cells")
    found = kernel.admitted(forging.sealed(document))
    made = msgspec.json.decode(forging.sealed(document), type=sf.mechanism.file.MechanismRecord)
    assert certificate(sf.mechanism.file.mechanism_of(made)).level == pytest.approx(
        math.log(verdict.bound(found.law, found.table, "ldp", None, Fraction(1))))


def test_no_decimal_is_rounded_by_a_context_that_is_not_the_kernels(honest):
    """Operators of decimals round to the digits of the thread's context: with 3 of them every verdict is the same."""
    import decimal

    some = [d for d in honest if d["format"] == "sfumato/mechanism"][::3]
    with decimal.localcontext() as context:
        context.prec = 3
        for document in some:
            assert kernel.verify(forging.sealed(document)).proved


def test_a_pair_without_a_proof_does_not_end_the_look_at_the_others(monkeypatch):
    from sfumato_kernel.ball_levels import Ball, over_ball

    monkeypatch.setattr(Ball, "pair", lambda *_: None)
    rows = [laws.Row(1, (laws.Part(2, {0: 3}, 2),)), laws.Row(1, (laws.Part(1, {0: 9}, 2),))]
    assert over_ball(rows, Ball([{0: 3, 1: 1}, {0: 1, 1: 2}], {"kind": "chi-square-ball", "radius": 0.1}), Fraction(1)) == 9
