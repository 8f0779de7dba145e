"""tabulate: count a source into a Joint, with declared rules for missing, numeric and rare values."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sfumato.alphabet import DATE_PARTS, WEEKDAYS, Alphabet, Column, Floats, Ints, Label, spelled
from sfumato.errors import At, DataError, InputError, option, unknown
from sfumato.errors import spelled as spelled_for
from sfumato.joint import Joint
from sfumato.sources import Source, open_source
from sfumato.sources.values import automatic_edges, bin_edges, grouped, keys
from sfumato.tolerances import BLOCK

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.sources.source import TableLike

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
BINS, RARE, LABELS = option("--bins", "bins="), option("--rare", "rare="), option("--labels", "labels=")
V = TypeVar("V")
Rare = float | Mapping[str, float] | None
BinRule = int | str | Sequence[float]  # how many, a part of dates, or inner edges
Bins = Mapping[str, BinRule] | None
Unseen = str | Mapping[str, str] | None
Labels = Mapping[str, Sequence[object] | Column] | None


def tabulate(
    source: TableLike, secret: str | Iterable[str], useful: str | Iterable[str], *, missing: str = "category",
    bins: Bins = None, automatic: bool = False, rare: Rare = None, other: str = "other", unseen: Unseen = None,
    labels: Labels = None, limit: int = BLOCK, na: str | Iterable[str] | None = None, counts: str | None = None,
) -> Joint:
    """The joint counts of secret and useful columns, in one pass over any source (two for quantile bins).

    missing: 'category' gives missing values a label of their own where they occur, 'refuse' makes an error.
    bins: for a numeric column the number of quantile bins, or a list of inner edges; for dates 'year', 'quarter',
    'month' or 'weekday'. automatic=True cuts every other column of many numbers into bins of about equal size.
    rare: labels with fewer rows than this (below 1: than this fraction of rows) are grouped under `other`;
    a number for all columns, or a number for each column named.
    unseen: the label that takes values which these data do not have, when others are encoded later; one for all
    columns that have this label, or one for each column named. Where rare labels are grouped, `other` takes them.
    labels: for columns named, all labels they have, fixed before a row is seen (None for missing values), or a Column
    with its bins and its label for the rest; other values are refused, or counted as `unseen`. A finite-sample
    confidence holds for fixed labels alone: what a column has no label for, because it did not occur, no ball around
    the counts allows for. `.learned` names the columns without.
    na, counts: the spellings of missing values, and the column that says how many people a row is (`open_source`).
    What was found out about a file, and labels that look alike, are in `.notes`.

    >>> import pyarrow as pa
    >>> people = pa.table({"sex": ["F", "M", "F"], "age": [20, 40, 70]})
    >>> tabulate(people, "sex", "age", bins={"age": [30, 65]}).counts.tolist()
    [[1, 0, 1], [0, 1, 0]]
    """
    opened = open_source(source, na=na, counts=counts)
    secrets, usefuls = _names(secret, "secret", opened), _names(useful, "useful", opened)
    names, bins, labels = [*secrets, *usefuls], _by_column("bins", bins), _by_column("labels", labels)
    _check_names(secrets, usefuls)
    if missing not in ("category", "refuse"):
        raise InputError("missing must be 'category' or 'refuse'", value=missing)
    for what, given in (("bins", bins), ("rare", rare), ("unseen", unseen), ("labels", labels)):
        for name in given if isinstance(given, Mapping) else ():
            if name not in names:
                raise unknown(f"a secret or useful column, yet {what} names it", name, names)
    _check_fixed(labels, bins, rare)
    rules, found = _rules(opened, names, {**bins, **_ruled(labels)}, labels, automatic)
    groups = grouped(found, names, rules, missing)
    rows = groups.column("n").to_numpy()
    columns, codes = {}, {}
    for key, name in zip(keys(names), names, strict=True):
        held, least = groups.column(key).to_pylist(), _threshold(rare, name, rows)
        if name in labels:
            columns[name], codes[name] = _fixed(name, labels[name], held, unseen)
        else:
            columns[name], codes[name] = _coded(name, held, rows, rules.get(name), least, other)
    columns = catching(columns, unseen)
    s, u = (Alphabet.of(*(columns[n] for n in part)) for part in (secrets, usefuls))
    _check_size(s, u, limit, int(rows.sum()), opened.name)
    at = np.ravel_multi_index([codes[name] for name in names], [columns[name].size for name in names])
    table = np.bincount(at, rows, s.size * u.size).astype(np.int64)
    cut = [n for n, rule in bins.items() if not isinstance(rule, (int, str))]
    edges = [n for n in cut if None not in columns[n].labels]
    learned = tuple(n for n in names if n not in edges and n not in labels)
    found_out = tuple(map(spelled_for, (*opened.said, *_cut(rules, {*bins, *labels}))))
    return Joint.from_counts(table.reshape(s.size, u.size), s, u, learned=learned, notes=found_out)


def _by_column(what: str, given: Mapping[str, V] | None) -> Mapping[str, V]:
    if isinstance(given or {}, Mapping):
        return given or {}
    raise InputError(f"{what} are said for each column", value=given, next=f"Write {what}={{'column': …}}.")


def _rules(
    source: Source, names: list[str], bins: Mapping[str, BinRule], labels: Mapping[str, object], automatic: bool
) -> tuple[dict[str, Floats | str], Source]:
    """For binned columns their inner edges or the part of their dates, and a source that can be read once more."""
    for rule in bins.values():
        if isinstance(rule, str) and rule not in DATE_PARTS:
            raise unknown("a part of dates", rule, DATE_PARTS)
    free = [n for n in names if n not in bins and n not in labels] if automatic and source.cluster is None else []
    if free or any(isinstance(b, int) for b in bins.values()):
        source = source.settled(names)
    told: dict[str, Floats | str] = {
        n: rule if isinstance(rule, str) else bin_edges(source, n, rule) for n, rule in bins.items()
    }
    return {**told, **(automatic_edges(source, free) if free else {})}, source


def _ruled(labels: Mapping[str, Sequence[object] | Column]) -> dict[str, BinRule]:
    """The bins of columns that were given whole."""
    given = {n: c for n, c in labels.items() if isinstance(c, Column)}
    parts = {n: c.dtype for n, c in given.items() if c.dtype in DATE_PARTS}
    return {**parts, **{n: list(c.cuts) for n, c in given.items() if c.cuts is not None}}


def _cut(rules: Mapping[str, Floats | str], said: Collection[str]) -> list[str]:
    """Where columns were cut that nobody said how to cut."""
    free = {n: rule for n, rule in rules.items() if n not in said and not isinstance(rule, str)}
    shown = {n: ", ".join(np.format_float_positional(x, trim="-") for x in edges) for n, edges in free.items()}
    return [f"{name} is cut at {edges} ({BINS})" for name, edges in shown.items()]


def _names(given: str | Iterable[str], role: str, source: Source) -> list[str]:
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else []
    if not names:
        known = ", ".join(source.columns[:20])
        raise InputError(f"{role} names no column", value=given, next=f"Name one or several of {known}.")
    return source.find(*names)


def _check_names(secrets: list[str], usefuls: list[str]) -> None:
    for part in (secrets, usefuls):
        if len(set(part)) != len(part):
            raise InputError(f"a column is named twice in {part}", next="Name each once.")
    both = sorted(set(secrets) & set(usefuls))
    if both:
        raise InputError(f"{both[0]!r} is both secret and useful; a column can be only one of them.")


def _check_size(s: Alphabet, u: Alphabet, limit: int, rows: int, where: str) -> None:
    if rows == 1:
        raise DataError("has one row; a distribution cannot be estimated from it", where=where,
                        next="Give the rows of more people.")
    sizes = ", ".join(f"{c.name} {c.size:,}" for c in (*s.columns, *u.columns))
    if s.size * u.size > limit:
        raise InputError(
            f"the table would have {s.size * u.size:,} cells, more than the limit of {limit:,} (distinct values: "
            f"{sizes})",
            next=f"Bin numeric columns ({BINS}), group rare labels ({RARE}), leave a column out, or raise limit=.",
        )
    if s.size == 1:
        raise InputError(
            f"the secret ({', '.join(s.names)}) has a single value in {where}, the same for all: there is nothing to "
            "protect",
            next="Choose another secret, or design on data in which it varies.",
        )


def _threshold(rare: Rare, name: str, rows: Ints) -> float:
    """The fewest rows a label of this column needs to keep its name."""
    least = rare.get(name) if isinstance(rare, Mapping) else rare
    if least is None:
        return 0
    if not (isinstance(least, (int, float)) and math.isfinite(least) and least >= 0):
        raise InputError("rare must be a number of rows, or a fraction below 1", value=least)
    return least * float(rows.sum()) if 0 < least < 1 else float(least)


def _coded(
    name: str, groups: list[Label], rows: Ints, rule: Floats | str | None, least: float, other: str
) -> tuple[Column, Ints]:
    """The column's rule, and the code of each group."""
    if rule is not None and not isinstance(rule, str):
        column = Column.of(name, cuts=rule.tolist(), missing=None in groups, dtype="number")
        return column, np.array([column.size - 1 if x is None else x for x in groups], np.int64)
    totals: dict[Label, int] = {}
    for label, n in zip(groups, rows.tolist(), strict=True):
        totals[label] = totals.get(label, 0) + n
    texts = [x for x in totals if x is not None]
    dtype = rule or dtype_of(texts)
    rare = {x for x in texts if totals[x] < least}
    if rare and other in totals and other not in rare:
        raise InputError(f"has a label {other!r} already", next="Choose another with other=.", where=At(name))
    labels: list[Label] = [*arranged([x for x in texts if x not in rare], dtype)]
    labels += ([other] if rare else []) + ([None] if None in totals else [])
    column = Column(name, tuple(labels), other if rare else None, dtype=dtype)
    place = {x: i for i, x in enumerate(labels)}
    return column, np.array([place[other if x in rare else x] for x in groups], np.int64)


