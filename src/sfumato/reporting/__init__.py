"""Reporting: the numbers of a release, and the page that explains them."""

from sfumato.reporting.facts import facts_of
from sfumato.reporting.figures import Facts
from sfumato.reporting.pages import page, private_path, private_report, public_report, write_reports

__all__ = ["Facts", "facts_of", "page", "private_path", "private_report", "public_report", "write_reports"]
