"""anomalib's models calibrated to relit photographs: what the plug-in finds and rejects, with everything by default.

    python -m speed.studies.plugin --photographs DIR [--models Padim Patchcore] [--lots "one lamp" lamps] [--seeds 0 1] [--json FILE]

DIR holds `bottle` in MVTec's layout. Padim and Patchcore, on EfficientNet-Lite0 at 256 pixels, are trained by anomalib's
engine on 80 bottles as they are. Each lot is relit, see `speed.studies.lots`: the model is calibrated on 8 of its good
parts, and anomalib's engine judges parts that nothing has seen; 8 parts may miss one of four lamps, as on a line. Patchcore keeps 2 % of its cells: with anomalib's 10 %,
choosing them takes most of an hour. Needs sparcal[anomalib]. Rows are in the file as they are measured, and a second call goes on
from there.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from PIL import Image as Photograph

from speed.studies.lots import CONDITIONS, Case, Drawn, bottle_cases, draw
from speed.studies.relight import Image

MODELS: dict[str, dict[str, Any]] = {"Padim": {"n_features": 100}, "Patchcore": {"coreset_sampling_ratio": 0.02}}
BACKBONE = "tf_efficientnet_lite0"
LAYERS = ["blocks.2", "blocks.4"]  # cells of 8 and 16 pixels, as the station's hosts read this encoder
SIZE = (256, 256)
SHOWN = 8
FIRST_GOOD, FIRST_BAD = 12, 30  # of each lot, in the order drawn: what one would try by hand
NO_SPLIT = {"test_split_mode": "none", "val_split_mode": "none", "num_workers": 0}
QUIET = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}


class Judge(Protocol):
    """A trained model that can be calibrated to a lot."""

    def judge(self, lot: Drawn) -> dict[str, Any]:
        """What was calibrated, and for each good and bad part whether it is rejected."""


class TrainedModel:
    """One of anomalib's models, trained by its engine on images that it finds in a folder."""

    def __init__(self, name: str, folder: Path, images: Sequence[Image]) -> None:
        import anomalib.models
        from anomalib.data import Folder
        from anomalib.engine import Engine
        from anomalib.pre_processing import PreProcessor
        from lightning import seed_everything
        from torchvision.transforms.v2 import Compose, Normalize, Resize

        from sparcal import load_encoder
        from sparcal.integrations.anomalib import LotCalibrator

        seed_everything(0, verbose=False)  # Padim draws channels, Patchcore its coreset
        prepared = PreProcessor(Compose([Resize(SIZE, antialias=True), Normalize([0.5] * 3, [0.5] * 3)]))
        settings = {"pre_trained": False, "pre_processor": prepared, "visualizer": False, **MODELS[name]}
        self.folder = folder
        self.model = getattr(anomalib.models, name)(backbone=BACKBONE, layers=LAYERS, **settings)
        bundled: Any = load_encoder("bundled")
        network = self.model.model.feature_extractor.feature_extractor
        assert not network.load_state_dict(bundled.model.state_dict(), strict=False).missing_keys
        self.calibrator = LotCalibrator(self.model)
        callbacks = [self.calibrator.collector()]
        self.engine = Engine(
            default_root_dir=folder, accelerator="cpu", callbacks=callbacks, limit_val_batches=0, **QUIET
        )
        write(folder / "train", images)
        self.engine.fit(self.model, datamodule=Folder(name="bottles", root=folder, normal_dir="train", **NO_SPLIT))

    def judge(self, lot: Drawn) -> dict[str, Any]:
        report = self.calibrator.calibrate(write(self.folder / "normals", lot.normals))
        told = {"correction": report.correction, "verdict": report.verdict, "threshold": report.thresholds.image.value}
        return told | {"good": self._rejected(lot.good), "bad": self._rejected(lot.bad)}

    def _rejected(self, parts: Sequence[Image]) -> list[bool]:
        batches = self.engine.predict(self.model, data_path=write(self.folder / "parts", parts))
        labels = {
            path: bool(label) for one in batches for path, label in zip(one.image_path, one.pred_label, strict=True)
        }
        return [labels[path] for path in sorted(labels)]


def write(folder: Path, images: Sequence[Image]) -> Path:
    """A folder with these images, in their order, and no others."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for number, image in enumerate(images):
        Photograph.fromarray(image).save(folder / f"{number:03}.png")
    return folder


def measure(
    model: str,
    lots: Sequence[tuple[int, Case]],
    known: Sequence[dict[str, Any]],
    train: Callable[[str, Path, Sequence[Image]], Judge] = TrainedModel,
) -> Iterator[dict[str, Any]]:
    """One row for each lot, by its seed, that is not among `known`; the model is trained once for all."""
    done = {(row["model"], row["lot"], row["seed"]) for row in known}
    left = [(seed, case) for seed, case in lots if (model, case.condition, seed) not in done]
    if not left:
        return
    with tempfile.TemporaryDirectory(prefix="sparcal-plugin-") as folder:
        trained = train(model, Path(folder), left[0][1].train)
        for seed, case in left:
            lot = draw(case, SHOWN, seed)
            yield {"model": model, "lot": case.condition, "seed": seed, "shown": lot.shown} | trained.judge(lot)
            case.forget()


def table(rows: Sequence[dict[str, Any]]) -> str:
    """All rows in Markdown, and the sum of each model."""
    lines = [
        f"| model | lot | seed | taken | found of the first {FIRST_BAD} | good rejected of the first {FIRST_GOOD} | found of all | "
        "good rejected, lamp shown | good rejected, lamp not shown |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
        lines += [f"| {model} | {row['lot']} | {row['seed']} | {row['correction']} | {_counts([row])} |" for row in own]
        lines.append(f"| **{model}** | all {len(own)} | | | {_counts(own)} |")
    return "\n".join(lines)


def _counts(rows: Sequence[dict[str, Any]]) -> str:
    groups = [[row["bad"][:FIRST_BAD] for row in rows], [row["good"][:FIRST_GOOD] for row in rows]]
    groups.append([row["bad"] for row in rows])
    groups += [
        [[one for one, seen in zip(row["good"], row["shown"], strict=True) if seen is lamp] for row in rows]
        for lamp in (True, False)
    ]
    return " | ".join(f"{sum(map(sum, group))} of {sum(map(len, group))}" for group in groups)


def keep_quiet() -> None:
    """No bars and no notes of anomalib and Lightning: a coreset alone prints thousands of lines."""
    os.environ["TQDM_DISABLE"] = "1"  # before tqdm is imported
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, required=True, help="folder that holds bottle/ in MVTec's layout")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--lots", nargs="+", default=["one lamp", "lamps"], choices=CONDITIONS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1], help="draws of each lot")
    parser.add_argument("--json", type=Path, help="file for the rows; a second call goes on from it")
    asked = parser.parse_args()
    keep_quiet()
    lots = [
        (seed, case)
        for seed in asked.seeds
        for case in bottle_cases(asked.photographs / "bottle", seed)
        if case.condition in asked.lots
    ]
    rows = json.loads(asked.json.read_text()) if asked.json and asked.json.exists() else []
    for model in asked.models:
        for row in measure(model, lots, rows):
            rows.append(row)
            if asked.json:
                asked.json.write_text(json.dumps(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
