"""What a mechanism is designed from: exact counts, counts with noise, or no counts at all."""

from __future__ import annotations

import hashlib
import random
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.designers.splitting import split
from sfumato.errors import InputError, listed, option
from sfumato.joint import Joint
from sfumato.mechanism import load_counts
from sfumato.noise import SEEDED, noisy_counts
from sfumato.releasing.wishes import Wishes
from sfumato.sources import Source
from sfumato.uncertainty import Anything, ChiSquareBall, UncertaintySet, covering

SHARE = 0.25  # of ε for the counts, where noisy ones are asked for by name and no ε_d is


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """A set to design for, what is left of ε for the rows, and the noisy counts with the place where they are kept."""

    within: UncertaintySet
    epsilon: float
    source: str | None = None  # of design data that are neither noisy nor exact counts of the table
    notes: tuple[str, ...] = ()
    kept: Path | None = None  # where noisy counts are to be kept: None where they are already, or have no place


def basis_of(joint: Joint, wishes: Wishes, table: Source, seed: int | None) -> Basis:
    """The set that the wishes ask for around the counts of a private table."""
    if wishes.design == "exact":
        return Basis(ChiSquareBall(joint, confidence=wishes.confidence), wishes.epsilon)
    told = _labels(joint, wishes)
    if wishes.design == "any" or wishes.notion == "ldp":
        return _free(joint, wishes, ("designed for any distribution, from no counts", *told))
    place = _place(joint, table, wishes) if seed is None else None
    if place is not None and place.exists():
        return _again(place, joint, wishes, told)
    spent, why = _spent(joint, wishes)
    if spent == 0:
        return _free(joint, wishes, (why, *told))
    if not 0 < spent < wishes.epsilon:
        raise InputError(
            f"{option('--design-epsilon', 'design_epsilon=')} must be positive and less than ε = {wishes.epsilon:g}, "
            f"of which it is a part, got {spent:g}."
        )
    below = secrets.randbelow if seed is None else random.Random(seed).randrange
    found = noisy_counts(joint, spent, public=not wishes.private_labels, delta=wishes.delta, below=below)
    if seed is not None and found.noise is not None:
        found = replace(found, noise=replace(found.noise, sampler=SEEDED))
    return Basis(covering(found, wishes.confidence), wishes.epsilon - spent, None, (why, *told), place)


def _spent(joint: Joint, wishes: Wishes) -> tuple[float, str]:
    """ε_d and why; 0 where no counts are better."""
    if wishes.design_epsilon is not None:
        return wishes.design_epsilon, f"ε_d = {wishes.design_epsilon:g} of {wishes.epsilon:g} goes to noisy counts"
    assert joint.n is not None
    chosen = split(joint.n, *joint.shape, wishes.epsilon, wishes.at_most or wishes.epsilon)
    if wishes.design == "noisy" and chosen.counts == 0:
        spent = round(SHARE * wishes.epsilon, 6)
        return spent, f"ε_d = {spent:g} of {wishes.epsilon:g} goes to noisy counts"
    return chosen.counts, chosen.why


def _free(joint: Joint, wishes: Wishes, notes: tuple[str, ...]) -> Basis:
    if wishes.private_labels and joint.learned:
        raise InputError(
            f"a design without counts takes labels as they are, and those of {listed(joint.learned)} are not public. "
            f"Say them ({option('--labels', 'labels=')}), or ask for noisy counts "
            f"({option('--design noisy', 'design=noisy')})."
        )
    return Basis(Anything(Joint.uniform(joint.secret, joint.useful)), wishes.epsilon, "public", notes)


def _again(place: Path, joint: Joint, wishes: Wishes, told: tuple[str, ...]) -> Basis:
    """Counts that were drawn before: another draw would cost their ε_d once more."""
    found = load_counts(place)
    noise = found.noise
    assert noise is not None
    names = [(x.secret.names, x.useful.names) for x in (found, joint)]
    if noise.rows != joint.n or names[0] != names[1]:
        raise InputError(
            f"{place} holds noisy counts of another table. If the table has changed, remove the file: new ones are "
            "drawn then, at their own ε_d."
        )
    if noise.epsilon >= wishes.epsilon:
        raise InputError(
            f"the noisy counts in {place} took ε_d = {noise.epsilon:g}, which leaves nothing of ε = {wishes.epsilon:g} "
            "for the rows. Ask for more, or for a design without counts "
            f"({option('--design any', 'design=any')})."
        )
    note = f"the noisy counts in {place} are used again: ε_d = {noise.epsilon:g} of {wishes.epsilon:g}, paid once"
    return Basis(covering(found, wishes.confidence), wishes.epsilon - noise.epsilon, None, (note, *told))


def _labels(joint: Joint, wishes: Wishes) -> tuple[str, ...]:
    """What counts as public although it was found in the rows."""
    if not joint.learned or (wishes.private_labels and wishes.design != "any"):
        return ()
    return (
        f"the labels of {listed(joint.learned)} are in the mechanism file and count as public knowledge (the option "
        "private-labels lets in only those that many people have)",
    )


def _place(joint: Joint, table: Source, wishes: Wishes) -> Path | None:
    """people.csv → people.3f9a0c12.counts.json, for these columns and the way they are counted."""
    path: Any = table.path
    if not isinstance(path, Path):
        return None
    asked = repr((joint.secret.names, joint.useful.names, wishes.bins, wishes.rare, wishes.labels, wishes.missing))
    mark = hashlib.sha256(asked.encode()).hexdigest()[:8]
    return path.with_name(f"{path.name.split('.')[0]}.{mark}.counts.json")
