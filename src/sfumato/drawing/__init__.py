"""Drawing: from codes and random words to the columns of a released table, and the manifest that describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.drawing.compiled import COMPILED, TextCodes
    from sfumato.drawing.decoding import GUESS
    from sfumato.drawing.manifest import Imprint, manifest_path, mechanism_of, read_manifest
    from sfumato.drawing.posterior import inverted_law, likeliest

__all__ = on_demand(__name__)
