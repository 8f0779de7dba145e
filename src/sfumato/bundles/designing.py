"""bundle: mechanisms for many columns under one promise about the secret."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.alphabet import Alphabet, Floats
from sfumato.bundles.adapting import adapted
from sfumato.bundles.answers import Answer
from sfumato.bundles.calibration import each_of, nothing_useful, sealed_part, strongest, unsealed
from sfumato.bundles.counting import Columns, uniform
from sfumato.bundles.fitting import ModelFit, fit_of
from sfumato.bundles.plans import BundlePlan, divided, plans, turn_specs
from sfumato.bundles.sharing import SECRET, Spec, TurnLayout, named_errors, shares_of_rows
from sfumato.bundles.trees import tree_bundle
from sfumato.certification import Certificate
from sfumato.certification.together import certify_bundle
from sfumato.errors import InputError, designed_epsilon, listed, unknown
from sfumato.joint import Joint
from sfumato.mechanism import Bundle, Claim, Law, Promise
from sfumato.mechanism.bundle import ASSUMING, TURN_BITS
from sfumato.uncertainty import Anything, RenyiBall

ASKING = ("auto", "together", "in turn")
Tables = int | Iterable[str | Sequence[str]]  # the most columns of a table that is wanted, or the tables


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
    rows: int | None = None  # that were counted for it

    @property
    def mechanism(self) -> Bundle:
        """The bundle, by the name that every design has for what it releases with."""
        return self.bundle

    def __repr__(self) -> str:
        return f"<BundleDesign of {self.bundle!r}: proved at {self.certificate.level:.10g}>"


def bundle(
    source: Any, secret: str | Iterable[str], useful: Iterable[str], epsilon: float, *, assuming: str = "nothing",
    asking: str = "auto", with_secret: bool = True, tables: Tables = 2, weights: Mapping[str, float] | None = None,
    confidence: float = 0.95, missing: str = "category", bins: Mapping[str, Any] | None = None, rare: Any = None,
    origin: str = "private", labels: Mapping[str, Any] | None = None, design_epsilon: float | None = None,
    seed: int | None = None,
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
    with all of ε, and the rows are divided; 'auto' takes what estimates all tables of up to `tables` columns (1 or 2)
    best, or those that `tables` lists, [("town", "age"), "sports"]: then only these are asked about.
    design_epsilon takes that part of ε for noisy counts, by which tables of two columns that are not worth their rows
    are left out (seed= for tests); the promise of the bundle is about the rest, as a mechanism's is.
    `weights` say how much columns matter. with_secret=False leaves the secret out of the tables. The joint table of all
    columns is never built.
    """
    designed_epsilon(epsilon)
    _check(assuming, asking, tables)
    columns = Columns.of(source, secret, useful, missing=missing, bins=bins, rare=rare, labels=labels)
    layout = _layout(columns, weights, with_secret, tables)
    if design_epsilon is not None:
        return replace(_adapted(columns, layout, epsilon, design_epsilon, assuming, asking, seed), rows=columns.rows)
    made = _designed(columns, layout, epsilon, assuming, asking, confidence, origin)
    return replace(made, rows=columns.rows)


def _adapted(
    columns: Columns, layout: TurnLayout, epsilon: float, spent: float, assuming: str, asking: str, seed: int | None
) -> BundleDesign:
    """A bundle that assumes nothing, for the tables that noisy counts show to be worth their rows."""
    if assuming != "nothing" or asking == "together" or layout.asked is not None or layout.order < 2:
        raise InputError(
            "noisy counts choose among all tables of two columns, for parts that assume nothing and take turns: leave "
            "out assuming, asking and tables."
        )
    if spent >= epsilon:
        raise InputError(f"design_epsilon must be less than ε = {epsilon:g}, of which it is a part, got {spent:g}.")
    found = adapted(columns, layout, spent, epsilon - spent, seed)
    made = _from_nothing(columns, found.layout, epsilon - spent, "auto", found.joints)
    return replace(made, notes=(found.note, *made.notes))


def _designed(
    columns: Columns, layout: TurnLayout, epsilon: float, assuming: str, asking: str, confidence: float, origin: str
) -> BundleDesign:
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


def _check(assuming: str, asking: str, tables: Tables) -> None:
    if assuming not in ASSUMING:
        raise unknown("what a bundle assumes", assuming, ASSUMING)
    if asking not in ASKING:
        raise unknown("a way of asking", asking, ASKING)
    if isinstance(tables, (int, str)) and tables not in (1, 2):
        raise InputError(
            f"tables must be 1 or 2, the most columns of a table that is wanted, or a list of tables such as "
            f"[('town', 'age'), 'sports'], got {tables!r}."
        )
    if not isinstance(tables, int) and assuming in ("star", "tree"):
        raise InputError(f"a {assuming} model asks about every column in every row: leave out the tables.")


