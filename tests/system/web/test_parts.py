"""Parts that were confirmed as good are added to the station: asked for by somebody, done once, lots stay."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
from playwright.sync_api import expect

from tests.support.browsing import patient_context, photograph, sign
from tests.support.served import children, serve


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("parts") / "line-3"


@pytest.fixture(scope="module")
def station(parts_and_station, parts, folder):
    """A web station with an accepted lot that has judged five good parts and one bad one."""
    shutil.copytree(parts_and_station[1], folder)
    with serve(folder) as running:
        draft = running.calibrated("L1", parts.good[:4])
        running.post(f"/drafts/{draft}/decision", {"decision": "accept", "operator": "M. Weber"})
        running.send("/inspection/images", [*parts.good[4:9], parts.bad[0]])
        running.wait(lambda: running.get("/scores")["counts"]["scored"] == 6)
        running.idle()
        yield running


def hold(station, name, *, good):
    """Somebody looks at an image and says what it is."""
    row = next(row for row in station.get("/scores", params={"lot": "L1"})["scores"] if row["name"] == name)
    station.post(f"/scores/{row['id']}/decision", {"finding": "good" if good else "defective", "operator": "A. Roth"})
    return row["sha"]


def offered(station):
    return [part["sha"] for part in station.get("/inspection/parts")["parts"]]


def add(station, shas, *, operator="B. Kern"):
    return station.client.post("/api/inspection/parts", json={"lot": "L1", "images": shas, "operator": operator})


def test_only_what_was_confirmed_as_good_is_offered_and_taken(station, parts):
    assert offered(station) == []
    good = [hold(station, name, good=True) for name, _ in parts.good[4:6]]
    bad = hold(station, parts.bad[0][0], good=False)
    offer = station.get("/inspection/parts")
    assert (offer["lot"], sorted(offered(station)), offer["training"]) == ("L1", sorted(good), 16)
    for wrong in ([bad], [*good, bad], ["ab" * 32]):
        refused = add(station, wrong)
        assert (refused.status_code, "was not found good" in refused.json()["error"]) == (409, True)
    assert add(station, []).status_code == 422
    assert station.client.post("/api/inspection/parts", json={"lot": "L1", "images": good}).status_code == 422


def test_the_station_is_fitted_anew_and_lots_stay(station):
    before = station.get("/lots/show", params={"lot": "L1"})
    shas = offered(station)
    job = add(station, shas).json()["job"]
    again = add(station, shas, operator="somebody else")
    assert again.status_code == 409
    station.idle()
    done = next(each for each in station.get("/jobs")["jobs"] if each["id"] == job)
    assert (done["kind"], done["state"]) == ("fit", "done")
    assert done["message"] == "2 of 2 parts are in the station now, 18 in all."
    assert station.get("/state")["training"] == 18
    assert offered(station) == [], "nothing is offered twice"
    assert station.get("/lots/show", params={"lot": "L1"}) == before
    said = [(entry["operator"], entry["sentence"]) for entry in station.get("/audit")["entries"]][:2]
    assert said == [
        ("B. Kern", "fitted the station on 18 good parts"),
        ("B. Kern", "asked for 2 images that lot L1 had judged to be added to the station as good parts"),
    ]


def test_both_references_judge_afterwards(station, parts):
    sent = station.send("/inspection/images", parts.good[9:10])
    station.idle()
    row = next(row for row in station.get("/scores")["scores"] if row["sha"] == sent[0])
    assert (row["lot"], row["score"] is not None) == ("L1", True)
    station.post("/lots/activate", {"lot": None, "operator": "M. Weber"})
    known = station.send("/inspection/images", parts.good[4:5])
    station.idle()
    row = next(row for row in station.get("/scores")["scores"] if row["sha"] == known[0])
    assert row["score"] is not None
    station.post("/lots/activate", {"lot": "L1", "operator": "M. Weber"})


def test_a_worker_that_dies_while_it_adds_is_followed_by_one_that_ends_it(station, parts):
    def said():
        return [entry for entry in station.get("/audit")["entries"] if entry["kind"] == "add"]

    before, entries = station.get("/state")["training"], len(said())
    good = [hold(station, name, good=True) for name, _ in parts.good[6:8]]
    job = add(station, good).json()["job"]
    station.wait(lambda: next(each for each in station.get("/jobs")["jobs"] if each["id"] == job)["state"] == "running")
    os.kill(children(station.process.pid)[0], signal.SIGKILL)
    station.wait(lambda: next(each for each in station.get("/jobs")["jobs"] if each["id"] == job)["state"] == "done")
    assert station.get("/state")["training"] == before + 2
    assert len(said()) == entries + 1


def test_the_button_asks_who_and_says_what_happens(station, parts, chromium, album):
    hold(station, parts.good[8][0], good=True)
    context = patient_context(chromium, base_url=station.address)
    page = context.new_page()
    page.goto("/judge")
    page.locator(".actions summary").click()
    page.get_by_role("button", name="Good parts → station").click()
    expect(page.locator("#sign-parts img")).to_have_count(1)
    expect(page.locator("#sign h2")).to_have_text("Add 1 good part to the station?")
    expect(page.locator("#sign-note")).to_contain_text("The station was fitted on 20 parts.")
    photograph(page, album, "sign-parts")
    sign(page, "B. Kern", "Add")
    expect(page.locator(".toast")).to_contain_text("being added")
    station.wait(lambda: station.get("/state")["training"] == 21)
    station.idle()
    page.get_by_role("button", name="Good parts → station").click()
    expect(page.locator(".toast")).to_contain_text("judge some first")
    page.locator("#decide").get_by_role("button", name="Good").click()
    expect(page.locator("#sign-note")).to_be_hidden()
    context.close()


def test_the_parts_keep_their_names_in_the_station_that_the_command_line_reads(folder, parts):
    record = json.loads((folder / "station.json").read_text(encoding="utf-8"))
    names = [name.rpartition("/")[2] for name, _ in record["images"][16:]]
    assert sorted(names) == sorted(name for name, _ in parts.good[4:9])
