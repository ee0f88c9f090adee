"""Encoders: the bundled one sees what is in a photograph, every family gives channels-last grids, and refusals."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import timm
import torch
from skimage import data
from torch.nn.functional import adaptive_avg_pool1d, avg_pool2d, interpolate, unfold

from sparcal.encoders import Recipe, load_encoder, parse_spec
from sparcal.encoders.aggregate import mean, nearest_upsampled, patchcore, pool, pool_nearest
from sparcal.encoders.bundled import load_bundled
from sparcal.encoders.weights import FOLDER_VARIABLE
from sparcal.errors import DataError, ShapeError, WeightsError
from sparcal.imaging.encode import encode
from sparcal.types import Encoder

ESPRESSO, EGYPTIAN_CAT_AND_KIN = 967, {281, 282, 283, 284, 285}


def test_the_bundled_weights_recognise_photographs():
    """ImageNet classes come out on the coffee and cat photographs of scikit-image."""
    encoder = load_bundled(parse_spec("bundled?size=224"))
    pixels = torch.stack([encoder.preprocess(image)[0] for image in map(_pil, (data.coffee(), data.chelsea()))])
    with torch.inference_mode():
        coffee, cat = encoder.model(pixels).argmax(dim=1).tolist()
    assert coffee == ESPRESSO
    assert cat in EGYPTIAN_CAT_AND_KIN


def _pil(array):
    from PIL import Image

    return Image.fromarray(array)


@pytest.mark.parametrize(
    ("name", "grids", "cell"),
    [
        ("bundled", ((32, 32, 152),), 8),
        ("timm:resnet18.a1_in1k?layers=4,8,16,32&aggregate=levels", ((56, 56, 64), (28, 28, 128), (14, 14, 256), (7, 7, 512)), 4),
        ("timm:resnet18.a1_in1k?layers=4,8,16&aggregate=nearest&size=64", ((16, 16, 448),), 4),
        ("timm:convnext_atto.d2_in1k?size=96", ((12, 12, 240),), 8),
        ("timm:swin_tiny_patch4_window7_224.ms_in1k?size=112", ((14, 14, 576),), 8),
        ("timm:vit_tiny_patch16_224.augreg_in21k?size=96", ((6, 6, 192),), 16),
        ("timm:vit_tiny_patch16_224.augreg_in21k?size=96&layers=4,5,6&aggregate=mean&norm=0", ((6, 6, 192),), 16),
        ("timm:vit_tiny_patch16_224.augreg_in21k?size=96&layers=2,-1&aggregate=levels", ((6, 6, 192), (6, 6, 192)), 16),
    ],
)  # fmt: skip
def test_grids_are_channels_last(name, grids, cell):
    encoder = load_encoder(name, weights=None if name == "bundled" else "random:0")
    assert isinstance(encoder, Encoder)
    features = encode(encoder, [data.astronaut()]).features
    assert features.grids == grids
    assert encoder.cell_pixels == cell
    assert features.cls is None
    assert torch.isfinite(features.levels[0]).all()


def test_swin_positions_stay_where_they_are():
    """A patch of the image changes the cells that it covers most: the layout is not scrambled."""
    encoder = load_encoder(
        "timm:swin_tiny_patch4_window7_224.ms_in1k?layers=4&aggregate=levels&size=112", weights="random:1"
    )
    image = torch.zeros(1, 3, 112, 112)
    changed = image.clone()
    changed[..., 80:96, 16:32] = 3.0
    with torch.inference_mode():
        change = (encoder(changed).levels[0] - encoder(image).levels[0]).norm(dim=-1)[0]
    row, column = divmod(int(change.argmax()), change.shape[1])
    assert 80 <= row * 4 < 96
    assert 16 <= column * 4 < 32


@pytest.mark.parametrize("name", ["timm:resnet18.a1_in1k", "timm:swin_tiny_patch4_window7_224.ms_in1k", "timm:vit_tiny_patch16_224.augreg_in21k"])  # fmt: skip
def test_cls_is_one_vector_per_image_and_leaves_the_grid_alone(name):
    pixels = torch.randn(2, 3, 112, 112, generator=torch.Generator().manual_seed(0))
    plain = load_encoder(f"{name}?size=112", weights="random:0")
    both = load_encoder(f"{name}?size=112&cls=1", weights="random:0")
    with torch.inference_mode():
        features = both(pixels)
        assert features.cls.shape[0] == 2
        torch.testing.assert_close(features.levels[0], plain(pixels).levels[0])


def test_the_id_says_everything_and_can_be_read_back():
    encoder = load_encoder("bundled?crop=224")
    head, _, weights = encoder.id.rpartition("&weights=")
    assert weights.startswith("sha256-")
    assert load_encoder(head).id == encoder.id
    assert str(parse_spec(head)) == head


def test_patchcore_aggregate_equals_the_unfolded_procedure():
    """The authors' steps: unfold, upsample planes, pool to 1024, stack, pool to 1024."""
    generator = torch.Generator().manual_seed(0)
    fine, coarse = torch.randn(2, 512, 6, 6, generator=generator), torch.randn(2, 1024, 3, 3, generator=generator)

    def patches(x):  # (n, c * 9, h, w)
        return unfold(x, 3, padding=1).unflatten(-1, x.shape[2:])

    grown = interpolate(patches(coarse), size=(6, 6), mode="bilinear", align_corners=False)
    each = [adaptive_avg_pool1d(x.flatten(2).mT, 1024) for x in (patches(fine), grown)]  # (n, p, 1024)
    want = adaptive_avg_pool1d(torch.stack(each, dim=2).flatten(2), 1024)
    torch.testing.assert_close(patchcore([fine, coarse])[0].flatten(1, 2), want, rtol=1e-5, atol=2e-6)


