"""Reporting: the numbers of a release and the page that explains them; every mechanism compared over a grid of ε."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.reporting.comparing import ENTRANTS, PLAIN, compare, curve, entrants, levels
    from sfumato.reporting.comparison import Comparison, Missing, Point, Precision, Realised, Spread, nearest
    from sfumato.reporting.comparison_page import advice, comparison_page, error_picture, kept_picture
    from sfumato.reporting.facts import facts_of
    from sfumato.reporting.figures import Facts, consequences
    from sfumato.reporting.measuring import measured
    from sfumato.reporting.pages import page, private_path, private_report, public_report, write_reports
    from sfumato.reporting.words import document_of, lines_of
    from sfumato.reporting.workers import answers

__all__ = on_demand(__name__)
