"""sfumato design, plan and compare: a mechanism file without a release, what a release will be worth, and which method
would be best, before any is made."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

import sfumato as sf
from sfumato import privacy, releasing, reporting
from sfumato.atomic import check_target, make_folder
from sfumato.cli import INTERRUPTED, Grouped
from sfumato.cli.console import (
    LONGEST_LINE,
    Answer,
    Screen,
    board,
    columns,
    document,
    heading,
    notice,
    pairs,
    show_answer,
    spark,
    story,
    width,
)
from sfumato.cli.options import (
    Location,
    Many,
    Names,
    asking,
    counting,
    force_option,
    joined,
    json_option,
    read_as,
    reading,
    secret_option,
    table_argument,
    table_source,
    useful_option,
    wishes_of,
    wishing,
)
from sfumato.decimals import percent
from sfumato.errors import InputError, listed, spelled

if TYPE_CHECKING:
    from sfumato.cli.console import Board
    from sfumato.cli.options import Options
    from sfumato.designers.worth import Foreseen
    from sfumato.frames import Record
    from sfumato.joint import Joint
    from sfumato.reporting.comparison import Comparison
    from sfumato.sources import Where


@click.command(cls=Grouped)
@table_argument
@asking
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The mechanism file.")
@click.option("--budget", type=float, metavar="EPSILON", help="With --releases: what they shall stay within together.")
@click.option("--source", "origin", type=click.Choice(["private", "reference"]), default="private", show_default=True,
              help="What TABLE is: exact counts of a reference will be in the mechanism file.")
@wishing
@force_option
@json_option
def design(
    table: Where, secret: Many, useful: Many, out: Path, budget: float | None, origin: str, form: str | None,
    force: bool, as_json: bool, **wishes: object,
) -> None:
    """Design a mechanism from TABLE, certify it and save it.

    \b
    Examples:
      sfumato design census.csv --source reference --secret income --useful age,sex \\
          --epsilon 1 --out m.json
      sfumato design cells.csv --counts people --secret sex --useful race --epsilon 0.5 --out m.json
    """
    read = read_as(wishes)
    wished = wishes_of(joined(secret), joined(useful), {**wishes, "planned": budget}, private=origin == "private")
    check_target(out, table if isinstance(table, Path) else None, force=force)
    plan = releasing.planned(table_source(table, form, **read), wished, origin=origin, listener=Screen(quiet=as_json))
    for told in plan.notices(str(out)):
        notice(told)
    answer = _answer(plan, out, as_json=as_json)
    plan.keep()
    plan.mechanism.save(out, force=force)
    show_answer(answer)


def _answer(plan: releasing.Plan, out: Path, *, as_json: bool) -> Answer:
    """What was designed."""
    made, proof, notes = plan.mechanism, plan.certificate, [spelled(note, shell=True) for note in plan.notes]
    assert proof is not None  # of what was designed just now
    if as_json:
        return {**reporting.document_of(made, proof), "files": {"mechanism": out}, "notes": notes}
    return [*reporting.lines_of(made, proof), *(("note", note) for note in notes), ("mechanism", str(out))]


@click.command(cls=Grouped)
@table_argument
@asking
@click.option("--design-from", type=Location(), metavar="FILE", help="Design from this reference table.")
@click.option("--split", type=float, metavar="FRACTION", help="Design on a random part of the rows, which is then not "
              "released.")
@click.option("--budget", type=float, metavar="EPSILON", help="With --releases: what they shall stay within together.")
@wishing
@json_option
def plan(
    table: Where, secret: Many, useful: Many, design_from: Where | None, split: float | None, budget: float | None,
    form: str | None, as_json: bool, **wishes: object,
) -> None:
    """Say what estimates from a release of TABLE will be worth: errors, rows, and what would help. Noisy counts, where
    they are drawn for it, are kept beside TABLE for the release.

    \b
    Example:
      sfumato plan people.csv --secret diagnosis --epsilon 1
    """
    read = read_as(wishes)
    private = design_from is None and split is None
    wished = wishes_of(joined(secret), joined(useful), {**wishes, "planned": budget}, private=private)
    source, screen = table_source(table, form, **read), Screen(quiet=as_json)
    made = releasing.planned(source, wished, reference=design_from, fraction=split, listener=screen)
    told = made.foreseen()
    if told is None:
        raise InputError("what the release will be worth is not known: rows can be read only once, or the table is too "
                         "large for that by this method.")
    made.keep()
    if as_json:
        document(_foreseen_document(told, made.notes))
    else:
        _show_foreseen(told, made.mechanism.method)


def _foreseen_document(told: Foreseen, notes: Sequence[str]) -> Record:
    return {
        "rows": told.n, "share": told.share,
        "parts": [{"table": p.name, "values": p.values, "points": p.points, "rows": p.rows} for p in told.parts],
        "helps": [{"what": h.what, "times": h.times} for h in told.ways],
        "notes": [spelled(note, shell=True) for note in notes],
    }


def _show_foreseen(told: Foreseen, method: str) -> None:
    story(f"What whoever estimates from {told.n:,} released rows will know, by {method}:\n")
    rows = [[p.name, str(p.values), p.error, f"{p.rows:,.0f}"] for p in told.parts]
    columns(["", "values", "a share, 19 times in 20", "worth unprotected rows"], rows, numbers=3)
    story(f"\nFor a column, on average, it is worth {percent(told.share, 1)} of its rows" + (
        ": less than 1 %, so that a release needs --anyway." if told.little else "."))
    if told.ways:
        story("What would make the ± smaller:")
    for one in told.ways:
        story(f"  {one.what}: {one.times:.2g} times as large")


RARELY = 10.0  # times what writing the page took, until it is written again before all is there
NO_ADVICE = "None: at this level no method tells anything that could be estimated from. Ask for a larger --epsilon."


def _one_table(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Why there is nothing to compare for many columns."""
    if value is not None and value != "one":
        raise InputError(
            "methods are compared for one table of secret and useful columns; a bundle never builds it, and its parts "
            "are chosen among all methods as it is designed",
            next="See what a bundle will be worth with sfumato plan --columns bundle.",
        )


