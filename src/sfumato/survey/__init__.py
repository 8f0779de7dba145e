"""Surveys: questions answered through a mechanism on the respondent's own device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.survey.asking import Question, Survey, asked, mechanism_beside
    from sfumato.survey.survey_page import Form, Language, MalformedAnswer, lines, words_in

__all__ = [
    "Form", "Language", "MalformedAnswer", "Question", "Survey", "asked", "lines", "mechanism_beside", "words_in",
]

on_demand(__name__, {
    **dict.fromkeys(("Question", "Survey", "asked", "mechanism_beside"), ".asking"),
    **dict.fromkeys(("Form", "Language", "MalformedAnswer", "lines", "words_in"), ".survey_page"),
})
