"""Judging over HTTP: send images, read scores worst first, confirm or overrule, take results away."""

from __future__ import annotations

import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from sqlite3 import Row
from typing import IO, Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from sparcal.server.data import again, jobs, parts, retention, scores
from sparcal.server.data.lots import require_listed
from sparcal.server.data.room import Reserve
from sparcal.server.data.watch_switch import read_switch, refused_files, turn_watching
from sparcal.server.refusals import ConflictError
from sparcal.server.web.api.drafts import BINARY, FileName
from sparcal.server.web.api.models.drafts import UploadAnswer
from sparcal.server.web.api.models.fields import LARGEST_ID, ListedLot, RecordId
from sparcal.server.web.api.models.jobs import JobStarted
from sparcal.server.web.api.models.judging import (
    AgainAnswer,
    AgainBody,
    AgainOffer,
    ForgetBody,
    ForgottenAnswer,
    ListedScore,
    OfferedPart,
    OtherVerdict,
    PartsAnswer,
    PartsBody,
    RefusedFile,
    ReviewBody,
    ScoreAnswer,
    ScoreDetail,
    ScoreList,
    StoreAnswer,
    WatchAnswer,
    WatchBody,
)
from sparcal.server.web.context import Context, Here

router = APIRouter(tags=["judge"])
JudgedBefore = Annotated[
    str, Query(max_length=200, description="What judged them before; empty is the station's own reference.")
]
Search = Annotated[str, Query(max_length=200, description="Part of an image's name.")]
_CHUNK = 2**18
_MOST_REFERENCES = 50


def score_answer(row: Row) -> ScoreAnswer:
    """A score as the API gives it."""
    return ScoreAnswer(**_values(row))


@router.post("/inspection/images", status_code=201, openapi_extra=BINARY)
async def upload_for_inspection(request: Request, here: Here, name: FileName = "image") -> UploadAnswer:
    """Send one image as the body; it is scored with the lot that is active now."""
    stored = await here.store.receive(request.stream(), name=name)

    def keep() -> None:
        lot = here.station.active() or ""
        with retention.arrival(here.database, here.store, stored) as connection:
            if retention.admit(connection, here.store, stored) or not scores.known(connection, stored.sha, lot):
                scores.arrive(connection, stored.sha, lot)
                jobs.enqueue(connection, "score", {"lot": lot})

    await run_in_threadpool(keep)
    return UploadAnswer(sha=stored.sha, name=stored.name)


@router.post("/inspection/collect", status_code=202)
def collect_for_inspection(here: Here) -> JobStarted:
    """Score what is new in the watched folder with the lot that is active now."""
    _watched_folder(here)
    with here.database.write() as connection:
        return JobStarted(job=jobs.enqueue(connection, "collect", {"lot": here.station.active() or ""}))


@router.post("/inspection/watch")
def switch_watching(body: WatchBody, here: Here) -> WatchAnswer:
    """Have the watched folder judged as images arrive, or only when somebody asks."""
    folder = _watched_folder(here)
    with here.database.write() as connection:
        turn_watching(connection, on=body.on, operator=body.operator)
        return watching_answer(folder, connection)


@router.get("/inspection/parts")
def show_parts(here: Here, lot: ListedLot = None) -> PartsAnswer:
    """Parts of a lot that passed, that somebody found good and that could be added to the station."""
    with here.database.read() as connection:
        name = _lot(here, connection, lot)
        found = [OfferedPart(sha=row["sha"], name=row["name"]) for row in parts.offered(connection, here.station, name)]
    return PartsAnswer(lot=name, parts=found, training=len(here.station.read_station()["images"]))


@router.post("/inspection/parts", status_code=202)
def add_parts(body: PartsBody, here: Here) -> JobStarted:
    """Add good parts to the station: its own reference is fitted anew on all of them, lots stay as they are."""
    with here.database.write() as connection:
        return JobStarted(job=parts.ask(connection, here.station, body.lot, body.images, operator=body.operator))


@router.get("/inspection/again")
def offer_again(
    here: Here,
    lot: JudgedBefore,
    since: Annotated[str, Query(max_length=40)] = "",
    show: scores.ScoreFilter = "all",
    search: Search = "",
) -> AgainOffer:
    """How many images that another reference has judged could be judged again by the one that is active now."""
    meant = again.ChosenParts(lot, since=since, which=show, search=search)
    with here.database.read() as connection:
        require_listed(connection, here.station, lot)
        found = again.not_judged_yet(connection, meant, here.station.active() or "")
    return AgainOffer(lot=lot, images=len(found))


@router.post("/inspection/again", status_code=202)
def judge_images_again(body: AgainBody, here: Here) -> AgainAnswer:
    """Have the active lot judge what another reference has judged; the old verdicts stay on record beside the new."""
    meant = again.ChosenParts(body.lot, body.since, body.show, body.search, body.images, body.without)
    with here.database.write() as connection:
        count, job = again.judge_again(connection, meant, here.station.active() or "", operator=body.operator)
    return AgainAnswer(images=count, job=job)


@router.get("/inspection/store")
def show_store(here: Here, lot: ListedLot = None) -> StoreAnswer:
    """How full the station is, and how many images of a lot could be forgotten."""
    with here.database.read() as connection:
        name = _lot(here, connection, lot)
        held = retention.usage(connection)
        plain = retention.may_go(connection, lot=name)
        every = retention.may_go(connection, lot=name, overruled=True)
    limits = here.settings.limits
    return StoreAnswer(
        lot=name,
        images=held["images"],
        bytes=held["bytes"],
        most_images=limits.images,
        most_bytes=limits.store_bytes,
        forgettable=len(plain),
        forgettable_overruled=len(every) - len(plain),
    )


