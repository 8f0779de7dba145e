"""sfumato verify: the proof again, for anyone, from the file alone."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.console import document, pairs, story
from sfumato.cli.options import json_option
from sfumato.decimals import LEVEL, level, near
from sfumato.errors import ClaimError


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def verify(file: Path, as_json: bool) -> None:
    """Prove the claim of a mechanism FILE anew, from the integers in it.

    Exits with 0 only if the claim holds, with 5 and the place where it fails if it does not, and with 4 if the file
    was edited or is not a mechanism file.

    \b
    Example:
      sfumato verify released.mechanism.json
    """
    from sfumato.certification import THEOREM, certificate, design_sentence, promises
    from sfumato.certification.certificate import PROVED
    from sfumato.certification.confirming import confirm
    from sfumato.certification.promises import told_exactly
    from sfumato.cli.wording import mechanism_document, witness
    from sfumato.mechanism import Bundle, load

    mechanism = load(file)
    if mechanism.claim is None:
        raise ClaimError("claims no privacy: there is nothing to verify", where=file)
    if isinstance(mechanism, Bundle):
        from sfumato.certification.together import bundle_certificate

        found = bundle_certificate(mechanism)
    else:
        found = certificate(mechanism)
    at = witness(found)
    if as_json:
        document({"file": file, **mechanism_document(mechanism, found)})
    if not found.holds:
        raise ClaimError(
            f"claims {mechanism.claim.sentence}, but only {level(found.level, LEVEL)} could be "
            f"proved{'; worst at ' + at if at else ''}", next="Do not release with it.", where=file,
        )
    confirm(mechanism)
    if as_json:
        return
    outside = [(f"at {where}", level(x)) for where, x in found.elsewhere.items()]
    pairs([
        ("holds", mechanism.claim.sentence),
        ("proved", f"{level(found.level, LEVEL)}, from the integers in {file}"),
        *([("also", f"{level(other.level, LEVEL)} ({other.within})") for other in found.also]),
        *([("rests on", found.basis)] if found.basis != PROVED else []),
        *([("worst at", at)] if at else []),
        *outside,
    ])
    if isinstance(mechanism, Bundle):
        from sfumato.certification.together import drawn_for

        if spent := drawn_for([mechanism])[0]:
            whole = level(found.level + spent)
            story(f"With the noisy counts in the file, which took ε_d = {near(spent)} as it says: {whole} in all.")
    else:
        for told in promises(mechanism, found):
            story(f"{told.sentence[0].upper()}{told.sentence[1:]}.")
        if mechanism.joint is not None and mechanism.joint.noise is not None:
            story(f"The file: {design_sentence(mechanism.joint.noise)}. {THEOREM}")
        if exactly := told_exactly(mechanism):
            story(f"But {exactly}.")

