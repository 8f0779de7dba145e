"""Surveys: questions answered through a mechanism on the respondent's own device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.survey.asking import Question, Survey, asked, mechanism_beside
    from sfumato.survey.collected import Collector, Store, beside, export, opened_store, serve
    from sfumato.survey.survey_page import Form, Language, MalformedAnswer, lines, survey_id, words_in

__all__ = on_demand(__name__)
