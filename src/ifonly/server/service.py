"""What the server does, apart from HTTP: questions in, what JSON is made of out; and how much of that it does."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, perf_counter
from typing import Any

import numpy as np
from prometheus_client import Gauge

from ifonly.answers import Counterfactual
from ifonly.engines.row_loops import any_cut
from ifonly.engines.threads import available
from ifonly.model.errors import InputError
from ifonly.problem.policy import PolicyError
from ifonly.problem.question import FLIP
from ifonly.problem.status import Status
from ifonly.server import replies
from ifonly.server.desk import LEAST, SEATS, Desk, Gatherer, Visit
from ifonly.server.journal import Journal, Metrics
from ifonly.server.models import Served, Shelf, Source
from ifonly.server.questions import Body, Request, path_goals, plain_row, read_request, read_rows, read_target
from ifonly.server.schema import AroundQuestion, DownloadQuestion, PathQuestion, Question
from ifonly.server.wire import RefusedError, shown
from ifonly.show import letter
from ifonly.show.letter import languages

__all__ = ["LOOPBACK", "Service", "Settings", "follow_path", "look_around", "make_file"]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
CHUNK = 32  # rows between two looks at the clock


@dataclass(frozen=True)
class Settings:
    """How much a server takes, and from whom."""

    max_rows: int = 1000  # in one request
    max_body: int = 8 * 2**20  # bytes of one request's body; all bodies together may have `app.BODIES` times as many
    timeout: float = 10.0  # seconds for the headers of a request to come, and from then to its answer
    queue: int = 1000  # requests that wait or are solved at once; one more is told to come back
    threads: int = field(default_factory=available)  # for many rows
    token: str | None = None  # what requests have to bring
    hosts: frozenset[str] = LOOPBACK  # the names by which the server may be called; ``*`` for any
    log_data: bool = False  # whether questions and answers are written to the log
    connections: int = 4096  # that are open at once
    idle_timeout: float = 75.0  # seconds between two requests: longer than gateways wait, so that these hang up first
    drain: float = 5.0  # seconds that connections get to send their last request after SIGTERM


class Service:
    """Models, the desk where work is done, and what is counted."""

    def __init__(self, sources: Sequence[Source], settings: Settings) -> None:
        self.settings, self.journal, self.metrics = settings, Journal(data=settings.log_data), Metrics()
        self.shelf = Shelf(sources, self.journal, self.metrics)
        self.desk = Desk(max(SEATS, settings.threads), settings.queue)
        others = max(1, settings.threads - 1)  # the event loop has a core too
        self.gatherer = Gatherer(self.desk, others, self.metrics.batches.observe)
        self.draining = False
        gauge = partial(Gauge, registry=self.metrics.registry)
        gauge("ifonly_queue_depth", "Requests that wait or are solved.").set_function(lambda: self.desk.waiting)
        gauge("ifonly_queue_limit", "How many may.").set(settings.queue)

    def close(self) -> None:
        """No more work."""
        self.desk.close()
        self.gatherer.close()

    async def at_desk(self, visit: Visit, name: str | None, work: Callable[..., Any], *args: Any) -> Any:
        """What is found with the model of this name, in a thread."""
        served = self.shelf.get(name)
        return await self.desk.run(visit, lambda: work(served, *args))

    async def timed(self, visit: Visit, work: Callable[..., dict[str, Any]], body: Any) -> dict[str, Any]:
        """The same, with the model's name and how long it took."""
        began, served = perf_counter(), self.shelf.get(body.model)
        return _reply(served, began, await self.desk.run(visit, lambda: work(served, body, visit)))

    def invert(self, body: Question, visit: Visit) -> Awaitable[dict[str, Any]]:
        """The smallest changes; of one row that is solved with others, nobody holds the body until then."""
        began, served = perf_counter(), self.shelf.get(body.model)
        request = plain_row(served, body)
        if request is not None:
            return self._answered(served, began, self.gatherer.solve(visit, request))
        return self._answered(served, began, self.desk.run(visit, lambda: self._invert(served, body, visit)))

    async def _answered(self, served: Served, began: float, found: Awaitable[list[replies.Answer]]) -> dict[str, Any]:
        answers = await found
        self.metrics.rows(served.name).inc(len(answers))
        return _reply(served, began, {"answers": answers})

    def _invert(self, served: Served, body: Question, visit: Visit) -> list[replies.Answer]:
        with _named_limits(body):
            request = read_request(served, body, self.settings.max_rows)
            if request.ask.conditions is None and not request.single and body.detail == "answer":
                ask = request.ask.at(backend=any_cut(), threads=self.settings.threads)
                table = ask(served.columns.table(request.rows), progress=False)
                return list(replies.of_batch([request] * len(table), table))
            answers = _solved(request, visit, self.settings.threads)
        found = []
        for i, cf in enumerate(answers):
            visit.check(i)
            words = replies.as_page(cf, request, body.top) if body.detail == "page" else {}
            found.append({**replies.of_answer(request, cf, i), **words})
        return found


