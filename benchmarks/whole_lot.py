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

import itertools
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from benchmarks.measure import Cost, Goal, Row, Work, measure
from sparcal import Features, load_host
from sparcal.demo import make_demo, write_png
from sparcal.detectors import PatchCore
from sparcal.types import Encoder

TIMED_STEPS = 20
TOLERANCE = 1e-3  # of a score: float32 distances by a product, against ours by differences
BATCH = 10
CELLS = 32 * 32
COMPARED = 500  # embeddings
LITE = "bundled"
WIDE = "timm:wide_resnet50_2.tv_in1k"


@dataclass
class Watched:
    """An encoder that counts the CPU seconds of its forward passes and can remember what it has seen."""

    encoder: Encoder
    remember: bool
    seconds: float = 0.0
    known: dict[bytes, Features] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoder, name)

    def __call__(self, pixels: Tensor) -> Features:
        key = pixels.numpy().tobytes() if self.remember else b""
        if key in self.known:
            return self.known[key]
        start = time.process_time()
        features = self.encoder(pixels)
        self.seconds += time.process_time() - start
        if self.remember:
            self.known[key] = features
        return features


def encoder_of(folder: str, name: str) -> Encoder:
    weights = Path(folder) / "weights.safetensors"
    return load_host("patchcore", encoder=name, weights=weights if name == WIDE else None)[0]


