"""bundle: mechanisms for many columns under one promise about the secret."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.alphabet import Alphabet, Floats
from sfumato.bundles.answers import Answer
from sfumato.bundles.calibration import each_of, nothing_useful, sealed_part, strongest, unsealed
from sfumato.bundles.counting import Columns, uniform
from sfumato.bundles.fitting import ModelFit, fit_of
from sfumato.bundles.sharing import (
    Layout,
    Spec,
    merged_groups,
    named_errors,
    shares_of_rows,
)
from sfumato.bundles.trees import tree_bundle
from sfumato.certification import Certificate
from sfumato.certification.together import certify_bundle
from sfumato.errors import InputError, designed_epsilon, unknown
from sfumato.mechanism import Bundle, Claim, Law, Promise
from sfumato.mechanism.bundle import ASSUMING, TURN_BITS
from sfumato.uncertainty import Anything, RenyiBall

ASKING = ("auto", "together", "in turn")
MERGED_CELLS = 256  # of a group of columns that are answered as one
MOST_PARTS = 3000


@dataclass(frozen=True, slots=True, eq=False)
class BundleDesign:
    """A sealed and certified bundle, what its tables can be expected to cost, and why it is as it is."""

    bundle: Bundle
    certificate: Certificate
    strength: dict[str, float]  # for each part its level in nats about what it reads
    shares: dict[str, float] | None  # of the rows, for parts answered in turn
    error: float  # √Σ n·E‖p̂_T − p_T‖² over all tables, expected at the uniform distribution
    compared: dict[str, float]  # the same for every plan that was considered
    notes: tuple[str, ...] = ()
    fit: ModelFit | None = None  # how well the model fits the design rows, when there is one

    @property
    def mechanism(self) -> Bundle:
        """The bundle, by the name that every design has for what it releases with."""
        return self.bundle

    def __repr__(self) -> str:
        return f"<BundleDesign of {self.bundle!r}: proved at {self.certificate.level:.10g}>"


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Parts that have been chosen: their answers, and the division of the rows among them if they take turns."""

    specs: tuple[Spec, ...]
    answers: tuple[Answer, ...]
    shares: Floats | None
    error: float


def bundle(
    source: Any, secret: str | Iterable[str], useful: Iterable[str], epsilon: float, *, assuming: str = "nothing",
    asking: str = "auto", with_secret: bool = True, tables: int = 2, weights: Mapping[str, float] | None = None,
    confidence: float = 0.95, missing: str = "category", bins: Mapping[str, Any] | None = None, rare: Any = None,
    origin: str = "private", labels: Mapping[str, Any] | None = None,
) -> BundleDesign:
    """A bundle of mechanisms for any number of columns, ε-private about the secret for all answers of a row together.

    assuming='nothing' holds for every distribution and puts no count of the design rows into the file. 'tables' is
    about
    every distribution whose small tables lie in confidence balls around those of the design rows; each row then
    answers one part. 'star' and 'tree' let every row answer every part and hold IF the columns are independent given
    the
    secret, or form the tree that is fitted; `.fit` says how far the rows are from that.

    asking='together': each row answers every part and ε is divided; 'in turn': each row answers one part, drawn at
    random,
    with all of ε, and the rows are divided; 'auto' takes what estimates all tables of up to `tables` columns (1 or
    2) best.
    `weights` say how much columns matter. with_secret=False leaves the secret out of the tables. The joint table of all
    columns is never built.
    """
    designed_epsilon(epsilon)
    _check(assuming, asking, tables)
    columns = Columns.of(source, secret, useful, missing=missing, bins=bins, rare=rare, labels=labels)
    layout = _layout(columns, weights, with_secret, tables)
    if assuming in ("star", "tree"):
        if asking == "in turn":
            raise InputError(f"a {assuming} model is for parts answered together; in turn no model is needed.")
        made, parents, answers, error = tree_bundle(columns, layout, epsilon, assuming, confidence, origin)
        return _finished(made, answers, error, None, {}, fit_of(columns, parents, assuming))
    if assuming == "tables":
        if asking == "together":
            raise InputError("parts answered together need a model of how columns depend on each other: "
                             "assuming='star' or 'tree', or 'nothing'.")
        return _from_tables(columns, layout, epsilon, confidence, origin)
    return _from_nothing(columns, layout, epsilon, asking)


def _check(assuming: str, asking: str, tables: int) -> None:
    if assuming not in ASSUMING:
        raise unknown("what a bundle assumes", assuming, ASSUMING)
    if asking not in ASKING:
        raise unknown("a way of asking", asking, ASKING)
    if tables not in (1, 2):
        raise InputError(f"tables must be 1 or 2, the most columns of a table that is wanted, got {tables!r}.")


def _layout(columns: Columns, weights: Mapping[str, float] | None, with_secret: bool, tables: int) -> Layout:
    names = [c.name for c in columns.useful]
    for name in weights or {}:
        if name not in names:
            raise unknown("a useful column", name, names)
    given = tuple(float((weights or {}).get(name, 1.0)) for name in names)
    if not all(math.isfinite(w) and w > 0 for w in given):
        raise InputError("weights must be positive numbers; leave a column out if it does not matter.")
    return Layout(columns.secret.size, tuple(c.size for c in columns.useful), given, with_secret, tables)


