"""Planning a bundle: many columns under one promise, designed, sealed and certified; and whether one is worth more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.composing import bundle
from sfumato.composing.plans import worth
from sfumato.composing.sharing import TurnLayout
from sfumato.decimals import capitalised, percent
from sfumato.designers import design
from sfumato.designers.aiming import worth_of_one
from sfumato.errors import InputError, binned, listed, option
from sfumato.joint import Joint
from sfumato.optimise.budget import heard_by
from sfumato.releasing.alphabets import unsaid
from sfumato.releasing.basis import SHARE_OF_COUNTS
from sfumato.releasing.columns import chosen
from sfumato.releasing.notices import Listener, learned
from sfumato.releasing.planning import Plan
from sfumato.releasing.wishes import BinWish, Wishes, without
from sfumato.sources import Source
from sfumato.uncertainty import Anything, ChiSquareBall, UncertaintySet

SINGLE = {  # wishes that only a single mechanism can have, with what they are when nobody wishes them
    "method": "auto", "aim": None, "notion": "rldp", "reads": "both", "gap": None, "distance": None, "values": None,
    "outputs": None, "releases": None,
}
ONE = option("--columns one", "columns='one'")
GLANCE = 2.0  # seconds of a search that only tells what one mechanism would be worth


def rival(wishes: Wishes, joint: Joint) -> str | None:
    """Why a bundle for the columns that were named is worth more than one mechanism for all; None where it is not.

    Both are compared by the rows that a release is worth for a column, on average, as far as the numbers of rows and of
    labels tell it: designs for an even table of as many rows, by a short search. So nothing is told by the choice.
    """
    usual = all(getattr(wishes, name) == value for name, value in SINGLE.items())
    if not usual or joint.secret.size < 2 or not joint.n:
        return None
    even = Joint.from_counts(np.full(joint.shape, max(1, joint.n // joint.p.size)), joint.secret, joint.useful)
    free = wishes.design == "any" or wishes.at_most == wishes.epsilon
    within: UncertaintySet = Anything(even) if free else ChiSquareBall(even, confidence=wishes.confidence)
    sizes = tuple(c.size for c in joint.useful.columns)
    share = worth(TurnLayout(joint.secret.size, sizes, (1.0,) * len(sizes)), wishes.epsilon)
    made = design(within, wishes.epsilon, "auto", aim="estimates", time_limit=GLANCE)
    one = worth_of_one(made.mechanism, even)
    if share <= one:
        return None
    return (
        f"a bundle is expected to be worth {percent(share)} of the rows for a column, one mechanism for all "
        f"{len(sizes)} columns {percent(one)} ({ONE} for that one)"
    )


def planned_bundle(
    basis: Source, wishes: Wishes, rest: Source, keep: Sequence[str], origin: str, told_all: bool, listener: Listener,
    whole: bool, seed: int | None,
) -> Plan:
    """A bundle of mechanisms, designed, sealed and certified."""
    _check(wishes, told_all)
    wishes, choice = chosen(basis, wishes, keep, rest.columns, bundle=True)
    if not told_all and (open_yet := unsaid(wishes)):
        raise _untold(open_yet)
    listener.say(f"A bundle of mechanisms for {listed(wishes.useful)} ({ONE} for a single table).")
    with listener.search(f"designing for {len(wishes.useful)} columns") as heard, heard_by(heard):
        made = bundle(
            basis, list(wishes.secret), list(wishes.useful), wishes.epsilon, assuming=wishes.assuming,
            confidence=wishes.confidence, missing=wishes.missing, bins=wishes.bins, rare=wishes.rare, origin=origin,
            labels=wishes.labels, unseen=wishes.unseen, tables=wishes.tables or 2, seed=seed,
            design_epsilon=_for_tables(wishes, whole, origin), time_limit=wishes.time_limit,
            at_most=wishes.at_most if wishes.assuming == "tables" else None,
        )
    said = without(wishes.bins, wishes.automatic) or {}
    edges = [name for name, rule in said.items() if not isinstance(rule, (int, str))]
    found = [c for c in (*wishes.secret, *wishes.useful) if c not in edges and c not in (wishes.labels or {})]
    told = learned(found) if made.bundle.confidence is not None else ()
    return Plan(
        rest, made.bundle, made.certificate, (*made.notes, *told), choice, part=origin == "split",
        rows=made.rows if whole else None,
    )


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


def _for_tables(wishes: Wishes, whole: bool, origin: str) -> float | None:
    """The part of ε for noisy counts by which a bundle chooses its tables, where they are asked for."""
    if wishes.design != "noisy" or not whole or origin != "private":
        return None
    return round(SHARE_OF_COUNTS * wishes.epsilon, 6) if wishes.design_epsilon is None else wishes.design_epsilon
