"""Batch-norm adaptation against statistics computed by hand, layer by layer."""

from itertools import pairwise

import pytest
import timm
import torch
from torch import Tensor, nn
from torch.nn import functional

from sparcal.encoders import parse_spec
from sparcal.encoders.batchnorm import adapt_batchnorm
from sparcal.encoders.timm import TimmEncoder, from_timm_model
from sparcal.errors import DataError, ShapeError


def images(count: int, seed: int = 0, size: int = 32) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(seed)) * 2 + 0.5


def randomise(model: nn.Module, seed: int = 0) -> None:
    """Weights and source statistics that no layer shares with another."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                fan_in = module.weight[0].numel()
                module.weight.copy_(torch.randn(module.weight.shape, generator=random) * (2 / fan_in) ** 0.5)
                if module.bias is not None:
                    module.bias.fill_(0.1)
            if isinstance(module, nn.BatchNorm2d):
                for tensor, low, high in (
                    (module.weight, 0.5, 1.5),
                    (module.bias, -0.3, 0.3),
                    (module.running_mean, -0.5, 0.5),
                    (module.running_var, 0.5, 2.0),
                ):
                    tensor.copy_(torch.rand(tensor.shape, generator=random) * (high - low) + low)


class Stack(nn.Module):
    """Three conv-BN-ReLU blocks with the two attributes of a timm network that an encoder reads."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 6, 5, 4)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in widths[1:])
        self.feature_info = [
            {"num_chs": c, "reduction": 2 ** (i + 1), "module": f"norms.{i}"} for i, c in enumerate(widths[1:])
        ]
        self.pretrained_cfg = {
            "mean": (0.0,) * 3,
            "std": (1.0,) * 3,
            "input_size": (3, 32, 32),
            "interpolation": "bilinear",
        }

    def forward_intermediates(self, x: Tensor, indices: list[int], stop_early: bool, **_: object) -> list[Tensor]:
        layers = []
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = norm(conv(x)).relu()
            layers.append(x)
            if stop_early and number == max(indices):
                break
        return [layers[i] for i in indices]


def stack_encoder() -> TimmEncoder:
    model = Stack()
    randomise(model)
    return from_timm_model(model, parse_spec("timm:stack.test?layers=4,8&aggregate=levels"), weights_note="made")


def timm_encoder(name: str, query: str = "layers=4,8,16&aggregate=levels", seed: int = 0) -> TimmEncoder:
    model = timm.create_model(name, pretrained=False, num_classes=0)
    randomise(model, seed)
    return from_timm_model(model, parse_spec(f"timm:{name}.test?{query}"), weights_note="made")


def by_hand(x: Tensor, norm: nn.BatchNorm2d, source_weight: int) -> tuple[Tensor, Tensor, Tensor]:
    """The layer's output under mixed statistics, and those statistics, channel by channel."""
    p = source_weight / (source_weight + len(x))
    out, means, variances = torch.empty_like(x), [], []
    for c in range(x.shape[1]):
        values = x[:, c].double().flatten()
        mean = values.sum() / len(values)
        variance = ((values - mean) ** 2).sum() / (len(values) - 1)
        mean = p * norm.running_mean[c] + (1 - p) * mean
        variance = p * norm.running_var[c] + (1 - p) * variance
        out[:, c] = ((x[:, c] - mean) / (variance + norm.eps).sqrt() * norm.weight[c] + norm.bias[c]).float()
        means.append(mean)
        variances.append(variance)
    return out, torch.stack(means).float(), torch.stack(variances).float()


