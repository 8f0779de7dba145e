"""Words: what the numbers mean, in sentences a board or a regulator can read; and in a few lines."""

from __future__ import annotations

from dataclasses import asdict, astuple
from typing import TYPE_CHECKING

import numpy as np

from sfumato.certification import Certificate, placed, promises
from sfumato.decimals import BITS, LEVEL, at_least, at_most, capitalised, level, nats, near, percent, sure
from sfumato.designers.choose import METHODS
from sfumato.drawing.manifest import DECODES
from sfumato.mechanism import Bundle, Mechanism
from sfumato.reporting.facts import cost_of, promise_of
from sfumato.reporting.figures import Facts, PromiseFigures

if TYPE_CHECKING:
    from sfumato.frames import Record
    from sfumato.reporting.figures import Cost

Told = str | bool | tuple[str, ...] | tuple[tuple[str, str], ...]  # a sentence, whether to warn, or some
WITHIN = {
    "everything": "whatever the distribution of the data is",
    "anything": "whatever the distribution of the data is",
    "exactly": "only if the data follow the design distribution exactly",
    "chi-square-ball": "for every distribution of the data that the design counts do not rule out",
    "renyi-ball": "for every distribution of the data within a stated divergence from the design counts",
    "polytope": "for every mixture of the distributions listed in the mechanism file",
    "bundle of tables": "for every distribution whose small tables the design counts do not rule out, however columns "
    "depend on each other",
    "bundle of star": "only IF the columns are independent given the secret, which is a model and not proved",
    "bundle of tree": "only IF the columns form the stated tree, which is a model and not proved",
    "custom": "for every distribution of the data in a set that its author defined and bounded",
}
SOURCES = {
    "reference": "The mechanism was designed from reference data. No private row went into the mechanism file.",
    "split": (
        "The mechanism was designed from a part of the private table. Those rows were set aside and are not in the "
        "release, but their counts are in the mechanism file, without noise."
    ),
    "private": (
        "The mechanism was designed from the private table itself. Its counts are in the mechanism file, without "
        "noise: whoever gets the file gets them."
    ),
    "noisy": (
        "The mechanism was designed from counts of the private table with noise, which are themselves differentially "
        "private for every person: the file holds these, and no exact count of the table."
    ),
    "public": (
        "The mechanism was designed for an even weighting of its labels, which are public or many people have. No "
        "count of the table went into the mechanism file."
    ),
    "unstated": (
        "Where the design data come from was not stated. Their counts are in the mechanism file, without noise: if "
        "they are private rows, whoever gets the file learns these counts."
    ),
}
HARMLESS = ("reference", "noisy", "public")  # design data that need no warning

GLOSSARY = (
    ("ε", "The level of the promise, in nats. Odds between two values of the secret change by a factor of e^ε at most; "
     "smaller protects more."),
    ("Secret and useful", "The column that must not be guessed, and the columns that the release is for."),
    ("Output", "What a row was turned into. It is named here by what it most often stands for, with how often."),
    ("Odds", "How many times likelier one value is than another: 2 to 1 is 67 in 100."),
    ("Interval", "A range that holds the true share, for all values of a column at once, in 95 of 100 releases."),
    ("Confidence ball", "All distributions that the design counts do not rule out. The promise holds for every one of "
     "them, and says nothing about others: for these the level for any distribution counts."),
    ("Certificate", "The proof of the promise from the whole numbers in the mechanism file. Anybody can repeat it."),
    ("Bit", "What one answer to a yes/no question tells when both are equally likely; 1.44 bits are one nat."),
)
UNDESIGNED = "The mechanism file holds no design data."
UNNAMED = "A table of probabilities, one row for each output and one column for each input."
WHOM = (
    "Anyone who holds the released rows and the mechanism file: readers, researchers, buyers, other agencies, "
    "whatever computing power they have."
)
NOTHING_LEFT = 0.5  # a standard error of a share above this says that nothing was learned


def way(method: str) -> str:
    """How a method answers."""
    return METHODS.get(method, UNNAMED)


