"""CLIP from open_clip as an encoder: patch tokens of any block, image vector, windows, local stream, and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparcal.devices import float64_device, full_float32
from sparcal.encoders.aggregate import AGGREGATES
from sparcal.encoders.clip_text import encode_prompted, encode_texts
from sparcal.encoders.clip_vision import embed, read_tokens, standard_stream, window_embeddings
from sparcal.encoders.hub import asking_the_hub
from sparcal.encoders.known_models import require_known_model
from sparcal.encoders.placement import as_weights, widened
from sparcal.encoders.spec import EncoderSpec, Gelu, Recipe, Tokens, block_numbers
from sparcal.encoders.vv_attention import two_streams
from sparcal.encoders.weights import WeightTensors, find_weights, load_into, weights_error
from sparcal.errors import EncoderNameError, MissingExtraError
from sparcal.imaging.preprocess import Preprocess
from sparcal.types import Features

OPENAI_MEAN = (0.48145466, 0.4578275, 0.40821073)
OPENAI_STD = (0.26862954, 0.26130258, 0.27577711)

# AnomalyCLIP lets its local stream run in 19 of the 24 blocks of ViT-L/14; other depths keep that share.
VV_SHARE = 19 / 24


@dataclass(frozen=True, eq=False)
class OpenClipEncoder:
    """A frozen open_clip model; make one with `load_encoder`.

    Levels are the patch grids of the chosen blocks, then one grid per window size where windows travel there. `cls` is
    the image embedding (n, c), followed by all window embeddings, size by size and row by row, where they travel here.
    On the "vv" path it is the class token of the original stream, projected without ln_post, as AnomalyCLIP has it.

    Args:
        id: everything that decides the features, in one line.
        model: an `open_clip.CLIP` with a plain vision transformer, in eval mode.
        blocks: which of its blocks are read, zero-based, first to last.
        spec: nothing left open.
    """

    id: str
    model: Any
    blocks: tuple[int, ...]
    cell_pixels: int
    spec: EncoderSpec
    preprocess: Preprocess

    @property
    def device(self) -> torch.device:
        """Where the network is, and computes."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def __call__(self, pixels: Tensor) -> Features:
        """Features of (n, 3, H, W) preprocessed pixels, which may be on any device."""
        with full_float32(self.device):
            return self._features(as_weights(self.model, pixels)).to(float64_device(self.device))

    def _features(self, pixels: Tensor) -> Features:
        spec, visual = self.spec, self.model.visual
        assert spec.positions is not None
        tokens, grid = embed(visual, pixels, spec.positions)
        layers, vector = self._layers(tokens, grid)
        assert spec.aggregate is not None
        levels = AGGREGATES[spec.aggregate](layers)
        windows = [widened(window_embeddings(visual, tokens, grid, side)) for side in spec.windows or ()]
        if spec.windows_in == "cls":
            assert vector is not None
            return Features(levels, torch.cat([vector, *(x.flatten(1) for x in windows)], dim=1))
        return Features((*levels, *windows), vector)

    def _layers(self, tokens: Tensor, grid: tuple[int, int]) -> tuple[list[Tensor], Tensor | None]:
        """Patch tokens of each block as (n, d, h, w), and the image vector where it is wanted."""
        spec, visual = self.spec, self.model.visual
        assert spec.tokens is not None
        if spec.path == "vv":
            assert spec.vv_blocks is not None
            layers, end = two_streams(visual, tokens, self.blocks, vv_blocks=spec.vv_blocks)
            vector = end[:, 0] @ visual.proj
        else:
            layers, end = standard_stream(visual, tokens, self.blocks, last=bool(spec.cls))
            vector = read_tokens(visual, end[:, 0], "projected")
        patches = [torch.unflatten(widened(read_tokens(visual, x[:, 1:], spec.tokens)).mT, 2, grid) for x in layers]
        return patches, widened(vector) if spec.cls else None

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        """(n, c): the embedding of each text, not normalised."""
        return widened(encode_texts(self.model, texts))

    def encode_prompted(self, texts: Sequence[str], context: Tensor, *, deep: Sequence[Tensor] = ()) -> Tensor:
        """(n, c): texts whose first words are learned vectors; see `sparcal.encoders.clip_text`."""
        return widened(encode_prompted(self.model, texts, context, deep=deep))


