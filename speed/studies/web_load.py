"""How the web station holds up: many clients read results and pictures while parts are judged; a long past is opened.

    python -m speed.studies.web_load [--clients 200] [--seconds 20] [--judged 10000] [--json FILE]

Renders parts, fits a station, serves it in processes of its own, keeps its worker busy with images, and lets every
client read like an open page does: the page, the state, the latest scores, thumbnails, heat maps. Prints requests,
errors and the times of the 50th, 95th and 99th percentile per kind of request. Then the station is given a past of
`--judged` parts, and a browser opens Judge and Lots. Leaves with 1 if something failed, was not done, or took too long.
Other work on the machine counts: the load average is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import io
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
from PIL import Image

from speed.studies.web_opening import grow, openings, slow_pages
from tests.support.served import build_station, png, serve

PAGE_S, OPEN_S = 1.0, 0.5  # what 95 of 100 page reads may take, and a browser for a page
PAGES = {"judge": "/judge", "lots": "/lots"}
KINDS = ("page", "picture", "scores", "state")
THINK_S = 1.0  # an open page asks again after this long
WAITING = 4  # images that wait for the worker, so that it never rests


async def client(address, seed, until, times, errors):
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
            times[kind].append(time.perf_counter() - began)
            if answer.status_code != 200:
                errors[f"{kind}: {answer.status_code}"] += 1
                return None
            return answer

        await asyncio.sleep(rng.random() * THINK_S)
        while time.perf_counter() < until:
            await read("page", rng.choice(tuple(PAGES.values())))
            await read("state", "/api/state")
            answer = await read("scores", "/api/scores?limit=50")
            rows = [row for row in answer.json()["scores"] if row["score"] is not None] if answer else []
            for row in rng.sample(rows, min(2, len(rows))):
                await read("picture", f"/api/images/{row['sha']}/thumb")
                await read("picture", f"/api/images/{row['sha']}/heat?lot={row['lot']}")
            await asyncio.sleep(THINK_S * (0.5 + rng.random()))


async def feed(served, files, until, errors):
    """The line: a new part as soon as too few wait. One pixel makes each an image that was never judged."""
    number = 0
    async with httpx.AsyncClient(base_url=served.address, timeout=60, headers=served.client.headers) as http:
        while time.perf_counter() < until:
            waiting = (await http.get("/api/scores?limit=1")).json()["waiting"]
            for _ in range(WAITING - waiting):
                name, content = files[number % len(files)]
                pixels = np.array(Image.open(io.BytesIO(content)))
                pixels[0, 0] = number % 256, number // 256 % 256, 77
                number += 1
                answer = await http.post("/api/inspection/images", params={"name": name}, content=png(pixels))
                if answer.status_code != 201:
                    errors[f"upload: {answer.status_code}"] += 1
            await asyncio.sleep(0.1)


async def load(served, files, clients, seconds):
    """All clients at once, and the line; times by kind, and errors."""
    times, errors = defaultdict(list), defaultdict(int)
    until = time.perf_counter() + seconds
    readers = [client(served.address, seed, until, times, errors) for seed in range(clients)]
    await asyncio.gather(feed(served, files, until, errors), *readers)
    return times, errors


def shortcomings(times, errors, *, judged):
    """Why a run proves nothing, or proves that something is wrong; a run that did nothing is no success."""
    found = [f"{count} requests failed: {what}." for what, count in errors.items()]
    found += [f"No request for a {kind} was answered." for kind in KINDS if not times.get(kind)]
    if not judged:
        found.append("No image was judged meanwhile, so the clients shared the machine with nobody.")
    if times.get("page") and (p95 := float(np.percentile(times["page"], 95))) > PAGE_S:
        found.append(f"Pages took {p95:.2f} s in the 95th percentile, {PAGE_S:g} s are allowed.")
    return found


def percentiles(times):
    """One row per kind of request."""
    rows = []
    for kind, values in sorted(times.items()):
        p50, p95, p99 = np.percentile(values, (50, 95, 99)) * 1000
        rows.append({"kind": kind, "requests": len(values), "p50_ms": p50, "p95_ms": p95, "p99_ms": p99})
    return rows


def measure(folder, given):
    """The load, then the long past: what is printed, and what is wrong."""
    station = folder / "line"
    parts = build_station(station, train=16, good=16, bad=16, size=256)
    with serve(station) as served:
        first = served.send("/inspection/images", [*parts.good, *parts.bad])
        served.idle(seconds=600)  # the worker has loaded its station, and there is something to look at
        times, errors = asyncio.run(load(served, parts.good + parts.bad, given.clients, given.seconds))
        judged = served.get("/scores")["counts"]["scored"] - len(first)
        served.idle(seconds=600)
        draft = served.calibrated("L1", parts.good[:8])
        served.post(f"/drafts/{draft}/decision", {"decision": "accept", "operator": "M. Weber"})
        served.post("/inspection/again", {"operator": "M. Weber", "lot": "", "images": first})
        served.idle(seconds=600)
    grow(station / "web" / "station.sqlite3", given.judged, lot="L1")
    with serve(station) as served:
        served.idle()
        past = served.get("/scores")["counts"]["scored"]
        opened = openings(served.address, PAGES)
    missing = shortcomings(times, errors, judged=judged) + slow_pages(opened, limit=OPEN_S)
    missing += [] if past >= given.judged else [f"The past has {past} parts instead of {given.judged}."]
    rows = percentiles(times)
    return {"judged": judged, "past": past, "rows": rows, "opened": opened, "errors": dict(errors), "missing": missing}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--judged", type=int, default=10_000, help="parts of the past that a browser opens")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), given)
    print(
        f"{given.clients} clients, {given.seconds:g} s, {os.cpu_count()} cores shared with the clients, "
        f"{found['judged']} images judged meanwhile; load average before {before:.1f}"
    )
    for row in found["rows"]:
        print(
            "{kind:8} {requests:7d} requests   p50 {p50_ms:7.0f} ms   p95 {p95_ms:7.0f} ms   p99 {p99_ms:7.0f} ms".format(
                **row
            )
        )
    print(f"errors: {found['errors'] or 'none'}")
    for name, seconds in found["opened"].items():
        print(
            f"{found['past']:,} judged parts: {name} stands in a browser after {np.median(seconds):.2f} s "
            f"(median of {len(seconds)}, slowest {max(seconds):.2f} s)"
        )
    for sentence in found["missing"]:
        print(sentence, file=sys.stderr)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
    return 1 if found["missing"] else 0


if __name__ == "__main__":
    sys.exit(main())
