"""What a notebook shows of a station and of a lot: small, readable on light and dark paper, names without markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparcal.station.detection_chart import detection_chart
from sparcal.station.inline_page import in_html

if TYPE_CHECKING:
    from sparcal.calibration.self_test import SelfTest
    from sparcal.station.lot import Lot
    from sparcal.station.station import Station

NEWEST_LOTS = 10  # rows of a station's table

# A notebook's paper may be light or dark: text and lines take its own ink, and the two colours can be seen on both.
LOOK = """<style>
.sparcal-card { max-width: 46rem; overflow-wrap: anywhere; }
.sparcal-card .chart { display: block; max-width: 34rem; overflow: visible; }
.sparcal-card .chart text { fill: currentColor; font-size: 12.5px; }
.sparcal-card .chart .grid { stroke: currentColor; opacity: .2; } .sparcal-card .chart .axis { stroke: currentColor; }
.sparcal-card .chart .step { fill: currentColor; opacity: .1; }
.sparcal-card .chart .curve { fill: none; stroke: currentColor; stroke-width: 2.5; }
.sparcal-card .chart .reach { stroke: currentColor; stroke-dasharray: 4 4; }
.sparcal-card .chart .found { fill: #1f9271; stroke: #1f9271; } .sparcal-card .chart .missed { fill: #dc5a50; stroke: #dc5a50; }
.sparcal-card .chart .faint { fill: none; }
</style>"""


def lot_card(lot: Lot) -> str:
    """By what a lot judges, what its threshold promises, what it would find."""
    return _card(lot.title, [lot.threshold.sentence], lot.self_test)


def station_card(station: Station) -> str:
    """What a station is, what its own reference would find, and its lots, the newest first."""
    record = station.record
    facts = f"{record.host}, fitted on {len(record.images)} images of good parts; encoder {record.encoder_id}"
    return _card(f"Station {station.path}", [facts], record.self_test, _lots(station))


def _card(title: str, sentences: list[str], tested: SelfTest | None, more: str = "") -> str:
    said = sentences if tested is None else [*sentences, tested.sentence]
    words = "".join(f"<p>{in_html(sentence)}</p>" for sentence in said)
    chart = "" if tested is None else detection_chart(tested)
    return f"{LOOK}<div class='sparcal-card'><p><b>{in_html(title)}</b></p>{words}{chart}{more}</div>"


def _lots(station: Station) -> str:
    lots = station.lots()
    if not lots:
        return "<p>No lot has been calibrated: images are judged by the station's own reference.</p>"
    active = station.active()
    rows = "".join(_row(lot, active=lot.name == active) for lot in reversed(lots[-NEWEST_LOTS:]))
    titles = "".join(f"<th>{title}</th>" for title in ("lot", "correction", "threshold", "planted, found", "checks"))
    left = len(lots) - NEWEST_LOTS
    earlier = f"<p>And {left} earlier.</p>" if left > 0 else ""
    judging = "" if active is not None else "<p>None is active: images are judged by the station's own reference.</p>"
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>{earlier}{judging}"


def _row(lot: Lot, *, active: bool) -> str:
    tested = lot.record.self_test
    found = "" if tested is None else f"{tested.found} of {tested.planted}"
    name = f"{lot.name} (active)" if active else str(lot.name)
    cells = name, lot.record.correction, f"{lot.threshold.value:.4g}", found, lot.record.verdict
    return f"<tr>{''.join(f'<td>{in_html(cell)}</td>' for cell in cells)}</tr>"
