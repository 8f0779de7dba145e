"""Measuring: the design of one method at one ε, with every figure that a comparison shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce

import numpy as np

from sfumato.alphabet import Floats
from sfumato.decimals import at_most
from sfumato.designers import Design, Task, design, designs
from sfumato.designers.worth import seconds_of
from sfumato.errors import SfumatoError
from sfumato.estimation.estimates import foreseen
from sfumato.estimation.inversion import Inversion, sides
from sfumato.joint import Joint
from sfumato.mechanism import Claim, Mechanism
from sfumato.mechanism.law import present
from sfumato.privacy.ldp import RLDP
from sfumato.reporting.comparing import ENTRANTS, Entrant
from sfumato.reporting.comparison import UNKNOWN, Missing, Point, Precision, Realised, Spread
from sfumato.tolerances import SLIP
from sfumato.uncertainty import Exactly, UncertaintySet

# --- optimal local hashing, by its covariance. It is here for scale; nothing is released with it ----------------------
# Each person draws a hash from a universal family onto g values and answers by GRR at ratio r over the hashed value,
# with g = r + 1 rounded (Wang et al., USENIX Security 2017). Value x is supported when the answer is its hash: with
# chance a = r/(r + g − 1) for the true value and 1/g for every other.


def covariance(p: Floats, ratio: float, n: int) -> Floats:
    """Cov of the estimates (support − 1/g) / (a − 1/g), ratio = e^ε (the pairs: ours).

    Hashes of two values are independent, so two values x ≠ z are supported together with chance a/g when the truth is
    one of them and 1/g² when it is neither; one value x with chance r(x) = a·p(x) + (1 − p(x))/g.
    """
    g = max(2, round(ratio + 1))
    a, b = ratio / (ratio + g - 1), 1 / g
    r = b + (a - b) * p
    together = b * b + (a * b - b * b) * np.add.outer(p, p)
    np.fill_diagonal(together, r)
    return np.asarray((together - np.outer(r, r)) / (n * (a - b) ** 2))


def olh_precision(joint: Joint, ratio: float, n: int) -> Precision:
    """Errors of OLH over (s, u); `ratio` is what one answer may carry, e^ε for ε-LDP."""
    if ratio <= 1:
        return Precision(UNKNOWN, UNKNOWN, UNKNOWN)
    cov = covariance(joint.p.ravel(), ratio, n)
    secret, useful = (Spread.of(np.einsum("ix,xz,iz->i", m, cov, m)) for m in sides(*joint.shape))
    return Precision(useful, secret, Spread.of(np.diag(cov)))


# --- how far estimates from n released rows will be from the truth, before any row is released ------------------------


def precision(mechanism: Mechanism, joint: Joint, n: int) -> Precision | None:
    """The errors of `sf.estimate` from n rows that follow the joint; None when the law is too large to invert.

    Sampling is part of them: shares of the table itself, released untouched, have variances p(1 − p)/n.
    """
    whole = foreseen(mechanism, joint, n)
    if whole is None:
        return None
    if mechanism.reads != "both":
        return Precision(_spread(whole.marginal(1)), UNKNOWN, UNKNOWN)
    return Precision(_spread(whole.marginal(1)), _spread(whole.marginal(0)), _spread(whole))


def _spread(inversion: Inversion) -> Spread:
    return Spread.of(inversion.variance) if bool(inversion.identified.all()) else UNKNOWN


# --- what a mechanism's level would be if the distribution were another one that the counts allow ---------------------


@dataclass(frozen=True, slots=True)
class Resampling:
    """How truths are drawn."""

    draws: int = 200
    few: int = 20  # for laws too large to list
    listed: int = 60_000_000  # outputs × inputs × draws up to which all draws are taken at once
    prior: float = 0.5  # of Jeffreys, in each cell: those that were never seen are possible


RESAMPLING = Resampling()


@lru_cache(maxsize=8)
def truths(joint: Joint, draws: int) -> Floats | None:
    """P*(u|s) as [draw, s, u], P* ~ Dirichlet(counts + ½); None when it is not known how many rows were counted."""
    if joint.n is None:
        return None
    seen = present(joint.p_secret)
    counts = joint.p[seen] * joint.n + RESAMPLING.prior
    drawn = np.random.default_rng(0).dirichlet(counts.ravel(), draws).reshape(draws, *counts.shape)
    return np.asarray(drawn / drawn.sum(2, keepdims=True))


def realised(mechanism: Mechanism, joint: Joint, epsilon: float, draws: int = RESAMPLING.draws) -> Realised | None:
    """Quantiles of max log P(y|s₁)/P(y|s₂) over drawn truths: one yardstick for every notion."""
    q = mechanism.matrix if mechanism.law.meaning != "subset" or mechanism.inputs <= 10 else None
    if q is None or q.size * draws > RESAMPLING.listed:
        draws = RESAMPLING.few
    given = truths(joint, draws)
    if given is None or given.shape[1] < 2:
        return None
    if q is not None and q.size * draws <= RESAMPLING.listed:
        found = _listed(mechanism, q, joint, given)
    else:
        found = np.array([_level(mechanism, joint, r) for r in given])
    low, high = (float(x) for x in np.quantile(found, [0.5, 0.95]))
    return Realised(low, high, float((found <= epsilon + SLIP).mean()), len(found))  # levels in floats, also at ε = 0


def _listed(mechanism: Mechanism, q: Floats, joint: Joint, given: Floats) -> Floats:
    v = q.reshape(len(q), mechanism.law.rows, mechanism.law.useful)
    v = v[:, present(joint.p_secret)] if mechanism.law.rows > 1 else np.repeat(v, given.shape[1], axis=1)
    laws = [v[:, s] @ given[:, s].T for s in range(given.shape[1])]  # [y, draw] of each secret
    top, bottom = reduce(np.maximum, laws), reduce(np.minimum, laws)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(np.fmax.reduce(top / bottom)))  # 0/0 is an output that never comes


def _level(mechanism: Mechanism, joint: Joint, given: Floats) -> float:
    p = np.zeros(joint.shape)
    seen = present(joint.p_secret)
    p[seen] = joint.p_secret[seen, None] * given
    found = RLDP(Exactly(Joint(joint.secret, joint.useful, p / p.sum()))).level(mechanism)
    return found if not math.isnan(found) else math.inf


# --- the design of one method at one ε, with every figure that a comparison shows -------------------------------------


LOOK, LEAST_LOOK = 0.5, 1.0  # of the time of a search by `auto`, and seconds at least


def measured(
    within: UncertaintySet, strand: Sequence[tuple[str, Sequence[float]]], *, n: int | None,
    time_limit: float | None = None, at_most: float | None = None, beside: Sequence[str] = (),
) -> Iterator[Point | Missing]:
    """The designs of some methods, each at some ε, with their figures, or the reason why there is none; those of a
    method that searches share their searches, and methods are helped by those before them. `beside` are the names of
    all that are compared: what one of them bounds is not bounded again."""
    asked = Asked(within, time_limit, at_most, frozenset(beside))
    for method, epsilons in strand:
        asked.made[method] = []
        last: Point | Missing | None = None
        shared = _shared(asked, epsilons, method)
        for i, epsilon in enumerate(epsilons):
            made = shared[i] if shared else None
            last = _again(last, epsilon, asked, method) or _point(made, epsilon, asked, method, n)
            yield last


def _again(last: Point | Missing | None, epsilon: float, asked: Asked, method: str) -> Point | None:
    """The last point at this ε, where nothing is left to gain."""
    if not isinstance(last, Point) or not asked.made[method]:
        return None
    joint, mechanism = asked.within.joint, asked.made[method][-1].mechanism
    return last.at_larger(epsilon, joint, lambda: realised(mechanism, joint, epsilon))


def _point(made: Design | None, epsilon: float, asked: Asked, method: str, n: int | None) -> Point | Missing:
    """The figures of a design, of one that is made now where there is none yet, or of what is a formula."""
    if ENTRANTS[method].designer == "olh":
        return _olh(asked.within.joint, epsilon, method, n)
    try:
        asked.made[method].append(made or _alone(asked, epsilon, method))
    except SfumatoError as error:
        return Missing(method, epsilon, str(error))
    return _figures(asked.made[method][-1], epsilon, method, ENTRANTS[method], n)


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What a strand is designed for, and what it has made so far."""

    within: UncertaintySet
    time_limit: float | None
    at_most: float | None
    beside: frozenset[str]
    made: dict[str, list[Design]] = field(default_factory=dict)

    def look(self, effort: float = 1.0) -> float:
        """Seconds of one search: a part of what `auto` takes for estimates, as longer ones find digits that no picture
        shows; the limit, where that is less."""
        usual = max(LOOK * seconds_of(Task(self.within, 1.0)), LEAST_LOOK)
        return min(effort * usual, self.time_limit or math.inf)


