"""Claims that were once proved although they are false: each is refused, or proved at its true level."""

import copy
import dataclasses
import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from tests import forging

import sfumato as sf
from sfumato.certification import certificate
from sfumato.certification.proving import proved
from sfumato.cli import cli
from sfumato.errors import ClaimError, FileFormatError, InputError, SfumatoError
from sfumato.mechanism import Cells, Claim, Layout, Mechanism, Table, Unary
from sfumato.mechanism.file import record_of

JOINT = sf.Joint.from_counts([[3, 1], [1, 2]])


def document(law, claim=None, **fields):
    """A file around a law for two secrets and two useful values."""
    columns = {n: [{"name": n, "labels": ["0", "1"]}] for n in ("secret", "useful")}
    return {
        "format": "sfumato/mechanism", "version": 1, "method": "forged", "reads": "both", **columns, "law": law,
        "claim": claim or {"notion": "ldp", "epsilon": 0.0}, "design": {"source": "unstated", "counts": [[3, 1], [1, 2]], "n": 7},
        **fields,
    }


def refused(tmp_path, forged, match=None):
    path = tmp_path / "m.json"
    record = msgspec.convert(forged, sf.mechanism.file.MechanismRecord) if "law" in forged else None
    data = forging.sealed(forged) if record is None else msgspec.json.encode(
        msgspec.structs.replace(record, checksum=sf.mechanism.file.checksum(record)))
    path.write_bytes(data)
    with pytest.raises(SfumatoError, match=match):
        sf.verify(path)
    result = CliRunner().invoke(cli, ["verify", str(path)])
    assert result.exit_code in (2, 4, 5), result.output


def test_a_set_that_tells_the_secret_is_not_sealed():
    with pytest.raises(ClaimError, match="could not be sealed"):
        sf.design(sf.Exactly(JOINT), 1.0, "sue", notion="srlip")


@pytest.mark.parametrize("on", [0.6, 0.9, 1.0])
def test_a_unary_law_is_certified_at_its_true_level(on):
    made = Mechanism(Unary(2, 2, on, 1 - on).rounded(None, 0.0), JOINT.secret, JOINT.useful, joint=JOINT)
    found = {n: certificate(replace(made, claim=Claim(n, 9.0, sf.Exactly(JOINT))), wider=False).level for n in ("srlip", "mi")}
    q = forging.channel(msgspec.to_builtins(record_of(made).law), 2, (2,))
    assert found["srlip"] == pytest.approx(sf.level(made, sf.SRLIP(JOINT)), rel=1e-9)
    assert found["mi"] == pytest.approx(forging.information(q, [[float(x) for x in row] for row in JOINT.p]), rel=1e-9)
    assert found["mi"] > 0.01


def test_layouts_longer_than_floats_can_tell_are_compared_piece_by_piece(tmp_path):
    lengths = [[2**60, 1, 1, 2]] * 2
    rest = 2**62 - 2**60
    heights = [[[1, 1], [rest - 4, rest - 4], [0, 0], [2, 2]], [[1, 1], [0, 0], [rest - 4, rest - 4], [2, 2]]]
    law = Layout(tuple(map(np.array, lengths)), tuple(map(np.array, heights)), 62)
    made = Mechanism(law, JOINT.secret, JOINT.useful, joint=JOINT)
    assert [law.atoms_at[:, s].tolist() for s in (0, 1)] == [[0, 1, 2, 3]] * 2
    for notion, within in (("ldp", None), ("rldp", sf.Anything(JOINT)), ("rldp", sf.ChiSquareBall(JOINT)), ("lip", sf.Exactly(JOINT))):
        assert certificate(replace(made, claim=Claim(notion, 0.0, within)), wider=False).level > 0.3
    refused(tmp_path, document({"kind": "layout", "bits": 62, "lengths": lengths, "heights": heights}), "proved only")


