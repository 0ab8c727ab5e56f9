"""Who may ask: the user's own processes on this machine, and whoever has the token. No web page may."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import struct
import sys
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from efim_ls.failures import Failure

TOKEN_BYTES = 32
TOKEN_FILE = "http-token"  # in the cache folder
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})  # what a client on this machine calls it
# Of linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h: a question about one socket, and its answer.
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST = 4, 20, 1
ANY_STATE = NO_COOKIE = 0xFFFFFFFF
HEADER, ASKED = struct.Struct("=IHHII"), struct.Struct("=BBBBI")
ENDS, PLACE, OWNER = struct.Struct(">HH16s16s"), struct.Struct("=III"), struct.Struct("=II")
TOLD_ENDS = HEADER.size + 4
TOLD_OWNER = TOLD_ENDS + ENDS.size + PLACE.size + 12

NO_PAGES = "requests of web pages are refused: use a program that sends no Origin or Sec-Fetch-Site header"
FOREIGN_NAME = "this server is not called {name!r}: use the address at which it listens"
NO_TOKEN = "this needs the token of the user who runs the server: send it as `Authorization: Bearer TOKEN`"

Endpoint = tuple[str, int]


class Guard:
    """Lets requests through to an application, or answers them with an error."""

    def __init__(self, app: ASGIApp, host: str, token: str) -> None:
        """Guard what listens on `host`; on loopback, the user's own processes need no token."""
        self._app, self._token = app, token.encode()
        self._is_local = is_loopback(host)
        self._names = LOCAL_NAMES | {f"[{host}]" if ":" in host else host}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        answer = self._app if (refused := self._refused(scope)) is None else refused
        await answer(scope, receive, send)

    def _refused(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        name, _, port = headers.get("host", "").rpartition(":")
        name = name if name and port.isdecimal() else headers.get("host", "")
        # Browsers send no origin where a page only shows the answer, as an image or a script.
        if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
            return error_answer(403, NO_PAGES)
        if self._is_local and name.lower() not in self._names:  # a page's own name that leads here: DNS rebinding
            return error_answer(403, FOREIGN_NAME.format(name=name))
        if self._has_token(headers) or (self._is_local and _is_own(scope["client"], scope["server"])):
            return None
        return error_answer(401, NO_TOKEN)

    def _has_token(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and secrets.compare_digest(given.strip().encode(), self._token)


def error_answer(status: int, message: str) -> JSONResponse:
    """Return an error in the form that llama.cpp's and OpenAI's clients read."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse({"error": {"code": status, "message": message, "type": kind}}, status)


def is_loopback(host: str) -> bool:
    """Return whether only processes of this machine reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(folder: Path) -> tuple[str, Path]:
    """Return the user's token and the file that keeps it, readable by the user alone; make it if there is none.

    Raises Failure if the file cannot be used.
    """
    path = folder / TOKEN_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(
            os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="ascii", errors="replace"
        ) as file:
            os.chmod(path, 0o600)
            if len(token := file.read().strip()) < TOKEN_BYTES:  # else a process that died may have left it empty
                file.seek(0)
                file.write(f"{(token := secrets.token_urlsafe(TOKEN_BYTES))}\n")
                file.truncate()
    except OSError as error:
        raise Failure(f"{path} cannot be used ({error.strerror}): check its permissions") from error
    return token, path


def _is_own(client: Endpoint | None, server: Endpoint | None) -> bool:
    """Return whether a connection over loopback comes from a process of the user who runs this one."""
    if client is None or server is None or not is_loopback(client[0]):
        return False
    owner = owner_of(client, server)
    return owner is not None and owner == os.getuid()


def owner_of(client: Endpoint, server: Endpoint) -> int | None:
    """Return the user id of the process at the client's end of a connection on this machine, None if unknown.

    It is unknown where the connection is already closed at that end, and where the system is not Linux, which is
    asked by netlink: man 7 sock_diag. (To read /proc/net/tcp instead takes ten milliseconds.)
    """
    if sys.platform != "linux":
        return None
    family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
    ends = ENDS.pack(client[1], server[1], *(socket.inet_pton(family, each[0]) for each in (client, server)))
    request = ASKED.pack(family, socket.IPPROTO_TCP, 0, 0, ANY_STATE) + ends + PLACE.pack(0, NO_COOKIE, NO_COOKIE)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as asking:
            asking.send(HEADER.pack(HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0) + request)
            told = asking.recv(1 << 12)
    except OSError:
        return None
    if HEADER.unpack_from(told)[1] != SOCK_DIAG_BY_FAMILY:
        return None
    if ENDS.unpack_from(told, TOLD_ENDS)[:2] != (client[1], server[1]):  # a socket that listens at the client's port
        return None
    owner, inode = OWNER.unpack_from(told, TOLD_OWNER)
    return owner if inode else None
