"""A lot's state as a file: comes back whole, and damaged or foreign ones are refused."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from sparcal.errors import ArtifactError, FullDiskError, MissingExtraError, ShapeError
from sparcal.export.lot_state import LotFacts, LotState, check_shapes, read_lot_state, write_lot_state


def some_state():
    return LotState(
        LotFacts("L", 0.25, -1.0, ((4, 5, True),)),
        "signature",
        {"bank": np.ones((3, 2), np.float32), "threshold": np.array(0.5, np.float32)},
    )


def test_a_state_comes_back_whole(tmp_path):
    state = read_lot_state(write_lot_state(some_state(), tmp_path / "s.safetensors"))
    assert (state.facts, state.signature, state.threshold) == (some_state().facts, "signature", 0.5)
    np.testing.assert_array_equal(state.arrays["bank"], np.ones((3, 2)))


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.numpy.save_file", full)
    with pytest.raises(FullDiskError, match="needs more free space on its disk, got"):
        write_lot_state(some_state(), tmp_path / "L1.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_too_little_room_is_said_in_numbers_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=9))
    with pytest.raises(
        FullDiskError, match=r"^A lot's state needs about 28 bytes at .*L1, got 9 bytes free: make room"
    ):
        write_lot_state(some_state(), tmp_path / "L1")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_export_left_behind_is_swept_by_the_next(tmp_path):
    """A child is killed while it writes the same or another lot's state."""
    code = (
        "import os, signal, sys, safetensors.numpy as s\n"
        "from tests.export.test_lot_state import some_state, write_lot_state\n"
        "s.save_file = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_lot_state(some_state(), sys.argv[1])"
    )
    for name in ("L1.safetensors", "other"):
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], check=False)
        assert done.returncode == -signal.SIGKILL
        assert [path.name.startswith(f".{name}.") for path in tmp_path.iterdir()] == [True]
    (tmp_path / ".mine.1.tmp").write_text("of another program")
    write_lot_state(some_state(), tmp_path / "L1.safetensors")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mine.1.tmp", "L1.safetensors"]


def test_damaged_and_foreign_states_are_refused(tmp_path):
    path = write_lot_state(some_state(), tmp_path / "s.safetensors")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    (tmp_path / "flipped").write_bytes(content)
    with pytest.raises(ArtifactError, match="flipped does not match its own digest"):
        read_lot_state(tmp_path / "flipped")
    (tmp_path / "cut").write_bytes(content[:-5])
    with pytest.raises(ArtifactError, match="cut is damaged or not a safetensors file"):
        read_lot_state(tmp_path / "cut")
    with pytest.raises(ArtifactError, match="expected at .*none, got no file"):
        read_lot_state(tmp_path / "none")
    from safetensors.torch import save_file

    save_file({"x": torch.ones(1)}, tmp_path / "foreign")
    with pytest.raises(ArtifactError, match="foreign is not the state of a lot"):
        read_lot_state(tmp_path / "foreign")


def test_a_state_of_another_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sparcal.export.lot_state.STATE_FORMAT", 2)
    path = write_lot_state(some_state(), tmp_path / "s.safetensors")
    monkeypatch.undo()
    with pytest.raises(ArtifactError, match="has format 2, this sparcal reads 1"):
        read_lot_state(path)


def test_reading_a_state_without_safetensors_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingExtraError, match="run pip install safetensors"):
        read_lot_state(tmp_path / "s.safetensors")


def test_shapes_must_fit():
    check_shapes({"a": (5, 2), "b": ()}, {"a": ("m", 2), "b": ()}, "The lot 'L'")
    with pytest.raises(ShapeError, match=r"The lot 'L' must give a as \(m, 2\), got \(5, 3\)"):
        check_shapes({"a": (5, 3), "b": ()}, {"a": ("m", 2), "b": ()}, "The lot 'L'")
    with pytest.raises(ShapeError, match=r"must give a as \(m, 2\), got \(5,\)"):
        check_shapes({"a": (5,), "b": ()}, {"a": ("m", 2), "b": ()}, "The lot 'L'")
    with pytest.raises(ShapeError, match="must give the tensors a, b, got a"):
        check_shapes({"a": (5, 2)}, {"a": ("m", 2), "b": ()}, "The lot 'L'")
