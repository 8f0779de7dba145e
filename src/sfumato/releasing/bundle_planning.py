"""Planning a bundle: many columns under one promise, designed, sealed and certified; and whether one is worth more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.bundles import bundle
from sfumato.bundles.plans import worth
from sfumato.bundles.sharing import TurnLayout
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
from sfumato.releasing.wishes import Wishes
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
        f"a bundle is expected to be worth {share:.2%} of the rows for a column, one mechanism for all {len(sizes)} "
        f"columns {one:.2%} ({ONE} for that one)"
    )


def planned_bundle(
    basis: Source, wishes: Wishes, rest: Source, keep: Sequence[str], origin: str, told_all: bool, listener: Listener,
    whole: bool, seed: int | None,
) -> Plan:
    """A bundle of mechanisms, designed, sealed and certified."""
    for name, usual in SINGLE.items():
        if getattr(wishes, name) != usual:
            spelling = option(f"--{name.replace('_', '-')}", f"{name}=")
            raise InputError(f"{spelling} is for a single mechanism", next="Leave it out for a bundle.")
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
    wishes, choice = chosen(basis, wishes, keep, rest.columns, bundle=True)
    if not told_all and (found := [n for n, rule in unsaid(wishes).items() if isinstance(rule, int)]):
        raise InputError(
            f"a bundle cannot pay for edges of bins, and those of {listed(found)} would be taken from the rows",
            next=f"Give them ({binned(found[0], [20, 50])}), leave the column out, or ask for them exactly "
            f"({option('--design exact', 'design=exact')}).",
        )
    if not told_all and (cut := [n for n, rule in unsaid(wishes).items() if isinstance(rule, list)]):
        raise InputError(
            f"a bundle tells whether values of {listed(cut)} are missing, and nobody said that this is public",
            next=f"Say so ({option('--public-labels all', 'public=')}), or have missing values refused "
            f"({option('--missing refuse', 'missing=refuse')}).",
        )
    if not told_all and (open_yet := list(unsaid(wishes))):
        raise InputError(
            f"a bundle takes labels and edges as they are found, and nobody said that those of {listed(open_yet)} are "
            "public",
            next=f"Say so ({option('--public-labels all', 'public=')}), list them ({option('--labels', 'labels=')}, "
            f"{option('--bins', 'bins=')} with edges), or ask for them exactly "
            f"({option('--design exact', 'design=exact')}).",
        )
    listener.say(f"A bundle of mechanisms for {listed(wishes.useful)} ({ONE} for a single table).")
    with listener.search(f"designing for {len(wishes.useful)} columns") as heard, heard_by(heard):
        made = bundle(
            basis, list(wishes.secret), list(wishes.useful), wishes.epsilon, assuming=wishes.assuming,
            confidence=wishes.confidence, missing=wishes.missing, bins=wishes.bins, rare=wishes.rare, origin=origin,
            labels=wishes.labels, unseen=wishes.unseen, tables=wishes.tables or 2, seed=seed,
            design_epsilon=_for_tables(wishes, whole, origin), time_limit=wishes.time_limit,
            at_most=wishes.at_most if wishes.assuming == "tables" else None,
        )
    said = {name: rule for name, rule in (wishes.bins or {}).items() if name not in wishes.automatic}
    edges = [name for name, rule in said.items() if not isinstance(rule, (int, str))]
    found = [c for c in (*wishes.secret, *wishes.useful) if c not in edges and c not in (wishes.labels or {})]
    told = learned(found) if made.bundle.confidence is not None else ()
    return Plan(
        rest, made.bundle, made.certificate, (*made.notes, *told), choice, part=origin == "split",
        rows=made.rows if whole else None,
    )


def _for_tables(wishes: Wishes, whole: bool, origin: str) -> float | None:
    """The part of ε for noisy counts by which a bundle chooses its tables, where they are asked for."""
    if wishes.design != "noisy" or not whole or origin != "private":
        return None
    return round(SHARE_OF_COUNTS * wishes.epsilon, 6) if wishes.design_epsilon is None else wishes.design_epsilon
