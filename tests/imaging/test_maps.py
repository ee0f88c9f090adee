"""Maps equal interpolation and filtering done step by step, and land on the right native pixels."""

import cv2
import numpy as np
import pytest
import scipy.ndimage
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.nn.functional import interpolate

from sparcal.errors import DataError, ShapeError
from sparcal.imaging.maps import MapRule, input_map, native_map, outside_value, top_mean
from sparcal.imaging.preprocess import Geometry, Preprocess

GRIDS = [(28, 28, 8), (7, 11, 14), (1, 5, 16), (3, 1, 4), (56, 56, 4)]  # h, w, cell_pixels
MODES = {
    "bilinear": {"mode": "bilinear", "align_corners": False},
    "corners": {"mode": "bilinear", "align_corners": True},
    "nearest": {"mode": "nearest"},
}


def cells(h, w, n=3, seed=0):
    return torch.rand(n, h, w, generator=torch.Generator().manual_seed(seed)) * 10 - 2


def whole_frame(h, w, input_h, input_w):
    return Geometry((h, w), (input_h, input_w), (0.0, 0.0, float(h), float(w)), (0, 0, input_h, input_w))


@pytest.mark.parametrize(("h", "w", "cell_pixels"), GRIDS)
@pytest.mark.parametrize("upsample", MODES)
@pytest.mark.parametrize("sigma", [0.0, 1.5, 4.0])
def test_input_map_equals_interpolate_then_scipy(h, w, cell_pixels, upsample, sigma):
    size = (h * cell_pixels, w * cell_pixels)
    large = interpolate(cells(h, w)[:, None].double(), size=size, **MODES[upsample])[:, 0].numpy()
    expected = np.stack([scipy.ndimage.gaussian_filter(image, sigma) if sigma else image for image in large])
    result = input_map(cells(h, w), MapRule(cell_pixels, sigma=sigma, upsample=upsample))
    assert result.dtype == torch.float32
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("h", "w", "cell_pixels"), [(48, 48, 14), (5, 9, 7), (20, 31, 1)]
)  # only cells of 1 show the border
@pytest.mark.parametrize("sigma", [0.5, 4.0])
def test_box3_equals_opencv(h, w, cell_pixels, sigma):
    result = input_map(cells(h, w), MapRule(cell_pixels, sigma=sigma, blur="box3"))
    for image, grid in zip(result.numpy(), cells(h, w).numpy(), strict=True):
        large = cv2.resize(grid, (w * cell_pixels, h * cell_pixels), interpolation=cv2.INTER_LINEAR)
        np.testing.assert_allclose(image, cv2.GaussianBlur(large, (3, 3), sigma), atol=1e-5)


def test_float64_stays_and_half_precision_is_raised():
    rule = MapRule(8)
    exact = input_map(cells(6, 6).double(), rule)
    assert exact.dtype == torch.float64
    np.testing.assert_allclose(input_map(cells(6, 6), rule).double(), exact, atol=1e-5)
    assert input_map(cells(6, 6).half(), rule).dtype == torch.float32


def test_an_image_has_the_same_map_alone_and_in_a_batch():
    rule = MapRule(8)
    batch = input_map(cells(28, 28, n=7), rule)
    for number in range(7):
        torch.testing.assert_close(input_map(cells(28, 28, n=7)[number : number + 1], rule)[0], batch[number])


@pytest.mark.parametrize(("H", "W"), [(300, 500), (1024, 640), (100, 90)])
@pytest.mark.parametrize("upsample", MODES)
def test_native_map_of_a_whole_frame_equals_resizing_the_input_map(H, W, upsample):
    rule = MapRule(14, upsample=upsample)
    grid = cells(16, 16)[0]
    expected = cv2.resize(input_map(grid[None], rule)[0].numpy(), (W, H), interpolation=cv2.INTER_LINEAR)
    result = native_map(grid, rule, whole_frame(H, W, 224, 224), outside=-9.0)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, atol=2e-4)  # OpenCV's own weights are that coarse


