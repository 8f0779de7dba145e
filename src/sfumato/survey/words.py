"""The words of a page, in English unless a file says otherwise."""

from __future__ import annotations

import os
import tomllib
from importlib.resources import files
from pathlib import Path

import msgspec

from sfumato.errors import InputError, unknown

HOME = "languages"  # folder of languages that come with the package


class Language(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every sentence of a survey page; braces are filled in by the page. A file of words replaces some or all."""

    language: str = "en"
    direction: str = "ltr"
    lead: str = (
        "Your answers are changed at random on this device before anything is sent. Nobody can be sure from what is "
        "sent what you said, not even those who ask. From many such answers they can still tell how many people said "
        "what."
    )
    protection: str = "What protects you"
    checking: str = "Checking the promise on this device …"
    proved: str = "Proved on this device just now, from the whole numbers that draw your answer:"
    refused: str = "This page does not keep its promise, so it asks nothing ({reason})."
    unsafe: str = "The browser offers no cryptography here. Open the page over https, or save it and open the file."
    belief: str = (
        "Somebody who thinks two records of answers equally likely can be at most {n} in 100 sure which it was, after "
        "seeing what is sent."
    )
    belief_secret: str = (
        "Somebody who thinks two values of {names} equally likely can be at most {n} in 100 sure which it was, after "
        "seeing what is sent, whatever else they know about people like you."
    )
    belief_waves: str = "If you are asked again and again, and all is put together: at most {n} in 100."
    dots: str = "{n} of 100 dots are filled; 50 would be a coin toss."
    nothing_known: str = "What is sent may tell somebody with certainty."
    check: str = "Check it yourself"
    ratio: str = "No answer is more than {ratio} times as likely from one record as from another (ε = {epsilon} nats)."
    ratio_secret: str = "About {names}: no more than {ratio} times (ε = {epsilon} nats), for any distribution."
    save: str = "Save the mechanism file"
    questions: str = "Questions"
    choose: str = "Choose"
    missing: str = "No answer"
    make: str = "Draw what will be sent"
    incomplete: str = "Please answer: {names}."
    said: str = "You said"
    sends: str = "What is sent"
    one: str = "“{value}”"
    several: str = "the set {values}"
    empty: str = "the empty set"
    symbol: str = "the sign {sign}, drawn most often for {values}"
    no_turn: str = "nothing: the lot fell on another question"
    lot: str = (
        "This was drawn by lot; it may or may not be what you said. If you say the same again, the same is drawn: "
        "trying again tells nothing new."
    )
    forgetful: str = "The browser keeps nothing here: please answer only once."
    send: str = "Send"
    sending: str = "Sending …"
    sent: str = "It has arrived. Thank you."
    already: str = "An answer was given from this device before; this is what it was. Giving it again changes nothing."
    used: str = "This invitation has been used: an answer has arrived with it."
    later: str = "Too many answers arrive just now. Please try again in a minute."
    failed: str = "It did not arrive. Try again, or pass on the line below."
    copy: str = "Copy as text"
    copied: str = "Copied. Whoever collects the answers can take this line."
    line: str = "The line that is sent"
    code: str = "Show as QR code"
    code_label: str = "QR code of the line that is sent"
    back: str = "Change my answers"
    other: str = "Somebody else answers now"
    script: str = "This page draws your answer on your device and needs JavaScript for it."


def words_in(language: str | os.PathLike[str]) -> Language:
    """The words of a language that comes with the package, or of a file in TOML."""
    if str(language) == "en":
        return Language()
    listed = files(__package__).joinpath(HOME).iterdir()
    own = {f.name.removesuffix(".toml"): f for f in listed if f.name.endswith(".toml")}
    if str(language) in own:
        return _words(own[str(language)].read_text("utf-8"), str(language))
    path = Path(language)
    if not path.exists():
        raise unknown("a language, nor a file of words", str(language), ["en", *sorted(own)])
    return _words(path.read_text("utf-8"), str(language))


def _words(text: str, where: str) -> Language:
    try:
        return msgspec.convert(tomllib.loads(text), Language)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"is no file of words: {error}", where=where) from None
