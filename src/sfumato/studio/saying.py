"""Saying: the command and the lines of Python that do the same as the page did."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.releasing.wishes import EVERY
from sfumato.sources.dialect import READING
from sfumato.studio.roles import Roles


def command(table: str, roles: Roles, design: Mapping[str, Any], out: str, more: Mapping[str, Any]) -> str:
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


def python(table: str, roles: Roles, design: Mapping[str, Any], out: str, more: Mapping[str, Any]) -> str:
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


def design_of(basis: Any, wishes: Any) -> dict[str, Any]:
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


def _arguments(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in given.items() if value not in (None, False, "", [], {}, ()))
