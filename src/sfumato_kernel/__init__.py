"""sfumato_kernel: proves what a mechanism file claims, from its bytes, with nothing but the standard library."""

from sfumato_kernel.ball_levels import check_radius
from sfumato_kernel.documents import Beyond, Malformed, Refused, Unproved
from sfumato_kernel.verdict import Verdict, admitted, judged, verify

__all__ = ["Beyond", "Malformed", "Refused", "Unproved", "Verdict", "admitted", "check_radius", "judged", "verify"]
