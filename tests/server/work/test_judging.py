"""Judging: an image that arrives is decoded once and hashed once."""

from __future__ import annotations

import hashlib

import pytest

from sparcal.imaging import decode
from sparcal.server.data import retention, scores
from sparcal.server.data.jobs import Job
from sparcal.server.data.store import Store, Stored
from sparcal.server.settings import Limits
from sparcal.server.work import reading
from sparcal.server.work.handlers import Tasks
from tests.support.served import build_station


class Silent:
    """A job's reporter that nobody listens to."""

    def __call__(self, done, total):
        assert done <= total

    def step_aside(self):
        pass


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judging") / "line-3"
    return build_station(folder, train=4, good=3, bad=1), folder


def arrive(database, store, name, content):
    path = store.folder / "upload"
    path.write_bytes(content)
    sha = hashlib.sha256(content).hexdigest()
    with retention.arrival(database, store, Stored(sha, name, len(content), "png", path)) as connection:
        retention.admit(connection, store, Stored(sha, name, len(content), "png", path))
        scores.arrive(connection, sha, "")
    return sha


def test_an_image_is_decoded_once_and_never_hashed_again(station, database, monkeypatch):
    parts, folder = station
    store = Store(database.path.parent, Limits())
    shas = [arrive(database, store, *part) for part in parts.good]
    tasks = Tasks(database, store, folder, None)
    tasks.noticing.look(tasks.loaded.lot(""))  # the monitor has read the station's own parts
    decoded, hashed = [], []
    once = decode._decode

    def counted(stream, name):
        decoded.append(name)
        return once(stream, name)

    with monkeypatch.context() as patched:
        patched.setattr(decode, "_decode", counted)
        patched.setattr("sparcal.imaging.encode.content_hash", hashed.append)
        assert tasks.run(Job(1, "score", {"lot": ""}, 1), Silent()) == "3 images judged."
    assert (len(decoded), hashed) == (3, [])
    with database.read() as connection:
        rows = {row["sha"]: row for row in scores.read_scores(connection, "")}
    judged = {one.sha256: one for one in tasks.loaded.station.own().score([content for _, content in parts.good])}
    assert {sha: row["score"] for sha, row in rows.items()} == {sha: judged[sha].score for sha in shas}
    assert all(store.picture(sha, "thumb").exists() for sha in shas)
    assert reading.Reading(database, store).usable(shas[0])
