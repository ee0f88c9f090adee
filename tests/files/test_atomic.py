"""A file is whole or absent, and as readable as its neighbours."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sparcal.errors import DataError, PlaceError
from sparcal.files.atomic import (
    atomic_path,
    passing_folder,
    remove_left_behind,
    require_folder,
    require_folder_place,
)


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


def test_a_device_or_a_folder_is_never_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("folder", "pipe", "null"):
        with (
            pytest.raises(DataError, match=f"written to .*{name}, got a folder, device or pipe there"),
            atomic_path(tmp_path / name),
        ):
            raise AssertionError("nothing is written")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "null", "pipe"]
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "null").is_symlink()


def test_a_folder_is_made_unless_a_file_is_in_the_way(tmp_path):
    for _ in range(2):
        require_folder(tmp_path / "a" / "b", "Judging")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "c" / "d"):
        with pytest.raises(DataError, match=r"^Judging needs a folder, got the file .*/file: choose another place\.$"):
            require_folder(path, "Judging")


def test_a_link_that_leads_nowhere_is_no_folder_and_nothing_is_made(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("loop", "dangling", "loop/a", "dangling/a/b"):
        with pytest.raises(PlaceError, match=r"^Judging needs a folder, got the link .*, which leads nowhere: choose"):
            require_folder_place(tmp_path / name, "Judging")
    require_folder_place(tmp_path / "a" / "b", "Judging")
    with pytest.raises(PlaceError, match=r"^Judging's folder must be a path .*, got a name of 300 bytes\.$"):
        require_folder(tmp_path / ("x" * 300), "Judging")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "loop"]


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_path(tmp_path / "a") as temporary:
            temporary.write_text("")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_what_killed_writers_left_behind_is_removed_and_nothing_else(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    dead = tmp_path / f".a.txt.abcd1234.{ended.pid}.tmp"
    others = [tmp_path / name for name in (f".a.txt.abcd1234.{os.getpid()}.tmp", ".mine.tmp", "a.1.tmp", ".a.x.tmp")]
    for path in (dead, *others):
        path.write_text("half")
    remove_left_behind(tmp_path)
    remove_left_behind(tmp_path / "nowhere")
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_a_temporary_file_names_its_writer(tmp_path):
    with atomic_path(tmp_path / "a.txt") as temporary:
        assert temporary.name.endswith(f".{os.getpid()}.tmp")


def test_a_passing_folder_vanishes_and_takes_along_what_killed_writers_left(tmp_path):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left, living = tmp_path / f".export-{int(gone.stdout)}-abc", tmp_path / f".export-{os.getppid()}-abc"
    for folder in (left, living):
        folder.mkdir()
        (folder / "model.onnx").write_bytes(b"half")
    with passing_folder(tmp_path, "export") as made:
        (made / "x").write_text("x")
        assert not left.exists()
    assert not made.exists()
    assert living.exists()
