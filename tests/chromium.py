"""The system's Chromium, when there is one, and what axe has against its pages."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]
ABSENT = "no Chromium on this machine (install the package chromium, or set SFUMATO_CHROMIUM)"


def path():
    """Where it is, or None."""
    return os.environ.get("SFUMATO_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def violations(page, *rules):
    """What axe has against a page, by all its rules or by those named."""
    from axe_playwright_python.sync_playwright import Axe

    some = {"runOnly": list(rules)} if rules else {}
    return Axe().run(page, options={"resultTypes": ["violations"], "preload": False, **some}).response["violations"]


def serious(page, *rules):
    """The serious of these, and where the first of each is."""
    return [f"{v['id']} at {v['nodes'][0]['html'][:120]}" for v in violations(page, *rules) if v["impact"] in ("serious", "critical")]
