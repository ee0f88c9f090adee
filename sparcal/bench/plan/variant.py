"""How a unit departs from the main protocol, as a short text such as `rank=3` or `contaminated=2+scene-disjoint`.

The empty text is the main protocol. Words are joined by `+`:

    rank=R              SPARC removes R directions instead of k - 1
    on=SIDE             the correction is applied to both sides, the reference only, or the test side only
    source=WHERE        calibration normals come from the deployment lot (test normals) or from the train split
    contaminated=C      C of the k calibration normals are replaced by anomalous images of the category
    scene-disjoint      no capture of a scene that calibrates is evaluated
    full-normal         the correction sees every normal test image, evaluated ones too (a diagnostic, not deployable)
    calibration-only    batch-norm statistics from the calibration images alone
    source-mixed        batch-norm statistics mixed with the source's, which count for 16 images
    backbone=NAME       another encoder, by its name in the experiment file
    setting=FIELD:VALUE another value for a field of the detector, as in setting=mode:winclip_plus or
                        setting=neighbours:1,8,9; may come again
    geometry=HOW        centre-crop is the host's own geometry; full-frame keeps the whole image and pads it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, Self, get_args

from sparcal.errors import DataError
from sparcal.settings import in_short, instance_of, one_of, switch, text, whole_number
from sparcal.types import Side

Source = Literal["deployment", "train"]
Framing = Literal["centre-crop", "full-frame"]

SettingValue = str | int | float | bool | tuple[int | float, ...]
DetectorSettings = tuple[tuple[str, SettingValue], ...]  # fields of a detector, by name

SOURCE_MIXED_WEIGHT = 16


@dataclass(frozen=True)
class Variant:
    """One way to run a unit; the defaults are the main protocol."""

    rank: int | None = None
    on: Side | None = None
    source: Source = "deployment"
    contaminated: int = 0
    scene_disjoint: bool = False
    full_normal: bool = False
    source_weight: int | None = None
    backbone: str = ""
    geometry: Framing = "centre-crop"
    settings: DetectorSettings = ()

    def __post_init__(self) -> None:
        whole_number(self.rank, "Variant.rank", least=1, optional=True)
        one_of(self.on, "Variant.on", get_args(Side), optional=True)
        one_of(self.source, "Variant.source", get_args(Source))
        whole_number(self.contaminated, "Variant.contaminated", least=0)
        switch(self.scene_disjoint, "Variant.scene_disjoint")
        switch(self.full_normal, "Variant.full_normal")
        whole_number(self.source_weight, "Variant.source_weight", least=0, optional=True)
        text(self.backbone, "Variant.backbone")
        one_of(self.geometry, "Variant.geometry", get_args(Framing))
        instance_of(self.settings, "Variant.settings", tuple)
        if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in self.settings):
            raise DataError(
                f"Variant.settings must be pairs of a field and its value, got {in_short(self.settings)}: "
                "write them as setting=FIELD:VALUE."
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a variant from its text."""
        return cls(**_fields(text))

    def canonical(self, k: int) -> Self:
        """The same work in the fewest words: rank k - 1 and both sides are what happens anyway."""
        saturated = self.rank is not None and self.rank >= k - 1
        return replace(self, rank=None if saturated else self.rank, on=None if self.on == "both" else self.on)

    @property
    def setting(self) -> str:
        """The part that also changes the uncorrected score: equal settings of a host share one base."""
        words = [f"backbone={self.backbone}"] if self.backbone else []
        words += ["geometry=full-frame"] if self.geometry == "full-frame" else []
        words += [f"contaminated={self.contaminated}"] if self.contaminated else []
        words += ["scene-disjoint"] if self.scene_disjoint else []
        words += [f"setting={name}:{_setting_text(value)}" for name, value in self.settings]
        return "+".join(words)


@cache
def _fields(text: str) -> dict[str, Any]:
    """The fields that `text` sets; plans hold thousands of units and a handful of texts."""
    fields: dict[str, Any] = {}
    for word in text.split("+") if text else ():
        name, _, value = word.partition("=")
        if name not in _WORDS:
            raise DataError(f"unknown variant {word!r} in {text!r}; choose from {', '.join(_WORDS)}.")
        field, read = _WORDS[name]
        try:
            fields[field] = (*fields.get(field, ()), read(value)) if name == "setting" else read(value)
        except ValueError:
            raise DataError(
                f"The variant {name} takes {_expected(name)}, got {value!r} in {text!r}: write {_example(name)}."
            ) from None
    return fields


def _choice(*choices: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in choices:
            raise ValueError
        return value

    return read


def _whole(least: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        number = int(value)
        if number < least:
            raise ValueError
        return number

    return read


def _name(value: str) -> str:
    if not value:
        raise ValueError
    return value


def _setting(text: str) -> tuple[str, SettingValue]:
    """FIELD:VALUE, with numbers, true, false and lists of numbers taken as such."""
    name, colon, value = text.partition(":")
    if not name or not colon or not value:
        raise ValueError
    if "," in value:
        return name, tuple(_number(part) for part in value.split(","))
    if value in ("true", "false"):
        return name, value == "true"
    try:
        return name, _number(value)
    except ValueError:
        return name, value


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _setting_text(value: SettingValue) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flag(meaning: object) -> Callable[[str], object]:
    def read(value: str) -> object:
        if value:
            raise ValueError
        return meaning

    return read


_WORDS: dict[str, tuple[str, Callable[[str], object]]] = {
    "rank": ("rank", _whole(1)),
    "on": ("on", _choice(*get_args(Side))),
    "source": ("source", _choice(*get_args(Source))),
    "contaminated": ("contaminated", _whole(0)),
    "scene-disjoint": ("scene_disjoint", _flag(True)),
    "full-normal": ("full_normal", _flag(True)),
    "calibration-only": ("source_weight", _flag(0)),
    "source-mixed": ("source_weight", _flag(SOURCE_MIXED_WEIGHT)),
    "backbone": ("backbone", _name),
    "geometry": ("geometry", _choice(*get_args(Framing))),
    "setting": ("settings", _setting),
}
_CHOICES = {"on": get_args(Side), "source": get_args(Source), "geometry": get_args(Framing)}


def _expected(name: str) -> str:
    if name in _CHOICES:
        return " or ".join(_CHOICES[name])
    expected = {
        "rank": "a number from 1",
        "contaminated": "a number from 0",
        "backbone": "a name",
        "setting": "FIELD:VALUE",
    }
    return expected.get(name, "no value")


def _example(name: str) -> str:
    values = {"rank": "3", "contaminated": "2", "backbone": "wrn50", "setting": "mode:zero_shot"}
    value = _CHOICES[name][0] if name in _CHOICES else values.get(name)
    return f"{name}={value}" if value else name
