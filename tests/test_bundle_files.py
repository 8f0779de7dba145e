"""Files of bundles: they come back as they were, and cannot lie."""

import hashlib
import json
from dataclasses import replace

import msgspec
import pytest
from click.testing import CliRunner
from tests.columns_data import people

import sfumato as sf
import sfumato_kernel
from sfumato.certification import proving, together
from sfumato.cli import cli
from sfumato.errors import FileFormatError, InputError
from sfumato.mechanism.bundle import BundleRecord
from sfumato.mechanism.file import checksum


def forged(path, change):
    record = msgspec.json.decode(path.read_bytes(), type=BundleRecord)
    change(record)
    for p in record.parts:
        p.checksum = checksum(p)
    record.checksum = checksum(record)
    path.write_bytes(msgspec.json.encode(record))


@pytest.fixture
def saved(tmp_path):
    rows = people(2_000, columns=3, labels=3)
    return sf.bundle(rows, "secret", ["c0", "c1", "c2"], 1.0, asking="together").bundle.save(tmp_path / "b.json")


def lower_promise(record):
    record.promise.epsilon = 0.9


def repeat_a_part(record):
    part = record.parts[-1]
    twin = msgspec.json.decode(msgspec.json.encode(part), type=type(part))
    for c in twin.useful:
        c.name += " again"
    record.parts.append(twin)


def call_it_a_star(record):
    record.promise.assuming, record.promise.epsilon = "star", 0.5


@pytest.mark.parametrize("change", [lower_promise, repeat_a_part, call_it_a_star])
def test_forged_promises_are_found_out_by_verify(saved, change):
    forged(saved, change)
    with pytest.raises(sf.ClaimError, match="proved only"):
        sf.verify(saved)


def test_the_command_proves_what_parts_claim_also_where_the_kernel_does_not(saved, monkeypatch):
    def boast(record):
        record.parts[0].claim.epsilon = 1e-3

    forged(saved, boast)
    for module in (proving, together):  # as of a bundle that is too large for it
        monkeypatch.setattr(module, "confirm", lambda made: False)

    done = CliRunner().invoke(cli, ["verify", str(saved)])

    assert done.exit_code == 5 and "part 'secret' claims" in done.stderr
    with pytest.raises(sf.ClaimError, match="part 'secret' claims"):
        sf.verify(saved)


def test_edited_bundles_are_refused(saved):
    document = json.loads(saved.read_text())
    document["promise"]["epsilon"] = 5.0
    saved.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match="checksum does not match"):
        sf.load(saved)


def test_a_part_changed_inside_a_bundle_is_refused(saved):
    record = msgspec.json.decode(saved.read_bytes(), type=BundleRecord)
    record.parts[0].method = "other"
    record.checksum = checksum(record)
    saved.write_bytes(msgspec.json.encode(record))
    with pytest.raises(FileFormatError, match="checksum does not match"):
        sf.load(saved)


def test_weights_that_do_not_sum_are_refused(saved):
    def heavier(record):
        law = record.parts[0].law
        if hasattr(law, "truth"):
            law.truth += 1
        else:
            law.inside += 1

    forged(saved, heavier)
    with pytest.raises(FileFormatError, match="does not describe a bundle"):
        sf.load(saved)


def test_a_bundle_comes_back_as_it_was(saved):
    bundle = sf.load(saved)
    assert bundle.save(saved.with_name("again.json")).read_bytes() == saved.read_bytes()


def test_the_schema_of_bundles_is_the_one_of_the_code():
    from pathlib import Path

    stored = json.loads((Path(sf.__file__).parent / "mechanism" / "bundle.schema.json").read_text())
    assert stored == msgspec.json.schema(BundleRecord)


def test_impossible_bundles_are_refused():
    rows = people(500, columns=2, labels=3)
    made = sf.bundle(rows, "secret", ["c0", "c1"], 1.0, asking="in turn").bundle
    with pytest.raises(InputError, match="same columns"):
        sf.Bundle((made.parts[0], made.parts[0]), made.secret)
    with pytest.raises(InputError, match="positive weight for each part"):
        replace(made, turns=tuple(1 for _ in made.parts))
    with pytest.raises(InputError, match="answered together"):
        replace(made, claim=sf.Promise(1.0, "star"))
    with pytest.raises(InputError, match="answered in turn"):
        replace(sf.bundle(rows, "secret", ["c0", "c1"], 1.0, asking="together").bundle, claim=sf.Promise(1.0, "tables"))


def respelled(text, change=lambda document: None):
    """The document with 1 for 1.0 wherever that is the same number, sealed as it is spelled."""
    def sealed(document):
        bare = {k: v for k, v in document.items() if k != "checksum"}
        return bare | {"checksum": "sha256:" + hashlib.sha256(json.dumps(bare, separators=(",", ":")).encode()).hexdigest()}

    document = json.loads(text, parse_float=lambda x: int(float(x)) if float(x).is_integer() else float(x))
    change(document)
    if "parts" in document:
        document["parts"] = [sealed(part) for part in document["parts"]]
    return json.dumps(sealed(document))


@pytest.mark.parametrize("kind", ["mechanism", "bundle", "counts"])
def test_the_same_numbers_in_another_spelling_are_the_same_content_if_they_are_sealed_so(kind, saved, tmp_path):
    joint = sf.Joint.from_counts([[30, 40], [50, 60]])
    if kind == "counts":
        path = sf.save_counts(sf.noisy_counts(joint, 1.0, public=True), tmp_path / "counts.json")
        path.write_text(respelled(path.read_text()))
        assert sf.load_counts(path).noise.epsilon == 1.0
        return
    path = saved if kind == "bundle" else sf.design(sf.Anything(joint), 1.0, "srr").mechanism.save(tmp_path / "m.json")
    made, text = sf.load(path), path.read_text()
    path.write_text(respelled(text))
    assert '"epsilon": 1,' in path.read_text()
    assert sf.load(path).record == made.record  # and so is the checksum that a manifest names
    assert sf.verify(path).holds and sfumato_kernel.verify(path.read_bytes()).proved
    path.write_text(text.replace('"epsilon": 1.0', '"epsilon": 1'))
    with pytest.raises(FileFormatError, match="checksum does not match"):
        sf.load(path)
    claim = "promise" if kind == "bundle" else "claim"
    path.write_text(respelled(text, lambda document: document[claim].update(epsilon=2)))
    assert sf.load(path).checksum != made.checksum
