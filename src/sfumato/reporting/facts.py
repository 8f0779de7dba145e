"""Facts: the figures of a release. Public facts come from the mechanism file and the released rows alone;
nothing here opens the private table."""

from __future__ import annotations

import math
from typing import Any

from sfumato.errors import InputError
from sfumato.estimation import Estimate, Marginal
from sfumato.joint import SMALL, Joint
from sfumato.mechanism import Mechanism
from sfumato.reporting.figures import Cost, DesignData, Facts, Private, Promise, Rows, Side, Value
from sfumato.reporting.heat import heat_of
from sfumato.utility import ceiling, mutual_information

BIT = math.log(2)
SHOWN = 40  # values of a marginal that are listed
PRIORS = (0.01, 0.1, 0.25, 0.5, 0.75)


def _bits(nats: float) -> float:
    return nats / BIT


def worst_belief(prior: float, epsilon: float, notion: str) -> float:
    """The greatest belief in a value of the secret after seeing a released row, from a belief before it.

    RLDP and LDP bound the odds: odds after ≤ e^ε · odds before. LIP bounds the belief itself: after ≤ e^ε · before.

    >>> round(worst_belief(0.5, math.log(3), "rldp"), 6)
    0.75
    """
    if notion == "mi":
        return 1.0  # an average bounds no single belief
    if notion in ("lip", "srlip"):
        return min(1.0, math.exp(epsilon) * prior)
    odds = prior / (1 - prior)
    return 1 / (1 + math.exp(-epsilon) / odds)


def promise_of(mechanism: Mechanism, certificate: Any) -> Promise | None:
    claim = mechanism.claim
    if claim is None:
        return None
    level = claim.epsilon if certificate is None else float(certificate.level)
    elsewhere = {} if certificate is None else certificate.elsewhere
    witness = {} if certificate is None else certificate.witness
    return Promise(
        claim.notion, "everything" if claim.within is None else claim.within.kind, claim.epsilon,
        math.exp(claim.epsilon), level, certificate is not None and certificate.holds,
        getattr(claim.within, "confidence", None),
        () if claim.notion == "leakage" else tuple((b, worst_belief(b, claim.epsilon, claim.notion)) for b in PRIORS),
        tuple((where, float(x), _exp(float(x))) for where, x in elsewhere.items()),
        tuple((str(k), _text(v)) for k, v in witness.items()), claim.title,
    )


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _text(value: Any) -> str:
    return " · ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def kept_bits(mechanism: Mechanism, joint: Joint) -> float | None:
    try:
        return _bits(mutual_information(mechanism, joint))
    except InputError:
        return None


def cost_of(mechanism: Mechanism, joint: Joint) -> Cost:
    """I(X;Y), H(X) and the ceiling H(U|S) + min{H(S), κ − 1 − log κ}; ε-LIP implies 2ε between two secrets."""
    whole = _bits(joint.entropy if mechanism.reads == "both" else joint.entropy_useful)
    kept, claim = kept_bits(mechanism, joint), mechanism.claim
    limit = None
    if claim is not None and claim.notion != "leakage":
        limit = _bits(ceiling(joint, claim.epsilon, reads=mechanism.reads, notion=claim.notion))
    share = None if kept is None or whole <= 0 else kept / whole
    return Cost(kept, whole, limit, share, None if kept is None or not limit else kept / limit)


def design_data(mechanism: Mechanism, joint: Joint) -> DesignData:
    counts = joint.counts
    if counts is None:
        return DesignData(mechanism.source, joint.n, joint.p.size, False, 0, None, int((joint.p == 0).sum()))
    small = counts[(counts > 0) & (counts < SMALL)]
    positive = counts[counts > 0]
    return DesignData(
        mechanism.source, joint.n, joint.p.size, True, int(small.size), int(positive.min()), int((counts == 0).sum())
    )


def side_of(marginal: Marginal, role: str, level: float, truth: Any = None) -> Side:
    low, high = marginal.interval(level)
    order = sorted(range(marginal.p.size), key=lambda i: -float(marginal.p[i]))
    values = tuple(
        Value(marginal.alphabet.text(i), float(marginal.p[i]), float(low[i]), float(high[i]),
              None if truth is None else float(truth[i]))
        for i in order[:SHOWN]
    )
    distance = covered = None
    if truth is not None:
        distance = float(abs(marginal.p - truth).sum() / 2)
        covered = bool(((low <= truth) & (truth <= high)).all())
    name = ", ".join(marginal.alphabet.names)
    return Side(name, role, marginal.identified, values, len(order) - len(values), distance, covered)


def rows_of(found: Estimate, level: float, truth: Joint | None = None) -> Rows:
    sides = [] if found.secret is None else [
        side_of(found.secret, "secret", level, None if truth is None else truth.p_secret)
    ]
    sides.append(side_of(found.useful, "useful", level, None if truth is None else truth.p_useful))
    return Rows(found.n, found.decode, found.method, level, tuple(sides), found.notes)


def private_part(mechanism: Mechanism, truth: Joint, found: Estimate | None) -> Private:
    cost = cost_of(mechanism, truth)
    distance = covered = None
    if found is not None:
        p = truth.p if mechanism.reads == "both" else truth.p_useful
        low, high = found.interval()
        distance = float(abs(found.p - p).sum() / 2)
        covered = bool(((low <= p) & (p <= high)).all())
    return Private(truth.n, cost.kept, cost.whole, distance, covered)


def facts_of(
    mechanism: Mechanism, certificate: Any, released: Estimate | None = None, *, truth: Joint | None = None,
    manifest: Any = None, title: str | None = None, level: float = 0.95, file: str = "released.mechanism.json",
) -> Facts:
    """The facts of a public report, or of a private one when the true table is given."""
    secret, useful = ", ".join(mechanism.secret.names), ", ".join(mechanism.useful.names)
    if truth is not None and truth.shape != (mechanism.secret.size, mechanism.useful.size):
        raise InputError(f"the true table has shape {truth.shape}, which is not that of the mechanism.")
    joint = mechanism.joint
    columns = [] if manifest is None else [c.name for c in manifest.columns if c.role == "kept"]
    return Facts(
        title or f"Release of {useful} with {secret} protected", mechanism.method, mechanism.reads, secret, useful,
        mechanism.secret.size, mechanism.useful.size, promise_of(mechanism, certificate),
        None if joint is None else cost_of(mechanism, joint),
        None if joint is None else design_data(mechanism, joint),
        heat_of(mechanism), None if released is None else rows_of(released, level, truth), tuple(columns),
        manifest is not None and manifest.randomness != "system", f"sfumato verify {file}",
        None if truth is None else private_part(mechanism, truth, released),
    )
