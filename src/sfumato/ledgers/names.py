"""Names of people: spellings that nobody can tell apart are one account, and letters that only look alike are refused.

Two accounts have two budgets, so a name that looks like another one would be a second budget for the same people.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from sfumato.errors import InputError

# Letters of other scripts that are drawn like Latin ones, small or capital, once they are folded [Unicode TS 39].
ALIKE = str.maketrans("авеѕіјкӏмнорԛстуԝхһԁɡαβεζηικμνορτυχϲϳı", "abesijklmhopqctywxhdgabezhikmnoptyxcji")


def tidy(name: str) -> str:
    """The name as it is kept: NFKC, single spaces, nothing invisible.

    >>> tidy(" Cohort\\u200b  7 ")
    'Cohort 7'
    """
    steering = [c for c in name if unicodedata.category(c) == "Cc" and not c.isspace()]
    if steering:
        raise InputError(f"the name of people has a control character (U+{ord(steering[0]):04X}); leave it out.")
    seen = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    out = unicodedata.normalize("NFKC", " ".join(seen.split()))
    if not out:
        raise InputError("a ledger needs to know whose data these are: people='survey 2026' (--people NAME).")
    return out


def folded(name: str) -> str:
    """What two spellings of one name have in common.

    >>> folded("Ａ ") == folded("a\\u200b") == "a"
    True
    """
    seen = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) not in ("Cf", "Cc"))
    return unicodedata.normalize("NFKC", " ".join(unicodedata.normalize("NFKC", seen).casefold().split()))


def spellings(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are spellings of this one; older ledgers may hold several."""
    return [other for other in known if folded(other) == folded(name)]


def account(name: str, known: Iterable[str]) -> str:
    """The name under which a release is entered: the first spelling of it, or a new one that looks like no other."""
    own, known = tidy(name), list(known)
    if same := spellings(own, known):
        return same[0]
    for other in known:
        if _drawn(other) == _drawn(own):
            raise InputError(
                f"the name {own!a} looks like {other!r} ({other!a}), which the ledger knows, and is spelled "
                f"with other letters. Say --people {other!r} if they are the same people, or choose a name that "
                "cannot be mistaken."
            )
    return own


def _drawn(name: str) -> str:
    """How a name looks: letters of other scripts as the Latin ones that they look like."""
    return folded(name).translate(ALIKE)
