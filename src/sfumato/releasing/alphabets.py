"""Alphabets: labels and edges that nobody gave, as far as a private table may tell them, and what that costs.

Labels are in the mechanism file: one that a single person has would tell of them. So labels enter by a stable histogram
and edges of bins as noisy quantiles (`sfumato.noise`), paid from ε with everything else, unless somebody says that they
are public. What is told here is kept beside the table, since finding it out again would cost its ε once more.

Where nobody names the useful columns, the secret's labels come first: the choice may rest on how many were told, and on
nothing else about the secret.
"""

from __future__ import annotations

import hashlib
import math
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.alphabet import Alphabet, Column, Label, spelled
from sfumato.atomic import check_folder
from sfumato.errors import At, InputError, OutputError, binned, listed, option
from sfumato.joint import Joint, Noise
from sfumato.mechanism import load_counts
from sfumato.noise import CLEAR, DIGITS, LABELS, SEEDED, Below, common, edge, named, round_numbers, two_sided
from sfumato.releasing.columns import coarser
from sfumato.releasing.wishes import Wishes, without
from sfumato.sources import Source
from sfumato.sources.tabulation import arranged, dtype_of
from sfumato.sources.values import label_counts, value_counts

if TYPE_CHECKING:
    from sfumato.releasing.wishes import BinWish
    from sfumato.sources.places import Where

