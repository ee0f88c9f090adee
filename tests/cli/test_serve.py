"""`sparcal serve`: what it refuses, and in which words."""

from __future__ import annotations

import asyncio
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

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