def load_openclip(
    spec: EncoderSpec, *, weights: str | Path | None = None, recipe: Recipe | None = None
) -> OpenClipEncoder:
    """The open_clip model that `spec` names, with pretrained weights from a file, a folder, or the hub.

    Args:
        weights: a weight file; None looks in $SPARCAL_WEIGHTS, then asks the hub; "random:SEED" is for tests only.
    """
    open_clip = _open_clip()
    require_known_model(spec)
    architecture, _, tag = spec.model.partition("/")
    config, known = _config(open_clip, spec, architecture), open_clip.get_pretrained_cfg(architecture, tag)
    if recipe is not None:
        spec = recipe.fill(spec, blocks=config["vision_cfg"]["layers"])
    source = find_weights(spec.model, weights)
    if source is None:
        try:
            with asking_the_hub():
                source = Path(open_clip.download_pretrained(known))
        except Exception as error:  # the hub, the network and the disk each have their own error types
            raise weights_error(spec.model, error) from error
    if spec.gelu is None:
        quick = known.get("quick_gelu", False) or config.get("quick_gelu", False)
        spec = replace(spec, gelu="quick" if quick else "plain")
    model = open_clip.CLIP(**{**config, "quick_gelu": spec.gelu == "quick"})
    note = load_into(model, source, tidy=_tidy)
    return from_openclip_model(model, spec, weights_note=note, mean=known["mean"], std=known["std"])


def from_openclip_model(
    model: nn.Module,
    spec: EncoderSpec,
    *,
    weights_note: str,
    mean: tuple[float, ...] = OPENAI_MEAN,
    std: tuple[float, ...] = OPENAI_STD,
) -> OpenClipEncoder:
    """An encoder around an open_clip model that is already built; `weights_note` goes into its id."""
    visual = _plain_tower(model, spec)
    model.eval().requires_grad_(False)
    spec = _resolve(spec, visual)
    assert spec.layers is not None
    side = int(visual.patch_size[0])
    preprocess = _whole_patches(spec, side).preprocess(mean, std, size=visual.image_size[0], resample="bicubic")
    full = replace(spec, **{n: getattr(preprocess, n) for n in ("resize", "size", "crop", "multiple", "resample")})
    return OpenClipEncoder(
        id=f"{full}&weights={weights_note}",
        model=model,
        blocks=spec.layers,
        cell_pixels=side,
        spec=full,
        preprocess=preprocess,
    )


def _open_clip() -> Any:
    try:
        import open_clip
    except ImportError as error:
        raise MissingExtraError(
            "CLIP encoders need the package open_clip_torch, which is not installed: run pip install 'sparcal[clip]'."
        ) from error
    return open_clip


def _config(open_clip: Any, spec: EncoderSpec, architecture: str) -> dict[str, Any]:
    config: dict[str, Any] = open_clip.get_model_config(architecture)
    special = {"custom_text", "multimodal_cfg"} & set(config) or {"timm_model_name"} & set(config["vision_cfg"])
    if special or not isinstance(config["vision_cfg"]["layers"], int):
        raise _not_plain(spec)
    return config


