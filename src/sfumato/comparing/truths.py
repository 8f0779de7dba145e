"""Truths: what a mechanism's level would be if the distribution were another one that the counts allow."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from sfumato.alphabet import Floats
from sfumato.comparing.points import Realised
from sfumato.joint import Joint
from sfumato.mechanism import Mechanism
from sfumato.mechanism.law import present
from sfumato.privacy.rldp import RLDP
from sfumato.uncertainty import Exactly

DRAWS = 200
FEW = 20  # draws for laws too large to list
LISTED = 60_000_000  # outputs × inputs × draws up to which all draws are taken at once
HALF = 0.5  # Jeffreys' prior: cells that were never seen are possible


@lru_cache(maxsize=8)
def truths(joint: Joint, draws: int, seed: int = 0) -> Floats | None:
    """P*(u|s) as [draw, s, u], P* ~ Dirichlet(counts + ½); None when it is not known how many rows were counted."""
    if joint.n is None:
        return None
    seen = present(joint.p_secret)
    counts = joint.p[seen] * joint.n + HALF
    drawn = np.random.default_rng(seed).dirichlet(counts.ravel(), draws).reshape(draws, *counts.shape)
    return np.asarray(drawn / drawn.sum(2, keepdims=True))


def realised(mechanism: Mechanism, joint: Joint, epsilon: float, draws: int = DRAWS) -> Realised | None:
    """Quantiles of max log P(y|s₁)/P(y|s₂) over drawn truths: one yardstick for every notion."""
    q = mechanism.matrix if mechanism.law.meaning != "subset" or mechanism.inputs <= 10 else None
    if q is None or q.size * draws > LISTED:
        draws = FEW
    given = truths(joint, draws)
    if given is None or given.shape[1] < 2:
        return None
    found = _listed(mechanism, q, joint, given) if q is not None and q.size * draws <= LISTED else np.array(
        [_level(mechanism, joint, r) for r in given]
    )
    low, high = (float(x) for x in np.quantile(found, [0.5, 0.95]))
    return Realised(low, high, float((found <= epsilon).mean()), len(found))


def _listed(mechanism: Mechanism, q: Floats, joint: Joint, given: Floats) -> Floats:
    v = q.reshape(len(q), mechanism.law.rows, mechanism.law.useful)
    v = v[:, present(joint.p_secret)] if mechanism.law.rows > 1 else np.repeat(v, given.shape[1], axis=1)
    laws = np.einsum("ysu,dsu->dys", v, given)
    top, bottom = laws.max(2), laws.min(2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(top > 0, top / bottom, 1.0)
    return np.asarray(np.log(ratio.max(1)))


def _level(mechanism: Mechanism, joint: Joint, given: Floats) -> float:
    p = np.zeros(joint.shape)
    seen = present(joint.p_secret)
    p[seen] = joint.p_secret[seen, None] * given
    found = RLDP(Exactly(Joint(joint.secret, joint.useful, p / p.sum()))).level(mechanism)
    return found if not math.isnan(found) else math.inf
