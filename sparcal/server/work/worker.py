"""The worker process: `python -m sparcal.server.work.worker STATION`. Takes one job at a time until its server is gone.

Only one worker per station works at once, held by a lock that the system releases however a process dies; whoever
gets it first deals with what a dead one left behind.
"""

from __future__ import annotations

import argparse
import logging
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sparcal.devices import AUTO_DEVICE
from sparcal.errors import BusyError, SparcalError
from sparcal.files.locks import exclusive
from sparcal.server.data import jobs, retention
from sparcal.server.data.database import Database
from sparcal.server.data.jobs import Job
from sparcal.server.data.room import Reserve, has_room, is_full
from sparcal.server.data.store import Store
from sparcal.server.sentences import sentence_of
from sparcal.server.settings import WEB_FOLDER, Limits
from sparcal.server.work import watching
from sparcal.server.work.handlers import Tasks
from sparcal.server.work.reporting import CancelledError, Reporter, StepAsideError

_log = logging.getLogger("sparcal.server.work.worker")
_IDLE_S = 0.15
_PATIENCE_S = 4.0
_ROOM_S = 1.0


@dataclass
class Watchdog:
    """Ends the process if a job that was cancelled does not stop by itself; lots are written whole or not at all."""

    database: Database
    current: int | None = None

    def run(self) -> None:
        """Look once a second, for ever."""
        asked: dict[int, float] = {}
        while True:
            time.sleep(1.0)
            job = self.current
            if job is None:
                continue
            try:
                with self.database.read() as connection:
                    row = connection.execute("SELECT cancel FROM jobs WHERE id = ?", (job,)).fetchone()
            except sqlite3.Error:  # a full disk, for one: whoever watches must outlive it
                continue
            if row is not None and row["cancel"]:
                since = asked.setdefault(job, time.monotonic())
                if time.monotonic() - since > _PATIENCE_S and self.current == job:
                    os._exit(4)


def work(database: Database, run: Callable[[Job, Reporter], str], *, watchdog: Watchdog) -> bool:
    """Do the next job; False if there was none."""
    root = database.path.parents[1]
    try:
        job = jobs.claim(database)
    except sqlite3.OperationalError as error:
        if not is_full(error):
            raise
        job = None
    if job is None:
        return False
    watchdog.current = job.id
    end: Callable[[], None]
    try:
        message = run(job, Reporter(database, job))
    except CancelledError:
        end = partial(jobs.finish, database, job.id, "cancelled", message="Stopped by the operator.")
    except StepAsideError:
        end = partial(jobs.step_back, database, job.id)
    except Exception as error:
        if is_full(error):
            end = partial(jobs.step_back, database, job.id)  # as soon as that can be written
        else:
            if not isinstance(error, SparcalError):
                _log.exception("job %d (%s)", job.id, job.kind)
            sentence = sentence_of(error, {str(root): root.name})
            end = partial(jobs.finish, database, job.id, "failed", message=sentence)
    else:
        end = partial(jobs.finish, database, job.id, "done", message=message)
    finally:
        watchdog.current = None
    when_there_is_room(end, database.path.parent)
    return True


def when_there_is_room(write: Callable[[], None], folder: Path) -> None:
    """Write something down, however long the disk stays full: nothing that was done is forgotten or done twice."""
    while True:
        try:
            return write()
        except sqlite3.OperationalError as error:
            if not is_full(error):
                raise
        _log.warning("the disk is full: waiting for room")
        while not has_room(folder):
            time.sleep(_ROOM_S)
        time.sleep(_ROOM_S)


def main(arguments: list[str] | None = None) -> None:
    """Work for a station until standard input closes."""
    parser = argparse.ArgumentParser(prog="sparcal.server.work.worker", description="Do a web station's jobs.")
    parser.add_argument("station", type=Path)
    parser.add_argument("--watch", type=Path)
    parser.add_argument("--device", default=AUTO_DEVICE)
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(name)s %(message)s")
    os.nice(5)  # whoever looks at a page goes first
    threading.Thread(target=_leave_with_server, daemon=True).start()
    folder: Path = given.station / WEB_FOLDER
    database = Database.at(folder)
    watchdog = Watchdog(database)
    threading.Thread(target=watchdog.run, daemon=True).start()
    while True:
        try:
            with exclusive(folder / "worker.lock", wait_s=5.0):
                tasks = Tasks(database, Store(folder, Limits()), given.station, given.watch, given.device)
                _serve(tasks, watchdog)
        except BusyError:  # another server's worker is at it
            continue


def _serve(tasks: Tasks, watchdog: Watchdog) -> None:
    database, store, watch = tasks.database, tasks.store, tasks.watch
    when_there_is_room(partial(jobs.recover, database), store.folder)
    when_there_is_room(partial(retention.sweep, database, store), store.folder)
    Reserve(store.folder).keep()
    if watch is not None:
        threading.Thread(target=watching.keep_looking, args=(database, watch), daemon=True).start()
    while True:
        if not has_room(store.folder):  # nothing is begun that could not be written down
            time.sleep(_ROOM_S)
        elif not work(database, tasks.run, watchdog=watchdog):
            time.sleep(_IDLE_S)


def _leave_with_server() -> None:
    """The server holds the other end of our standard input: when it closes, the server has gone."""
    while sys.stdin.buffer.read(1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
