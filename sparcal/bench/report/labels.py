"""What a table or figure says about its run, taken from the run: calibration size, draws, encoders.

Captions, titles and labels of an experiment file may hold `{k}`, `{draws}`, `{seed}` and `{encoder}`. They are filled
from the units whose rows exist, or, before there are any, from the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sparcal.bench.plan.unit import Unit
from sparcal.encoders import parse_spec

# The encoders of the paper as its tables name them; any other goes by its own name.
ENCODER_TITLES = {
    "wide_resnet50_2.tv_in1k": "WRN-50",
    "vit_small_patch14_dinov2.lvd142m": "DINOv2-S/14",
    "vit_giant_patch14_reg4_dinov2.lvd142m": "DINOv2-G",
    "ViT-B-16-quickgelu/openai": "CLIP-B/16",
    "ViT-L-14-336/openai": "CLIP-L/14",
    "ViT-L-14-336-quickgelu/openai": "CLIP-L/14",
}
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def encoder_title(text: str) -> str:
    """The name of an encoder in tables."""
    spec = parse_spec(text)
    return ENCODER_TITLES.get(spec.model, spec.model or spec.source)


def encoder_titles(units: Iterable[Unit]) -> str:
    """The names of the encoders that these units use."""
    return _list(dict.fromkeys(encoder_title(unit.encoder) for unit in units))


def fill_words(text: str, units: Sequence[Unit]) -> str:
    """`text` with the words in braces replaced by what `units` say."""
    words: dict[str, Callable[[], str]] = {
        "{k}": lambda: _list(str(k) for k in sorted({unit.k for unit in units})),
        "{draws}": lambda: _draws(len({unit.seed for unit in units})),
        "{seed}": lambda: _list(str(seed) for seed in sorted({unit.seed for unit in units})),
        "{encoder}": lambda: encoder_titles(units),
    }
    for word, value in words.items():
        if word in text:
            text = text.replace(word, value())
    return text


def _draws(count: int) -> str:
    number = _COUNTS[count] if count < len(_COUNTS) else str(count)
    return f"{number} draw{'' if count == 1 else 's'}"


def _list(names: Iterable[str]) -> str:
    *first, last = [*names] or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last
