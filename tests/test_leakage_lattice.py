"""Every inequality of the lattice on random channels."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.channels import channels, prior

from sfumato.privacy import EDGES, lattice


def lattice_values(q, p):
    return lattice(q, p).values


@settings(max_examples=25)
@given(channels(), st.integers(0, 10**6))
def test_no_edge_is_violated(q, seed):
    found = lattice_values(q, prior(q.shape[1], seed))
    slack = lambda right: 1e-8 * max(1, abs(right))
    broken = [(e.smaller, e.larger) for e in EDGES if e.left(found) > e.right(found) + slack(e.right(found))]
    assert not broken


def test_every_edge_is_tight_or_nearly_so_somewhere():
    """Not a proof of sharpness, but an edge that is never within a factor of 3 is likely a typo."""
    rng = np.random.default_rng(0)
    best = np.zeros(len(EDGES))
    for k in range(90):
        n = 2 + k % 3
        q = rng.dirichlet(np.full(n, (0.3, 3.0, 30.0)[k % 3]), size=n).T + 1e-9
        if k % 5 == 0:
            q = np.eye(n) * rng.random() + rng.random() + 1e-3
        found = lattice_values(q / q.sum(axis=0), np.full(n, 1 / n))
        best = np.maximum(best, [e.left(found) / max(e.right(found), 1e-12) for e in EDGES])
    loose = [(e.smaller, e.larger, b) for e, b in zip(EDGES, best, strict=True) if b < 1 / 3]
    assert not loose
