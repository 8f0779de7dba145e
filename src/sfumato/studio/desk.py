"""A desk: the table, the counts and the designs that a worker process has before it, and the jobs it does with them."""

from __future__ import annotations

import contextlib
import json
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.certification import verify
from sfumato.certification.certificate import PROVED
from sfumato.decimals import LEVEL, MISSING, level, near, percent
from sfumato.drawing.decoding import GUESS
from sfumato.drawing.manifest import Imprint
from sfumato.errors import InputError, SfumatoError, listed, spelled
from sfumato.estimation import Estimate, estimate
from sfumato.estimation.result import NOTE
from sfumato.ledgers.ledger import account_of, account_text
from sfumato.mechanism import load
from sfumato.releasing.alphabets import learnt
from sfumato.releasing.columns import cut, size_of, useful_columns
from sfumato.releasing.files import Files, synthesised
from sfumato.releasing.flow import Account, DrawOptions
from sfumato.releasing.planning import Counted, tabulated
from sfumato.releasing.session import Order
from sfumato.releasing.wishes import Total
from sfumato.reporting import consequences
from sfumato.sources import Source, open_source
from sfumato.sources.dialect import READING
from sfumato.studio.cards import Card, Roles, cards_of, command, design_of, python
from sfumato.studio.levels import Levels, guessed_from, of_before, shown
from sfumato.tolerances import LINES

if TYPE_CHECKING:
    from sfumato.alphabet import Label
    from sfumato.designers.base import Design
    from sfumato.estimation.bundle_tables import BundleEstimate
    from sfumato.frames import Record
    from sfumato.mechanism import Bundle, Mechanism
    from sfumato.releasing.planning import Plan
    from sfumato.releasing.wishes import Notice
    from sfumato.studio.hands import Asked

Tell = Callable[..., None]
TWO = ("yes", "no")  # labels of a secret of which none were told


