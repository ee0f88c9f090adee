"""An encoder that encodes no image twice, so that a study can judge the same parts under many lots and corrections."""

from __future__ import annotations

from hashlib import blake2b

from torch import Tensor

from sparcal.imaging.preprocess import Preprocess
from sparcal.types import Encoder, Features


class RememberingEncoder:
    """An encoder and the features of every single image that it has seen since `forget`."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.known: dict[bytes, Features] = {}

    @property
    def id(self) -> str:
        return self.encoder.id

    @property
    def preprocess(self) -> Preprocess:
        return self.encoder.preprocess

    @property
    def cell_pixels(self) -> int:
        return self.encoder.cell_pixels

    def __call__(self, pixels: Tensor) -> Features:
        if len(pixels) != 1:
            return self.encoder(pixels)
        key = blake2b(pixels.contiguous().numpy().tobytes(), digest_size=16).digest()
        if key not in self.known:
            self.known[key] = self.encoder(pixels)
        return self.known[key]

    def forget(self) -> None:
        """Free the features of all images."""
        self.known.clear()
