"""The corrections that a page offers, and what it calls them."""

from __future__ import annotations

OFFERED = {
    "auto": "decided by the evidence",
    "sparc": "SPARC",
    "sparc-recentred": "SPARC, recentred",
    "normals": "only this lot's good parts",
}
REMOVES_NOTHING = frozenset({"identity", "normals"})