@pytest.mark.parametrize(("H", "W"), [(300, 500), (640, 100)])
def test_native_rule_stretches_over_the_cut_stripe_and_smooths_there(H, W):
    _, geometry = Preprocess(60, multiple=14)(Image.new("RGB", (W, H)))
    assert geometry.covered[2] < H
    h, w = (side // 14 for side in geometry.input)
    grid = cells(h, w)[0]
    stretched = cv2.resize(grid.numpy(), (W, H), interpolation=cv2.INTER_LINEAR)
    result = native_map(grid, MapRule(14, at="native"), geometry, outside=-9.0)
    np.testing.assert_allclose(result, scipy.ndimage.gaussian_filter(stretched, 4), atol=2e-4)


def test_crop_is_pasted_on_its_rectangle():
    """PatchCore's geometry by hand: 512 x 1024 to 256 x 512, crop 224 at 16 and 144, so native 32..480 and 288..736."""
    _, geometry = Preprocess(256, crop=224)(Image.new("RGB", (1024, 512)))
    grid = cells(28, 28)[0]
    result = native_map(grid, MapRule(8), geometry, outside=-9.0)
    inside = cv2.resize(input_map(grid[None], MapRule(8))[0].numpy(), (448, 448), interpolation=cv2.INTER_LINEAR)
    np.testing.assert_allclose(result[32:480, 288:736], inside, atol=2e-4)
    result[32:480, 288:736] = -9.0
    assert (result == -9.0).all()


PREPROCESS = {
    "short": Preprocess(64),
    "short-crop": Preprocess(72, crop=56),
    "short-multiple": Preprocess(61, multiple=8),
    "square": Preprocess(64, "square"),
    "square-crop": Preprocess(70, "square", crop=56),
    "pad": Preprocess(64, "pad"),
    "pad-crop": Preprocess(72, "pad", crop=56),
    "pad-multiple": Preprocess(61, "pad", multiple=8),
}


def native_centres(rule, h, w):
    """Where each cell lies, read off an image whose colours are its own coordinates: no geometry involved."""
    y, x = np.mgrid[:h, :w]
    scale = 255 / max(h, w)
    colours = np.rint(np.stack([y * scale, x * scale, np.full((h, w), 255)], axis=-1)).astype(np.uint8)
    plain = Preprocess(rule.size, rule.resize, rule.crop, rule.multiple, mean=(0, 0, 0), std=(1, 1, 1), scale=1.0)
    pixels, geometry = plain(Image.fromarray(colours))
    cell_means = torch.nn.functional.avg_pool2d(pixels, 8).numpy()
    return cell_means[:2] / scale + 0.5, cell_means[2] > 254.5, geometry


@pytest.mark.parametrize("name", PREPROCESS)
@pytest.mark.parametrize(("H", "W"), [(90, 90), (80, 150), (200, 120), (47, 62)])
@pytest.mark.parametrize("at", ["input", "native"])
def test_a_hot_cell_peaks_where_its_pixels_come_from(name, H, W, at):
    rule = PREPROCESS[name]
    (centre_y, centre_x), seen, geometry = native_centres(rule, H, W)
    h, w = seen.shape
    step_y = (geometry.covered[2] - geometry.covered[0]) / (geometry.valid[2] - geometry.valid[0])
    step_x = (geometry.covered[3] - geometry.covered[1]) / (geometry.valid[3] - geometry.valid[1])
    # At a border the peak may lie anywhere between the cell's centre and the edge, beyond pixels without a cell.
    reach_y = (4 + geometry.input[0] - 8 * h) * step_y + 1
    reach_x = (4 + geometry.input[1] - 8 * w) * step_x + 1
    # AnomalyDINO's stretch over the cut stripe displaces cells by up to the stripe, on purpose.
    stripe_y = H - geometry.covered[2] if at == "native" and geometry.covered[0] == 0 else 0.0
    stripe_x = W - geometry.covered[3] if at == "native" and geometry.covered[1] == 0 else 0.0
    checked = 0
    for i, j in zip(*np.nonzero(seen), strict=True):  # cells that show nothing but the image
        grid = torch.zeros(h, w)
        grid[i, j] = 1
        heat = native_map(grid, MapRule(8, sigma=1.0, at=at), geometry, outside=-1.0)
        peak_y, peak_x = np.unravel_index(heat.argmax(), heat.shape)
        off_y, off_x = abs(peak_y + 0.5 - centre_y[i, j]), abs(peak_x + 0.5 - centre_x[i, j])
        assert off_y <= reach_y + stripe_y
        assert off_x <= reach_x + stripe_x
        if 0 < i < h - 1 and 0 < j < w - 1 and seen[i - 1 : i + 2, j - 1 : j + 2].all():
            assert off_y <= 1 + step_y / 2 + stripe_y
            assert off_x <= 1 + step_x / 2 + stripe_x
            checked += 1
    assert checked > 0


@given(
    H=st.integers(2, 120),
    W=st.integers(2, 120),
    name=st.sampled_from(sorted(PREPROCESS)),
    value=st.floats(-100, 100),
    rule=st.builds(
        MapRule,
        st.just(8),
        sigma=st.sampled_from([0.0, 1.0, 4.0]),
        blur=st.sampled_from(["gaussian", "box3"]),
        at=st.sampled_from(["input", "native"]),
    ),
)
def test_a_constant_grid_stays_constant_and_the_outside_is_one_value(H, W, name, value, rule):
    if PREPROCESS[name].resize == "short" and max(H, W) > 4 * min(H, W):
        H = W
    _, geometry = PREPROCESS[name](Image.new("RGB", (W, H)))
    grid = torch.full(tuple(side // 8 for side in geometry.input), value)
    outside = outside_value(grid[None])
    heat = native_map(grid, rule, geometry, outside=outside)
    assert heat.shape == (H, W)
    is_outside = heat == np.float32(outside)
    np.testing.assert_allclose(heat[~is_outside], value, rtol=1e-5, atol=1e-6)
    assert not is_outside.all()
    rows, columns = np.flatnonzero(~is_outside.all(axis=1)), np.flatnonzero(~is_outside.all(axis=0))
    assert not is_outside[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].any()  # the inside is one rectangle
    covered = geometry.covered
    if rule.at == "input":
        assert abs(rows[0] - covered[0]) <= 1
        assert abs(rows[-1] + 1 - covered[2]) <= 1
        assert abs(columns[0] - covered[1]) <= 1
        assert abs(columns[-1] + 1 - covered[3]) <= 1


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=4, max_size=4), st.sampled_from(["gaussian", "box3"]))
def test_outside_value_is_below_every_pixel(values, blur):
    grid = torch.tensor(values).reshape(1, 2, 2)
    outside = outside_value(grid)
    assert np.float32(outside) < float(grid.min())
    assert np.float32(outside) < float(input_map(grid, MapRule(5, blur=blur)).min())


@pytest.mark.parametrize("side", [37, 40, 43])
def test_a_grid_that_does_not_divide_the_input_keeps_its_first_cell_at_the_first_pixel(side):
    grid = cells(5, 5)[0]
    large = np.pad(input_map(grid[None], MapRule(8))[0].numpy(), (0, 3), mode="edge")[:side, :side]
    result = native_map(grid, MapRule(8), whole_frame(side, side, side, side), outside=-9.0)
    np.testing.assert_allclose(result, large, atol=1e-5)


def test_a_rule_for_other_cells_is_refused():
    with pytest.raises(
        ShapeError, match=r"28 cells of 4 pixels must span the input's 224 pixels, got 112: give MapRule"
    ):
        native_map(torch.zeros(28, 28), MapRule(4), whole_frame(500, 500, 224, 224), outside=0.0)


@pytest.mark.parametrize("fraction", [0.0, 0.001, 0.01, 0.25, 0.5, 1.0])
def test_top_mean_equals_sorting(fraction):
    values = cells(10, 13).flatten(1)
    count = max(int(fraction * 130), 1)
    expected = [sum(sorted(row, reverse=True)[:count]) / count for row in values.tolist()]
    torch.testing.assert_close(top_mean(values, fraction), torch.tensor(expected))


def test_top_mean_counts_like_the_authors():
    assert top_mean(torch.arange(1024.0)[None], 0.01).item() == np.arange(1014, 1024).mean()  # 10 of 1024
    assert top_mean(torch.arange(99.0)[None], 0.01).item() == 98  # int(0.99) is 0: the maximum


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cell_pixels": 0}, r"MapRule\.cell_pixels must be a whole number of at least 1, got 0\."),
        ({"sigma": -1.0}, r"MapRule\.sigma must be a finite number of at least 0, got -1\.0: "),
        ({"sigma": float("nan")}, r"MapRule\.sigma must be a finite number of at least 0, got nan: "),
        ({"upsample": "bicubic"}, r"MapRule\.upsample must be one of bilinear, nearest, corners, got 'bicubic'\."),
        ({"blur": "median"}, r"MapRule\.blur must be one of gaussian, box3, got 'median'\."),
        ({"at": "cell"}, r"MapRule\.at must be one of input, native, got 'cell'\."),
        ({"at": "native", "upsample": "nearest"}, r"at='native' stretches bilinearly, got upsample='nearest': use at="),
    ],
)
def test_bad_rules_are_refused(options, sentence):
    with pytest.raises(DataError, match=sentence):
        MapRule(**{"cell_pixels": 8, **options})


def test_bad_shapes_and_values_are_refused():
    with pytest.raises(ShapeError, match=r"input_map needs cell scores \(n, h, w\), got \(3, 4\)"):
        input_map(torch.zeros(3, 4), MapRule(8))
    with pytest.raises(ShapeError, match=r"native_map needs the cell scores of one image \(h, w\), got \(1, 3, 4\)"):
        native_map(torch.zeros(1, 3, 4), MapRule(8), whole_frame(9, 9, 24, 32), outside=0.0)
    with pytest.raises(ShapeError, match=r"top_mean needs values \(n, p\) with p of at least 1, got \(2, 0\)"):
        top_mean(torch.zeros(2, 0), 0.1)
    with pytest.raises(DataError, match=r"top_mean needs a fraction between 0 and 1, got 1\.5"):
        top_mean(torch.zeros(2, 3), 1.5)
    with pytest.raises(DataError, match="needs finite cell scores of at least one image, got NaN or infinite scores"):
        outside_value(torch.tensor([[[1.0, float("nan")]]]))
    with pytest.raises(DataError, match="got no scores"):
        outside_value(torch.zeros(0, 2, 2))