def words(f: Facts) -> dict[str, Told]:
    """The sentences of a page."""
    before, prior = _before(f)
    return {
        "method": _parts(f) if f.parts else way(f.method), "protected": _protected(f), "others": _others(f),
        "whom": WHOM, "limits": _limits(f), "strength": strength(f.promise, f.secret), "change": _change(f),
        "odds": _odds(f), "before": before, "prior": prior, "condition": _condition(f),
        "design": SOURCES.get(f.design.source, SOURCES["unstated"]) if f.design else UNDESIGNED,
        "alarming": f.design is not None and f.design.source not in HARMLESS,  # a warning that cannot be missed
        "decode": "" if f.rows is None else f"written {DECODES[f.rows.decode]}", "witness": _witness(f),
        "worth": _worth(f), "leaks": _leaks(f), "contents": _contents(f), "glossary": GLOSSARY,
    }


def _parts(f: Facts) -> str:
    """How a bundle answers."""
    turns = "one of them, drawn at random" if min(p.share for p in f.parts) < 1 else "all of them"
    return f"{len(f.parts)} parts, each about a few columns, with noise of their own; a row answers {turns}."


def _witness(f: Facts) -> str:
    """Where the worst case is, for a reader: output, useful value, one secret against another."""
    at = dict(f.promise.witness) if f.promise else {}
    parts = [f"{name} “{at[key]}”" for key, name in (("output", "output"), ("useful", f.useful)) if key in at]
    if "first" in at and "second" in at:
        parts.append(f"{f.secret} “{at['first']}” against “{at['second']}”")
    return ", ".join(parts)


def _protected(f: Facts) -> str:
    if f.promise is None:
        return "Nothing is promised: this mechanism carries no claim."
    if f.promise.notion == "ldp" or (f.promise.notion == "leakage" and f.promise.within == "everything"):
        read = f"{f.secret} and {f.useful}" if f.reads == "both" else f.useful
        return f"The whole record that the mechanism reads ({read}): every combination of its values."
    return f"The value of {f.secret} of each person in the table ({f.secret_values:,} possible values)."


def _others(f: Facts) -> str:
    if f.promise is not None and f.promise.within == "everything":
        return ""
    return (
        f"Only {f.secret} is protected. What is released about {f.useful} may be exact wherever that does not give "
        f"{f.secret} away; {f.useful} is not a secret here."
    )


def _limits(f: Facts) -> tuple[str, ...]:
    if f.promise is None:
        return ()
    if f.promise.capped is not None or f.promise.within == "anything":
        each = f.promise.epsilon if f.promise.capped is None else f.promise.capped
        most = nats(each, BITS)
        again = f"It is a promise for one release; each further one adds at most {most}, whoever looks."
        return (*(f"{capitalised(told)}." for told in f.promise.told), again)
    text = ["It is a promise for one release: several releases about the same people can tell more than their sum."]
    if f.promise.notion != "ldp" and f.promise.within not in ("anything", "everything"):
        text.append(
            f"It is a promise about people of whom nothing is known but the released row: somebody who already knows "
            f"a person's {f.useful} is outside it, and only the level for any distribution, below, holds against them."
        )
    return tuple(text)


def strength(promise: PromiseFigures | None, secret: str) -> str:
    """What the promise says about one released row."""
    if promise is None:
        return ""
    factor = at_most(promise.factor, 3)
    if promise.notion == "mi":
        return (
            f"On average a released row tells at most {nats(promise.epsilon, BITS)} about {secret}. A single row may "
            "tell much more: this is not a worst-case promise."
        )
    if promise.notion == "pml":
        return f"A released row raises the belief in any value of {secret} by at most a factor of {factor}."
    if promise.notion in ("lip", "srlip"):
        return f"A released row changes the belief in any value of {secret} by at most a factor of {factor}."
    if promise.notion == "leakage":
        about = "the record" if promise.within == "everything" else secret
        return f"A released row tells at most {nats(promise.epsilon, BITS)} about {about}, by {promise.title}."
    what = "any two records" if promise.notion == "ldp" else f"any two values of {secret}"
    return f"A released row changes the odds between {what} by at most a factor of {factor} (e to the power ε)."


