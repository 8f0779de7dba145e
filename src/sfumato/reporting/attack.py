"""Attack: what one released row tells about the secret when the data follow the design distribution."""

from __future__ import annotations

import numpy as np

from sfumato.alphabet import Floats
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Layout, Mechanism
from sfumato.mechanism.law import scale
from sfumato.privacy import LDP, LIP, BayesLeakage, Contraction, MaximalLeakage, PointwiseLeakage, Shannon
from sfumato.privacy.channel import LISTED_CELLS, listed, seen_from_secret
from sfumato.privacy.reading import Measure
from sfumato.reporting.beliefs import bounded, worst_belief
from sfumato.reporting.figures import Attack, Leak, Suspect

SUSPECTS = 12  # values of the secret that are listed
MEASURES: tuple[tuple[Measure, str], ...] = (
    (LDP(), "the most that an output changes the odds between two values"),
    (LIP(), "the most that an output changes the belief in a value, up or down"),
    (PointwiseLeakage(), "the most that an output helps the best guess of anything about the person"),
    (MaximalLeakage(), "the same, on average over the outputs"),
    (BayesLeakage(), "how much likelier a guess of the value in one try becomes"),
    (Shannon(), "what is told on average"),
    (Contraction(), "the advantage in telling the two most different values apart"),
)


def outputs_by_secret(mechanism: Mechanism, joint: Joint) -> Floats | None:
    """P(y|s) as [y, s] over the outputs that occur, or None when they are too many to list."""
    law = mechanism.law
    if isinstance(law, Layout):
        if law.outputs * law.rows > LISTED_CELLS:
            return None
        given = zip(law.heights, law.atoms_at.T, joint.useful_given_secret, strict=True)
        laws = [(np.asarray(h, float) @ u)[at] for h, at, u in given]
        return np.stack(laws, 1) * (np.asarray(law.widths, float) / scale(law.bits))[:, None]
    try:
        return seen_from_secret(mechanism, listed(mechanism), joint)[0]
    except InputError:
        return None


def attack_of(mechanism: Mechanism, joint: Joint, seen: Floats) -> Attack | None:
    """Bayes' rule for every output, under the design distribution.

    P(s|y) = P(y|s) p(s) / P(y). The best guess in one try is right with probability Σ_y max_s P(y|s) p(s).
    """
    ps = joint.p_secret
    kept = np.flatnonzero(ps > 0)
    if len(kept) < 2:
        return None
    weight = seen[:, kept] * ps[kept]
    told = weight.sum(1) > 0
    after = weight[told] / weight[told].sum(1, keepdims=True)
    claim = mechanism.claim
    order = sorted(range(len(kept)), key=lambda i: -float(ps[kept[i]]))
    suspects = tuple(
        Suspect(
            joint.secret.text(int(kept[i])), float(ps[kept[i]]), float(after[:, i].min()), float(after[:, i].max()),
            worst_belief(float(ps[kept[i]]), claim.epsilon, claim.notion)
            if claim is not None and bounded(claim.notion) else None,
        ) for i in order[:SUSPECTS]
    )
    level = LDP().of(seen[:, kept]).value
    return Attack(
        suspects, len(order) - len(suspects), float(ps.max()), float(weight.max(1).sum()),
        float(np.exp(level)) if level < 700 else float("inf"),
    )


def leaks_of(joint: Joint, seen: Floats) -> tuple[Leak, ...]:
    """The measures of leakage about the secret that a reader can put into words."""
    ps = joint.p_secret
    kept = np.flatnonzero(ps > 0)
    if len(kept) < 2:
        return ()
    q, p = seen[:, kept], ps[kept]
    return tuple(
        Leak(m.name, meaning, m.of(q, p).value, m.of(q).value, "" if isinstance(m, Contraction) else "nats")
        for m, meaning in MEASURES
    )
