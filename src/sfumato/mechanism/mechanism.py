"""Mechanism: a law with the labels of what it reads, and the promise it carries."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from sfumato.alphabet import Alphabet, Column, Floats, Ints, Label, Labels
from sfumato.decimals import MISSING, at_most, nats
from sfumato.errors import InputError, checked_epsilon
from sfumato.frames import axes_of
from sfumato.joint import Joint, Noise
from sfumato.mechanism.law import Law, joint_code, memory_key, record_codes, remembered, scale
from sfumato.mechanism.table import Table
from sfumato.tolerances import DRAWN, LISTED
from sfumato.uncertainty import RenyiBall, UncertaintySet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.alphabet import Array
    from sfumato.mechanism.file import MechanismRecord

READS = ("both", "useful")
NOTIONS = ("ldp", "lip", "rldp", "srlip", "pml", "mi", "leakage")
ABOUT = {
    "ldp": "about the whole record", "srlip": "about the secret whichever useful columns are known",
    "mi": "about the secret on average, not for single outputs,",
}
Answer: TypeAlias = "Label | tuple[Answer, ...]"  # a label, a pair of labels, or a set of either


def spoken(answer: object) -> str:
    """An answer, or a part of one, as text; its own parts side by side."""
    if isinstance(answer, tuple | list):
        return " · ".join(map(spoken, answer))
    return MISSING if answer is None else str(answer)


@dataclass(frozen=True, eq=False)
class Claim:
    """What a mechanism promises: a notion, a level, and the distributions for which it holds.

    'ldp' is about the whole input and holds for every distribution; 'lip' and 'rldp' are about the secret,
    for the distributions in `within`; 'pml' is the upper half of 'lip', P(y|s) ≤ e^ε P(y); 'srlip' holds also for
    attackers who know some of the useful columns; 'mi' bounds I(S;Y), an average that says nothing about single
    outputs; 'leakage' has orders (alpha, beta) and is about the input, or with within = Exactly(joint) about the secret
    through p(x|s), whatever p(s) is.
    """

    notion: str
    epsilon: float
    within: UncertaintySet | None = None
    alpha: float | None = None  # the orders of maximal (α, β)-leakage
    beta: float | None = None
    also: tuple[Claim, ...] = ()  # further promises that hold at the same time
    anywhere: bool = field(init=False, repr=False)  # about the secret for every distribution, whoever knows the rest
    title: str = field(init=False, repr=False)  # the notion's name for a reader
    sentence: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        anything = self.within is not None and self.within.kind == "anything"
        object.__setattr__(self, "anywhere", self.notion == "rldp" and anything)
        checked_epsilon(self.epsilon)
        if self.notion not in NOTIONS:
            raise InputError(f"notion must be one of {', '.join(NOTIONS)}", value=self.notion)
        if self.notion == "leakage":
            title = self._leakage()
        elif self.alpha is not None or self.beta is not None:
            raise InputError(f"orders alpha and beta belong to leakage, not to {self.notion}.")
        elif (self.within is None) != (self.notion == "ldp"):
            raise InputError(f"a claim of {self.notion} {'takes no' if self.notion == 'ldp' else 'needs a'} set.")
        else:
            title = self.notion.upper()
        object.__setattr__(self, "title", title)
        object.__setattr__(self, "sentence", "; also ".join([self._alone(), *(x.sentence for x in self.also)]))

    def _leakage(self) -> str:
        """The name of a leakage, whose orders and set are checked."""
        if self.alpha is None or self.beta is None or not (self.alpha >= 1 and self.beta >= 1):
            raise InputError(f"leakage needs orders alpha and beta of 1 or more, got {self.alpha} and {self.beta}.")
        if self.within is not None and self.within.kind != "exactly":
            raise InputError(
                f"leakage is claimed about the record, or about the secret at one distribution, not over a set of kind "
                f"{self.within.kind!r}."
            )
        a, b = ("∞" if math.isinf(x) else f"{x:g}" for x in (self.alpha, self.beta))
        return f"maximal ({a}, {b})-leakage"

    def _alone(self) -> str:
        """The first promise in words."""
        kind = None if self.within is None else self.within.kind
        if self.notion == "leakage":
            about = "about the whole record whatever its distribution" if kind is None else (
                "about the secret whatever its distribution, with that of the rest given the secret as designed"
            )
            return f"at most {nats(self.epsilon)} of {self.title} {about}"
        within = {None: "", "exactly": " at the design distribution only", "anything": " for every distribution",
                  "chi-square-ball": " for every distribution in the confidence ball",
                  "renyi-ball": " for every distribution in the Rényi ball",
                  "polytope": " for every mixture of the listed distributions",
                  "custom": " for every distribution in a set whose bounds are as given by the set"}
        about = ABOUT.get(self.notion, "about the secret")
        where = within.get(kind, f" for every distribution in the set ({kind})")
        return f"ε = {at_most(self.epsilon)} ({self.title}) {about}{where}"


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A randomised answer Q(y|x) to an input x = (s, u), or x = u when it does not read the secret."""

    law: Law
    secret: Alphabet
    useful: Alphabet
    reads: str = "both"
    method: str = "tabular"
    claim: Claim | None = None
    joint: Joint | None = None  # the design distribution, when there is one
    source: str = "unstated"  # where the design data came from: 'reference', 'split', 'private', 'unstated'
    answers: Column | None = None  # names of the outputs, in the column they are released in; only for symbols
    inputs: int = field(init=False, repr=False)
    sealed: bool = field(init=False, repr=False)  # integers as weights: it can be certified, saved and sampled

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", self.law.rows * self.law.useful)
        object.__setattr__(self, "sealed", self.law.bits is not None)
        if self.reads not in READS:
            raise InputError("reads must be 'both' or 'useful'", value=self.reads)
        if self.law.useful != self.useful.size or self.law.rows != (self.secret.size if self.reads == "both" else 1):
            raise InputError(
                f"the law is for {self.law.rows} × {self.law.useful} inputs, the labels for "
                f"{self.secret.size if self.reads == 'both' else 1} × {self.useful.size}."
            )
        if self.answers is not None and (self.answers.size != self.law.outputs or self.law.meaning != "symbol"):
            raise InputError(
                f"there are names for {self.answers.size} outputs, but the law has {self.law.outputs} of kind "
                f"{self.law.meaning!r}."
            )

    @cached_property
    def outputs(self) -> int:
        """|Y|, which a product of laws has to list."""
        return self.law.outputs

    @property
    def matrix(self) -> Floats | None:
        """Q[y, x] with columns that sum to 1, or None when the outputs are too many to list."""
        return self.law.matrix()

    def input_law(self, joint: Joint) -> Floats:
        """p(x) of what the mechanism reads."""
        return joint.p.ravel() if self.reads == "both" else joint.p_useful

    def posterior(self, joint: Joint | None = None) -> Floats | None:
        """P(s, u | y) as [y, s, u] under the design distribution, or under another: the meaning of the outputs."""
        joint = self.joint if joint is None else joint
        q = self.matrix
        if joint is None or q is None or q.shape[0] * joint.p.size > LISTED:
            return None
        rows = q.reshape(len(q), self.law.rows, self.law.useful)
        weight = rows * joint.p
        total = weight.sum((1, 2), keepdims=True)
        return np.asarray(np.divide(weight, total, out=np.broadcast_to(joint.p, weight.shape).copy(), where=total > 0))

    @property
    def noise(self) -> Noise | None:
        """What was paid for the design data. A coverage is told of a ball of order ½ around counts and of no other set,
        for no other was simulated: whoever claims something else about the same data does not inherit it."""
        joint = self.claim.within.joint if self.joint is None and self.claim and self.claim.within else self.joint
        if joint is None or joint.noise is None:
            return None
        within = None if self.claim is None else self.claim.within
        simulated = isinstance(within, RenyiBall) and within.alpha == 0.5 and joint.counts is not None
        return joint.noise if simulated else replace(joint.noise, coverage=None)

    @property
    def parts(self) -> tuple[Mechanism, ...]:
        """Itself: a bundle has several."""
        return (self,)

    @property
    def reading(self) -> tuple[Column, ...]:
        """The columns that make up an input, in the order of its code."""
        return (*(self.secret.columns if self.reads == "both" else ()), *self.useful.columns)

    def respond(self, *values: object, memo: bytes | None = None, **named: object) -> Answer | list[Answer]:
        """A randomised answer, with the system's entropy: `respond(drug="yes", age=34)`.

        A record may also be a dictionary, or a value for each column in order (those of the secret first, if it is
        read). A list of dictionaries, or a list of values for each name, gets a list of answers. An answer is a label
        (or a pair of labels), a symbol 'y17', or a set of labels for SUE and OUE; `sf.estimate` takes a list of them.
        With `memo`, a secret key that the respondent keeps (secrets.token_bytes(32)), the same record gets the same
        answer from this mechanism whenever it is asked: then asking again tells nothing more, and a changed answer
        tells that the record has changed.
        """
        if not self.sealed:
            raise InputError("only a sealed mechanism can answer; design() and seal() return sealed ones.")
        found, alone = record_codes(self.reading, values, named)
        codes = joint_code([(found[c.name], c.size) for c in self.reading])
        if memo is not None and not alone:
            raise InputError("a memo is the key of one respondent", next="Give one record with it.")
        drawn = os.urandom(8 * self.law.words * len(codes)) if memo is None else remembered(
            memory_key(memo, self.checksum), b"", int(codes[0]), self.law.words)
        words = np.frombuffer(drawn, np.uint64).reshape(len(codes), self.law.words)
        answers = self.told(self.law.draw(codes, words))
        return answers[0] if alone else answers

    @property
    def record(self) -> MechanismRecord:
        """The content of its file, made anew each time: what is proved of it is what its weights are now."""
        from sfumato.mechanism.file import record_of

        return record_of(self)

    @property
    def checksum(self) -> str:
        """What tells its file from all others."""
        return self.record.checksum

    def answer(self, drawn: npt.ArrayLike) -> Answer:
        """The label of an output as a person reads it."""
        return self.told(np.asarray(drawn)[None])[0]

    def told(self, drawn: Array) -> list[Answer]:
        """The labels of many outputs, [i], or [i, x] where an output is a set of inputs."""
        if self.law.meaning == "subset":
            names = [self.input_label(x) for x in range(self.inputs)]
            return [tuple(names[x] for x in np.flatnonzero(row)) for row in drawn]
        symbols = self.symbols.labels if self.law.meaning == "symbol" else None
        known = {y: self.input_label(y) if symbols is None else symbols[y] for y in set(np.asarray(drawn).tolist())}
        return [known[y] for y in np.asarray(drawn).tolist()]

    @property
    def symbols(self) -> Column:
        """The column of outputs that are symbols: their names if they have any, else y0, y1, …"""
        if self.answers is not None:
            return self.answers
        return Column.of("symbol", [f"y{y}" for y in range(self.outputs)])

    def input_text(self, x: int) -> str:
        """An input as a person reads it."""
        return self.useful.text(x) if self.law.rows == 1 else self._cell_text(x)

    def _cell_text(self, x: int) -> str:
        """A secret with a useful value, whether or not the secret is read."""
        s, u = divmod(x, self.useful.size)
        return f"{self.secret.text(s)} · {self.useful.text(u)}"

    def input_label(self, x: int) -> Answer:
        """An input (or an output that is one) as `respond` gives it."""
        s, u = divmod(x, self.useful.size)
        useful = _plain(self.useful.label(u))
        alone = self.law.rows == 1 or self.law.meaning == "useful"
        return useful if alone else (_plain(self.secret.label(s)), useful)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the sealed mechanism, its claim and its design distribution as one JSON file."""
        from sfumato.mechanism.file import save

        return save(self, path, force=force)

    def rows_of(self, outputs: Ints) -> Floats:
        """Q(y|·) of some outputs, as [y, x]."""
        rows = [np.asarray(self.law.row(int(y)), float).ravel() for y in outputs]
        return np.stack(rows) / scale(self.law.bits)

    def meanings(self, most: int = 20, named: int = 3) -> list[tuple[Answer, list[tuple[str, float]]]]:
        """For the likeliest outputs, the likeliest original cells behind them with their posterior probabilities under
        the design distribution; none where outputs are sets of inputs, or the mechanism carries no distribution."""
        if self.joint is None or self.law.meaning == "subset":
            return []
        mean = self.mean_law(self.joint)
        order = range(self.outputs) if self.outputs <= most or mean is None else np.argsort(-mean, kind="stable")
        out = []
        for y in list(order)[:most]:
            weight = np.asarray(self.law.row(int(y)), float) * self.joint.p
            total = float(weight.sum())
            weight = (weight / total if total > 0 else self.joint.p).ravel()
            top = [int(x) for x in np.argsort(-weight, kind="stable")[:named] if weight[x] > 0]
            out.append((self.answer(int(y)), [(self._cell_text(x), float(weight[x])) for x in top]))
        return out

    def mean_law(self, joint: Joint) -> Floats | None:
        """P(y) under a joint, or None when the outputs cannot be listed."""
        if self.law.meaning == "subset" or self.outputs > LISTED:
            return None
        ps = joint.p_secret if self.law.rows > 1 else np.ones(1)
        given = joint.useful_given_secret if self.law.rows > 1 else joint.p_useful[None, :]
        _, _, mean, y = self.law.secret_laws(given, ps)
        if len(y) != self.outputs:
            return np.full(self.outputs, 1 / self.outputs)
        return mean / scale(self.law.bits)

    def with_claim(self, claim: Claim) -> Mechanism:
        return replace(self, claim=claim)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Q(y|x) as a picture, a column for each input, a row for each output; returns matplotlib's axes."""
        q, axes = self.matrix, axes_of(axes)
        if q is None:
            raise InputError(f"the mechanism has too many outputs to draw ({self.outputs:,}).")
        picture = axes.imshow(q, aspect="auto", interpolation="nearest", vmin=0.0)
        axes.figure.colorbar(picture, ax=axes, label="Q(y | x)")
        if self.inputs <= DRAWN:
            inputs = range(self.inputs)
            axes.set_xticks(inputs, [self.input_text(x) for x in inputs], rotation=90)
        axes.set(xlabel="input", ylabel="output", title=f"{self.method}: {self.outputs:,} outputs")
        return axes

    def __repr__(self) -> str:
        state = f"sealed to {self.law.bits} bits" if self.sealed else "not sealed"
        promise = f", {self.claim.sentence}" if self.claim else ""
        shape = f"{self.law.rows} × {self.law.useful}" if self.reads == "both" else f"{self.law.useful}"
        return f"<Mechanism {self.method}: {shape} inputs, {self.outputs} outputs, {state}{promise}>"