@router.post("/inspection/forget")
def forget_judged(body: ForgetBody, here: Here) -> ForgottenAnswer:
    """Remove the images that a lot has judged; scores and decisions stay, as do images that are still needed."""

    def make_room() -> int:
        with here.database.write() as connection:
            count = retention.forget_images(connection, body.lot, body.operator, overruled=body.overruled)
        retention.remove_files(here.database, here.store)
        return count

    return ForgottenAnswer(images=Reserve(here.store.folder).use(make_room))


@router.get("/scores")
def list_scores(
    here: Here,
    lot: ListedLot = None,
    show: scores.ScoreFilter = "all",
    order: scores.ScoreOrder = "newest",
    search: Search = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    offset: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
) -> ScoreList:
    """Scored images of one lot: the newest first, or the worst."""
    active = here.station.active() or ""

    def read() -> ScoreList:
        rows = scores.read_scores(connection, name, order=order, which=show, search=search, limit=limit, offset=offset)
        return ScoreList(
            lot=name,
            references=again.references(connection, limit=_MOST_REFERENCES),
            counts=here.known.answer(connection, ("counts", name), lambda: scores.counts(connection, name)),
            waiting=len(scores.waiting(connection, name)),
            scores=_listed(connection, rows, name, active),
        )

    with here.database.read() as connection:
        name = _lot(here, connection, lot)
        return here.known.answer(connection, ("scores", name, active, order, show, search, limit, offset), read)


@router.get("/scores.csv", response_class=Response, responses={200: {"content": {"text/csv": {}}}})
def download_csv(here: Here, lot: ListedLot = None) -> Response:
    """Every score of a lot with its decision, as CSV."""
    with here.database.read() as connection:
        text = scores.as_csv(scores.read_scores(connection, _lot(here, connection, lot), limit=-1))
    return Response(text, media_type="text/csv; charset=utf-8", headers=_attachment("scores.csv"))


@router.get("/scores/overruled.zip", response_class=Response, responses={200: {"content": {"application/zip": {}}}})
def download_overruled(here: Here, lot: ListedLot = None) -> Response:
    """The images whose verdict was overruled, with a CSV of their scores."""
    with here.database.read() as connection:
        rows = scores.read_scores(connection, _lot(here, connection, lot), which="overruled", limit=-1)
    packed = tempfile.TemporaryFile()  # noqa: SIM115 - the answer closes it after sending
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("scores.csv", scores.as_csv(rows))
        for row in rows:
            with suppress(FileNotFoundError):  # forgotten; its line in the CSV stays
                path = f"{scores.final_verdict(row)}/{row['sha'][:8]}-{row['name']}"
                archive.write(here.store.image(row["sha"]), path)
    return StreamingResponse(_pieces(packed), media_type="application/zip", headers=_attachment("overruled.zip"))


@router.get("/scores/{score}")
def show_score(score: RecordId, here: Here) -> ScoreDetail:
    """One scored image, and what other references said about it."""
    with here.database.read() as connection:
        row = scores.read_score(connection, score)
        others = [score_answer(other) for other in scores.other_scores(connection, row)]
    return ScoreDetail(**score_answer(row).model_dump(), others=others)


@router.post("/scores/{score}/decision")
def review_part(score: RecordId, body: ReviewBody, here: Here) -> ScoreAnswer:
    """Say that a part is good or defective; the latest finding counts, every one is kept."""
    with here.database.write() as connection:
        scores.review(connection, score, body.finding, body.operator)
        return score_answer(scores.read_score(connection, score))


def watching_answer(folder: Path, connection: sqlite3.Connection) -> WatchAnswer:
    """The switch, and whether the folder is there."""
    refused = [RefusedFile(**file) for file in refused_files(connection)]
    return WatchAnswer(**asdict(read_switch(connection)), reachable=folder.is_dir(), refused=refused)


def _listed(connection: sqlite3.Connection, rows: list[Row], lot: str, active: str) -> list[ListedScore]:
    shas = [row["sha"] for row in rows]
    said = again.said_beside(connection, shas, lot)
    could = set() if lot == active else again.could_judge(connection, shas, active)
    beside = {sha: OtherVerdict(lot=row["lot"], verdict=row["verdict"]) for sha, row in said.items()}
    return [ListedScore(**_values(row), beside=beside.get(row["sha"]), again=row["sha"] in could) for row in rows]


def _values(row: Row) -> dict[str, Any]:
    made = {
        "final": scores.final_verdict(row),
        "finding": scores.finding_of(row),
        "overruled": row["decision"] == "overrule",
    }
    return {name: row[name] for name in ScoreAnswer.model_fields if name not in made} | made


def _watched_folder(here: Context) -> Path:
    if here.settings.watch is None:
        raise ConflictError("The station watches no folder: start it with --watch FOLDER.")
    return here.settings.watch


def _lot(here: Context, connection: sqlite3.Connection, lot: str | None) -> str:
    """The lot that was asked about, which must have been there at some time; without a name, the active one."""
    name = (here.station.active() or "") if lot is None else lot
    require_listed(connection, here.station, name)
    return name


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    with stream:
        stream.seek(0)
        while piece := stream.read(_CHUNK):
            yield piece