def _condition(f: Facts) -> str:
    if f.promise is None:
        return ""
    text = f"This holds {WITHIN.get(f.promise.within, 'for every distribution in the stated set')}"
    if f.promise.confidence is not None:
        text += f" at {sure(f.promise.confidence)} confidence (of independent rows, with labels fixed beforehand)"
    return text + "."


def _change(f: Facts) -> str:
    """What e^ε bounds."""
    if f.promise is not None and f.promise.notion == "pml":
        return "A belief rises by at most"
    about_belief = f.promise is not None and f.promise.notion in ("lip", "srlip")
    return "A belief changes by at most" if about_belief else "Odds change by at most"


def _odds(f: Facts) -> str:
    """ε in words: what it does to odds of one to one."""
    if f.promise is None:
        return ""
    if f.promise.notion in ("mi", "leakage"):
        return f"{strength(f.promise, f.secret)} It bounds no single belief, so there is no greatest change to state."
    factor = at_most(f.promise.factor, 3)
    if f.promise.notion in ("lip", "srlip", "pml"):
        least = "" if f.promise.notion == "pml" else f", and at least {at_least(1 / f.promise.factor, 3)} in 100"
        return (
            f"e to the power ε is {factor}. A belief of 1 in 100 that a person has some value of {f.secret} becomes at "
            f"most {factor} in 100{least}, whatever the released row says."
        )
    return (
        f"e to the power ε is {factor}. If two possibilities seem equally likely, one to one, then after a released "
        f"row the odds are at most {factor} to one, whatever the row says."
    )


def _before(f: Facts) -> tuple[str, str]:
    """What the tables of beliefs are about: LIP speaks of shares in the data, the others of any belief."""
    if f.promise is not None and f.promise.notion in ("lip", "srlip", "pml"):
        return (
            f"For a value of {f.secret} by its share in the data, when the attacker knows the shares",
            "A value's share in the data is",
        )
    return (
        f"Whatever an attacker believes about a person's {f.secret} before, and whichever output it is",
        "A value is believed with",
    )


def _worth_of_parts(f: Facts) -> str:
    alone = [p for p in f.precision if " × " not in p.name]
    worst = max(alone, key=lambda p: p.error or 0.0)
    return (
        "Shares of every column, and of every two that a part holds together, can be estimated without bias; all "
        f"tables agree on the columns they share. The {worst.n:,} rows are worth "
        f"{max(float(np.mean([p.equal or 0 for p in alone])), 1):,.0f} unprotected ones for a column, on average."
    )


def _worth(f: Facts) -> tuple[str, ...]:
    """What the rows are worth to an analyst."""
    if not f.precision:
        return ("The mechanism file holds no design data, so how exact estimates will be is not known beforehand.",)
    if f.parts:
        return (_worth_of_parts(f),)
    useful = f.precision[-1]
    if useful.error is None:
        return ("The mechanism is too large for the exactness of estimates to be worked out for this page.",)
    if useful.error > NOTHING_LEFT:
        return (
            f"Each released row carries information about a person, but all of them together do not fix the shares of "
            f"{useful.name}, however many there are; intervals say what they do fix. Where shares matter most, design "
            "with recoverable=True, or group rare values.",
        )
    equal = useful.equal or 0.0
    return (
        f"Shares of {useful.name} can be estimated without bias. Releasing {useful.n:,} protected rows is as exact as "
        f"having {max(equal, 1):,.0f} unprotected ones.",
    )


def _leaks(f: Facts) -> str:
    if not f.leaks:
        why = "there is nothing to tell apart" if f.secret_values < 2 else "they are too many to list"
        return f"In nats; one nat is 1.44 bits. Measures that add up over all outputs are left out: {why}."
    return (
        "Different questions need different measures; all of them say what one released row tells, in nats unless "
        "it is a share. One nat is 1.44 bits. The first column is at the design distribution, the second at the shares "
        "of the secret that are worst for it."
    )


def _contents(f: Facts) -> tuple[tuple[str, str], ...]:
    parts = (
        ("what", "What is protected", True), ("attacker", "What ε means", f.promise is not None),
        ("cost", "What it costs", f.cost is not None), ("law", "The mechanism", True),
        ("analyst", "What can be estimated", True), ("truth", "Compared with the truth", f.private is not None),
        ("leaks", "What it leaks", f.heat is not None), ("public", "What became public", True),
        ("proof", "Certificate", f.promise is not None), ("words", "Glossary", True),
    )
    return tuple((key, name) for key, name, there in parts if there)


