"""The page that `sparcal demo` writes: one self-contained file, worth showing, with nothing chosen by its result."""

from __future__ import annotations

import base64
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sparcal import __version__
from sparcal.bench.demo.comparison import BASE, Demonstration, DemoRow, Shown, summarise
from sparcal.files.atomic import atomic_path, remove_left_behind
from sparcal.hosts import HOSTS
from sparcal.imaging.overlay import overlay
from sparcal.rendering.parts import Part

Rgb = NDArray[np.uint8]

CORRECTION_TITLES = {
    BASE: "Base, no calibration",
    "normals": "Normals added to the reference",
    "mean-only": "Mean only",
    "global-subspace": "Global subspace",
    "sparc": "SPARC",
    "sparc-recentred": "SPARC, recentred",
}
SHOWN_CORRECTIONS = (BASE, "sparc", "sparc-recentred")
SHIFTS = {
    "lights": "a handful of fixed lamps and exposures",
    "random": "lamps at random places, no two alike",
    "moved": "the training lamp but a moved camera",
    "lights+moved": "a handful of fixed lamps and a moved camera",
    "none": "the training lamp: nothing changed",
}


def write_demo_page(result: Demonstration, contrast: Demonstration, out: Path, *, command: str) -> Path:
    """Write `index.html` and `before_after.jpg` into `out`; returns the page's path."""
    low, high = colour_scale(result.shown)
    table = summarise([row for row in result.rows if row["k"] == max(result.plan.ks)])
    page = Template(files("sparcal.bench.demo").joinpath("page.html").read_text(encoding="utf-8")).substitute(
        headline=_headline(table),
        train=result.plan.train,
        k=max(result.plan.ks),
        seeds=result.plan.seeds,
        numbers="".join(_number(table, host) for host in result.plan.hosts),
        strip=_strip(result),
        host=HOSTS[result.plan.hosts[0]].title,
        columns=1 + len(SHOWN_CORRECTIONS),
        grid=_grid(result.shown, low, high),
        plot="".join(_plot(result, host) for host in result.plan.hosts),
        table=_table(summarise(result.rows)),
        contrast_text=_contrast_text(result, contrast),
        contrast_table=_table(summarise(contrast.rows)),
        command=escape(command),
        version=__version__,
    )
    remove_left_behind(out)
    with atomic_path(out / "before_after.jpg") as temporary:
        temporary.write_bytes(_jpeg(before_after(result.shown, low, high, max(result.plan.ks))))
    with atomic_path(out / "index.html") as temporary:
        temporary.write_text(page, encoding="utf-8")
    return out / "index.html"


def colour_scale(shown: list[Shown]) -> tuple[float, float]:
    """One scale for all maps and corrections: the middle half of all pixels stays dark."""
    values = np.concatenate([part.maps[name].ravel() for part in shown for name in SHOWN_CORRECTIONS])
    return float(np.quantile(values, 0.5)), float(np.quantile(values, 0.998))


def before_after(shown: list[Shown], low: float, high: float, k: int) -> Rgb:
    """Parts in the first row, base below, recentred SPARC below that; one colour scale."""
    rows = [np.hstack([_outlined(part.part.image, part.part) for part in shown])]
    rows += [np.hstack([_heat(part, name, low, high) for part in shown]) for name in (BASE, "sparc-recentred")]
    labels = ("Lot", "Before", f"After, k = {k}")
    return np.vstack([np.hstack([_label(text, row.shape[0]), row]) for text, row in zip(labels, rows, strict=True)])


def _label(text: str, height: int) -> Rgb:
    """White text on dark, to be read from below, as tall as a row of pictures."""
    canvas = Image.new("RGB", (height, 44), (15, 19, 24))
    ImageDraw.Draw(canvas).text((height / 2, 22), text, (255, 255, 255), ImageFont.load_default(26), anchor="mm")
    return np.asarray(canvas.rotate(90, expand=True), np.uint8)


def _headline(table: list[DemoRow]) -> str:
    changes = [float(row["change of aupro_0.3"]) for row in table if row["correction"] == "sparc-recentred"]
    if min(changes, default=0.0) <= 0:
        return "A few good parts, one lot, and what each correction makes of them"
    return "A few good parts bring a shifted lot back into view"


def _number(table: list[DemoRow], host: str) -> str:
    rows = {str(row["correction"]): row for row in table if row["detector"] == HOSTS[host].detector}
    values = [f"{float(rows[name]['aupro_0.3']):.1f}" for name in SHOWN_CORRECTIONS if name in rows]
    names = " → ".join(
        CORRECTION_TITLES[name].split(",")[0] if name == BASE else CORRECTION_TITLES[name]
        for name in SHOWN_CORRECTIONS
        if name in rows
    )
    return f"<div class='number'><small>{HOSTS[host].title}, AU-PRO 0.3</small><b>{'<span> → </span>'.join(values)}</b><small>{names}</small></div>"


def _strip(result: Demonstration) -> str:
    figures = [("training", result.parts.train[0])]
    figures += list({part.light: (part.light, part) for part in reversed(result.parts.lot_good)}.values())[::-1][:5]
    return "".join(
        f"<figure><img alt='A good part under the {escape(light)} lamp' src='{_uri(part.image)}'>"
        f"<figcaption>{'trained on' if not i else 'lot, ' + escape(light.replace('-', ' '))}</figcaption></figure>"
        for i, (light, part) in enumerate(figures)
    )


