"""What goes wrong: bombs, two browsers at once, killed workers and servers. Nothing that was answered is lost."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx

from sparcal.files.hashing import file_digest
from sparcal.station.folder import StationFolder
from tests.support.served import PATIENT_S, children, serve


def pixel_bomb(side=60_000):
    """A few bytes that announce 3.6 gigapixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 100_000))
        + chunk(b"IEND", b"")
    )


def against(row):
    """What somebody finds who does not agree with the station."""
    return "good" if row["verdict"] == "fail" else "defective"


def test_bombs_and_damage_are_refused_by_the_worker_with_a_sentence(served, parts, record_property):
    draft = served.post("/drafts", {"name": "bombs"})["id"]
    whole = parts.good[0][1]
    files = [
        ("bomb.png", pixel_bomb()),
        ("cut.png", whole[: len(whole) // 2]),
        ("lie.png", b"\xff\xd8\xff" + b"x" * 500),
    ]
    served.send(f"/drafts/{draft}/images", files)
    served.send("/inspection/images", files)
    served.idle()
    record_property("tried", 2 * len(files))
    images = {image["name"]: image for image in served.get(f"/drafts/{draft}")["images"]}
    assert {image["state"] for image in images.values()} == {"refused"}
    assert "must have at most 89000000 pixels" in images["bomb.png"]["problem"]
    assert all(name in image["problem"] and "/" not in image["problem"] for name, image in images.items())
    rows = served.get("/scores", params={"show": "error"})["scores"]
    assert sorted(row["name"] for row in rows) == ["bomb.png", "cut.png", "lie.png"]
    assert all(row["verdict"] is None and row["problem"] for row in rows)
    refused = served.client.post(f"/api/scores/{rows[0]['id']}/decision", json={"finding": "good", "operator": "A"})
    assert refused.status_code == 409
    served.post(f"/drafts/{draft}/decision", {"decision": "discard", "operator": "A. Roth"})


def test_two_browsers_calibrating_at_once_make_one_lot(served, parts, record_property):
    draft = served.post("/drafts", {"name": "twice"})["id"]
    shas = served.send(f"/drafts/{draft}/images", parts.good[:4])
    served.client.put(f"/api/drafts/{draft}/good", json={"images": shas})
    again = served.client.post("/api/drafts", json={"name": "twice"})
    assert (again.status_code, "is open already" in again.json()["error"]) == (409, True)

    def calibrate(operator):
        body = {"operator": operator, "images": shas, "false_reject": 0.1}
        return served.client.post(f"/api/drafts/{draft}/calibrate", json=body).status_code

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(calibrate, [f"operator {n}" for n in range(8)]))
    assert answers == [202] + [409] * 7
    served.wait(lambda: served.get(f"/drafts/{draft}")["state"] == "calibrated")
    assert [lot["name"] for lot in served.get("/lots")["lots"]] == ["twice"]

    def decide(outcome):
        body = {"decision": outcome, "operator": outcome}
        return served.client.post(f"/api/drafts/{draft}/decision", json=body).status_code

    with ThreadPoolExecutor(6) as pool:
        answers = sorted(pool.map(decide, ["accept", "keep", "discard"] * 2))
    assert answers == [200] + [409] * 5
    record_property("tried", 8 + 6)
    said = [entry["kind"] for entry in served.get("/audit")["entries"] if entry["lot"] == "twice"]
    assert len([kind for kind in said if kind in ("accept", "keep", "discard")]) == 1


def test_a_killed_worker_comes_back_and_finishes(served, parts, record_property):
    served.send("/inspection/images", parts.good + parts.bad)
    expected = len(parts.good + parts.bad)
    record_property("tried", 2)
    for number in range(2):
        served.wait(
            lambda n=number: (
                served.get("/scores")["counts"]["passed"] + served.get("/scores")["counts"]["failed"] > 2 * n
            )
        )
        worker = served.wait(lambda: children(served.process.pid))[0]
        os.kill(worker, signal.SIGKILL)
        served.wait(lambda old=worker: [pid for pid in children(served.process.pid) if pid != old])
        for job in served.get("/jobs")["jobs"]:
            if job["state"] == "interrupted":
                served.post(f"/jobs/{job['id']}/retry")
    served.wait(lambda: all(j["state"] not in ("queued", "running") for j in served.get("/jobs")["jobs"]))
    for job in served.get("/jobs")["jobs"]:
        if job["state"] == "interrupted":
            served.post(f"/jobs/{job['id']}/retry")
    served.idle()
    counts = served.get("/scores")["counts"]
    assert counts["passed"] + counts["failed"] == expected
    again = {row["sha"]: row["score"] for row in served.get("/scores")["scores"] if row["score"] is not None}
    assert len(again) == expected, "no image is judged twice"


def started(station, name, files):
    """A calibration that was just asked for: its draft and its job."""
    draft = station.post("/drafts", {"name": name})["id"]
    shas = station.send(f"/drafts/{draft}/images", files)
    station.idle()
    station.client.put(f"/api/drafts/{draft}/good", json={"images": shas[:4]})
    station.idle()
    body = {"operator": "M. Weber", "images": shas[:4], "false_reject": 0.1}
    return draft, station.post(f"/drafts/{draft}/calibrate", body)["job"]


def state_of(station, job):
    return next(each for each in station.get("/jobs")["jobs"] if each["id"] == job)["state"]


def begun_since(station, draft, last):
    """When a worker began a draft's calibration, if one has since `last`."""
    job = station.get(f"/drafts/{draft}")["job"]
    return job["started"] if job["state"] == "running" and job["started"] != last else None


def kill_worker(station):
    worker = station.wait(lambda: children(station.process.pid))[0]
    os.kill(worker, signal.SIGKILL)
    station.wait(lambda: worker not in children(station.process.pid))


def assert_lots_are_whole(path, names):
    """Every lot there is can be read, and each of its files is the one that was written."""
    folder = StationFolder(path)
    lots = folder.read_lots()
    assert [lot["name"] for lot in lots] == names
    for lot in lots:
        assert len(lot["files"]) > 0
        for name, digest in lot["files"].items():
            assert file_digest(folder.lot(lot["name"]) / name) == digest


def test_a_worker_killed_while_it_calibrates_leaves_no_partial_lot_and_no_decision_is_lost(
    parts_and_station, parts, tmp_path, record_property
):
    record_property("tried", 4)
    path = tmp_path / "line-3"
    shutil.copytree(parts_and_station[1], path)
    with serve(path) as station:
        station.send("/inspection/images", parts.bad[:1])
        row = station.wait(lambda: station.get("/scores")["scores"])[0]
        station.post(f"/scores/{row['id']}/decision", {"finding": against(row), "operator": "A. Roth"})

        draft, job = started(station, "early", parts.good[:6])
        station.wait(lambda: state_of(station, job) == "running")
        kill_worker(station)
        assert_lots_are_whole(path, [])
        station.wait(lambda: state_of(station, job) == "done")  # resumed by the next worker
        assert station.get(f"/drafts/{draft}")["state"] == "calibrated"
        assert_lots_are_whole(path, ["early"])
        station.post(f"/drafts/{draft}/decision", {"decision": "accept", "operator": "M. Weber"})

        draft, job = started(station, "late", parts.good[1:9])
        station.wait(lambda: station.get(f"/drafts/{draft}")["state"] == "calibrated")
        kill_worker(station)  # the lot is written, its images are being compared
        assert_lots_are_whole(path, ["early", "late"])
        station.wait(lambda: state_of(station, job) == "done")
        compared = station.get(f"/drafts/{draft}")["images"]
        assert all(image["comparison"] for image in compared)
        assert_lots_are_whole(path, ["early", "late"])

        draft, job = started(station, "twice", parts.good[2:6])
        begun = None
        for _ in range(2):  # until another worker has begun, the job still runs by name
            begun = station.wait(lambda last=begun: begun_since(station, draft, last))
            kill_worker(station)
        station.wait(lambda: state_of(station, job) == "interrupted")
        found = station.get(f"/drafts/{draft}")
        assert (found["state"], found["job"]["message"]) == ("open", "The worker stopped twice while doing this.")
        assert_lots_are_whole(path, ["early", "late"])
        station.post(f"/jobs/{job}/retry")
        station.wait(lambda: state_of(station, job) == "done")
        assert_lots_are_whole(path, ["early", "late", "twice"])

        assert station.get("/state")["active"]["name"] == "early"
        assert station.get(f"/scores/{row['id']}")["overruled"]
        said = [entry["kind"] for entry in station.get("/audit")["entries"]]
        assert (said.count("accept"), said.count("overrule"), said.count("calibrate")) == (1, 1, 3)
    assert not list(path.glob(".tmp-*")), "what the dead left half-written is gone"


def test_a_running_job_can_be_cancelled(served, parts):
    before = served.get("/scores")["counts"]["scored"]
    assert before > 0
    draft = served.post("/drafts", {"name": "never mind"})["id"]
    shas = served.send(f"/drafts/{draft}/images", parts.good[:6])
    served.client.put(f"/api/drafts/{draft}/good", json={"images": shas})
    job = served.post(f"/drafts/{draft}/calibrate", {"operator": "M. Weber", "images": shas})["job"]
    served.wait(lambda: next(j for j in served.get("/jobs")["jobs"] if j["id"] == job)["state"] == "running")
    served.post(f"/jobs/{job}/cancel")
    served.wait(lambda: served.get(f"/drafts/{draft}")["state"] in ("open", "calibrated"))
    found = served.get(f"/drafts/{draft}")
    assert found["state"] == "open"
    assert found["job"]["message"] == "Stopped by the operator."
    assert "never mind" not in [lot["name"] for lot in served.get("/lots")["lots"]]


def test_a_killed_server_loses_no_accepted_lot_and_no_decision(parts_and_station, parts, tmp_path):
    path = tmp_path / "line-3"
    shutil.copytree(parts_and_station[1], path)
    with serve(path) as first:
        draft = first.calibrated("L1", parts.good[:4])
        first.post(f"/drafts/{draft}/decision", {"decision": "accept", "operator": "M. Weber"})
        first.send("/inspection/images", parts.good[4:8] + parts.bad[:2])
        row = first.wait(lambda: first.get("/scores")["scores"])[0]
        first.post(f"/scores/{row['id']}/decision", {"finding": against(row), "operator": "A. Roth"})
        worker = children(first.process.pid)[0]
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
        deadline = time.monotonic() + PATIENT_S
        while Path(f"/proc/{worker}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not Path(f"/proc/{worker}").exists(), "the worker leaves with its server"
    with serve(path) as second:
        active = second.get("/state")["active"]
        assert (active["name"], active["operator"]) == ("L1", "M. Weber")
        assert second.get(f"/scores/{row['id']}")["overruled"]
        second.idle()
        assert second.get("/scores")["counts"]["scored"] == 6, "what was asked for before is done after"
        assert {e["kind"] for e in second.get("/audit")["entries"]} >= {"accept", "overrule"}


def test_a_gigabyte_is_cut_off_while_it_comes(served):
    sent = 0

    def endless():
        nonlocal sent
        yield b"\x89PNG\r\n\x1a\n"
        while sent < 2**30:
            sent += 2**20
            yield bytes(2**20)

    with suppress(httpx.TransportError):  # the server may hang up before it is asked for its answer
        assert served.client.post("/api/inspection/images", content=endless()).status_code == 413
    assert sent < 2**29