def test_other_aggregates():
    fine, coarse = torch.randn(2, 4, 6, 6), torch.randn(2, 5, 3, 3)
    want = torch.cat([fine, coarse.repeat_interleave(2, 2).repeat_interleave(2, 3)], dim=1)
    assert torch.equal(nearest_upsampled([fine, coarse])[0].permute(0, 3, 1, 2), want)
    blurred = interpolate(avg_pool2d(coarse, 3, 1, 1), size=(6, 6), mode="bilinear", align_corners=False)
    assert torch.equal(pool([fine, coarse])[0][..., 4:].permute(0, 3, 1, 2), blurred)
    averaged = avg_pool2d(coarse, 3, 1, 1).repeat_interleave(2, 2).repeat_interleave(2, 3)
    assert torch.equal(pool_nearest([fine, coarse])[0][..., 4:].permute(0, 3, 1, 2), averaged)
    assert torch.equal(pool_nearest([fine, coarse])[0][..., :4].permute(0, 3, 1, 2), avg_pool2d(fine, 3, 1, 1))
    with pytest.raises(ShapeError, match="'mean' needs layers of one shape"):
        mean([fine, coarse])
    with pytest.raises(
        ShapeError, match=r"defined for two layers of 512 \+ 1024 channels.*got 4 \+ 5: use aggregate=pool"
    ):
        patchcore([fine, coarse])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet18", "An encoder must be 'bundled', 'timm:MODEL.TAG' or 'openclip:MODEL/TAG', got 'resnet18'"),
        ("bundled:x", "An encoder must be 'bundled'"),
        (
            "timm:resnet18",
            "must name its weights, got no tag: write timm:resnet18.TAG with one of .*a weight file of your own",
        ),
        (
            "timm:resnet18.mine",
            "must name its weights, got the unknown tag 'mine': write timm:resnet18.TAG with one of .*a weight file of your own",
        ),
        ("timm:resnet_18.a1_in1k", "timm has no model 'resnet_18'"),
        ("bundled?layer=8", "An encoder has no setting 'layer' .* choose from layers, aggregate"),
        ("bundled?layers=a", "The encoder setting layers must be integers such as 8,16, got 'a'"),
        ("bundled?aggregate=sum", "aggregate must be pool or pool-nearest or patchcore"),
        ("bundled?norm=yes", "norm must be 0 or 1, got 'yes'"),
        ("bundled?size=0", "size must be an integer of at least 1, got '0'"),
        ("bundled?layers=7", "takes strides 2, 4, 8, 16, 32, got 7"),
    ],
)
def test_refused_names(name, message):
    with pytest.raises(DataError, match=message):
        load_encoder(name, weights="random:0" if name.startswith("timm") else None)


def test_refused_block():
    with pytest.raises(DataError, match=r"takes blocks 0 to 11 \(negative: from the end\), got 12"):
        load_encoder("timm:vit_tiny_patch16_224.augreg_in21k?layers=12", weights="random:0")


def test_bundled_takes_no_weights():
    with pytest.raises(
        DataError, match="The bundled encoder brings its own weights, got weights='x.pth': leave it out"
    ):
        load_encoder("bundled", weights="x.pth")


