"""Overview: every measure of one mechanism side by side, about the record and about the secret."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.privacy.alpha_beta import Leakage
from sfumato.privacy.arimoto import Arimoto
from sfumato.privacy.bayes import BayesLeakage
from sfumato.privacy.channel import listed, seen_from_secret
from sfumato.privacy.correlation import MaximalCorrelation
from sfumato.privacy.lattice import Lattice, lattice
from sfumato.privacy.ldp import LDP
from sfumato.privacy.lip import LIP
from sfumato.privacy.maximal import MaximalLeakage
from sfumato.privacy.order_map import LeakageMap, leakage_map
from sfumato.privacy.pml import PML
from sfumato.privacy.pointwise import PointwiseLeakage
from sfumato.privacy.reading import Measure, Reading
from sfumato.privacy.renyi_ldp import RenyiLDP
from sfumato.privacy.rldp import RLDP
from sfumato.privacy.shannon import Shannon
from sfumato.privacy.sibson import MaximalAlphaLeakage, Sibson
from sfumato.privacy.total_variation import Contraction, TotalVariation
from sfumato.privacy.worst_input import WorstInputLeakage
from sfumato.uncertainty import UncertaintySet

MEASURES: tuple[Measure, ...] = (
    LDP(), RenyiLDP(5.0), RenyiLDP(2.0), RenyiLDP(1.0), Leakage(5.0, 2.0), WorstInputLeakage(2.0), MaximalLeakage(),
    MaximalAlphaLeakage(2.0), PointwiseLeakage(), LIP(), BayesLeakage(), Sibson(2.0), Arimoto(2.0), Shannon(),
    TotalVariation(), Contraction(), MaximalCorrelation(),
)
UNITLESS = (TotalVariation, Contraction, MaximalCorrelation)


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One measure: at the joint's prior and at the worst one, of the record or of the secret."""

    name: str
    about: str  # "record" or "secret"
    worst: Reading
    at_joint: Reading | None
    unit: str = "nats"


@dataclass(frozen=True, slots=True, eq=False)
class Overview:
    """The table of measures, the level over the claimed set, and the lattice of the record (and of the secret)."""

    lines: tuple[Line, ...]
    levels: dict[str, float]  # notions known for laws of any size
    lattices: dict[str, Lattice]
    notes: tuple[str, ...] = ()


def overview(mechanism: Mechanism, joint: Joint | None = None) -> Overview:
    """Every measure of a mechanism, at a joint and in the worst case; the design distribution is the default joint."""
    joint = mechanism.joint if joint is None else joint
    levels = {"LDP about the record": LDP().level(mechanism)}
    if joint is not None:
        levels["LDP about the secret"] = LDP(joint).level(mechanism)
        levels["LIP about the secret"] = LIP(joint).level(mechanism)
        levels["PML about the secret"] = PML(joint).level(mechanism)
    within: UncertaintySet | None = None if mechanism.claim is None else mechanism.claim.within
    if within is not None:
        levels[f"RLDP over the claimed set ({within.kind})"] = RLDP(within).level(mechanism)
    try:
        channels = _channels(mechanism, joint)
    except InputError as error:
        return Overview((), levels, {}, (str(error),))
    lines = [line for about, (q, p) in channels.items() for line in _lines(about, q, p)]
    return Overview(tuple(lines), levels, {about: lattice(q, p) for about, (q, p) in channels.items()})


def map_of(mechanism: Mechanism, points: int = 25, *, workers: int = 1) -> LeakageMap:
    """The (α, β) map of a mechanism at orders 1/(1 − t), t evenly spaced from 0 to 1."""
    orders = spaced(points)
    return leakage_map(listed(mechanism), orders, orders, workers=workers)


def spaced(points: int) -> list[float]:
    """Orders from 1 to ∞ that are evenly spaced in 1 − 1/order.

    >>> spaced(3)
    [1.0, 2.0, inf]
    """
    return [1 / (1 - t) if t < 1 else float("inf") for t in np.linspace(0, 1, points).tolist()]


def _channels(mechanism: Mechanism, joint: Joint | None) -> dict[str, tuple[Floats, Floats | None]]:
    q = listed(mechanism)
    out: dict[str, tuple[Floats, Floats | None]] = {
        "record": (q, None if joint is None else mechanism.input_law(joint))
    }
    if joint is not None and joint.secret.size > 1:
        seen, secret = seen_from_secret(mechanism, q, joint)
        kept = secret > 0
        out["secret"] = (seen[:, kept], secret[kept])
    return out


def _lines(about: str, q: Floats, p: Floats | None) -> list[Line]:
    return [
        Line(m.name, about, m.of(q), None if p is None else m.of(q, p), "" if isinstance(m, UNITLESS) else "nats")
        for m in MEASURES
    ]
