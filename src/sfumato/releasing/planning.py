"""Planning: from a table and wishes to a sealed mechanism with its certificate, and what has to be said about both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato import designers, estimation
from sfumato.certification import Certificate
from sfumato.decimals import BITS, SHORT, at_least, at_most, percent
from sfumato.designers.base import RELATIVE
from sfumato.designers.worth import Foreseen, foreseen, is_foreseeable
from sfumato.errors import At, InputError, Note, listed, option, unknown
from sfumato.joint import Joint
from sfumato.mechanism import Bundle, Mechanism, load, save_counts
from sfumato.optimise.budget import heard_by
from sfumato.releasing.alphabets import Kept, Learnt, learnt
from sfumato.releasing.basis import Basis, basis_of, divided, exact_basis
from sfumato.releasing.columns import Choice, as_bundle, bundled, chosen, coarser, cut, rival
from sfumato.releasing.files import released_already
from sfumato.releasing.wishes import (
    EVERY,
    Listener,
    Notice,
    Silent,
    Wishes,
    completed,
    learned,
    named,
    notices_of,
    say,
)
from sfumato.sources import Place, Source, located, open_source
from sfumato.sources.tabulation import tabulate

if TYPE_CHECKING:
    from sfumato.designers.base import Design, Options
    from sfumato.sources.source import TableLike

MANY_LABELS = 100  # labels; when half of the rows have one of their own, the column is no category
BUNDLE = option("--columns bundle", "columns='bundle'")
ORIGINS = ("private", "reference")  # whose rows a table has: those of people to protect, or of others
NEAR = ("distortion", "hamming", "leakage")  # methods that keep rows near
NEARNESS = ("distance", "values", "outputs")  # options of the method distortion


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """A mechanism for a table, where it comes from, and the rows that are left to release with it."""

    source: Source  # the rows to release: the whole table, or what a split left of it
    mechanism: Mechanism | Bundle
    certificate: Certificate | None = None  # None: it was loaded, and is proved when it is used
    notes: tuple[str, ...] = ()
    choice: Choice | None = None  # of useful columns, where none were named
    file: str | None = None  # the name of the mechanism file, when it was given
    part: bool = False  # only a part of the table is released
    table: str = ""  # the name of the table it was designed for
    rows: int | None = None  # that were counted
    kept: tuple[Kept, ...] = ()  # what was drawn of the table, and where it is to be kept

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", tuple(x if isinstance(x, Note) else Note(x) for x in self.notes))

    def __repr__(self) -> str:
        rows = f", {self.rows:,} rows counted" if self.rows else ""
        lines = [repr(self.mechanism), *([] if self.certificate is None else [repr(self.certificate)]),
                 *map(str, self.notes)]
        return "\n  ".join([f"<Plan for {self.table or self.source.name}{rows}>", *lines])

    def foreseen(self) -> Foreseen | None:
        """What estimates from the rows that are released will be worth, by what the mechanism file tells anybody; None
        where there is no design to ask, its table is too large for an answer, or nobody knows how many rows there are.
        """
        made = self.mechanism
        if not isinstance(made, Bundle) and (made.joint is None or not is_foreseeable(made)):
            return None
        if not (n := self.rows or self.source.count()):
            return None
        return estimation.prospects(made, n) if isinstance(made, Bundle) else foreseen(made, n=n)

    def keep(self) -> None:
        """Keep what was drawn of the table, so that it is paid for once; before anything that tells it."""
        for drawn in self.kept:
            if not drawn.is_there:
                save_counts(drawn.joint, drawn.place, force=drawn.again)

    def check_worth(self, told: Foreseen | None, *, anyway: bool = False) -> None:
        """Refuse a release that is worth next to nothing to whoever estimates from it, unless it is asked for anyway.

        A method that was asked for rows that are near was not asked for estimates. What was drawn is kept also where
        it is refused: whoever tries again until it goes well would choose among draws.
        """
        self.keep()
        if told is not None and told.little and not anyway and self.mechanism.method not in NEAR:
            raise InputError(
                f"the release would be worth {percent(told.share)} of its {told.n:,} rows to whoever estimates from it",
                next="A larger ε, more rows, fewer columns or coarser ones would help "
                f"({option('sfumato plan', 'foreseen()')} says how much); {option('--anyway', 'anyway=True')} releases "
                "it all the same.",
            )

    def notices(self, file: str | None = "the mechanism file") -> tuple[Notice, ...]:
        """What must be said aloud before the release and its mechanism file, if there is one, are given away."""
        again = released_already(self.source)
        public = () if self.file is not None or file is None else notices_of(self.mechanism, file, self.table)
        return (*(() if again is None else (again,)), *public)


def plan(
    table: TableLike, secret: str | Sequence[str], epsilon: float, useful: str | Sequence[str] = (), *,
    keep: Sequence[str] = (), reference: TableLike | None = None, split: float | None = None, counts: str | None = None,
    origin: str = "private", seed: int | None = None, listener: Listener | None = None, **wishes: Any,
) -> Plan:
    """Count a table and design for it: one mechanism for secret and useful columns, or a bundle for many.

    Without `useful`, categorical columns are taken as long as the release is worth something (`.choice` says which).
    `split` designs on a random part of the rows, which is then not released; `reference` is another table to design
    from, and `counts` names the column that says how many people a row of the table is. Further wishes are those of
    `design` (method, aim, notion, reads, time_limit, gap, distance, values, outputs, at_most) and of `tabulate` (bins,
    rare, missing, unseen, labels), numbers ('bins' cuts columns of many numbers, 'labels' does not), confidence,
    columns ('auto', 'one' or 'bundle'), assuming and tables (of a bundle), and design: 'noisy' adds noise to the counts
    (design_epsilon of ε), 'any' takes none, and 'auto', which is usual, one of the two, chosen by the numbers of rows
    and labels alone; labels of columns that are not `public` are then let in where many people have them (delta), and
    edges of bins are noisy quantiles. 'exact' takes the counts as they are: usual for an `origin` that is not private,
    a reference and a split.

    `.mechanism` can be saved and released with: release(p.source, p.mechanism, 'released.csv'), or publish(p, …) with
    its report. `.notices()` are what whoever publishes should have read.
    """
    for name in wishes:
        if name not in Wishes.__slots__:
            raise unknown("a wish for a plan", name, Wishes.__slots__)
    if origin not in ORIGINS:
        raise unknown("where a table can come from", origin, ORIGINS)
    if isinstance(public := wishes.get("public", ()), (bool, str)):
        wishes["public"] = (public,) if isinstance(public, str) else (EVERY,) if public else ()
    if "at_most" in wishes:
        wishes["at_most"] = "none" if wishes["at_most"] is None else str(wishes["at_most"])
    private = origin == "private" and reference is None and split is None
    wished = completed(named(secret), named(useful), private=private, epsilon=epsilon, **wishes)
    return planned(
        open_source(table, counts=counts), wished, keep=keep, reference=reference, fraction=split, origin=origin,
        seed=seed, listener=listener or Silent(),
    )


def planned(
    source: Source, wishes: Wishes, *, keep: Sequence[str] = (), reference: TableLike | None = None,
    fraction: float | None = None, origin: str = "private", seed: int | None = None, listener: Listener,
) -> Plan:
    """Choose columns, count, design, seal and certify."""
    say_of(source, listener)
    public = [name for name in wishes.public if name != EVERY]
    source.check_release((), keep, (*wishes.secret, *wishes.useful), public)
    basis, rest, origin = _divided(source, reference, fraction, origin, seed)
    if wishes.tables and not wishes.useful:
        named = dict.fromkeys(name for table in wishes.tables for name in table if name not in wishes.secret)
        wishes = replace(wishes, useful=tuple(named))
    whole = reference is None and fraction is None
    told_all = wishes.design == "exact" or not whole or origin != "private"
    asked = wishes = cut(basis, wishes, keep, exact=told_all)

    def of_bundle(*why: str) -> Plan:
        made, notes, choice = bundled(
            basis, asked, keep, rest.columns, listener, origin=origin, told_all=told_all, seed=seed
        )
        return Plan(
            rest, made.bundle, made.certificate, (*why, *notes), choice, part=origin == "split", table=source.name,
            rows=made.rows if whole else None,
        )

    if as_bundle(basis, wishes):
        return of_bundle()
    first = None if told_all or wishes.useful else learnt(basis, wishes, seed, source.path)
    wishes, choice = _chosen(basis, wishes if first is None else first.wishes, keep, source.columns, listener)
    told = None if told_all else learnt(basis, wishes, seed, source.path, first)
    joint = tabulated(basis, wishes if told is None else told.wishes, listener=listener)
    if (told_all or not wishes.unsaid) and (why := rival(asked, joint)) is not None:
        return of_bundle(why)
    found = exact_basis(joint, wishes) if told is None else basis_of(joint, told, seed)
    table = Counted(joint, wishes, rest, source.name, told, choice, origin, first)
    return table.plan(found, designed(found, wishes, listener))


def _divided(
    source: Source, reference: TableLike | None, fraction: float | None, origin: str, seed: int | None
) -> tuple[Source, Source, str]:
    """The rows to design from, those to release, and where the former come from."""
    if reference is not None:
        if fraction is not None:
            raise InputError("a reference is the design data: it goes without a split.")
        return open_source(reference), source, "reference"
    whole = source.settled(source.columns)  # several passes are made
    return (whole, whole, origin) if fraction is None else (*divided(whole, fraction, seed), "split")


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """A table that was counted, before anything is designed from it."""

    joint: Joint
    wishes: Wishes  # with the columns and the bins that were chosen
    rest: Source  # the rows to release
    table: str  # its name
    told: Learnt | None = None  # labels and edges as far as a private table may tell them; None: they are exact
    choice: Choice | None = None
    origin: str = "private"
    first: Learnt | None = None  # what was told before columns were chosen

    def plan(self, found: Basis, made: Design) -> Plan:
        """The plan with what was designed from a basis."""
        exact = found.source is None and found.within.joint.noise is None
        seen = learned(self.joint.learned) if exact else ()
        told = (*found.notes, *_reached(made, self.wishes), *made.notes, *seen)
        mechanism, source = made.mechanism, self.origin if exact else found.source
        alone = None if self.first is None else self.first.alone
        if source not in (None, mechanism.source):
            mechanism = replace(mechanism, source=source)
        return Plan(
            self.rest, mechanism, made.certificate, told, self.choice, part=self.origin == "split", table=self.table,
            kept=tuple(x for x in (alone, found.kept) if x is not None),
            rows=self.joint.n if self.origin not in ("reference", "split") else None,
        )


def given(
    source: Source, path: str | os.PathLike[str] | Place, secret: Sequence[str] = (), useful: Sequence[str] = ()
) -> Plan:
    """A mechanism from a file, for a table that has its columns; its claim is proved before a row is drawn."""
    where = located(path)
    made = load(where)
    for name, asked, own in (("secret", secret, made.secret.names), ("useful", useful, made.useful.names)):
        for column in asked or (own if name == "useful" or made.reads == "both" else ()):
            if column not in source.columns:
                wrong = unknown(f"a column of {source.name}", column, source.columns, "columns")
                raise InputError(
                    f"is a mechanism for the columns {listed([*made.secret.names, *made.useful.names])}, but {wrong}",
                    where=where.name,
                    next=f"If the table calls it otherwise, say so with {option(f'--{name}', f'{name}=')}.",
                )
    return Plan(source, made, file=where.name)


def joint_of(source: Source, wishes: Wishes, listener: Listener) -> Joint:
    """The exact counts of the columns wished for, or chosen."""
    say_of(source, listener)
    basis = source.settled(source.columns)  # several passes are made
    wishes, _ = _chosen(basis, cut(basis, wishes, ()), (), basis.columns, listener)
    return tabulated(basis, wishes, listener=listener)


def say_of(source: Source, listener: Listener) -> None:
    """What was found out about a file."""
    say(listener, *(f"{source.name}: {line}." for line in source.reading.said))


def _chosen(
    basis: Source, wishes: Wishes, keep: Sequence[str], known: Sequence[str], listener: Listener
) -> tuple[Wishes, Choice | None]:
    """The columns wished for, or chosen, which is said."""
    wishes, choice = chosen(basis, wishes, keep, known, bundle=False)
    if choice is not None:
        say(listener, f"{choice.sentence} All: {BUNDLE}.")
    return wishes, choice


def tabulated(source: Source, wishes: Wishes, *, listener: Listener) -> Joint:
    """The counts of the columns wished for, with what looks odd in them said."""
    with listener.step(f"counting {source.name}", source.expected, rows=True) as tell:
        joint = tabulate(
            source.watched(tell), list(wishes.secret), list(wishes.useful), missing=wishes.missing, bins=wishes.bins,
            rare=wishes.rare, unseen=wishes.unseen, labels=wishes.labels,
        )
    columns = (*joint.secret.columns, *joint.useful.columns)
    for column in columns:
        if column.size >= MANY_LABELS and 2 * column.size > (joint.n or 0):
            raise InputError(
                f"has {column.size:,} distinct values in {joint.n:,} rows: is it a number or an identifier?",
                next=f"{coarser(column.name, column.labels)}, or leave it out.", where=At(column.name),
            )
    free = {c.name: c.cuts for c in columns if c.name in wishes.automatic and c.cuts is not None}
    for name, cuts in free.items():
        shown = ", ".join(f"{x:g}" for x in cuts)
        say(listener, f"{name} is cut at {shown} (others: {option(f'--bins {name}=', f'bins={{{name!r}: …}}')}).")
    say(listener, *(f"{doubt}." for doubt in joint.notes[len(source.reading.said):]))
    return replace(joint, learned=(*joint.learned, *free)) if free else joint


def designed(basis: Basis, wishes: Wishes, listener: Listener) -> Design:
    """The design over the set around the counts, with its second promise."""
    joint = basis.within.joint
    options: Options = {"notion": wishes.notion, "reads": wishes.reads, **_near(joint, wishes)}
    second = {"at_most": wishes.at_most, "releases": wishes.releases, "budget": wishes.planned}
    options |= {name: x for name, x in second.items() if x is not None}
    if wishes.aim is not None:
        if wishes.method != "auto":
            raise InputError(f"{option('--aim', 'aim=')} is for the method auto, not {wishes.method}.")
        options["aim"] = wishes.aim
    unneeded = wishes.time_limit is not None and "time_limit" not in designers.options_of(wishes.method)
    asked = {"time_limit": None if unneeded else wishes.time_limit, "gap": wishes.gap}
    options |= {name: x for name, x in asked.items() if x is not None}
    with listener.search(f"designing for {joint.p.size:,} cells") as heard, heard_by(heard):
        made = designers.design(basis.within, basis.epsilon, wishes.method, **options)
    why = f"the time limit was not needed: {wishes.method} does not search"
    return replace(made, notes=(*made.notes, why)) if unneeded else made


def _reached(made: Design, wishes: Wishes) -> tuple[str, ...]:
    """What was reached, by the unit of what a method minimises."""
    if made.unit == "of distance":
        kind = f"{wishes.distance or 'squared'} " if made.mechanism.method == "distortion" else ""
        return (f"mean {kind}distance {at_most(made.value)}; no mechanism with this promise and these outputs is below "
                f"{at_least(made.bound)}",)
    if made.unit == "of standard error":
        return (f"standard error {at_most(made.value, BITS)} on average over what is estimated; "
                f"{at_least(made.bound, BITS)} is the least that is not ruled out",)
    return () if made.unit != RELATIVE else (
        f"standard errors are {at_most(made.value, SHORT)} times the least found for each column and the whole table "
        "by itself, on average",
    )


def _near(joint: Joint, wishes: Wishes) -> dict[str, object]:
    """The options of the method distortion, which auto takes when one of them is given; others have none of them."""
    asked = any(getattr(wishes, name) is not None for name in NEARNESS)
    if wishes.method not in ("distortion", "auto") and asked:
        names = listed([option(f"--{name}", f"{name}=") for name in NEARNESS])
        raise InputError(f"{names} are for the method distortion, not {wishes.method}.")
    if not asked and wishes.method != "distortion":
        return {}

    values, outputs = None if wishes.values is None else joint.useful.numbered(wishes.values), None
    if wishes.distance != "hamming":
        values = [float(x) for x in designers.letters(joint.useful)] if values is None else values
        outputs = {"representatives": values, "chosen": "chosen"}.get(wishes.outputs or "labels")
    elif wishes.outputs in ("representatives", "chosen"):
        raise InputError("the distance hamming compares labels", next=f"Leave out {option('--outputs', 'outputs=')}.")
    return {"distance": wishes.distance or "squared", "values": values, "outputs": outputs}
