"""Who takes part in a comparison: every designer, and the ordinary LDP protocols for scale."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.designers.registry import REGISTERED, keywords_of
from sfumato.errors import InputError, unknown


@dataclass(frozen=True, slots=True)
class Entrant:
    """How a name is designed for a comparison, and what its value means."""

    designer: str
    options: dict[str, Any] = field(default_factory=dict)
    known: bool = False  # designed for the counts as they are, so private there and nowhere else
    informs: bool = True  # it maximises I(input; Y), so its bound limits what is kept
    timed: bool = False  # it takes a time limit
    comparable: bool = True  # it promises ε about the secret over the whole set


_OWN = {
    "ballopt": Entrant("ballopt", timed=True), "polyopt": Entrant("polyopt", timed=True),
    "precise": Entrant("precise", informs=False, timed=True),
    "precise-useful": Entrant("precise", {"target": "useful"}, informs=False, timed=True),
    "ir": Entrant("ir"), "srr": Entrant("srr"), "cr": Entrant("cr"),
    "grr": Entrant("grr"), "oue": Entrant("oue"), "sue": Entrant("sue"),
    "ldp": Entrant("ldp", timed=True),
    "distortion": Entrant("distortion", informs=False), "hamming": Entrant("hamming", informs=False, comparable=False),
    "leakage": Entrant("leakage", informs=False, comparable=False),
    "lip": Entrant("lip", timed=True, comparable=False), "pml": Entrant("pml", timed=True, comparable=False),
    "nr": Entrant("nr", known=True, timed=True, comparable=False),
    "srlip": Entrant("srlip", known=True, timed=True, comparable=False),
    "srlip-paper": Entrant("srlip-paper", known=True, comparable=False),
    "mi-funnel": Entrant("mi-funnel", known=True, timed=True, comparable=False),
    "plain-grr": Entrant("grr", {"notion": "ldp"}), "plain-oue": Entrant("oue", {"notion": "ldp"}),
    "plain-olh": Entrant("olh"),
}


class _Registered(Mapping[str, Entrant]):
    """Methods of others, by the names that they were registered under."""

    def __getitem__(self, name: str) -> Entrant:
        return Entrant(name, informs=False, timed="time_limit" in keywords_of(REGISTERED[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(REGISTERED)

    def __len__(self) -> int:
        return len(REGISTERED)


ENTRANTS: Mapping[str, Entrant] = ChainMap(_OWN, _Registered())  # type: ignore[arg-type]  # it is only read
# All of methods() but auto, which is the best of the others. The plain ones are ε-LDP about the whole record, as they
# are used elsewhere: more than is asked for here, so they show what knowing the secret is worth.
PLAIN = ("plain-grr", "plain-oue", "plain-olh")


def entrants(names: Sequence[str] | None = None) -> tuple[str, ...]:
    """The names to compare, each once and in the order of the table; all of them when none are given.

    >>> entrants(["srr", "ir", "srr"])
    ('ir', 'srr')
    """
    if names is None:
        return (*_OWN, *REGISTERED)
    if isinstance(names, str):
        names = [names]
    for name in names:
        if name == "auto":
            raise InputError("auto takes the best of the others at each ε; leave it out and read the recommendation.")
        if name not in ENTRANTS:
            raise unknown("a method to compare", name, ENTRANTS)
    if not names:
        raise InputError("there is no method to compare.")
    return tuple(name for name in (*_OWN, *REGISTERED) if name in names)
