"""Cards and roles: what each column of a table is, what its bins would hold, and what the page says it is for."""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import DATE_PARTS, Column, Floats, Ints, spelled
from sfumato.decimals import MISSING, near, percent
from sfumato.errors import InputError
from sfumato.joint import SMALL
from sfumato.releasing.planning import MANY_LABELS
from sfumato.releasing.wishes import EVERY, Wishes, usual_cap
from sfumato.sources import Source
from sfumato.sources.dialect import READING
from sfumato.sources.values import (
    FEW_NUMBERS,
    MOST_COUNTED,
    numbering,
    numbers_or_none,
    quantiles,
    round_edges,
    with_labels,
    with_numbers,
)
from sfumato.tolerances import AT_A_GLANCE, DRAWN

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.frames import Record
    from sfumato.releasing.basis import Basis
    from sfumato.studio.hands import Asked

BARS = 48  # of a histogram of numbers
KINDS = {
    "number": "numbers", "category": "categories", "date": "dates", "identifier": "a name or number of its own in most "
    "rows", "constant": "a single value", "other": "too many different values to count",
}
Rule = int | str | list[float] | None


@dataclass(slots=True)
class Card:
    """One column: its labels with their rows (None when they are too many), and its numbers where it has any."""

    name: str
    rows: int = 0
    missing: int = 0
    labels: Counter[str | None] | None = field(default_factory=Counter)
    numbers: tuple[Floats, Ints] | None = field(default_factory=lambda: (np.zeros(0), np.zeros(0, np.int64)))

    def add(self, values: pa.Array) -> None:
        """One more batch of the column."""
        if self.numbers is not None:
            x = numbers_or_none(values)
            self.numbers = None if x is None else with_numbers(*self.numbers, x)
        if self.labels is not None:
            self.labels = with_labels(self.labels, values, self.name)
        if self.labels is None:
            self.missing += values.null_count
        self.rows += len(values)

    def settle(self) -> None:
        if self.labels is not None:
            self.missing = self.labels.get(None, 0)
        if self.numbers is not None and not len(self.numbers[0]):
            self.numbers = None

    @property
    def distinct(self) -> int | None:
        """Different values that are not missing."""
        if self.labels is not None:
            return len(self.labels) - (None in self.labels)
        return None if self.numbers is None else len(self.numbers[0])

    @property
    def kind(self) -> str:
        many = self.distinct
        if many == 1:
            return "constant"
        if self._measured():
            return "number"
        if many is None or (many >= MANY_LABELS and 2 * many > self.rows):
            return "identifier" if many is not None or self.labels is None else "other"
        return "date" if self._dated() else "category"

    def _measured(self) -> bool:
        return self.numbers is not None and len(self.numbers[0]) > FEW_NUMBERS and not numbering(*self.numbers)

    def _dated(self) -> bool:
        texts = [x for x in self.labels or () if x is not None]
        return bool(texts) and all(spelled(x, "year") != x for x in texts)

    @property
    def usual_edges(self) -> list[float] | None:
        """Where it is cut when nobody says: as the command line cuts it."""
        return round_edges(*self.numbers).tolist() if self._measured() and self.numbers is not None else None

    def shown(self) -> Record:
        """The card for the page."""
        rare = [n for x, n in (self.labels or {}).items() if x is not None and n < SMALL]
        doubts = () if self.labels is None or self.kind == "number" else Column.of(self.name, self.labels).doubts
        facts = [f"{self.distinct:,} different" if self.distinct is not None else f"over {MOST_COUNTED:,} different"]
        if self.missing:
            facts.append(f"{self.missing:,} missing ({percent(self.missing / self.rows, 1)})")
        if rare and self.kind == "category":
            what = "value" if len(rare) == 1 else "values"
            facts.append(f"{len(rare):,} {what} with fewer than {SMALL} rows")
        return {
            "name": self.name, "kind": self.kind, "kind_text": KINDS[self.kind], "facts": facts,
            "doubts": list(doubts), "bars": self.bars(), "dates": list(DATE_PARTS) if self.kind == "date" else [],
            "histogram": self.histogram(), "edges": self.usual_edges, "rare": self.kind == "category",
            "spread": self.spread(),
        }

    def bars(self) -> list[Record]:
        """Its commonest values, the others as one."""
        if self.labels is None or self.kind in ("number", "identifier"):
            return []
        order = self.labels.most_common()
        shown: list[Record] = [{"label": MISSING if x is None else str(x), "rows": n} for x, n in order[:AT_A_GLANCE]]
        rest = order[AT_A_GLANCE:]
        if rest:
            shown.append({"label": f"{len(rest):,} others", "rows": sum(n for _, n in rest), "rest": True})
        return shown

    def histogram(self) -> list[dict[str, float]]:
        """Rows in intervals of equal width."""
        if self.numbers is None or self.kind != "number":
            return []
        values, counts = self.numbers
        held, edges = np.histogram(values, _bars(values), weights=counts)
        return [{"from": float(a), "to": float(b), "rows": int(n)}
                for a, b, n in zip(edges[:-1], edges[1:], held, strict=True)]

    def spread(self) -> str:
        """Its least, middle and greatest number."""
        if self.numbers is None or self.kind != "number":
            return ""
        values, counts = self.numbers
        middle = values[np.searchsorted(np.cumsum(counts), counts.sum() / 2)]
        return f"{near(float(values[0]))} to {near(float(values[-1]))}, half below {near(float(middle))}"

    def groups(self, rule: Rule, least: float | None) -> list[Record]:
        """What the column would become: bins, parts of dates, or values with the rare ones in one group.

        None for rules that do not fit: what is wrong with them is said when the table is counted.
        """
        if isinstance(rule, (int, list)) or (rule is None and least is None and self.usual_edges):
            return self._bins(self.usual_edges if rule is None else rule)
        held: Counter[str] = Counter()
        for label, n in (self.labels or {}).items():
            few = least is not None and label is not None and n < (least * self.rows if 0 < least < 1 else least)
            text = label if not isinstance(rule, str) or label is None else spelled(label, rule)
            held["other" if few else MISSING if text is None else text] += n
        return [{"label": x, "rows": n, "rest": x == "other"} for x, n in held.most_common(DRAWN)]

    def _bins(self, rule: int | list[float] | None) -> list[Record]:
        if self.numbers is None or (isinstance(rule, int) and rule < 2):
            return []
        values, counts = self.numbers
        edges = quantiles(values, counts, rule).tolist() if isinstance(rule, int) else list(rule or [])
        if not all(map(math.isfinite, edges)) or sorted(set(edges)) != edges:
            return []
        held = np.histogram(values, [-np.inf, *edges, np.inf], weights=counts)[0].astype(int).tolist()
        labels = [str(x) for x in Column.of(self.name, cuts=edges).labels]
        more = [{"label": MISSING, "rows": self.missing}] if self.missing else []
        return [*({"label": x, "rows": n} for x, n in zip(labels, held, strict=True)), *more]


