"""Certification: sealing to integers, and levels proved from them by code that knows nothing of the design."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.libraries import on_demand

if TYPE_CHECKING:
    from sfumato.certification.certificate import (
        PROVED,
        Certificate,
        certificate,
        certificate_any,
        certify,
        judged,
        placed,
        seal,
        verify,
        witnessed,
    )
    from sfumato.certification.leakage_proofs import about_side_channels, leakage_level, secret_information
    from sfumato.certification.promises import THEOREM, PromisesTold, design_sentence, promises, told_exactly
    from sfumato.certification.together import (
        about_record,
        anywhere,
        bounded,
        bundle_certificate,
        bundle_levels,
        certify_bundle,
        drawn_for,
    )

__all__ = on_demand(__name__)
