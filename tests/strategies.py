"""Random joints, levels and mechanisms for the laws."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import sfumato as sf
from sfumato.mechanism import Cells, Conditional, Layout, Mechanism, Table, Unary


@st.composite
def joints(draw, secrets=(2, 4), useful=(2, 4), largest=400, empty_cells=True):
    """Counted tables, with zero cells and now and then an empty secret."""
    s, u = draw(st.integers(*secrets)), draw(st.integers(*useful))
    low = 0 if empty_cells else 1
    counts = draw(st.lists(st.integers(low, largest), min_size=s * u, max_size=s * u))
    table = np.array(counts).reshape(s, u)
    table[0, 0] += 1
    table[-1, -1] += 1  # at least two secrets occur
    return sf.Joint.from_counts(table)


def epsilons(low=0.05, high=3.0):
    return st.floats(low, high, allow_nan=False)


@st.composite
def matrices(draw, inputs, outputs=(2, 5)):
    y = draw(st.integers(*outputs))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.dirichlet(np.full(y, draw(st.sampled_from([0.3, 1.0, 5.0]))), size=inputs).T


@st.composite
def mechanisms(draw, joint, reads=None):
    """A float mechanism of any kind for a joint."""
    s, u = joint.shape
    reads = reads or draw(st.sampled_from(["both", "useful"]))
    rows = s if reads == "both" else 1
    kinds = ["table", "cells", *(["unary"] if rows * u <= 6 else [])]
    kinds += ["conditional", "layout"] if reads == "both" else []
    kind = draw(st.sampled_from(kinds))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if kind == "table":
        law = Table(draw(matrices(rows * u)), rows)
    elif kind == "cells":
        four = rng.exponential(size=4) + 0.02
        copies = (1, u - 1, rows - 1, (rows - 1) * (u - 1))
        four = four / sum(w * k for w, k in zip(four, copies, strict=True))
        law = Cells(rows, u, *(float(w) for w in four))
    elif kind == "unary":
        off, on = sorted(rng.uniform(0.02, 0.98, size=2))
        law = Unary(rows, u, float(on), float(off))
    elif kind == "layout":
        law = random_layout(s, u, rng)
    else:
        keep = rng.uniform(0.05, 0.9, size=s)
        law = Conditional(keep, rng.dirichlet(np.ones(u), size=s) * (1 - keep)[:, None])
    return Mechanism(law, joint.secret, joint.useful, reads, joint=joint)


def random_layout(secrets, useful, rng, atoms=3):
    """Atoms of random lengths and heights that give every input the same weight."""
    lengths = [rng.dirichlet(np.ones(atoms)) * 0.8 for _ in range(secrets)]
    heights = [rng.exponential(size=(atoms, useful)) + 0.1 for _ in range(secrets)]
    return Layout(tuple(lengths), tuple(h / (x @ h) for x, h in zip(lengths, heights, strict=True)))


def sealed(mechanism, margin=0.0):
    """The mechanism with integer weights and no claim."""
    law = mechanism.law.rounded(None, margin)
    return Mechanism(law, mechanism.secret, mechanism.useful, mechanism.reads, joint=mechanism.joint)


def listed(mechanism):
    """The same mechanism with its matrix listed: the slow route to every number."""
    law = Table(mechanism.matrix, mechanism.law.rows)
    return Mechanism(law, mechanism.secret, mechanism.useful, mechanism.reads, joint=mechanism.joint)


def boundary_points(ball, rng, count=60):
    """Distributions on the edge of a χ² ball: maximisers of random directions, sharp and flat."""
    shape = ball.joint.shape
    for _ in range(count):
        direction = rng.normal(size=shape) * rng.choice([0.05, 1.0, 30.0], size=shape)
        if rng.random() < 0.3:
            direction = np.where(rng.random(shape) < 0.2, 1.0, 0.0)
        yield ball.support(direction).p


def realised(mechanism, p):
    """max log P(y|s1) / P(y|s2) at one distribution, by listing everything."""
    q = mechanism.matrix.reshape(mechanism.outputs, mechanism.law.rows, mechanism.law.useful)
    q = np.broadcast_to(q, (len(q), *p.shape))
    ps = p.sum(1)
    seen = ps > 1e-14
    laws = np.einsum("ysu,su->ys", q[:, seen], p[seen] / ps[seen, None])
    live = laws.max(1) > 0
    with np.errstate(divide="ignore"):
        return float(np.log(laws[live].max(1) / laws[live].min(1)).max())
