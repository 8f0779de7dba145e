"""Reporting: the numbers of a release, and the page that explains them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demand import on_demand

if TYPE_CHECKING:
    from sfumato.reporting.facts import facts_of
    from sfumato.reporting.figures import Facts
    from sfumato.reporting.pages import page, private_path, private_report, public_report, write_reports

__all__ = ["Facts", "facts_of", "page", "private_path", "private_report", "public_report", "write_reports"]

on_demand(__name__, {
    "Facts": ".figures", "facts_of": ".facts",
    **dict.fromkeys(("page", "private_path", "private_report", "public_report", "write_reports"), ".pages"),
})
