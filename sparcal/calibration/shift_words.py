"""How parts after a change differ from those before it, in words that stand for something measured."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from sparcal.calibration.sight import NOTICEABLE, TILTS
from sparcal.imaging.appearance import FIELDS, PICTURE_EDGE

# Less than this is not mentioned: nobody would see it. Logarithms, but for pixels of the small picture.
WORTH_A_WORD = {
    **dict(zip(FIELDS, NOTICEABLE, strict=True)),
    "contrast": 0.08,
    TILTS[0]: 0.05,
    TILTS[1]: 0.05,
    "right": 0.4,
    "down": 0.4,
}
CLEARLY = 3.0  # times the spread of earlier parts
MOST_WORDS = 3
_WORDS = {
    "brightness": ("darker", "brighter"),
    "warmth": ("cooler", "warmer"),
    "tint": ("more magenta", "greener"),
    "sharpness": ("blurrier", "grainier"),
    "contrast": ("lower in contrast", "higher in contrast"),
    TILTS[0]: ("lit more from the left", "lit more from the right"),
    TILTS[1]: ("lit more from above", "lit more from below"),
}
_SHARES = ("brightness", "contrast")


def words_for(
    before: Collection[Mapping[str, float]], after: Collection[Mapping[str, float]], native: tuple[int, int]
) -> tuple[str, ...]:
    """What changed, the clearest first; empty where nothing that has a name did.

    Args:
        before, after: the middle of each signal, for every part.
        native: (H, W) of the images, so that a displacement is told in their pixels.
    """
    change = {name: _change(name, before, after) for name in WORTH_A_WORD}
    clarity = {name: abs(change[name]) / WORTH_A_WORD[name] for name in WORTH_A_WORD if change[name]}
    moved = (change["right"] * native[1] / PICTURE_EDGE, change["down"] * native[0] / PICTURE_EDGE)
    found: list[tuple[float, str]] = []
    if any(moved):
        found.append((max(clarity.get("right", 0.0), clarity.get("down", 0.0)), _moved(*moved)))
    found += [(clarity[name], _word(name, change[name])) for name in _WORDS if name in clarity]
    return tuple(word for _, word in sorted(found, key=lambda one: -one[0])[:MOST_WORDS])


def whole_image(words: Sequence[str]) -> str:
    """One clause about the whole image."""
    if not words:
        return "all of the image is different, not one place of it; light, colour, sharpness and position are as before"
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    return f"the whole image is {listed}, not a local defect"


def _change(name: str, before: Collection[Mapping[str, float]], after: Collection[Mapping[str, float]]) -> float:
    """The difference of the medians; 0 where it could be chance, or could not be seen."""
    if not before or not after:
        return 0.0
    earlier = np.array([one[name] for one in before])
    middle = float(np.median(earlier))
    spread = 1.4826 * float(np.median(np.abs(earlier - middle)))
    change = float(np.median([one[name] for one in after])) - middle
    return change if abs(change) > max(WORTH_A_WORD[name], CLEARLY * spread / math.sqrt(len(after))) else 0.0


def _word(name: str, change: float) -> str:
    word = _WORDS[name][change > 0]
    return f"{word} ({math.expm1(change):+.0%})" if name in _SHARES else word


def _moved(right: float, down: float) -> str:
    parts = []
    for amount, names in ((right, ("left", "right")), (down, ("up", "down"))):
        if amount:
            parts.append(
                f"{max(1, round(abs(amount)))} pixels {'to the ' if names[0] == 'left' else ''}{names[amount > 0]}"
            )
    return f"moved by about {' and '.join(parts)}"
