"""Hits, misses and the detection curve over the size of planted defects, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sparcal.calibration.self_test import SelfTest, TestedDefect

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 40, 66  # room for labels, and for the dots above and below the curve
TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
ROWS = 3  # of dots, so that equal sizes do not hide each other


class _Scales:
    """Where a size and a share lie in the picture."""

    def __init__(self, sizes: Sequence[float]) -> None:
        self.low, self.high = math.log(min(sizes) * 0.93), math.log(max(sizes) * 1.07)

    def x(self, size: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(size) - self.low) / (self.high - self.low)

    @staticmethod
    def y(share: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def detection_chart(tested: SelfTest) -> str:
    """The chart: shares found in steps of size, the fitted curve where there is one, and a dot for each defect."""
    scales = _Scales([one.pixels for one in tested.defects])
    label = f"{tested.found} of {tested.planted} planted defects found, over their size in pixels"
    return (
        f"<svg class='chart' viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{label}'>"
        f"{_frame(scales)}{_bars(tested, scales)}{_curve(tested, scales)}{_reach(tested, scales)}"
        f"{_dots(tested.defects, scales)}</svg>"
    )


def _frame(scales: _Scales) -> str:
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = scales.y(share)
        kind = "axis" if share == 0 else "grid"
        lines.append(f"<line class='{kind}' x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y:.1f}' y2='{y:.1f}'/>")
        lines.append(f"<text x='{LEFT - 8}' y='{y + 4:.1f}' text-anchor='end'>{share:.0%}</text>")
    ticks = [tick for tick in TICKS if scales.low <= math.log(tick) <= scales.high]
    for tick in ticks:
        unit = " px" if tick == ticks[-1] else ""
        lines.append(f"<text x='{scales.x(tick):.1f}' y='{HEIGHT - 4}' text-anchor='middle'>{tick}{unit}</text>")
    return "".join(lines)


def _bars(tested: SelfTest, scales: _Scales) -> str:
    bars = []
    for row in tested.by_size:
        left, right, y = scales.x(row["from"]), scales.x(row["to"]), scales.y(row["found"] / row["planted"])
        bars.append(
            f"<rect class='step' x='{left + 1:.1f}' width='{right - left - 2:.1f}' y='{y:.1f}' "
            f"height='{scales.y(0) - y:.1f}'><title>{row['from']:.0f} to {row['to']:.0f} pixels: {row['found']:.0f} of "
            f"{row['planted']:.0f} found</title></rect>"
        )
    return "".join(bars)


def _curve(tested: SelfTest, scales: _Scales) -> str:
    curve = tested.curve
    if not curve.sizes:
        return ""
    points = (f"{scales.x(a):.1f},{scales.y(p):.1f}" for a, p in zip(curve.sizes, curve.chances, strict=True))
    return f"<polyline class='curve' points='{' '.join(points)}'/>"


def _reach(tested: SelfTest, scales: _Scales) -> str:
    """The size from which nine in ten are found."""
    if tested.a90 is None:
        return ""
    x, y = scales.x(tested.a90), scales.y(0.9)
    side, step = ("end", -7) if x > 0.68 * WIDTH else ("start", 7)
    return (
        f"<line class='reach' x1='{x:.1f}' x2='{x:.1f}' y1='{y:.1f}' y2='{scales.y(0):.1f}'/>"
        f"<text class='reached' x='{x + step:.1f}' y='{scales.y(0.12):.1f}' text-anchor='{side}'>"
        f"90 % from {tested.a90:.0f} px</text>"
    )


def _dots(defects: Sequence[TestedDefect], scales: _Scales) -> str:
    """Hits above the curve, misses below it; hollow for faint defects."""
    dots = []
    for number, one in enumerate(sorted(defects, key=lambda one: one.pixels)):
        row = number % ROWS
        y = TOP - 10 - 9 * row if one.found else HEIGHT - BOTTOM + 12 + 9 * row
        kind = f"{'found' if one.found else 'missed'}{'' if one.plain else ' faint'}"
        said = f"{one.kind}, {one.pixels:.0f} pixels, {'plain' if one.plain else 'faint'}"
        dots.append(
            f"<circle class='{kind}' cx='{scales.x(one.pixels):.1f}' cy='{y}' r='3.4'><title>{said}</title></circle>"
        )
    return "".join(dots)
