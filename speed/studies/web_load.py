"""How the web station holds up: many clients read results and pictures while a lot is being scored.

    python -m speed.studies.web_load [--clients 200] [--seconds 20] [--images 60] [--json FILE]

Renders parts, fits a station, serves it in processes of its own, sends images to be judged, and lets every client
read like an open page does: the page, the state, the worst scores, thumbnails, heat maps. Prints requests, errors and
the times of the 50th, 95th and 99th percentile per kind of request, while scoring runs and after it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import httpx
import numpy as np

from tests.support.served import build_station, serve

KINDS = ("page", "picture", "scores", "state")
THINK_S = 1.0  # an open page asks again after this long


async def client(address, seed, until, times, errors, phase):
    """One browser: asks, looks, asks again."""
    rng = random.Random(seed)
    async with httpx.AsyncClient(base_url=address, timeout=60) as http:

        async def read(kind, path):
            began = time.perf_counter()
            try:
                answer = await http.get(path)
            except httpx.HTTPError as error:
                errors[f"{kind}: {type(error).__name__}"] += 1
                return None
            times[phase()][kind].append(time.perf_counter() - began)
            if answer.status_code != 200:
                errors[f"{kind}: {answer.status_code}"] += 1
                return None
            return answer

        await asyncio.sleep(rng.random() * THINK_S)
        while time.perf_counter() < until:
            await read("page", rng.choice(("/judge", "/lots")))
            await read("state", "/api/state")
            answer = await read("scores", "/api/scores?limit=50")
            rows = [row for row in answer.json()["scores"] if row["score"] is not None] if answer else []
            for row in rng.sample(rows, min(2, len(rows))):
                await read("picture", f"/api/images/{row['sha']}/thumb")
                await read("picture", f"/api/images/{row['sha']}/heat?lot={row['lot']}")
            await asyncio.sleep(THINK_S * (0.5 + rng.random()))


async def load(served, clients, seconds):
    """All clients at once; times by phase and kind, and errors."""
    times = defaultdict(lambda: defaultdict(list))
    errors = defaultdict(int)
    scoring = True

    async def watch(until):
        nonlocal scoring
        async with httpx.AsyncClient(base_url=served.address, timeout=60) as http:
            while time.perf_counter() < until:
                state = (await http.get("/api/state")).json()
                scoring = bool(state["running"] or state["queued"])
                await asyncio.sleep(0.2)

    until = time.perf_counter() + seconds
    phase = lambda: "while scoring" if scoring else "at rest"  # noqa: E731
    readers = [client(served.address, seed, until, times, errors, phase) for seed in range(clients)]
    await asyncio.gather(watch(until), *readers)
    return times, errors


def shortcomings(times, errors, *, judged):
    """Why a run proves nothing, or proves that something is wrong; a run that did nothing is no success."""
    found = [f"{count} requests failed: {what}." for what, count in errors.items()]
    answered = {kind for kinds in times.values() for kind, values in kinds.items() if values}
    found += [f"No request for a {kind} was answered." for kind in KINDS if kind not in answered]
    if not judged:
        found.append("No image was judged, so the clients had nothing to wait for.")
    elif not times.get("while scoring"):
        found.append("Nothing was read while images were scored: send more images.")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parts = build_station(Path(folder) / "line", train=16, good=given.images // 2, bad=given.images // 2, size=256)
        with serve(Path(folder) / "line") as served:
            served.send("/inspection/images", parts.good + parts.bad)
            times, errors = asyncio.run(load(served, given.clients, given.seconds))
            judged = served.get("/scores")["counts"]["scored"]
    rows = []
    for phase, kinds in times.items():
        for kind, values in sorted(kinds.items()):
            p50, p95, p99 = np.percentile(values, (50, 95, 99)) * 1000
            rows.append(
                {"phase": phase, "kind": kind, "requests": len(values), "p50_ms": p50, "p95_ms": p95, "p99_ms": p99}
            )
    print(
        f"{given.clients} clients, {given.seconds:g} s, {os.cpu_count()} cores shared with the clients, {judged} images judged"
    )
    for row in rows:
        print(
            "{phase:14} {kind:8} {requests:7d} requests   p50 {p50_ms:7.0f} ms   p95 {p95_ms:7.0f} ms   p99 {p99_ms:7.0f} ms".format(
                **row
            )
        )
    print(f"errors: {dict(errors) or 'none'}")
    missing = shortcomings(times, errors, judged=judged)
    for sentence in missing:
        print(sentence, file=sys.stderr)
    if given.json:
        given.json.write_text(json.dumps({"rows": rows, "errors": dict(errors), "missing": missing}, indent=1))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