def _check_fixed(labels: Mapping[str, Sequence[object] | Column], bins: Mapping[str, BinRule], rare: Rare) -> None:
    """Labels that are given can be neither bins nor grouped by how rare they are."""
    twice = [n for n in labels if n in bins or (isinstance(rare, Mapping) and n in rare)]
    if twice:
        raise InputError(f"has {LABELS}, so it can have neither {BINS} nor {RARE} as well", where=At(twice[0]))


def _fixed(name: str, labels: Sequence[object] | Column, groups: list[Label], unseen: Unseen) -> tuple[Column, Ints]:
    """The column with the labels that were given, and the code of each group."""
    if isinstance(labels, Column):
        binned = labels.cuts is not None
        return labels, np.array([x if binned and x is not None else labels.code(x) for x in groups], np.int64)
    texts = [str(x) for x in labels if x is not None]
    catch = unseen.get(name) if isinstance(unseen, Mapping) else unseen if unseen in texts else None
    column = Column.of(name, labels, other=catch, dtype=dtype_of(texts))
    place = {x: column.code(x) for x in set(groups)}
    return column, np.array([place[x] for x in groups], np.int64)


def catching(columns: dict[str, Column], unseen: Unseen) -> dict[str, Column]:
    """The columns with the label that takes unseen values, which must be one of theirs."""
    if unseen is None:
        return columns
    if isinstance(unseen, str):
        free = [n for n, c in columns.items() if c.cuts is None and unseen in c.labels and c.other in (None, unseen)]
        if not free:
            raise InputError(
                f"unseen is {unseen!r}, but no column has that label", next="Name one of a column's labels."
            )
        unseen = dict.fromkeys(free, unseen)
    for name, label in unseen.items():
        column = columns[name]
        if column.cuts is not None or label not in column.labels:
            known = ", ".join(str(x) for x in column.labels[:12] if x is not None)
            raise InputError(f"unseen must be a label of column {name!r} ({known})", value=label)
        if column.other not in (None, label):
            raise InputError(f"unseen values of column {name!r} go to {column.other!r}, with the rare ones already.")
    return {n: replace(c, other=unseen[n]) if n in unseen else c for n, c in columns.items()}


