"""The system's Chromium, when there is one."""

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
