"""A disk that is really full: the station says so, holds still, lets people forget images, and goes on when there is room."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress

import pytest

from tests.support.served import children, serve

SIZE_MB = 400


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own in memory; only root may make one."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("a small file system can be mounted by root only")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(path):
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        with suppress(OSError):  # the one that says that it is full
            while True:
                os.write(handle, bytes(2**16))
    finally:
        os.close(handle)


def test_a_full_disk_loses_nothing_and_stops_nobody_from_making_room(parts_and_station, parts, small_disk):
    shutil.copytree(parts_and_station[1], small_disk / "line-3")
    with serve(small_disk / "line-3") as station:
        station.send("/inspection/images", parts.good[:3])
        station.idle()
        station.wait((small_disk / "line-3/web/reserve").exists)
        station.send("/inspection/images", parts.good[3:5])
        fill(small_disk / "filler")
        workers = children(station.process.pid)
        refused = station.client.post("/api/inspection/images", content=parts.good[6][1])
        assert refused.status_code == 507
        assert "disk is full" in refused.json()["error"]
        station.wait(lambda: station.get("/state")["trouble"])
        forgot = station.post("/inspection/forget", {"operator": "A. Roth", "lot": "", "overruled": False})
        assert forgot["images"] >= 3, "which needs the reserve"
        assert children(station.process.pid) == workers, "the worker held still"
        (small_disk / "filler").unlink()
        station.idle()
        rows = station.get("/scores")["scores"]
        assert sorted(row["name"] for row in rows) == sorted(name for name, _ in parts.good[:5])
        assert all(row["score"] is not None for row in rows)
