"""Settings that all tests share: a small thread budget, so that parallel test workers do not fight for cores; no cards."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
if "SPARCAL_TEST_GPU" not in os.environ:
    os.environ["CUDA_VISIBLE_DEVICES"] = (
        ""  # tests mean the processor, whatever this machine has; make test-gpu does not
    )

import torch

torch.set_num_threads(1)
