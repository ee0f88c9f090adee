"""A file is whole or absent, and as readable as its neighbours."""

from __future__ import annotations

import os

import pytest

from sparcal.files.atomic import atomic_path


def test_the_file_appears_when_the_block_ends_well(tmp_path):
    target = tmp_path / "deep" / "a.txt"
    with atomic_path(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
        assert temporary.parent == target.parent
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_path(target) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "old")]


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_path(tmp_path / "a") as temporary:
            temporary.write_text("")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
