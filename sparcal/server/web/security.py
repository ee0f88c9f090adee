"""Who may come in: host names, the token, cross-site requests, and the headers that every answer carries.

Four rules, checked before any route: the Host header must name this machine (against DNS rebinding); with a token
set, the caller shows it as a bearer token or holds a cookie that was given in exchange for it; a change made by a
browser carries the page's CSRF value and comes from our own origin; every answer forbids framing, sniffing and
anything from elsewhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparcal.server.data.sessions import session_hash
from sparcal.server.settings import WebSettings
from sparcal.server.web.patience import patient

CSRF_HEADER = "x-sparcal-csrf"
MAX_BODY = 2**20
SESSION_S = 12 * 3600  # one shift
WRONG_TOKEN_PAUSE_S = 0.5  # what a wrong guess costs, wherever it is made
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # under no-referrer, browsers send the sign-in form with the origin "null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
# A page that the station wrote into a file carries its style and pictures with it; it may do nothing else.
WRITTEN_PAGE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN_TO_ALL = ("/static/", "/login", "/healthz")


@dataclass(frozen=True)
class Keys:
    """Makes and checks sessions and CSRF values; changing the token ends every session."""

    secret: bytes
    token: str | None
    ended: set[str] = field(default_factory=set)

    @property
    def cookie(self) -> str:
        """What this station's cookie is called: browsers send all cookies of a host name to all of its ports."""
        return f"sparcal_{hashlib.sha256(b'cookie' + self.secret).hexdigest()[:12]}"

    @classmethod
    def of(cls, settings: WebSettings, ended: set[str]) -> Keys:
        """The station's keys; the secret survives restarts, so that open pages go on working.

        Args:
            ended: hashes of sessions that are over.
        """
        return cls(_secret(settings.folder / "secret"), settings.token, ended)

    def knows(self, token: str) -> bool:
        """Whether this is the token; takes as long for a near miss as for a far one."""
        return self.token is not None and hmac.compare_digest(token.encode(), self.token.encode())

    def new_session(self) -> str:
        """The value of a fresh session cookie."""
        text = f"{secrets.token_urlsafe(16)}.{int(time.time()) + SESSION_S}"
        return f"{text}.{self._sign('session', text)}"

    def is_session(self, cookie: str) -> bool:
        """Whether a cookie was given out by us and is still good."""
        text, _, signature = cookie.rpartition(".")
        if session_hash(cookie) in self.ended:
            return False
        if not hmac.compare_digest(signature.encode(), self._sign("session", text).encode()):
            return False
        return int(text.rpartition(".")[2]) > time.time()

    def end(self, session: str) -> None:
        """Make a session worthless, also to whoever has a copy of its cookie."""
        self.ended.add(session_hash(session))

    def csrf(self, session: str) -> str:
        """What a page of this session must send with every change."""
        return self._sign("csrf", session)

    def _sign(self, purpose: str, text: str) -> str:
        key = hashlib.sha256(self.secret + (self.token or "").encode()).digest()
        return hmac.new(key, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


class Guard:
    """The middleware that applies the rules."""

    def __init__(self, app: ASGIApp, settings: WebSettings, keys: Keys) -> None:
        self.app = app
        self.settings = settings
        self.keys = keys
        own = {"localhost", socket.gethostname(), settings.host, *settings.names}
        self.names = frozenset(name.lower() for name in own)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None and self._guesses(headers):
            await asyncio.sleep(WRONG_TOKEN_PAUSE_S)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    out.setdefault(name, value)
                out.setdefault("Cache-Control", "no-store")
            await send(message)

        is_upload = scope["path"].endswith("/images")  # these go to disk piece by piece, with a limit of their own
        in_time = patient(receive)
        await (refusal or self.app)(scope, in_time if is_upload else _bounded(in_time), send_guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        path: str = scope["path"]
        if not self._is_own_host(headers.get("host", "")):
            return _refuse(421, "This address is not one of the station's names: open it by its address, or --name it.")
        session = cookie_parser(headers.get("cookie", "")).get(self.keys.cookie, "")
        bearer = _bearer(headers)
        by_token = bool(bearer) and self.keys.knows(bearer)
        open_path = any(path == prefix.rstrip("/") or path.startswith(prefix) for prefix in _OPEN_TO_ALL)
        if self.settings.token is not None and not by_token and not open_path and not self.keys.is_session(session):
            if scope["method"] in _SAFE and not path.startswith("/api/"):
                return RedirectResponse("/login", status_code=303)
            return _refuse(401, "The station needs its token: sign in, or send it as a bearer token.")
        scope.setdefault("state", {})["csrf"] = self.keys.csrf(session if self.settings.token else "")
        if scope["method"] in _SAFE or by_token:
            return None
        if not self._is_own_origin(headers):
            return _refuse(403, "Changes must come from the station's own page: open it again and retry.")
        given = headers.get(CSRF_HEADER, "")
        if path != "/login" and not hmac.compare_digest(given.encode(), scope["state"]["csrf"].encode()):
            return _refuse(403, "The page is out of date: reload it and try again.")
        return None

    def _guesses(self, headers: Headers) -> bool:
        """Whether somebody shows a token that is not ours."""
        return bool(_bearer(headers)) and self.settings.token is not None and not self.keys.knows(_bearer(headers))

    def _is_own_host(self, host: str) -> bool:
        name = _host_name(host)
        if name is None:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self.names
        return True  # a rebinding attack needs a name; nobody can make an address resolve elsewhere

    def _is_own_origin(self, headers: Headers) -> bool:
        if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            return False
        origin = headers.get("origin")
        return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def is_over_tls(scheme: str, headers: Headers) -> bool:
    """Whether the browser speaks TLS, perhaps with a proxy before us; a lie costs the liar the session."""
    return "https" in {scheme, headers.get("x-forwarded-proto", "").lower()}


def _bearer(headers: Headers) -> str:
    return headers.get("authorization", "").removeprefix("Bearer ").strip()


def _bounded(receive: Receive) -> Receive:
    """What is read into memory at once stays small."""
    taken = 0

    async def receive_bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY:
            raise HTTPException(413)
        return message

    return receive_bounded


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _refuse(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=status)


def _secret(path: Path) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".secret.{os.getpid()}")
    if not path.exists():
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(handle, secrets.token_bytes(32))
        os.close(handle)
        try:
            os.link(fresh, path)  # fails if another server was first; then its secret counts
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_bytes()
