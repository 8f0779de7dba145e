"""From a table and wishes to a sealed mechanism, its certificate and the notice about its design data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.cli.console import listed, notice, progress
from sfumato.cli.options import Wishes, numbered
from sfumato.cli.parts import watched
from sfumato.errors import ClaimError, InputError
from sfumato.joint import SMALL, Joint
from sfumato.sources import Source, Where

MANY = 100  # labels; when half of the rows have one of their own, the column is no category


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A mechanism whose claim has been certified, and what was said on the way."""

    mechanism: Any
    certificate: Any
    notes: tuple[str, ...] = ()
    file: str | None = None  # the name of the mechanism file, when it was given


def planned(joint: Joint, wishes: Wishes, source: str) -> Plan:
    """Design, seal and certify over the confidence ball around the counts."""
    from sfumato.designers import design
    from sfumato.uncertainty import ChiSquareBall

    ball = ChiSquareBall(joint, confidence=wishes.confidence)
    options: dict[str, Any] = {"notion": wishes.notion, "reads": wishes.reads, **_near(joint, wishes)}
    if wishes.method == "auto":
        options["aim"] = wishes.aim or "either"
    elif wishes.aim is not None:
        raise InputError(f"--aim is for --method auto, not {wishes.method}.")
    notes: tuple[str, ...] = ()
    with progress(f"designing for {joint.p.size:,} cells"):
        try:
            asked = {"time_limit": wishes.time_limit, "gap": wishes.gap}
            timed: dict[str, Any] = {name: x for name, x in asked.items() if x is not None}
            made = design(ball, wishes.epsilon, wishes.method, **options, **timed)
        except InputError as error:
            if wishes.time_limit is None or "time_limit" not in str(error):
                raise
            notes = (f"--time-limit was not needed: {wishes.method} does not search",)
            made = design(ball, wishes.epsilon, wishes.method, **options)
    told = (*_reached(made, wishes), *made.notes, *notes, *learned(joint.learned))
    return Plan(replace(made.mechanism, source=source), made.certificate, told)


def _reached(made: Any, wishes: Wishes) -> tuple[str, ...]:
    """What was reached, by the unit of what a method minimises."""
    kind = f"{wishes.distance or 'squared'} " if made.method == "distortion" else ""
    texts = {
        "of distance": f"mean {kind}distance {made.value:.6g}; no mechanism with this promise and these outputs is "
        f"below {made.bound:.6g}",
        "of standard error": f"standard error {made.value:.4g} on average over what is estimated; {made.bound:.4g} "
        "is the least that is not ruled out",
    }
    return (texts[made.unit],) if made.unit in texts else ()


def learned(columns: Sequence[str]) -> tuple[str, ...]:
    """What a confidence does not cover where labels were found in the rows that were counted."""
    if not columns:
        return ()
    return (
        f"the labels of {listed(columns)} were found in these rows: the confidence is about labels fixed beforehand "
        "(--labels), and says nothing of those that did not occur",
    )


def _near(joint: Joint, wishes: Wishes) -> dict[str, Any]:
    """The options of the method distortion, which auto takes when one of them is given; others have none of them."""
    asked = wishes.distance is not None or wishes.values is not None or wishes.outputs is not None
    if wishes.method not in ("distortion", "auto") and asked:
        raise InputError(f"--distance, --values and --outputs are for --method distortion, not {wishes.method}.")
    if not asked and wishes.method != "distortion":
        return {}
    values, outputs = numbered(wishes.values, joint.useful), None
    if wishes.distance != "hamming":
        values = _letters(joint) if values is None else values
        outputs = {"representatives": values, "chosen": "chosen"}.get(wishes.outputs or "labels")
    elif wishes.outputs in ("representatives", "chosen"):
        raise InputError("--distance hamming compares labels; leave out --outputs.")
    return {"distance": wishes.distance or "squared", "values": values, "outputs": outputs}


