"""sfumato audit: attack a mechanism or a released table, so that anyone can falsify a promise."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.console import columns, document, pairs, progress, story
from sfumato.cli.options import Location, json_option
from sfumato.decimals import at_least, at_most
from sfumato.errors import ClaimError, InputError

if TYPE_CHECKING:
    from sfumato.auditing.audits import Audit
    from sfumato.cli.options import Options
    from sfumato.frames import Record
    from sfumato.mechanism import Mechanism


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
@json_option
def audit(
    file: Path, released: Path | None, truth: Path | None, epsilon: float | None, records: int, risk: float,
    seed: int | None, as_json: bool,
) -> None:
    """Attack the mechanism in FILE, or a table released with it: can its promise be falsified?

    The attacks look for outputs that tell two inputs apart, guess the input from the output, and compare every cell
    with the file. Exits with 5 if the promise, or the file, is refuted. What is not refuted is not proved: see
    sfumato verify.

    \b
    Examples:
      sfumato audit released.mechanism.json
      sfumato audit released.mechanism.json --released released.csv --truth people.csv
    """
    from sfumato.auditing import audit as audited
    from sfumato.mechanism import Bundle, load

    if (released is None) != (truth is None):
        raise InputError("--released and --truth go together: an audit of a table needs both, row by row.")
    mechanism = load(file)
    if isinstance(mechanism, Bundle):
        from sfumato.cli.wording import audit_bundle

        if released is not None or epsilon is not None:
            raise InputError(
                "is a bundle: its sampler is attacked part by part, at the level that each claims",
                next="Leave out --released, --truth and --epsilon.", where=file,
            )
        audit_bundle(file, mechanism, records, risk, seed, as_json)
        return
    with progress(f"attacking {file.name}"):
        options: Options = {"epsilon": epsilon, "risk": risk, "seed": seed}
        if released is not None:
            found = audited(released, mechanism, truth=truth, **options)
        else:
            found = audited(mechanism, records=records, **options)
    if as_json:
        document(_document(file, found))
    else:
        _show(mechanism, found)
    if found.refuted:
        raise ClaimError(
            f"{file}: " + "; ".join(_refutations(mechanism, found)) + f". The risk that this is an error is {risk:g}."
        )


def _refutations(mechanism: Mechanism, found: Audit) -> list[str]:
    wrong = [j for j in found.judgements if j.refuted]
    said = [f"claimed {j.title} ≤ {at_most(j.claimed)}, found at least {at_least(j.found)}" for j in wrong]
    c = found.conformity
    if not found.conforms and c is not None:
        said.append(
            f"the answers do not follow the file: output {_output(mechanism, c.output)} came {c.seen:,} times for "
            f"{mechanism.input_text(c.input)}, where {c.expected:,.0f} were expected"
        )
    return said


def _output(mechanism: Mechanism, y: int) -> str:
    answer = mechanism.answer(y)
    return " · ".join(map(str, answer)) if isinstance(answer, tuple) else str(answer)


def _show(mechanism: Mechanism, found: Audit) -> None:
    story(f"{found.records:,} records, risk {found.risk:g} of refuting anything that is true.")
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
        rows.append(("guessing", f"the secret is guessed right at least {g.accuracy:.2%} of the time, "
                     f"blindly at most {g.blind:.2%}: a gain of {at_least(g.leakage, 4)} nats or more"))
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
        f"{at_least(math.exp(best.found), 3)} or more; {at_most(math.exp(min(best.claimed, 700.0)), 3)} is allowed. "
        "No attack went beyond the promise, which does not prove it: sfumato verify does."
    )


def _document(file: Path, found: Audit) -> Record:
    c, g = found.conformity, found.guessing
    return {
        "file": file, "records": found.records, "risk": found.risk, "refuted": found.refuted,
        "judgements": [
            {"notion": j.title, "claimed": j.claimed, "found": j.found, "attack": j.attack, "refuted": j.refuted}
            for j in found.judgements
        ],
        "conformity": None if c is None else {
            "p_value": c.p_value, "output": c.output, "input": c.input, "seen": c.seen, "expected": c.expected,
        },
        "guessing": None if g is None else {"leakage": g.leakage, "accuracy": g.accuracy, "blind": g.blind},
    }
