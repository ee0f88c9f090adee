"""How long the server waits for a request that was begun: connections are few, and half a request is worth nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive
from uvicorn.protocols.http.h11_impl import H11Protocol

WAIT_S = 20.0


class PatientProtocol(H11Protocol):
    """HTTP that hangs up when a request's header takes too long; uvicorn itself would wait for ever."""

    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Give the client its time for the header."""
        super().connection_made(transport)
        self._wait_for_header()

    def data_received(self, data: bytes) -> None:
        """Read on, and stop the clock once the header is there."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait_for_header()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Between requests no header is waited for."""
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:
            self._stop_waiting()  # between requests uvicorn's own keep-alive limit counts

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_header(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(WAIT_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


def patient_config(app: ASGIApp) -> uvicorn.Config:
    """How the web station is served."""
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )


def patient(receive: Receive) -> Receive:
    """A body whose sender falls silent ends in a 408."""
    over = False

    async def receive_in_time() -> Message:
        nonlocal over
        if over:  # the body is complete: what comes next is the end of the connection, whenever that is
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), WAIT_S)
        except TimeoutError:
            raise HTTPException(408) from None
        over = not message.get("more_body", False)
        return message

    return receive_in_time
