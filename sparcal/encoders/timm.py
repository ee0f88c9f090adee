"""Image encoders from timm: CNN stages, Swin, ConvNeXt and plain vision transformers, behind one call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparcal.devices import float64_device, full_float32
from sparcal.encoders.aggregate import AGGREGATES
from sparcal.encoders.hub import asking_the_hub
from sparcal.encoders.known_models import require_known_model
from sparcal.encoders.placement import as_weights, widened
from sparcal.encoders.positions import use_positions
from sparcal.encoders.spec import EncoderSpec, Recipe, block_numbers
from sparcal.encoders.weights import find_weights, load_into, weights_error
from sparcal.errors import DataError, EncoderNameError, ShapeError, SparcalError
from sparcal.imaging.preprocess import Preprocess
from sparcal.types import Features


@dataclass(frozen=True, eq=False)
class TimmEncoder:
    """A frozen timm network read at some of its layers; make one with `load_encoder`.

    Args:
        id: everything that decides the features, in one line.
        model: a timm network with `forward_intermediates`, in eval mode.
        indices: which of its layers are read, finest first.
        spec: aggregation, normalisation and image vector, nothing left open.
    """

    id: str
    model: nn.Module
    indices: tuple[int, ...]
    cell_pixels: int
    spec: EncoderSpec
    preprocess: Preprocess

    @property
    def device(self) -> torch.device:
        """Where the network is, and computes."""
        return next(self.model.parameters()).device

    def __call__(self, pixels: Tensor) -> Features:
        """Features of (n, 3, H, W) preprocessed pixels, which may be on any device."""
        patch = _patch_side(self.model)
        if pixels.shape[-2] % patch or pixels.shape[-1] % patch:
            raise ShapeError(
                f"The encoder {self.id} needs pixels (n, 3, H, W) with H and W multiples of its patch size {patch}, "
                f"got {tuple(pixels.shape)}: add multiple={patch} to its name."
            )
        with full_float32(self.device), _saying_which_size(self.id, pixels):
            layers, vector = self._layers(as_weights(self.model, pixels))
        assert self.spec.aggregate is not None
        features = Features(AGGREGATES[self.spec.aggregate]([widened(x) for x in layers]), vector)
        return features.to(float64_device(self.device))

    def _layers(self, pixels: Tensor) -> tuple[list[Tensor], Tensor | None]:
        tokens = _is_plain_transformer(self.model)
        run: Any = self.model.forward_intermediates
        read = {"indices": list(self.indices), "norm": bool(self.spec.norm), "output_fmt": "NCHW"}
        if not self.spec.cls:
            return run(pixels, stop_early=True, intermediates_only=True, **read), None
        last, layers = run(pixels, **read)
        return layers, widened(last[:, 0] if tokens else _pooled(last, _channels(self.model)[-1]))


def load_timm(spec: EncoderSpec, *, weights: str | Path | None = None, recipe: Recipe | None = None) -> TimmEncoder:
    """The timm network that `spec` names, with pretrained weights from a file, a folder, or the hub.

    Args:
        weights: a weight file; None looks in $SPARCAL_WEIGHTS, then asks the hub; "random:SEED" is for tests only.
    """
    require_known_model(spec)
    source = find_weights(spec.model, weights)
    try:
        with asking_the_hub() if source is None else nullcontext():
            model = _create(spec, pretrained=source is None)
    except (OSError, RuntimeError, ValueError) as error:
        if source is None:
            raise weights_error(spec.model, error) from error
        raise DataError(
            f"timm cannot build {spec.model!r} for {str(spec)!r} ({str(error).rstrip('.')}): leave the setting out that "
            "it speaks of, or choose another value."
        ) from error
    if source is None:
        return from_timm_model(model, spec, weights_note="hub", recipe=recipe)
    return from_timm_model(model, spec, weights_note=load_into(model, source), recipe=recipe)


def from_timm_model(
    model: nn.Module, spec: EncoderSpec, *, weights_note: str, recipe: Recipe | None = None
) -> TimmEncoder:
    """An encoder around a timm network that is already built; `weights_note` goes into its id."""
    _require_readable(model, spec)
    model.eval().requires_grad_(False)
    strides = [int(info["reduction"]) for info in _feature_info(model)]
    plain = _is_plain_transformer(model)
    if recipe is not None:
        spec = recipe.fill(spec, blocks=len(strides) if plain else None)
    spec = spec.filled(_defaults(spec, len(strides), plain))
    assert spec.layers is not None
    indices = block_numbers(spec, len(strides)) if plain else _stage_indices(spec, strides)
    if spec.positions is not None:
        use_positions(model, spec.positions)
    config = _config(model)
    preprocess = spec.preprocess(
        config["mean"], config["std"], size=config["input_size"][-1], resample=_resample(config["interpolation"])
    )
    full = replace(spec, **{n: getattr(preprocess, n) for n in ("resize", "size", "crop", "multiple", "resample")})
    _require_whole_patches(full, _patch_side(model))
    return TimmEncoder(
        id=f"{full}&weights={weights_note}",
        model=model,
        indices=indices,
        cell_pixels=min(strides[i] for i in indices),
        spec=full,
        preprocess=preprocess,
    )


def _create(spec: EncoderSpec, *, pretrained: bool) -> nn.Module:
    import timm

    size = spec.crop or spec.size
    architecture = spec.model.partition(".")[0]
    config = timm.get_pretrained_cfg(spec.model, allow_unregistered=True)
    options: dict[str, Any] = {"pretrained": pretrained, "num_classes": 0}
    if config is not None and config.fixed_input_size:
        if architecture.startswith(("vit_", "deit", "eva")):
            options["dynamic_img_size"] = True
        elif size is not None:
            options["img_size"] = size
    model: nn.Module = timm.create_model(spec.model, **options)
    return model


@contextmanager
def _saying_which_size(name: str, pixels: Tensor) -> Iterator[None]:
    """Networks made of windows take some sizes only, and say so in whichever way their code happens to fail."""
    try:
        yield
    except (AssertionError, IndexError, ValueError, RuntimeError) as error:
        if isinstance(error, SparcalError | torch.OutOfMemoryError) or "allocate" in str(error):
            raise
        reason = str(error).strip().split("\n")[0].rstrip(".")[:160] or type(error).__name__
        height, width = pixels.shape[-2:]
        raise ShapeError(
            f"The encoder {name} needs images of a size that its network takes, got {height} x {width} pixels "
            f"({reason}): choose size= and crop= in its name like those it was trained with."
        ) from error


def _defaults(spec: EncoderSpec, depth: int, plain: bool) -> EncoderSpec:
    """What a spec means when it does not say: two middle levels pooled for stages, the last block for plain ViTs."""
    if not plain:
        return replace(spec, layers=(8, 16), aggregate="pool", norm=False, cls=False)
    several = spec.aggregate is not None and spec.aggregate != "mean"
    layers = (depth // 2 - 1, 3 * depth // 4 - 1) if several else (depth - 1,)
    return replace(spec, layers=layers, aggregate="levels", norm=not several, cls=False)


def _require_readable(model: nn.Module, spec: EncoderSpec) -> None:
    """Refuse a network that has no way to give what its layers compute."""
    if not (hasattr(model, "feature_info") and hasattr(model, "forward_intermediates")):
        raise EncoderNameError(
            f"An encoder needs a timm model whose layers can be read (feature_info, forward_intermediates), got "
            f"{spec.model}, a {type(model).__name__}: use another one, such as a ResNet, ConvNeXt or vision transformer."
        )


def _patch_side(model: nn.Module) -> int:
    """What the sides of the input must be multiples of: the patch of a transformer that does not pad, else 1."""
    from timm.layers.patch_embed import PatchEmbed

    patches = getattr(model, "patch_embed", None)
    if not isinstance(patches, PatchEmbed) or patches.dynamic_img_pad or not _is_plain_transformer(model):
        return 1
    return int(patches.patch_size[0])


def _require_whole_patches(spec: EncoderSpec, patch: int) -> None:
    """Refuse a size that gives no whole patches; the longer side of an image, which may be left open, comes with it."""
    name, side = ("crop", spec.crop) if spec.crop else ("size", spec.size)
    assert side is not None
    assert spec.multiple is not None
    if side // spec.multiple * spec.multiple % patch:
        below = max(1, side // patch) * patch
        raise EncoderNameError(
            f"The input of {spec.model} must consist of whole patches of {patch} pixels, got {name}={side} in "
            f"{str(spec)!r}: use {below} or {below + patch}, or multiple={patch}."
        )


def _stage_indices(spec: EncoderSpec, strides: list[int]) -> tuple[int, ...]:
    assert spec.layers is not None
    missing = [stride for stride in spec.layers if stride not in strides]
    if missing:
        raise EncoderNameError(
            f"The encoder setting layers of {spec.model or spec.source} takes strides {', '.join(map(str, strides))}, "
            f"got {missing[0]} in {str(spec)!r}."
        )
    return tuple(len(strides) - 1 - strides[::-1].index(stride) for stride in sorted(spec.layers))


def _is_plain_transformer(model: nn.Module) -> bool:
    return len({info["reduction"] for info in _feature_info(model)}) == 1


def _feature_info(model: nn.Module) -> list[dict[str, Any]]:
    return list(model.feature_info)  # type: ignore[arg-type]


def _channels(model: nn.Module) -> list[int]:
    return [int(info["num_chs"]) for info in _feature_info(model)]


def _pooled(last: Tensor, channels: int) -> Tensor:
    """The mean over positions, whichever axis timm keeps the channels on."""
    axes = (2, 3) if last.shape[1] == channels or last.shape[-1] != channels else (1, 2)
    return last.mean(dim=axes)


def _config(model: nn.Module) -> dict[str, Any]:
    return dict(model.pretrained_cfg)  # type: ignore[arg-type]


def _resample(name: str) -> str:
    return name if name in ("bilinear", "bicubic") else "bicubic"
