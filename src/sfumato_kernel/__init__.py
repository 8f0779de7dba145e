"""sfumato_kernel: proves what a mechanism file claims, from its bytes, with nothing but the standard library."""

from sfumato_kernel.documents import Beyond, Malformed, Refused, Unproved
from sfumato_kernel.verdict import Verdict, admitted, check_radius, judged, verify

__all__ = ["Beyond", "Malformed", "Refused", "Unproved", "Verdict", "admitted", "check_radius", "judged", "verify"]
