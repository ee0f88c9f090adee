"""One small adapter for each anomalib model that is corrected on both sides.

An adapter turns what a model's own method returns into Features and back, and rebuilds the model's reference from
Features with the model's own code.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import torch
from anomalib.models.image.anomaly_dino.torch_model import AnomalyDINOModel
from anomalib.models.image.padim.torch_model import PadimModel
from anomalib.models.image.patchcore.torch_model import PatchcoreModel
from anomalib.models.image.winclip.torch_model import WinClipModel
from torch import Tensor
from torch.nn.functional import normalize

from sparcal.errors import DataError, NotFittedError
from sparcal.integrations.anomalib.gaussians import cell_gaussians
from sparcal.integrations.anomalib.models import (
    LAYER,
    CorrectedAnomalyDINO,
    CorrectedPadim,
    CorrectedPatchcore,
    CorrectedWinClip,
    MethodPlace,
    Place,
    token_grid,
)
from sparcal.types import Features


class Adapter(Protocol):
    """What LotCalibrator needs to know about one of anomalib's models; `model` is the Lightning one."""

    @property
    def place(self) -> Place: ...
    @property
    def encoder(self) -> str | None:
        """The module to leave out when features are replayed; None where the method itself calls it."""
        ...

    @property
    def state(self) -> tuple[str, ...]:
        """The tensors of the reference, as dotted attributes of the torch model; of a memory bank, that one alone."""
        ...

    @property
    def banked(self) -> bool:
        """Whether the reference is a memory bank of features."""
        ...

    def check(self, model: Any) -> None:
        """Raise DataError or NotFittedError for a model that cannot be calibrated as it stands."""
        ...

    def features(self, model: Any, image: Tensor, output: Any) -> Features:
        """What the method returned for preprocessed `image` (n, 3, H, W), as Features."""
        ...

    def output(self, model: Any, features: Features) -> Any:
        """What the method would have returned for `features`."""
        ...

    def rebuild(self, model: Any, reference: Features) -> None:
        """Replace the reference by one made of `reference` with the model's own procedure."""
        ...

    def thins(self, model: Any) -> bool:
        """Whether `rebuild` chooses some of the features rather than taking all of them."""
        ...

    def bank(self, model: Any, reference: Features) -> Tensor:
        """(n h w, d): all of `reference` as a memory bank would hold it; only for models that have one."""
        ...


class PatchcoreAdapter:
    """Memory bank, thinned by anomalib's greedy coreset at the model's own ratio."""

    place: ClassVar[Place] = MethodPlace("generate_embedding", PatchcoreModel, CorrectedPatchcore)
    encoder: ClassVar[str | None] = "feature_extractor"
    state: ClassVar[tuple[str, ...]] = ("memory_bank",)
    banked: ClassVar[bool] = True

    def check(self, model: Any) -> None:
        refuse_tiling(model)
        require_reference_state(model, model.model.memory_bank)

    def features(self, model: Any, image: Tensor, output: Any) -> Features:  # noqa: ARG002
        return map_features(output)

    def output(self, model: Any, features: Features) -> Any:
        return map_of(features).to(model.model.memory_bank)

    def rebuild(self, model: Any, reference: Features) -> None:
        rows = self.bank(model, reference)
        if not self.thins(model):  # anomalib would pick all of them one by one
            model.model.memory_bank = rows
            return
        model.model.embedding_store = [rows]
        model.fit()

    def thins(self, model: Any) -> bool:
        return bool(model.coreset_sampling_ratio < 1)

    def bank(self, model: Any, reference: Features) -> Tensor:
        return reference.levels[0].flatten(0, 2).to(model.model.memory_bank)


class PadimAdapter:
    """One Gaussian per cell."""

    place: ClassVar[Place] = MethodPlace("generate_embedding", PadimModel, CorrectedPadim)
    encoder: ClassVar[str | None] = "feature_extractor"
    state: ClassVar[tuple[str, ...]] = ("gaussian.mean", "gaussian.inv_covariance")
    banked: ClassVar[bool] = False

    def check(self, model: Any) -> None:
        refuse_tiling(model)
        require_reference_state(model, model.model.gaussian.mean)

    def features(self, model: Any, image: Tensor, output: Any) -> Features:  # noqa: ARG002
        return map_features(output)

    def output(self, model: Any, features: Features) -> Any:
        return map_of(features).to(model.model.gaussian.mean)

    def rebuild(self, model: Any, reference: Features) -> None:
        gaussian = model.model.gaussian
        mean, inverse = cell_gaussians(reference.levels[0])
        gaussian.mean, gaussian.inv_covariance = mean.to(gaussian.mean), inverse.to(gaussian.mean)

    def thins(self, model: Any) -> bool:  # noqa: ARG002
        return False

    def bank(self, model: Any, reference: Features) -> Tensor:
        raise NotImplementedError(type(model).__name__)


