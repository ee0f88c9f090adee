"""SPARC's compiled loops against the torch version beside them, over ranks, sizes and every incomplete four of rows."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sparcal import sparc, sparc_kernels
from sparcal.sparc import RANK_TOLERANCE, SPARC
from sparcal.types import Features


def calibration(seed: int, k: int, d: int, scale: float, spread: float) -> Tensor:
    """(k, 2, 3, d): all images coincide in the first cell, two of them in the second, nothing is there in the last."""
    random = torch.Generator().manual_seed(seed)
    x = scale * (torch.randn(1, 2, 3, d, generator=random) + spread * torch.randn(k, 2, 3, d, generator=random))
    x[:, 0, 0] = x[0, 0, 0]
    x[1, 0, 1] = x[0, 0, 1]
    x[:, 1, 2] = 0
    return x


def both(x: Tensor, rank: int, threads: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Mean, basis and kept rank by torch, then by the compiled loops."""
    d = x.shape[-1]
    made = []
    for route in ("torch", "compiled"):
        out = torch.full((6, d), torch.nan), torch.full((6, rank, d), torch.nan), torch.empty(6, dtype=torch.int64)
        if route == "torch":
            sparc._fill_subspaces(x, rank, out)
        else:
            arrays = tuple(part.numpy() for part in out)
            sparc_kernels.fill_subspaces(x.flatten(1, 2).numpy(), rank, RANK_TOLERANCE, arrays, threads)
        made.append(out)
    return made


def projectors(basis: Tensor) -> Tensor:
    return basis.mT.double() @ basis.double()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(2, 32),
    d=st.sampled_from([1, 3, 7, 64, 513]),
    scale=st.sampled_from([1e-2, 1.0, 50.0]),
    spread=st.sampled_from([1e-8, 1e-3, 1.0]),
    data=st.data(),
)
def test_fits_what_torch_fits(seed, k, d, scale, spread, data):
    rank = data.draw(st.integers(1, k - 1))
    x = calibration(seed, k, d, scale, spread)
    before = x.clone()
    (mean, basis, kept), (own_mean, own_basis, own_kept) = both(x, rank, data.draw(st.sampled_from([1, 2])))
    assert torch.equal(x, before)
    assert torch.equal(own_kept, kept)
    assert own_kept[0] == own_kept[5] == 0
    torch.testing.assert_close(own_mean, mean, rtol=1e-6, atol=1e-6 * scale)
    assert torch.equal((own_basis != 0).any(dim=-1).sum(dim=-1), own_kept)
    grams = own_basis.double() @ own_basis.mT.double()
    wanted = torch.diag_embed((torch.arange(rank) < own_kept[:, None]).double())
    torch.testing.assert_close(grams, wanted, rtol=0, atol=1e-5)  # orthonormal, then zero
    torch.testing.assert_close(projectors(own_basis), projectors(basis), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("noise", "expected"), [(1e-8, 0), (1e-2, 7)])
def test_rank_is_judged_against_the_raw_scale(noise, expected):
    x = calibration(0, 8, 64, 100.0, noise)
    x[:] = 1000 + x  # rounds at 6e-5
    assert both(x, 7, 1)[1][2][2:5].tolist() == [expected] * 3


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 9),
    k=st.integers(2, 32),
    d=st.sampled_from([1, 7, 64, 513]),
    moved=st.booleans(),
    threads=st.sampled_from([1, 2, 3]),
)
def test_removes_what_eq_7_removes(seed, n, k, d, moved, threads):
    mean, basis, _ = both(calibration(seed, k, d, 1.0, 1.0), k - 1, 1)[0]
    random = torch.Generator().manual_seed(seed + 1)
    f, offset = torch.randn(n, 6, d, generator=random), torch.randn(6, d, generator=random)
    shift = offset if moved else torch.empty(0, d)
    state = mean.numpy(), basis.numpy(), shift.numpy()
    got = project(f, state, threads)
    given = f + offset if moved else f
    amount = torch.einsum("csd,ncd->ncs", basis.double(), given.double() - mean.double())
    want = given.double() - torch.einsum("csd,ncs->ncd", basis.double(), amount)
    torch.testing.assert_close(got.double(), want, rtol=0, atol=2e-5)
    assert torch.equal(got[:, 0], given[:, 0])  # no direction there: untouched
    for image in range(n):
        assert torch.equal(project(f[image : image + 1], state, 1)[0], got[image])  # alone as among others


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(2, 12), d=st.sampled_from([1, 7, 64, 513]), moved=st.booleans())
def test_single_rows_are_corrected_as_whole_grids_are(seed, k, d, moved):
    mean, basis, _ = both(calibration(seed, k, d, 1.0, 1.0), k - 1, 1)[0]
    random = torch.Generator().manual_seed(seed + 1)
    m = int(torch.randint(0, 30, (1,), generator=random))
    cells = torch.randint(0, 6, (m,), generator=random).sort().values  # some cells have many rows, some none
    f, offset = torch.randn(m, d, generator=random), torch.randn(6, d, generator=random)
    given = f + offset[cells] if moved else f
    amount = torch.einsum("msd,md->ms", basis[cells].double(), given.double() - mean[cells].double())
    want = given.double() - torch.einsum("msd,ms->md", basis[cells].double(), amount)
    grid = mean.unflatten(0, (2, 3)), basis.unflatten(0, (2, 3)), offset.unflatten(0, (2, 3)) if moved else None
    for tiny in (sparc.SMALL_BASIS, -1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sparc, "SMALL_BASIS", tiny)
            got = sparc.project_rows_out(f, cells, *grid)
        torch.testing.assert_close(got.double(), want, rtol=0, atol=2e-5)


def project(f: Tensor, state: tuple[np.ndarray, ...], threads: int) -> Tensor:
    out = torch.full_like(f, torch.nan)
    sparc_kernels.fill_projected(f.numpy(), state, out.numpy(), threads)
    return out


@pytest.mark.parametrize("recentre", ["none", "cell"])
def test_sparc_is_the_same_by_either_route(monkeypatch, recentre):
    normals, images = calibration(0, 8, 48, 1.0, 1.0), calibration(1, 5, 48, 1.0, 1.0)
    found = []
    for tiny in (sparc.SMALL_BASIS, 0):
        monkeypatch.setattr(sparc, "SMALL_BASIS", tiny)
        assert (sparc._loops(normals.numel(), normals) is None) == (tiny > 0)
        fitted = SPARC(recentre=recentre).fit(Features((normals,)), Features((images,)))
        found.append((fitted.apply_reference(Features((images,))).levels[0], fitted.rank_[0]))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=0, atol=1e-5)
    assert torch.equal(found[1][1], found[0][1])


def test_torch_keeps_what_the_loops_do_not_take(monkeypatch):
    x = torch.randn(4, 2, 3, 8)
    assert sparc._loops(sparc.SMALL_BASIS, x) is None  # too small to repay an import
    monkeypatch.setattr(sparc, "SMALL_BASIS", 0)
    assert sparc._loops(x.numel(), x) is sparc_kernels
    for other in (x.double(), x.half(), x.mT, x[:, :1], x.to("meta")):
        assert sparc._loops(x.numel(), x, other) is None
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "sparcal.sparc_kernels")
    assert sparc._loops(x.numel(), x) is None


def test_gradients_are_no_obstacle(monkeypatch):
    monkeypatch.setattr(sparc, "SMALL_BASIS", 0)
    x = torch.randn(4, 2, 3, 8, requires_grad=True)
    fitted = SPARC().fit(Features((x,)))
    assert not fitted.apply(Features((x,))).levels[0].requires_grad
