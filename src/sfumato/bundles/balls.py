"""Balls: parts in turn that are private for every distribution whose small tables lie in confidence balls."""

from __future__ import annotations

from sfumato.bundles.calibration import STRONGEST, each_of, sealed_part, side_by_side, strongest
from sfumato.bundles.counting import Columns
from sfumato.bundles.plans import BundlePlan, turn_specs, turns_of, useful_of
from sfumato.bundles.sharing import PartAnswer, Spec, TurnLayout, shares_of_rows
from sfumato.bundles.tailored import Measured, better, tailored
from sfumato.designers.base import LARGEST
from sfumato.mechanism import Bundle, Claim, Promise
from sfumato.optimise.budget import Budget
from sfumato.uncertainty import Anything, RenyiBall


def ball_bundle(
    columns: Columns, layout: TurnLayout, epsilon: float, confidence: float, origin: str, budget: Budget | None,
    at_most: float | None,
) -> tuple[Bundle, BundlePlan]:
    """Each part answers as strongly as its own table's ball allows; the balls hold together.

    There is a part for every wanted table that lies in no other, whatever the rows are: parts that were left out for
    what was seen in the rows would have to share the risk all the same.
    """
    every = turn_specs(layout, beside=False)
    specs = [s for s in every if not any(s.all < other.all for other in every)]
    joints = columns.tables([(columns.secret, useful_of(columns, s)) for s in specs])
    each = each_of(confidence, len(specs))
    balls = {s: RenyiBall(joint, alpha=1, confidence=each) for s, joint in zip(specs, joints, strict=True)}

    def claimed(spec: Spec) -> Claim:
        also = () if at_most is None else (Claim("rldp", at_most, Anything(balls[spec].joint)),)
        return Claim("rldp", epsilon, balls[spec], also=also)

    most = STRONGEST if at_most is None else at_most
    answers = [_plain(s, layout, balls[s], epsilon, most) for s in specs]
    split = shares_of_rows(specs, answers, layout)
    plan = BundlePlan(tuple(specs), tuple(answers), split.shares, split.error, split.prices)
    for i, s in enumerate(plan.specs):
        if s.reads_secret and s.columns:
            plan = better(plan, i, _side_by_side(s, layout, claimed(s)), layout, claimed(s))
    if budget is not None and 0 < epsilon <= LARGEST:
        plan = tailored(plan, layout, claimed, budget, centred=True)
    parts = tuple(sealed_part(a, claimed(s)) for s, a in zip(plan.specs, plan.answers, strict=True))
    return Bundle(parts, columns.secret, turns_of(plan.shares), Promise(epsilon, "tables"), origin), plan


def _plain(spec: Spec, layout: TurnLayout, ball: RenyiBall, epsilon: float, most: float) -> PartAnswer:
    """Without the secret as strongly as the ball allows, with it as for any distribution, measured at the table."""
    if not spec.reads_secret:
        return strongest(ball, epsilon, most)
    answer = spec.answer(layout, epsilon)
    return Measured.of(answer.law(), spec, layout, ball.joint.p, epsilon, answer.method) or answer


def _side_by_side(spec: Spec, layout: TurnLayout, claim: Claim) -> list[Measured]:
    """What else a part that reads the secret may answer over its ball: the secret and the rest, independently."""
    assert claim.within is not None
    laws = side_by_side(claim.within, claim.epsilon, claim.also[0].epsilon if claim.also else None)
    found = [Measured.of(law, spec, layout, claim.within.joint.p, claim.epsilon, "ir") for law in laws]
    return [x for x in found if x is not None]
