"""Patch features out of an anomalib model, and scores of patch features by it, through its own forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from anomalib.data.utils import get_image_filenames, read_image
from torch import Tensor, nn
from torch.nn.functional import adaptive_max_pool2d

from sparcal.detectors.levels import at_least_float32
from sparcal.errors import DataError
from sparcal.integrations.anomalib.adapters import Adapter
from sparcal.integrations.anomalib.models import Place
from sparcal.types import Features, Scores

Images = str | Path | Sequence[str | Path] | Tensor

BATCH = 8


class NoEncoder(nn.Module):
    """Stands in for an encoder whose features are replayed."""

    def forward(self, _image: Tensor) -> dict[str, Tensor]:
        return {}


@contextmanager
def shadowed(thing: Any, method: str, replacement: Callable[..., Any]) -> Iterator[None]:
    """Let `replacement` stand before a method of one object, for the length of the block."""
    setattr(thing, method, replacement)
    try:
        yield
    finally:
        delattr(thing, method)


@contextmanager
def recording(thing: Any, method: str, keep: Callable[[Any, Any], None]) -> Iterator[None]:
    """Show `keep` the argument and the result of every call of a method, for the length of the block."""
    original = getattr(thing, method)

    def recorded(argument: Any) -> Any:
        result = original(argument)
        keep(argument, result)
        return result

    with shadowed(thing, method, recorded):
        yield


@contextmanager
def replaying(adapter: Adapter, model: Any, features: Features) -> Iterator[None]:
    """Let the model score `features` instead of those of the images that it is given."""
    output = adapter.output(model, features)
    with ExitStack() as undo:
        undo.enter_context(shadowed(*adapter.place.site(model), lambda _: output))
        if adapter.encoder is not None:
            undo.callback(setattr, model.model, adapter.encoder, getattr(model.model, adapter.encoder))
            setattr(model.model, adapter.encoder, NoEncoder())
        yield


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; every module's own mode comes back afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generators, which anomalib's coreset draws from, and give them back as they were."""
    before = np.random.get_state()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(before)


def device_of(model: Any) -> torch.device:
    """Where the torch model's weights are."""
    device: torch.device = next(model.model.parameters()).device
    return device


def preprocessed(model: Any, image: Tensor) -> Tensor:
    """(n, 3, H, W) in [0, 1] as anomalib's engine hands it to the torch model."""
    transform = model.pre_processor.transform if model.pre_processor else None
    prepared: Tensor = transform(image) if transform is not None else image
    return prepared.as_subclass(Tensor).to(device_of(model))


def read_images(images: Images, who: str) -> list[tuple[Path, Tensor]]:
    """Images (1, 3, H, W) in [0, 1] with their names, read as anomalib reads them.

    Args:
        images: a folder, a file, several of either, or a tensor (n, 3, H, W) in [0, 1] that no transform has touched.
    """
    if isinstance(images, Tensor):
        if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
            raise DataError(
                f"{who} takes images as paths or as a floating tensor (n, 3, H, W) in [0, 1], got {images.dtype} "
                f"{tuple(images.shape)}: convert them first."
            )
        if len(images) and (float(images.min()) < 0 or float(images.max()) > 1):
            raise DataError(
                f"{who} takes image tensors in [0, 1], got values from {float(images.min()):.3g} to "
                f"{float(images.max()):.3g}: divide by 255, and leave normalisation to the model's pre-processor."
            )
        return [(Path(f"image-{i}"), images[i : i + 1]) for i in range(len(images))]
    paths = [images] if isinstance(images, str | Path) else list(images)
    files: list[Path] = []
    for path in paths:
        try:
            files += get_image_filenames(path)
        except (FileNotFoundError, ValueError) as error:
            raise DataError(f"{who} needs image files or folders with images, got {path}: {error}.") from error
    return [(file, _read(file, who)) for file in files]


def _read(file: Path, who: str) -> Tensor:
    try:
        image: Tensor = read_image(file, as_tensor=True).as_subclass(Tensor)[None]
    except (OSError, ValueError, SyntaxError) as error:  # Pillow's, for files of another kind and for damaged ones
        reason = " ".join(str(error).split())
        raise DataError(f"{who} needs readable images, got {file}: {reason}: export it again.") from error
    return image


class _Recorded(Exception):  # noqa: N818 - a signal, not a failure
    """Ends a forward pass of which nothing more is needed."""


def record_features(
    place: Place, model: Any, images: Sequence[Tensor], to_features: Callable[[Tensor, Any], Features]
) -> Features:
    """Features of preprocessed images (n, 3, H, W), on the CPU, recorded on the model's way to scores."""
    kept: list[Features] = []
    keep = keeper(kept, to_features)

    def keep_and_stop(image: Any, output: Any) -> None:
        keep(image, output)
        raise _Recorded

    with evaluating(model.model), recording(*place.site(model), keep_and_stop):
        for image in batches(images):
            with suppress(_Recorded):
                model.model(image)
    return Features.cat(kept)


def keeper(kept: list[Features], to_features: Callable[[Tensor, Any], Features]) -> Callable[[Any, Any], None]:
    """Appends what was recorded to `kept`, copied to the CPU, in float32 at least: a subspace needs it."""

    def own(x: Tensor) -> Tensor:
        return at_least_float32(x.detach().cpu()).clone(memory_format=torch.contiguous_format)

    def keep(image: Any, output: Any) -> None:
        found = to_features(image, output)
        kept.append(Features(tuple(own(x) for x in found.levels), None if found.cls is None else own(found.cls)))

    return keep


def batches(images: Sequence[Tensor]) -> Iterator[Tensor]:
    """`images` (n, 3, H, W) of one size, joined to batches of about BATCH."""
    sizes = sorted({tuple(image.shape[-2:]) for image in images})
    if len(sizes) > 1:
        raise DataError(
            f"A lot's images must have one size after the model's pre-processor, got {sizes[0]} and {sizes[-1]}: "
            "give it a Resize."
        )
    for start in range(0, len(images), BATCH):
        yield torch.cat(list(images[start : start + BATCH]))


def score_images(model: Any, images: Sequence[Tensor]) -> Scores:
    """Raw scores of preprocessed images; one cell, the highest pixel of the map."""
    with evaluating(model.model):
        return joined([model.model(image) for image in batches(images)], (1, 1))


def score_features(adapter: Adapter, model: Any, features: Features, *, size: tuple[int, int]) -> Scores:
    """Raw scores of features that came from images of `size`; a cell has the highest pixel of the map within it."""
    results = []
    with evaluating(model.model):
        for start in range(0, len(features), BATCH):
            part = features[start : start + BATCH]
            blank = torch.zeros(len(part), 3, *size, device=device_of(model))
            with replaying(adapter, model, part):
                results.append(model.model(blank))
    h, w, _ = features.grids[0]
    return joined(results, (h, w))


def joined(results: Sequence[Any], grid: tuple[int, int]) -> Scores:
    """Several of anomalib's InferenceBatch, with the highest pixel of each map within the cells of `grid`."""
    image = torch.cat([part.pred_score.flatten() for part in results])
    maps = [
        part.anomaly_map.float().reshape(len(part.anomaly_map), 1, *part.anomaly_map.shape[-2:]) for part in results
    ]
    cell = torch.cat([adaptive_max_pool2d(part, grid)[:, 0] for part in maps])
    return Scores(image.cpu().float(), cell.cpu())
