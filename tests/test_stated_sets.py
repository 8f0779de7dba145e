"""Sets that are stated: polytopes by their vertices, ranges that somebody has proved, and their files."""

import math

import numpy as np
import pytest
from tests.strategies import realised, sealed

import sfumato as sf
from sfumato.certification.outward import log_up
from sfumato.certification.proving import proved
from sfumato.errors import FileFormatError, InputError
from sfumato.mechanism import Mechanism, Table

EXAMPLE = sf.Joint.from_counts([[7, 10], [26, 57]])


SPARSE = sf.Joint.from_counts([[7, 10, 0], [26, 57, 3], [0, 4, 9]])


def proved_level(mechanism, within):
    ratio = proved(mechanism, "rldp", within).ratio
    return math.inf if ratio == math.inf else log_up(ratio)


def corners(rng, count, shape=(3, 3)):
    return rng.dirichlet(np.full(shape[0] * shape[1], 0.6), count).reshape(count, *shape)


@pytest.mark.parametrize("seed", range(4))
def test_levels_over_a_polytope_are_attained_by_mixtures_and_proved(seed):
    rng = np.random.default_rng(seed)
    vertices = corners(rng, 4)
    vertices[0, 1] = 0  # a vertex at which a secret does not occur
    vertices[0] /= vertices[0].sum()
    joint = sf.Joint.from_probabilities(vertices.mean(0))
    polytope = sf.Polytope(joint, vertices=vertices)
    mechanism = sealed(Mechanism(Table(rng.dirichlet(np.ones(4), 9).T, 3), joint.secret, joint.useful))
    found, upper = sf.level(mechanism, sf.RLDP(polytope)), proved_level(mechanism, polytope)
    assert found <= upper <= found + 1e-9
    seen = max(realised(mechanism, np.tensordot(rng.dirichlet(np.full(4, 0.3)), vertices, 1)) for _ in range(3000))
    assert found - 0.05 <= seen <= upper + 1e-12
    row = rng.random((3, 3))
    worst = polytope.worst(row, 0, 1)
    assert (row[0] @ worst.given_first) / (row[1] @ worst.given_second) == pytest.approx(worst.ratio, rel=1e-7)


def test_vertices_alone_do_not_suffice_when_the_secrets_change_their_mass():
    """Both conditionals move from one end to the other, but not at the same pace: the worst case lies inside."""
    ends = [np.array([[0.001, 0.0], [0.0, 0.999]]), np.array([[0.0, 0.999], [0.001, 0.0]])]
    joint = sf.Joint.from_probabilities((ends[0] + ends[1]) / 2)
    polytope = sf.Polytope(joint, vertices=ends)
    mechanism = sealed(Mechanism(Table(np.array([[0.2, 0.5, 0.5, 0.2], [0.8, 0.5, 0.5, 0.8]]), 2), joint.secret, joint.useful))
    at_ends = max(realised(mechanism, p) for p in ends)
    inside = realised(mechanism, joint.p)
    assert at_ends < 1e-9 < 0.8 < inside <= proved_level(mechanism, polytope)
    assert sf.level(mechanism, sf.RLDP(polytope)) == pytest.approx(proved_level(mechanism, polytope), abs=1e-9)


def test_a_secret_no_vertex_lets_occur_is_not_compared():
    joint = sf.Joint.from_probabilities([[0.3, 0.2], [0.1, 0.4], [0, 0]])
    polytope = sf.Polytope(joint, vertices=[joint, [[0.2, 0.3], [0.3, 0.2], [0, 0]]])
    assert polytope.possible.tolist() == [0, 1]
    q = np.array([[0.5, 0.5, 0.5, 0.5, 0.9, 0.9], [0.5, 0.5, 0.5, 0.5, 0.1, 0.1]])
    mechanism = sealed(Mechanism(Table(q, 3), joint.secret, joint.useful))
    assert proved_level(mechanism, polytope) == pytest.approx(0, abs=1e-9)


def test_inequalities_and_vertices_describe_the_same_polytope():
    joint = sf.Joint.from_probabilities([[0.3, 0.2], [0.1, 0.4]])
    # P(s) fixed at a half each, P(0,0) in [.2, .4], P(1,0) in [0, .2]: four vertices
    vertices = [[[a, 0.5 - a], [b, 0.5 - b]] for a in (0.2, 0.4) for b in (0.0, 0.2)]
    cell = np.eye(4).reshape(4, 2, 2)
    half = cell[0] + cell[1]
    limits = (np.stack([half, -half, cell[0], -cell[0], cell[2]]), np.array([0.5, -0.5, 0.4, -0.2, 0.2]))
    listed, cut = sf.Polytope(joint, vertices=vertices), sf.Polytope(joint, inequalities=limits)
    rng = np.random.default_rng(3)
    rows = rng.random((3, 2, 2))
    assert np.stack(cut.ranges(rows)) == pytest.approx(np.stack(listed.ranges(rows)), abs=1e-9)
    assert np.stack(cut.spikes()) == pytest.approx(np.stack(listed.spikes()), abs=1e-9)
    assert cut.support(rows[0]).value == pytest.approx(listed.support(rows[0]).value, abs=1e-9)
    assert cut.worst(rows[0], 0, 1).ratio == pytest.approx(listed.worst(rows[0], 0, 1).ratio, rel=1e-9)
    assert cut.possible.tolist() == [0, 1]
    mechanism = Mechanism(Table(rng.dirichlet(np.ones(3), 4).T, 2), joint.secret, joint.useful)
    assert sf.level(mechanism, sf.RLDP(cut)) == pytest.approx(sf.level(mechanism, sf.RLDP(listed)), abs=1e-8)
    with pytest.raises(InputError, match="List its vertices"):
        sf.design(cut, 1.0, "grr")
    assert sf.design(listed, 1.0, "ir").certificate.level <= 1.0