def _shared(asked: Asked, epsilons: Sequence[float], method: str) -> Sequence[Design]:
    """The designs of a method whose levels share their searches; none where each is asked alone."""
    entrant = ENTRANTS[method]
    if not entrant.shares or len(epsilons) < 2:
        return ()
    options = {**entrant.options, **entrant.along, "working": asked.look(entrant.effort)}
    if len(helpers := asked.made.get(entrant.after or "", ())) == len(epsilons):
        options["starts"] = [x.mechanism for x in helpers]
    try:
        return designs(asked.within, epsilons, entrant.designer, at_most=asked.at_most, **options)
    except SfumatoError:  # at one of the levels: each is asked alone, so that the others are not lost
        return ()


def _alone(asked: Asked, epsilon: float, method: str) -> Design:
    entrant = ENTRANTS[method]
    options = dict(entrant.options)
    if asked.at_most is not None:
        options["at_most"] = asked.at_most
    if entrant.after in asked.made and not entrant.shares:  # rows of all its levels, and of the last one here
        begun = (*asked.made[entrant.after], *asked.made[method][-1:])
        options |= {"starts": [x.mechanism for x in begun], "working": asked.look(entrant.effort)}
    elif entrant.within in asked.beside:
        options |= {"limit": math.inf, "working": asked.look(entrant.effort)}
    elif entrant.timed:
        options["time_limit"] = asked.look()
    within = Exactly(asked.within.joint) if entrant.known else asked.within
    if entrant.shares:
        return design(within, epsilon, entrant.designer, **options)
    return designs(within, [epsilon], entrant.designer, **options)[0]