def _letters(joint: Joint) -> list[float]:
    """The numbers that labels spell, or the way out of a user of the command line."""
    from sfumato.designers.distances import OTHERWISE, letters

    try:
        return [float(x) for x in letters(joint.useful)]
    except InputError as error:
        reason = str(error).removesuffix(f": give values=, {OTHERWISE}.")
        example = ",".join(f"{joint.useful.text(i)}={i + 1}" for i in range(min(joint.useful.size, 3)))
        more = ",…" if joint.useful.size > 3 else ""
        raise InputError(f"{reason}: say what each stands for (--values '{example}{more}'), or ask for the same "
                         "label as often as possible (--distance hamming).") from None


def given(path: Where) -> Plan:
    """A mechanism from a file, after its claim has been proved anew."""
    from sfumato.certification.certificate import certify_any
    from sfumato.mechanism import load

    mechanism = load(path)
    if mechanism.claim is None:
        raise ClaimError(f"{path} claims no privacy, so nothing was released. Ask its author for one that does.")
    with progress("certifying the mechanism"):
        return Plan(mechanism, certify_any(mechanism), file=path.name)


def tabulated(source: Source, wishes: Wishes, *, cells: bool = False) -> Joint:
    """The counts of the columns wished for; rows are people, or cells of a table of counts."""
    from sfumato.tabulation import tabulate

    with progress(f"counting {source.name}", source.expected, rows=True) as tell:
        joint = tabulate(
            watched(source, tell), list(wishes.secret), list(wishes.useful), missing=wishes.missing, bins=wishes.bins,
            rare=wishes.rare, unseen=wishes.unseen, labels=wishes.labels,
        )
    for column in (*joint.secret.columns, *joint.useful.columns):
        if not cells and column.size >= MANY and 2 * column.size > (joint.n or 0):
            name = column.name
            raise InputError(
                f"column {name!r} has {column.size:,} distinct values in {joint.n:,} rows: is it a number or an "
                f"identifier? Bin it (--bins {name}=5), group rare labels (--rare {name}=20), or leave it out."
            )
    return joint


def small_cells(joint: Joint | None) -> int:
    """Cells with 1 to 4 people."""
    if joint is None or joint.counts is None:
        return 0
    return int(((joint.counts > 0) & (joint.counts < SMALL)).sum())


def design_notice(mechanism: Any, file: str, table: str) -> None:
    """Say aloud that the counts of private rows become public with the mechanism file."""
    from sfumato.mechanism import Bundle

    if isinstance(mechanism, Bundle):
        from sfumato.cli.bundled import bundle_notice

        return bundle_notice(mechanism, file, table)
    joint = mechanism.joint
    if joint is None or mechanism.source not in NOTICES:
        return None
    title, first, way_out = NOTICES[mechanism.source]
    small, shape = small_cells(joint), f"{joint.shape[0]} × {joint.shape[1]}"
    people = f"{small:,} of its {joint.p.size:,} cells hold" if small != 1 else f"1 of its {joint.p.size:,} cells holds"
    warning = [
        f"! {people} only 1 to {SMALL - 1} people: so small a count may single somebody out. "
        "Coarser columns help (--bins, --rare, fewer --useful)."
    ] if small else []
    notice(title, [first.format(file=file, shape=shape, table=table, n=f"{joint.n:,}"), *warning, way_out])
    return None


NOTICES = {
    "private": (
        "Counts of the private table become public with the mechanism file",
        "{file} contains the exact {shape} table of counts of {table} ({n} rows), without noise; nobody could verify "
        "the promise without it. Whoever gets the file gets the counts.",
        "To keep private rows out of it, design from other data (--design-from reference.csv), or on a random part "
        "that is then not released (--split 0.1).",
    ),
    "split": (
        "Counts of the part set aside become public with the mechanism file",
        "{file} contains the exact {shape} table of counts of the {n} rows of {table} that were set aside, without "
        "noise. These rows are not in the release, but whoever gets the file gets their counts.",
        "To keep private rows out of it altogether, design from other data (--design-from reference.csv).",
    ),
}