# --- a mechanism and its proof in a few lines, and as a document ------------------------------------------------------


Lines = list[tuple[str, str]]


def lines_of(made: Mechanism | Bundle, proof: Certificate) -> Lines:
    """What is promised, how it was proved and what it cost."""
    if isinstance(made, Bundle):
        return _lines_of_a_bundle(made, proof)
    promise, cost = promise_of(made, proof), None if made.joint is None else cost_of(made, made.joint)
    assert promise is not None  # nothing is released or saved by a command without a claim
    where = f"; worst at {at}" if (at := placed(promise.witness)) else ""
    return [
        ("promised", f"{promise.sentence}. {strength(promise, ', '.join(made.secret.names))}"),
        *(("that is", sentence) for sentence in promise.told),
        ("proved", f"{level(promise.level, LEVEL)}, from the integers in the file{where}"),
        ("method", f"{made.method}: {way(made.method)}"),
        *([] if cost is None or cost.kept is None else [("kept", _kept(cost, cost.kept))]),
    ]


def _kept(cost: Cost, kept: float) -> str:
    most = "" if cost.ceiling is None else at_most(cost.ceiling, BITS)
    limit = f"; no mechanism with this promise keeps more than {most}" if most else ""
    share = "" if cost.share is None else f" (NMI {percent(cost.share)})"
    return f"{at_least(kept, BITS)} of {near(cost.whole)} bits in a record{share}{limit}"


def _lines_of_a_bundle(bundle: Bundle, proof: Certificate) -> Lines:
    sure = bundle.confidence
    return [
        ("promised", f"{proof.title}: {'' if bundle.claim is None else bundle.claim.sentence}"),
        ("proved", f"{level(proof.level, LEVEL)}; {proof.basis}"),
        *([] if sure is None else [("confidence", f"{at_least(sure, 4)} that all sets hold at once")]),
        *((f"at {where}", level(x)) for where, x in proof.elsewhere.items()),
        ("columns", f"{', '.join(bundle.useful.names)}: {bundle.secret.size * bundle.useful.size:,} joint cells, never "
                    "listed"),
        ("method", bundle.method),
    ]


def document_of(made: Mechanism | Bundle, proof: Certificate) -> Record:
    """The same as JSON."""
    claim: Record = {
        "sentence": "" if made.claim is None else made.claim.sentence, "notion": proof.notion, "within": proof.within,
        "epsilon": proof.epsilon, "level": proof.level, "holds": proof.holds, "witness": proof.witness,
        "elsewhere": dict(proof.elsewhere), "basis": proof.basis,
    }
    cells = made.secret.size * made.useful.size
    told: Record = {
        "method": made.method, "reads": made.reads, "secret": list(made.secret.names), "useful": list(made.useful.names)
    }
    if isinstance(made, Bundle):
        parts = [{"columns": n, "method": part.method} for n, part in zip(made.names, made.parts, strict=True)]
        claim = {**claim, "title": proof.title, "confidence": made.confidence}
        data: Record = {"source": made.source, "cells": cells}
        return {**told, "asks": made.asks, "parts": parts, "claim": claim, "design_data": data}
    cost = None if made.joint is None else cost_of(made, made.joint)
    also: list[Record] = [{"notion": c.notion, "within": c.within, "epsilon": c.epsilon, "level": c.level}
                          for c in proof.also]
    return {
        **told, "claim": {**claim, "also": also}, "promises": [asdict(one) for one in promises(made, proof)],
        "bits": None if cost is None else dict(zip(("kept", "whole", "ceiling", "nmi"), astuple(cost), strict=True)),
        "design_data": _design_document(made, cells),
    }


def _design_document(made: Mechanism, cells: int) -> Record:
    joint = made.joint
    return {
        "source": made.source, "rows": None if joint is None else joint.n, "cells": cells,
        "small_cells": 0 if joint is None else joint.small_cells,
        "noise": None if made.noise is None else asdict(made.noise),
    }
