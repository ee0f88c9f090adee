"""The unit of work: one paired comparison, base and corrected, that becomes one row of results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property

from sparcal.bench.plan.protocol import protocol_of
from sparcal.bench.plan.variant import DetectorSettings, SettingValue, Variant
from sparcal.errors import DataError

BATCHNORM = "batchnorm"  # not a correction of features: it adapts the encoder


@dataclass(frozen=True)
class Unit:
    """Everything that decides one row; paths to data, cache and results are not part of it.

    Args:
        host: one of `sparcal.bench.plan.contenders`.
        correction: a name from `sparcal.corrections`, or "batchnorm".
        variant: see `sparcal.bench.plan.variant`.
        encoder: the encoder's text, resolved; see `sparcal.encoders.spec`.
        weights: a weight file or "random:SEED"; empty for the usual places.
        prompts: AnomalyCLIP's prompt file; empty for other hosts.
        settings: fields of the detector that the experiment changes, by name.
        picture: whether the maps of the category's example image are kept for a figure.
    """

    dataset: str
    category: str
    host: str
    correction: str
    k: int
    seed: int
    variant: str = ""
    encoder: str = ""
    weights: str = ""
    prompts: str = ""
    settings: DetectorSettings = ()
    picture: bool = False

    @cached_property
    def hash(self) -> str:
        """24 hexadecimal digits that name this unit, its file and its row.

        Units that do the same work have one hash, whatever their variant is called; pictures come beside the row.
        """
        variant = Variant.parse(self.variant).canonical(self.k)
        changes = {**asdict(variant), "source_weight": variant.source_weight or 0}
        del changes["settings"]  # they are among the unit's own
        work = {**self.to_json(), "variant": changes, "picture": None}
        text = json.dumps({"protocol": protocol_of(variant), **work}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @cached_property
    def setting(self) -> str:
        """The part of the variant that also changes the uncorrected score."""
        return Variant.parse(self.variant).setting

    @property
    def feature_group(self) -> tuple[str, str, str, str]:
        """Units of one group need the same features: run together, they load them once."""
        return (self.dataset, self.category, self.encoder, self.weights)

    def __str__(self) -> str:
        words = (self.dataset, self.category, self.host, self.correction, self.variant, f"k={self.k}")
        return " ".join([*(word for word in words if word), f"seed={self.seed}"])

    def to_json(self) -> dict[str, object]:
        """Plain values; `from_json` gives the same unit back."""
        return {**asdict(self), "settings": dict(self.settings)}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Unit:
        """The unit that `to_json` wrote."""
        settings = data.get("settings")
        known = {f.name for f in fields(cls)}
        if not isinstance(settings, Mapping) or not set(data) <= known:
            raise DataError(f"A unit is written with the fields {', '.join(sorted(known))}, got {', '.join(data)}.")
        return cls(**{**data, "settings": hashable_settings(settings)})  # type: ignore[arg-type]


def hashable_settings(settings: Mapping[str, object]) -> DetectorSettings:
    """Settings as TOML or JSON give them, in the order of their names and with tuples for lists."""
    return tuple((name, _hashable(value)) for name, value in sorted(settings.items()))


def _hashable(value: object) -> SettingValue:
    return tuple(value) if isinstance(value, list) else value  # type: ignore[return-value]
