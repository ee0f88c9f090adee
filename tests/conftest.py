"""Settings that all tests share: a small thread budget, so that parallel test workers do not fight for cores; no cards;
signals that mean what they mean at a terminal, whoever starts the tests."""

from __future__ import annotations

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")
if "SPARCAL_TEST_GPU" not in os.environ:
    os.environ["CUDA_VISIBLE_DEVICES"] = (
        ""  # tests mean the processor, whatever this machine has; make test-gpu does not
    )

import torch

torch.set_num_threads(1)

# nohup and a shell's background ignore these, and every command that a test starts would inherit that.
for number, meaning in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, meaning)