def prepare(folder: Path, train: int, test: int, name: str) -> None:
    """Parts as PNG files, and a station fitted on them."""
    parts = make_demo(0, train=train, good=8 + test // 2, bad=test - test // 2)
    groups = {"train": parts.train, "normals": parts.lot_good[:8], "test": (*parts.lot_good[8:], *parts.lot_bad)}
    for group, members in groups.items():
        (folder / group).mkdir()
        for number, part in enumerate(members):
            write_png(part.image, folder / group / f"{number:03}.png")
    fit_station(folder, name)


def fit_station(folder: Path, name: str) -> None:
    if name == WIDE:
        import timm

        torch.manual_seed(0)
        save_file(timm.create_model("wide_resnet50_2", pretrained=False).state_dict(), folder / "weights.safetensors")
    measure(fitted, str(folder), name, repeats=1)


def fitted(folder: str, name: str) -> Work:
    from sparcal.station import Station

    place = Path(folder)
    return Work(
        lambda: Station.fit(place / "train", "patchcore", path=place / "station", encoder=encoder_of(folder, name)),
        lambda station: len(station.record.images),
    )


def ours(folder: str, name: str, remember: bool) -> Work:
    """Calibrate and score; the encoder's part is left out where it may remember."""
    from sparcal.station import Station

    watched = Watched(encoder_of(folder, name), remember)
    station = Station.open(Path(folder) / "station", encoder=watched)
    numbers = itertools.count()

    def run() -> list[float]:
        lot = station.calibrate(Path(folder) / "normals", f"{name} {remember} {next(numbers)}", correction="sparc")
        return [float(judged.score or 0) for judged in lot.score(Path(folder) / "test")]

    if remember:
        run()
    return Work(run)


def share(folder: str, name: str) -> Work:
    """The share of `Lot.score` that is the encoder's forward pass."""
    from sparcal.station import Station

    watched = Watched(encoder_of(folder, name), remember=False)
    lot = Station.open(Path(folder) / "station", encoder=watched).calibrate(
        Path(folder) / "normals", "share", correction="sparc"
    )
    images = sorted((Path(folder) / "test").iterdir())[:30]
    lot.score(images[:1])

    def run() -> float:
        watched.seconds, start = 0.0, time.process_time()
        lot.score(images)
        return watched.seconds / (time.process_time() - start)

    return Work(run)


def anomalib_model(encoder: Any) -> Any:
    """anomalib's Patchcore around the network that our encoder uses."""
    from anomalib.models.image.patchcore.torch_model import PatchcoreModel

    model = PatchcoreModel(layers=["blocks.2", "blocks.4"], backbone="tf_efficientnet_lite0", pre_trained=False)
    own = model.feature_extractor.feature_extractor
    own.load_state_dict({name: value for name, value in encoder.model.state_dict().items() if name in own.state_dict()})
    return model


def read(folder: str, group: str, encoder: Encoder) -> list[Tensor]:
    from PIL import Image

    images = (Image.open(path) for path in sorted((Path(folder) / group).iterdir()))
    pixels = [torch.from_numpy(encoder.preprocess.array(image)[0]) for image in images]
    return [torch.stack(pixels[i : i + BATCH]) for i in range(0, len(pixels), BATCH)]


def peer_encode(folder: str) -> Work:
    """anomalib's training pass: the embeddings of all training images."""
    encoder = encoder_of(folder, LITE)
    model = anomalib_model(encoder)
    return Work(lambda: embeddings(model, encoder, folder), lambda found: found[:COMPARED].numpy())


def embeddings(model: Any, encoder: Encoder, folder: str) -> Tensor:
    model.train()
    model.feature_extractor.eval()
    with torch.no_grad():
        return torch.cat([model(pixels) for pixels in read(folder, "train", encoder)])


def peer_coreset(folder: str, steps: int) -> Work:
    """The first steps of its KCenterGreedy on these embeddings."""
    from anomalib.models.components.sampling import KCenterGreedy

    encoder = encoder_of(folder, LITE)
    embedding = embeddings(anomalib_model(encoder), encoder, folder)

    def run() -> list[int]:
        sampler = KCenterGreedy(embedding=embedding, sampling_ratio=0.1)
        sampler.coreset_size = steps + 1
        return list(sampler.select_coreset_idxs())

    return Work(run)


def peer_score(folder: str) -> Work:
    """anomalib's scoring of the test images by the station's own bank, which has as many rows as its own would."""
    encoder = encoder_of(folder, LITE)
    model = anomalib_model(encoder).eval()
    model.memory_bank = own_bank(folder, encoder)

    def run() -> Tensor:
        with torch.no_grad():
            return torch.cat([model(pixels).pred_score for pixels in read(folder, "test", encoder)])

    return Work(run)


def own_bank(folder: str, encoder: Encoder) -> Tensor:
    from sparcal.station import Station

    bank: Tensor = Station.open(Path(folder) / "station", encoder=encoder).detector.bank_  # type: ignore[attr-defined]
    return bank


def differences(folder: str, embedding: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """How far anomalib's embeddings and image scores are from ours on the same network and bank, as shares."""
    encoder = encoder_of(folder, LITE)
    first = encoder(read(folder, "train", encoder)[0]).levels[0].flatten(0, 2)[:COMPARED].numpy()
    detector = PatchCore.anomalib()
    detector.bank_ = own_bank(folder, encoder)
    ours = torch.cat([detector.score(encoder(pixels)).image for pixels in read(folder, "test", encoder)[:2]]).numpy()
    gap = float(np.abs(embedding - first).max() / np.abs(first).max())
    return gap, float(np.abs(scores[: len(ours)] / ours - 1).max())


def lot_rows(folder: str, train: int, test: int) -> list[Row]:
    included, _ = measure(ours, folder, LITE, False, repeats=1)
    excluded, _ = measure(ours, folder, LITE, True, repeats=1)
    encoding, embedding = measure(peer_encode, folder, repeats=1)
    scoring, scores = measure(peer_score, folder, repeats=1)
    part, _ = measure(peer_coreset, folder, TIMED_STEPS, repeats=1)
    size = train * CELLS // 10
    coreset = part.times((size - 1) / TIMED_STEPS)
    whole = Cost(*(sum(getattr(cost, f) for cost in (encoding, coreset, scoring)) for f in ("cpu_s", "wall_s")))
    gap, drift = differences(folder, embedding, scores)
    with_encoder = Row(
        path=f"Whole lot: calibrate a {train}-image PatchCore station on 8, score {test}, from image files",
        peer="refit anomalib's Patchcore",
        ours=included,
        theirs=whole,
        measured=whole.cpu_s / included.cpu_s,
        goal=Goal(20, "less CPU time"),
        agree=gap <= TOLERANCE and drift <= TOLERANCE,
        agreement=f"same network and bank: embeddings differ by {gap:.0e}, uncorrected image scores by {drift:.0e} of themselves",
        note=f"{TIMED_STEPS} of the peer's {size - 1} coreset steps timed, the rest extrapolated.",
    )
    without = replace(
        with_encoder,
        path=f"{with_encoder.path.removesuffix(', from image files')}, features cached",
        ours=excluded,
        theirs=coreset,
        measured=coreset.cpu_s / excluded.cpu_s,
        note=f"{with_encoder.note} The peer's search is not even counted.",
    )
    return [without, with_encoder]


def share_row(folder: str, name: str, title: str) -> Row:
    cost, found = measure(share, folder, name, repeats=2)
    return Row(
        path=f"The encoder's share of scoring, {title}",
        peer="-",
        ours=cost,
        theirs=None,
        measured=100 * float(found),
        goal=Goal(80, "of Lot.score", " %"),
        agree=True,
        agreement="no peer, nothing to compare",
        note="Reading, decoding, correction, search and verdict are the rest.",
        short="Exact search among all rows of the bank is the larger part of what is left.",
    )


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    train, test = (20, 10) if quick else (200, 100)
    with tempfile.TemporaryDirectory() as lite, tempfile.TemporaryDirectory() as wide:
        prepare(Path(lite), train, test, LITE)
        made = [*lot_rows(lite, train, test), share_row(lite, LITE, "EfficientNet-Lite0, 256 x 256")]
        for group in ("train", "normals", "test"):
            (Path(wide) / group).symlink_to(Path(lite) / group)
        fit_station(Path(wide), WIDE)
        return [*made, share_row(wide, WIDE, "WideResNet-50-2, 224 x 224")]