def _layout(columns: Columns, weights: Mapping[str, float] | None, with_secret: bool, tables: Tables) -> TurnLayout:
    names = [c.name for c in columns.useful]
    for name in weights or {}:
        if name not in names:
            raise unknown("a useful column", name, names)
    given = tuple(float((weights or {}).get(name, 1.0)) for name in names)
    if not all(math.isfinite(w) and w > 0 for w in given):
        raise InputError("weights must be positive numbers; leave a column out if it does not matter.")
    sizes = tuple(c.size for c in columns.useful)
    if isinstance(tables, int):
        return TurnLayout(columns.secret.size, sizes, given, with_secret, tables)
    asked = _asked(columns, tables)
    return TurnLayout(columns.secret.size, sizes, given, any(SECRET in t for t in asked), max(map(len, asked)), asked)


def _asked(columns: Columns, tables: Iterable[str | Sequence[str]]) -> tuple[tuple[int, ...], ...]:
    """Tables by the places of their columns; the secret, all its columns together, by any of its names."""
    place = {c.name: i for i, c in enumerate(columns.useful)} | dict.fromkeys(columns.secret.names, SECRET)
    out = []
    for table in tables:
        names = (table,) if isinstance(table, str) else tuple(table)
        for name in names:
            if name not in place:
                raise unknown("a secret or useful column", name, place)
        held = tuple(sorted({place[name] for name in names}))
        if not 1 <= len(names) <= 2 or len(held) != len(names):
            raise InputError(f"a table has one column or two different ones, got {', '.join(names) or 'none'}.")
        out.append(held)
    left = [c.name for i, c in enumerate(columns.useful) if not any(i in t for t in out)]
    if not out or left:
        raise InputError(
            f"no table holds {listed(left)}: name it in one, or leave it out of the useful columns." if out else
            "tables lists no table: leave it out for all tables of one and two columns."
        )
    return tuple(dict.fromkeys(out))


def _from_nothing(
    columns: Columns, layout: TurnLayout, epsilon: float, asking: str, known: Mapping[Spec, Joint] | None = None
) -> BundleDesign:
    """Parts that are private for every distribution; `known` are noisy counts of the parts that are to be."""
    ways = plans(layout, epsilon) if known is None else {"in turn": _of_specs(list(known), layout, epsilon)}
    tried = {name: plan for name, plan in ways.items() if asking in ("auto", name.split(":")[0])}
    errors = {name: plan.error for name, plan in tried.items()}
    if not tried:
        raise InputError("tables that are named are asked about in turn: leave out asking='together'.")
    plan = tried[min(tried, key=lambda n: errors[n])]
    parts, laws = [], dict[Answer, Law]()
    for spec, answer in zip(plan.specs, plan.answers, strict=True):
        joint = uniform(columns.secret, _useful(columns, spec)) if known is None else known[spec]
        claim = Claim("rldp", answer.epsilon, Anything(joint))
        if answer not in laws:
            laws[answer] = sealed_part(answer, claim).law
        parts.append(unsealed(answer, claim, laws[answer]))
    origin = "unstated" if known is None else "noisy"
    made = Bundle(tuple(parts), columns.secret, _turns(plan.shares), Promise(epsilon), origin)
    return _finished(made, plan.answers, plan.error, plan.shares, errors, None)


def _of_specs(specs: Sequence[Spec], layout: TurnLayout, epsilon: float) -> BundlePlan:
    """These parts and no others: what was paid for stands in the file."""
    answers = [s.answer(layout, epsilon) for s in specs]
    split = shares_of_rows(specs, answers, layout)
    return BundlePlan(tuple(specs), tuple(answers), split.shares, split.error)


def _from_tables(
    columns: Columns, layout: TurnLayout, epsilon: float, confidence: float, origin: str
) -> BundleDesign:
    """Parts in turn, each with the strongest answer that its own table's ball allows; the balls hold together."""
    best: tuple[float, Any] | None = None
    errors = {}
    for name, specs in turn_specs(layout).items():
        joints = columns.tables([(columns.secret, _useful(columns, s)) for s in specs])
        balls = [RenyiBall(joint, alpha=1, confidence=each_of(confidence, len(specs))) for joint in joints]
        answers = [
            s.answer(layout, epsilon) if s.reads_secret else strongest(ball, epsilon)
            for s, ball in zip(specs, balls, strict=True)
        ]  # a part that reads the secret tells it directly: what the ball could add is little
        plan = divided(specs, answers, layout)
        errors[f"in turn: {name}"] = plan.error
        if best is None or plan.error < best[0]:
            best = plan.error, (plan, dict(zip(specs, balls, strict=True)))
    assert best is not None
    plan, around = best[1]
    answers, shares, balls = plan.answers, plan.shares, [around[s] for s in plan.specs]
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