COMMON = 0.01  # of the people: labels that so many have are wanted, and no more ε than they need is spent
SECRET_SHARE = 0.25  # of it for the secret, where columns are chosen after it: about one in as many as are chosen
STEPPED = 0.001  # of ε, in which it is spent: numbers that people can add up


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What was paid for, and the place where it is kept, so that it is not paid for again."""

    joint: Joint
    place: Path
    again: bool = False  # labels are there already, and counts are added to them

    @property
    def is_there(self) -> bool:
        """Whether this very draw is kept already."""
        own = self.joint.noise
        found = load_counts(self.place).noise if self.place.exists() else None
        return found is not None and own is not None and (found.draw, found.counts) == (own.draw, own.counts)


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """Wishes in which every column has its labels and edges, and what was paid for those that nobody gave."""

    wishes: Wishes
    noise: Noise | None = None  # None: nothing was looked at
    notes: tuple[str, ...] = ()
    place: Path | None = None  # where it is kept
    counts: Joint | None = None  # what was kept there before

    @property
    def paid(self) -> float:
        """The ε of it."""
        return 0.0 if self.noise is None else self.noise.epsilon

    @property
    def alone(self) -> Kept | None:
        """The labels of the secret, where they were drawn by themselves and are to be kept."""
        if self.noise is None or self.counts is not None or self.place is None:
            return None
        given = self.wishes.labels or {}
        alphabet = Alphabet.of(*(x for x in map(given.get, self.wishes.secret) if isinstance(x, Column)))
        return Kept(Joint.uniform(alphabet, Alphabet.of(), self.noise), self.place)


def learnt(
    source: Source, wishes: Wishes, seed: int | None, path: Where | None = None, first: Learnt | None = None
) -> Learnt:
    """What the table tells of its labels and edges, or told before, if it is a file and that is kept beside it.

    Without useful columns it tells the secret's, for a part of what labels may cost; `first` is what it told so.
    """
    source.check_reading((*wishes.secret, *wishes.useful))
    file = path if seed is None and isinstance(path, Path) else None
    place = None if file is None else kept_at(file, wishes)
    told = _said(wishes)
    if file is not None and place is not None and place.exists():
        return _told_before(file, place, wishes, told)
    found, before = wishes.unsaid, None if first is None else first.noise
    heard = () if first is None else first.notes
    if found or wishes.design == "noisy":
        check_kept(place)
    if not found:
        return Learnt(wishes, before, tuple(dict.fromkeys((*heard, *told))), place)
    columns, own, labelled = _drawn(source, wishes, found, before, seed)
    whole = own if before is None else replace(
        own, epsilon=round(own.epsilon + before.epsilon, 9), delta=own.delta + before.delta
    )
    told_all = dict.fromkeys((*heard, *_sentences(columns, labelled, own), *_again(wishes, labelled), *told))
    return Learnt(_with(wishes, columns), whole, tuple(told_all), place)


def _told_before(file: Path, place: Path, wishes: Wishes, told: tuple[str, ...]) -> Learnt:
    """What is kept beside the table, if the table has not been written since."""
    if file.stat().st_mtime > place.stat().st_mtime:
        raise InputError(
            f"was written after {place.name}, which tells of the table as it was",
            next="Remove that file if the rows are others: what is told is then drawn anew, at its own ε_d. If "
            "they are the same, touch it.", where=file.name,
        )
    kept = load_counts(place)
    columns = {c.name: c for c in (*kept.secret.columns, *kept.useful.columns)}
    notes = (*_others(columns), *_paid_before(kept, place), *told)
    return Learnt(_with(wishes, columns), kept.evened.noise, notes, place, kept)


def _drawn(
    source: Source, wishes: Wishes, found: Mapping[str, BinWish | None], before: Noise | None, seed: int | None
) -> tuple[dict[str, Column], Noise, list[str]]:
    """Labels and edges of the columns of which nobody said them, what they cost, and which of them have labels."""
    if wishes.epsilon == 0:
        what = f"at ε = 0 nothing is told, not even the labels of {listed(list(found))}"
        raise InputError(what, next="Give an ε above 0.")
    if not 0 < wishes.delta < 1:
        raise InputError(f"{option('--delta', 'delta')} must lie strictly between 0 and 1", value=wishes.delta)
    counts, rows = label_counts(source, list(found))
    share = SECRET_SHARE if not wishes.useful else 1.0 if before is None else 1 - SECRET_SHARE
    part, budget = share * wishes.delta, _priced(wishes, found, rows, share)
    below = secrets.randbelow if seed is None else random.Random(seed).randrange
    draw = named(below)
    labelled = [name for name, rule in found.items() if not isinstance(rule, (int, list))]
    delta = part / max(1, len(labelled))
    columns = {
        name: _edged(source, wishes, name, rule, rows, budget[name], below) if isinstance(rule, (int, list)) else
        _labelled(wishes, name, counts[name], rule, rows, budget[name], delta, below)
        for name, rule in found.items()
    }
    own = Noise(float(sum(budget.values())), rows, part if labelled else 0.0, draw=draw)
    return columns, own if seed is None else replace(own, sampler=SEEDED), labelled


def _paid_before(kept: Joint, place: Path) -> tuple[str, ...]:
    """What labels that are kept took; with counts beside them it is told of both (`basis`)."""
    if kept.noise is None or kept.counts is not None:
        return ()
    delta = f", δ = {kept.noise.delta:g}" if kept.noise.delta else ""
    names = listed([*kept.secret.names, *kept.useful.names])
    return (f"ε = {kept.noise.epsilon:g}{delta} went to labels and edges of {names}, kept in {place.name}: paid once",)


def check_kept(place: Path | None) -> None:
    """Refuse before anything is drawn that could not be kept: whoever draws again would pay again."""
    if place is None:
        return
    try:
        check_folder(place)
    except OutputError as error:
        raise OutputError(
            f"what noise tells of the table is kept, so that it is paid for once; {place.name} cannot be: {error.what}",
            next=f"Say in which folder it can be kept ({option('--counts-in DIR', 'counts_in=')}).",
        ) from None


def _said(wishes: Wishes) -> tuple[str, ...]:
    """What is in the file because somebody called it public."""
    names = [n for n in (*wishes.secret, *wishes.useful) if wishes.is_public(n) and n not in (wishes.labels or {})]
    if not names:
        return ()
    return (f"the labels of {listed(names)} are told as they are found: they count as public, as was said",)


def _sentences(columns: Mapping[str, Column], labelled: list[str], noise: Noise) -> list[str]:
    cut = [name for name in columns if name not in labelled]
    what = [f"labels of {listed(labelled)} that many people have"] if labelled else []
    what += [f"edges of {listed(cut)} near quantiles"] if cut else []
    delta = f", δ = {noise.delta:g}" if noise.delta else ""
    paid = (f"ε = {noise.epsilon:g}{delta} went to {' and '.join(what)} (public ones cost nothing: the options labels, "
            "public-labels and bins)")
    return [*_others(columns), paid]


def _again(wishes: Wishes, labelled: list[str]) -> list[str]:
    """That labels of the secret are found anew by another release, and how they stay what they are."""
    secret = [name for name in labelled if name in wishes.secret]
    fixed = option("--labels", "labels=")
    return [f"another release may find other labels of {listed(secret)}, and is then proved with this one only "
            f"loosely: list them in each ({fixed}), and they are equal"] if secret else []


def _others(columns: Mapping[str, Column]) -> list[str]:
    """Which label takes the values that have none."""
    taking = {name: column for name, column in columns.items() if column.other is not None}
    return [
        f"of {name} all other values{'' if None in column.labels else ', missing ones too,'} count as {column.other!r} "
        "(unless all labels are public)" for name, column in taking.items()
    ]


def _priced(wishes: Wishes, found: Mapping[str, BinWish | None], rows: int, share: float) -> dict[str, Fraction]:
    """The ε of each column: with it a hundredth of the people is enough for a label, or is how far an edge is off. All
    are lowered alike where they would take more than a share of the whole."""
    each = max(1, sum(not isinstance(rule, (int, list)) for rule in found.values()))

    def need(rule: BinWish | None) -> float:
        missing = CLEAR * math.sqrt(2)
        if isinstance(rule, list):
            return missing
        if isinstance(rule, int):
            return missing + (rule - 1) * 2 * math.log(len(round_numbers()))
        return 2 * math.log(each / (share * wishes.delta))

    needs = {name: need(rule) / (COMMON * rows) for name, rule in found.items()}
    most = LABELS * (wishes.epsilon if wishes.design_epsilon is None else wishes.design_epsilon)
    times = min(1.0, share * most / sum(needs.values()))
    return {name: Fraction(max(1, math.floor(x * times / STEPPED)), round(1 / STEPPED)) for name, x in needs.items()}


def _labelled(
    wishes: Wishes, name: str, counts: Mapping[Label, int] | None, part: str | None, rows: int, epsilon: Fraction,
    delta: float, below: Below,
) -> Column:
    """A column of labels that many people have."""
    if counts is None:
        raise InputError(
            f"has too many distinct values: is it a number or an identifier? {coarser(name)}, or leave it out",
            where=At(name),
        )
    if part is not None:
        parts: dict[Label, int] = {}
        for x, n in counts.items():
            own = None if x is None else spelled(x, part)
            parts[own] = parts.get(own, 0) + n
        counts = parts
    if wishes.missing == "refuse":
        counts = {x: n for x, n in counts.items() if x is not None}  # counting refuses them, by their row
    least = wishes.rare.get(name, 0.0) if isinstance(wishes.rare, Mapping) else wishes.rare or 0.0
    kept = common(name, counts, epsilon, delta, below, least * rows if least < 1 else least)
    dtype = part or dtype_of([x for x in kept.labels if x is not None])
    return kept.column(name, lambda texts: arranged(texts, dtype), dtype)


def _edged(
    source: Source, wishes: Wishes, name: str, rule: int | list[float], rows: int, epsilon: Fraction, below: Below
) -> Column:
    """A column of bins: edges at noisy quantiles, or those given; missing values have a label of their own where they
    stand out from noise, and count as the middle bin otherwise."""
    if isinstance(rule, int) and rule < 2:
        raise InputError("needs at least two bins", value=rule, where=At(name))
    values, counts = value_counts(source, name)
    missing, asks = rows - int(counts.sum()), wishes.missing == "category" and not wishes.is_public(name)
    edges = [] if isinstance(rule, int) else rule
    if isinstance(rule, int):
        rule = _affordable(name, rule, rows, epsilon, automatic=name in wishes.automatic)
        epsilon /= rule
        edges = rounded(sorted({edge(values, counts, Fraction(i, rule), epsilon, below) for i in range(1, rule)}))
    if not asks:
        return Column.of(name, cuts=edges, missing=missing > 0 and wishes.missing == "category", dtype="number")
    stands = missing + next(two_sided(epsilon, 1, below)) >= CLEAR * math.sqrt(2) / float(epsilon)
    column = Column.of(name, cuts=edges, missing=stands, dtype="number")
    return column if stands else replace(column, other=column.labels[column.size // 2])


def _affordable(name: str, bins: int, rows: int, epsilon: Fraction, *, automatic: bool) -> int:
    """As many bins as can be cut by noise: an edge a whole bin away must be less likely than one in a hundred, over all
    round numbers. Fewer where nobody said how many; nothing of the rows but their number is asked."""
    need = 2 * (math.log(len(round_numbers())) + math.log(100))
    for fewer in range(bins, 1, -1):
        if float(epsilon) / fewer * rows / fewer >= need:
            return fewer
        if not automatic:
            break
    raise InputError(
        f"the edges of {name!r} cannot be told from {rows:,} rows at this ε: noise would move them by more than a bin",
        next=f"Give them ({binned(name, [20, 50])}), leave the column out, or ask for more rows or a larger ε.",
    )


def rounded(edges: list[float]) -> list[float]:
    """Edges with the fewest digits that move none of them by a tenth of the way to the next: as people write them.

    >>> rounded([34.1, 43.7, 51.9, 60.6])
    [34.0, 44.0, 52.0, 61.0]
    """
    near = min((b - a for a, b in pairwise(edges)), default=abs(edges[0])) / 10
    for digits in range(DIGITS):
        written = [float(f"{x:.{digits}e}") for x in edges]
        if all(abs(x - y) < near for x, y in zip(edges, written, strict=True)):
            return written
    return edges


def _with(wishes: Wishes, columns: Mapping[str, Column]) -> Wishes:
    """The wishes with these columns as they are."""
    rare = without(wishes.rare, columns) if isinstance(wishes.rare, dict) else wishes.rare
    labels = {**(wishes.labels or {}), **columns} or None
    return replace(wishes, labels=labels, bins=without(wishes.bins, columns), rare=rare)


def kept_at(path: Path, wishes: Wishes) -> Path:
    """people.csv → people.3f9a0c12.counts.json beside it, for these columns and the way they are counted; in a folder
    of the caller's, which may hold those of other tables of the same name, the mark is of the whole path."""
    asked = (wishes.secret, wishes.useful, wishes.bins, wishes.rare, wishes.labels, wishes.missing, wishes.public)
    folder = path.parent if wishes.counts_in is None else Path(wishes.counts_in)
    own = path.name if folder.resolve() == path.parent.resolve() else str(path.resolve())
    mark = hashlib.sha256(repr((own, *asked)).encode()).hexdigest()[:8]
    return folder / f"{path.name.split('.')[0]}.{mark}.counts.json"