def _figures(made: Design, epsilon: float, method: str, entrant: Entrant, n: int | None) -> Point:
    mechanism, told, joint = made.mechanism, made.information, made.mechanism.joint
    assert joint is not None and mechanism.claim is not None
    kept, useful, secret = (None,) * 3 if told is None else (float(x) for x in (told.both, told.useful, told.secret))
    return Point(
        method, epsilon, _promise(mechanism.claim), float(made.certificate.level), mechanism.reads,
        kept, None if kept is None or joint.entropy == 0 else kept / joint.entropy, useful, secret,
        float(made.bound) if entrant.informs else None, float(made.ceiling) if entrant.informs else None,
        None if n is None else precision(mechanism, joint, n), realised(mechanism, joint, epsilon),
        mechanism.outputs if mechanism.law.meaning != "subset" else None, made.seconds,
    )


def _promise(claim: Claim) -> str:
    where = {None: "any distribution", "exactly": "at the counts", "anything": "any distribution",
             "chi-square-ball": "in the ball", "renyi-ball": "in the Rényi ball"}
    kind = None if claim.within is None else claim.within.kind
    about = {"ldp": "record", "leakage": "record" if kind is None else "secret"}.get(claim.notion, "secret")
    second = "".join(f"; at most {at_most(c.epsilon)} for any distribution" for c in claim.also if c.notion == "rldp")
    return f"{claim.title} of the {about}, {where.get(kind, 'in the set')}{second}"


def _olh(joint: Joint, epsilon: float, method: str, n: int | None) -> Point:
    """OLH by formula: errors and promise, no information (its outputs are hash functions)."""
    found = None if n is None else olh_precision(joint, math.exp(epsilon), n)
    return Point(
        method, epsilon, "LDP of the record, any distribution", epsilon, "both", *(None,) * 6, found, None, None, 0.0
    )
