"""The model hub: asked once, for a few seconds, whether it is there, before a library asks it again and again for minutes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from urllib.parse import urlsplit
from urllib.request import getproxies

PATIENCE_S = 3.0
_HUB = "https://huggingface.co"


@contextmanager
def asking_the_hub() -> Iterator[None]:
    """Within this block a hub that does not answer is not asked: what is in its cache is found, all else fails at once."""
    silent = silence_of_the_hub()
    if silent is None:
        yield
        return
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    except Exception as error:
        # That the hub is off limits is our doing; anything else that a library says is worth hearing too.
        more = "" if _from_the_hub(error) else f"; {str(error).partition(chr(10))[0]}"
        raise ConnectionError(f"{silent}{more}") from error
    finally:
        constants.HF_HUB_OFFLINE = before


def silence_of_the_hub(wait_s: float = PATIENCE_S) -> str | None:
    """What kept the hub, or the proxy that leads to it, from answering within `wait_s` seconds; None if it answers."""
    address = urlsplit(os.environ.get("HF_ENDPOINT") or _HUB)
    proxy = getproxies().get(address.scheme)
    way = address if proxy is None else urlsplit(proxy if "//" in proxy else f"//{proxy}")
    host, port = way.hostname or "", way.port or (80 if way.scheme == "http" else 443)
    answers: list[str | None] = []

    def knock() -> None:
        try:
            socket.create_connection((host, port), timeout=wait_s).close()
            answers.append(None)
        except OSError as error:
            answers.append(f"{host} cannot be reached: {error.strerror or error}")

    knocking = Thread(target=knock, daemon=True)  # looking up a name may take longer than any time limit of a socket
    knocking.start()
    knocking.join(wait_s)
    return answers[0] if answers else f"{host} did not answer within {wait_s:g} s"


def _from_the_hub(error: BaseException | None) -> bool:
    """Whether an error began as one of the hub's own, however a library has wrapped it since."""
    while error is not None:
        if type(error).__module__.startswith("huggingface_hub"):
            return True
        error = error.__cause__ or error.__context__
    return False
