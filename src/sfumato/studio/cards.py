"""Cards: what each column of a table is, counted in one pass, and what its bins or groups would hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import DATE_PARTS, MISSING, Column, Floats, Ints, spelled
from sfumato.decimals import near, percent
from sfumato.grouping import FEW, numbering, numbers_or_none, quantiles, round_edges, with_numbers
from sfumato.joint import SMALL
from sfumato.releasing.columns import MOST_COUNTED, with_labels
from sfumato.releasing.planning import MANY
from sfumato.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.frames import Record

BARS = 48  # of a histogram of numbers
LISTED = 12  # values that a card lists; the others are one bar
GROUPS = 60  # values or bins that are drawn while somebody edits them
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
            x = numbers_or_none(values, self.name, self.rows)
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
        if many is None or (many >= MANY and 2 * many > self.rows):
            return "identifier" if many is not None or self.labels is None else "other"
        return "date" if self._dated() else "category"

    def _measured(self) -> bool:
        return self.numbers is not None and len(self.numbers[0]) > FEW and not numbering(*self.numbers)

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
        shown: list[Record] = [{"label": MISSING if x is None else str(x), "rows": n} for x, n in order[:LISTED]]
        rest = order[LISTED:]
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
        return [{"label": x, "rows": n, "rest": x == "other"} for x, n in held.most_common(GROUPS)]

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
