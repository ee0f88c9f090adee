"""A full disk: it is told, and the reserve lets people make room."""

from __future__ import annotations

import sqlite3

import pytest

from sparcal.server.data import room
from sparcal.server.data.room import Reserve, has_room, is_full


def test_a_full_disk_is_told_from_other_trouble(database):
    assert is_full(OSError(28, "No space left on device"))
    assert not is_full(OSError(13, "Permission denied"))
    assert not is_full(ValueError("full"))
    with database.write() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(sqlite3.OperationalError, match="full") as raised:
            connection.execute("INSERT INTO images VALUES (?, 'a', 1, 'png', 'new', 1, 1, NULL, '')", ("x" * 10**6,))
    assert is_full(raised.value)
    with pytest.raises(sqlite3.OperationalError) as raised, database.write() as connection:
        connection.execute("SELECT * FROM nothing")
    assert not is_full(raised.value)


def test_the_reserve_is_given_up_once_and_set_aside_again(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "RESERVE", 4096)
    reserve = Reserve(tmp_path)
    reserve.keep()
    kept = tmp_path / "reserve"
    assert kept.stat().st_size == 4096
    tries = []

    def forget():
        tries.append(kept.exists())
        if kept.exists():
            raise OSError(28, "No space left on device")
        return 7

    assert reserve.use(forget) == 7
    assert (tries, kept.exists()) == ([True, False], True)

    def fail():
        raise OSError(13, "Permission denied")

    with pytest.raises(PermissionError):
        reserve.use(fail)
    assert kept.exists()


def test_nothing_is_set_aside_where_there_is_no_room(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "LEAST_FREE", 2**62)
    assert not has_room(tmp_path)
    Reserve(tmp_path).keep()
    assert not (tmp_path / "reserve").exists()
