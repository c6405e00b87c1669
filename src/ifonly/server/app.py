"""The door that every request passes, and the addresses behind it, as FastAPI describes them.

The door is plain ASGI, because it is on the way of each request: who may ask and by which name, how large a body may be and how
long it may take, what is counted and logged, and the headers that keep a browser from doing more than it should.
"""

import hmac
import re
from collections.abc import Awaitable, Callable
from importlib.resources import files
from random import getrandbits
from time import monotonic
from typing import Annotated, Any, Literal, get_type_hints

import orjson
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from prometheus_client import generate_latest
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

import ifonly
from ifonly.model.errors import IfonlyError
from ifonly.server import replies, schema
from ifonly.server.desk import Visit
from ifonly.server.service import LOOPBACK, Service, follow_path, look_around, make_file
from ifonly.server.wire import FAILURES, RefusedError, answer_to, decode, encode, shown

__all__ = ["create_app"]

STATIC = "/static/"  # the page's files
OPEN = frozenset({"/", "/healthz", "/readyz"})  # without a token, as are the page's files
PROBES = frozenset({"/healthz", "/readyz"})  # by any name: those who ask know only an address
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

    def __init__(self, app: Any, service: Service) -> None:
        self.app, self.service, self.settings = app, service, service.settings
        posted = [route for route in app.routes if isinstance(route, APIRoute) and "POST" in (route.methods or ())]
        self.lanes = {("POST", route.path): _lane(route.endpoint) for route in posted}
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
        scope["ifonly.until"] = began + self.settings.timeout  # no more of the visit: with `receive` it would be a circle
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
        except ClientDisconnect:
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
        most, told = self.settings.max_body, int(headers.get(b"content-length", b"0"))  # which uvicorn has checked
        parts, size, more = [], 0, True
        try:
            while more and max(size, told) <= most:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
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


def _lane(endpoint: Any) -> Callable[[bytes, Request], Awaitable[Response]]:
    """The short way to an endpoint. FastAPI describes it; its own way from a body to a function takes longer than that."""
    kind = TypeAdapter(get_type_hints(endpoint)["question"])
    return lambda body, request: endpoint(decode(kind, body), request)


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


# ---- the addresses ----

FILES, WEB = files("ifonly.server") / "static", files("ifonly.show") / "web"
MOST_ROWS = 500  # of a page
Which = Annotated[str | None, Query(description="Which; by default the first.")]


