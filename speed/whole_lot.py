"""A whole lot: calibrate a PatchCore station of 200 images on 8 normals and score 100 images, against refitting anomalib's.

Both sides read the same rendered parts from PNG files and use the bundled EfficientNet-Lite0 with the same weights, one
thread each. Ours is the product: `Station.calibrate`, with its checks, out-of-fold threshold and files, and `Lot.score`.
anomalib has no lot calibration; what one does instead is refit its Patchcore: encode the training images, choose the
coreset, then score. Its coreset is timed for a part of its steps and the rest extrapolated, every step costing the same.

The other rows say who is busy while images are scored: the encoder's forward pass, as a share of `Lot.score`. Measured
for the bundled encoder and for the paper's WideResNet-50-2, whose weights are random here: a benchmark
should not download, and the cost of a forward pass does not depend on them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor

from sparcal import Features, load_host
from sparcal.detectors import PatchCore
from sparcal.rendering.parts import make_demo, write_png
from sparcal.station.station import Station
from sparcal.types import Encoder
from speed.measure import Cost, Goal, Row, Work, measure, timed

TIMED_STEPS = 20
TOLERANCE = 1e-3  # of a score: float32 distances by a product, against ours by differences
BATCH = 10
CELLS = 32 * 32
COMPARED = 500  # embeddings
LIGHT_SHARE, WIDE_SHARE = 80, 60  # percent of scoring that should be the encoder's, of a light one and of the paper's


@dataclass
class Watched:
    """An encoder that counts the CPU seconds of its forward passes."""

    encoder: Encoder
    seconds: float = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoder, name)

    def __call__(self, pixels: Tensor) -> Features:
        cost, features = timed(lambda: self.encoder(pixels))
        self.seconds += cost.cpu_s
        return features


def encoder_of(folder: str, wide: bool) -> Encoder:
    """The paper's, with the random weights in `folder`, or the bundled one."""
    if wide:
        return load_host("patchcore", weights=Path(folder) / "weights.safetensors")[0]
    return load_host("patchcore", encoder="bundled")[0]