class AnomalyDINOAdapter:
    """Memory bank of unit-length tokens, thinned if the model thins."""

    place: ClassVar[Place] = MethodPlace("extract_features", AnomalyDINOModel, CorrectedAnomalyDINO)
    encoder: ClassVar[str | None] = None
    state: ClassVar[tuple[str, ...]] = ("memory_bank",)
    banked: ClassVar[bool] = True

    def check(self, model: Any) -> None:
        if model.model.masking:
            raise DataError(
                "LotCalibrator needs AnomalyDINO(masking=False), got masking=True: its background mask is a threshold in "
                "units of raw tokens, which a correction changes."
            )
        require_reference_state(model, model.model.memory_bank)

    def features(self, model: Any, image: Tensor, output: Any) -> Features:
        return Features((output.unflatten(1, token_grid(model.model, image)),))

    def output(self, model: Any, features: Features) -> Any:
        return features.levels[0].flatten(1, 2).to(model.model.memory_bank)

    def rebuild(self, model: Any, reference: Features) -> None:
        model.model.embedding_store = [self.bank(model, reference)]
        model.fit()

    def thins(self, model: Any) -> bool:
        return bool(model.model.coreset_subsampling)

    def bank(self, model: Any, reference: Features) -> Tensor:
        return normalize(self.output(model, reference).flatten(0, 1), dim=1)


class WinClipAdapter:
    """Patch and window embeddings of the k_shot reference images; windows and image vector travel in `cls`."""

    place: ClassVar[Place] = MethodPlace("encode_image", WinClipModel, CorrectedWinClip)
    encoder: ClassVar[str | None] = None
    state: ClassVar[tuple[str, ...]] = ("_patch_embeddings", "_visual_embeddings")
    banked: ClassVar[bool] = False

    def check(self, model: Any) -> None:
        if not model.k_shot:
            raise DataError(
                "LotCalibrator needs a few-shot WinClip, got k_shot=0: zero-shot WinClip compares with texts alone and "
                "uses no patch features."
            )
        if model.model.reference_images is None:
            raise NotFittedError(
                "LotCalibrator needs the reference images of WinClip, got none: run engine.fit or engine.validate first, "
                "which collects them."
            )

    def features(self, model: Any, image: Tensor, output: Any) -> Features:  # noqa: ARG002
        vector, windows, patches = output
        cls = torch.cat([vector, *(x.flatten(1) for x in windows)], dim=1)
        return Features((patches.unflatten(1, model.model.grid_size),), cls)

    def output(self, model: Any, features: Features) -> Any:
        assert features.cls is not None
        like = model.model._patch_embeddings
        counts = [mask.shape[1] for mask in model.model.masks]
        width = features.cls.shape[1] // (1 + sum(counts))
        vector, *flat = features.cls.to(like).split([width, *(width * count for count in counts)], dim=1)
        windows = [x.unflatten(1, (-1, width)) for x in flat]
        return vector, windows, features.levels[0].flatten(1, 2).to(like)

    def rebuild(self, model: Any, reference: Features) -> None:
        _, model.model._visual_embeddings, model.model._patch_embeddings = self.output(model, reference)

    def thins(self, model: Any) -> bool:  # noqa: ARG002
        return False

    def bank(self, model: Any, reference: Features) -> Tensor:
        raise NotImplementedError(type(model).__name__)

    def resume(self, model: Any) -> None:
        """Mark a model whose reference came from a checkpoint as set up, so that no run collects it anew."""
        model.model.k_shot = model.k_shot
        model.is_setup = True


ADAPTERS: dict[type, Adapter] = {
    PatchcoreModel: PatchcoreAdapter(),
    PadimModel: PadimAdapter(),
    AnomalyDINOModel: AnomalyDINOAdapter(),
    WinClipModel: WinClipAdapter(),
}


def map_features(x: Tensor) -> Features:
    """(n, d, h, w) as Features."""
    return Features((x.permute(0, 2, 3, 1),))


def map_of(features: Features) -> Tensor:
    """Features of one level as (n, d, h, w)."""
    return features.levels[0].permute(0, 3, 1, 2)


def refuse_tiling(model: Any) -> None:
    """Raise DataError for a model that sees tiles."""
    if getattr(model.model, "tiler", None) is not None:
        raise DataError(
            f"LotCalibrator needs {type(model).__name__} without tiling, got a Tiler: SPARC corrects each cell of the "
            "whole part, and a tile's cells have no fixed place on it."
        )


def refuse_calibrated(model: Any) -> None:
    """Raise DataError for a model that carries a correction already."""
    if hasattr(getattr(model, "model", None), LAYER):
        raise DataError(
            f"LotCalibrator starts from a {type(model).__name__} as it was trained, got one that is calibrated already: "
            "reset it, or load the trained checkpoint."
        )


def require_reference_state(model: Any, state: Tensor) -> None:
    """Raise NotFittedError for a model whose reference is still empty."""
    if state.numel() == 0:
        raise NotFittedError(
            f"LotCalibrator calibrates a fitted model, got {type(model).__name__} without a reference: run engine.fit first."
        )
