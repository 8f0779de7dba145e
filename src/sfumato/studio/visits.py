"""Visits: what one tab works on, as the page sees it; it stays when the page is loaded anew, and others see nothing of
it. A visit gives jobs to its worker and passes on what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import InputError, SfumatoError, bug, designed_epsilon
from sfumato.studio.door import Folder, Incoming, checked_name
from sfumato.studio.hands import Hand, Hands, Unwanted

if TYPE_CHECKING:
    from sfumato.frames import Datum
    from sfumato.studio.hands import Asked, Document

STOPS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0)  # levels of the slider, in nats
FIRST_LEVEL = 1.0  # where it stands at first
EMPTY: Document = {"roles": {}, "bins": {}, "rare": {}, "missing": "category", "public": False}


class Visit:
    """One table on its way through the steps."""

    def __init__(self, hands: Hands, folder: Folder, ledger: Path | None) -> None:
        self.id = secrets.token_urlsafe(24)
        self.hands, self.folder, self.ledger = hands, folder, ledger
        self.worker: Hand | None = None
        self.seeker: Hand | None = None
        self.upload: Incoming | None = None
        self.table: Path | None = None
        self.spelled = ""  # the table as the command names it
        self.reading: Document = {}
        self.wanted: Document | None = None
        self.levels: bytes | None = None
        self.made: dict[float, bytes] = {}  # better designs, for the worker that releases
        self.files: dict[str, Path] = {}
        self.brought: list[Incoming] = []  # files of a release to analyse
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.listeners: set[asyncio.Queue[Document]] = set()
        self.state: Document = {
            "table": None, "reading": {}, "choice": EMPTY, "preview": None, "paid": 0.0, "counted": None, "designs": {},
            "before": None, "stops": list(STOPS), "epsilon": FIRST_LEVEL, "search": None, "busy": None, "errors": {},
            "notices": [], "release": None, "analysis": None, "answers": [], "ledger": ledger and str(ledger),
        }

    @property
    def hand(self) -> Hand:
        """The process that holds the table; taken when there is something to do."""
        if self.worker is None:
            self.worker = self.hands.take()
        return self.worker

    # what the page sees

    def put(self, **values: Datum) -> None:
        """Change what the page sees, in every tab that looks."""
        self.state.update(values)
        self._send({"put": values})

    def told(self, news: Asked) -> None:
        """What a worker says while it works."""
        rest = dict(news)
        view = rest.pop("design", None)
        if view is not None and not (view["coarse"] and view["epsilon"] in self.made):  # a better one came first
            self.state["designs"][view["name"]] = view
            self._send({"design": view})
        if "verdict" in rest:
            rest["analysis"] = {"verdict": rest.pop("verdict"), "estimate": None, "name": ""}
        if rest:
            self.put(**rest)

    def _send(self, message: Document) -> None:
        for queue in self.listeners:
            queue.put_nowait(message)

    @contextlib.contextmanager
    def listening(self) -> Iterator[asyncio.Queue[Document]]:
        """Everything now, and every change from now on."""
        queue: asyncio.Queue[Document] = asyncio.Queue()
        queue.put_nowait({"put": self.state})
        self.listeners.add(queue)
        try:
            yield queue
        finally:
            self.listeners.discard(queue)

    @contextlib.contextmanager
    def refusing(self, field: str) -> Iterator[None]:
        """Words of refusal beside a field; none where all goes well."""
        self.state["errors"].pop(field, None)
        try:
            yield
        except Unwanted:
            pass
        except SfumatoError as error:
            self.state["errors"][field] = error.fields()
        except Exception as error:  # said where it is seen; its own text may quote values
            self.state["errors"][field] = bug(error).fields()
        finally:
            self.put(busy=None, errors=self.state["errors"])

    # the table

    async def open(self, path: Path, name: str, spelled: str, reading: Asked) -> None:
        """Read a table and show its columns."""
        self.forget()
        self.table, self.spelled, self.reading = path, spelled, dict(reading)
        self.put(table=None, release=None, choice=EMPTY, reading=dict(reading), busy={"what": f"reading {name}"})
        with self.refusing("table"):
            found = await self.hand.do("open", self.told, path=str(path), name=name, reading=dict(reading))
            roles = {column["name"]: "out" for column in found["columns"]}
            self.put(table=found, choice={**EMPTY, "roles": roles})
            self.seeker = self.seeker or self.hands.take()  # it loads itself while columns are chosen

    async def taken(self, upload: Incoming, reading: Asked) -> None:
        """An upload that has come: the one before it is forgotten."""
        before, self.upload = self.upload, upload
        await self.open(upload.path, upload.path.name, upload.path.name, reading)
        if before is not None:
            before.drop()

    def forget(self) -> None:
        """Stop whatever is under way about the table."""
        self.wanted, self.levels, self.made = None, None, {}
        for name in ("choosing", "searching"):
            task = self.tasks.pop(name, None)
            if task is not None:
                task.cancel()
        self.stop()
        self.put(preview=None, counted=None, designs={}, search=None, errors={}, notices=[])

    # columns and designs

    def choose(self, choice: Asked) -> None:
        """Columns were chosen, bins moved: the newest choice counts, and what is made for an older one is given up."""
        known = {**EMPTY, **{k: choice[k] for k in EMPTY if k in choice}}
        self.stop_search()
        self.wanted, self.levels, self.made = known, None, {}
        self.put(choice={**known, "by": str(choice.get("by", ""))[:40]}, search=None)
        task = self.tasks.get("choosing")
        if task is None or task.done():
            self.tasks["choosing"] = asyncio.create_task(self._choosing())
        else:
            self.hand.give_up("choose", "add_level")  # never a release that is under way

    async def _choosing(self) -> None:
        while self.wanted is not None:
            choice, self.wanted = self.wanted, None
            roles = set(choice["roles"].values())
            with self.refusing("columns"):
                if {"secret", "useful"} <= roles:
                    ledger = None if self.ledger is None else str(self.ledger)
                    levels = await self.hand.do(
                        "choose", self.told, choice=choice, epsilon=self.state["epsilon"], ledger=ledger
                    )
                    if self.wanted is None:  # else these are the levels of a choice that counts no more
                        self.levels = levels
                        self.put(stops=[e for e in sorted({*STOPS, self.state["epsilon"]}) if e > self.state["paid"]])
                        self.search()
                        await self._first_designs()
                else:
                    self.put(counted=None, designs={}, preview=await self.hand.do("preview", choice=choice))

    async def _first_designs(self) -> None:
        """First designs for all other levels, one job each, so that whatever else is asked is not kept waiting."""
        self.put(busy={"what": "first designs for other levels"})
        for at in nearest_first(self.state["stops"], self.state["epsilon"]):
            if self.wanted is None and f"{at:g}" not in self.state["designs"]:
                self.told({"design": await self.hand.do("add_level", epsilon=at)})

    async def suggest(self) -> None:
        """Take the useful columns that the command line would take."""
        choice = self.state["choice"]
        with self.refusing("columns"):
            taken = await self.hand.do("suggest", self.told, choice=choice)
            roles = {c: "out" if role == "useful" else role for c, role in choice["roles"].items()}
            self.choose({**choice, "roles": {**roles, **dict.fromkeys(taken, "useful")}, "by": ""})

    async def look_at(self, epsilon: float) -> None:
        """Another level is looked at: it is searched for first, and made if there is none."""
        with self.refusing("epsilon"):
            at = float(f"{designed_epsilon(epsilon):.6g}")
            if at == 0:
                raise InputError(
                    "epsilon must be positive here: at 0 nothing is told", next="Usual levels are 0.1 to 4."
                )
            self.put(epsilon=at)
            if at not in self.state["stops"]:
                self.put(stops=sorted({*self.state["stops"], at}))
                if self.state["counted"] is not None:
                    self.told({"design": await self.hand.do("add_level", self.told, epsilon=at)})
            searching = self.state["search"]
            if searching is not None and searching["state"] == "running" and searching["at"] != at:
                self.search()

    def search(self) -> None:
        """Search for better designs at every level, the nearest to the one looked at first."""
        self.stop_search()
        if self.levels is not None:
            self.tasks["searching"] = asyncio.create_task(self._searching(self.levels))

    def stop_search(self) -> None:
        """Whatever is searched for."""
        task = self.tasks.pop("searching", None)
        if task is not None and not task.done():
            task.cancel()
            self.put(search={"state": "stopped", "at": None})

    async def _searching(self, levels: bytes) -> None:
        seeker = self.seeker = self.seeker or self.hands.take()
        while left := [e for e in self.state["stops"] if e not in self.made]:
            at = nearest_first(left, self.state["epsilon"])[0]
            self.put(search={"state": "running", "at": at, "left": len(left)})
            with self.refusing("epsilon"):
                found = await seeker.do("improve", levels=levels, epsilon=at)
                self.made[at] = found["made"]
                self.told({"design": found["view"]})
                continue
            break  # it was refused, and is said
        self.put(search={"state": "done", "at": None})

    # release

    async def say(self, asked: Asked) -> None:
        """What has to be read before a release, and the command and lines that would make it."""
        with self.refusing("release"):
            at, out, more = self._asked(asked)
            told = await self.hand.do("notices", epsilon=at, made=self.made.get(at))
            said = await self.hand.do(
                "said", choice=self.state["choice"], epsilon=at, out=out, more=more, table=self.spelled
            )
            self.put(notices=told, said=said)

    async def release(self, asked: Asked) -> None:
        """Write the files of a release, to a folder of this machine or for downloads."""
        self.put(release=None, busy={"what": "releasing"})
        with self.refusing("release"):
            at, name, more = self._asked(asked)
            folder = str(asked.get("folder") or "").strip()
            out = Path(folder).expanduser() if folder else self.folder.place()
            if folder and not out.is_dir():
                raise InputError("is no folder of this machine", where=out)
            found = await self.hand.do(
                "release", self.told, choice=self.state["choice"], epsilon=at, made=self.made.get(at),
                out=str(out / name), more=more, table=self.spelled,
            )
            self.files = {key: Path(path) for key, path in found.pop("files").items()}
            names = {key: path.name for key, path in self.files.items()}
            self.put(release={**found, "files": names, "folder": str(out) if folder else None, "epsilon": at})

    def _asked(self, asked: Asked) -> tuple[float, str, Document]:
        """The level, the name of the table, and the other options of a release."""
        at = self.state["epsilon"]
        if f"{at:g}" not in self.state["designs"]:
            raise InputError("there is no design for this level yet", next="Choose columns and wait for the first one.")
        people, budget = str(asked.get("people") or "").strip(), asked.get("budget")
        if budget is not None and (not isinstance(budget, (int, float)) or isinstance(budget, bool)):
            raise InputError("budget must be a number of nats", value=budget)
        ledger = self.ledger if people or budget is not None else None
        more = {
            **self.reading, "anyway": bool(asked.get("anyway")), "force": bool(asked.get("force")),
            "publisher": str(asked.get("publisher") or "").strip() or None, "people": people or None,
            "budget": None if budget is None else float(budget), "ledger": None if ledger is None else str(ledger),
        }
        return at, checked_name(str(asked.get("name") or "released.csv")), more

    # analysis

    def bring(self, name: str, *, first: bool) -> Incoming:
        """A file of somebody's release, beside those that came before it."""
        if first:
            for one in self.brought:
                one.drop()
            self.brought = []
        folder = self.brought[0].path.parent if self.brought else self.folder.place()
        self.brought.append(Incoming.below(folder, checked_name(name)))
        return self.brought[-1]

    async def analyse(self, *, own: bool, decode: str | None = None) -> None:
        """Verify a release and estimate from it: the one made here, or the files that were brought."""
        paths = [str(p) for key, p in self.files.items() if key in ("table", "mechanism")] if own else [
            str(one.path) for one in self.brought
        ]
        self.put(analysis=None, answers=[], busy={"what": "opening the release"})
        with self.refusing("analysis"):
            if not paths:
                raise InputError("open a release first: its table and its mechanism file.")
            self.put(analysis=await self.hand.do("analyse", self.told, paths=paths, decode=decode))

    async def ask(self, kind: str, names: list[str]) -> None:
        """A table or odds ratios."""
        with self.refusing("ask"):
            found = await self.hand.do("ask", kind=kind, names=names)
            self.put(answers=[found, *self.state["answers"]][:12])

    async def synthesise(self, rows: int, name: str) -> Path:
        to = self.folder.place() / checked_name(name)
        return Path(await self.hand.do("synthesise", rows=rows, to=str(to)))

    def stop(self) -> None:
        """Give up what the worker is doing."""
        if self.worker is not None:
            self.worker.give_up()

    def close(self) -> None:
        """End its processes, and drop what was uploaded."""
        for task in self.tasks.values():
            task.cancel()
        for hand in (self.worker, self.seeker):
            if hand is not None:
                self.hands.give_back(hand)
        for upload in (self.upload, *self.brought):
            if upload is not None:
                upload.drop()


def nearest_first(stops: Sequence[float], epsilon: float) -> list[float]:
    """The levels in the order in which somebody who looks at one will want them.

    >>> nearest_first([0.5, 1.0, 2.0], 2.0)
    [2.0, 1.0, 0.5]
    """
    return sorted(stops, key=lambda at: max(at / epsilon, epsilon / at))