def _plain_tower(model: Any, spec: EncoderSpec) -> Any:
    """The vision tower of `model`, once it is known to be built as the functions over it expect."""
    open_clip = _open_clip()
    visual = getattr(model, "visual", None)
    plain = (
        isinstance(model, open_clip.CLIP)
        and isinstance(visual, open_clip.transformer.VisionTransformer)
        and visual.attn_pool is None
        and visual.pool_type == "tok"
        and visual.patch_size[0] == visual.patch_size[1]
        and all(isinstance(block.attn, nn.MultiheadAttention) for block in visual.transformer.resblocks)
        and visual.transformer.batch_first
        and model.transformer.batch_first
        and model.text_pool_type == "argmax"
        and model.attn_mask is not None
    )
    if not plain:
        raise _not_plain(spec)
    return visual


def _not_plain(spec: EncoderSpec) -> EncoderNameError:
    return EncoderNameError(
        f"A CLIP encoder needs a model with a plain vision transformer, a class token and a plain text tower, got {spec.model}: "
        "use one such as ViT-B-16, ViT-B-16-plus-240 or ViT-L-14-336."
    )


def _resolve(spec: EncoderSpec, visual: Any) -> EncoderSpec:
    """`spec` with nothing left open and nothing contradictory."""
    depth = len(visual.transformer.resblocks)
    built: Gelu = "quick" if type(visual.transformer.resblocks[0].mlp.gelu).__name__ == "QuickGELU" else "plain"
    by_norm: Tokens | None = None if spec.norm is None else "ln_post" if spec.norm else "raw"
    vv = spec.path == "vv"
    full = spec.filled(
        replace(
            spec,
            layers=(depth - 1,),
            aggregate="levels",
            cls=vv or spec.windows_in == "cls",
            tokens=by_norm or ("projected" if vv else "ln_post"),
            positions="bilinear" if vv else "bicubic-antialias",
            gelu=built,
            path="standard",
            vv_blocks=max(1, round(VV_SHARE * depth)) if vv else None,
            windows_in="levels" if spec.windows else None,
        )
    )
    full = replace(full, norm=None, layers=block_numbers(full, depth))  # `tokens` says what `norm` would
    first_local = depth - (full.vv_blocks or 0)
    assert full.layers is not None
    wrong = {
        f"gelu={built} of the model as it is built": full.gelu != built,
        f"tokens={by_norm} as norm={int(bool(spec.norm))} says": by_norm not in (None, full.tokens),
        "cls=1 when windows travel in it": full.windows_in == "cls" and not full.cls,
        "windows where windows_in is given": full.windows_in is not None and not full.windows,
        "path=vv where vv_blocks is given": full.vv_blocks is not None and not vv,
        "path=standard where windows are given": bool(full.windows) and vv,
        f"vv_blocks of at most {depth}": first_local < 0,
        f"layers from {first_local} on, where the local stream runs": vv and min(full.layers) < first_local,
        "windows of at least 2 cells": any(side < 2 for side in full.windows or ()),
    }
    for expected, is_wrong in wrong.items():
        if is_wrong:
            raise EncoderNameError(
                f"An encoder of {spec.model} needs {expected}, got {str(spec)!r}: change that setting."
            )
    return full


def _whole_patches(spec: EncoderSpec, patch: int) -> EncoderSpec:
    """`spec` with an input that consists of whole patches."""
    free = spec.resize == "short" and spec.crop is None  # the longer side follows the image, so it is cut
    sides = {"multiple": spec.multiple or patch} if free else {"crop" if spec.crop else "size": spec.crop or spec.size}
    for name, value in sides.items():
        if value is not None and (value < patch or value % patch):
            below = max(1, value // patch) * patch
            raise EncoderNameError(
                f"The input of {spec.model} must consist of whole patches of {patch} pixels, got {name}={value} in "
                f"{str(spec)!r}: use {below} or {below + patch}."
            )
    return replace(spec, multiple=spec.multiple or patch) if free else spec


def _tidy(state: WeightTensors) -> WeightTensors:
    """Tensors under the names of the model: files of other origin carry a prefix, or numbers about the training."""
    unprefixed = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    return {n: x for n, x in unprefixed.items() if n not in ("input_resolution", "context_length", "vocab_size")}
