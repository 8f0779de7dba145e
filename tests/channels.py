"""Random channels and priors for the laws."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


@st.composite
def channels(draw, positive=False, most=5, inputs=None):
    m = draw(st.integers(1, most))
    n = inputs or draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    q = rng.dirichlet(np.full(m, draw(st.sampled_from([0.2, 1.0, 10.0]))), size=n).T
    if positive:
        q = q + 1e-6
    elif draw(st.booleans()):
        q = np.where(rng.random(q.shape) < 0.3, 0, q)
        q[rng.integers(m), q.sum(axis=0) == 0] = 1
    return q / q.sum(axis=0)


orders = st.one_of(st.sampled_from([1.0, 1 + 1e-9, 1.0001, 1.5, 2.0, 30.0, np.inf]), st.floats(1.001, 20))


def prior(n, seed):
    p = np.random.default_rng(seed).dirichlet(np.ones(n)) + 1e-3
    return p / p.sum()
