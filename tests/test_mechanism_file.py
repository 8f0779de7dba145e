"""The mechanism file: every kind of law comes back as it was, and nothing that was changed comes back at all."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import joints, mechanisms, sealed

import sfumato as sf
from sfumato.errors import FileFormatError, InputError, OutputError
from sfumato.mechanism import Claim, Layout, Mechanism
from sfumato.mechanism.file import MechanismRecord, checksum


def same(a, b):
    assert (a.secret, a.useful, a.reads, a.method, a.source) == (b.secret, b.useful, b.reads, b.method, b.source)
    assert a.law.kind == b.law.kind and a.law.bits == b.law.bits
    assert np.array_equal(a.matrix, b.matrix)
    assert a.joint.fingerprint == b.joint.fingerprint


@given(joints().flatmap(lambda j: st.tuples(st.just(j), mechanisms(j))), st.sampled_from(["ball", "exactly", "anything", "ldp"]))
def test_round_trip(tmp_path_factory, pair, kind):
    joint, mechanism = pair
    within = {"ball": sf.ChiSquareBall(joint), "exactly": sf.Exactly(joint), "anything": sf.Anything(joint), "ldp": None}[kind]
    claim = Claim("ldp" if within is None else "rldp", 1.25, within)
    mechanism = replace(sealed(mechanism), claim=claim, source="reference")
    path = tmp_path_factory.mktemp("m") / "m.json"
    back = sf.load(mechanism.save(path))
    same(mechanism, back)
    assert (back.claim.notion, back.claim.epsilon) == (claim.notion, 1.25)
    if kind == "ball":
        assert (back.claim.within.radius, back.claim.within.confidence) == (within.radius, 0.95)
    again = back.save(path, force=True).read_bytes()
    assert again == mechanism.save(path, force=True).read_bytes()


def layout():
    lengths = (np.array([0.3, 0.5]), np.array([0.6, 0.2]))
    heights = tuple(h / (x @ h) for x, h in zip(lengths, (np.array([[1.0, 2], [1.5, 0.7]]), np.array([[1, 1.2], [1.1, 0.3]])), strict=True))
    return Layout(lengths, heights)


def test_a_layout_comes_back(tmp_path):
    joint = sf.Joint.from_counts([[10, 20], [30, 40]])
    mechanism, _ = sf.seal(Mechanism(layout(), joint.secret, joint.useful, joint=joint), Claim("rldp", 2.0, sf.ChiSquareBall(joint)))
    same(mechanism, sf.load(mechanism.save(tmp_path / "m.json")))


def test_labels_of_several_columns_missing_values_and_bins_come_back(tmp_path):
    secret = sf.Alphabet.of(sf.Column.of("ill", ["no", "yes"], missing=True))
    useful = sf.Alphabet.of(sf.Column.of("age", cuts=[30, 65]), sf.Column.of("town", ["A", "other"], other="other"))
    joint = sf.Joint.from_counts(np.arange(1, 19).reshape(3, 6), secret, useful)
    mechanism = sf.design(sf.ChiSquareBall(joint), 1.0, "srr").mechanism
    back = sf.load(mechanism.save(tmp_path / "m.json"))
    same(mechanism, back)
    assert back.useful.code((64.5, "B")) == back.useful.code((30, "other")) == 3
    assert back.secret.code(None) == 2


@pytest.fixture
def saved(tmp_path):
    return sf.design(sf.ChiSquareBall(sf.datasets.adult("sex", "race")), 1.0, "srr").mechanism.save(tmp_path / "m.json")


@pytest.mark.parametrize(("field", "value"), [
    ("claim.epsilon", 0.1), ("law.truth", 7), ("design.counts", [[1] * 5] * 2), ("reads", "useful"), ("method", "grr"),
])
def test_an_edited_file_is_refused(saved, field, value):
    document = json.loads(saved.read_text())
    *path, last = field.split(".")
    target = document
    for key in path:
        target = target[key]
    target[last] = value
    saved.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match="checksum does not match"):
        sf.load(saved)


def test_a_forged_checksum_does_not_make_weights_sum(saved):
    record = msgspec.json.decode(saved.read_bytes(), type=MechanismRecord)
    record.law.truth += 1
    record.checksum = checksum(record)
    saved.write_bytes(msgspec.json.encode(record))
    with pytest.raises(FileFormatError, match="must sum to the total"):
        sf.load(saved)


def test_a_forged_claim_is_found_out_by_verify(saved):
    record = msgspec.json.decode(saved.read_bytes(), type=MechanismRecord)
    record.claim.epsilon = 0.5
    record.checksum = checksum(record)
    saved.write_bytes(msgspec.json.encode(record))
    with pytest.raises(sf.ClaimError, match="proved only"):
        sf.verify(saved)


def test_a_ball_smaller_than_its_confidence_is_found_out(saved):
    """A tiny ball proves anything; the file must not call it a 95 % ball."""
    record = msgspec.json.decode(saved.read_bytes(), type=MechanismRecord)
    record.claim.within.radius = 1e-9
    record.checksum = checksum(record)
    saved.write_bytes(msgspec.json.encode(record))
    with pytest.raises(sf.ClaimError, match=r"says 0\.95 confidence"):
        sf.verify(saved)


@pytest.mark.parametrize(("content", "message"), [
    (b"", "is not a mechanism file"), (b"{}", "is not a mechanism file"), (b"\x89PNG", "is not a mechanism file"),
    (b'{"format": "x", "version": 9}', "is not a mechanism file"),
])
def test_what_is_not_a_mechanism_file_is_refused(tmp_path, content, message):
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        sf.load(path)


def test_a_file_of_a_later_version_is_refused(saved):
    record = msgspec.json.decode(saved.read_bytes(), type=MechanismRecord)
    record.version = 99
    saved.write_bytes(msgspec.json.encode(record))
    with pytest.raises(FileFormatError, match="version 99"):
        sf.load(saved)


def test_an_existing_file_is_kept_unless_forced(saved):
    before = saved.read_bytes()
    with pytest.raises(OutputError, match="exists"):
        sf.load(saved).save(saved)
    assert saved.read_bytes() == before and list(saved.parent.iterdir()) == [saved]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.json could not be read"):
        sf.load(tmp_path / "nowhere.json")


def test_the_schema_in_the_repository_is_the_one_of_the_code():
    from pathlib import Path

    stored = json.loads((Path(sf.__file__).parent / "mechanism" / "mechanism.schema.json").read_text())
    assert stored == msgspec.json.schema(MechanismRecord)
