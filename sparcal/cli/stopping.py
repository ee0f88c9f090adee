"""Ctrl-C, what a service manager sends, a terminal that closes: each ends a command as an error does, all put away.

Without this a SIGTERM would end the process on the spot, and leave what it was writing under a temporary name.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

BY_SIGNAL = 128  # what a shell adds to a signal's number to make an exit code of it
CTRL_C = BY_SIGNAL + signal.SIGINT
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """Which signal asked the command to stop; None while none did."""

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def code(self) -> int:
        """The exit code that a shell knows the signal by: 130 for Ctrl-C."""
        return BY_SIGNAL + (self.number or signal.SIGINT)


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Inside this block each of these signals is a KeyboardInterrupt; one that the caller ignores stays ignored (nohup)."""
    stop = Stop()

    def end(number: int, _frame: FrameType | None) -> None:
        stop.number = number
        raise KeyboardInterrupt

    before = {}
    if threading.current_thread() is threading.main_thread():  # no other may set them
        before = {number: signal.getsignal(number) for number in _ENDING}
    mine = [number for number, now in before.items() if now in (signal.SIG_DFL, signal.default_int_handler)]
    for number in mine:
        signal.signal(number, end)
    try:
        yield stop
    finally:
        for number in mine:
            signal.signal(number, before[number])


def leave(code: int) -> NoReturn:
    """End the process with this code; by the signal itself where that ended the work, as service managers expect."""
    number = code - BY_SIGNAL
    if number in _ENDING and number != signal.SIGINT:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(code)
