"""Waves: the same people asked again and again, with noise that is drawn once and noise that is drawn every time.

A permanent answer b ~ A(·|x) is drawn once for a value and remembered; every wave reports y ~ B(·|b) with fresh noise
(RAPPOR: Erlingsson, Pihur, Korolova 2014; for one of many values: Arcolezi et al. 2022). Given x the reports of k waves
are Σ_b A(b|x) Π_i B(y_i|b), so all of them together tell no more about x than b does, however many there are; how much
k of them tell is an exact ratio of integers. It may exceed k times the level of one: the waves share b.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.alphabet import Alphabet
from sfumato.certification import certificate, seal
from sfumato.certification.certificate import MARGINS
from sfumato.certification.outward import log_up
from sfumato.errors import ClaimError, InputError, designed_epsilon, unknown
from sfumato.mechanism import Cells, Claim, Law, Mechanism, Unary
from sfumato.mechanism.law import joint_code, memory_key, record_codes, remembered

if TYPE_CHECKING:
    from sfumato.alphabet import Labels
    from sfumato.mechanism.mechanism import Answer

HALF_BITS = 31  # of each of the two laws: their composition then has the 62 bits that a word can hold
NOBODY = Alphabet(())  # the secret of a mechanism whose whole input is protected


@dataclass(frozen=True, eq=False)
class Waves:
    """Two-level answers for repeated questions about the same value.

    `permanent` is drawn once for a value, `instantaneous` from its answer in every wave (bit by bit, where that is a
    set), and `mechanism` is one wave by itself: exactly their composition, in integers, which `estimate` takes.
    """

    permanent: Mechanism
    instantaneous: Mechanism
    mechanism: Mechanism

    @property
    def forever(self) -> float:
        """The proved LDP level of any number of waves in which the value stays the same."""
        return certificate(self.permanent, Claim("ldp", 0.0), wider=False).level

    def level(self, *waves: int) -> float:
        """The proved LDP level of `waves` reports: of one value k times, or of several values, each so many times.

        Values have permanent answers of their own, so their ratios multiply. This is about histories that are equal in
        the same waves: what the values were is hidden, whether they changed is not.
        """
        if not waves or min(waves) < 1:
            raise InputError("give the number of waves of each value, one or more", value=waves)
        ratio = Fraction(1)
        for k in waves:
            ratio *= _RATIOS[self.permanent.law.kind](self, k)
        return log_up(ratio)

    def respond(self, *values: object, memo: bytes, wave: str | None = None, **named: object) -> Answer:
        """The report of one respondent in one wave; `memo` is the key that the respondent keeps.

        The report of a named wave is remembered too, so that it can be asked for twice; without a name every call is
        a wave of its own.
        """
        found, alone = record_codes(self.mechanism.reading, values, named)
        if not alone:
            raise InputError("a memo is the key of one respondent", next="Give one record with it.")
        code = int(joint_code([(found[c.name], c.size) for c in self.mechanism.reading])[0])
        own = memory_key(memo, self.permanent.checksum)
        kept = np.frombuffer(remembered(own, b"", code, self.permanent.law.words), np.uint64)[None, :]
        b = np.atleast_1d(self.permanent.law.draw(np.array([code]), kept)[0]).astype(np.int64)
        fresh = os.urandom(8 * len(b)) if wave is None else remembered(own, b"wave " + wave.encode(), code, len(b))
        y = self.instantaneous.law.draw(b, np.frombuffer(fresh, np.uint64)[:, None])
        return self.mechanism.answer(y if self.permanent.law.kind == "unary" else y[0])


def waves(labels: Labels, *, once: float, forever: float, kind: str = "auto") -> Waves:
    """Two-level answers with the LDP level `once` of one wave and `forever` of any number of them.

    labels: those of one question, or an Alphabet. kind is 'grr' (a report is one label) or 'unary' (a noisy bit for
    each label, RAPPOR); 'auto' takes the one whose single wave estimates a rare label better.

    >>> two = waves(["yes", "no"], once=0.5, forever=2.0)
    >>> [round(two.level(k), 3) for k in (1, 2, 10, 1000)], round(two.forever, 3)
    ([0.5, 0.954, 1.991, 2.0], 2.0)
    """
    designed_epsilon(forever)
    if not 0 < once < forever:
        raise InputError(f"one wave must tell less than all of them: 0 < once < forever, got {once:g} and {forever:g}.")
    alphabet = Alphabet.named("answer", labels)
    if alphabet.size < 2:
        raise InputError("a question needs two labels or more.")
    if kind == "auto":
        # variances of a rare label at ε: (k − 2 + e^ε)/(e^ε − 1)² of GRR and e^{ε/2}/(e^{ε/2} − 1)² of symmetric bits
        e, root = math.exp(once), math.exp(once / 2)
        kind = "grr" if (alphabet.size - 2 + e) / (e - 1) ** 2 <= root / (root - 1) ** 2 else "unary"
    if kind not in ("grr", "unary"):
        raise unknown("a kind of waves", kind, ("auto", "grr", "unary"))
    return _made(alphabet, once, forever, bits=kind == "unary")


def _made(alphabet: Alphabet, once: float, forever: float, *, bits: bool) -> Waves:
    """A label, or every bit of one, is the truth with share 1/(1 + (k − 1)e^{−ε}), of ε/2 and two values for a bit."""
    k, part = (2, 0.5) if bits else (alphabet.size, 1.0)
    kept, reported = (1 / (1 + (k - 1) * math.exp(-part * x)) for x in (forever, once))
    law: Law = Unary(1, alphabet.size, kept, 1 - kept) if bits else _cells(k, kept)
    asked = Mechanism(law, NOBODY, alphabet, "useful", "permanent")
    permanent, _ = seal(asked, Claim("ldp", forever), bits=HALF_BITS)
    known = permanent.law
    assert isinstance(known, (Unary, Cells))
    high, low = (known.on, known.off) if isinstance(known, Unary) else (known.truth, known.same_secret)
    a, o = (float(w) / 2**HALF_BITS for w in (high, low))
    heard = Alphabet.named("bit", ["0", "1"]) if bits else alphabet
    return _within(alphabet, once, permanent, (reported - o) / (a - o), heard)


def _cells(k: int, truth: float) -> Cells:
    return Cells(1, k, truth, (1 - truth) / (k - 1), 0.0, 0.0)


def _within(alphabet: Alphabet, once: float, permanent: Mechanism, share: float, heard: Alphabet) -> Waves:
    """The least fresh noise of a ladder for which one wave is proved to tell no more than `once`."""
    for margin in (0.0, *MARGINS):
        law = _cells(heard.size, (1 - margin) * share + margin / heard.size).rounded(HALF_BITS, 0.0)
        whole = _THROUGH[permanent.law.kind](permanent.law, law)
        one = Mechanism(whole, NOBODY, alphabet, "useful", "one wave", Claim("ldp", once))
        if certificate(one, wider=False).holds:
            fresh = Mechanism(law, NOBODY, heard, "useful", "instantaneous")
            own = certificate(fresh, Claim("ldp", 0.0), wider=False).level
            return Waves(permanent, replace(fresh, claim=Claim("ldp", own)), one)
    raise ClaimError(f"one wave could not be sealed at ε = {once:g}.")


def _through_cells(a: Cells, b: Cells) -> Law:
    k = a.useful
    truth = a.truth * b.truth + (k - 1) * a.same_secret * b.same_secret
    other = a.truth * b.same_secret + a.same_secret * b.truth + (k - 2) * a.same_secret * b.same_secret
    return Cells(1, k, truth, other, 0, 0, 2 * HALF_BITS)


def _through_bits(a: Unary, b: Cells) -> Law:
    often, seldom = int(b.truth), int(b.same_secret)
    on, off = (int(w) * often + (2**HALF_BITS - int(w)) * seldom for w in (a.on, a.off))
    return Unary(1, a.useful, on, off, 2 * HALF_BITS)


def _cells_ratio(w: Waves, k: int) -> Fraction:
    """All reports equal to one label x, against another: (a·r^k + o(K−1)) / (a + o·r^k + o(K−2)), r = truth / lie.

    With c_b reports of label b the likelihood of x is S + d·r^{c_x}, S = o Σ_b r^{c_b}, d = a − o. The ratio
    1 + d(r^{c_x} − r^{c_z}) / (S + d·r^{c_z}) grows when a report moves from any other label to x.
    """
    a, b = w.permanent.law, w.instantaneous.law
    assert isinstance(a, Cells) and isinstance(b, Cells)
    truth, lie, many = b.truth**k, b.same_secret**k, a.useful
    top = a.truth * truth + a.same_secret * (many - 1) * lie
    return Fraction(int(top), int(a.truth * lie + a.same_secret * (truth + (many - 2) * lie)))


def _bits_ratio(w: Waves, k: int) -> Fraction:
    """The bit of x always 1 and that of z always 0: other bits have the same law under both, and both ratios are
    monotone in the number of ones."""
    a, b = w.permanent.law, w.instantaneous.law
    assert isinstance(a, Unary) and isinstance(b, Cells)
    total, often, seldom = 2**HALF_BITS, int(b.truth) ** k, int(b.same_secret) ** k

    on, off = int(a.on), int(a.off)
    ones = {w: w * often + (total - w) * seldom for w in (on, off, total - on, total - off)}
    return Fraction(ones[on], ones[off]) * Fraction(ones[total - off], ones[total - on])


_THROUGH: dict[str, Callable[..., Law]] = {Cells.kind: _through_cells, Unary.kind: _through_bits}
_RATIOS: dict[str, Callable[[Waves, int], Fraction]] = {Cells.kind: _cells_ratio, Unary.kind: _bits_ratio}
