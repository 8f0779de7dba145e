"""Surveys: questions answered through a mechanism on the respondent's own device."""

from sfumato.survey.asking import Question, Survey, asked, mechanism_beside
from sfumato.survey.survey_page import Form, Language, MalformedAnswer, lines, words_in

__all__ = [
    "Form", "Language", "MalformedAnswer", "Question", "Survey", "asked", "lines", "mechanism_beside", "words_in",
]