@pytest.mark.parametrize("source_weight", [0, 16])
def test_every_layer_is_mixed_on_what_the_mixed_layers_before_it_give(source_weight: int) -> None:
    encoder, x = stack_encoder(), images(4)
    adapted = adapt_batchnorm(encoder, x, source_weight=source_weight)
    for conv, norm, new in zip(encoder.model.convs, encoder.model.norms, adapted.model.norms, strict=True):
        out, mean, variance = by_hand(conv(x), norm, source_weight)
        torch.testing.assert_close(new.running_mean, mean, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(new.running_var, variance, atol=1e-5, rtol=1e-5)
        x = out.relu()


@pytest.mark.parametrize(("name", "source_weight"), [("resnet10t", 0), ("resnet10t", 16), ("resnet18", 16)])
def test_a_timm_resnet_equals_its_functional_form_with_mixed_statistics(name: str, source_weight: int) -> None:
    encoder, x = timm_encoder(name), images(3)
    adapted = adapt_batchnorm(encoder, x, source_weight=source_weight)

    source = {n: m for n, m in encoder.model.named_modules() if isinstance(m, nn.BatchNorm2d)}
    expected = timm_encoder(name)
    for layer_name, layer in expected.model.named_modules():
        if layer_name in source:
            layer.forward = lambda x, s=source[layer_name], own=layer: getattr(own, "act", nn.Identity())(
                by_hand(x, s, source_weight)[0]
            )
    for ours, theirs in zip(adapted(x).levels, expected(x).levels, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=2e-4)


def test_an_activation_inside_the_norm_layer_is_adapted_as_well() -> None:
    encoder = timm_encoder("tf_efficientnet_lite0", "layers=8,16")
    assert any(type(m).__name__ == "BatchNormAct2d" for m in encoder.model.modules())
    adapted = adapt_batchnorm(encoder, images(3))
    first, conv = adapted.model.bn1, encoder.model.conv_stem
    torch.testing.assert_close(first.running_mean, conv(images(3)).mean(dim=(0, 2, 3)), atol=1e-5, rtol=1e-5)


def test_a_train_mode_pass_with_momentum_is_not_the_same() -> None:
    encoder, x = stack_encoder(), images(4)
    adapted = adapt_batchnorm(encoder, x, source_weight=16)
    for conv, norm, new in zip(encoder.model.convs, encoder.model.norms, adapted.model.norms, strict=True):
        mean, variance = norm.running_mean.clone(), norm.running_var.clone()
        x = functional.batch_norm(
            conv(x), mean, variance, norm.weight, norm.bias, training=True, momentum=4 / 20
        ).relu()
        last = new, mean
    assert (last[0].running_mean - last[1]).abs().max() > 1e-2


def test_an_infinite_source_weight_is_the_encoder_as_it_was() -> None:
    encoder, x = timm_encoder("resnet10t"), images(2)
    adapted = adapt_batchnorm(encoder, x, source_weight=10**15)
    for ours, theirs in zip(adapted(x).levels, encoder(x).levels, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_calibration_only_forgets_the_source_statistics() -> None:
    first, second = stack_encoder(), stack_encoder()
    for norm in second.model.norms:
        norm.running_mean.add_(3.0)
        norm.running_var.mul_(5.0)
    x = images(2)
    for ours, theirs in zip(adapt_batchnorm(first, x)(x).levels, adapt_batchnorm(second, x)(x).levels, strict=True):
        assert torch.equal(ours, theirs)


def test_the_encoder_that_was_given_stays_and_the_adapted_one_is_frozen() -> None:
    encoder, x = stack_encoder(), images(4)
    state = {name: tensor.clone() for name, tensor in encoder.model.state_dict().items()}
    adapted = adapt_batchnorm(encoder, x)
    assert all(torch.equal(tensor, state[name]) for name, tensor in encoder.model.state_dict().items())
    before = adapted(x).levels[0]
    adapted(images(3, seed=9))
    assert torch.equal(adapted(x).levels[0], before)
    torch.testing.assert_close(adapted(x[:1]).levels[0], before[:1])
    assert not adapted.model.norms[0]._forward_pre_hooks
    assert not adapted.model.training


def test_a_calibration_image_order_does_not_matter() -> None:
    encoder, x = stack_encoder(), images(4)
    ours, theirs = adapt_batchnorm(encoder, x), adapt_batchnorm(encoder, x.flip(0))
    torch.testing.assert_close(ours(x).levels[1], theirs(x).levels[1], atol=1e-5, rtol=1e-5)


def test_the_id_names_the_adaptation_and_the_images() -> None:
    encoder, x = stack_encoder(), images(4)
    ids = {
        encoder.id,
        adapt_batchnorm(encoder, x).id,
        adapt_batchnorm(encoder, x, source_weight=16).id,
        adapt_batchnorm(encoder, images(4, seed=1)).id,
        adapt_batchnorm(encoder, x[:3]).id,
    }
    assert len(ids) == 5
    assert adapt_batchnorm(encoder, x).id == adapt_batchnorm(encoder, x.clone()).id
    assert all(name.startswith(encoder.id) for name in ids)


def test_an_encoder_without_batch_norm_is_refused() -> None:
    encoder = timm_encoder("test_vit", "layers=-1")
    with pytest.raises(
        DataError, match=r"needs an encoder with batch-norm layers, got VisionTransformer without any: use"
    ):
        adapt_batchnorm(encoder, images(2, size=160))


@pytest.mark.parametrize("shape", [(3, 32, 32), (0, 3, 32, 32)])
def test_pixels_without_images_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"needs pixels \(k, 3, H, W\) of at least one image, got \(.*stack the"):
        adapt_batchnorm(stack_encoder(), torch.zeros(shape))


def test_pixels_that_are_not_finite_are_refused() -> None:
    x = images(2)
    x[1, 0, 3, 3] = torch.nan
    with pytest.raises(DataError, match="needs finite pixels, got NaN or infinity: check"):
        adapt_batchnorm(stack_encoder(), x)


def test_a_negative_source_weight_is_refused() -> None:
    with pytest.raises(DataError, match="source_weight must be 0 or more images, got -1: 0 is"):
        adapt_batchnorm(stack_encoder(), images(2), source_weight=-1)


def test_one_value_per_channel_is_refused() -> None:
    with pytest.raises(
        DataError, match=r"needs at least 2 values per channel in every layer, got 1 .*give more or larger"
    ):
        adapt_batchnorm(stack_encoder(), images(1, size=4))