@pytest.mark.parametrize("bits", [-1, 63, 64, 65, 100, 200])
def test_bits_that_the_sampler_cannot_draw_are_refused(tmp_path, bits):
    if bits >= 2:
        with pytest.raises(InputError, match="bits from 0 to 62"):
            Cells(2, 2, *[2 ** (bits - 2)] * 4, bits=bits)
    weight = 2 ** max(0, min(bits - 2, 60))
    refused(tmp_path, document({"kind": "cells", "bits": bits, **dict.fromkeys(("truth", "same_secret", "same_useful", "neither"), weight)}))


def test_an_atom_of_zeros_says_nothing_and_hides_nothing(tmp_path):
    heights = [[[2, 2], [0, 0], [0, 0]], [[0, 0], [2, 2], [0, 0]]]
    law = {"kind": "layout", "bits": 1, "lengths": [[1, 1, 1]] * 2, "heights": heights}
    refused(tmp_path, document(law), "proved only")


def test_also_under_a_claim_about_the_average_is_proved(tmp_path):
    design = sf.design(sf.Exactly(JOINT), 0.1, "mi-funnel", notion="mi")
    claim = replace(design.mechanism.claim, also=(Claim("ldp", 1e-9),))
    with pytest.raises(ClaimError, match="LDP"):
        sf.certify(design.mechanism, claim)


@pytest.mark.parametrize("within", [
    {"kind": "chi-square-ball", "radius": 1e-12, "confidence": 0.95, "calibration": "exact"},
    {"kind": "chi-square-ball", "radius": 1e-12, "confidence": 0.95, "calibration": "bootstrap"},
    {"kind": "chi-square-ball", "radius": 1e-12, "confidence": 0.95, "calibration": "trust me"},
    {"kind": "chi-square-ball", "radius": 1e-12, "confidence": 0.95},
    {"kind": "renyi-ball", "radius": 1e-12, "confidence": 0.95, "alpha": 1.0},
    {"kind": "renyi-ball", "radius": 9.0, "confidence": 0.95, "alpha": 2.0},
], ids=lambda w: f"{w['kind']} {w.get('calibration')}")
@pytest.mark.parametrize("design", [{"counts": [[3, 1], [1, 2]], "n": 7}, {"probabilities": [[0.5, 0.1], [0.1, 0.3]]},
                                    {"probabilities": [[0.5, 0.1], [0.1, 0.3]], "n": 10**15}], ids=["counts", "p", "p and n"])
def test_a_confidence_is_recomputed_and_never_believed(tmp_path, within, design):
    law = {"kind": "cells", "bits": 2, "truth": 1, "same_secret": 1, "same_useful": 1, "neither": 1}
    claim = {"notion": "rldp", "epsilon": 1.0, "within": within}
    refused(tmp_path, document(law, claim, design={"source": "unstated", **design}), "confidence")


@pytest.mark.parametrize("within", [
    sf.ChiSquareBall(JOINT), sf.ChiSquareBall(JOINT, confidence=0.5, calibration="exact"),
    sf.ChiSquareBall(JOINT, calibration="bootstrap"), sf.RenyiBall(JOINT, alpha=1, confidence=0.9),
    sf.RenyiBall(JOINT, alpha=0.4, confidence=0.99),
], ids=lambda w: f"{w.kind} {getattr(w, 'calibration', '')}")
def test_an_honest_confidence_is_accepted(tmp_path, within):
    design = sf.design(within, 1.0, "srr")
    assert sf.verify(design.mechanism.save(tmp_path / "m.json")).holds


@pytest.mark.parametrize("free", [1, 2, 3, 10, 101, 2000])
def test_the_quantile_of_the_chi_square_law_is_enclosed(free):
    from decimal import Decimal

    from scipy.special import gammainc

    from sfumato_kernel.exact import chi_square_below

    for x in (0.2 * free, 0.5 * free, 0.7 * free):
        assert float(chi_square_below(free, Decimal(x))) == pytest.approx(gammainc(free / 2, x), rel=1e-9)


