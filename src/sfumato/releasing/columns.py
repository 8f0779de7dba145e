"""Which columns are useful when nobody says: as many categorical ones as leave each worth something, the smallest
first, or all of them where a bundle takes them.

It is decided from the number of rows, the numbers of different values and ε alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.alphabet import Alphabet, Column, spelled
from sfumato.designers.aiming import LITTLE, Closed
from sfumato.designers.base import Task
from sfumato.designers.splitting import split
from sfumato.errors import InputError, binned, grouped, listed, option
from sfumato.joint import Joint
from sfumato.noise import LABELS
from sfumato.optimise.estimates.goal import untouched_errors
from sfumato.releasing.wishes import Wishes
from sfumato.sources import Source
from sfumato.sources.values import MOST_COUNTED, USUAL_BINS, automatic_edges, label_counts, many_numbers
from sfumato.tolerances import BLOCK
from sfumato.uncertainty import Anything

if TYPE_CHECKING:
    from sfumato.alphabet import Label
    from sfumato.releasing.wishes import BinWish


@dataclass(frozen=True, slots=True)
class Choosing:
    """Which columns are chosen where nobody named them."""

    cells: int = 1_000  # of the table of secret and useful columns, where nobody named them
    rows: int = 5  # on average at least, or the confidence ball is too wide to be of use
    categories: int = 64  # of a categorical column
    rivals: int = 3  # useful columns from which on a bundle is another thing than one mechanism


CHOOSING = Choosing()
CUT = option("--bins COL=5", "bins={'COL': 5}")
USEFUL = option("--useful", "useful=")


@dataclass(frozen=True, slots=True)
class Choice:
    """The columns taken and those left out, with why."""

    useful: tuple[str, ...]
    left_out: Mapping[str, str]

    @property
    def sentence(self) -> str:
        """What was chosen, by what, and what was not."""
        by, kinds = "by the numbers of rows and of different values and by ε", dict.fromkeys(self.left_out.values())
        left = "; ".join(f"{listed([n for n, x in self.left_out.items() if x == why])} {why}" for why in kinds)
        return f"Useful columns, chosen {by}: {listed(self.useful)} (others: {USEFUL})." + (
            f" Left out: {left}." if left else "")


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


def has_rival(wishes: Wishes) -> bool:
    """Whether a bundle for the columns that were named is weighed against one mechanism for all of them."""
    return wishes.columns == "auto" and len(wishes.useful) >= CHOOSING.rivals


def as_bundle(basis: Source, wishes: Wishes) -> bool:
    """Whether the columns are for a bundle of mechanisms: because it was asked for, or their table is too large.

    Where one mechanism could be designed too, what either is worth decides (`planning.planned`).
    """
    given = {"assuming": wishes.assuming != "nothing", "tables": bool(wishes.tables)}
    if wishes.columns != "one" and (wishes.columns == "bundle" or any(given.values())):
        return True
    for name in (name for name, there in given.items() if there):
        single = option("--columns one", "columns='one'")
        raise InputError(f"{option(f'--{name}', f'{name}=')} is for a bundle", next=f"Leave out {single}.")
    return wishes.columns == "auto" and len(wishes.useful) >= CHOOSING.rivals and not fits_one_table(basis, wishes)


def fits_one_table(basis: Source, wishes: Wishes) -> bool:
    """Whether the columns named make a table that one mechanism can be designed for."""
    sizes, _ = label_sizes(basis, wishes, [*wishes.secret, *wishes.useful])
    return math.prod(size or CHOOSING.categories for size in sizes.values()) <= BLOCK


NUMBERS = "(a single value, or too many to be categories)"
LARGE = "would make too many cells: with them some column would be worth less than 1 % of its rows"


def categorical_columns(source: Source, wishes: Wishes, other: Sequence[str]) -> Choice:
    """Every categorical column among `other`."""
    sizes, _ = label_sizes(source, wishes, other)
    taken = tuple(c for c in other if _categorical(sizes[c]))
    if not taken:
        raise InputError(
            f"no other column of {source.name} is categorical",
            next=f"Name the useful columns with {USEFUL}, and bin numeric ones with {CUT}.",
        )
    return Choice(taken, {c: NUMBERS for c in other if c not in taken})


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
    if not taken:
        raise InputError(
            f"no other column of {source.name} is categorical and fits beside the secret into {limit:,} cells",
            next=f"Name the useful columns with {USEFUL}, and bin numeric ones with {CUT}.",
        )
    left = {n: LARGE if _categorical(sizes[n]) else NUMBERS for n in other if n not in taken}
    return Choice(tuple(n for n in other if n in taken), left)


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
