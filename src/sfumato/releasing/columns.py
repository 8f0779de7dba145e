"""Which columns are useful when nobody says: as many categorical ones as leave each worth something, the smallest
first, or all of them where a bundle takes them; and that bundle, where it is asked for or worth more.

It is decided from the number of rows, the numbers of different values and ε alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato import composing, designers
from sfumato.alphabet import Alphabet, Column, spelled
from sfumato.composing import plans
from sfumato.composing.sharing import TurnLayout
from sfumato.decimals import capitalised, percent
from sfumato.designers.base import Task
from sfumato.designers.worth import LITTLE, Closed, worth_of_one
from sfumato.errors import InputError, binned, grouped, listed, option
from sfumato.joint import Joint
from sfumato.noise import LABELS
from sfumato.optimise.budget import heard_by
from sfumato.optimise.estimates.goal import untouched_errors
from sfumato.releasing.spending import split
from sfumato.releasing.wishes import BinWish, Listener, Wishes, learned, without
from sfumato.sources import Source
from sfumato.sources.values import MOST_COUNTED, USUAL_BINS, automatic_edges, label_counts, many_numbers
from sfumato.tolerances import BLOCK
from sfumato.uncertainty import Anything, ChiSquareBall, UncertaintySet

if TYPE_CHECKING:
    from sfumato.alphabet import Label
    from sfumato.composing import BundleDesign


@dataclass(frozen=True, slots=True)
class Choosing:
    """Which columns are chosen where nobody named them."""

    cells: int = 1_000  # of the table of secret and useful columns, where nobody named them
    rows: int = 5  # on average at least, or the confidence ball is too wide to be of use
    categories: int = 64  # of a categorical column
    rivals: int = 3  # useful columns from which on a bundle is another thing than one mechanism
    glance: float = 2.0  # seconds of a search that only tells what one mechanism would be worth
    counts: float = 0.25  # of ε for the counts, where noisy ones are asked for by name and no ε_d is


CHOOSING = Choosing()
CUT, MONTHS = option("--bins COL=5", "bins={'COL': 5}"), option("--bins COL=month", "bins={'COL': 'month'}")
USEFUL = option("--useful", "useful=")
ONE = option("--columns one", "columns='one'")


@dataclass(frozen=True, slots=True)
class Choice:
    """The columns taken and those left out, with why."""

    useful: tuple[str, ...]
    left_out: Mapping[str, str]

    @property
    def sentence(self) -> str:
        """What was chosen, by what, and what was not."""
        by = "by the numbers of rows and of different values and by ε"
        return f"Useful columns, chosen {by}: {listed(self.useful)} (others: {USEFUL})." + (
            f" Left out: {self.left}." if self.left else "")

    @property
    def left(self) -> str:
        """What was left out, with why."""
        kinds = dict.fromkeys(self.left_out.values())  # a column may have no name, as that of an index often has
        named = {why: [n or "''" for n, x in self.left_out.items() if x == why] for why in kinds}
        return "; ".join(f"{listed(names)} {why}" for why, names in named.items())


def cut(basis: Source, wishes: Wishes, keep: Sequence[str], *, exact: bool = True) -> Wishes:
    """The wishes with bins for every column of many numbers, where nobody said how to cut them: with edges, or where
    these may not be exact facts about the rows with their number alone."""
    if wishes.numbers != "bins":
        if wishes.numbers != "labels":
            raise InputError("numbers must be 'bins' or 'labels'", value=wishes.numbers)
        return wishes
    ruled = {*(wishes.bins or {}), *(wishes.labels or {}), *(wishes.rare if isinstance(wishes.rare, Mapping) else ())}
    named = {*wishes.secret, *wishes.useful} if wishes.useful else set(basis.columns) - {*keep}
    free = [name for name in basis.columns if name in named and name not in ruled]
    found: dict[str, BinWish] = {}
    if basis.cluster is None:
        found = {n: x.tolist() for n, x in automatic_edges(basis, free).items()} if exact else dict.fromkeys(
            many_numbers(basis, free), USUAL_BINS)
    if not exact and (about := [n for n in found if n in wishes.secret]):
        raise InputError(
            f"the secret {about[0]!r} holds many different numbers",
            next=f"Say where it is cut ({binned(about[0], [20, 50])}): that must not rest on anybody's secret.",
        )
    return replace(wishes, bins={**(wishes.bins or {}), **found} or None, automatic=tuple(found))


def chosen(
    basis: Source, wishes: Wishes, keep: Sequence[str], known: Sequence[str], *, bundle: bool
) -> tuple[Wishes, Choice | None]:
    """The wishes with useful columns among the `known` ones, and how they were chosen when none were named.

    Rules for columns that were not taken are dropped, since nobody asked for these columns.
    """
    if wishes.useful:
        return wishes, None
    other = [c for c in basis.columns if c in known and c not in wishes.secret and c not in keep]
    choice = categorical_columns(basis, wishes, other) if bundle else useful_columns(basis, wishes, other)
    return wishes.about(choice.useful, among=other), choice


def as_bundle(basis: Source, wishes: Wishes) -> bool:
    """Whether the columns are for a bundle of mechanisms: because it was asked for, or their table is too large.

    Where one mechanism could be designed too, what either is worth decides (`planning.planned`).
    """
    given = {"assuming": wishes.assuming != "nothing", "tables": bool(wishes.tables)}
    if wishes.columns != "one" and (wishes.columns == "bundle" or any(given.values())):
        return True
    for name in (name for name, there in given.items() if there):
        raise InputError(f"{option(f'--{name}', f'{name}=')} is for a bundle", next=f"Leave out {ONE}.")
    return wishes.columns == "auto" and len(wishes.useful) >= CHOOSING.rivals and not fits_one_table(basis, wishes)


def fits_one_table(basis: Source, wishes: Wishes) -> bool:
    """Whether the columns named make a table that one mechanism can be designed for."""
    sizes, _ = label_sizes(basis, wishes, [*wishes.secret, *wishes.useful])
    return math.prod(size or CHOOSING.categories for size in sizes.values()) <= BLOCK


CONSTANT = "(a single value)"
NUMBERS = "(too many different values to be categories)"
LARGE = "would make too many cells: with them some column would be worth less than 1 % of its rows"


def categorical_columns(source: Source, wishes: Wishes, other: Sequence[str]) -> Choice:
    """Every categorical column among `other`."""
    sizes, _ = label_sizes(source, wishes, other)
    taken = tuple(c for c in other if _categorical(sizes[c]))
    left = {n: _unfit(sizes[n]) for n in other if n not in taken}
    if not taken:
        raise _nothing_useful(source, Choice(taken, left))
    return Choice(taken, left)


def useful_columns(source: Source, wishes: Wishes, other: Sequence[str]) -> Choice:
    """Categorical columns among `other`, smallest first, as long as their table with the secret has few enough cells
    and each column is worth something.

    A column is categorical when it has 2 to CHOOSING.categories labels after binning and grouping of rare ones.
    """
    sizes, rows = label_sizes(source, wishes, [*wishes.secret, *other])
    limit = min(CHOOSING.cells, max(rows // CHOOSING.rows, 4))
    if rows == 1:
        return Choice(tuple(other[:1]), dict.fromkeys(other[1:], LARGE))  # tabulate says what is wrong with one row
    few, taken = math.prod(sizes[name] or MOST_COUNTED for name in wishes.secret), dict[str, int]()
    if 2 * few > limit:
        raise InputError(_too_many(source, wishes, sizes, limit))
    for name in sorted(other, key=lambda n: sizes[n] or MOST_COUNTED):
        table = [*taken.values(), sizes[name] or 0]
        fits = _categorical(sizes[name]) and few * math.prod(table) <= limit
        if fits and (not taken or worth(rows, few, table, wishes) >= LITTLE):
            taken[name] = table[-1]
    left = {n: _unfit(sizes[n]) for n in other if n not in taken}
    if not taken:
        raise _nothing_useful(source, Choice((), left), f" and fits beside the secret into {limit:,} cells")
    return Choice(tuple(n for n in other if n in taken), left)


def _unfit(size: int | None) -> str:
    """Why a column was not taken."""
    return LARGE if _categorical(size) else NUMBERS if size is None or size > 1 else CONSTANT


def _nothing_useful(source: Source, choice: Choice, room: str = "") -> InputError:
    """Why no column could be chosen, and how one is named."""
    if not choice.left_out:
        return InputError("has no column beside the secret that could be useful", where=source.name,
                          next="Give a table with another one; for one question asked of people there is sf.Survey.")
    return InputError(
        f"no other column of {source.name} is categorical{room}: {choice.left}",
        next=f"Name one with {USEFUL} that varies; cut numbers with {CUT}, dates with "
        f"{MONTHS}.",
    )


def _categorical(size: int | None) -> bool:
    return size is not None and 2 <= size <= CHOOSING.categories


def worth(rows: int, secrets: int, useful: Sequence[int], wishes: Wishes) -> float:
    """The share of their rows that all columns of these sizes are worth, at least, to whoever estimates: by the closed
    form for any distribution that is best for the worst of them, at even weights, times what counts with noise bring
    where there are rows enough for them."""
    if secrets < 2:
        return 1.0  # counting says that there is nothing to protect
    columns = (Column.of(str(i), range(k)) for i, k in enumerate(useful))
    joint = Joint.uniform(Alphabet.named("secret", secrets), Alphabet.of(*columns))
    epsilon = wishes.epsilon * (1 - LABELS if wishes.design != "exact" else 1)
    plain = untouched_errors(joint, wishes.reads)
    parts = [k for k in plain if k not in ("joint", "useful")]
    found = Closed.of(Task(Anything(joint), epsilon, reads=wishes.reads)).drafts.values()
    least = max((min(plain[k] / errors[k] for k in parts) for _, errors in found), default=0.0)
    if least >= LITTLE or wishes.design == "any" or not wishes.searched or not epsilon:
        return least
    return least * split(rows, *joint.shape, epsilon, max(wishes.at_most or epsilon, epsilon)).times


def label_sizes(source: Source, wishes: Wishes, names: Sequence[str]) -> tuple[dict[str, int | None], int]:
    """How many labels each column will have after binning and grouping (None when it is not categorical), and all rows.
    """
    labels, rows = label_counts(source, names)
    return {name: size_of(labels[name], wishes, name, rows) for name in names}, rows


def _too_many(source: Source, wishes: Wishes, sizes: dict[str, int | None], limit: int) -> str:
    shown = ", ".join(f"{n} {sizes[n] or f'more than {MOST_COUNTED}'}" for n in wishes.secret)
    return (
        f"the secret has too many distinct values in {source.name} ({shown}) to find useful columns beside it within "
        f"{limit:,} cells: is it a number or an identifier? {coarser(wishes.secret[0])}, or name the useful columns "
        f"({USEFUL})."
    )


def coarser(name: str, labels: Sequence[object] | None = None) -> str:
    """What to do about a column with too many values: bins are for numbers, and rare labels can always be grouped.

    >>> from sfumato import errors
    >>> errors.spelled(coarser("town", ["Aa", "Bee"]), shell=True)
    'Group rare labels (--rare town=20)'
    """
    if labels is not None and not all(map(_number, labels)):
        return f"Group rare labels ({grouped(name)})"
    return f"Bin it if it is a number ({binned(name, 5)}), group rare labels ({grouped(name)})"


def _number(label: object) -> bool:
    try:
        return label is None or math.isfinite(float(str(label)))
    except ValueError:
        return False


def size_of(labels: Counter[Label] | None, wishes: Wishes, name: str, rows: int) -> int | None:
    """How many labels the column will have, or None when it is not categorical."""
    if (given := (wishes.labels or {}).get(name)) is not None:
        return given.size if isinstance(given, Column) else len(given)
    rule = (wishes.bins or {}).get(name)
    if rule is not None:
        own = rule if isinstance(rule, int) else len(_dated(labels, rule)) if isinstance(rule, str) else len(rule) + 1
        return own + (labels is not None and None in labels)
    if labels is None:
        return None
    least = wishes.rare.get(name, 0) if isinstance(wishes.rare, Mapping) else wishes.rare or 0
    least = least * rows if 0 < least < 1 else least
    kept = [x for x, n in labels.items() if x is None or n >= least]
    return len(kept) + (len(kept) < len(labels))


def _dated(labels: Counter[Label] | None, part: str) -> set[str]:
    """The parts of dates among labels; where they are too many to have been counted, as many as there may be."""
    if labels is None:
        return {str(i) for i in range(CHOOSING.categories)}
    return {spelled(x, part) for x in labels if x is not None}


# --- bundles: many columns under one promise, and whether one is worth more than a mechanism for all ------------------


SINGLE = {  # wishes that only a single mechanism can have, with what they are when nobody wishes them
    "method": "auto", "aim": None, "notion": "rldp", "reads": "both", "gap": None, "distance": None, "values": None,
    "outputs": None, "releases": None,
}


def rival(wishes: Wishes, joint: Joint) -> str | None:
    """Why a bundle for the columns that were named is worth more than one mechanism for all; None where it is not.

    Both are compared by the rows that a release is worth for a column, on average, as far as the numbers of rows and of
    labels tell it: designs for an even table of as many rows, by a short search. So nothing is told by the choice.
    """
    weighed = wishes.columns == "auto" and len(wishes.useful) >= CHOOSING.rivals
    usual = all(getattr(wishes, name) == value for name, value in SINGLE.items())
    if not weighed or not usual or joint.secret.size < 2 or not joint.n:
        return None
    even = Joint.from_counts(np.full(joint.shape, max(1, joint.n // joint.p.size)), joint.secret, joint.useful)
    free = wishes.design == "any" or wishes.at_most == wishes.epsilon
    within: UncertaintySet = Anything(even) if free else ChiSquareBall(even, confidence=wishes.confidence)
    sizes = tuple(c.size for c in joint.useful.columns)
    share = plans.worth(TurnLayout(joint.secret.size, sizes, (1.0,) * len(sizes)), wishes.epsilon)
    made = designers.design(within, wishes.epsilon, "auto", aim="estimates", time_limit=CHOOSING.glance)
    one = worth_of_one(made.mechanism, even)
    if share <= one:
        return None
    return (
        f"a bundle is expected to be worth {percent(share)} of the rows for a column, one mechanism for all "
        f"{len(sizes)} columns {percent(one)} ({ONE} for that one)"
    )


def bundled(
    basis: Source, wishes: Wishes, keep: Sequence[str], known: Sequence[str], listener: Listener, *, origin: str,
    told_all: bool, seed: int | None,
) -> tuple[BundleDesign, tuple[str, ...], Choice | None]:
    """A bundle of mechanisms, designed, sealed and certified, with its notes and how its columns were chosen."""
    _check(wishes, told_all)
    wishes, choice = chosen(basis, wishes, keep, known, bundle=True)
    if not told_all and wishes.unsaid:
        raise _untold(wishes.unsaid)
    listener.say(f"A bundle of mechanisms for {listed(wishes.useful)} ({ONE} for a single table).")
    for_tables = None if wishes.design != "noisy" or told_all else (
        round(CHOOSING.counts * wishes.epsilon, 6) if wishes.design_epsilon is None else wishes.design_epsilon)
    with listener.search(f"designing for {len(wishes.useful)} columns") as heard, heard_by(heard):
        made = composing.bundle(
            basis, list(wishes.secret), list(wishes.useful), wishes.epsilon, assuming=wishes.assuming,
            confidence=wishes.confidence, missing=wishes.missing, bins=wishes.bins, rare=wishes.rare, origin=origin,
            labels=wishes.labels, unseen=wishes.unseen, tables=wishes.tables or 2, seed=seed,
            design_epsilon=for_tables, time_limit=wishes.time_limit,
            at_most=wishes.at_most if wishes.assuming == "tables" else None,
        )
    said = without(wishes.bins, wishes.automatic) or {}
    edges = [name for name, rule in said.items() if not isinstance(rule, (int, str))]
    found = [c for c in (*wishes.secret, *wishes.useful) if c not in edges and c not in (wishes.labels or {})]
    return made, (*made.notes, *(learned(found) if made.bundle.confidence is not None else ())), choice


def _check(wishes: Wishes, told_all: bool) -> None:
    """Refuse what only one mechanism can have, or what cannot be promised of this table."""
    if single := [name for name, usual in SINGLE.items() if getattr(wishes, name) != usual]:
        spelt = listed([option(f"--{name.replace('_', '-')}", f"{name}=") for name in single])
        one = len(single) == 1
        raise InputError(f"{spelt} {'is' if one else 'are'} for a single mechanism",
                         next=f"Leave {'it' if one else 'them'} out for a bundle.")
    if wishes.at_most is not None and wishes.assuming in ("star", "tree"):
        raise InputError(
            f"a bundle that assumes a {wishes.assuming} has no second promise; one that assumes nothing needs none",
            next=f"Leave out {option('--assuming', 'assuming=')} or {option('--at-most', 'at_most=')}.",
        )
    if not told_all and wishes.assuming != "nothing":
        raise InputError(
            f"a bundle that assumes {wishes.assuming} has exact counts of the table in its file",
            next=f"Ask for that by name ({option('--design exact', 'design=exact')}), or assume nothing.",
        )


def _untold(columns: Mapping[str, BinWish | None]) -> InputError:
    """Why a bundle cannot have these columns of a private table, all of them, and what would do for each."""
    counted = [name for name, rule in columns.items() if isinstance(rule, int)]
    cut = [name for name, rule in columns.items() if isinstance(rule, list)]
    named = [name for name in columns if name not in (*counted, *cut)]
    edges = listed([binned(name, [20, 50]) for name in counted])
    refuse = option("--missing refuse", "missing='refuse'")
    public, exact = option("--public-labels all", "public='all'"), option("--design exact", "design='exact'")
    said = [
        (counted, f"edges of {listed(counted)} would be taken from the rows", f"give edges ({edges})"),
        (cut, f"whether values of {listed(cut)} are missing would be told",
         f"have missing values refused ({refuse}) or say that this is public ({public})"),
        (named, f"labels of {listed(named)} would be told as they are found",
         f"say that labels are public ({public}) or list them ({option('--labels', 'labels=')})"),
    ]
    why, ways = [x for names, x, _ in said if names], [x for names, _, x in said if names]
    told = listed(ways)
    return InputError(
        f"a bundle cannot pay for what it tells of columns, and nobody said that this is public: {'; '.join(why)}",
        next=f"{capitalised(told)}, leave columns out, or ask for all of it exactly ({exact}).",
    )