@pytest.mark.parametrize(("options", "message"), [
    ({}, "either vertices= or inequalities="), ({"vertices": [[[1.0]]]}, "2 × 2"),
    ({"vertices": [[[0.5, 0.5], [0.5, 0.5]]]}, "sum 1"), ({"vertices": [[[1.2, -0.2], [0, 0]]]}, "not negative"),
    ({"inequalities": ([[[1.0, 1], [1, 1]]], [0.5])}, "no distribution"), ({"inequalities": ([[1.0]], [1])}, "of shape"),
])
def test_bad_polytopes_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        sf.Polytope(EXAMPLE, **options)


def contaminated(joint, share, trusted=False):
    """Mixtures of P̂(·|s) with any law at a share: the range has a closed form."""
    q = joint.useful_given_secret

    def between(v, s):
        return (1 - share) * q[s] @ v + share * v.min(), (1 - share) * q[s] @ v + share * v.max()

    return sf.Custom(joint, between, trusted=trusted, name="contaminated")


def test_custom_sets_have_levels_and_release_only_when_trusted(tmp_path):
    joint = sf.Joint.from_counts([[7, 10, 5], [26, 57, 30]])
    mechanism = sealed(Mechanism(Table(np.random.default_rng(5).dirichlet(np.ones(4), 6).T, 2), joint.secret, joint.useful))
    levels = [sf.level(mechanism, sf.RLDP(F)) for F in (
        sf.Exactly(joint), contaminated(joint, 0.05), contaminated(joint, 0.3), contaminated(joint, 1.0), sf.Anything(joint))]
    assert levels == sorted(levels) and levels[3] == pytest.approx(levels[4])
    with pytest.raises(InputError, match="trusted=True"):
        sf.design(contaminated(joint, 0.1), 1.0, "ir")
    for method in ("ir", "grr", "cr"):
        design = sf.design(contaminated(joint, 0.1, trusted=True), 1.0, method)
        assert design.certificate.basis == "as given by the set" and design.certificate.level <= 1.0
        assert "as given by the set" in design.mechanism.claim.sentence
    path = design.mechanism.save(tmp_path / "m.json")
    assert sf.load(path).claim.within.name == "contaminated"
    with pytest.raises(InputError, match="code that is not in the file"):
        sf.verify(path)


def test_a_custom_range_that_is_no_range_is_refused():
    for bad in ((1.0, 0.0), (math.nan, 1.0)):
        with pytest.raises(InputError, match="least value exceeds"):
            sf.Custom(EXAMPLE, lambda v, s, bad=bad: bad).spikes()


@pytest.mark.parametrize("make", [
    lambda j: sf.RenyiBall(j, alpha=1.3, radius=0.02), lambda j: sf.RenyiBall(j, alpha=1, confidence=0.9),
    lambda j: sf.Polytope(j, vertices=[j.p, np.full(j.shape, 1 / j.p.size)]), lambda j: sf.ChiSquareBall(j, calibration="exact"),
], ids=["renyi", "kl", "polytope", "exact"])
def test_claims_over_every_set_come_back_and_verify(tmp_path, make):
    within = make(SPARSE)
    design = sf.design(within, 1.0, "ir")
    path = design.mechanism.save(tmp_path / "m.json")
    back = sf.load(path).claim.within
    assert sf.verify(path).level == design.certificate.level
    for name in ("alpha", "radius", "confidence", "calibration"):
        assert getattr(back, name, None) == getattr(within, name, None)
    assert sf.load(path).save(tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_a_search_over_a_polytope_of_few_cells_meets_its_bound():
    joint = sf.Joint.from_counts([[30, 20], [10, 40]])
    design = sf.design(sf.Polytope(joint, vertices=[joint.p, [[0.25, 0.25], [0.2, 0.3]]]), 1.0, "ballopt", time_limit=2)
    assert design.certificate.level <= 1.0
    assert design.value <= design.bound <= design.value * (1 + 1e-3)


def test_a_renyi_record_without_an_order_is_refused():
    from sfumato.mechanism.file_records import SetRecord, set_of

    with pytest.raises(FileFormatError, match="renyi-ball"):
        set_of(SetRecord("renyi-ball", 0.1), EXAMPLE)