def _no_release(ctx: click.Context, parameter: click.Parameter, value: Many) -> None:
    """Why it does not matter here which labels are known."""
    if value:
        raise InputError("--public-labels is about what a release costs, and a comparison releases nothing: it shows "
                         "methods beside each other for the labels that the table has", next="Leave it out.")


@click.command()
@table_argument
@click.option("--columns", hidden=True, expose_value=False, callback=_one_table)
@click.option("--public-labels", hidden=True, expose_value=False, multiple=True, callback=_no_release)
@secret_option
@useful_option
@click.option("--epsilon", default="0.1:4", show_default=True, metavar="LOW:HIGH|A,B,C",
              help="Levels in nats: a range in equal ratios, or a list.")
@click.option("--points", type=int, default=12, show_default=True, help="Levels in a range.")
@click.option("--methods", type=Names(), multiple=True, metavar="A,B", help="Compare these alone.")
@click.option("--at", type=float, help="The level that errors and advice are shown at.  [default: the one nearest 1]")
@click.option("--rows", type=click.IntRange(1), help="Rows that will be released.  [default: as many as were counted]")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of the ball around the counts.")
@click.option("--at-most", type=float, metavar="NATS", help="A second promise of each mechanism, for any distribution: "
              "what somebody may learn who knows a person's useful values.")
@click.option("--time-limit", type=float, default=20.0, show_default=True, metavar="SECONDS", help="For each design.")
@click.option("--workers", type=click.IntRange(1), help="Processes.  [default: one for each core, up to 8]")
@click.option("--no-cache", is_flag=True, help="Compute everything anew and keep nothing.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Write table, pictures and a page into this folder; files of an earlier comparison are replaced.")
@counting
@reading
@json_option
def compare(
    table: Path, secret: Many, useful: Many, epsilon: str, points: int, methods: Many, at: float | None,
    rows: int | None, confidence: float, at_most: float | None, time_limit: float, workers: int | None, no_cache: bool,
    out: Path | None, as_json: bool, **rules: object,
) -> int | None:
    """Compare every mechanism on TABLE over a range of ε: what it keeps, and how well one can estimate from it.

    TABLE may be `adult`, the counts that come with sfumato. Nothing is released. Figures are kept in the user's cache,
    so that asking again is instant; Ctrl-C shows what is done. What needs no search comes first, in the terminal
    and as a page; searches fill in.

    \b
    Examples:
      sfumato compare people.csv --secret diagnosis --useful town,age --epsilon 0.1:4
      sfumato compare adult --secret sex --useful race --out compared
    """
    grid = reporting.levels(epsilon, points)
    names = reporting.entrants(joined(methods) or None)
    if out is not None:
        make_folder(out)
    joint = _joint(table, joined(secret), joined(useful), read_as(rules), rules, quiet=as_json)
    here = reporting.nearest(grid, at)
    with board(f"comparing {len(names)} methods at {len(grid)} levels", len(names) * len(grid)) as shown:
        found = reporting.compare(
            joint, epsilon=grid, methods=names, confidence=confidence, n=rows, time_limit=time_limit, workers=workers,
            cache=not no_cache, progress=lambda done, of, what: shown.tell(done, what), at_most=at_most,
            early=_showing(shown, here, out),
        )
    files = {} if out is None or not found.points else found.save(out, here)
    if as_json:
        document({**found.document(), "advice": [*map(asdict, reporting.advice(found.at(here)))], "files": files})
    else:
        _show_compared(found, here, files)
    if not found.complete:
        more = "" if no_cache else "; asking again goes on from here"
        story(f"Interrupted: this is what was done{more}.", err=True)
        return INTERRUPTED
    return None


def _showing(shown: Board, at: float, out: Path | None) -> Callable[[Comparison], None]:
    """Shows what there is before all is there, and writes it, as often as that takes little of the time."""
    again = 0.0

    def early(so_far: Comparison) -> None:
        nonlocal again
        names, lines = _kept_rows(so_far)
        shown.table(names, lines, len(names) - 2)
        began = time.monotonic()
        if out is not None and so_far.points and began > again:
            so_far.save(out, at)
            again = time.monotonic() + RARELY * (time.monotonic() - began)

    return early


