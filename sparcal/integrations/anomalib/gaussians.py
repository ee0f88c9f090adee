"""Padim's Gaussians, all cells of a block at once: anomalib's loop over cells would take most of a calibration's time."""

from __future__ import annotations

import torch
from torch import Tensor

from sparcal.detectors.padim import cell_blocks, kernel_state

RIDGE = 0.01 + 1e-5  # anomalib adds both to the diagonal, one after the other


def cell_gaussians(level: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (d, h w) and inverse covariance (h w, d, d) of (n, h, w, d) features at each cell, as Padim keeps them.

    With fewer images than channels the inverse follows from an images x images system; see `kernel_state`.
    """
    n, h, w, d = level.shape
    mean, inverse = level.new_empty(h * w, d), level.new_empty(h * w, d, d)
    identity = torch.eye(d, dtype=torch.float64, device=level.device)
    for block, x in cell_blocks(level, torch.arange(d)):
        centre = x.mean(dim=1, keepdim=True)
        x.sub_(centre)
        if n <= d:
            kernel = kernel_state(x, RIDGE)
            found = (identity - kernel.mT @ kernel) / RIDGE
        else:
            found = torch.linalg.inv(x.mT @ x / (n - 1) + RIDGE * identity)
        mean[block], inverse[block] = centre[:, 0].to(level.dtype), found.to(level.dtype)
    return mean.mT.contiguous(), inverse