def _solved(request: Request, visit: Visit, threads: int = 1) -> list[Counterfactual]:
    """The answers for one row, or for each of many: in parts, so that no row takes the time of the others."""
    ask, n = request.ask, len(request.rows)
    if request.single:
        found = ask.within(visit.left())(request.rows[0], progress=False)
        return [found] if ask.question.n is None else list(found)
    answers: list[Counterfactual] = []
    table = request.served.columns.table(request.rows)
    for a in range(0, n, CHUNK):
        visit.check(a)
        part = ask.at(threads=threads).within(visit.left() / (n - a))
        answers.extend(part(table[a : a + CHUNK], progress=False))
    return answers


def make_file(served: Served, body: DownloadQuestion, visit: Visit, kind: str, language: str | None) -> str:
    """An answer as a file; a letter is about all the answers that a row has."""
    with _named_limits(body):
        answers = _solved(read_request(served, body), visit)
    if body.plan >= len(answers):
        raise RefusedError(f"there are {len(answers)} answers, counted from 0", "plan")
    if kind != "letter":
        return replies.as_file(served, answers[body.plan], kind)
    if language is not None and language not in languages():
        raise RefusedError(f"lang must be one of {', '.join(languages())}; got {shown(language)}", "lang")
    return letter.html(answers, language=language)


def follow_path(served: Served, body: PathQuestion, visit: Visit) -> dict[str, Any]:
    """The answers along λ."""
    with _named_limits(body):
        request, (goal, values) = read_request(served, body), path_goals(body)
        if request.ask.conditions is None and goal == "lam":
            answers = list(request.ask.path(request.rows[0], lams=values))
        else:
            answers = list(_followed(request, goal, values, visit))
    return {**replies.curve(request, answers, x=body.detail == "x"), "complete": len(answers) == len(values)}


def _followed(request: Request, goal: str, values: list[float], visit: Visit) -> Iterator[Counterfactual]:
    """A path to probabilities or with limits: side by side where rows with limits can be, else as far as the time goes."""
    ask, row = request.ask, request.rows[0]
    until = monotonic() + visit.left()  # once for all points: each with its share of what is left would come to no end
    if ask.question.target in (None, "other"):
        nearest = ask.at(lam=None, prob=FLIP).within(visit.left())(row, progress=False)
        ask = ask.at(target=nearest.target)
    if ask.conditions is not None and not ask.row_by_row:
        table: Any = [row] * len(values)
        found = ask.at(**{goal: values}).within(visit.left() / len(values))(table, progress=False)
        if found.status[0] != Status.INVALID:  # where the row is wrong, or contradicts the limits, one alone says so
            yield from found
            return
    for i, value in enumerate(values):
        left = until - monotonic()
        if i and left <= LEAST:
            return
        yield ask.at(**{goal: value}).within(max(left, LEAST))(row, progress=False)


def look_around(served: Served, body: AroundQuestion, _: Visit) -> dict[str, Any]:
    """Who is near a row and decided otherwise, and what each feature does by itself."""
    for name in body.features:
        if name not in served.columns.columns:
            raise RefusedError(served.columns.unknown(name), "features")
    (row,) = read_rows(served, body)[0]
    model, target = served.model, read_target(served, body.target)
    (v,) = model.encoding.read(served.columns.table([row]), strict=False)
    z = model.scores(v)
    if not np.isfinite(z).all():
        raise RefusedError("the row has a value that cannot be computed with", "row" if body.index is None else "index")
    k = int(z.argsort()[-2]) if target in (None, "other") else model.class_index(target)
    near = replies.nearest(served, v, k)
    if near is not None:
        near |= replies.rows_told(served, [near["index"]])[0]
    curves = replies.curves(served, row, k, list(dict.fromkeys(body.features)))
    return {"target": model.label(k), "now": float(replies.reached(served, z[None], k)[0]), "nearest": near, "curves": curves}


def _reply(served: Served, began: float, found: dict[str, Any]) -> dict[str, Any]:
    return {"model": served.told, **found, "took_ms": round(1e3 * (perf_counter() - began), 3)}


@contextmanager
def _named_limits(body: Body) -> Iterator[None]:
    """What the library finds wrong with limits and row together, or with limits and policy, with the field it is about."""
    try:
        yield
    except InputError as error:
        message, bounds = str(error), getattr(body.actions, "bounds", None) or {}
        places = (f"actions.bounds.{name}" for name in bounds if message.startswith(f"{name} is "))
        raise RefusedError(message, error.field if isinstance(error, PolicyError) else next(places, None)) from None
