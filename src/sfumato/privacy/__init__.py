"""Privacy: notions of what a release may tell about a secret, one per file, all with `level(mechanism)`."""

from __future__ import annotations

from typing import Protocol

from sfumato.mechanism import Mechanism
from sfumato.privacy.ldp import LDP
from sfumato.privacy.lip import LIP
from sfumato.privacy.rldp import RLDP
from sfumato.privacy.srlip import SRLIP


class Notion(Protocol):
    """A measure of leakage in nats."""

    def level(self, mechanism: Mechanism) -> float:
        """The least ε for which the mechanism satisfies the notion."""


def level(mechanism: Mechanism, notion: Notion) -> float:
    """The least ε for which the mechanism satisfies the notion, in floats; `certify` proves it from the integers."""
    return notion.level(mechanism)


__all__ = ["LDP", "LIP", "RLDP", "SRLIP", "Notion", "level"]