def test_the_worst_row_of_a_table_is_found_among_ratios_that_floats_cannot_tell_apart():
    whole = 2**60
    top = [[whole + 1, whole], [whole + 3, whole + 1]]
    last = [2**62 - sum(row[x] for row in top) for x in (0, 1)]
    law = Table(np.array([*top, last]), 1, 62)
    worst = max(max(row) * 10**30 // min(row) for row in [*top, last])
    a, b, _ = law.input_extremes()
    assert int(a) * 10**30 // int(b) == worst


def test_a_secret_without_values_promises_nothing(tmp_path):
    law = {"kind": "table", "bits": 1, "weights": [[2, 0], [0, 2]], "meaning": "symbol"}
    for secret, counts in (([], [[3, 1]]), ([{"name": "s", "labels": ["a"]}], [[3, 1]])):
        claim = {"notion": "rldp", "epsilon": 0.0, "within": {"kind": "anything"}}
        forged = document(law, claim, reads="useful", secret=secret, design={"source": "unstated", "counts": counts})
        refused(tmp_path, forged, "two values or more")


@pytest.mark.parametrize("epsilon", [709.9, 5000.0])
def test_a_claim_beyond_the_range_of_floats_gets_an_answer(tmp_path, epsilon):
    claim = {"notion": "rldp", "epsilon": epsilon, "within": {"kind": "chi-square-ball", "radius": 0.1}}
    law = {"kind": "table", "bits": 1, "weights": [[2, 2, 0, 0], [0, 0, 2, 2]], "meaning": "symbol"}
    refused(tmp_path, document(law, claim), "proved only")
    even = {**law, "weights": [[1] * 4, [1] * 4]}
    path = tmp_path / "even.json"
    path.write_bytes(forging.sealed(document(even, claim)))
    assert CliRunner().invoke(cli, ["verify", str(path)]).exit_code == 0


def test_a_hundred_thousand_claims_inside_each_other_are_refused(tmp_path):
    path = tmp_path / "m.json"
    inner = b'{"notion":"ldp","epsilon":1.0,"also":['
    path.write_bytes(b'{"format":"sfumato/mechanism","claim":' + inner * 100_000 + b"]}" * 100_000 + b"}")
    with pytest.raises(FileFormatError, match="nested too deeply"):
        sf.verify(path)
    assert CliRunner().invoke(cli, ["verify", str(path)]).exit_code == 4


def test_a_bundle_has_a_report_and_is_composed(tmp_path):
    from tests.mechanism_files import bundles

    path = next(iter(bundles())).save(tmp_path / "b.json")
    for command in (["report", str(path), "--out", str(tmp_path / "r.html")], ["compose", str(path), "--times", "2"]):
        result = CliRunner().invoke(cli, command)
        assert result.exit_code == 0, (command, result.exit_code, result.output)


@pytest.mark.parametrize("label", ["a\x1b[2J", "a\nb", "a\x00", "a\u2028b"])
def test_labels_with_control_characters_are_refused_in_a_file(tmp_path, label):
    law = {"kind": "constant", "bits": 2}
    forged = document(law, useful=[{"name": "u", "labels": ["0", label]}])
    refused(tmp_path, forged, "control character")
    with pytest.raises(InputError, match="control character"):
        joint = sf.Joint.from_counts([[3, 1], [1, 2]], useful=["0", label])
        sf.design(sf.ChiSquareBall(joint), 1.0, "srr").mechanism.save(tmp_path / "own.json")


def test_a_bundle_promises_nothing_through_a_forged_part(tmp_path):
    law = {"kind": "cells", "bits": 64, **dict.fromkeys(("truth", "same_secret", "same_useful", "neither"), 2**60)}
    part = document(law, {"notion": "rldp", "epsilon": 0.0, "within": {"kind": "anything"}})
    forged = {"format": "sfumato/bundle", "version": 1, "secret": part["secret"], "parts": [part], "promise": {"epsilon": 0.0, "assuming": "nothing"}}
    path = tmp_path / "b.json"
    path.write_bytes(forging.sealed(forged))
    with pytest.raises(SfumatoError):
        sf.verify(path)


@pytest.mark.parametrize("alpha", [0.5, 0.50001, 0.501, 0.52, 0.6])
def test_renyi_levels_just_above_order_one_half_are_tight(alpha):
    joint = sf.Joint.from_counts([[7, 10, 3], [26, 57, 9]])
    rng = np.random.default_rng(4)
    for radius in (1e-3, 0.03, 0.2):
        for _ in range(3):
            law = Table(rng.dirichlet(np.full(3, 3.0), size=6).T, 2).rounded(None, 2.0**-12)
            made = Mechanism(law, joint.secret, joint.useful, joint=joint)
            ball = sf.RenyiBall(joint, alpha=alpha, radius=radius)
            found = math.log(proved(made, "rldp", ball).ratio)
            assert found == pytest.approx(sf.level(made, sf.RLDP(ball)), abs=2e-6)


def test_a_part_of_a_bundle_claims_nothing_false():
    """The promise of all parts together may hold while a part says more of itself than is true."""
    import json

    from tests import mechanism_files

    import sfumato_kernel as kernel

    document = json.loads(mechanism_files.data(next(iter(mechanism_files.bundles()))))
    assert len(kernel.verify(forging.sealed(document)).proved) == 1 + len(document["parts"])
    document["parts"][1]["claim"] = {"notion": "ldp", "epsilon": 1e-9}
    with pytest.raises(kernel.Unproved, match="proved only"):
        kernel.verify(forging.sealed(document))


def test_labels_of_a_secret_that_is_not_read_are_compared_with_the_data():
    """A promise about the labels a and b says nothing of people who are c; without the column nothing can be compared."""
    import pyarrow as pa

    people = pa.table({"s": ["a", "b", "a", "b"] * 20, "u": ["x", "x", "y", "y"] * 20})
    joint = sf.tabulate(people, secret="s", useful="u")
    made = sf.design(sf.ChiSquareBall(joint), 1.0, reads="useful").mechanism
    assert sf.release(people, made).num_rows == sf.release(people.drop_columns(["s"]), made).num_rows == 80
    other = people.set_column(0, "s", pa.array(["a", "b", "c", "b"] * 20))
    with pytest.raises(SfumatoError, match="column 's', row 3"):
        sf.release(other, made)
    with pytest.raises(SfumatoError, match="row 3"):
        sf.release(other.rename_columns(["t", "u"]), made, secret="t")


def test_a_small_claim_is_proved_by_the_kernel_and_its_level_found_when_read(monkeypatch):
    import importlib

    module = importlib.import_module("sfumato.certification.proving")
    made = sf.design(sf.ChiSquareBall(JOINT), 1.0, "srr").mechanism
    asked = []
    fast = module._ratio
    monkeypatch.setitem(module._MEASURES, "rldp", lambda *args: asked.append(args) or fast(*args))
    found = sf.certify(made)
    assert found.holds and not asked
    assert found.level == certificate(made).level <= 1.0 and asked
    with pytest.raises(ClaimError, match="proved only"):
        sf.certify(made, Claim("rldp", 1e-6, sf.ChiSquareBall(JOINT)))


def test_a_copy_whose_weights_were_changed_is_proved_by_what_it_has():
    """A proof of the first must not stand for it."""
    ball = sf.ChiSquareBall(sf.Joint.from_counts([[90, 60, 50], [70, 80, 120]]))
    made = sf.design(ball, 0.2, "distortion").mechanism
    assert sf.certify(made).holds
    other = copy.deepcopy(made)
    other.law.weights[...] = 0
    for x in range(other.law.weights.shape[1]):
        other.law.weights[x // 3, x] = 2**other.law.bits  # the output is the secret

    with pytest.raises(sf.ClaimError, match="proved only"):
        sf.certify(other)
    with pytest.raises(sf.ClaimError, match="proved only"):
        sf.release(sf.datasets.rows(ball.joint), other)


def test_a_certificate_of_another_level_is_proved_by_nobody():
    made = sf.design(sf.ChiSquareBall(sf.Joint.from_counts([[90, 60], [70, 80]])), 1.0, "grr").mechanism
    assert not dataclasses.replace(sf.certify(made), epsilon=0.01).holds
