"""One small HTTP server that answers GET: `/` is the live page, `/data.json` what it shows, `/metrics` is for Prometheus."""

from __future__ import annotations

import base64
import errno
import hashlib
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable
from importlib.resources import files
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from penstock.core.errors import PenstockError
from penstock.spark.watch.board import Board
from penstock.spark.watch.data import page_data
from penstock.spark.watch.exposition import Exposition

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_ANSWERED = ("GET", "HEAD")
_NOT_HERE = b"here the Host of a request must be localhost or a loopback address\n"


class PortTakenError(PenstockError):
    """Somebody else listens at that port."""


class Application:
    """Answers a request, by WSGI."""

    def __init__(self, board: Board, look: Callable[[], None]) -> None:
        self.board, self.look = board, look
        registry = CollectorRegistry()
        registry.register(Exposition(board))
        self.metrics = make_wsgi_app(registry)
        self.page = files("penstock.spark.watch").joinpath("page.html").read_bytes()  # the package may be a zip file
        self.policy = _content_policy(self.page.decode())

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if _is_loopback(environ["SERVER_NAME"]) and not _names_loopback(environ.get("HTTP_HOST")):
            return self._answer(start, "403 Forbidden", "text/plain", _NOT_HERE, head=method == "HEAD")
        if method not in _ANSWERED:
            return self._answer(start, "405 Method Not Allowed", "text/plain", f"{method} is not answered, GET is\n".encode())
        head = method == "HEAD"
        self.look()
        if path == "/metrics":
            kept: list[Any] = []
            (body,) = self.metrics(environ | {"REQUEST_METHOD": "GET"}, lambda *said: kept.extend(said))
            status, headers = kept
            return self._answer(start, status, None, body, headers, head=head)
        if path == "/":
            return self._answer(start, "200 OK", "text/html", self.page, head=head)
        if path == "/data.json":
            return self._answer(start, "200 OK", "application/json", page_data(self.board), head=head)
        return self._answer(start, "404 Not Found", "text/plain", b"there is /, /metrics and /data.json\n", head=head)

    def _answer(
        self, start: StartResponse, status: str, kind: str | None, body: bytes, more: Iterable[tuple[str, str]] = (), *, head: bool = False
    ) -> list[bytes]:
        headers = [
            *more,
            *([("Content-Type", f"{kind}; charset=utf-8")] if kind else []),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", self.policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
            ("Server", "penstock"),
        ]
        start(status, [*headers, ("Allow", ", ".join(_ANSWERED))] if status.startswith("405") else headers)
        return [b"" if head else body]


def listen(port: int, address: object) -> WSGIServer:
    """A server at this place, which does not answer yet."""
    try:
        if not isinstance(address, str) or not address:
            raise TypeError
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        kind = _Server6 if found[0] == socket.AF_INET6 else _Server
        return kind((str(found[4][0]), port), _Handler)
    except (OSError, TypeError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        if number == errno.EADDRINUSE:
            raise PortTakenError(f"port must be free, got {port}, where another program listens: choose another, or 0 for any") from None
        if number == errno.EACCES:
            raise PenstockError(f"port must be one that you may listen on, got {port}: those below 1024 are the system's") from None
        raise PenstockError(f"address must be one of this machine, such as 127.0.0.1 or 0.0.0.0, got {address!r}") from None


def _names_loopback(host: str | None) -> bool:
    """Whether the Host of a request is this machine's own; one without a Host is not from a browser.

    A page of others could let its own name stand for this machine after a while (DNS rebinding), and then read what is here.

    >>> [_names_loopback(host) for host in ("localhost:9108", "[::1]:9108", None, "others.example:9108")]
    [True, True, True, False]
    """
    if host is None:
        return True
    found = re.fullmatch(r"(?:\[([^\]]*)\]|([^:]*))(?::\d*)?", host)
    name = "" if found is None else (found[1] or found[2] or "").lower().removesuffix(".")
    return name == "localhost" or _is_loopback(name)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _content_policy(page: str) -> str:
    """The page runs its own script and style and asks this server alone; nothing else is loaded, nor may others frame it."""

    def own(tag: str) -> str:
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in found)

    return (
        f"default-src 'none'; script-src {own('script')}; style-src {own('style')}; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Without the name of the machine, for which a server of names would be asked."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is none of our business."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = 30  # seconds that a client may take

    def log_message(self, format: str, *arguments: object) -> None:
        """Not into the log of the query."""