def test_local_weight_files(tmp_path, monkeypatch):
    """A file by path or in the folder of the environment variable gives the same encoder."""
    from safetensors.torch import save_file

    source = timm.create_model("resnet18", pretrained=False)
    safetensors, pth = tmp_path / "resnet18.a1_in1k.safetensors", tmp_path / "other.pth"
    save_file(source.state_dict(), safetensors)
    torch.save({"state_dict": source.state_dict()}, pth)
    image = [np.zeros((64, 64, 3), np.uint8) + 90]
    by_path = load_encoder("timm:resnet18.a1_in1k?size=64", weights=pth)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    by_folder = load_encoder("timm:resnet18.a1_in1k?size=64")
    a, b = (encode(encoder, image).features.levels[0] for encoder in (by_path, by_folder))
    assert torch.equal(a, b)
    assert torch.equal(by_path.model.conv1.weight, source.conv1.weight)


@pytest.mark.parametrize("seed", ["", "abc", "-1", "1.5"])
def test_random_weights_need_a_seed(seed):
    with pytest.raises(
        WeightsError, match=r"^Random weights need a seed, as in random:0, got 'random:.*': give a whole"
    ):
        load_encoder("timm:resnet18.a1_in1k", weights=f"random:{seed}")


def test_weight_files_that_cannot_be_used(tmp_path):
    name = "timm:resnet18.a1_in1k"
    with pytest.raises(WeightsError, match=r"expected in the file .*none.pth, got none there: check weights="):
        load_encoder(name, weights=tmp_path / "none.pth")
    broken = tmp_path / "broken.pth"
    broken.write_bytes(b"not a weight file")
    with pytest.raises(WeightsError, match=r"broken.pth cannot be read as safetensors or plain tensors"):
        load_encoder(name, weights=broken)
    other = tmp_path / "other.pth"
    torch.save({"x": torch.zeros(1)}, other)
    with pytest.raises(WeightsError, match=r"other.pth does not fit ResNet: \d+ tensors are missing, 1 are unknown"):
        load_encoder(name, weights=other)
    numbers = tmp_path / "numbers.pth"
    torch.save([1, 2], numbers)
    with pytest.raises(WeightsError, match=r"must hold a dictionary of tensors, got list"):
        load_encoder(name, weights=numbers)


@pytest.mark.parametrize("name", ["coatnet_nano_rw_224.sw_in1k", "hiera_tiny_224.mae", "mvitv2_tiny.fb_in1k"])
def test_a_network_of_windows_says_that_it_is_the_size_it_cannot_take(name):
    """Their code fails in three ways (an assertion, an index, a shape); a person reads one sentence."""
    encoder = load_encoder(f"timm:{name}?size=200&crop=200", weights="random:0")
    with pytest.raises(
        ShapeError, match=r"size that its network takes, got 200 x 200 pixels \(.+\): choose size= and crop="
    ):
        encoder(torch.zeros(1, 3, 200, 200))


def test_an_error_of_memory_stays_one_of_memory(monkeypatch):
    encoder = load_encoder("timm:resnet18.a1_in1k", weights="random:0")

    def full(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")

    monkeypatch.setattr(encoder.model, "forward_intermediates", full)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        encoder(torch.zeros(1, 3, 64, 64))


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors is a no-op")  # torch's, when timm builds it
def test_random_weights_leave_a_parameter_of_nothing_alone():
    """Some of timm's networks keep parameters of no channels, whose first row does not exist."""
    encoder = load_encoder("timm:inception_next_atto.sail_in1k", weights="random:0")
    assert torch.isfinite(encoder(torch.zeros(1, 3, 64, 64)).levels[0]).all()


def test_missing_hub_weights_name_file_variable_and_option(tmp_path):
    """In a process of its own: the hub's offline switch is read at import."""
    code = (
        "from sparcal.encoders import load_encoder\n"
        "try:\n    load_encoder('timm:wide_resnet50_2.tv_in1k')\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    environment.pop(FOLDER_VARIABLE, None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(
        "WeightsError The pretrained weights of wide_resnet50_2.tv_in1k are not in the hub's cache"
    )
    for remedy in ("wide_resnet50_2.tv_in1k.safetensors", FOLDER_VARIABLE, "--weights", "weights="):
        assert remedy in done.stdout
    assert done.stdout.count("\n") == 1


def test_a_recipe_for_deep_networks_has_another_for_shallow_ones():
    recipe = Recipe(blocks="layers=-18,-12&aggregate=mean", few_blocks="layers=-2,-1&aggregate=mean")
    spec = parse_spec("timm:any")
    assert [recipe.fill(spec, blocks=depth).layers for depth in (40, 18, 17)] == [(-18, -12), (-18, -12), (-2, -1)]
    assert recipe.fill(spec, blocks=None).layers == (8, 16)
    assert recipe.fill(parse_spec("timm:any?layers=3"), blocks=12).layers == (3,)