def _grid(shown: list[Shown], low: float, high: float) -> str:
    cells = [
        f"<div class='head'>{title}</div>"
        for title in ("Part", *(CORRECTION_TITLES[name] for name in SHOWN_CORRECTIONS))
    ]
    for item in shown:
        what = item.part.defect or "good"
        cells.append(f"<figure><img alt='Part: {what}' src='{_uri(_outlined(item.part.image, item.part))}'></figure>")
        cells += [
            f"<figure><img alt='{CORRECTION_TITLES[name]}: {what}' src='{_uri(_heat(item, name, low, high))}'></figure>"
            for name in SHOWN_CORRECTIONS
        ]
    return "".join(cells)


def _heat(item: Shown, name: str, low: float, high: float) -> Rgb:
    return _outlined(overlay(item.part.image, item.maps[name], low=low, high=high, opacity=0.6), item.part)


def _outlined(image: Rgb, part: Part) -> Rgb:
    contours, _ = cv2.findContours(part.mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return np.asarray(cv2.drawContours(image.copy(), contours, -1, (255, 255, 255), 1), np.uint8)


def _jpeg(image: Rgb) -> bytes:
    done, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 88])
    assert done
    return data.tobytes()


def _uri(image: Rgb) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(_jpeg(image)).decode()}"


def _plot(result: Demonstration, host: str) -> str:
    """Seeds and means of AU-PRO 0.3, one line per correction."""
    detector, k = HOSTS[host].detector, max(result.plan.ks)
    values = {
        name: [
            float(r["aupro_0.3"])
            for r in result.rows
            if (r["detector"], r["correction"], r["k"]) == (detector, name, k)
        ]
        for name in result.plan.corrections
    }
    everything = [value for group in values.values() for value in group]
    low, high = 5 * np.floor(min(everything) / 5), min(100.0, 5 * np.ceil(max(everything) / 5))
    left, right, step = 250, 1040, 34

    def x(value: float) -> float:
        return float(left + (right - left) * (value - low) / max(1.0, high - low))

    height = 40 + step * len(values) + 28
    ticks = np.arange(low, high + 1, 5)
    parts = [f"<text x='0' y='16' font-weight='700'>{HOSTS[host].title}, k = {k}</text>"]
    for tick in ticks:
        parts.append(f"<line class='tick' x1='{x(tick):.1f}' x2='{x(tick):.1f}' y1='30' y2='{height - 26}'/>")
        parts.append(f"<text class='soft' x='{x(tick):.1f}' y='{height - 8}' text-anchor='middle'>{tick:.0f}</text>")
    base = float(np.mean(values[BASE]))
    parts.append(f"<line class='zero' x1='{x(base):.1f}' x2='{x(base):.1f}' y1='30' y2='{height - 26}'/>")
    for i, (name, group) in enumerate(values.items()):
        y = 52 + step * i
        parts.append(
            f"<g class='{'base' if name == BASE else 'other'}'><text x='0' y='{y + 5}'>{CORRECTION_TITLES[name]}</text>"
        )
        parts += [f"<circle class='dot' cx='{x(value):.1f}' cy='{y}' r='5'/>" for value in group]
        parts.append(f"<circle class='mean' cx='{x(float(np.mean(group))):.1f}' cy='{y}' r='8'/></g>")
    label = f"AU-PRO 0.3 of each correction with {HOSTS[host].title}"
    return f"<svg viewBox='0 0 1060 {height}' role='img' aria-label='{label}'>{''.join(parts)}</svg>"


def _table(rows: list[DemoRow]) -> str:
    head = "<tr><th>Correction</th><th>Image AUROC</th><th>AU-PRO 0.3</th><th>AU-PRO 0.05</th><th>Change of AU-PRO 0.3</th></tr>"
    body: list[str] = []
    groups: dict[tuple[str, int], list[DemoRow]] = {}
    for row in rows:
        groups.setdefault((str(row["detector"]), int(row["k"])), []).append(row)
    titles = {host.detector: host.title for host in HOSTS.values()}
    for (detector, k), group in groups.items():
        best = max(float(row["aupro_0.3"]) for row in group)
        body.append(f"<tr class='group'><td colspan='5'>{titles[detector]}, k = {k}</td></tr>")
        for row in group:
            change = float(row["change of aupro_0.3"])
            tone = "" if row["correction"] == BASE else f" class='{'up' if change > 0 else 'down'}'"
            change_text = "" if row["correction"] == BASE else f"{change:+.1f}".replace("-", "&minus;")
            values = "".join(f"<td>{float(row[name]):.1f}</td>" for name in ("image_auroc", "aupro_0.3", "aupro_0.05"))
            mark = " class='best'" if float(row["aupro_0.3"]) == best else ""
            body.append(
                f"<tr{mark}><td>{CORRECTION_TITLES[str(row['correction'])]}</td>{values}<td{tone}>{change_text}</td></tr>"
            )
    return f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>"


def _contrast_text(result: Demonstration, contrast: Demonstration) -> str:
    less = ", where calibration parts say less about the parts to come" if contrast.plan.shift == "random" else ""
    return (
        f"Above, the lot has {SHIFTS[result.plan.shift]}. Below, it has {SHIFTS[contrast.plan.shift]}{less}. "
        f"Means over {contrast.plan.seeds} seeds."
    )
