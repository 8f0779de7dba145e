"""Plans: the labels of every column and the tables of small groups of them, never of all together; which parts a bundle
has, how strongly each answers, and how ε or the rows are divided among them; which tables are worth their rows, seen
through noisy counts that were paid for (`adapted`); and what would make errors smaller."""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sfumato.alphabet import Alphabet, Column, Floats
from sfumato.composing.answers import SECRET
from sfumato.composing.sharing import PartAnswer, Spec, TurnLayout, answered, merged_groups, shares_of_rows
from sfumato.designers.worth import HELPS, Help
from sfumato.errors import InputError, UnknownName, option
from sfumato.joint import Joint
from sfumato.mechanism import Bundle
from sfumato.mechanism.law import MOST_BITS
from sfumato.noise import SEEDED, Below, noisy_counts
from sfumato.sources import Source, open_source
from sfumato.sources.tabulation import Bins, Labels, Rare, Unseen, catching, counted_groups, tabulate
from sfumato.tolerances import ALIKE, SLIP, TABLE

if TYPE_CHECKING:
    from sfumato.sources.source import TableLike

MERGED_CELLS = 256  # of a group of columns that are answered as one
MOST_PARTS = 3000
LEAST_SHARES = (0.3, 0.1, 0.03, 0.01, 0.003)  # of an even share: parts with less are left out,
WORTH_FEWER = 1e-3  # where that costs no more of the error
Rule = TypeVar("Rule")


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The secret and the useful columns of a source, with their labels, and its rows to count from."""

    secret: Alphabet
    useful: tuple[Column, ...]
    source: Source
    rows: int

    @classmethod
    def of(
        cls, source: TableLike, secret: str | Iterable[str], useful: Iterable[str], *, missing: str = "category",
        bins: Bins = None, rare: Rare = None, labels: Labels = None, unseen: Unseen = None,
    ) -> Columns:
        secrets = [secret] if isinstance(secret, str) else list(secret)
        names = [useful] if isinstance(useful, str) else list(useful)
        if not names or len(set(names)) != len(names):
            raise InputError("useful must name one or more columns, each once", value=names)
        opened = open_source(source).settled([*secrets, *names])
        caught = _caught(unseen, labels or {})
        for ruled in (bins, rare, labels, unseen):
            _check_named(ruled if isinstance(ruled, Mapping) else (), [*secrets, *names])
        found: dict[str, Column] = {}
        for name in names:
            here = {*secrets, name}
            few = _of(here, rare) if isinstance(rare, Mapping) else rare
            joint = tabulate(
                opened, secrets, name, missing=missing, bins=_of(here, bins) or None, rare=few,
                labels=_of(here, labels), unseen=_of(here, caught) or None,
            )
            found |= {c.name: c for c in (*joint.secret.columns, *joint.useful.columns)}
        found, rows = catching(found, unseen), joint.n
        assert rows is not None
        return cls(Alphabet(tuple(found[n] for n in secrets)), tuple(found[n] for n in names), opened, rows)

    def tables(self, groups: Sequence[tuple[Alphabet, Alphabet]]) -> list[Joint]:
        """The table of each pair of alphabets (what stands in the place of the secret, and the useful side), in one
        pass over the rows."""
        sizes = [first.size * second.size for first, second in groups]
        if max(sizes) > TABLE:
            raise InputError(f"a table of {max(sizes):,} cells is too large for one part", next="Use coarser columns.")
        held = [[*first.columns, *second.columns] for first, second in groups]
        names = dict.fromkeys(c.name for group in held for c in group)
        totals, _ = counted_groups(self.source.batches(list(names)), held)
        pairs = zip(totals, groups, strict=True)
        return [Joint.from_counts(t.reshape(a.size, b.size), a, b) for t, (a, b) in pairs]


def _check_named(given: Iterable[str], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise UnknownName(f"is neither secret nor useful ({', '.join(names)})", value=name)


def _of(names: set[str], rules: Mapping[str, Rule] | None) -> dict[str, Rule]:
    """The rules of these columns alone."""
    return {name: rule for name, rule in (rules or {}).items() if name in names}


def _caught(unseen: Unseen, labels: Mapping[str, Sequence[object] | Column]) -> dict[str, str]:
    """The label that takes unseen values of each column, as far as it is known before a row is seen."""
    if unseen is None or not isinstance(unseen, str):
        return dict(unseen or {})
    return {n: unseen for n, given in labels.items() if not isinstance(given, Column) and unseen in map(str, given)}


# --- which parts, and how ε or the rows are divided among them --------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class BundlePlan:
    """Parts that have been chosen: their answers, and the division of the rows among them if they take turns."""

    specs: tuple[Spec, ...]
    answers: tuple[PartAnswer, ...]
    shares: Floats | None
    error: float
    prices: Mapping[tuple[int, ...], float] = field(default_factory=dict)  # of each effect, see `Division`

    @classmethod
    def in_turn(cls, specs: Sequence[Spec], answers: Sequence[PartAnswer], layout: TurnLayout) -> BundlePlan:
        """With the rows divided among these parts."""
        split = shares_of_rows(specs, answers, layout)
        return cls(tuple(specs), tuple(answers), split.shares, split.error, split.prices)


def plans(layout: TurnLayout, epsilon: float) -> dict[str, BundlePlan]:
    """Plans that are private for every distribution, by name."""
    out = {}
    if (turns := turn_plan(layout, epsilon)) is not None:
        out["in turn"] = turns
    if layout.asked is None:
        specs, levels, error = merged_groups(layout, max(epsilon, ALIKE) * (1 - SLIP), MERGED_CELLS)
        if epsilon == 0:
            levels = np.zeros(len(specs))
        answers = tuple(s.answer(layout, _below(float(e))) for s, e in zip(specs, levels, strict=True))
        out["together"] = BundlePlan(tuple(specs), answers, None, error)
    return out


def turn_plan(layout: TurnLayout, epsilon: float) -> BundlePlan | None:
    """The one in which each row answers one part; None where there would be too many of them."""
    specs = turn_specs(layout)
    if len(specs) > MOST_PARTS:
        return None
    return divided(specs, answered(specs, layout, epsilon)[0], layout)


def divided(specs: Sequence[Spec], answers: Sequence[PartAnswer], layout: TurnLayout) -> BundlePlan:
    """The rows divided among as few of the parts as do nearly as well as all."""
    plan = BundlePlan.in_turn(specs, answers, layout)
    assert plan.shares is not None
    for least in LEAST_SHARES if math.isfinite(plan.error) else ():
        busy = np.flatnonzero(plan.shares > least / len(specs)).tolist()
        few = BundlePlan.in_turn([specs[i] for i in busy], [answers[i] for i in busy], layout)
        if few.error <= plan.error * (1 + WORTH_FEWER):
            return few
    return plan


def worth(layout: TurnLayout, epsilon: float) -> float:
    """The share of the rows that a bundle in turn is worth for a column: the harmonic mean over the columns.

    n·E‖p̂ − p‖² of a column is 1 − 1/k without protection, at the even distribution, and 1 / Σ π/m with it.
    """
    plan = turn_plan(layout, epsilon)
    if plan is None:
        return 0.0
    assert plan.shares is not None
    found = []
    for c in [*([SECRET] if layout.with_secret else []), *range(len(layout.sizes))]:
        k, held = layout.size(c), zip(plan.specs, plan.answers, plan.shares, strict=True)
        if k > 1:
            told = sum(x / a.noise((c,), layout.size) for s, a, x in held if c in s.all)
            found.append(1 / ((1 - 1 / k) * told) if told else math.inf)
    return 1 / float(np.mean(found)) if found else 1.0


def _below(level: float) -> float:
    """Rounded down to nine digits, as answers are known by."""
    return math.floor(level * 1e9) / 1e9


def turn_specs(layout: TurnLayout, *, beside: bool = True) -> list[Spec]:
    """Parts that rows may take turns at: one for each wanted table, and the same with the secret `beside` it.

    Which of them get rows is left to the division: with a secret of few values small tables are told better with it
    (the ratio of rows of one secret may be e^{2ε}), large ones without, and single columns get some of their own.
    """
    tables = [(tuple(c for c in t if c != SECRET), SECRET in t) for t in layout.wanted()]
    apart = [Spec(u, reads) for u, reads in tables]
    both = [Spec(u, True) for u, _ in tables] if layout.with_secret and beside else []
    every = dict.fromkeys([*apart, *(both if len(apart) + len(both) <= MOST_PARTS else ())])
    return sorted(every, key=lambda s: (max(s.columns, default=SECRET), s.columns))  # columns in the order given


def useful_of(columns: Columns, spec: Spec) -> Alphabet:
    return Alphabet(tuple(columns.useful[c] for c in spec.columns))


def turns_of(shares: Floats | None) -> tuple[int, ...] | None:
    """Shares as integers that sum to 2^62."""
    if shares is None:
        return None
    whole = [max(1, math.floor(math.ldexp(float(x), MOST_BITS))) for x in shares]
    whole[int(np.argmax(shares))] += 2**MOST_BITS - sum(whole)
    return tuple(whole)


# --- tables of two columns that are worth their rows ------------------------------------------------------------------
# A table that is not asked about is taken to be independent, which costs the square of its dependence; one that is
# asked about costs its noise, and rows of the others. So the tables with most dependence are asked about, as many as
# make the expected error of all least.


@dataclass(frozen=True, slots=True, eq=False)
class Adapted:
    """The tables that are asked about, and the noisy counts behind each part that will be, with what they cost."""

    layout: TurnLayout
    joints: dict[Spec, Joint]
    note: str


def adapted(columns: Columns, layout: TurnLayout, spent: float, epsilon: float, seed: int | None = None) -> Adapted:
    """Tables chosen by counts with noise, ε_d in all for every person; ε is what is left for the rows.

    Each part's table is counted with an equal share of ε_d, those that are then left out too: what was paid for them is
    entered with those that stay, so that the file tells all of it.
    """
    if spent <= 0:
        raise InputError(f"{option('--design-epsilon', 'design_epsilon=')} must be positive", value=spent)
    pairs = [t for t in layout.wanted() if len(t) == 2 and SECRET not in t]
    every = range(len(layout.sizes))
    singles = [Spec((c,), True) for c in every]
    specs = [*(Spec(pair, True) for pair in pairs), *singles]
    exact = columns.tables([(columns.secret, useful_of(columns, s)) for s in specs])
    share = math.floor(spent / len(specs) * 1e9) / 1e9
    below: Below = secrets.randbelow if seed is None else random.Random(seed).randrange
    drawn = {s: noisy_counts(joint, share, public=True, below=below) for s, joint in zip(specs, exact, strict=True)}
    chosen = _worth_their_rows({pair: drawn[Spec(pair, True)] for pair in pairs}, layout, epsilon)
    parts = [*(Spec(pair, True) for pair in chosen), *(s for s in singles if s.columns[0] not in sum(chosen, ()))]
    asked = [*((c,) for c in (SECRET, *every)), *((SECRET, c) for c in every), *chosen]
    joints = {s: _charged(drawn[s], share * len(specs) / len(parts), seed is not None) for s in parts}
    note = (
        f"ε_d = {share * len(specs):g} went to noisy counts of {len(specs)} tables, by which {len(chosen)} of "
        f"{len(pairs)} tables of two columns are worth their rows; another design draws anew, and costs as much again"
    )
    return Adapted(replace(layout, asked=tuple(asked), with_secret=True), joints, note)


def _charged(joint: Joint, spent: float, seeded: bool) -> Joint:
    """The counts with what was paid for them, and for those that are left out."""
    assert joint.noise is not None
    noise = replace(joint.noise, epsilon=spent)
    return replace(joint, noise=replace(noise, sampler=SEEDED) if seeded else noise)


def _worth_their_rows(
    tables: dict[tuple[int, ...], Joint], layout: TurnLayout, epsilon: float
) -> list[tuple[int, ...]]:
    """As many of the most dependent pairs as make a²·m/n + Σ_left δ² least: a of them share the rows."""
    told = {pair: _dependence(joint, [layout.size(c) for c in pair]) for pair, joint in tables.items()}
    order = sorted(told, key=lambda pair: -told[pair])
    n = next(iter(tables.values())).n or 1
    costs = np.cumsum([Spec(pair, True).answer(layout, epsilon).noise(pair, layout.size) for pair in order])
    left = sum(told.values()) - np.cumsum([told[pair] for pair in order])
    every = [sum(told.values()), *((a + 1) * costs[a] / n + left[a] for a in range(len(order)))]
    return sorted(order[: int(np.argmin(every))])


def _dependence(joint: Joint, sizes: Sequence[int]) -> float:
    """‖p(a, b) − p(a) p(b)‖² less what noise and rows add to it on average, at least 0."""
    assert joint.noise is not None and joint.n is not None
    p: Floats = joint.p.sum(0).reshape(sizes)
    away = float(((p - np.outer(p.sum(1), p.sum(0))) ** 2).sum())
    cell = 2 * joint.noise.scale**2 * joint.shape[0] / joint.n**2 + 1 / (joint.n * p.size)
    return max(0.0, away - math.prod(k - 1 for k in sizes) * cell)


# --- what would make the errors of a bundle smaller -------------------------------------------------------------------


def layout_of(bundle: Bundle) -> TurnLayout:
    """The columns of a bundle by size, and the tables that its parts hold."""
    names = bundle.useful.names
    order = max(len(part.useful.columns) for part in bundle.parts)
    sizes = tuple(c.size for c in bundle.useful.columns)
    return TurnLayout(bundle.secret.size, sizes, (1.0,) * len(names), bundle.reads == "both", min(2, order))


def helps(bundle: Bundle) -> list[Help]:
    """Ways to smaller errors of a share on average, the best first, by plans with and without them."""
    rows = Help("twice as many rows", math.sqrt(0.5))
    if bundle.claim is None or bundle.claim.assuming != "nothing" or not bundle.claim.epsilon:
        return [rows]
    layout, epsilon = layout_of(bundle), bundle.claim.epsilon
    now = least_error(layout, epsilon)
    tried = {f"ε = {2 * epsilon:g} instead of {epsilon:g}": least_error(layout, 2 * epsilon)}
    if (k := len(layout.sizes)) > 2:
        fewest = sorted(range(k), key=lambda c: layout.sizes[c])[: (k + 1) // 2]
        few = replace(layout, sizes=tuple(layout.sizes[c] for c in fewest), weights=(1.0,) * len(fewest))
        tried[f"the {len(fewest)} useful columns with the fewest values"] = least_error(few, epsilon)
    widest = max(range(k), key=lambda c: layout.sizes[c])
    if layout.sizes[widest] > 3:
        half = (layout.sizes[widest] + 1) // 2
        coarse = replace(layout, sizes=tuple(half if c == widest else x for c, x in enumerate(layout.sizes)))
        name = bundle.useful.columns[widest].name
        tried[f"{half} instead of {layout.sizes[widest]} values of {name}"] = least_error(coarse, epsilon)
    found = [Help(what, math.sqrt(x / now)) for what, x in tried.items() if 0 < x < now]
    return sorted([*found, rows], key=lambda h: h.times)[:HELPS]


def least_error(layout: TurnLayout, epsilon: float) -> float:
    """n times the mean square error of a share, by the plan in turn."""
    plan = turn_plan(layout, epsilon)
    return math.inf if plan is None else plan.error
