"""Rendered parts under changing light, and anomalib models small enough to fit in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import timm
import torch
from anomalib.data import Folder, ImageBatch
from anomalib.data.utils import get_image_filenames, read_image
from anomalib.engine import Engine
from anomalib.models import AnomalyDINO, Padim, Patchcore, WinClip
from anomalib.pre_processing import PreProcessor
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import Compose, Normalize, Resize

SIZE = 64
TIMM = timm.create_model


def render_folders(root: Path) -> None:
    """Training parts under nearly one light; a lot, and test parts, under a light from changing sides."""
    render(root / "train", 12, seed=0, light=0.05)
    render(root / "lot" / "good", 6, seed=3, light=0.5)
    render(root / "lot" / "more", 10, seed=4, light=0.5)
    render(root / "test" / "good", 6, seed=1, light=0.5)
    render(root / "test" / "bad", 5, seed=2, light=0.5, defect=True)


def render(folder: Path, count: int, *, seed: int, light: float, defect: bool = False) -> None:
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    part = np.stack([0.5 + 0.3 * np.sin(9 * x + i) * np.cos(7 * y - i) for i in range(3)], axis=-1)
    for number in range(count):
        side = random.uniform(-1, 1, 2)
        image = part * (1 + light * (side[0] * x + side[1] * y))[..., None] + random.normal(0, 0.02, part.shape)
        if defect:
            image[20:32, 30:40] = random.uniform(0, 1)
        Image.fromarray((image.clip(0, 1) * 255).astype(np.uint8)).save(folder / f"{number:02}.png")


def read(folder: Path) -> Tensor:
    """All images of a folder, (n, 3, H, W) in [0, 1]."""
    return torch.stack([read_image(path, as_tensor=True).as_subclass(Tensor) for path in get_image_filenames(folder)])


def datamodule(root: Path) -> Folder:
    return Folder(
        name="parts",
        root=root,
        normal_dir="train",
        abnormal_dir="test/bad",
        normal_test_dir="test/good",
        train_batch_size=5,
        eval_batch_size=4,
        num_workers=0,
        val_split_mode="same_as_test",
    )


def engine(root: Path, **settings: Any) -> Engine:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    return Engine(default_root_dir=root, accelerator="cpu", **quiet, **settings)


def patchcore(**settings: Any) -> Patchcore:
    torch.manual_seed(0)
    own = {"backbone": "resnet18", "layers": ("layer2", "layer3"), "pre_trained": False, "visualizer": False}
    return Patchcore(**{**own, "pre_processor": Patchcore.configure_pre_processor((SIZE, SIZE)), **settings})


def padim(**settings: Any) -> Padim:
    torch.manual_seed(0)
    own = {"backbone": "resnet18", "layers": ["layer2", "layer3"], "pre_trained": False, "visualizer": False}
    own["n_features"] = 20
    return Padim(**{**own, "pre_processor": Padim.configure_pre_processor((SIZE, SIZE)), **settings})


def anomaly_dino(**settings: Any) -> AnomalyDINO:
    """Needs the `_offline` fixture. 60 pixels are cut to 4 x 4 patches of 14."""
    torch.manual_seed(0)
    return AnomalyDINO(
        **{"visualizer": False, "pre_processor": AnomalyDINO.configure_pre_processor((60, 60)), **settings}
    )


def winclip(**settings: Any) -> WinClip:
    """Needs the `_offline` fixture."""
    torch.manual_seed(0)
    resize = PreProcessor(Compose([Resize((SIZE, SIZE)), Normalize([0.5] * 3, [0.25] * 3)]))
    return WinClip(**{"class_name": "part", "k_shot": 4, "visualizer": False, "pre_processor": resize, **settings})


def train(model: Any, images: Tensor) -> Any:
    """What engine.fit comes to for a memory-bank model, without the engine."""
    model.model.train()
    for batch in images.split(5):
        model.model(model.pre_processor.transform(batch))
    torch.manual_seed(1)
    np.random.seed(1)  # the coreset's projection is drawn by numpy
    model.fit()
    model._is_fitted = torch.tensor([True])
    model.eval()
    return model


def batches(images: Tensor) -> list[ImageBatch]:
    return [ImageBatch(image=part) for part in images.split(5)]


def raw(model: Any, images: Tensor) -> Any:
    """The torch model's own scores of images in [0, 1], before anomalib normalises them."""
    with torch.no_grad():
        return model.eval().model(model.pre_processor.transform(images))


def state(model: Any) -> dict[str, Any]:
    """Everything that decides what a model does: classes, modes, own attributes' names, and tensors."""
    kept: dict[str, Any] = {}
    for name, module in model.named_modules():
        kept[name] = (type(module), module.training, sorted(vars(module)), list(module._modules), list(module._buffers))
        kept[f"{name} hooks"] = len(module._forward_hooks)
    return {**kept, **{f"tensor {name}": value.clone() for name, value in model.state_dict().items()}}


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two states agree bit for bit; NaN equals NaN."""

    def equal(a: Any, b: Any) -> bool:
        if isinstance(a, Tensor):
            return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(-7), b.nan_to_num(-7))
        return bool(a == b)

    return list(first) == list(second) and all(equal(value, second[name]) for name, value in first.items())


def tiny_create_model(name: str, *, pretrained: bool = False, **settings: Any) -> Any:
    """timm.create_model without downloads; vision transformers become very small."""
    del pretrained
    if name.startswith("vit_small_patch14_dinov2"):
        size = {"img_size": 56, "patch_size": 14, "embed_dim": 32, "depth": 12, "num_heads": 2}
        return timm.models.VisionTransformer(**size, num_classes=0, dynamic_img_size=True).eval()
    return TIMM(name, pretrained=False, **settings)


def tiny_openclip(*_names: Any, **_settings: Any) -> tuple[Any, None, Compose]:
    """A CLIP with a 4 x 4 grid."""
    vision = {"layers": 2, "width": 32, "head_width": 8, "patch_size": 16, "image_size": SIZE}
    text = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    return open_clip.CLIP(embed_dim=24, vision_cfg=vision, text_cfg=text).eval(), None, Compose([Resize((SIZE, SIZE))])