class Heard:
    """A listener of a release that passes on how it goes."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.said: list[str] = []

    @contextlib.contextmanager
    def step(self, what: str, total: Total = None, *, rows: bool = False) -> Iterator[Callable[[int], None]]:
        self.tell(busy={"what": what})

        def tell(done: int) -> None:
            guess = total(done) if callable(total) else total
            self.tell(busy={"what": what, "rows": f"{done:,} rows", "done": done, "total": guess and max(guess, done)})

        yield tell

    @contextlib.contextmanager
    def search(self, what: str) -> Iterator[Callable[[str, float, float, float], None]]:
        yield lambda stage, value, bound, left: self.tell(busy={"what": what})

    def say(self, text: str) -> None:
        self.said.append(spelled(text, shell=True))

    def warn(self, told: Notice) -> None:
        """Notices are on the page before somebody releases (`Desk.notices`)."""


class Desk:
    """What one worker knows. Rows are read from the file for every pass and never held."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.source: Source | None = None
        self.cards: dict[str, Card] = {}
        self.table: Counted | None = None
        self.tables: dict[str, Counted] = {}  # by what was chosen: what was drawn for it is not drawn again
        self.levels: dict[str, Levels] = {}
        self.saved: set[Path] = set()  # files of what was drawn, written by a release
        self.now: Levels | None = None
        self.designs: dict[float, Design] = {}
        self.analysis: Analysis | None = None

    def open(self, path: str, name: str, reading: Asked) -> Record:
        """Read a table once, and say what its columns are."""
        opened = open_source(Path(path), **{name: reading[name] for name in READING if reading.get(name)})
        opened = replace(opened, name=name)
        heard = Heard(self.tell)
        with heard.step(f"reading {name}", opened.expected, rows=True) as told:
            cards = cards_of(opened, told)
        self.source, self.cards, self.levels, self.tables, self.table, self.now = opened, cards, {}, {}, None, None
        rows = next(iter(cards.values())).rows
        return {
            "name": name, "rows": f"{rows:,}", "columns": [card.shown() for card in cards.values()],
            "said": [spelled(f"{line}.", shell=True) for line in opened.said],
            "guessed": {x.name: x.value for x in opened.reading.guessed},
        }

    def suggest(self, choice: Asked) -> list[str]:
        """The useful columns that the command line would take beside a secret of two values: how many there are is
        told by nobody yet."""
        source, roles = self._source(), Roles.of(choice, self._source().columns)
        wishes = replace(roles.wishes(), useful=(), labels=dict.fromkeys(roles.secret, TWO))
        wishes = cut(source, wishes, roles.keep, exact=False)
        other = [c for c in source.columns if c not in roles.secret and c not in roles.keep]
        return list(useful_columns(source, wishes, other).useful)

    def preview(self, choice: Asked) -> Record:
        """What columns would become, from what is counted already: at once, while somebody drags."""
        roles = Roles.of(choice, self._source().columns)
        bins, rare = choice.get("bins") or {}, choice.get("rare") or {}
        groups, sizes = {}, []
        for name in (*roles.secret, *roles.useful):
            groups[name] = self.cards[name].groups(bins.get(name), rare.get(name))
            sizes.append(self._size(name, roles))
        cells = math.prod(sizes)
        rows = next(iter(self.cards.values())).rows
        return {"groups": groups, "cells": f"{' × '.join(map(str, sizes))} = {cells:,} cells",
                "each": f"about {rows / cells:,.0f} rows in each" if rows >= 10 * cells else
                f"about {near(rows / cells, 2)} rows in each"}

    def _size(self, name: str, roles: Roles) -> int:
        card, wishes = self.cards[name], roles.wishes()
        edges = card.usual_edges if name not in roles.bins and name not in roles.rare else None
        ruled = replace(wishes, bins={**(wishes.bins or {}), **({name: edges} if edges else {})})
        return size_of(card.labels, ruled, name, card.rows) or card.distinct or 1

    def choose(self, choice: Asked, epsilon: float, ledger: str | None) -> bytes:
        """Count the table of the columns chosen and make a first design for a level.

        What is drawn and counted goes back as bytes, for the process that searches for better designs.
        """
        roles = Roles.of(choice, self._source().columns)
        self.tell(counted=None, designs={}, preview=self.preview(choice))
        self.table = self._counted(roles, epsilon)
        guessed = self._guessed(roles)
        self.tell(before=of_before(None if ledger is None else Path(ledger)))
        levels = self.now = replace(self._drawn(epsilon), keep=roles.keep, guessed=guessed)
        self.designs = {}
        self.tell(paid=levels.told.paid)
        self.tell(design=self.add_level(epsilon))
        return pickle.dumps(levels)

    def _guessed(self, roles: Roles) -> float | None:
        """How often the kept columns give the secret away."""
        if not roles.keep:
            return None
        assert self.table is not None
        with Heard(self.tell).step("looking at kept columns", rows=True) as told:
            return guessed_from(self._source().watched(told), self.table.wishes, roles.keep)

    def _counted(self, roles: Roles, epsilon: float) -> Counted:
        """The table of counts, with what looks odd in it. What is told of its labels is found out once."""
        source, heard = self._source(), Heard(self.tell)
        wishes = cut(source, roles.wishes(), roles.keep, exact=False)
        if (known := self.tables.get(repr(wishes))) is None:
            told = learnt(source, wishes.at(epsilon), None, source.path)
            joint = tabulated(source, told.wishes, listener=heard)
            known = self.tables[repr(wishes)] = Counted(joint, wishes, source, source.name, told)
        joint = known.joint
        small = joint.small_cells
        held = f"{small:,} cells hold" if small > 1 else "1 cell holds" if small else "no cell holds"
        self.tell(counted={"small": f"{held} only 1 to 4 people", "said": heard.said})
        return known

    def _drawn(self, epsilon: float) -> Levels:
        """Levels around noisy counts, which are drawn once for the same columns and rules."""
        assert self.table is not None
        known = repr(self.table.wishes)
        if known not in self.levels:
            self.levels[known] = Levels.of(self.table, epsilon)
        return self.levels[known]

    def improve(self, levels: bytes, epsilon: float) -> Record:
        """The design that `sfumato release` would make for a level; its view, and itself as bytes."""
        held: Levels = pickle.loads(levels)
        made = held.design(epsilon, Heard(self.tell), coarse=False)
        return {"view": shown(held, epsilon, made, coarse=False), "made": pickle.dumps(made)}

    def add_level(self, epsilon: float) -> Record:
        """A first design for a level: the best of the closed forms."""
        levels = self._levels()
        made = self.designs[epsilon] = levels.design(epsilon, Heard(self.tell), coarse=True)
        return shown(levels, epsilon, made, coarse=True)

    def said(self, choice: Asked, epsilon: float, out: str, more: Asked, table: str) -> dict[str, str]:
        """The command and the Python lines of a release."""
        roles, levels = Roles.of(choice, self._source().columns), self._levels()
        design = design_of(levels.basis(epsilon), levels.wishes.at(epsilon))
        return {"command": command(table, roles, design, out, more), "python": python(table, roles, design, out, more)}

    def notices(self, epsilon: float, made: bytes | None) -> list[Record]:
        """What has to be said aloud before the mechanism file is given away."""
        plan = self._plan(epsilon, made)
        told = plan.notices()
        return [{"title": n.title, "paragraphs": [spelled(p, shell=True) for p in n.paragraphs]} for n in told]

    def release(self, choice: Asked, epsilon: float, made: bytes | None, out: str, more: Asked, table: str) -> Record:
        """Release the rows into files, as the command line does: checked, drawn, estimated, reported; all or none."""
        roles, plan = Roles.of(choice, self._source().columns), self._plan(epsilon, made)
        force, anyway = bool(more.get("force")), bool(more.get("anyway"))
        files = Files.beside(Path(out), tables=True, inputs=[plan.source.path], force=force)
        account = account_of(Account(None, more.get("people"), more.get("budget")), more.get("ledger"))
        said = self.said(choice, epsilon, Path(out).name, more, table)
        told = {k: v for k, v in more.items() if k not in ("people", "ledger", "force", "publisher")}  # to readers
        public = self.said(choice, epsilon, Path(out).name, told, Path(table).name)
        imprint = Imprint(more.get("publisher") or None, public["command"])
        options = DrawOptions(GUESS, roles.keep, imprint=imprint)
        order = Order(plan.source, files, plan, options, account, anyway=anyway, force=force)
        try:
            with order.released(Heard(self.tell)) as done:
                left = [f"{name} was left out" for name in done.left_out]
                lines = [f"{done.rows:,} rows with {', '.join(c.name for c in done.manifest.columns)}", *left[:5]]
        finally:  # what was drawn is kept also where it is refused
            self.saved |= {x.place for x in plan.kept if x.is_there}
        kept = {"counts": str(plan.kept[0].place)} if plan.kept else {}  # one: useful columns are named
        return {
            "files": {**{name: str(path) for name, path in done.files.items()}, **kept}, "lines": lines, **said,
            "notes": [spelled(n, shell=True) for n in done.notes],
            "ledger": None if done.account is None else account_text(done.account),
        }

    def analyse(self, paths: list[str], decode: str | None) -> Record:
        """Verify somebody's release, and estimate from it."""
        self.analysis = Analysis.opened(map(Path, paths))
        self.tell(busy={"what": "verifying"})
        verdict, source = self.analysis.verdict(), self.analysis.source
        self.tell(verdict=verdict)
        if source is None or not verdict["holds"]:
            return {"verdict": verdict, "estimate": None, "name": self.analysis.file.name}
        with Heard(self.tell).step(f"estimating from {source.name}", source.expected, rows=True) as told:
            found = self.analysis.estimated(source.watched(told), decode or None)
        return {"verdict": verdict, "estimate": found, "name": source.name}

    def ask(self, kind: str, names: list[str]) -> Record:
        """A table or odds ratios of the release that is being analysed."""
        asked = self._analysis()
        return {"kind": kind, **(asked.odds(names) if kind == "odds" else asked.table(names))}

    def synthesise(self, rows: int, to: str) -> str:
        """Synthetic records in a file."""
        return str(self._analysis().synthetic(rows, Path(to)))

    def _analysis(self) -> Analysis:
        if self.analysis is None:
            raise InputError("open a release first.")
        return self.analysis

    def _plan(self, epsilon: float, made: bytes | None) -> Plan:
        levels = self._levels()
        assert self.table is not None
        own = self.designs[epsilon] if made is None else pickle.loads(made)
        found = levels.basis(epsilon)
        if found.kept is not None and found.kept.place in self.saved:  # counts follow labels, not the reverse
            found = replace(found, kept=None if found.source is not None else replace(found.kept, again=True))
        return replace(self.table, wishes=levels.wishes.at(epsilon)).plan(found, own)

    def _levels(self) -> Levels:
        if self.now is None:
            raise InputError("say which column is secret and which are useful first.")
        return self.now

    def _source(self) -> Source:
        if self.source is None:
            raise InputError("open a table first.")
        return self.source


