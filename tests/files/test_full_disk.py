"""A full disk is told in one sentence, whichever library noticed it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sparcal.errors import FullDiskError, SparcalError
from sparcal.files.full_disk import needs_room, require_free_room, says_full


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"), True),
        (FullDiskError("/s needs free space"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (OSError("28"), False),
        (ValueError("28"), False),
    ],
)
def test_what_says_that_a_disk_is_full(error, full):
    assert says_full(error) == full


def test_it_becomes_one_sentence_with_what_to_do():
    with pytest.raises(FullDiskError) as caught, needs_room(Path("/line/station")):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(caught.value) == (
        "/line/station needs more free space on its disk, got nothing free: make room and do the same again; what was there before "
        "is unchanged."
    )
    assert isinstance(caught.value, SparcalError)
    assert caught.value.errno == errno.ENOSPC
    assert isinstance(caught.value.__cause__, OSError)


def test_it_is_told_once():
    with pytest.raises(FullDiskError, match="^/inner needs"), needs_room(Path("/outer")), needs_room(Path("/inner")):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_too_little_room_is_refused_with_both_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 300_000_000}))
    require_free_room(tmp_path / "not" / "there", 300_000_000, "A fit", "go")
    with pytest.raises(
        FullDiskError, match=r"A fit needs about 1.2 GB at .*there, got 300 MB free: make room, or go\."
    ):
        require_free_room(tmp_path / "not" / "there", 1_200_000_000, "A fit", "go")


def test_other_errors_pass():
    with pytest.raises(PermissionError), needs_room(Path("/s")):
        raise PermissionError(errno.EACCES, "Permission denied")
