"""Where the part is: on grids whose outline is known, and on surfaces that have none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import ndimage
from sklearn.cluster import KMeans

from sparcal.calibration.outline import find_outline, largest_region, otsu
from sparcal.types import Features


def scene(part, n=6, noise=0.2, contrast=3.0):
    """Parts of one outline, (h, w), on a plain background."""
    h, w = part.shape
    random = torch.Generator().manual_seed(0)
    background, inside = torch.zeros(16), contrast * torch.randn(16, generator=random)
    texture = torch.randn(h, w, 16, generator=random)
    mean = torch.where(torch.from_numpy(part)[..., None], inside + texture, background)
    return Features((mean + noise * torch.randn(n, h, w, 16, generator=random),))


def disc(h, w, radius):
    y, x = np.mgrid[:h, :w]
    return np.hypot((y + 0.5) / h - 0.5, (x + 0.5) / w - 0.5) < radius


@pytest.mark.parametrize(("h", "w"), [(24, 24), (36, 24), (12, 12), (32, 40)])
def test_a_disc_is_found(h, w):
    part = disc(h, w, 0.35)
    outline = find_outline(scene(part))
    assert outline.cells.shape == (h, w)
    both = (outline.cells & part).sum() / (outline.cells | part).sum()
    assert both > 0.7
    assert outline.sentence == f"The part covers {outline.cells.mean():.0%} of the image."


def test_holes_belong_to_the_part_and_crumbs_do_not():
    part = disc(24, 24, 0.4)
    part[10:14, 10:14] = False
    part[0:2, 10:12] = False
    crumb = part.copy()
    crumb[20:22, 2:4] = True
    cells = find_outline(scene(crumb)).cells
    assert cells[11:13, 11:13].all()
    assert not cells[20:22, 2:4].any()


def test_a_surface_that_fills_the_image_counts_as_a_whole():
    random = torch.Generator().manual_seed(1)
    mean = torch.randn(24, 24, 16, generator=random)
    surface = Features((mean + 0.1 * torch.randn(6, 24, 24, 16, generator=random),))
    outline = find_outline(surface)
    assert outline.cells.all()
    assert outline.sentence.endswith("of the image counts.")


def test_equal_cells_have_no_outline():
    outline = find_outline(Features((torch.ones(3, 8, 8, 4),)))
    assert outline.cells.all()
    assert outline.sentence == (
        "The part has no outline that stands out from the corners or from what stays the same: all of the image counts."
    )


def before_a_scene(varies, n=12, changes=4.0):
    """A scene whose corners all differ, the same in every image but for noise, and cells, (h, w), that change."""
    h, w = varies.shape
    random = torch.Generator().manual_seed(2)
    still = 3 * torch.randn(h, w, 16, generator=random)
    noise = torch.randn(n, h, w, 16, generator=random)
    return Features((still + noise * (0.2 * torch.from_numpy(1 + (changes - 1) * varies)[..., None]).float(),))


def test_before_a_scene_the_part_is_what_changes():
    part = disc(24, 24, 0.35)
    outline = find_outline(before_a_scene(part))
    assert (outline.cells & part).sum() / (outline.cells | part).sum() > 0.7
    share = f"{outline.cells.mean():.0%}"
    assert outline.sentence == f"The part covers {share} of the image, by what changes from image to image."


@pytest.mark.parametrize(
    "grids",
    [
        before_a_scene(~disc(24, 24, 0.35)),  # a belt that moves behind a part that always looks the same
        before_a_scene(disc(24, 24, 0.35), changes=1.3),  # light that varies a little over a surface
        before_a_scene(disc(24, 24, 0.35), n=4),  # too few images to tell
    ],
)
def test_what_changes_is_no_part_where_the_edges_do_or_hardly_anything_does(grids):
    assert find_outline(grids).cells.all()


def test_an_outline_that_is_too_small_does_not_count():
    part = np.zeros((24, 24), bool)
    part[12:14, 12:14] = True
    outline = find_outline(scene(part, noise=0.01))
    assert outline.cells.all()
    assert "too much or too little: all of it counts" in outline.sentence


def test_many_images_are_sampled_and_grids_smaller_than_the_coarse_one_do():
    assert find_outline(scene(disc(6, 5, 0.35), n=100)).cells.shape == (6, 5)


@given(st.lists(st.integers(-50, 50).map(float), min_size=2, max_size=40))
def test_otsus_limit_splits_with_the_largest_variance_between(values):
    values = np.array(values)
    limit = otsu(values)
    if values.min() == values.max():
        assert limit == values.max()
        return

    def between(split):
        low, high = values[values <= split], values[values > split]
        if len(low) == 0 or len(high) == 0:
            return 0.0
        return len(low) * len(high) * (low.mean() - high.mean()) ** 2

    best = max(between((a + b) / 2) for a in values for b in values if a < b)
    assert between(limit) == pytest.approx(best)


def test_otsu_agrees_with_two_means():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(0, 1, 80), rng.normal(8, 1, 40)])
    groups = KMeans(2, n_init=5, random_state=0).fit(values[:, None]).labels_
    assert len({(group, value > otsu(values)) for group, value in zip(groups, values, strict=True)}) == 2


@given(arrays(bool, (7, 9)).filter(np.any))
def test_the_largest_region_is_scipys(far):
    regions, count = ndimage.label(ndimage.binary_fill_holes(far))
    sizes = ndimage.sum_labels(np.ones_like(regions), regions, range(1, count + 1))
    found = largest_region(far)
    assert found.sum() == sizes.max()
    assert any(np.array_equal(found, regions == 1 + i) for i in np.flatnonzero(sizes == sizes.max()))
