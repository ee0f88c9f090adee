"""Small calibrated lots for the export tests: an 8 x 8 grid from a tiny network with random weights."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import torch

from sparcal import SPARC, encode, load_encoder
from sparcal.detectors import AnomalyDINO, PaDiM, PatchCore, SubspaceAD, for_cell_pixels
from sparcal.export.graph import LotModel
from sparcal.export.lot_state import LotFacts
from sparcal.score import CalibratedDetector

TINY_RESNET = "timm:test_resnet.r160_in1k?layers=8,16&aggregate=pool&resize=square&size=64"
DETECTORS = {
    "patchcore": lambda: PatchCore(coreset=0.3),
    "patchcore-anomalib": lambda: PatchCore(coreset=0.3, anchors=0, squared=False, reweight=5, neighbours=2),
    "padim": PaDiM,
    "padim-few-channels": lambda: PaDiM(dimension=6),
    "subspacead": SubspaceAD,
    "anomalydino": lambda: AnomalyDINO(top=0.1),
}


@cache
def tiny_resnet():
    return load_encoder(TINY_RESNET, weights="random:0")


def photographs(count, *, seed, defects=False, size=(72, 90)):
    """(n, H, W, 3) uint8: one pattern under changing light, with noise, and a dark patch on defective parts."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[: size[0], : size[1]] / 12
    pattern = 110 + 60 * np.stack([np.sin(x + y), np.cos(x) * np.sin(y), np.cos(2 * y)], axis=-1)
    images = pattern * random.uniform(0.7, 1.2, (count, 1, 1, 3)) + random.normal(0, 12, (count, *size, 3))
    if defects:
        for image in images:
            top, left = random.integers(0, size[0] - 16), random.integers(0, size[1] - 16)
            image[top : top + 14, left : left + 14] *= 0.3
    return images.clip(0, 255).astype(np.uint8)


def calibrated(name, encoder=None, *, lot="L1", reference=10, k=4, seed=1, correction=None):
    """A lot as a station would have calibrated it."""
    encoder = encoder or tiny_resnet()
    train = encode(encoder, photographs(reference, seed=0)).features
    normals = encode(encoder, photographs(k, seed=seed)).features
    sparc = (correction or SPARC()).fit(normals, train)
    detector = for_cell_pixels(DETECTORS[name](), encoder.cell_pixels)
    detector.fit(sparc.apply_reference(train) if sparc.on != "test" else train)
    model = LotModel(encoder, CalibratedDetector(sparc, detector), 0.0, LotFacts(lot))
    scores, _ = model.score(pixels(6, seed=7, encoder=encoder))
    return replace(model, threshold=float(scores.image.median()))


def pixels(count, *, seed, encoder=None, defects=False):
    """Preprocessed photographs, (n, 3, H, W)."""
    preprocess = (encoder or tiny_resnet()).preprocess
    from sparcal.imaging.decode import open_image

    return torch.stack([preprocess(open_image(image))[0] for image in photographs(count, seed=seed, defects=defects)])
