"""Small honest files of every kind of law and every kind of claim: what forgers start from, and both verifiers agree on."""

from __future__ import annotations

import functools
import json
from dataclasses import replace

import msgspec
import numpy as np

import sfumato as sf
from sfumato.certification import certificate
from sfumato.mechanism import (
    Blocks,
    Cells,
    Claim,
    Conditional,
    Constant,
    Factor,
    Layout,
    Mechanism,
    Product,
    Table,
    Unary,
)
from sfumato.mechanism.bundle import record_of as bundle_record
from sfumato.mechanism.file import record_of
from sfumato.mechanism.subset_laws import incidence

LAWS = ("table", "cells", "constant", "conditional", "unary", "layout", "blocks", "product")
NOTIONS = {  # notion: the sets it can be claimed over
    "ldp": (None,), "rldp": ("exactly", "anything", "chi-square-ball", "renyi-ball", "polytope"),
    "lip": ("exactly", "anything", "chi-square-ball", "renyi-ball", "polytope"), "srlip": ("exactly",),
    "pml": ("exactly", "anything", "chi-square-ball", "renyi-ball", "polytope"),
    "mi": ("exactly",), "leakage": (None, "exactly"),
}
PAIRS = [(law, notion, within) for law in LAWS for notion, sets in NOTIONS.items() for within in sets]
SLACK = 1e-6  # of a claim above what is proved


def law(kind, secrets, useful, reads, rng):
    """A law of a kind in floats; a product of two, sealed."""
    rows = secrets if reads == "both" else 1
    if kind == "table":
        return Table(rng.dirichlet(np.full(3, 2.0), size=rows * useful).T, rows)
    if kind == "cells":
        copies = np.array((1, useful - 1, rows - 1, (rows - 1) * (useful - 1)))
        four = np.where(copies > 0, rng.exponential(size=4) + 0.1, 0)
        return Cells(rows, useful, *map(float, four / (four * copies).sum()))
    if kind == "constant":
        return Constant(rows, useful)
    if kind == "conditional":
        keep = rng.uniform(0.1, 0.8, size=rows)
        return Conditional(keep, rng.dirichlet(np.full(useful, 2.0), size=rows) * (1 - keep)[:, None])
    if kind == "unary":
        off, on = sorted(rng.uniform(0.1, 0.9, size=2))
        return Unary(rows, useful, float(on), float(off))
    if kind == "layout":
        lengths = [rng.dirichlet(np.ones(2)) for _ in range(rows)]
        heights = [rng.exponential(size=(2, useful)) + 0.3 for _ in range(rows)]
        return Layout(tuple(lengths), tuple(h / (x @ h) for x, h in zip(lengths, heights, strict=True)))
    if kind == "blocks":
        inside, n = int(incidence(useful, 2)[:, 0].sum()), len(incidence(useful, 2))
        w = rng.exponential(size=3) + 0.1
        w = w / (inside * w[0] + (n - inside) * w[1] + (rows - 1) * n * w[2])
        return Blocks(rows, useful, 2, *map(float, w))
    first, second = (law(k, secrets, useful, reads, rng).rounded(20, 2.0**-8) for k in ("cells", "table"))
    return Product((Factor(first, (0,), 2), Factor(second, (0,), 1)), rows, (useful,))


def ring(kind, joint, rng):
    """A set of a kind around a joint."""
    if kind == "polytope":
        return sf.Polytope(joint, vertices=[joint.p, rng.dirichlet(np.ones(joint.p.size)).reshape(joint.shape)])
    makers = {"exactly": sf.Exactly, "anything": sf.Anything,
              "chi-square-ball": lambda j: sf.ChiSquareBall(j, confidence=float(rng.choice([0.5, 0.9, 0.99]))),
              "renyi-ball": lambda j: sf.RenyiBall(j, alpha=float(rng.choice([0.5, 0.6, 1.0, 2.0, 3.0])), radius=0.02)}
    return None if kind is None else makers[kind](joint)


@functools.cache
def mechanism(kind, notion, within, seed=0):
    """A sealed mechanism of a kind of law with a claim that is just true, or None where no level is finite."""
    rng = np.random.default_rng([seed, *map(ord, f"{kind}{notion}{within}")])
    secrets, useful = 2, int(rng.integers(2, 4))
    counts = rng.integers(1, 30, size=(secrets, useful))
    joint = sf.Joint.from_counts(counts)
    reads = "both" if kind in ("conditional", "layout") else str(rng.choice(["both", "useful"]))
    made = law(kind, secrets, useful, reads, rng)
    made = made if made.bits is not None else made.rounded(None, 2.0**-12)
    orders = dict(zip(("alpha", "beta"), [(np.inf, 1.0), (np.inf, np.inf), (2.0, 3.0), (2.0, 1.0), (1.0, 1.0)][rng.integers(5)], strict=True))
    claim = Claim(notion, 100.0, ring(within, joint, rng), **(orders if notion == "leakage" else {}))
    found = Mechanism(made, joint.secret, joint.useful, reads, joint=joint, claim=claim, source="reference")
    level = certificate(found, wider=False).level
    return replace(found, claim=replace(claim, epsilon=level * (1 + SLACK) + SLACK)), level


def data(made):
    """The bytes of its file."""
    record = bundle_record(made) if isinstance(made, sf.Bundle) else record_of(made)
    return msgspec.json.format(msgspec.json.encode(record), indent=1)


def documents(seed=0):
    """Parsed files of every pair that can be proved, and a bundle."""
    out = []
    for kind, notion, within in PAIRS:
        if kind == "unary" and notion == "leakage":
            continue
        made, level = mechanism(kind, notion, within, seed)
        if np.isfinite(level):
            out.append(json.loads(data(made)))
    return [*out, *map(json.loads, map(data, bundles()))]


def bundles():
    """Bundles of small parts, asked together and in turn."""
    secret = sf.Alphabet.of(sf.Column.of("s", ["a", "b"]))
    parts = []
    for i, name in enumerate("uvw"):
        useful = sf.Alphabet.of(sf.Column.of(name, ["x", "y", "z"][: 2 + i % 2]))
        off = 1 / (useful.size + 2)
        law = Cells(1, useful.size, 1 - (useful.size - 1) * off, off, 0.0, 0.0).rounded(None, 0.0)
        joint = sf.Joint.from_counts(np.arange(1, 2 * useful.size + 1).reshape(2, -1) * 9, secret, useful)
        parts.append(Mechanism(law, secret, useful, "useful", joint=joint, claim=Claim("rldp", 9.0, sf.ChiSquareBall(joint))))
    from sfumato.mechanism import Promise

    yield sf.Bundle(tuple(parts), secret, None, Promise(4.0, "nothing"))
    yield sf.Bundle(tuple(parts), secret, (2**61, 2**60, 2**60), Promise(2.0, "nothing"))
    yield sf.Bundle(tuple(parts), secret, (2**61, 2**60, 2**60), Promise(1.1, "tables"))
    yield sf.Bundle(tuple(parts), secret, None, Promise(3.0, "star"))