def render(folder: Path, train: int, test: int) -> None:
    """Parts as PNG files."""
    parts = make_demo(0, train=train, good=8 + test // 2, bad=test - test // 2)
    groups = {"train": parts.train, "normals": parts.lot_good[:8], "test": (*parts.lot_good[8:], *parts.lot_bad)}
    for group, members in groups.items():
        (folder / group).mkdir()
        for number, part in enumerate(members):
            write_png(part.image, folder / group / f"{number:03}.png")


def fitted(folder: str, train: int, coreset: float, wide: bool) -> Work:
    """A station in `folder`."""
    images = sorted((Path(folder) / "train").iterdir())[:train]
    path, encoder, detector = Path(folder) / f"station{wide}", encoder_of(folder, wide), PatchCore(coreset=coreset)
    return Work(
        lambda: Station.fit(images, "patchcore", path=path, encoder=encoder, detector=detector, workers=2),
        lambda station: len(station.record.images),
    )


def ours(folder: str, test: int, wide: bool) -> Work:
    """Calibrate and score, from image files.

    The outcome is CPU and wall seconds in all, CPU seconds of the encoder among them; then CPU seconds of scoring, and of the
    encoder among these.
    """
    watched = Watched(encoder_of(folder, wide))
    station = Station.open(Path(folder) / f"station{wide}", encoder=watched)
    normals, images = (sorted((Path(folder) / group).iterdir()) for group in ("normals", "test"))

    def run() -> list[float]:
        calibrated, lot = timed(lambda: station.calibrate(normals, "lot", correction="sparc"))
        before = watched.seconds
        scored, judged = timed(lambda: lot.score(images[:test]))
        assert all(one.verdict != "error" for one in judged)
        whole = [calibrated.cpu_s + scored.cpu_s, calibrated.wall_s + scored.wall_s, watched.seconds]
        return [*whole, scored.cpu_s, watched.seconds - before]

    return Work(run)


def anomalib_model(encoder: Any) -> Any:
    """anomalib's Patchcore around the network that our encoder uses."""
    from anomalib.models.image.patchcore.torch_model import PatchcoreModel

    model = PatchcoreModel(layers=["blocks.2", "blocks.4"], backbone="tf_efficientnet_lite0", pre_trained=False)
    own = model.feature_extractor.feature_extractor
    own.load_state_dict({name: value for name, value in encoder.model.state_dict().items() if name in own.state_dict()})
    return model


def read(folder: str, group: str, encoder: Encoder) -> Iterator[Tensor]:
    """Preprocessed images of a folder, in batches."""
    paths = sorted((Path(folder) / group).iterdir())
    for i in range(0, len(paths), BATCH):
        images = [Image.open(path) for path in paths[i : i + BATCH]]
        yield torch.stack([torch.from_numpy(encoder.preprocess.array(image)[0]) for image in images])


def anomalib_fit(folder: str, steps: int) -> Work:
    """anomalib's refit: the training pass, and its KCenterGreedy with one step, and with more.

    The outcome is CPU and wall seconds of the pass, the same with one step, with more, and some embeddings.
    """
    from anomalib.models.components.sampling import KCenterGreedy

    encoder = encoder_of(folder, False)
    model = anomalib_model(encoder).train()
    model.feature_extractor.eval()

    def embed() -> Tensor:
        with torch.no_grad():
            return torch.cat([model(pixels) for pixels in read(folder, "train", encoder)])

    def run() -> np.ndarray:
        passed, embedding = timed(embed)
        costs = [passed]
        for size in (1, 2, 2 + steps):  # the first is a warm-up
            sampler = KCenterGreedy(embedding=embedding, sampling_ratio=0.1)
            sampler.coreset_size = size
            costs.append(timed(sampler.select_coreset_idxs)[0])
        del costs[1]
        seconds = [second for cost in costs for second in (cost.cpu_s, cost.wall_s)]
        return np.concatenate([seconds, embedding[:COMPARED].numpy().ravel()])

    return Work(run)


def anomalib_score(folder: str) -> Work:
    """anomalib's scoring of the test images by the station's own bank, which has as many rows as its own would."""
    encoder = encoder_of(folder, False)
    model = anomalib_model(encoder).eval()
    model.memory_bank = own_bank(folder, encoder)

    def run() -> Tensor:
        with torch.no_grad():
            return torch.cat([model(pixels).pred_score for pixels in read(folder, "test", encoder)])

    return Work(run)


def own_bank(folder: str, encoder: Encoder) -> Tensor:
    detector = Station.open(Path(folder) / "stationFalse", encoder=encoder).detector
    assert isinstance(detector, PatchCore)
    assert detector.bank_ is not None
    return detector.bank_


def differences(folder: str, embedding: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """How far anomalib's embeddings and image scores are from ours on the same network and bank, as shares."""
    encoder = encoder_of(folder, False)
    first = encoder(next(read(folder, "train", encoder))).levels[0].flatten(0, 2)[:COMPARED].numpy().ravel()
    detector = PatchCore.anomalib()
    detector.bank_ = own_bank(folder, encoder)
    ours = detector.score(encoder(next(read(folder, "test", encoder)))).image.numpy()
    gap = float(np.abs(embedding - first).max() / np.abs(first).max())
    return gap, float(np.abs(scores[: len(ours)] / ours - 1).max())


def lot_rows(folder: str, train: int, test: int) -> list[Row]:
    cost, times = measure(ours, folder, test, False, repeats=1)
    _, fitting = measure(anomalib_fit, folder, TIMED_STEPS, repeats=1)
    scoring, scores = measure(anomalib_score, folder, repeats=1)
    steps = train * CELLS // 10 - 1
    passed, once, more = (Cost(*(float(second) for second in pair)) for pair in fitting[:6].reshape(3, 2))
    rest = (steps - 1) / TIMED_STEPS
    coreset = Cost(once.cpu_s + rest * (more.cpu_s - once.cpu_s), once.wall_s + rest * (more.wall_s - once.wall_s))
    whole = Cost(passed.cpu_s + coreset.cpu_s + scoring.cpu_s, passed.wall_s + coreset.wall_s + scoring.wall_s)
    gap, drift = differences(folder, fitting[6:], scores)
    cpu, wall, encoding = (float(second) for second in times[:3])
    mine = Cost(cpu, wall, cost.extra_mb)
    path = f"Whole lot: calibrate a {train}-image PatchCore station on 8, score {test}"
    from_images = Row(
        path=f"{path}, from image files",
        peer="refit anomalib's Patchcore",
        ours=mine,
        theirs=whole,
        measured=whole.cpu_s / mine.cpu_s,
        goal=Goal(20, "less CPU time"),
        agree=gap <= TOLERANCE and drift <= TOLERANCE,
        agreement=f"same network and bank: embeddings differ by {gap:.0e}, uncorrected scores by {drift:.0e} of themselves",
        note=f"{TIMED_STEPS} of the peer's {steps} coreset steps timed, the rest extrapolated.",
    )
    known = replace(
        from_images,
        path=f"{path}, features known",
        ours=Cost(cpu - encoding, wall - encoding, cost.extra_mb),
        theirs=coreset,
        measured=coreset.cpu_s / (cpu - encoding),
        note=f"{from_images.note} Only the peer's coreset is counted, not its search; of ours, all but the forward passes.",
    )
    return [
        known,
        from_images,
        share_row("EfficientNet-Lite0, 256 x 256", times.tolist(), test, train * CELLS // 10, LIGHT_SHARE),
    ]


def share_row(title: str, times: list[float], test: int, bank: int, goal: float) -> Row:
    scoring, encoder = (Cost(second / test, second / test) for second in times[3:])
    return Row(
        path=f"The encoder's share of scoring, {title}, {bank:,} bank rows",
        peer="-",
        ours=scoring,
        theirs=None,
        measured=100 * encoder.cpu_s / scoring.cpu_s,
        goal=Goal(goal, "of Lot.score", " %"),
        agree=True,
        agreement="no peer, nothing to compare",
        note=f"Per image {encoder.cpu_s * 1e3:.0f} ms of {scoring.cpu_s * 1e3:.0f} ms; the rest reads, decodes, corrects, "
        "searches and judges. CPU seconds, in the wall column too.",
        short="Most of the rest is the exact search: boxes of 32 rows along the leading axes rule out nearly all of the bank "
        "before any row is looked at. A matrix product over the leading axes of all rows, as it was before, takes three times "
        "as long; balls instead of boxes leave twice to three times as many rows. A light encoder costs as little as "
        "what is left; an approximate index is not offered, because a verdict must not depend on it.",
    )


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    train, test, few = (20, 10, 4) if quick else (200, 100, 20)
    with tempfile.TemporaryDirectory() as folder:
        render(Path(folder), train, test)
        measure(fitted, folder, train, 0.1, False, repeats=1)
        made = lot_rows(folder, train, test)
        import timm

        torch.manual_seed(0)
        weights = timm.create_model("wide_resnet50_2", pretrained=False).state_dict()
        save_file(weights, Path(folder) / "weights.safetensors")
        # All features of 20 images are as many rows as a tenth of those of 200.
        measure(fitted, folder, 20, 1.0, True, repeats=1)
        _, times = measure(ours, folder, few, True, repeats=1)
        return [*made, share_row("WideResNet-50-2, 224 x 224", times.tolist(), few, 20 * 28 * 28, WIDE_SHARE)]
