"""The self-test of a lot: how many planted defects its thresholds find, by kind and by size.

Every defect lies on a verified good part and is judged by what was rebuilt without that part, so the answer is about
parts that the lot has not seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sparcal.calibration.chance_of_finding import ChanceOfFinding
from sparcal.calibration.detection_curve import DetectionCurve, detection_curve

if TYPE_CHECKING:
    from sparcal.calibration.held_out import HeldOut
    from sparcal.calibration.planted_parts import PlantedParts

STEPS = 5  # sizes in the table, evenly spaced on a logarithmic scale
WORSE = 0.01  # chance below which a smaller share of found defects is no accident


@dataclass(frozen=True)
class TestedDefect:
    """One planted defect and what became of it.

    Args:
        part: number of the good part it was planted on.
        size, contrast, seed: as it was drawn; see `planted.PlantedDefect`.
        pixels: its largest extent.
        found: the part's image score exceeds the threshold; `marked`: so does its map on the defect itself.
    """

    kind: str
    part: int
    size: float
    contrast: float
    seed: int
    plain: bool
    pixels: float
    score: float
    found: bool
    marked: bool


@dataclass(frozen=True)
class SelfTest:
    """What a lot finds of planted defects; `planted`, `found`, `marked`, `before` and `by_kind` count the plain ones.

    Args:
        marked: defects on which the map exceeds the pixel threshold.
        before: found by the station's own reference, at the threshold that this lot's good parts would need there.
        by_kind: (found, planted) of each kind.
        by_size: rows `from`, `to` (pixels), `planted`, `found`, the faint ones included.
        faint: (found, planted) of the faint ones.
        curve: chance of being found over size, the faint ones included.
    """

    planted: int
    found: int
    marked: int
    before: int | None
    by_kind: dict[str, tuple[int, int]]
    by_size: tuple[dict[str, float], ...]
    faint: tuple[int, int]
    curve: DetectionCurve
    sentence: str
    seed: int
    defects: tuple[TestedDefect, ...]

    @property
    def a90(self) -> float | None:
        """The size from which nine in ten defects are found, in pixels; None where no such size was planted."""
        return self.curve.a90

    def chance_at(self, pixels: float, contrast: float | None = None) -> float:
        """The chance that a defect like this is found.

        Args:
            pixels: largest extent of the defects that matter to you, in the camera's pixels.
            contrast: by how many grey levels they differ from a good part, on average over their pixels. Without it, the
                curve's chance for the size, or the share of all planted ones where there is no curve.
        """
        found = [one.found for one in self.defects]
        if contrast is not None:
            sizes, contrasts = [one.pixels for one in self.defects], [one.contrast for one in self.defects]
            return ChanceOfFinding(sizes, contrasts, found).at(pixels, contrast)
        on_curve = self.curve.at(pixels)
        return float(np.mean(found)) if on_curve is None else on_curve

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` gives the same test back."""
        return {**asdict(self), "a90": self.a90}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SelfTest:
        """The test that `to_json` wrote."""
        known = {name: data[name] for name in ("planted", "found", "marked", "before", "sentence", "seed")}
        return cls(
            **known,
            by_kind={kind: (one[0], one[1]) for kind, one in data["by_kind"].items()},
            by_size=tuple(data["by_size"]),
            faint=(data["faint"][0], data["faint"][1]),
            curve=DetectionCurve.from_json(data["curve"]),
            defects=tuple(TestedDefect(**one) for one in data["defects"]),
        )


def self_test(
    parts: PlantedParts,
    held_out: HeldOut,
    *,
    thresholds: tuple[float, float],
    floor: float,
    seed: int,
    before: int | None = None,
) -> SelfTest:
    """Judge planted defects by a lot's thresholds.

    Args:
        thresholds: for image scores and for maps.
        floor: the share of good parts that the image threshold rejects.
        before: how many plain ones the station's own reference would find.
    """
    assert held_out.planted is not None
    scores = held_out.planted
    judged = zip(parts.defects, parts.part, parts.pixels, scores.image.tolist(), scores.peak.tolist(), strict=True)
    defects = tuple(
        TestedDefect(
            **asdict(one),
            part=part,
            pixels=pixels,
            score=score,
            found=score > thresholds[0],
            marked=peak > thresholds[1],
        )
        for one, part, pixels, score, peak in judged
    )
    return _counted(defects, floor=floor, seed=seed, before=before)


def at_threshold(tested: SelfTest, threshold: float, *, floor: float) -> SelfTest:
    """The same planted defects at another image threshold; the maps have their own, and stay as they are.

    Args:
        floor: the share of good parts that the threshold rejects.
    """
    defects = tuple(replace(one, found=one.score > threshold) for one in tested.defects)
    return _counted(defects, floor=floor, seed=tested.seed, before=None)  # which was counted beside the calibrated one


def _counted(defects: tuple[TestedDefect, ...], *, floor: float, seed: int, before: int | None) -> SelfTest:
    plain, faint = [one for one in defects if one.plain], [one for one in defects if not one.plain]
    found = sum(one.found for one in plain)
    kinds, hits = Counter(one.kind for one in plain), Counter(one.kind for one in plain if one.found)
    curve = detection_curve([one.pixels for one in defects], [one.found for one in defects], floor=floor)
    return SelfTest(
        planted=len(plain),
        found=found,
        marked=sum(one.marked for one in plain),
        before=before,
        by_kind={kind: (hits[kind], count) for kind, count in sorted(kinds.items())},
        by_size=_by_size(defects),
        faint=(sum(one.found for one in faint), len(faint)),
        curve=curve,
        sentence=_sentence(found, len(plain), before, faint, curve),
        seed=seed,
        defects=defects,
    )


def count_found(parts: PlantedParts, held_out: HeldOut, threshold: float) -> int:
    """How many plain defects score above a threshold."""
    assert held_out.planted is not None
    return sum(
        one.plain and score > threshold
        for one, score in zip(parts.defects, held_out.planted.image.tolist(), strict=True)
    )


def chance_of_fewer(found: int, planted: int, earlier_found: int, earlier_planted: int) -> float:
    """The chance of so small a share now if nothing has changed since (Fisher's exact test, one-sided)."""
    from scipy.stats import fisher_exact

    table = np.array([[found, planted - found], [earlier_found, earlier_planted - earlier_found]])
    return float(fisher_exact(table, alternative="less").pvalue)


def _by_size(defects: Sequence[TestedDefect]) -> tuple[dict[str, float], ...]:
    pixels = np.array([one.pixels for one in defects])
    edges = np.geomspace(pixels.min(), pixels.max() * 1.0001, STEPS + 1)
    rows = []
    for low, high in pairwise(edges):
        inside = [one for one in defects if low <= one.pixels < high]
        if inside:
            rows.append(
                {
                    "from": float(low),
                    "to": float(high),
                    "planted": len(inside),
                    "found": sum(one.found for one in inside),
                }
            )
    return tuple(rows)


def _sentence(
    found: int, planted: int, before: int | None, faint: Sequence[TestedDefect], curve: DetectionCurve
) -> str:
    earlier = (
        "" if before is None else f"; the station's own reference would find {before} at a threshold moved to this lot"
    )
    hard = f" Of {len(faint)} faint ones {sum(one.found for one in faint)} are found." if faint else ""
    return f"{found} of {planted} planted defects are found{earlier}.{hard} {curve.sentence}"
