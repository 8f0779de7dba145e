"""Reporting: the numbers of a release, and the page that explains them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.reporting.facts import facts_of
    from sfumato.reporting.figures import Facts, consequences, placed, witnessed
    from sfumato.reporting.pages import page, private_path, private_report, public_report, write_reports
    from sfumato.reporting.words import document_of, lines_of

__all__ = on_demand(__name__, {
    ".facts": "facts_of",
    ".figures": "Facts consequences placed witnessed",
    ".pages": "page private_path private_report public_report write_reports",
    ".words": "document_of lines_of",
})
