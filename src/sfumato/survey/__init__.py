"""Surveys: questions answered through a mechanism on the respondent's own device."""

from sfumato.survey.answers import Form, MalformedAnswer, lines
from sfumato.survey.asking import Survey, mechanism_beside
from sfumato.survey.questions import Question, asked
from sfumato.survey.words import Language, words_in

__all__ = [
    "Form", "Language", "MalformedAnswer", "Question", "Survey", "asked", "lines", "mechanism_beside", "words_in",
]
