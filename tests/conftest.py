"""Settings that all tests share: a small thread budget, so that parallel test workers do not fight for cores."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

torch.set_num_threads(1)
