"""sfumato leak and audit: what a mechanism leaks by every measure, and attacks that may falsify its promise."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

import sfumato as sf
from sfumato import certification, privacy, reproduce, sources
from sfumato.atomic import check_target, write_all
from sfumato.cli.console import ROOM, columns, document, heading, pairs, progress, story, width
from sfumato.cli.options import Location, force_option, json_option, read_as, reading, table_source
from sfumato.decimals import BITS, SHORT, at_least, at_most, level, near, share_at_most, sure
from sfumato.errors import ClaimError, InputError
from sfumato.mechanism.mechanism import spoken
from sfumato.tolerances import EXPONENT

if TYPE_CHECKING:
    from sfumato.auditing.audits import Audit
    from sfumato.frames import Record
    from sfumato.mechanism import Bundle, Mechanism
    from sfumato.privacy.measures import Reading
    from sfumato.privacy.overview import LeakageMap, Overview

MEANINGS = {  # of the measures that everybody should see: what one released row changes or gives at most
    "local differential privacy": "odds between two values",
    "local information privacy": "the belief in a value",
    "pointwise maximal leakage": "any guess, by one output",
    "maximal leakage": "any guess, on average",
    "min-entropy leakage": "one guess at the value",
    "mutual information": "what is told, on average",
    "largest total variation": "telling two values apart",
}


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--joint", "table", type=Location(), metavar="TABLE",
              help="A table with the mechanism's columns: its counts are the prior, instead of the design data.")
@click.option("--map", "picture", type=click.Path(path_type=Path), metavar="FILE",
              help="Draw the map over (α, β) to a .png, .svg or .pdf file.")
@click.option("--points", type=click.IntRange(2, 200), default=25, show_default=True,
              help="Orders on each axis of the map.")
@click.option("--all", "everything", is_flag=True, help="Every measure, about the record too, and how they relate.")
@reading
@force_option
@json_option
def leak(
    file: Path, table: Path | None, picture: Path | None, points: int, everything: bool, force: bool, as_json: bool,
    **read: object,
) -> None:
    """Measure what the mechanism in FILE leaks: every measure, at the data's distribution and at the worst one.

    One screen says what matters most; --all shows every measure and the inequalities between them. The worst case is
    over all distributions of the record; about the secret, that of the rest given the secret is held.

    \b
    Examples:
      sfumato leak released.mechanism.json
      sfumato leak released.mechanism.json --joint people.csv --map leakage.png
    """
    mechanism = sf.load(file)
    if isinstance(mechanism, sf.Bundle):
        _leak_bundle(file, mechanism, as_json, at_a_distribution=table is not None or picture is not None)
        return
    if picture is not None:
        check_target(picture, file, force=force)
    joint = mechanism.joint
    if table is not None:
        joint = sources.counted(table_source(table, None, **read_as(read)), mechanism.secret, mechanism.useful, {})
    with progress(f"measuring {file.name}"):
        found = privacy.overview(mechanism, joint)
        drawn = None if picture is None and not as_json else privacy.map_of(mechanism, points) if found.lines else None
    if picture is not None and drawn is not None:
        _draw(drawn, picture, mechanism, force)
    if as_json:
        document(_document(file, mechanism, found, drawn, picture))
    else:
        _show(mechanism, found, drawn, picture, everything=everything)


def _draw(drawn: LeakageMap, picture: Path, mechanism: Mechanism, force: bool) -> None:
    kind = picture.suffix.lower().lstrip(".")
    if kind not in ("png", "svg", "pdf"):
        raise InputError("a map is drawn to a .png, .svg or .pdf file", value=picture.name)
    title = f"{mechanism.method}: {mechanism.inputs:,} inputs, {mechanism.outputs:,} outputs"
    write_all({picture: reproduce.order_picture(drawn, title, kind)}, replace=force)


def _show(
    mechanism: Mechanism, found: Overview, drawn: LeakageMap | None, picture: Path | None, *, everything: bool
) -> None:
    if mechanism.claim is not None:
        story(f"Claimed: {mechanism.claim.sentence}.")
    heading("\nLevels (nats)")
    columns(["notion", "level"], [[name, near(x, SHORT)] for name, x in found.levels.items()], numbers=1)
    (_show_all if everything else _show_few)(found)
    for note in found.notes:
        story(f"Note: {note}")
    if picture is not None:
        story(f"\nMap over (α, β): {picture}" if drawn is not None else "\nNo map: the outputs are too many to list.")


def _show_few(found: Overview) -> None:
    """What matters most about the secret, with what each number means, in one screen."""
    about = "secret" if any(line.about == "secret" for line in found.lines) else "record"
    by_name = {line.name: line for line in found.lines if line.about == about}
    told = [by_name[name] for name in MEANINGS if name in by_name]
    if told:
        heading(f"\nWhat one released row tells about the {about}")
        shown = width() >= ROOM
        columns(["measure", *(["limits"] if shown else []), "at the data", "at worst"], [
            [line.name, *([MEANINGS[line.name]] if shown else []), _at(line.at_joint, BITS), _worst(line.worst, BITS)]
            for line in told
        ], numbers=2)
    left, held = len(found.lines) - len(told), sum(len(x.sides) for x in found.lattices.values())
    if left or held:
        story(f"{left} more measures and {held} inequalities between them: --all. As a map over (α, β): --map FILE.")


def _show_all(found: Overview) -> None:
    for about, held in found.lattices.items():
        heading(f"\nWhat Y tells about the {about}")
        rows = [
            [line.name + ("" if line.unit else " (no unit)"), _at(line.at_joint, SHORT), _worst(line.worst, SHORT)]
            for line in found.lines if line.about == about
        ]
        columns(["measure", "at the data", "at the worst prior"], rows, numbers=2)
        heading(f"\nHow the measures relate, about the {about}")
        told = 5 if width() >= ROOM else 4  # in a narrow window the reasons would be one word a line
        columns(["this", "", "is at most", "", "because"][:told], [
            [edge.smaller, near(left, SHORT), edge.larger, near(right, SHORT), edge.reason][:told]
            for edge, left, right in held.sides
        ])


def _at(reading: Reading | None, digits: int) -> str:
    return "" if reading is None else near(reading.value, digits)


def _worst(reading: Reading, digits: int) -> str:
    found = near(reading.value, digits)
    return found if reading.gap <= 1e-6 else f"{at_least(reading.value, digits)} … {at_most(reading.bound, digits)}"


def _document(
    file: Path, mechanism: Mechanism, found: Overview, drawn: LeakageMap | None, picture: Path | None
) -> Record:
    return {
        "file": file, "claim": None if mechanism.claim is None else mechanism.claim.sentence, "levels": found.levels,
        "measures": [
            {"name": line.name, "about": line.about, "unit": line.unit, "worst": _reading(line.worst),
             "at_joint": None if line.at_joint is None else _reading(line.at_joint)} for line in found.lines
        ],
        "lattice": {about: {"values": held.values, "inequalities": [
            {"smaller": e.smaller, "left": left, "larger": e.larger, "right": right, "condition": e.condition,
             "reason": e.reason} for e, left, right in held.sides
        ]} for about, held in found.lattices.items()},
        "map": None if drawn is None else asdict(drawn),
        "notes": list(found.notes), "files": {} if picture is None else {"map": picture},
    }


def _reading(reading: Reading) -> Record:
    return {"value": reading.value, "bound": reading.bound, "prior": reading.prior, "witness": asdict(reading.witness)}


def _leak_bundle(file: Path, bundle: Bundle, as_json: bool, *, at_a_distribution: bool) -> None:
    """The levels of a bundle and of its parts; measures at a distribution would need the table of all columns."""
    if at_a_distribution:
        raise InputError(
            "measures at a distribution are about one table of all columns, which a bundle never builds",
            next="Leave out --joint and --map. Its levels hold whatever the distribution is.",
        )

    rows = certification.bundle_levels(bundle)
    if as_json:
        document({"file": file, "claim": None if bundle.claim is None else bundle.claim.sentence,
                  "levels": [asdict(row) for row in rows]})
        return
    story("What answers tell in nats, whatever the distribution: about the secret, and about everything that is read.")
    columns(["answers", "secret", "all that is read"], [[x.answers, level(x.secret), level(x.record)] for x in rows],
            numbers=2)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--released", type=Location(), metavar="TABLE",
              help="A table released with the mechanism; needs --truth.")
@click.option("--truth", type=Location(), metavar="TABLE",
              help="The table it was made from, with the same rows in the same order.")
@click.option("--epsilon", type=float, help="Test this level instead of the one in the file.")
@click.option("--records", type=click.IntRange(1000), default=1_000_000, show_default=True,
              help="Questions asked of the mechanism's own sampler.")
@click.option("--risk", type=float, default=1e-3, show_default=True, help="Of refuting something that is true.")
@click.option("--seed", type=int, help="For audits that can be repeated.")
@reading
@json_option
def audit(
    file: Path, released: Path | None, truth: Path | None, epsilon: float | None, records: int, risk: float,
    seed: int | None, as_json: bool, **read: object,
) -> None:
    """Attack the mechanism in FILE, or a table released with it: can its promise be falsified?

    The attacks look for outputs that tell two inputs apart, guess the input from the output, and compare every cell
    with the file. Exits with 5 if the promise, or the file, is refuted. What is not refuted is not proved: see
    sfumato verify. How text is read (--decimal, --na …) is about --truth.

    \b
    Examples:
      sfumato audit released.mechanism.json
      sfumato audit released.mechanism.json --released released.csv --truth people.csv
    """
    if (released is None) != (truth is None):
        raise InputError("--released and --truth go together: an audit of a table needs both, row by row.")
    mechanism = sf.load(file)
    true = None if truth is None else table_source(truth, None, **read_as(read))
    with progress(f"attacking {file.name}"):
        box, whose = (mechanism, None) if released is None else (released, mechanism)
        found = sf.audit(box, whose, truth=true, epsilon=epsilon, records=records, risk=risk, seed=seed)
    if as_json:
        document({"file": file, "records": found.records, "risk": found.risk, "refuted": found.refuted,
                  **(_parts_document(found) if found.parts else _audit_document(found))})
    else:
        story(f"{found.records:,} records, risk {found.risk:g} of refuting anything that is true.")
        (_show_parts if found.parts else _show_audit)(found)
    if found.refuted:
        told = "; ".join(_refutations(mechanism, found))
        raise ClaimError(f"{file}: {told}. The risk that this is an error is {risk:g}.")


def _refutations(mechanism: Mechanism | Bundle, found: Audit) -> list[str]:
    if not isinstance(mechanism, sf.Mechanism):
        wrong_parts = [name for name, part in found.parts if part.refuted]
        return [f"the parts {', '.join(wrong_parts)} do not keep what the file says of them"]
    wrong = [j for j in found.judgements if j.refuted]
    said = [f"claimed {j.title} ≤ {at_most(j.claimed)}, found at least {at_least(j.found)}" for j in wrong]
    c = found.conformity
    if not found.conforms and c is not None:
        said.append(
            f"the answers do not follow the file: output {spoken(mechanism.answer(c.output))} came {c.seen:,} times "
            f"for {mechanism.input_text(c.input)}, where {c.expected:,.0f} were expected"
        )
    return said


def _show_audit(found: Audit) -> None:
    columns(["promise", "attack", "claimed ≤", "found ≥", ""], [
        [j.title, j.attack, at_most(j.claimed), at_least(j.found), "refuted" if j.refuted else "stands"]
        for j in found.judgements
    ], numbers=3)
    rows = []
    if found.conformity is not None:
        fits = "do" if found.conforms else "do not"
        rows.append(("file", f"the answers {fits} follow its weights (p = {found.conformity.p_value:.3g})"))
    if found.guessing is not None:
        g = found.guessing
        rows.append(("guessing", f"the secret is guessed right at least {sure(g.accuracy)} of the time, "
                     f"blindly at most {share_at_most(g.blind, 2)}: a gain of {at_least(g.leakage, 4)} nats or more"))
    pairs(rows)
    story(_meaning(found))


def _meaning(found: Audit) -> str:
    """What the attack shows, in a sentence."""
    if found.refuted:
        return "The promise, or the file, is refuted: do not rely on it."
    about = [j for j in found.judgements if j.odds is not None]
    if not about:
        return "No attack went beyond the promise. That does not prove it: sfumato verify does."
    best = max(about, key=lambda j: j.found)
    return (
        f"The best attack changes the odds between two possibilities by a factor of "
        f"{at_least(math.exp(best.found), 3)} or more; {at_most(math.exp(min(best.claimed, EXPONENT)), 3)} is allowed. "
        "No attack went beyond the promise, which does not prove it: sfumato verify does."
    )


def _audit_document(found: Audit) -> Record:
    g = found.guessing
    return {
        "judgements": [
            {"notion": j.title, "claimed": j.claimed, "found": j.found, "attack": j.attack, "refuted": j.refuted}
            for j in found.judgements
        ],
        "conformity": None if found.conformity is None else asdict(found.conformity),
        "guessing": None if g is None else {"leakage": g.leakage, "accuracy": g.accuracy, "blind": g.blind},
    }


def _show_parts(found: Audit) -> None:
    columns(["part", "claimed", "found ≥", ""], [
        [name, level(j.claimed), at_least(j.found), "refuted" if part.refuted else "stands"]
        for name, part in found.parts for j in part.judgements
    ], numbers=2)
    story("What is not refuted is not proved: sfumato verify does that.")


def _parts_document(found: Audit) -> Record:
    return {"parts": [{"part": name, "claimed": j.claimed, "found": j.found, "refuted": part.refuted}
                      for name, part in found.parts for j in part.judgements]}
