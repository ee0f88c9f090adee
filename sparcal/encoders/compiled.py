"""An encoder computed by a compiled graph in PyTorch's place: the same network, traced once for each input size.

The first image of a size is encoded by both, and a graph whose features are not PyTorch's is refused.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from sparcal.encoders.traced_graph import CompiledGraph, compile_graph
from sparcal.errors import DataError
from sparcal.imaging.preprocess import Preprocess
from sparcal.runtimes import CompiledRuntime, with_runtime_word
from sparcal.types import Encoder, Features

FEATURE_TOLERANCE = (
    1e-4  # of the features' root mean square; float32 in another order gives about 1e-5, bfloat16 about 1e-2
)
SIZES_KEPT = 8  # graphs of other input sizes, each as large as the network's weights


@dataclass(frozen=True, eq=False)
class CompiledEncoder:
    """An encoder that a runtime computes; make one with `load_encoder`.

    Args:
        source: the encoder in PyTorch, float32, on the processor.
    """

    source: Encoder
    runtime: CompiledRuntime
    _graphs: dict[tuple[int, int], _Graph] = field(default_factory=dict, init=False, repr=False)
    _compiling: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def id(self) -> str:
        """The source's, and the runtime."""
        return with_runtime_word(self.source.id, self.runtime)

    @property
    def preprocess(self) -> Preprocess:
        """What the encoder's images go through first."""
        return self.source.preprocess

    @property
    def cell_pixels(self) -> int:
        """Input pixels along one side of a cell of the finest level."""
        return self.source.cell_pixels

    @property
    def device(self) -> torch.device:
        """The processor."""
        return torch.device("cpu")

    def __call__(self, pixels: Tensor) -> Features:
        """Features of (n, 3, H, W) preprocessed pixels; each image is computed on its own, whatever its company."""
        here = pixels.to("cpu", torch.float32)
        graph = self._graph(here)
        return Features.cat([graph.features(image) for image in here.split(1)])

    def _graph(self, pixels: Tensor) -> _Graph:
        size = (pixels.shape[-2], pixels.shape[-1])
        with self._compiling:
            if size not in self._graphs:
                while len(self._graphs) >= SIZES_KEPT:
                    self._graphs.pop(next(iter(self._graphs)))
                self._graphs[size] = self._compile(pixels[:1])
            return self._graphs[size]

    def _compile(self, pixels: Tensor) -> _Graph:
        """The graph for images of this size, once it gives the features of the source."""
        with torch.inference_mode():
            expected = self.source(pixels)
        network, size = _Flat(self.source), (pixels.shape[-2], pixels.shape[-1])
        run = compile_graph(network, size, self.runtime, of=f"The encoder {self.source.id}")
        graph = _Graph(run, len(expected.levels), expected.cls is not None)
        gap = largest_gap(graph.features(pixels), expected)
        if not gap <= FEATURE_TOLERANCE:
            raise DataError(
                f"The features of a compiled encoder must be within {FEATURE_TOLERANCE:g} of PyTorch's, relative to their root "
                f"mean square, got {gap:.2g} from {self.id}: compute it with torch."
            )
        return graph


def torch_encoder(encoder: Encoder) -> Encoder:
    """The encoder in PyTorch behind a compiled one; any other as it is."""
    return encoder.source if isinstance(encoder, CompiledEncoder) else encoder


def largest_gap(features: Features, expected: Features) -> float:
    """The largest difference of two features in any level or image vector, relative to the root mean square of that."""
    pairs = list(zip(features.levels, expected.levels, strict=True))
    if features.cls is not None and expected.cls is not None:
        pairs.append((features.cls, expected.cls))
    return max(float((a - b).abs().max() / b.square().mean().sqrt().clamp_min(1e-12)) for a, b in pairs)


@dataclass(frozen=True, eq=False)
class _Graph:
    """A compiled graph and what its outputs are: so many levels, then the image vector where there is one."""

    run: CompiledGraph
    levels: int
    cls: bool

    def features(self, pixels: Tensor) -> Features:
        outputs = [torch.from_numpy(array) for array in self.run(pixels.numpy())]
        return Features((*outputs[: self.levels],), outputs[self.levels] if self.cls else None)


class _Flat(nn.Module):
    """An encoder as exporters want it: a module with its weights registered, that returns tensors."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.networks = nn.ModuleList(part for part in vars(encoder).values() if isinstance(part, nn.Module))
        self.eval()

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        features: Features = self.encoder(pixels)
        return features.levels if features.cls is None else (*features.levels, features.cls)