def _joint(
    table: Path, secret: tuple[str, ...], useful: tuple[str, ...], read: Options, rules: Options, *, quiet: bool
) -> Joint:
    if str(table) == "adult" and not table.exists() and not any(read.values()):
        if len(secret) != 1 or len(useful) != 1:
            raise click.UsageError("adult has pairs of columns: give one --secret and one --useful.")
        return sf.datasets.adult(secret[0], useful[0])
    wished = wishes_of(secret, useful, {"epsilon": 1.0, **rules}, private=False)
    return releasing.joint_of(table_source(table, **read), wished, Screen(quiet=quiet))


def _show_compared(found: Comparison, at: float, files: dict[str, Path]) -> None:
    j = found.joint
    rows = "" if found.n is None else f"; errors are for {found.n:,} released rows"
    story(f"{listed(j.secret.names)} is secret, {listed(j.useful.names)} useful: "
          f"{j.shape[0]} × {j.shape[1]} cells{rows}.")
    if found.points:
        heading("\nKept of a record (information as a share of the whole)")
        names, lines = _kept_rows(found)
        columns(names, lines, numbers=len(names) - 2)
        if any(shown.endswith("*") for shown in _ordered(found).values()):
            story("* another promise: about the whole record, on average, or at the counts alone. Not weighed below.")
        _errors(found, at)
        heading(f"\nAdvice at ε = {at:.3g}")
        told = [(a.aim, f"{a.method}: {a.reason}") for a in reporting.advice(found.at(at))]
        pairs(told) if told else story(NO_ADVICE)
    if found.missing:
        heading("\nWithout a design")
        pairs(_absent(found))
    if files:
        heading("\nFiles (for you, not for publication: they are computed from the table)")
        pairs([("page", str(files["compare.html"])), ("table", str(files["compare.csv"])),
               ("figures", str(files["compare.json"])),
               ("pictures", ", ".join(str(p) for n, p in files.items() if n.endswith(".svg")))])


def _absent(found: Comparison) -> list[tuple[str, str]]:
    """Each method that failed, with the first reason and the levels."""
    out = []
    for name in dict.fromkeys(m.method for m in found.missing):
        mine = [m for m in found.missing if m.method == name]
        some = "" if len(mine) == len(found.epsilons) else f" (at ε = {', '.join(f'{m.epsilon:.3g}' for m in mine)})"
        out.append((name, mine[0].why + some))
    return out


def _ordered(found: Comparison) -> dict[str, str]:
    """Methods and how they are shown: the full promise first, then protocols for scale and others, marked; best first.
    """
    def rank(name: str) -> tuple[bool, bool, float]:
        return (not known[name].comparable, name in plain, -sum(p.nmi or 0.0 for p in found.of(name)))

    known, plain = reporting.ENTRANTS, reporting.PLAIN
    names = sorted(found.methods, key=rank)
    return {name: name + ("" if known[name].comparable and name not in plain else " *") for name in names}


def _kept_rows(found: Comparison) -> tuple[list[str], list[list[str]]]:
    """What is kept: a curve in a line for each method, with figures at the ends and in the middle."""
    grid = found.epsilons
    named = list(dict.fromkeys((grid[0], grid[len(grid) // 2], grid[-1])))
    rows = []
    for name, shown in _ordered(found).items():
        by = {p.epsilon: p.nmi for p in found.of(name)}
        if any(v is not None for v in by.values()):
            figures = ["–" if (nmi := by.get(e)) is None else percent(nmi, 1) for e in named]
            rows.append([shown, spark([by.get(e) for e in grid], high=1.0), *figures])

    top = {e: privacy.ceiling(found.joint, e) / found.joint.entropy if found.joint.entropy else 0.0 for e in grid}
    rows.append(["(ceiling)", spark([top[e] for e in grid], high=1.0), *(percent(top[e], 1) for e in named)])
    return ["method", f"ε {grid[0]:g} to {grid[-1]:g}", *(f"ε = {e:.3g}" for e in named)], rows


def _errors(found: Comparison, at: float) -> None:
    """Standard errors and realised levels at one ε."""
    wide = width() >= LONGEST_LINE
    heading(f"\nStandard errors of estimates, and levels at resampled truths, at ε = {at:.3g}")
    rows = []
    by = {p.method: p for p in found.at(at)}
    for name, shown in _ordered(found).items():
        if (p := by.get(name)) is None:
            continue
        found_errors = [p.error(of) for of in ("useful", "secret", "joint")]
        errors = ["not told" if math.isinf(x) else f"{x:.2g}" for x in found_errors]
        r = p.realised
        truths = ["–", "–"] if r is None else [f"{r.high:.3f}", percent(r.share, 0)]
        rows.append([shown, *([p.promise] if wide else []), *errors, *truths])
    heads = ["method", *(["promise"] if wide else []), "useful", "secret", "joint", "95 %", "≤ ε"]
    columns(heads, rows, numbers=5)
