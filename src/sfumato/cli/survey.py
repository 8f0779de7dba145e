"""sfumato survey: questions become a page that people answer on their own devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.console import document, pairs, story
from sfumato.cli.options import force_option, json_option
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.cli.options import Options
    from sfumato.survey.asking import Survey


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--question", "questions", multiple=True, metavar="'NAME: LABEL, LABEL'",
              help="A question, instead of a file; may be given several times.")
@click.option("--epsilon", type=float, help="Level of all answers together, in nats.")
@click.option("--once", type=float, help="With --forever, for repeated waves: the level of one wave.")
@click.option("--forever", type=float, help="The level of any number of waves.")
@click.option("--wave", default="", metavar="NAME", help="The name of this wave.")
@click.option("--ask", "asks", type=click.Choice(["auto", "together", "apart", "in turn"]),
              help="All questions in one draw, a draw for each, or one question by lot.  [default: auto]")
@click.option("--protect", type=click.Choice(["record", "sensitive"]),
              help="Everything, or the sensitive questions alone.")
@click.option("--title", help="What the page is called.")
@click.option("--language", default="en", show_default=True, metavar="LANGUAGE|FILE",
              help="en, de, or a file of words.")
@click.option("--collector", metavar="URL", help="Where answers are posted.  [default: where the page was loaded from]")
@click.option("--out", type=click.Path(path_type=Path), default="survey.html", show_default=True, metavar="FILE",
              help="The page; the mechanism file is written beside it.")
@force_option
@json_option
def survey(
    file: Path | None, questions: tuple[str, ...], epsilon: float | None, once: float | None, forever: float | None,
    wave: str, asks: str | None, protect: str | None, title: str | None, language: str, collector: str | None,
    out: Path, force: bool, as_json: bool,
) -> None:
    """Make the page of a survey from a FILE of questions (.toml), a mechanism file (.json), or --question.

    \b
    Examples:
      sfumato survey --question 'drug: yes, no' --epsilon 1 --out survey.html
      sfumato survey questions.toml --out survey.html --language de
      sfumato survey released.mechanism.json --out survey.html
    """
    wished = {"asks": asks, "protects": protect, "title": title, "once": once, "forever": forever}
    made = _survey(file, questions, epsilon, wave, {k: v for k, v in wished.items() if v is not None})
    page, mechanism = made.save(out, language=language, collector=collector, force=force)
    claim = made.mechanism.claim
    told = "nothing" if claim is None else claim.sentence
    if as_json:
        document({
            "page": page, "mechanism": mechanism, "bytes": page.stat().st_size, "claim": told, "note": made.note,
            "questions": [q.name for q in made.questions], "epsilon": None if claim is None else claim.epsilon,
        })
        return
    pairs([("page", f"{page} ({page.stat().st_size / 1000:.0f} kB)"), ("mechanism", str(mechanism)), ("promises", told),
           *([("chosen", made.note)] if made.note else []), *_waves(made)])
    story(f"\nCollect answers with: sfumato collect serve {mechanism}")


def _survey(
    file: Path | None, asked: tuple[str, ...], epsilon: float | None, wave: str, wished: Options
) -> Survey:
    from sfumato.survey import Survey
    from sfumato.survey import asked as question_of

    if (file is None) == (not asked):
        raise InputError("give a file of questions or a mechanism file, or --question 'NAME: LABEL, LABEL'.")
    if file is None:
        return Survey.of_labels([question_of(text) for text in asked], epsilon, wave=wave, **wished)
    return Survey.read(file, epsilon=epsilon, wave=wave, **wished)


def _waves(made: Survey) -> list[tuple[str, str]]:
    if made.waves is None:
        return []
    levels = ", ".join(f"{k}: {made.waves.level(k):.3f}" for k in (1, 2, 5, 20, 100))
    return [("waves", f"ε of so many waves: {levels}; of any number: {made.waves.forever:.3f}")]
