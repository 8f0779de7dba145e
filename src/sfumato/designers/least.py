"""hamming, and the other way round: the least ε, or the least information, for a budget of distortion; and curves."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, TypeVar

import numpy as np

from sfumato.alphabet import Alphabet, Floats
from sfumato.certification import Certificate, certificate, seal
from sfumato.decimals import at_least, at_most
from sfumato.designers.base import LIMIT, Design, Details, Draft, Options, Task
from sfumato.designers.choose import design
from sfumato.designers.distances import Distance, Outputs, finite, measured
from sfumato.designers.distortion import FOUR, near, problem_of, unit_of
from sfumato.errors import InputError, is_number
from sfumato.joint import Joint
from sfumato.mechanism import Claim, Mechanism, Table
from sfumato.optimise.budget import Budget
from sfumato.optimise.loss import sources as loss
from sfumato.optimise.loss.least_loss import least_loss
from sfumato.optimise.loss.problem import LeastLoss, LossProblem, Sources
from sfumato.optimise.loss.sources import class_of, lost
from sfumato.tolerances import ALIKE
from sfumato.uncertainty import Anything, ChiSquareBall, Exactly, UncertaintySet
from sfumato.uncertainty.sets import is_set


def hamming(task: Task) -> Draft:
    """Least worst-case P(Y ≠ U) over the set, for a mechanism that reads U and is ε-LDP about it [003, corrected]: one
    LP for every class of sources (`least_losses`). The claim covers every secret behind the input."""
    if task.notion == "lip":
        raise InputError("hamming promises LDP about the input; ask for notion='ldp'.")
    sources = Sources.of(task.within)
    found = loss.least_losses(sources, task.epsilon)
    q = loss.attaining(found.q, task.epsilon)
    details: Details = {"class": class_of(sources), "levels": 1.0 - np.diag(q)}
    wide = Task(task.within, task.epsilon, "ldp", "useful")
    return near(wide, "hamming", q, measured(task.joint.useful, "hamming"), found.bound, task.within, details)


# --- the least ε, or the least information, for a given budget of distortion; and whole curves ------------------------


CLASSES = {
    "I": "Class I: the uniform law is in the hull of the sources",
    "II": "Class II: one order of the letters fits every source",
    "III": "Class III: no order of the letters fits every source",
}
Measured = tuple[Sources, Alphabet, Distance, float]
DUAL_TOLERANCE = 1e-4  # of ε in the dual view of `distortion`, where every step solves a design
INPUT_TOLERANCE = 1e-8  # of the least ε about the input, relative
LEAST_EPSILON = 1e-3  # nats: tolerances are relative to ε, and to this where ε is smaller
ATTEMPTED = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0)  # nats: a budget that the last does not meet is out of reach
Found = TypeVar("Found", LeastLoss, Design)


@dataclass(frozen=True, slots=True, eq=False)
class LeastEpsilon:
    """The least ε for a budget: what is reached, what is proved to be out of reach, and the mechanism."""

    epsilon: float  # reached by the mechanism
    bound: float  # no mechanism within the budget has a level below this
    mechanism: Mechanism | None  # None when ε is infinite
    distortion: float  # of the sealed mechanism, at the worst source
    budget: float
    certificate: Certificate | None = None
    sources: Sources | None = None  # of an input that is itself the secret

    @property
    def source_class(self) -> str | None:
        """'I', 'II' or 'III' [003, Def. 1], for sources of an input that is itself the secret."""
        return None if self.sources is None else class_of(self.sources)

    @property
    def sentence(self) -> str:
        """The answer in words."""
        named = f" {CLASSES[kind]}." if (kind := self.source_class) else ""
        needed, proved = at_most(self.epsilon), at_least(self.bound)
        return f"Distortion {self.budget:g} needs ε = {needed} (proved: at least {proved}).{named}"


@dataclass(frozen=True, slots=True, eq=False)
class LeastLeakage:
    """The least worst-case I(X; Y) for a budget, in nats, with what is proved to be out of reach."""

    information: float
    bound: float
    matrix: Floats  # Q[y, x]
    source: Floats  # the mixture of sources that proves the bound
    distortion: float

    @property
    def gap(self) -> float:
        return self.information - self.bound


def _budget(budget: float, *, share: bool) -> float:
    if not is_number(budget) or budget < 0 or (share and budget > 1):
        allowed = "a share between 0 and 1" if share else "a number, zero or more"
        raise InputError(f"budget must be {allowed}", value=budget)
    return float(budget)


def _measured(sources: object, distance: object, values: object, outputs: Outputs) -> Measured:
    """The set, the labels of its letters, their distances, and what is lost if all letters go to the nearest output."""
    within = Sources.of(sources)
    useful = sources.joint.useful if is_set(sources) else Alphabet.named("useful", within.members.shape[1])
    measure = measured(useful, distance, values, outputs)
    return within, useful, measure, within.worst(measure.matrix.min(axis=1))[0]


def _about_secret(sources: object, about: str | None) -> TypeGuard[UncertaintySet]:
    """Whether the secret is a variable of its own, beside what is released."""
    if about not in (None, "input", "secret"):
        raise InputError(f"about must be 'input' or 'secret', got {about!r}.")
    if about == "secret" and not is_set(sources):
        raise InputError("about='secret' needs an uncertainty set with a secret, got sources of the input alone.")
    if about is not None or not is_set(sources):
        return about == "secret"
    p = sources.joint.p
    return len(p) > 1 and not np.array_equal(p, np.diag(np.diag(p)))


def least_epsilon(
    sources: object, budget: float, distance: object = "hamming", *, values: object = None, outputs: Outputs = None,
    about: str | None = None, **options: Any,
) -> LeastEpsilon:
    """The least ε whose expected distortion meets the budget at every source, with the mechanism that attains it.

    `sources` is one distribution of the input or an array of them (their hull counts: [003, Lemma 2]), or an
    uncertainty set. About the input, ε is that of LDP: exact by one LP with Hamming distance [003, corrected], by
    bisection on LPs with another. For an uncertainty set whose secret is another variable (about='secret'), ε is that
    of `design(F, ε, "distortion", …)`, whose options it takes; every step of the bisection is a proved design.

    >>> found = least_epsilon([[0.5, 0.3, 0.2]], budget=0.2)
    >>> round(found.epsilon, 6), found.source_class
    (2.079442, 'II')
    """
    if _about_secret(sources, about):
        return _dual(sources, _budget(budget, share=False), distance, values, outputs, options)
    if options:
        raise InputError(f"{next(iter(options))!r} is an option of about='secret' only.")
    return _about_input(_measured(sources, distance, values, outputs), budget, outputs is None)


def _about_input(asked: Measured, budget: float, own: bool) -> LeastEpsilon:
    """The least ε of LDP about the input; `own`: outputs are the letters themselves."""
    within, _, measure, least = asked
    exact = measure.name == "hamming" and own
    budget = _budget(budget, share=exact)
    if least > budget or (exact and budget == 0):
        return LeastEpsilon(math.inf, math.inf, None, least, budget, sources=within)
    if exact:
        q, bound = loss.least_epsilon_hamming(within, budget)
    else:
        even = np.tile(within.members.mean(axis=0) / 2, (2, 1))  # of two secrets that may each be anywhere: LDP
        task = Task(Anything(Joint.from_probabilities(even / even.sum())), 0.0, "rldp", "useful")
        tried = _answers(replace(problem_of(task, measure, (True, True)), judged=within), INPUT_TOLERANCE)
        bound, found = _bisected(tried, budget / unit_of(task, measure), INPUT_TOLERANCE)
        if found is None:
            raise InputError(f"no mechanism below ε = {ATTEMPTED[-1]} meets the budget {budget}.")
        q = found.q
    return _sealed(q, bound, asked, budget)


def _answers(base: LossProblem, tolerance: float) -> Callable[[float], LeastLoss]:
    """The least loss of a problem at any ε."""

    def tried(epsilon: float) -> LeastLoss:
        nonlocal base
        found = least_loss(replace(base, epsilon=epsilon), tolerance=tolerance, budget=Budget.of(LIMIT))
        if isinstance(base.judged, Sources):  # the next one starts with the members that this one met
            base = replace(base, judged=replace(base.judged, members=found.members))
        return found

    return tried


def _bisected(tried: Callable[[float], Found], budget: float, tolerance: float) -> tuple[float, Found | None]:
    """The greatest ε found that is proved to be too small for a budget, and what meets it at the least ε found.

    The budget may lie between loss and bound, which is as close as a solver gets.
    """
    low, high, made, attempts = 0.0, math.inf, None, iter(ATTEMPTED)
    while made is None or high - low > tolerance * max(high, LEAST_EPSILON):
        epsilon = next(attempts, None) if made is None else 0.5 * (low + high)
        if epsilon is None:
            break
        found = tried(epsilon)
        if found.value <= budget:
            made, high = found, epsilon
        elif found.bound > budget:
            low = epsilon
        elif made is not None:
            break
    return low, made


def _sealed(q: Floats, bound: float, asked: Measured, budget: float) -> LeastEpsilon:
    """Integers for Q as it is; ε is what they prove, a rounding above the optimum."""
    within, useful, measure, _ = asked
    q, measure = measure.seen(q)
    law, secret = Table(q, 1).rounded(None, 0.0), Alphabet.named("secret", 1)
    bare = Mechanism(law, secret, useful, "useful", "hamming", answers=measure.answers)
    level = certificate(bare, Claim("ldp", 0.0), wider=False).level
    if math.isinf(level):
        bare, proof = seal(bare, Claim("ldp", max(bound, 0.0) + ALIKE))
        level = proof.level
    made = bare.with_claim(Claim("ldp", level))
    assert made.matrix is not None
    spent = within.worst(lost(made.matrix, measure.matrix))[0]
    return LeastEpsilon(level, min(bound, level), made, spent, budget, certificate(made, wider=False), within)


def _dual(
    within: UncertaintySet, budget: float, distance: object, values: object, outputs: Outputs, options: Options
) -> LeastEpsilon:
    """Bisection between an ε that is reached and one that is proved to be too small."""
    tolerance = float(options.pop("tolerance", DUAL_TOLERANCE))
    asked = {"distance": distance, "values": values, "outputs": outputs, **options}
    low, made = _bisected(lambda epsilon: design(within, epsilon, "distortion", **asked), budget, tolerance)
    if made is None:
        return LeastEpsilon(math.inf, low, None, design(within, ATTEMPTED[-1], "distortion", **asked).value, budget)
    return LeastEpsilon(made.epsilon, low, made.mechanism, made.value, budget, made.certificate)


def least_leakage(
    sources: object, budget: float, distance: object = "hamming", *, values: object = None, outputs: Outputs = None
) -> LeastLeakage:
    """min over mechanisms within the budget of max over sources of I(X; Y), in nats, with a proved gap [003, §III-A].

    Convex in the mechanism and concave in the source [003, (22), corrected], so the two meet.

    >>> round(least_leakage([[0.7, 0.3]], budget=0.1).information, 6)
    0.285781
    """
    within, _, measure, least = _measured(sources, distance, values, outputs)
    matrix, budget = measure.matrix, _budget(budget, share=measure.name == "hamming")
    if least > budget:
        most = at_least(least)
        raise InputError(f"no mechanism has a distortion of {budget:g}: with these outputs it is at least {most}.")
    found = loss.mutual_leakage(within, matrix, budget)
    return LeastLeakage(found.value, found.bound, found.q, found.source, within.worst(lost(found.q, matrix))[0])


@dataclass(frozen=True, slots=True, eq=False)
class Tradeoff:
    """Distortion against ε: what is reached and what is proved to be out of reach, at each ε of the curve."""

    epsilon: Floats
    value: Floats
    bound: Floats
    problem: str

    def least_epsilon(self, budget: float) -> tuple[float, float]:
        """(ε that surely suffices, ε below which nothing does) for a budget, from the points of the curve."""
        enough, short = self.epsilon[self.value <= budget], self.epsilon[self.bound > budget]
        return float(enough.min()) if enough.size else math.inf, float(short.max()) if short.size else 0.0


def tradeoff(
    within: ChiSquareBall | Exactly, epsilons: Sequence[float], distance: object = "squared", *, values: object = None,
    outputs: Outputs = None, robust_privacy: bool = True, robust_utility: bool = False, reads: str = "both",
    tolerance: float = 1e-4,
) -> Tradeoff:
    """The curve of least distortion at many ε, without sealing each point: values and proved bounds."""
    if not isinstance(within, ChiSquareBall | Exactly):
        raise InputError(f"a trade-off curve needs a χ² ball or Exactly, got a {type(within).__name__}",
                         next="Give sf.ChiSquareBall(joint) or sf.Exactly(joint).")
    points = np.unique(finite(epsilons, "epsilons"))
    task = Task(within, float(points[0]), "rldp", reads)
    measure, robust = measured(task.joint.useful, distance, values, outputs), (robust_privacy, robust_utility)
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Clarabel works without the interpreter's lock
        found = list(pool.map(_answers(problem_of(task, measure, robust), tolerance), points.tolist()))
    value, bound = np.array([(x.value, x.bound) for x in found]).T * unit_of(task, measure)
    return Tradeoff(points, np.minimum.accumulate(value), np.maximum.accumulate(bound[::-1])[::-1], FOUR[robust])