def _from_nothing(columns: Columns, layout: Layout, epsilon: float, asking: str) -> BundleDesign:
    plans = {name: plan for name, plan in _plans(layout, epsilon).items() if asking in ("auto", name.split(":")[0])}
    errors = {name: plan.error for name, plan in plans.items()}
    name = min(plans, key=lambda n: errors[n])
    plan = plans[name]
    parts, laws = [], dict[Answer, Law]()
    for spec, answer in zip(plan.specs, plan.answers, strict=True):
        joint = uniform(columns.secret, _useful(columns, spec))
        claim = Claim("rldp", answer.epsilon, Anything(joint))
        if answer not in laws:
            laws[answer] = sealed_part(answer, claim).law
        parts.append(unsealed(answer, claim, laws[answer]))
    made = Bundle(tuple(parts), columns.secret, _turns(plan.shares), Promise(epsilon), "unstated")
    return _finished(made, plan.answers, plan.error, plan.shares, errors, None)


def _plans(layout: Layout, epsilon: float) -> dict[str, Plan]:
    """Plans that are private for every distribution, by name."""
    out = {}
    specs, levels, error = merged_groups(layout, max(epsilon, 1e-9) * (1 - 1e-12), MERGED_CELLS)
    if epsilon == 0:
        levels = np.zeros(len(specs))
    answers = tuple(s.answer(layout, _below(float(e))) for s, e in zip(specs, levels, strict=True))
    out["together"] = Plan(tuple(specs), answers, None, error)
    for name, wanted in _turn_specs(layout).items():
        if len(wanted) <= MOST_PARTS:
            given = tuple(s.answer(layout, epsilon) for s in wanted)
            split = shares_of_rows(wanted, given, layout)
            out[f"in turn: {name}"] = Plan(tuple(wanted), given, split.shares, split.error)
    return out


def _below(level: float) -> float:
    """Rounded down to nine digits, as answers are known by."""
    return math.floor(level * 1e9) / 1e9


def _turn_specs(layout: Layout) -> dict[str, list[Spec]]:
    """Which parts rows may take turns at: one for each wanted table, or tables that all hold the secret."""
    every = range(len(layout.sizes))
    groups = [c for k in {min(layout.order, len(layout.sizes))} for c in combinations(every, k)]
    if not layout.with_secret:
        return {"without the secret": [Spec(g) for g in groups]}
    beside = [Spec((c,), True) for c in every]
    apart = [*(Spec(g) for g in groups if len(g) > 1), *beside]
    return {"tables with the secret": [Spec(g, True) for g in groups], "the secret in tables of its own": apart}


def _from_tables(
    columns: Columns, layout: Layout, epsilon: float, confidence: float, origin: str
) -> BundleDesign:
    """Parts in turn, each with the strongest answer that its own table's ball allows; the balls hold together."""
    best: tuple[float, Any] | None = None
    errors = {}
    for name, specs in _turn_specs(layout).items():
        joints = columns.tables([(columns.secret, _useful(columns, s)) for s in specs])
        balls = [RenyiBall(joint, alpha=1, confidence=each_of(confidence, len(specs))) for joint in joints]
        answers = [
            s.answer(layout, epsilon) if s.reads_secret else strongest(ball, epsilon)
            for s, ball in zip(specs, balls, strict=True)
        ]  # a part that reads the secret tells it directly: what the ball could add is little
        split = shares_of_rows(specs, answers, layout)
        errors[f"in turn: {name}"] = split.error
        if best is None or split.error < best[0]:
            best = split.error, (specs, balls, answers, split.shares)
    assert best is not None
    specs, balls, answers, shares = best[1]
    parts = tuple(
        sealed_part(answer, Claim("rldp", epsilon, ball)) for answer, ball in zip(answers, balls, strict=True)
    )
    made = Bundle(parts, columns.secret, _turns(shares), Promise(epsilon, "tables"), origin)
    return _finished(made, answers, best[0], shares, errors, None)


def _useful(columns: Columns, spec: Spec) -> Alphabet:
    return Alphabet(tuple(columns.useful[c] for c in spec.columns)) if spec.columns else nothing_useful()


def _turns(shares: Floats | None) -> tuple[int, ...] | None:
    """Shares as integers that sum to 2^62."""
    if shares is None:
        return None
    whole = [max(1, math.floor(math.ldexp(float(x), TURN_BITS))) for x in shares]
    whole[int(np.argmax(shares))] += 2**TURN_BITS - sum(whole)
    return tuple(whole)


def _finished(
    made: Bundle, answers: Sequence[Answer], error: float, shares: Floats | None, compared: dict[str, float],
    fit: ModelFit | None,
) -> BundleDesign:
    certificate = certify_bundle(made)
    strength = {name: answer.epsilon for name, answer in zip(made.names, answers, strict=True)}
    parts = None if shares is None else dict(zip(made.names, map(float, shares), strict=True))
    notes = [_said(made, compared)]
    if fit is not None:
        notes.append(fit.sentence)
    told = {name: math.sqrt(x) for name, x in compared.items()}
    return BundleDesign(made, certificate, strength, parts, math.sqrt(error), told, tuple(notes), fit)


def _said(made: Bundle, compared: dict[str, float]) -> str:
    how = {
        "together": f"each row answers all {len(made.parts)} parts, ε is divided among them",
        "in turn": f"each row answers one of {len(made.parts)} parts, drawn at random, with all of ε",
    }[made.asks]
    if not compared:
        return f"{how}."
    roots = {name: math.sqrt(x) for name, x in compared.items()}
    return f"{how} (expected error of all tables, times √n: {named_errors(roots)})."
