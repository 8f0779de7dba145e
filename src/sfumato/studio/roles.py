"""Roles: which column is what, as the page says it, and as a command or Python would."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import InputError
from sfumato.releasing.wishes import EVERY, Wishes, usual_cap
from sfumato.sources.dialect import READING

if TYPE_CHECKING:
    from sfumato.frames import Record
    from sfumato.releasing.basis import Basis
    from sfumato.studio.hands import Asked


# --- what each column of a table is for, and how it is cut or grouped, as somebody chose it on the page ---------------


ROLES = ("secret", "useful", "keep", "out")
Bins = dict[str, int | str | list[float]]


@dataclass(frozen=True, slots=True)
class Roles:
    """Columns by what they are for, in the order of the table."""

    secret: tuple[str, ...]
    useful: tuple[str, ...]
    keep: tuple[str, ...]
    bins: Bins
    rare: dict[str, float]
    missing: str = "category"
    public: bool = False  # everybody knows which values there can be

    @classmethod
    def of(cls, given: Asked, columns: Sequence[str]) -> Roles:
        """What a page sent, as far as it is about columns that there are; rules count for what is counted."""
        roles = given.get("roles") or {}
        by = {role: tuple(c for c in columns if roles.get(c, "out") == role) for role in ROLES}
        counted = {*by["secret"], *by["useful"]}
        bins = {c: _rule(c, rule) for c, rule in (given.get("bins") or {}).items() if c in counted and rule is not None}
        rare = {c: _least(least) for c, least in (given.get("rare") or {}).items() if c in counted and c not in bins}
        missing = given.get("missing") or "category"
        return cls(by["secret"], by["useful"], by["keep"], bins, rare, missing, bool(given.get("public")))

    @property
    def complete(self) -> bool:
        """Whether there is something to protect and something to keep informative."""
        return bool(self.secret and self.useful)

    def wishes(self, epsilon: float) -> Wishes:
        """What `sfumato release` would be asked with these columns."""
        return Wishes(
            self.secret, self.useful, epsilon, bins=dict(self.bins) or None, rare=dict(self.rare) or None,
            missing=self.missing, columns="one", design="auto", at_most=usual_cap(epsilon),
            public=(EVERY,) if self.public else (),
        )


def _rule(column: str, rule: object) -> int | str | list[float]:
    if isinstance(rule, (int, str)) and not isinstance(rule, bool):
        return rule
    if isinstance(rule, list) and rule and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in rule):
        return [float(x) for x in rule]
    raise InputError(f"bins of {column!r} must be a number or increasing inner edges", value=rule)


def _least(least: object) -> float:
    if not isinstance(least, (int, float)) or isinstance(least, bool):
        raise InputError("rare must be a number of rows, or a fraction below 1", value=least)
    return float(least)


# --- the command and the lines of Python that do the same as the page did ---------------------------------------------


def command(table: str, roles: Roles, design: Asked, out: str, more: Asked) -> str:
    """The command line of a release; `design` is what it is designed from, `more` what else was said."""
    words = ["sfumato", "release", table, *_named("--secret", roles.secret), *_named("--useful", roles.useful)]
    words += _named("--keep", roles.keep)
    for name, rule in roles.bins.items():
        words += ["--bins", f"{name}={_edges(rule) if isinstance(rule, list) else rule}"]
    for name, least in roles.rare.items():
        words += ["--rare", f"{name}={least:g}"]
    words += ["--missing", roles.missing] if roles.missing != "category" else []
    words += ["--public-labels", EVERY] if roles.public else []
    words += ["--epsilon", f"{design['epsilon']:g}", "--design", design["design"]]
    words += ["--design-epsilon", f"{design['design_epsilon']:g}"] if design.get("design_epsilon") else []
    for name, value in more.items():
        spelling = f"--{name.replace('_', '-')}"
        values = value if isinstance(value, (list, tuple)) else [value]
        words += [] if value in (None, False, "", [], ()) else [spelling] if value is True else [
            word for x in values for word in (spelling, f"{x:g}" if isinstance(x, float) else str(x))
        ]
    return shlex.join([*words, "--out", out])


def python(table: str, roles: Roles, design: Asked, out: str, more: Asked) -> str:
    """The same in Python."""
    read = {name: more[name] for name in READING if more.get(name)}
    own = f"sf.open_source({table!r}, {_arguments(read)})" if read else repr(table)
    wishes = {
        "keep": list(roles.keep), "bins": roles.bins, "rare": roles.rare,
        "missing": roles.missing if roles.missing != "category" else None, "public": roles.public,
        "design": design["design"],
        "design_epsilon": design.get("design_epsilon"), "at_most": design["at_most"],
    }
    publish = {"keep": list(roles.keep), **{k: more.get(k) for k in ("publisher", "people", "budget", "force")}}
    ledger = f", ledger=sf.Ledger({more['ledger']!r})" if more.get("ledger") else ""
    told = _arguments(publish)
    lines = [
        "import sfumato as sf", "",
        f"plan = sf.plan({own}, {list(roles.secret)!r}, {design['epsilon']:g}, {list(roles.useful)!r}, "
        f"{_arguments(wishes)})",
        "plan.check_worth(plan.foreseen())" if not more.get("anyway") else "print(plan.foreseen())",
        f"done = sf.publish(plan, {out!r}{', ' + told if told else ''}{ledger})",
    ]
    return "\n".join(lines) + "\n"


def design_of(basis: Basis, wishes: Wishes) -> Record:
    """What a design was made from, as options say it."""
    noise = None if basis.source is not None else basis.within.joint.noise
    return {
        "epsilon": wishes.epsilon, "at_most": wishes.at_most, "design": "any" if noise is None else "noisy",
        "design_epsilon": None if noise is None else noise.epsilon,
    }


def _named(spelling: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return [spelling, text.getvalue()]


def _edges(rule: Sequence[float]) -> str:
    return ";".join(f"{x:g}" if float(f"{x:g}") == x else repr(x) for x in rule) + (";" if len(rule) == 1 else "")


def _arguments(given: Asked) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in given.items() if value not in (None, False, "", [], {}, ()))
