"""Who did what: decisions taken here and the station's own history, in one list."""

from __future__ import annotations

from typing import Any

from sparcal.server.database import Database, unpacked
from sparcal.stationfolder import StationFolder

_SAID = {
    "accept": "accepted lot {lot}",
    "keep": "kept the old reference instead of lot {lot}",
    "discard": "discarded lot {lot}",
    "roll back": "went back to lot {lot}",
    "confirm": "confirmed {image} as {verdict}",
    "overrule": "overruled {image}, which was {verdict}",
}


def trail(database: Database, station: StationFolder, *, limit: int) -> list[dict[str, Any]]:
    """The newest entries first."""
    with database.read() as connection:
        rows = connection.execute("SELECT * FROM decisions ORDER BY id DESC LIMIT ?", (min(limit, 10_000),)).fetchall()
    entries = []
    for row in rows:
        detail = unpacked(row["detail"])
        said = _SAID[row["kind"]].format(lot=row["lot"], **{k: detail.get(k, "") for k in ("image", "verdict")})
        if row["kind"] == "roll back" and not row["lot"]:
            said = "went back to the station's own reference"
        if detail.get("threshold") is not None:
            said += f" with the threshold set by hand to {detail['threshold']:.4g}"
        entries.append(
            {"at": row["at"], "operator": row["operator"], "kind": row["kind"], "lot": row["lot"], "sentence": said}
        )
    return entries
