"""A small real station of rendered parts, and the web station serving it in processes of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from PIL import Image

from sparcal.rendering.parts import make_demo
from sparcal.station.station import Station

SIZE = 128
PATIENT_S = (
    300  # how long to wait for what must come; no assertion, a machine with other work takes minutes for seconds
)
ENCODER = "bundled?size=128"
COMMAND = [sys.executable, "-c", "from sparcal.cli import main; main()"]


def png(pixels):
    """An image as the bytes of a PNG file."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


@dataclass(frozen=True)
class Parts:
    """Images of a shifted lot, as files; `smeared` is bad in a way that nobody overlooks."""

    good: list[tuple[str, bytes]]
    bad: list[tuple[str, bytes]]
    smeared: tuple[str, bytes]


def build_station(path, *, train=16, good=14, bad=6, size=SIZE, seed=11):
    """Fit a station on rendered parts; returns the images of a lot for it."""
    demo = make_demo(seed, train=train, good=good, bad=bad, size=size)
    Station.fit([part.image for part in demo.train], host="patchcore", encoder=ENCODER, path=path)
    smeared = demo.lot_good[-1].image.copy()
    smeared[size // 4 : size // 2 - size // 12, size // 4 : size // 2] = (235, 225, 40)
    good, bad = ([(f"{part.name}.png", png(part.image)) for part in group] for group in (demo.lot_good, demo.lot_bad))
    return Parts(good, bad, ("smeared.png", png(smeared)))


@dataclass
class Served:
    """A running web station."""

    process: subprocess.Popen
    address: str
    client: httpx.Client

    def post(self, path, body=None, **options):
        """A change through the API; the answer's value."""
        answer = self.client.post(f"/api{path}", json=body, **options)
        assert answer.status_code < 300, (answer.status_code, answer.text)
        return answer.json()

    def get(self, path, **options):
        answer = self.client.get(f"/api{path}", **options)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()

    def send(self, path, files):
        """Upload images; their hashes."""
        found = []
        for name, content in files:
            answer = self.client.post(f"/api{path}", params={"name": name}, content=content)
            assert answer.status_code == 201, answer.text
            found.append(answer.json()["sha"])
        return found

    def wait(self, condition, *, seconds=PATIENT_S):
        """The first true value of `condition`, or a failure."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if value := condition():
                return value
            time.sleep(0.05)
        raise AssertionError(f"waited {seconds} s in vain; jobs: {self.get('/jobs')}")

    def idle(self, *, seconds=PATIENT_S):
        """Wait until nothing runs or waits."""
        self.wait(
            lambda: (state := self.get("/state")) and not state["running"] and not state["queued"], seconds=seconds
        )

    def calibrated(self, name, files, *, operator="M. Weber"):
        """A draft with all of `files` marked good and calibrated, not yet decided."""
        draft = self.post("/drafts", {"name": name})["id"]
        shas = self.send(f"/drafts/{draft}/images", files)
        self.idle()
        assert self.client.put(f"/api/drafts/{draft}/good", json={"images": shas}).status_code == 200
        self.post(f"/drafts/{draft}/calibrate", {"operator": operator, "images": shas, "false_reject": 0.1})
        self.wait(lambda: self.get(f"/drafts/{draft}")["state"] == "calibrated")
        return draft


@contextmanager
def serve(path, *options):
    """Serve a station on a free port until the block ends."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*COMMAND, "serve", str(path), "--port", "0", "--json", *options],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    try:
        address = json.loads(process.stdout.readline())["address"]
        with httpx.Client(base_url=address, timeout=PATIENT_S) as client:
            _until_it_answers(client)
            session = client.get("/api/session")
            if session.status_code == 200:
                client.headers["X-Sparcal-CSRF"] = session.json()["csrf"]
            yield Served(process, address, client)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(PATIENT_S)
        process.stdout.close()


def children(pid):
    """Process ids of the worker beneath a server."""
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] or [
        int(word) for task in Path(f"/proc/{pid}/task").iterdir() for word in (task / "children").read_text().split()
    ]


def _until_it_answers(client):
    deadline = time.monotonic() + PATIENT_S
    while True:
        try:
            client.get("/healthz")
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
