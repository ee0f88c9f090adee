"""Every encoder of the paper, built once with random weights: its grid, the layers it reads, the tokens it keeps."""

from __future__ import annotations

import pytest
import torch

from sparcal.bench.experiments import experiment_source
from sparcal.bench.plan.contenders import FEATURES_ENCODER, QUERY_CONDITIONED
from sparcal.bench.plan.experiment import parse_experiment
from sparcal.encoders import load_encoder, parse_spec
from sparcal.hosts import HOSTS

BACKBONES = parse_experiment(experiment_source("backbones"), "backbones").backbones

# The grids (h, w, d) of a native square image; for DINOv2-G a smaller one is run, and 672 / 14 = 48 is arithmetic.
GRIDS = {
    "patchcore": ((28, 28, 1024),),
    "padim": ((56, 56, 1792),),
    "spade": ((56, 56, 256), (28, 28, 512), (14, 14, 1024), (7, 7, 2048)),
    "anomalydino": ((32, 32, 384),),
    "winclip": ((14, 14, 768),),
    "musc": ((37, 37, 1024),) * 4,
    "anomalyclip-v": ((37, 37, 768),),
    "fastrecon": ((28, 28, 1536),),
    "fastref": ((28, 28, 1024),),
}
STAGES = {"convnext_b": (28, 28, 768), "resnet50": (28, 28, 1536), "swin_b": (28, 28, 768), "wrn50": (28, 28, 1536)}
BLOCKS = {"clip_b": (14, 14, 1536), "dinov2_b": (16, 16, 1536), "dinov3_b": (14, 14, 1536), "mae_b": (14, 14, 1536)}


def square(encoder):
    """One preprocessed square image, as the encoder sees it."""
    side = encoder.preprocess.crop or encoder.preprocess.size
    return torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(0))


def watched(blocks, run):
    """What the blocks of a transformer gave during `run`, by number."""
    seen = {}
    hooks = [
        block.register_forward_hook(lambda _, __, out, number=number: seen.__setitem__(number, out))
        for number, block in enumerate(blocks)
    ]
    with torch.inference_mode():
        answer = run()
    for hook in hooks:
        hook.remove()
    return seen, answer


def patches(tokens, grid):
    """The last h * w tokens as a grid: class token and registers stand before them."""
    return tokens[:, -grid[0] * grid[1] :].unflatten(1, grid)


@pytest.mark.slow
@pytest.mark.parametrize("host", GRIDS)
def test_the_grid_of_a_host(host):
    known = {**HOSTS, **QUERY_CONDITIONED}[host]
    encoder = load_encoder(known.encoder, weights="random:0", recipe=known.recipe)
    with torch.inference_mode():
        features = encoder(square(encoder))
    assert features.grids == GRIDS[host]
    assert torch.isfinite(features.levels[0]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "grid"), [*STAGES.items(), *BLOCKS.items()])
def test_the_grid_of_a_backbone(name, grid):
    recipe = HOSTS["patchcore"].recipe
    encoder = load_encoder(BACKBONES[name], weights="random:0", recipe=recipe)
    with torch.inference_mode():
        assert encoder(square(encoder)).grids == (grid,)


@pytest.mark.slow
def test_the_diagnostics_see_1536_channels():
    encoder = load_encoder(FEATURES_ENCODER, weights="random:0")
    with torch.inference_mode():
        assert encoder(square(encoder)).grids == ((28, 28, 1536),)


@pytest.mark.slow
def test_anomalydino_reads_the_normed_patches_of_the_last_block():
    encoder = load_encoder(HOSTS["anomalydino"].encoder, weights="random:0")
    seen, features = watched(encoder.model.blocks, lambda: encoder(square(encoder)))
    assert len(seen) == 12
    assert seen[11].shape[1] == 1 + 32 * 32, "a class token, no registers"
    torch.testing.assert_close(features.levels[0], patches(encoder.model.norm(seen[11]), (32, 32)))


@pytest.mark.slow
def test_subspacead_averages_raw_patches_of_blocks_22_to_28():
    """The whole network on an image of 4 x 4 patches: 672 pixels would take minutes."""
    text = HOSTS["subspacead"].encoder.replace("size=672", "size=56")
    assert 672 // 14 == 48
    encoder = load_encoder(text, weights="random:0")
    seen, features = watched(encoder.model.blocks, lambda: encoder(square(encoder)))
    assert len(encoder.model.blocks) == 40
    assert seen[28].shape[1:] == (5 + 16, 1536), "a class token and four registers"
    mean = torch.stack([patches(seen[number], (4, 4)) for number in range(22, 29)]).mean(dim=0)
    torch.testing.assert_close(features.levels[0], mean)


@pytest.mark.slow
def test_musc_reads_raw_patches_of_blocks_6_12_18_24():
    encoder = load_encoder(HOSTS["musc"].encoder, weights="random:0")
    seen, features = watched(encoder.model.visual.transformer.resblocks, lambda: encoder(square(encoder)))
    assert len(seen) == 24
    for number, level in zip((5, 11, 17, 23), features.levels, strict=True):
        torch.testing.assert_close(level, patches(seen[number], (37, 37)))
    assert features.cls.shape == (1, 768)


@pytest.mark.slow
def test_winclip_reads_patches_after_ln_post_before_projection():
    encoder = load_encoder(HOSTS["winclip"].encoder, weights="random:0")
    visual = encoder.model.visual
    seen, features = watched(visual.transformer.resblocks, lambda: encoder(square(encoder)))
    torch.testing.assert_close(features.levels[0], patches(visual.ln_post(seen[11]), (14, 14)))
    assert features.cls is None


def test_the_activation_is_that_of_the_weights():
    """OpenAI trained with QuickGELU; MuSc's authors run their 518 pixel network with plain GELU."""
    models = {name: parse_spec(host.encoder) for name, host in HOSTS.items()}
    assert "quickgelu" in models["winclip"].model
    assert "quickgelu" in models["anomalyclip-v"].model
    assert models["musc"].gelu == "plain"
    assert "quickgelu" in BACKBONES["clip_b"]