def _plain(label: tuple[Label, ...]) -> Label | tuple[Label, ...]:
    return label[0] if len(label) == 1 else label


def Tabular(
    q: npt.ArrayLike, secret: Labels | None = None, useful: Labels | None = None, *, joint: Joint | None = None,
    reads: str | None = None,
) -> Mechanism:
    """A mechanism from any matrix Q[y, x] whose columns sum to 1, x = s·|U| + u; labels are optional.

    With a joint of as many useful values as there are columns, or with `useful` labels alone, it reads U alone.

    >>> Tabular([[0.75, 0.25], [0.25, 0.75]]).outputs
    2
    """
    matrix = np.asarray(q, float)
    if matrix.ndim != 2:
        raise InputError(f"Q must be a table [y, x], got {matrix.ndim} dimension(s).")
    x = matrix.shape[1]
    if joint is not None:
        secret, useful = joint.secret, joint.useful
    s = Alphabet.named("secret", 1 if secret is None else secret)
    u = Alphabet.named("useful", (x // s.size if reads != "useful" else x) if useful is None else useful)
    if reads is None:
        reads = "both" if secret is not None and s.size * u.size == x else "useful"
    rows = s.size if reads == "both" else 1
    if rows * u.size != x:
        raise InputError(f"Q has {x} columns, but the labels make {rows * u.size} inputs.")
    return Mechanism(Table(matrix, rows), s, u, reads, joint=joint)
