"""Answers on the wire: one line of text, whether it is posted, copied or read from a QR code.

    sfumato:1:<survey>:<token>:<answer>

`survey` are the first 16 hexadecimal digits of the mechanism's checksum, `token` 22 letters of an invitation (or of
chance, where nobody is invited), `answer` what was drawn, part by part, with points between: an output's number, or
zeros and ones for a set; nothing for a part that had no turn.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import InputError
from sfumato.mechanism import Bundle, Mechanism
from sfumato.mechanism.bundle import any_record
from sfumato.mechanism.records_of_people import joint_code, record_codes

SURVEY = 16  # hexadecimal digits: 64 bits tell surveys apart
TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")  # 128 bits and a little
LINE = re.compile(rf"sfumato:1:([0-9a-f]{{{SURVEY}}}):({TOKEN.pattern}):([0-9.]{{1,100000}})")
Drawn = tuple[int | str | None, ...]  # what each part drew


class MalformedAnswer(InputError):
    """A text that is no answer to this survey."""


@dataclass(frozen=True, slots=True)
class Form:
    """What an answer to one survey looks like."""

    survey: str
    outputs: tuple[int, ...]  # of each part; 0 where an answer is a set
    widths: tuple[int, ...]  # zeros and ones of a set; 0 elsewhere
    turns: bool

    @classmethod
    def of(cls, mechanism: Mechanism | Bundle) -> Form:
        parts = parts_of(mechanism)
        sets = [p.law.meaning == "subset" for p in parts]
        return cls(
            survey_id(mechanism), tuple(0 if s else p.outputs for p, s in zip(parts, sets, strict=True)),
            tuple(p.inputs if s else 0 for p, s in zip(parts, sets, strict=True)),
            isinstance(mechanism, Bundle) and mechanism.turns is not None,
        )

    @property
    def longest(self) -> int:
        """Characters of the longest answer."""
        digits = [w or len(str(n - 1)) for n, w in zip(self.outputs, self.widths, strict=True)]
        return len("sfumato:1:::") + SURVEY + 22 + sum(digits) + len(digits) - 1

    def read(self, text: str) -> tuple[str, str]:
        """The token and the answer of a line, or `MalformedAnswer`; the text is never repeated."""
        found = LINE.fullmatch(text) if len(text) <= self.longest else None
        if found is None:
            raise MalformedAnswer("this is no answer: it must be one line sfumato:1:survey:token:answer.")
        survey, token, answer = found.groups()
        if survey != self.survey:
            raise MalformedAnswer("this is an answer to another survey.")
        fields = answer.split(".")
        fits = len(fields) == len(self.outputs) and all(map(self._fits, fields, self.outputs, self.widths))
        given = sum(map(bool, fields))
        if not fits or given != (1 if self.turns else len(fields)):
            raise MalformedAnswer("this answer is none that the mechanism can draw.")
        return token, answer

    @staticmethod
    def _fits(field: str, outputs: int, width: int) -> bool:
        if field == "" or width:
            return field == "" or (len(field) == width and set(field) <= {"0", "1"})
        return field.isdigit() and str(int(field)) == field and int(field) < outputs

    def line(self, token: str, drawn: Drawn) -> str:
        """The line of an answer."""
        return f"sfumato:1:{self.survey}:{token}:" + ".".join("" if y is None else str(y) for y in drawn)


def survey_id(mechanism: Mechanism | Bundle) -> str:
    record = any_record(mechanism)
    return str(record.checksum).removeprefix("sha256:")[:SURVEY]


def parts_of(mechanism: Mechanism | Bundle) -> tuple[Mechanism, ...]:
    return mechanism.parts if isinstance(mechanism, Bundle) else (mechanism,)


def lines(mechanism: Mechanism | Bundle, tokens: Sequence[str], *values: Any, **named: Any) -> list[str]:
    """The lines that scripts send for some records, one for each token; drawn with the system's entropy."""
    parts, form = parts_of(mechanism), Form.of(mechanism)
    columns = {c.name: c for part in parts for c in part.reading}
    found, _ = record_codes(tuple(columns.values()), values, named)
    n = len(next(iter(found.values())))
    if len(tokens) != n:
        raise InputError(f"there are {n} records, but {len(tokens)} tokens: each needs one of its own.")
    turns = None
    if isinstance(mechanism, Bundle) and mechanism.turns is not None:
        turns = mechanism.drawn_turns(np.frombuffer(os.urandom(8 * n), np.uint64))
    rows: list[list[int | str | None]] = [[None] * len(parts) for _ in range(n)]
    for i, part in enumerate(parts):
        at = np.arange(n) if turns is None else np.flatnonzero(turns == i)
        codes = joint_code([(found[c.name][at], c.size) for c in part.reading])
        words = np.frombuffer(os.urandom(8 * part.law.words * len(at)), np.uint64).reshape(len(at), part.law.words)
        for row, y in zip(at, part.law.draw(codes, words), strict=True):
            rows[row][i] = "".join(map(str, y)) if form.widths[i] else int(y)
    return [form.line(token, tuple(row)) for token, row in zip(tokens, rows, strict=True)]
