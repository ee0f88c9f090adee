"""Half a request does not hold a connection for ever."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import suppress

import pytest
import uvicorn

from sparcal.server.settings import WebSettings
from sparcal.server.web import patience
from sparcal.server.web.app import create_app


@pytest.fixture
def address(folder, monkeypatch):
    monkeypatch.setattr(patience, "WAIT_S", 0.6)
    app = create_app(WebSettings(folder), worker=False)
    server = uvicorn.Server(patience.patient_config(app))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()
        server.should_exit = True
        thread.join()


def left_open(address, *pieces, pause=0.0):
    """What the server says to a request that never ends, and after how long it hangs up."""
    with socket.create_connection(address, timeout=10) as line:
        for piece in pieces:
            line.sendall(piece)
            time.sleep(pause)
        began = time.monotonic()
        answer = b""
        while piece := line.recv(4096):
            answer += piece
        return answer, time.monotonic() - began


HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def test_half_a_header_is_hung_up_on(address):
    answer, waited = left_open(address, HEAD)
    assert (answer, 0.3 < waited < 5) == (b"", True)
    answer, waited = left_open(address)
    assert (answer, waited < 5) == (b"", True), "a connection that says nothing"


def test_a_header_that_trickles_in_is_hung_up_on(address):
    with socket.create_connection(address, timeout=10) as line:
        began = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - began < 8:
                line.sendall(b"X")
                time.sleep(0.1)
        assert time.monotonic() - began < 5


def test_half_a_second_request_is_hung_up_on(address):
    answer, waited = left_open(address, HEAD + b"\r\n", HEAD, pause=0.1)
    assert answer.count(b"200 OK") == 1
    assert waited < 8, "by our own limit, or by uvicorn's for idle connections, whichever sees it first"


def test_half_a_body_is_answered_and_hung_up_on(address):
    head = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 99\r\n\r\n"
    answer, waited = left_open(address, head + b"token=")
    assert b"408" in answer.split(b"\r\n")[0]
    assert b"took too long" in answer
    assert waited < 5


def test_a_slow_answer_is_not_cut_off(address):
    answer, _ = left_open(address, HEAD + b"Connection: close\r\n\r\n")
    assert b"200 OK" in answer