def _failures(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": schema.Failure, "description": FAILURES[code][1]} for code in codes}


ASKED = _failures(401, 403, 404, 421, 422, 503, 504)
POSTED = _failures(*FAILURES)


def create_app(service: Service) -> Guard:
    """The server as an ASGI application."""
    app = FastAPI(
        title="ifonly",
        summary="The smallest change to an input that gives the decision you want from a linear classifier, exactly.",
        version=ifonly.__version__,
        docs_url=None,  # they would fetch their scripts from elsewhere
        redoc_url=None,
        exception_handlers=dict.fromkeys((HTTPException, RequestValidationError, Exception), _told),
    )
    _add_questions(app, service)
    _add_views(app, service)
    app.mount("/static/web", StaticFiles(directory=str(WEB)))  # what the page of `to_html` has too
    app.mount("/static", StaticFiles(directory=str(FILES)))
    return Guard(app, service)


def _visit(request: Request) -> Visit:
    return Visit(request.scope["ifonly.until"], request.receive)


class _Json(Response):
    """A reply, with the two headers that it needs: Starlette's own takes twice as long to find them."""

    def __init__(self, found: Any, status: int = 200) -> None:
        self.body, self.status_code, self.background = encode(found), status, None
        self.raw_headers = [(b"content-length", b"%d" % len(self.body)), (b"content-type", b"application/json")]


async def _told(_: Request, error: Exception) -> Response:
    return answer_to(error)


def _add_questions(app: FastAPI, service: Service) -> None:
    @app.post("/v1/invert", response_model=schema.Reply, responses=POSTED)
    async def invert(question: schema.Question, request: Request) -> Response:
        """The smallest change of one row, or of many, that gives the wanted decision."""
        work = service.invert(question, _visit(request))
        del question  # and with it the row as it came, some 40 kB at (784, 10), which would only fill the caches
        return _Json(await work)

    @app.post("/v1/path", response_model=schema.Curve, responses=POSTED)
    async def path(question: schema.PathQuestion, request: Request) -> Response:
        """How the answer moves as λ falls: further from the row, and surer."""
        return _Json(await service.timed(_visit(request), follow_path, question))

    @app.post("/v1/around", response_model=schema.Around, responses=POSTED)
    async def around(question: schema.AroundQuestion, request: Request) -> Response:
        """The nearest row of the data that is decided otherwise, and how the decision moves with one feature alone."""
        return _Json(await service.timed(_visit(request), look_around, question))

    content = {kind.partition(";")[0]: {} for kind in replies.FORMATS.values()}

    @app.post(
        "/v1/download", response_class=Response, responses={**POSTED, 200: {"description": "The file.", "content": content}}
    )
    async def download(
        question: schema.DownloadQuestion,
        request: Request,
        kind: Annotated[Literal["json", "html", "csv", "letter"], Query(alias="format")] = "json",
        lang: Annotated[str | None, Query(description="Of a letter: en, de, fr, es; by default the policy's.")] = None,
    ) -> Response:
        """An answer to keep: a page, the receipt that `ifonly.verify` rechecks, a table, or a letter to the person."""
        wanted = request.query_params.get("format", kind)
        if wanted not in replies.FORMATS:
            raise RefusedError(f"format must be one of {', '.join(replies.FORMATS)}; got {shown(wanted)}", "format")
        visit, language = _visit(request), request.query_params.get("lang", lang)
        text = await service.at_desk(visit, question.model, make_file, question, visit, wanted, language)
        file = "ifonly-letter.html" if wanted == "letter" else f"ifonly-answer.{wanted}"
        name = {"content-disposition": f'attachment; filename="{file}"'}
        return Response(text, headers=name, media_type=replies.FORMATS[wanted])


def _add_views(app: FastAPI, service: Service) -> None:
    shelf, settings = service.shelf, service.settings
    limits = {"max_rows": settings.max_rows, "max_body": settings.max_body}
    limits |= {"timeout_s": settings.timeout, "max_n": schema.MAX_PLANS}

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(str(FILES / "index.html"))

    @app.get("/healthz", response_model=schema.Health)
    async def healthz() -> Response:
        """Whether the process lives."""
        return _Json({"status": "ok"})

    @app.get("/readyz", response_model=schema.Ready, responses={503: {"model": schema.Ready, "description": "Not now."}})
    async def readyz() -> Response:
        """Whether requests are taken; and what is wrong with the file of a model that is served as it was before."""
        status = "draining" if service.draining else "full" if service.desk.full else "ready"
        return _Json({"status": status, "models": shelf.problems}, 200 if status == "ready" else 503)

    @app.get("/metrics", response_class=PlainTextResponse, responses=_failures(401, 403, 421))
    async def metrics() -> Response:
        """Counters in Prometheus's text format."""
        text = generate_latest(service.metrics.registry)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/models", response_model=schema.ModelList, responses=_failures(401, 403, 421))
    async def models() -> Response:
        """The models that are served."""
        return _Json({"models": shelf.listed()})

    @app.get("/v1/model", response_model=schema.ModelOut, responses=ASKED)
    async def model(model: Which = None) -> Response:
        """A model: classes, columns, what is usual in the data, and how much may be asked at once."""
        return _Json({**shelf.get(model).description, "limits": limits})

    @app.get("/v1/overview", response_model=schema.OverviewOut, responses=ASKED)
    async def overview(request: Request, model: Which = None) -> Response:
        """What is usual in the data: histograms of all columns, and some of the rows to draw."""
        served = shelf.get(model)
        if served.overview is None:
            served.overview = _Json(await service.at_desk(_visit(request), model, replies.overview))
        return served.overview

    @app.get("/v1/rows", response_model=schema.RowPage, responses=ASKED)
    async def rows(
        request: Request,
        model: Which = None,
        offset: Annotated[int, Query(ge=0, lt=2**63)] = 0,
        limit: Annotated[int, Query(ge=0, le=MOST_ROWS)] = 50,
        q: Annotated[str, Query(max_length=200, description="Text in any column, or a number.")] = "",
        label: Annotated[str | None, Query(alias="class", description="Only rows that the model puts into this class.")] = None,
        values: Annotated[bool, Query(description="Whether rows come with their values.")] = True,
    ) -> Response:
        """The rows of the data, a page at a time."""
        return _Json(await service.at_desk(_visit(request), model, replies.rows_page, offset, limit, q, label, values))
