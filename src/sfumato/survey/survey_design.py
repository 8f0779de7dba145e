"""A mechanism from labels alone: nothing is known about the people who will answer, so it holds for all of them.

Questions are answered *together* (one draw for all of them), *apart* (a draw for each, whose levels add up) or *in
turn* (each respondent draws one question and answers only that). What is best depends on ε and on the number of
labels, so candidates are compared by the errors of the one-question tables that can be estimated from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from sfumato.alphabet import Alphabet, Column, Floats
from sfumato.certification import seal
from sfumato.designers.closed_forms import grr_response as response
from sfumato.errors import InputError, designed_epsilon, unknown
from sfumato.estimation.inversion import COVARIANCE_CELLS
from sfumato.estimation.models import model_of
from sfumato.joint import Joint
from sfumato.mechanism import Blocks, Bundle, Claim, Law, Mechanism, Promise, Table, Unary
from sfumato.mechanism.bundle import TURN_BITS
from sfumato.mechanism.subset_laws import ORDERS, incidence
from sfumato.survey.asking import Question, alphabet_of
from sfumato.uncertainty import Anything

NOBODY = Alphabet(())
PAGE_CELLS = 5_000  # weights of a listed law that a page carries: about 90 kB
ASKS = ("auto", "together", "apart", "in turn")
PROTECTS = ("record", "sensitive")


@dataclass(frozen=True, eq=False)
class Chosen:
    """A mechanism, the root mean square standard error of its one-question tables times √n, and why it was chosen."""

    mechanism: Mechanism | Bundle
    error: float
    note: str = ""


def design_for(
    questions: Sequence[Question], epsilon: float, *, protects: str = "record", asks: str = "auto"
) -> Chosen:
    """The mechanism for some questions: ε-LDP about the whole record, or ε about the sensitive ones alone.

    'auto' takes the better of together and apart, from which tables of two questions can be estimated as well;
    'in turn' estimates single questions better still, and no two of them.
    """
    if designed_epsilon(epsilon) <= 0:
        raise InputError("epsilon must be above zero: at zero an answer says nothing.")
    if asks not in ASKS:
        raise unknown("a way of asking", asks, ASKS)
    if protects not in PROTECTS:
        raise unknown("what can be protected", protects, PROTECTS)
    if protects == "sensitive" and not all(q.sensitive for q in questions):
        if asks not in ("auto", "together"):
            raise InputError("sensitive questions are protected beside others only when all are answered together.")
        return _best([_measured(m) for m in _about_secret(questions, epsilon)])
    if len(questions) == 1:
        return _best([_measured(m) for m in _alone(alphabet_of(questions), epsilon)])
    ways = {"together": _together, "apart": _apart, "in turn": _in_turn}
    chosen = ("together", "apart") if asks == "auto" else (asks,)
    made = {name: way for name in chosen if (way := ways[name](questions, epsilon)) is not None}
    if not made:
        raise InputError(
            "the questions have too many combinations of answers to be answered together", next="Ask them apart."
        )
    best = min(made, key=lambda name: made[name].error)
    told = ", ".join(f"{name} {x.error:.3g}" for name, x in made.items())
    return replace(made[best], note=f"answered {best} (standard error of one question, times √n: {told})")


def _best(made: Sequence[Chosen]) -> Chosen:
    best = min(made, key=lambda x: x.error)
    told = ", ".join(f"{x.mechanism.method} {x.error:.3g}" for x in sorted(made, key=lambda x: x.error)[:4])
    name = best.mechanism.method
    return replace(best, note=f"{name} has the least standard error of one question (times √n: {told})")


def _together(questions: Sequence[Question], epsilon: float) -> Chosen | None:
    alphabet = alphabet_of(questions)
    if alphabet.size > COVARIANCE_CELLS:
        return None
    return _best([_measured(m) for m in _alone(alphabet, epsilon)])


def _apart(questions: Sequence[Question], epsilon: float) -> Chosen:
    parts = _parts(questions, epsilon / len(questions))
    error = math.sqrt(float(np.mean([x.error**2 for x in parts])))
    return Chosen(Bundle(*_bundled(parts), None, Promise(epsilon)), error)


def _in_turn(questions: Sequence[Question], epsilon: float) -> Chosen:
    parts, many = _parts(questions, epsilon), len(questions)
    share, left = divmod(2**TURN_BITS, many)
    turns = tuple(share + (i < left) for i in range(many))
    error = math.sqrt(many * float(np.mean([x.error**2 for x in parts])))
    return Chosen(Bundle(*_bundled(parts), turns, Promise(epsilon)), error)


def _bundled(parts: Sequence[Chosen]) -> tuple[tuple[Mechanism, ...], Alphabet]:
    made = [x.mechanism for x in parts]
    mechanisms = tuple(m for m in made if isinstance(m, Mechanism))
    return mechanisms, mechanisms[0].secret


def _parts(questions: Sequence[Question], epsilon: float) -> list[Chosen]:
    """One mechanism for each question. A bundle's promise is about one secret; the question with fewest labels takes
    that place. Assuming nothing about the columns, it is the product of the ratios of all parts: the level of the
    record."""
    first = min(questions, key=lambda q: len(q.labels))
    secret, none = alphabet_of([first]), Alphabet(())
    out = []
    for q in (first, *(q for q in questions if q is not first)):
        k, own = len(q.labels), q is first
        laws = [(law, name) for law, name in _laws(k, epsilon, own) if law.words == 1]
        sides = (secret, none, "both") if own else (secret, alphabet_of([q]), "useful")
        out.append(_best([_measured(_sealed(law, *sides, name, Claim("ldp", epsilon))) for law, name in laws]))
    return out


def _alone(alphabet: Alphabet, epsilon: float) -> Iterator[Mechanism]:
    for law, name in _laws(alphabet.size, epsilon, False):
        made = _sealed(law, NOBODY, alphabet, "useful", name, Claim("ldp", epsilon))
        yield replace(made, answers=_subset_names(alphabet, made.law)) if name == "subset" else made


def _laws(k: int, epsilon: float, secret: bool) -> Iterator[tuple[Law, str]]:
    """Closed forms at the LDP level ε over k values, which are those of the secret or of the useful variable."""
    e = math.exp(epsilon)
    rows, useful = (k, 1) if secret else (1, k)
    yield response(rows, useful, math.expm1(epsilon)), "grr"
    if not secret:
        yield Unary(1, k, 0.5, 1 / (e + 1)), "oue"
        for order in ORDERS:
            if k > order + 1 and (blocks := _blocks(1, k, order, e, 1.0, 0.0)) is not None:
                yield blocks, "blocks"
    size = max(1, round(k / (e + 1)))  # of the sets: Ye and Barg 2018
    if size > 1 and math.comb(k, size) * k <= PAGE_CELLS:
        q = np.array([[e if x in held else 1.0 for x in range(k)] for held in combinations(range(k), size)])
        yield Table(q / q.sum(0), rows), "subset"


def _blocks(rows: int, useful: int, order: int, inside: float, outside: float, other: float) -> Blocks | None:
    try:
        held = incidence(useful, order)
    except InputError:
        return None
    many, d = len(held), int(held[:, 0].sum())
    total = d * inside + (many - d) * outside + (rows - 1) * many * other
    return Blocks(rows, useful, order, inside / total, outside / total, other / total)


def _about_secret(questions: Sequence[Question], epsilon: float) -> Iterator[Mechanism]:
    """ε about the sensitive questions for any distribution; the others are told as openly as that allows."""
    from sfumato.designers import design

    secret, useful = (alphabet_of([q for q in questions if q.sensitive is side]) for side in (True, False))
    within = Anything(Joint.uniform(secret, useful))
    for method in ("srr", "grr"):
        yield replace(design(within, epsilon, method).mechanism, source="unstated")
    for order in ORDERS:
        law = _blocks(secret.size, useful.size, order, math.exp(epsilon), math.exp(-epsilon), 1.0)
        if law is not None and useful.size > order + 1 and law.outputs * secret.size * useful.size <= 40 * PAGE_CELLS:
            made = _sealed(law, secret, useful, "both", "blocks", Claim("rldp", epsilon, within))
            yield replace(made, joint=within.joint)


def _sealed(law: Law, secret: Alphabet, useful: Alphabet, reads: str, method: str, claim: Claim) -> Mechanism:
    return seal(Mechanism(law, secret, useful, reads, method), claim)[0]


def _measured(mechanism: Mechanism) -> Chosen:
    """With the error of each question's table at the uniform distribution, from the covariance of the inverse."""
    p = np.full(mechanism.inputs, 1 / mechanism.inputs)
    model = model_of(mechanism)
    inverse = model.invert(model.forward(p), 1)
    if not inverse.identified.all():
        return Chosen(mechanism, math.inf)
    sums = _question_sums(mechanism.reading)
    return Chosen(mechanism, math.sqrt(float(np.mean(np.einsum("ij,jk,ik->i", sums, inverse.covariance(), sums)))))


def _question_sums(columns: Sequence[Column]) -> Floats:
    """[label of some question, joint input]: the one-question tables as sums of cells."""
    grid = np.indices([c.size for c in columns]).reshape(len(columns), -1)
    own = [row == np.arange(c.size)[:, None] for row, c in zip(grid, columns, strict=True)]
    return np.concatenate(own).astype(float)


def _subset_names(alphabet: Alphabet, law: Law) -> Column:
    """What the sets of subset selection are called: their members."""
    size = next(w for w in range(1, alphabet.size + 1) if math.comb(alphabet.size, w) == law.outputs)
    held = combinations(range(alphabet.size), size)
    return Column.of("answer", [" | ".join(alphabet.text(x) for x in own) for own in held])