def _bars(values: Floats) -> int | Floats:
    """Bars of a histogram; those of whole numbers hold equally many of them, or they would come and go by chance."""
    if np.any(values != np.floor(values)):
        return min(BARS, len(values))
    width = math.ceil((values[-1] - values[0] + 1) / BARS)
    return np.arange(values[0], values[-1] + width + 1, width) - 0.5


def cards_of(source: Source, tell: Callable[[int], None]) -> dict[str, Card]:
    """Every column of a table, in one pass."""
    made: Mapping[str, Card] = {name: Card(name) for name in source.columns}
    rows = 0
    for batch in source.batches(list(source.columns)):
        for name, card in made.items():
            card.add(batch.column(name))
        rows += batch.num_rows
        tell(rows)
    for card in made.values():
        card.settle()
    return dict(made)


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

    def wishes(self, epsilon: float = 1.0) -> Wishes:
        """What `sfumato release` would be asked with these columns, at any level where only they are asked about."""
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


def command(table: str, roles: Roles, design: Asked, out: str, more: Asked) -> str:
    """The command line of a release; `design` is what it is designed from, `more` what else was said."""
    said = {
        "secret": roles.secret, "useful": roles.useful, "keep": roles.keep, "bins": roles.bins, "rare": roles.rare,
        "missing": None if roles.missing == "category" else roles.missing,
        "public_labels": EVERY if roles.public else None, "epsilon": design["epsilon"], "design": design["design"],
        "design_epsilon": design.get("design_epsilon"), **more, "out": out,
    }
    words = [word for name, value in said.items() for word in _option(f"--{name.replace('_', '-')}", value)]
    return shlex.join(["sfumato", "release", table, *words])


def _option(spelling: str, value: object) -> list[str]:
    """An option as words: a flag, columns in one word, rules by column, or a value, several if it is a list."""
    if value in (None, False, "", [], (), {}):
        return []
    if value is True:
        return [spelling]
    if isinstance(value, dict):
        rules = {name: _edges(rule) if isinstance(rule, list) else _text(rule) for name, rule in value.items()}
        return [word for name, rule in rules.items() for word in (spelling, f"{name}={rule}")]
    if isinstance(value, tuple):
        names = io.StringIO()
        csv.writer(names, lineterminator="").writerow(value)
        return [spelling, names.getvalue()]
    return [word for x in (value if isinstance(value, list) else [value]) for word in (spelling, _text(x))]


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def python(table: str, roles: Roles, design: Asked, out: str, more: Asked) -> str:
    """The same in Python."""
    read = {name: more[name] for name in READING if more.get(name)}
    own = f"sf.open_source({table!r}, {_arguments(read)})" if read else repr(table)
    wishes = {
        "keep": list(roles.keep), "bins": roles.bins, "rare": roles.rare,
        "missing": roles.missing if roles.missing != "category" else None, "public": roles.public,
        "design": design["design"], "design_epsilon": design.get("design_epsilon"), "at_most": design["at_most"],
    }
    asked = ("publisher", "people", "budget", "force", "anyway")
    publish = {"keep": list(roles.keep), **{k: more.get(k) for k in asked}}
    ledger = f", ledger=sf.Ledger({more['ledger']!r})" if more.get("ledger") else ""
    told = _arguments(publish)
    lines = [
        "import sfumato as sf", "",
        f"plan = sf.plan({own}, {list(roles.secret)!r}, {design['epsilon']:g}, {list(roles.useful)!r}, "
        f"{_arguments(wishes)})",
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


def _edges(rule: Sequence[float]) -> str:
    return ";".join(f"{x:g}" if float(f"{x:g}") == x else repr(x) for x in rule) + (";" if len(rule) == 1 else "")


def _arguments(given: Asked) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in given.items() if value not in (None, False, "", [], {}, ()))
