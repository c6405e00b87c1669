"""The door: every request passes here first, and everything that is said goes out here.

Plain ASGI, because it is on the way of each request: who may ask and by which name, how large a body may be and how long it may
take, what is counted and logged, and the headers that keep a browser from doing more than it should.
"""

import hmac
import re
from collections.abc import Awaitable, Callable
from random import getrandbits
from time import monotonic
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from ifonly.model.errors import IfonlyError
from ifonly.server.desk import GoneError
from ifonly.server.service import LOOPBACK, Service
from ifonly.server.wire import RefusedError, answer_to

__all__ = ["Guard", "Lane"]

Lane = Callable[[bytes, Request], Awaitable[Response]]

STATIC = "/static/"  # the page's files
OPEN = frozenset({"/", "/healthz", "/readyz"})  # without a token, as are the page's files
PROBES = frozenset({"/healthz", "/readyz"})  # by any name: those who ask know only an address
LENGTH_DIGITS = 18  # of a Content-Length
BODIES = 16  # times the largest body: what all bodies that are being read may take together
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
FRESH, SECRET = [*HEADERS, (b"cache-control", b"no-cache")], [*HEADERS, (b"cache-control", b"no-store")]
GONE = 499  # until an answer begins; as nginx has it in its logs: nobody waits for one
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")  # that a request may bring; else it gets a new one


class Guard:
    """An ASGI application around another.

    What is sent to one of the lanes, by method and path, is answered without it: at (784, 10) half of the time of a request.
    """

    def __init__(self, app: Any, lanes: dict[tuple[str, str], Lane], service: Service) -> None:
        self.app, self.lanes, self.service = app, lanes, service
        self.settings = service.settings
        # What the log calls an address, and the headers of its replies; a browser may keep the page and its files.
        self.places = {route.path: (route.path, SECRET) for route in app.routes}
        self.places |= {"/": ("/", FRESH), STATIC: ("/static", FRESH)}
        self.token = None if self.settings.token is None else self.settings.token.encode()
        self.reading = 0  # bytes of bodies that are being read

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request: HTTP is all that uvicorn is told to speak (`run`)."""
        began = monotonic()
        path, method = scope["path"], scope["method"]
        known, ours = self.places.get(STATIC if path.startswith(STATIC) else path, ("other", SECRET))
        headers: dict[bytes, bytes] = dict(scope["headers"])
        scope["ifonly.until"] = began + self.settings.timeout
        given = headers.get(b"x-request-id")
        name = given if given and REQUEST_ID.fullmatch(given) else b"%016x" % getrandbits(64)
        said: dict[str, Any] = {}  # for the log, where that may have it
        status, unread = GONE, b"content-length" in headers or b"transfer-encoding" in headers

        async def reply(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *ours, (b"x-request-id", name)]
                if unread or self.service.draining:
                    message["headers"].append((b"connection", b"close"))
            elif self.settings.log_data:
                said["answered"] = _readable(message.get("body", b""))
            await send(message)

        try:
            self._admit(path, headers)
            lane = self.lanes.get((method, path))
            if lane is None:
                await self.app(scope, receive, reply)
            else:
                body = await self._body(receive, headers)
                unread = False
                if self.settings.log_data:
                    said["asked"] = _readable(body)
                work = lane(body, Request(scope, receive))
                del body  # which nobody needs while the answer is being found
                await (await work)(scope, receive, reply)
        except GoneError:
            pass
        except Exception as error:
            if not isinstance(error, (RefusedError, IfonlyError)):
                self.service.journal.failed("error", error, id=name.decode(), path=known)
            if status == GONE:
                await answer_to(error)(scope, receive, reply)
        finally:
            seconds = monotonic() - began
            self.service.metrics.answered(method, known, status, seconds)
            noted = {"id": name.decode(), "method": method, "path": known, "status": status, "ms": round(1e3 * seconds, 3)}
            self.service.journal.write("request", **noted, **said)

    def _admit(self, path: str, headers: dict[bytes, bytes]) -> None:
        """Whether this request may be made at all."""
        hosts = self.settings.hosts
        if "*" not in hosts and path not in PROBES:
            host = _hostname(headers.get(b"host", b"").decode("latin-1"))
            if host not in hosts:
                raise RefusedError(f"this server is not called {host[:80]!r} (see --allow-host)", None, 421)
        origin = headers.get(b"origin")
        if origin is not None:  # a page of this server's, by the name it was called by, or by one that a gateway in front has?
            place = origin.lower().partition(b"://")[2]
            own = _hostname(place.decode("latin-1")) in hosts - LOOPBACK
            if place != headers.get(b"host", b"").lower() and not own:
                raise RefusedError("requests from other sites' pages are not answered", None, 403)
        if self.token is not None and path not in OPEN and not path.startswith(STATIC):
            kind, _, token = headers.get(b"authorization", b"").partition(b" ")
            if not hmac.compare_digest(token.strip(), self.token) or kind.lower() != b"bearer":
                raise RefusedError("a token is needed: Authorization: Bearer …", None, 401)

    async def _body(self, receive: Any, headers: dict[bytes, bytes]) -> bytes:
        """The body, if it is not too large; that it comes in time is looked after where bytes come in (`run`)."""
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise RefusedError("the body must be JSON, with Content-Type: application/json", None, 415)
        most, length = self.settings.max_body, headers.get(b"content-length", b"0")
        told = int(length) if length.isdigit() and len(length) <= LENGTH_DIGITS else most + 1
        parts, size, more = [], 0, True
        try:
            while more and max(size, told) <= most:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise GoneError
                part, more = message.get("body", b""), message.get("more_body", False)
                parts.append(part)
                size += len(part)
                self.reading += len(part)
                if size <= most and self.reading > BODIES * most:
                    raise RefusedError("too many large requests at once; try again soon", None, 503)
        finally:
            self.reading -= size
        if max(size, told) > most:
            raise RefusedError(f"a body may have {most} bytes", None, 413)
        return b"".join(parts)  # of one part: itself, not a copy


def _readable(body: bytes) -> Any:
    """A body as the log shows it."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode(errors="replace")


def _hostname(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
