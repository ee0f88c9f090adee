"""`sparcal serve`: what it refuses, and in which words."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sparcal.cli import run
from sparcal.cli.serve import _listening
from sparcal.files.json_record import write_record


@pytest.fixture
def station(tmp_path):
    write_record(tmp_path / "line/station.json", "station", {"created": "2026-01-01T00:00:00.000+00:00"})
    return str(tmp_path / "line")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--host", "0.0.0.0"], "lets other machines in, so it needs a token, got none: pass --token, or --insecure"),
        (["--token", "short"], "at least 12 characters, got 5"),
        (["--watch", "/no/such/folder"], "watched folder must be a folder"),
        (["--port", "70000"], "'--port': Input should be less than or equal to 65535"),
    ],
)
def test_a_wrong_call_is_exit_code_2_and_a_sentence(station, options, sentence, capsys):
    assert run(["serve", station, *options]) == 2
    assert sentence in capsys.readouterr().err


def test_a_folder_that_is_no_station_is_named(tmp_path, capsys):
    assert run(["serve", str(tmp_path / "nowhere")]) == 2
    assert "There is no station at" in capsys.readouterr().err


def test_a_port_that_is_taken_is_said(station, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run(["serve", station, "--port", str(taken.getsockname()[1])]) == 1
    assert "Serving needs a free address" in capsys.readouterr().err


def test_ctrl_c_ends_it_and_its_worker_without_a_traceback(station):
    command = [sys.executable, "-m", "sparcal", "serve", station, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        lock = Path(station) / "web" / "worker.lock"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (lock.exists() and lock.read_text()):
            time.sleep(0.1)
        worker = int(lock.read_text())
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to every process that it knows
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "(Ctrl+C ends it).\n" in said
    assert said.endswith("\nStopped.\n")
    assert said.count("\n") == 2
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_a_small_answer_waits_for_no_acknowledgement():
    async def is_sent_at_once():
        accepted = asyncio.get_running_loop().create_future()

        def take(_, writer):
            found = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()
            accepted.set_result(found)

        with _listening("127.0.0.1", 0) as listening:
            async with await asyncio.start_server(take, sock=listening):
                _, writer = await asyncio.open_connection(*listening.getsockname())
                found = await accepted
                writer.close()
                await writer.wait_closed()
        return found

    with ThreadPoolExecutor(1) as pool:  # browser tests of the same process leave a loop running in the main thread
        assert pool.submit(asyncio.run, is_sent_at_once()).result()


def test_a_missing_extra_names_its_install_line(station, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["serve", station]) == 1
    assert "run pip install 'sparcal[server]'" in capsys.readouterr().err