def dtype_of(labels: Sequence[str]) -> str:
    """How labels are to be compared: by value if they are all numbers or all booleans in distinct spellings.

    Numbers with leading zeros are codes, and '1.0' beside '1' are two labels, so both stay text.

    >>> dtype_of(["1", "0.5"]), dtype_of(["01", "02"]), dtype_of(["True", "False"])
    ('number', 'string', 'boolean')
    """
    for dtype, fits in (
        ("number", lambda x: NUMBER.fullmatch(x) is not None),
        ("boolean", lambda x: x.lower() in ("true", "false")),
    ):
        if labels and all(map(fits, labels)) and len({spelled(x, dtype) for x in labels}) == len(labels):
            return dtype
    return "string"


def arranged(labels: list[str], dtype: str) -> list[str]:
    """In the order of weekdays, numbers or letters."""
    if dtype == "weekday":
        return sorted(labels, key=WEEKDAYS.index)
    return sorted(labels, key=float) if dtype == "number" else sorted(labels)


def counted_groups(
    batches: Iterable[pa.RecordBatch], groups: Sequence[Sequence[Column]], names: Mapping[str, str] | None = None
) -> tuple[list[Ints], int]:
    """The table of each group of columns, flat, and the rows, in one pass; `names` gives the batches' column names,
    where they are others."""
    columns = {c.name: c for group in groups for c in group}
    totals, rows = [np.zeros(math.prod(c.size for c in group), np.int64) for group in groups], 0
    for batch in batches:
        codes = {n: c.encode(batch.column((names or {}).get(n, n)), first_row=rows) for n, c in columns.items()}
        rows += batch.num_rows
        for total, group in zip(totals, groups, strict=True):
            at = np.ravel_multi_index([codes[c.name] for c in group], [c.size for c in group])
            total += np.bincount(at, minlength=len(total))
    return totals, rows


def counted(source: Source, secret: Alphabet, useful: Alphabet, names: Mapping[str, str]) -> Joint:
    """The table of counts under given alphabets; `names` gives the source's column names, where they are others."""
    whole = [*secret.columns, *useful.columns]
    rows = source.knowing(whole).batches([names.get(c.name, c.name) for c in whole])
    (total,), _ = counted_groups(rows, [whole], names)
    return Joint.from_counts(total.reshape(secret.size, useful.size), secret, useful)
