"""Studio: the whole road in a browser, on one's own machine.

    server    one process: requests, uploads, what each tab sees            server, visits, door
    hands     processes that hold a table, count, design and release        hands, desk
    page      plain modules that show what they are sent                    assets

The server never opens a table, and the page never computes a figure: Python does, in a process that can be ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.studio.desk import Desk
    from sfumato.studio.server import Studio, serve

__all__ = on_demand(__name__)
