"""The torch models of four anomalib models, with a correction in the method through which their features pass.

Swapping the class of a torch model changes nothing else about it, survives pickling, and lets the correction's buffers
go into checkpoints and exported graphs.

Which features are corrected: Patchcore, the pooled and concatenated layers; Padim, the concatenated layers after its
channel draw; AnomalyDINO, the patch tokens before they are brought to unit length; WinClip, the patch tokens alone, so
that the image vector and the windows, and with them all text scores, stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from anomalib.models.image.anomaly_dino.torch_model import AnomalyDINOModel
from anomalib.models.image.padim.torch_model import PadimModel
from anomalib.models.image.patchcore.torch_model import PatchcoreModel
from anomalib.models.image.winclip.torch_model import WinClipModel
from torch import Tensor, nn

LAYER = "lot_correction"


class CorrectedPatchcore(PatchcoreModel):
    """Patchcore's torch model with a correction behind its patch features."""

    def generate_embedding(self, features: dict[str, Tensor]) -> Tensor:
        """(n, d, h, w), corrected."""
        return corrected_map(self.lot_correction, super().generate_embedding(features))


class CorrectedPadim(PadimModel):
    """Padim's torch model with a correction behind its drawn channels."""

    def generate_embedding(self, features: dict[str, Tensor]) -> Tensor:
        """(n, d, h, w), corrected."""
        return corrected_map(self.lot_correction, super().generate_embedding(features))


class CorrectedAnomalyDINO(AnomalyDINOModel):
    """AnomalyDINO's torch model with a correction behind its patch tokens."""

    def extract_features(self, image_tensor: Tensor) -> Tensor:
        """(n, h w, d), corrected."""
        tokens = super().extract_features(image_tensor)
        return corrected_tokens(self.lot_correction, tokens, token_grid(self, image_tensor))


class CorrectedWinClip(WinClipModel):
    """WinClip's torch model with a correction behind its patch tokens."""

    def encode_image(self, batch: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
        """Image vector and windows as they are; patches (n, h w, d), corrected."""
        image, windows, patches = super().encode_image(batch)
        return image, windows, corrected_tokens(self.lot_correction, patches, self.grid_size)


class Place(Protocol):
    """Where a model's features pass, and how a correction is put there."""

    def site(self, model: Any) -> tuple[Any, str]:
        """The object and the name of its method that returns the features."""
        ...

    def insert(self, model: Any) -> None:
        """Route the features through the layer `lot_correction` of the torch model."""
        ...

    def remove(self, model: Any) -> None:
        """Undo `insert`."""
        ...


@dataclass(frozen=True)
class MethodPlace:
    """A method of the torch model, corrected in a subclass."""

    method: str
    plain: type
    corrected: type

    def site(self, model: Any) -> tuple[Any, str]:
        return model.model, self.method

    def insert(self, model: Any) -> None:
        model.model.__class__ = self.corrected

    def remove(self, model: Any) -> None:
        model.model.__class__ = self.plain


def corrected_map(layer: nn.Module, x: Tensor) -> Tensor:
    """`layer` on (n, d, h, w)."""
    (out,) = layer((x.permute(0, 2, 3, 1),))
    channels_first: Tensor = out.permute(0, 3, 1, 2)
    return channels_first


def corrected_tokens(layer: nn.Module, x: Tensor, grid: tuple[int, int]) -> Tensor:
    """`layer` on (n, h w, d)."""
    (out,) = layer((x.unflatten(1, grid),))
    tokens: Tensor = out.flatten(1, 2)
    return tokens


def token_grid(torch_model: Any, image: Tensor) -> tuple[int, int]:
    """Rows and columns of tokens of (n, 3, H, W), cut to whole patches as AnomalyDINO does."""
    side: int = torch_model.feature_encoder.patch_size
    return image.shape[-2] // side, image.shape[-1] // side