# --- somebody's release, verified and read: estimates, tables, odds ratios, synthetic records -------------------------


FORMATS = {"sfumato/mechanism": "mechanism", "sfumato/bundle": "mechanism", "sfumato/manifest": "manifest"}
LARGEST_JSON = 1 << 28  # bytes of a mechanism file or manifest
MOST_RECORDS = 10_000_000  # synthetic ones, which are held in memory


def _kind(path: Path) -> str | None:
    if path.suffix.lower() != ".json" or path.stat().st_size > LARGEST_JSON:
        return None
    try:
        found = json.loads(path.read_bytes())
        return FORMATS.get(str(found.get("format")), "unknown") if isinstance(found, dict) else "unknown"
    except (ValueError, RecursionError):
        return "mechanism"  # what is wrong with it is said by whoever reads mechanism files


@dataclass(slots=True, eq=False)
class Analysis:
    """A release that somebody brought, opened."""

    file: Path
    mechanism: Mechanism | Bundle
    source: Source | None  # the released table, if it was brought
    found: Estimate | BundleEstimate | None = None

    @classmethod
    def opened(cls, paths: Iterable[Path]) -> Analysis:
        """Which file is which is told by what it says of itself."""
        kinds = {path: _kind(path) for path in paths}
        tables = [path for path, kind in kinds.items() if kind is None]
        laws = [path for path, kind in kinds.items() if kind == "mechanism"]
        if not laws:
            raise InputError("the mechanism file of the release is missing (NAME.mechanism.json): nothing can be "
                             "verified or estimated without it.")
        if len(tables) > 1:
            raise InputError(f"one released table at a time: {listed([t.name for t in tables])} are {len(tables)}.")
        return cls(laws[-1], load(laws[-1]), open_source(tables[0]) if tables else None)

    def verdict(self) -> Record:
        """What `sfumato verify` says of the mechanism file."""
        made = self.mechanism
        try:
            proof = verify(self.file)
        except SfumatoError as error:
            return {"holds": False, "title": "The claim was not proved", "lines": [error.text(shell=True)]}
        lines = [f"{level(proof.level, LEVEL)}, from the integers in {self.file.name}."]
        lines += [f"{level(other.level, LEVEL)} ({other.within})." for other in proof.also]
        lines += [f"It rests on: {proof.basis}."] if proof.basis != PROVED else []
        lines += consequences(made, proof)
        return {"holds": True, "title": f"Holds: {made.claim.sentence if made.claim else proof.title}", "lines": lines}

    def estimated(self, source: Source, decode: str | None) -> Record:
        """Every column by itself, and what can be asked."""
        self.found = estimate(source, self.mechanism, decode=decode)
        found = self.found
        names = [c.name for c in found.columns] if isinstance(found, Estimate) else list(found.columns)
        return {
            "n": f"{found.n:,}", "names": names, "tables": [self.table([name]) for name in names],
            "notes": list(found.notes), "synthetic": NOTE,
        }

    def table(self, names: Sequence[str]) -> Record:
        """The estimated table of some columns; of two also the shares of the first within the second."""
        made = self._found().table(*names)
        low, high = (x.ravel() for x in made.interval())
        cells = zip(product(*(c.labels for c in made.columns)), made.p.ravel(), low, high, strict=True)
        place = [made.names.index(n) for n in names]
        rows = [_row([labels[i] for i in place], *x) for labels, *x in sorted(cells, key=lambda cell: -cell[1])]
        out: Record = {"names": list(names), "rows": rows[:LINES], "more": max(len(rows) - LINES, 0),
                       "within": [], "identified": made.identified, "test": ""}
        if len(names) == 2 and made.identified:
            within = made.shares(names[1], together=True)
            told = [_row([x[n] for n in names], *three) for x, *three in within.each() if three[0] == three[0]]
            out["within"] = told[:LINES]
            out["test"] = repr(made.independence()).strip("<>")
        return out

    def odds(self, names: Sequence[str]) -> Record:
        """Odds ratios of two columns."""
        found = self._found().table(*names).odds_ratios()
        texts = (([x[n] for n in names], *(near(y, 3) for y in three)) for x, *three in found.each())
        rows = [{"labels": labels, "words": f"{e} ({low} to {high})"} for labels, e, low, high in texts]
        return {"names": list(names), "rows": rows[:LINES], "more": max(len(rows) - LINES, 0)}

    def synthetic(self, rows: int, to: Path) -> Path:
        """Synthetic records in a file."""
        found = self._found()
        if not 0 < rows <= MOST_RECORDS:
            raise InputError(f"the number of records must be a whole number from 1 to {MOST_RECORDS:,}", value=rows)
        synthesised(found, self.mechanism, rows, Files.beside(to, mechanism=False, report=False))
        return to

    def _found(self) -> Estimate | BundleEstimate:
        if self.found is None:
            raise InputError("there is no released table to estimate from", next="Add it to the mechanism file.")
        return self.found


def _row(labels: Sequence[Label], share: float, low: float, high: float) -> Record:
    return {"label": " · ".join(x or MISSING for x in labels), "share": float(share), "low": float(low),
            "high": float(high), "words": f"{percent(share, 1)} ({percent(low, 1)} to {percent(high, 1)})"}
