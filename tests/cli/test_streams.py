"""Standard streams that are full, closed, or read by somebody who has gone: one sentence or none, and the right code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SPARCAL = f"exec {sys.executable} -m sparcal"
FULL = "Error: Standard output takes no more: No space left on device. What was done before stands.\n"


def shell(line, cwd):
    """Exit code and what was said, by a call as somebody types it."""
    done = subprocess.run(["bash", "-c", line], cwd=cwd, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", ["lots station", "lots station --json", "lots station --history", "bench fidelity"])
def test_standard_output_on_a_full_disk(calibrated_line, words):
    assert shell(f"{SPARCAL} {words} > /dev/full", calibrated_line) == (1, "", FULL)


@pytest.mark.parametrize("words", ["lots station", "lots station --json", "bench fidelity", "--version"])
def test_a_closed_standard_output_is_nobody_listening(calibrated_line, words):
    assert shell(f"{SPARCAL} {words} >&-", calibrated_line) == (0, "", "")
    assert shell(f"{SPARCAL} {words} >&- 2>&- <&-", calibrated_line) == (0, "", "")


@pytest.mark.parametrize("where", ["2> /dev/full", "2>&-", "2> >(true)"])
def test_what_nobody_can_read_changes_no_exit_code(calibrated_line, where):
    assert shell(f"{SPARCAL} lots nowhere {where}", calibrated_line) == (2, "", "")
    assert shell(f"{SPARCAL} bench {where}", calibrated_line) == (2, "", "")
    code, told, _ = shell(f"{SPARCAL} lots station --activate L1 {where}", calibrated_line)
    assert code == 0
    assert "L1" in told


@pytest.mark.parametrize("words", ["lots station", "lots station --json", "bench fidelity", "--help"])
def test_a_reader_that_has_gone_gets_silence(calibrated_line, words):
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "sparcal", *words.split()]
        done = subprocess.run(
            command, cwd=calibrated_line, stdout=write, stderr=subprocess.PIPE, check=False, timeout=120
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")
