"""bundle: mechanisms for many columns under one promise about the secret."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.alphabet import Floats
from sfumato.certification import Certificate
from sfumato.certification.together import certify_bundle
from sfumato.composing.answers import SECRET
from sfumato.composing.plans import BundlePlan, Columns, adapted, plans, turns_of, useful_of
from sfumato.composing.sharing import PartAnswer, Spec, TurnLayout, answered
from sfumato.composing.tailored import ball_bundle, sealed_part, tailored, unsealed
from sfumato.composing.trees import ModelFit, fit_of, tree_bundle
from sfumato.decimals import LEVEL, at_most, near
from sfumato.designers.base import LARGEST
from sfumato.designers.worth import Z95
from sfumato.errors import LIMIT_OF_TIME, InputError, designed_epsilon, listed, unknown
from sfumato.joint import Joint
from sfumato.mechanism import Bundle, Claim, Law, Mechanism, Promise
from sfumato.mechanism.bundle import ASSUMING
from sfumato.optimise.budget import Budget, patience
from sfumato.sources.tabulation import Bins, Labels, Rare, Unseen
from sfumato.uncertainty import Anything

if TYPE_CHECKING:
    from sfumato.sources.source import TableLike

SEARCH_SECONDS = {"nothing": 4.0, "tables": 20.0}  # of work for laws of small parts; rows over balls take longer
ASKING = ("auto", "together", "in turn")
Tables = int | Iterable[str | Sequence[str]]  # the most columns of a table that is wanted, or the tables


@dataclass(frozen=True, slots=True, eq=False)
class BundleDesign:
    """A sealed and certified bundle, what its tables can be expected to cost, and why it is as it is."""

    bundle: Bundle
    certificate: Certificate
    strength: dict[str, float]  # for each part its level in nats about what it reads
    shares: dict[str, float] | None  # of the rows, for parts answered in turn
    error: float  # √n times the root mean square error of a share, one- and two-way tables counting alike, expected
    compared: dict[str, float]  # the same for every plan that was considered
    notes: tuple[str, ...] = ()
    fit: ModelFit | None = None  # how well the model fits the design rows, when there is one
    rows: int | None = None  # that were counted for it

    @property
    def mechanism(self) -> Bundle:
        """The bundle, by the name that every design has for what it releases with."""
        return self.bundle

    def __repr__(self) -> str:
        return f"<BundleDesign of {self.bundle!r}: proved at {at_most(self.certificate.level, LEVEL)}>"


def bundle(
    source: TableLike, secret: str | Iterable[str], useful: Iterable[str], epsilon: float, *, assuming: str = "nothing",
    asking: str = "auto", with_secret: bool = True, tables: Tables = 2, weights: Mapping[str, float] | None = None,
    confidence: float = 0.95, missing: str = "category", bins: Bins = None, rare: Rare = None,
    origin: str = "private", labels: Labels = None, unseen: Unseen = None, design_epsilon: float | None = None,
    seed: int | None = None, time_limit: float | None = None, at_most: float | None = None,
) -> BundleDesign:
    """A bundle of mechanisms for any number of columns, ε-private about the secret for all answers of a row together.

    assuming='nothing' holds for every distribution and puts no count of the design rows into the file. 'tables' is
    about every distribution whose small tables lie in confidence balls around those of the design rows; each row then
    answers one part, and `at_most` limits what each tells for any distribution besides. 'star' and 'tree' let every row
    answer every part and hold IF the columns are independent given the secret, or form the tree that is fitted; `.fit`
    says how far the rows are from that.

    asking='together': each row answers every part and ε is divided; 'in turn': each row answers one part, drawn at
    random, with all of ε, and the rows are divided; 'auto' takes what estimates all tables of up to `tables` columns (1
    or 2) best, or those that `tables` lists, [("town", "age"), "sports"]: then only these are asked about. Small parts
    that take turns are searched for a few seconds, or time_limit: 0 leaves them as closed forms.
    design_epsilon takes that part of ε for noisy counts, by which tables of two columns that are not worth their rows
    are left out (seed= for tests); the promise of the bundle is about the rest, as a mechanism's is.
    `weights` say how much columns matter. with_secret=False leaves the secret out of the tables. The joint table of all
    columns is never built.
    """
    designed_epsilon(epsilon)
    _check(assuming, asking, tables)
    columns = Columns.of(source, secret, useful, missing=missing, bins=bins, rare=rare, labels=labels, unseen=unseen)
    layout = _layout(columns, weights, with_secret, tables)
    if at_most is not None and (assuming != "tables" or not epsilon <= at_most < math.inf):
        raise InputError(
            f"at_most is for assuming='tables', a number of nats from ε = {epsilon:g} on", value=at_most
        )
    budget = _budget(time_limit, assuming)
    if design_epsilon is not None:
        made = _adapted(columns, layout, epsilon, design_epsilon, assuming, asking, seed, budget)
    else:
        made = _designed(columns, layout, epsilon, assuming, asking, confidence, origin, budget, at_most)
    return replace(made, rows=columns.rows)


def _budget(time_limit: float | None, assuming: str) -> Budget | None:
    """The seconds for parts that are searched for; None for none."""
    if time_limit is None:
        return Budget.of_work(SEARCH_SECONDS.get(assuming, 0.0) * patience())
    if not 0 <= time_limit < math.inf:
        raise InputError(f"{LIMIT_OF_TIME} must be a number of seconds, zero or more", value=time_limit)
    return Budget.of(time_limit) if time_limit else None


def _adapted(
    columns: Columns, layout: TurnLayout, epsilon: float, spent: float, assuming: str, asking: str, seed: int | None,
    budget: Budget | None,
) -> BundleDesign:
    """A bundle that assumes nothing, for the tables that noisy counts show to be worth their rows."""
    if assuming != "nothing" or asking == "together" or layout.asked is not None or layout.order < 2:
        raise InputError(
            "noisy counts choose among all tables of two columns, for parts that assume nothing and take turns",
            next="Leave out assuming, asking and tables.",
        )
    if spent >= epsilon:
        raise InputError(f"design_epsilon must be less than ε = {epsilon:g}, of which it is a part", value=spent)
    found = adapted(columns, layout, spent, epsilon - spent, seed)
    made = _from_nothing(columns, found.layout, epsilon - spent, "auto", budget, found.joints)
    return replace(made, notes=(found.note, *made.notes))


def _designed(
    columns: Columns, layout: TurnLayout, epsilon: float, assuming: str, asking: str, confidence: float, origin: str,
    budget: Budget | None, at_most: float | None,
) -> BundleDesign:
    if assuming in ("star", "tree"):
        if asking == "in turn":
            raise InputError(
                f"a {assuming} model is for parts answered together; in turn no model is needed",
                next="Leave out asking or assuming.",
            )
        made, parents, answers, error = tree_bundle(columns, layout, epsilon, assuming, confidence, origin)
        return _finished(columns, made, answers, error, None, {}, fit_of(columns, parents, assuming))
    if assuming == "tables":
        if asking == "together":
            raise InputError(
                "parts answered together need a model of how columns depend on each other",
                next="Use assuming='star', 'tree' or 'nothing'.",
            )
        made, plan = ball_bundle(columns, layout, epsilon, confidence, origin, budget, at_most)
        return _finished(columns, made, plan.answers, plan.error, plan.shares, {"in turn": plan.error}, None)
    return _from_nothing(columns, layout, epsilon, asking, budget)


def _check(assuming: str, asking: str, tables: Tables) -> None:
    if assuming not in ASSUMING:
        raise unknown("what a bundle assumes", assuming, ASSUMING)
    if asking not in ASKING:
        raise unknown("a way of asking", asking, ASKING)
    if isinstance(tables, (int, str)) and tables not in (1, 2):
        raise InputError(
            "tables must be 1 or 2, the most columns of a table that is wanted, or a list of tables such as "
            "[('town', 'age'), 'sports']", value=tables,
        )
    if not isinstance(tables, int) and assuming in ("star", "tree"):
        raise InputError(f"a {assuming} model asks about every column in every row", next="Leave out the tables.")


def _layout(columns: Columns, weights: Mapping[str, float] | None, with_secret: bool, tables: Tables) -> TurnLayout:
    names = [c.name for c in columns.useful]
    for name in weights or {}:
        if name not in names:
            raise unknown("a useful column", name, names)
    given = tuple(float((weights or {}).get(name, 1.0)) for name in names)
    if not all(math.isfinite(w) and w > 0 for w in given):
        raise InputError(
            "weights must be positive numbers", value=dict(weights or {}),
            next="Leave a column out if it does not matter.",
        )
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
            raise InputError("a table has one column or two different ones", value=names)
        out.append(held)
    left = [c.name for i, c in enumerate(columns.useful) if not any(i in t for t in out)]
    if not out:
        raise InputError("tables lists no table", next="Leave it out for all tables of one and two columns.")
    if left:
        raise InputError(
            f"no table holds {listed(left)}", next="Name it in one, or leave it out of the useful columns."
        )
    return tuple(dict.fromkeys(out))


def _sealed_parts(plan: BundlePlan, claimed: Callable[[Spec, float], Claim]) -> tuple[Mechanism, ...]:
    """The parts of a plan; those that give the same answers are sealed once."""
    parts, laws = [], dict[PartAnswer, Law]()
    for spec, answer in zip(plan.specs, plan.answers, strict=True):
        claim = claimed(spec, answer.epsilon)
        if answer not in laws:
            laws[answer] = sealed_part(answer, claim).law
        parts.append(unsealed(answer, claim, laws[answer]))
    return tuple(parts)


def _from_nothing(
    columns: Columns, layout: TurnLayout, epsilon: float, asking: str, budget: Budget | None,
    known: Mapping[Spec, Joint] | None = None,
) -> BundleDesign:
    """Parts that are private for every distribution; `known` are noisy counts of the parts that are to be."""
    if known is None:
        ways = plans(layout, epsilon)
    else:  # these parts and no others: what was paid for stands in the file
        ways = {"in turn": BundlePlan.in_turn(list(known), answered(list(known), layout, epsilon)[0], layout)}
    tried = {name: plan for name, plan in ways.items() if asking in ("auto", name)}
    errors = {name: plan.error for name, plan in tried.items()}
    if not tried:
        raise InputError("tables that are named are asked about in turn", next="Leave out asking='together'.")
    plan = tried[min(tried, key=lambda n: errors[n])]

    def claimed(spec: Spec, level: float = epsilon) -> Claim:
        joint = Joint.uniform(columns.secret, useful_of(columns, spec)) if known is None else known[spec]
        return Claim("rldp", level, Anything(joint))

    if budget is not None and plan.shares is not None and 0 < epsilon <= LARGEST:
        plan = tailored(plan, layout, claimed, budget)
        errors = errors | {"in turn": plan.error}
    origin = "unstated" if known is None else "noisy"
    made = Bundle(_sealed_parts(plan, claimed), columns.secret, turns_of(plan.shares), Promise(epsilon), origin)
    return _finished(columns, made, plan.answers, plan.error, plan.shares, errors, None)


def _finished(
    columns: Columns, made: Bundle, answers: Sequence[PartAnswer], error: float, shares: Floats | None,
    compared: dict[str, float], fit: ModelFit | None,
) -> BundleDesign:
    certificate = certify_bundle(made)
    strength = {name: answer.epsilon for name, answer in zip(made.names, answers, strict=True)}
    parts = None if shares is None else dict(zip(made.names, map(float, shares), strict=True))
    told = {name: math.sqrt(x) for name, x in compared.items()}
    notes = [_said(made, told, columns.rows)]
    if fit is not None:
        notes.append(fit.sentence)
    return BundleDesign(made, certificate, strength, parts, math.sqrt(error), told, tuple(notes), fit)


def _said(made: Bundle, errors: dict[str, float], rows: int) -> str:
    how = {
        "together": f"each row answers all {len(made.parts)} parts, ε is divided among them",
        "in turn": f"each row answers one of {len(made.parts)} parts, drawn at random, with all of ε",
    }[made.asks]
    if not errors:
        return f"{how}."
    points = {name: 100 * Z95 * error / math.sqrt(rows) for name, error in errors.items()}
    each = ", ".join(f"{name} {near(points[name], 2)}" for name in sorted(points, key=lambda n: points[n]))
    return f"{how} (expected ± of a share from {rows:,} rows, in points, on average over the tables: {each})."
