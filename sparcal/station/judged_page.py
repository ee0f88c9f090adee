"""One self-contained page with the worst parts first: no outside request, light and dark, small enough to send."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sparcal.calibration.check_words import check_title
from sparcal.errors import DataError
from sparcal.imaging.decode import open_image
from sparcal.station.inline_page import in_html, jpeg_uri, write_inline_page
from sparcal.station.judge_facts import JudgeFacts

Row = dict[str, Any]

SHOWN = 100  # parts on the page; the tables have all
THUMBNAIL = 256
BARS = 40
WIDTH, HEIGHT = 640, 120  # of the histogram
CLOSE = 0.05  # of the threshold: a score so little above it wants a person's eye


def write_page(path: Path, judge: JudgeFacts, rows: Sequence[Row]) -> Path:
    """Write the page of judged images.

    Args:
        judge: its page of planted defects, if it has one, lies beside the page.
        rows: worst first; see `sparcal.station.judged_folder`.
    """
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ("fail", "pass", "error")}
    scores = [row["score"] for row in rows if row["score"] is not None and of_this_lot(row, judge)]
    values: dict[str, object] = {
        "title": in_html(judge.title),
        "fail": counts["fail"],
        "passed": counts["pass"],
        "error": counts["error"],
        "threshold": f"{judge.threshold:.4g}",
        "sentence": in_html(judge.sentence),
        "origin": in_html(judge.origin),
        "choice": in_html(judge.choice),
        "histogram": _histogram(scores, judge.threshold),
        "others": in_html(_others(judge, rows)),
        "close": in_html(close_calls(rows)),
        "would": _would_find(judge),
        "checks": _checks(judge),
        "note": f"The {SHOWN} worst of {len(rows)} are shown; scores.csv has all." if len(rows) > SHOWN else "",
        "cards": "".join(_card(row) for row in rows[:SHOWN]),
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    return write_inline_page(path, "judged_page.html", values)


def of_this_lot(row: Row, judge: JudgeFacts) -> bool:
    """Whether a row was judged by this lot at the threshold that it has now."""
    return (row["lot"], row["threshold"]) == (judge.name, judge.threshold)


def close_calls(rows: Sequence[Row]) -> str:
    """A sentence on the parts that fail by little; nothing where there are none."""
    little = [
        row for row in rows if row["verdict"] == "fail" and row["score"] - row["threshold"] <= CLOSE * row["threshold"]
    ]
    if not little:
        return ""
    which, them = ("1 part fails", "it") if len(little) == 1 else (f"{len(little)} parts fail", "them")
    return f"{which} by less than {CLOSE:.0%} of the threshold: look at {them}, good parts may be rejected too."


def _others(judge: JudgeFacts, rows: Sequence[Row]) -> str:
    """A sentence on the parts that other lots, or other thresholds, have judged."""
    counts = Counter((row["lot"], row["threshold"]) for row in rows if not of_this_lot(row, judge))
    if not counts:
        return ""
    by = [
        f"{count} by {'the own reference' if name is None else f'lot {name}'} at {limit:.4g}"
        for (name, limit), count in counts.items()
    ]
    return f"Judged before the lot or its threshold changed: {', '.join(by)}; they are not in the histogram."


def _would_find(judge: JudgeFacts) -> str:
    """What the lot finds of planted defects, as a section; nothing for a lot that was never tested."""
    tested, page = judge.self_test, judge.self_test_page
    if tested is None:
        return ""
    from sparcal.station.detection_chart import detection_chart

    said = "See every planted defect, found and missed"
    link = "" if page is None else f"<p><a href='{in_html(page.name)}'>{said}</a></p>"
    return (
        f"<section class='would'><div><h2>What it would find</h2>"
        f"<p class='soft'>{in_html(tested.sentence)}</p>{link}</div>{detection_chart(tested)}</section>"
    )


def _card(row: Row) -> str:
    name = in_html(Path(row["path"]).name)
    if row["verdict"] == "error":
        return (
            f"<article class='error'><h2><b>NOT JUDGED</b> {name}</h2><p>{in_html(row['reason'] or '')}</p></article>"
        )
    pictures = "".join(f"<img alt='{what} of {name}' src='{uri}'>" for what, uri in _pictures(row))
    share = min(100.0, 50.0 * row["score"] / max(row["threshold"], 1e-12))
    return (
        f"<article class='{row['verdict']}'><div class='pictures'>{pictures}</div>"
        f"<h2><b>{row['verdict'].upper()}</b> {name}</h2>"
        f"<svg class='bar' viewBox='0 0 100 4' preserveAspectRatio='none' role='img' "
        f"aria-label='score {row['score']:.4g}, threshold {row['threshold']:.4g}'>"
        f"<rect class='fill' width='{max(share, 0):.1f}' height='4'/><rect class='limit' x='49.6' width='.8' height='4'/>"
        f"</svg><p>score {row['score']:.4g}, {row['score'] / max(row['threshold'], 1e-12):.0%} of the threshold</p></article>"
    )


def _pictures(row: Row) -> Iterator[tuple[str, str]]:
    sources = [("photograph", row["path"]), *([("heat map", row["overlay"])] if row["overlay"] else [])]
    for what, path in sources:
        try:
            yield what, _thumbnail(Path(path))
        except DataError:  # the image has gone since it was judged; the numbers stand without it
            continue


def _thumbnail(path: Path) -> str:
    image = open_image(path)
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    return jpeg_uri(image)


def _checks(judge: JudgeFacts) -> str:
    """The checks of the calibration, folded away unless one says stop; nothing where there are none."""
    if not judge.checks:
        return ""
    lines = "".join(
        f"<li class='{check.verdict}'><b>{check.verdict}</b> <span>{in_html(check_title(check.name))}</span> "
        f"{in_html(check.sentence)}</li>"
        for check in judge.checks
    )
    counts = Counter(check.verdict for check in judge.checks)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("stop", "look", "ok") if counts[verdict])
    return (
        f"<details{' open' if counts['stop'] else ''}><summary>Checks of this calibration: {told}</summary>"
        f"<ul class='checks'>{lines}</ul></details>"
    )


def _histogram(scores: Sequence[float], limit: float) -> str:
    """How many parts have which score, as SVG, with the threshold between two bars: no bar holds passes and fails."""
    if not scores:
        return ""
    width = (max(*scores, limit) - min(*scores, limit)) / BARS or 1.0
    counts = Counter(math.ceil((score - limit) / width) for score in scores)  # 1 is the first bar above the threshold
    first = min(*counts, 1)
    last = max(*counts, first + BARS - 1)
    step, most = WIDTH / (last - first + 1), max(counts.values())
    bars = "".join(
        f"<rect class='{'fail' if bar > 0 else 'pass'}' x='{(bar - first) * step + 1:.1f}' width='{step - 2:.1f}' "
        f"y='{HEIGHT - HEIGHT * count / most:.1f}' height='{HEIGHT * count / most:.1f}'/>"
        for bar, count in sorted(counts.items())
    )
    low, high, at = limit + (first - 1) * width, limit + last * width, (1 - first) * step
    side = "end" if at > WIDTH / 2 else "start"
    return (
        f"<svg class='histogram' viewBox='0 -4 {WIDTH} {HEIGHT + 26}' role='img' aria-label='{len(scores)} scores'>{bars}"
        f"<line x1='{at:.1f}' x2='{at:.1f}' y1='-4' y2='{HEIGHT}'/><line class='axis' x2='{WIDTH}' y1='{HEIGHT}' "
        f"y2='{HEIGHT}'/><text x='{at + (-6 if side == 'end' else 6):.1f}' y='10' text-anchor='{side}'>threshold</text>"
        f"<text y='{HEIGHT + 18}'>{low:.4g}</text>"
        f"<text x='{WIDTH / 2:.0f}' y='{HEIGHT + 18}' text-anchor='middle'>score: higher is more anomalous</text>"
        f"<text x='{WIDTH}' y='{HEIGHT + 18}' text-anchor='end'>{high:.4g}</text></svg>"
    )
