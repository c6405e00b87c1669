"""The addresses: what FastAPI knows of them, and so the OpenAPI description."""

from importlib.resources import files
from typing import Annotated, Any, Literal, get_type_hints
from weakref import WeakKeyDictionary

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from prometheus_client import generate_latest
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException

import ifonly
from ifonly.server import overview as seen
from ifonly.server import replies, schema, shapes
from ifonly.server.desk import Visit
from ifonly.server.guard import Guard, Lane
from ifonly.server.models import Served
from ifonly.server.service import Service, follow_path, look_around, make_file
from ifonly.server.wire import FAILURES, RefusedError, answer_to, decode, encode, shown

__all__ = ["create_app"]

STATIC, WEB = files("ifonly.server") / "static", files("ifonly.show") / "web"
MOST_ROWS = 500  # of a page
Which = Annotated[str | None, Query(description="Which; by default the first.")]


def _failures(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": shapes.Failure, "description": FAILURES[code][1]} for code in codes}


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
    )
    for kind in (HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _told)
    _add_questions(app, service)
    _add_views(app, service)
    app.mount("/static/web", StaticFiles(directory=str(WEB)))  # what the page of `to_html` has too
    app.mount("/static", StaticFiles(directory=str(STATIC)))
    posted = [route for route in app.routes if isinstance(route, APIRoute) and "POST" in (route.methods or ())]
    return Guard(app, {("POST", route.path): _lane(route.endpoint) for route in posted}, service)


def _lane(endpoint: Any) -> Lane:
    """The short way to an endpoint. FastAPI describes it; its own way from a body to a function takes longer than that."""
    kind = TypeAdapter(get_type_hints(endpoint)["question"])
    return lambda body, request: endpoint(decode(kind, body), request)


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
    @app.post("/v1/invert", response_model=shapes.Reply, responses=POSTED)
    async def invert(question: schema.Question, request: Request) -> Response:
        """The smallest change of one row, or of many, that gives the wanted decision."""
        work = service.invert(question, _visit(request))
        del question  # and with it the row as it came, some 40 kB at (784, 10), which would only fill the caches
        return _Json(await work)

    @app.post("/v1/path", response_model=shapes.Curve, responses=POSTED)
    async def path(question: schema.PathQuestion, request: Request) -> Response:
        """How the answer moves as λ falls: further from the row, and surer."""
        return _Json(await service.timed(_visit(request), follow_path, question))

    @app.post("/v1/around", response_model=shapes.Around, responses=POSTED)
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
    overviews: WeakKeyDictionary[Served, Response] = WeakKeyDictionary()

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(str(STATIC / "index.html"))

    @app.get("/healthz", response_model=shapes.Health)
    async def healthz() -> Response:
        """Whether the process lives."""
        return _Json({"status": "ok"})

    @app.get("/readyz", response_model=shapes.Ready, responses={503: {"model": shapes.Ready, "description": "Not now."}})
    async def readyz() -> Response:
        """Whether requests are taken; and what is wrong with the file of a model that is served as it was before."""
        status = "draining" if service.draining else "full" if service.desk.full else "ready"
        return _Json({"status": status, "models": shelf.problems}, 200 if status == "ready" else 503)

    @app.get("/metrics", response_class=PlainTextResponse, responses=_failures(401, 403, 421))
    async def metrics() -> Response:
        """Counters in Prometheus's text format."""
        text = generate_latest(service.metrics.registry)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/models", response_model=shapes.ModelList, responses=_failures(401, 403, 421))
    async def models() -> Response:
        """The models that are served."""
        return _Json({"models": shelf.listed()})

    @app.get("/v1/model", response_model=shapes.ModelOut, responses=ASKED)
    async def model(model: Which = None) -> Response:
        """A model: classes, columns, what is usual in the data, and how much may be asked at once."""
        return _Json({**shelf.get(model).description, "limits": limits})

    @app.get("/v1/overview", response_model=shapes.OverviewOut, responses=ASKED)
    async def overview(request: Request, model: Which = None) -> Response:
        """What is usual in the data: histograms of all columns, and some of the rows to draw."""
        served = shelf.get(model)
        if served not in overviews:  # computed once, as long as the model's file stays the same
            overviews[served] = _Json(await service.at_desk(_visit(request), model, seen.overview))
        return overviews[served]

    @app.get("/v1/rows", response_model=shapes.RowPage, responses=ASKED)
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
