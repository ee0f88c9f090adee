"""Keeps one worker process running next to the server, and ends it with the server."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from sparcal.server.settings import WebSettings

_PATIENCE_S = 10.0
_LONGEST_PAUSE_S = 30.0


class Supervisor:
    """Starts the worker, starts it again when it dies, stops it when asked.

    The worker holds the reading end of a pipe to us: if this process dies in any way, the pipe closes and it leaves.
    """

    def __init__(self, settings: WebSettings) -> None:
        command = [sys.executable, "-m", "sparcal.server.work.worker", str(settings.station.resolve())]
        command += ["--device", settings.device]
        self._command = [*command, "--watch", str(settings.watch.resolve())] if settings.watch else command
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, name="sparcal-supervisor", daemon=True)

    @property
    def pid(self) -> int | None:
        """The worker's process id while it lives."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Start the worker."""
        self._thread.start()

    def stop(self) -> None:
        """Let the worker finish what it can within a few seconds, then end it."""
        self._stopping.set()
        self._thread.join()

    def _keep_alive(self) -> None:
        pause = 0.5
        while not self._stopping.is_set():
            begun = time.monotonic()
            # In a session of its own: Ctrl-C in a terminal is for the server, which ends the worker in its own time.
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, start_new_session=True)
            while self._process.poll() is None and not self._stopping.wait(0.1):
                pass
            if self._stopping.is_set():
                break
            pause = 0.5 if time.monotonic() - begun > 60 else min(2 * pause, _LONGEST_PAUSE_S)
            self._stopping.wait(pause)
        if self._process is not None:
            _end(self._process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.terminate()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
