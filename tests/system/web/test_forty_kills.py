"""Forty kills over worker and server while parts arrive and people decide: nothing that was answered is lost, nothing is doubled."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter

import httpx
import numpy as np
import pytest

from sparcal.rendering.parts import TRAINING_LIGHT, render_part
from tests.support.served import PATIENT_S, SIZE, children, png, serve

LIVES = 20  # of the server; in each one the worker is killed first, then the server
SOON, LATE = 0.05, 2.0  # seconds of work before a kill


class Shift:
    """Somebody who sends parts and decides about them, and keeps a list of what was answered."""

    def __init__(self, rng):
        self.rng = rng
        self.sent, self.answered = {}, set()  # content by name; names
        self.tried, self.decided = [], set()  # operators: each signs once

    def new_part(self):
        image = render_part(7, light=TRAINING_LIGHT, size=SIZE).image.astype(int)
        grain = np.random.default_rng(len(self.sent)).integers(-6, 7, image.shape)
        name = f"part_{len(self.sent):04d}.png"
        self.sent[name] = png(np.clip(image + grain, 0, 255).astype(np.uint8))
        return name

    def send(self, station, name):
        answer = station.client.post("/api/inspection/images", params={"name": name}, content=self.sent[name])
        assert answer.status_code == 201, answer.text
        self.answered.add(name)

    def decide(self, station):
        scored = [row for row in station.get("/scores", params={"limit": 50})["scores"] if row["score"] is not None]
        if not scored:
            return
        operator, row = f"operator {len(self.tried)}", self.rng.choice(scored)
        self.tried.append(operator)
        finding = self.rng.choice(("good", "defective"))
        station.post(f"/scores/{row['id']}/decision", {"finding": finding, "operator": operator})
        self.decided.add(operator)

    def work_until_killed(self, station, victim):
        """What was begun when the server goes is not known to be done; it is sent again in the next life."""
        killer = threading.Timer(self.rng.uniform(SOON, LATE), kill, (station, victim))
        killer.start()
        try:
            for name in [name for name in self.sent if name not in self.answered]:
                self.send(station, name)
            while killer.is_alive():
                self.send(station, self.new_part())
                self.decide(station)
        except httpx.TransportError:
            assert victim == "server"
        killer.join()


def kill(station, victim):
    pid = station.process.pid
    if victim == "worker":
        deadline = time.monotonic() + PATIENT_S
        while not (found := children(pid)) and time.monotonic() < deadline:
            time.sleep(0.02)
        pid = found[0]
    os.kill(pid, signal.SIGKILL)
    if victim == "server":
        station.process.wait()


@pytest.mark.slow
def test_no_verdict_and_no_decision_is_lost_or_doubled(parts_and_station, tmp_path, record_property):
    path = tmp_path / "line-3"
    shutil.copytree(parts_and_station[1], path)
    shift, kills = Shift(random.Random(0)), Counter()
    with serve(path) as station:
        for _ in range(3):
            shift.send(station, shift.new_part())  # something to decide about, however slow the machine
        station.idle()
    for _ in range(LIVES):
        with serve(path) as station:
            for victim in ("worker", "server"):
                shift.work_until_killed(station, victim)
                kills[victim] += 1
    assert kills == {"worker": LIVES, "server": LIVES}
    with serve(path) as station:
        for name in [name for name in shift.sent if name not in shift.answered]:
            shift.send(station, name)
        shift.send(station, shift.new_part())  # has whatever still waits judged
        station.idle()
    with sqlite3.connect(path / "web" / "station.sqlite3") as database:
        verdicts = Counter(
            name for (name,) in database.execute("SELECT name FROM scores JOIN images USING (sha) WHERE verdict <> ''")
        )
        read = database.execute("SELECT count(*) FROM readings").fetchone()[0]
        signed = Counter(
            operator for (operator,) in database.execute("SELECT operator FROM decisions WHERE score IS NOT NULL")
        )
        waiting = database.execute("SELECT count(*) FROM arrivals").fetchone()[0]
    said = f"{len(shift.sent)} parts, {len(shift.decided)} of {len(shift.tried)} decisions answered"
    record_property("tried", sum(kills.values()))
    record_property("ended", said)
    assert verdicts == dict.fromkeys(shift.sent, 1), said
    assert waiting == 0
    assert read == len(shift.sent), "and the monitor has read each part once"
    assert shift.decided <= set(signed) <= set(shift.tried), said
    assert set(signed.values()) == {1}, "each decision once"
    assert len(shift.decided) > LIVES, "people did decide"
