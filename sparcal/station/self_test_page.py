"""A page of planted defects, found and missed: what a lot would find, to be looked at before it judges a part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from sparcal.calibration.planted_crops import Crop
from sparcal.calibration.self_test import SelfTest, TestedDefect
from sparcal.station.detection_chart import detection_chart
from sparcal.station.inline_page import in_html, jpeg_uri, write_inline_page

QUALITY = 84  # of the cut-outs: faint defects must survive
HOW = (
    "Each defect was drawn on a part known to be good, and judged by what was calibrated without that part. Look at the "
    "missed ones: real defects as faint as these will pass too. A plain defect is one that a person would see at once; "
    "faint or tiny ones come on top, to show where finding ends."
)

_Shown = tuple[TestedDefect, Crop]


def write_self_test_page(path: Path, title: str, tested: SelfTest, crops: Sequence[Crop]) -> Path:
    """Write the page of a self-test.

    The same test gives the same bytes: the page has no date.

    Args:
        title: of the lot or the station.
        crops: one for each of the test's defects.
    """
    values: dict[str, object] = {
        "title": in_html(title),
        "found": tested.found,
        "planted": tested.planted,
        "counts": _counts(tested),
        "lead": HOW,
        "sentence": in_html(tested.curve.sentence),
        "chart": detection_chart(tested),
        "kinds": "".join(_kind(kind, *counts) for kind, counts in tested.by_kind.items()),
        "galleries": _galleries(list(zip(tested.defects, crops, strict=True))),
        "seed": tested.seed,
        "next": tested.seed + 1,
    }
    return write_inline_page(path, "self_test_page.html", values)


def _counts(tested: SelfTest) -> str:
    found, planted = tested.faint
    tiles = [("pass", f"{tested.found} <small>of {tested.planted}</small>", "plain defects found")]
    if tested.before is not None:
        tiles.append(("", f"{tested.before} <small>of {tested.planted}</small>", "by the station's own reference"))
    if planted:
        tiles.append(("", f"{found} <small>of {planted}</small>", "faint ones found"))
    if tested.a90 is not None:
        tiles.append(("", f"{tested.a90:.0f} <small>px</small>", "nine in ten found from"))
    return "".join(f"<div class='{kind}'><b>{number}</b>{what}</div>" for kind, number, what in tiles)


def _kind(kind: str, found: int, planted: int) -> str:
    return (
        f"<tr><th scope='row'>{in_html(kind)}</th><td class='share'><span class='track'><i style='width:"
        f"{found / planted:.0%}'></i></span></td><td>{found} of {planted}</td></tr>"
    )


def _galleries(shown: Sequence[_Shown]) -> str:
    """Missed ones first, and of these the ones that should have been seen most easily."""
    plain = [one for one in shown if one[0].plain and not one[0].found]
    faint = [one for one in shown if not one[0].plain and not one[0].found]
    found = [one for one in shown if one[0].found]
    groups = (
        ("Missed, though plain to see", sorted(plain, key=_size, reverse=True)),
        ("Missed, faint or tiny", sorted(faint, key=_size, reverse=True)),
        ("Found", sorted(found, key=_size)),
    )
    return "".join(
        f"<details open><summary><h2>{title} <small>{len(group)}</small></h2></summary>"
        f"<div class='gallery'>{''.join(map(_figure, group))}</div></details>"
        for title, group in groups
        if group
    )


def _size(one: _Shown) -> float:
    return one[0].pixels


def _figure(one: _Shown) -> str:
    defect, crop = one
    verdict, mark = ("found", "✓") if defect.found else ("missed", "✗")
    left, top, width, height = (f"{share:.1%}" for share in crop.box)
    scale = "" if crop.scale == 1 else f", shown at {crop.scale:.0%}"
    what = f"{'' if defect.plain else 'faint '}{defect.kind}"
    return (
        f"<figure class='{verdict}'><div class='crop'><img alt='{in_html(what)} on part {defect.part + 1}, {verdict}' "
        f"src='{jpeg_uri(Image.fromarray(crop.pixels), quality=QUALITY)}'>"
        f"<i style='left:{left};top:{top};width:{width};height:{height}'></i></div>"
        f"<figcaption><b>{mark} {in_html(what)}</b>{defect.pixels:.0f} px, {defect.contrast:.0f} grey levels<br>"
        f"part {defect.part + 1}{scale}</figcaption></figure>"
    )
