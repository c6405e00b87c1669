"""What the server does, apart from HTTP: questions in, bytes of JSON out."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import monotonic, perf_counter
from typing import Any, NamedTuple

import numpy as np

import ifonly
from ifonly.answers import Counterfactual, Counterfactuals
from ifonly.model.errors import InputError
from ifonly.model.numerics import softmax
from ifonly.server import replies
from ifonly.server.desk import Desk
from ifonly.server.gather import Gatherer
from ifonly.server.journal import Journal
from ifonly.server.metrics import Metrics
from ifonly.server.models import FLIP, Served, solve_many
from ifonly.server.questions import Asked, plain_row, read_question
from ifonly.server.refusals import RefusedError
from ifonly.server.schema import MAX_PLANS, DownloadQuestion, PathQuestion, Question
from ifonly.server.settings import Settings
from ifonly.server.shelf import Shelf
from ifonly.server.wire import encode

__all__ = ["Service", "Visit"]

LAMS = np.geomspace(1e3, 1e-5, 60)  # of a path, where none are given: as many as a small chart shows
SHARE = 0.8  # of the time left that a search may take: the rest is for telling what it found
ONE_WAY = "give one of lam, prob and margin"
CHUNK = 32  # rows between two looks at the clock
SEARCHES = 8  # that one more plan may take: without each of the features that the last one moved most
LEAST = 1e-3  # seconds: a search that has begun gets so much


class Visit(NamedTuple):
    """One request: until when it has to be answered (by `time.monotonic`), and how to learn that nobody waits any more."""

    until: float
    gone: Callable[[], Awaitable[Any]] | None = None

    def left(self) -> float:
        """Seconds that a search may still take."""
        return max(SHARE * (self.until - monotonic()), LEAST)

    def check(self, rows: int) -> None:
        """Whether there is time for one more row."""
        if monotonic() > self.until:
            raise RefusedError(f"the time for this request is over, after {rows} rows", None, 504)


class Service:
    """Models, the desk where work is done, and what is counted."""

    def __init__(self, shelf: Shelf, settings: Settings, journal: Journal, metrics: Metrics) -> None:
        self.shelf, self.settings, self.journal, self.metrics = shelf, settings, journal, metrics
        self.desk = Desk(settings.threads, settings.queue)
        self.gatherer = Gatherer(
            self.desk, max(1, settings.threads - 1), metrics.batches.observe
        )  # the event loop has a core too
        self.draining = False
        metrics.gauge("ifonly_queue_depth", "Requests that wait or are solved.", lambda: {(): self.desk.waiting})
        metrics.gauge("ifonly_queue_limit", "How many may.", lambda: {(): settings.queue})

    def close(self) -> None:
        """No more work."""
        self.desk.close()
        self.gatherer.close()

    # ---- one answer, or many ----

    async def invert(self, question: Question, visit: Visit) -> bytes:
        """The smallest changes."""
        began = perf_counter()
        served = self.shelf.get(question.model)
        asked = plain_row(served, question)
        if asked is not None and _ways(question) <= 1:
            answers, i = await self.gatherer.solve(visit.until, asked, *_wanted(question))
            found = [replies.of_batch(asked, answers, i)]
        else:
            found = await self.desk.run(visit.until, visit.gone, lambda: self._invert(served, question, visit))
        self.metrics.rows.add(served.name, by=len(found))
        return encode({"model": _name(served), "answers": found, "took_ms": _since(began)})

    def _invert(self, served: Served, question: Question, visit: Visit) -> list[dict[str, Any]]:
        asked = read_question(served, question, self.settings.max_rows)
        if _ways(question) > 1:
            raise RefusedError(ONE_WAY, "prob")
        if asked.free and not asked.single and question.margin is None and question.detail == "answer" and question.n is None:
            kind, value = _wanted(question)
            n = len(asked.rows)
            table = solve_many(served, asked.rows, [asked.target] * n, kind, [value] * n, self.settings.threads)
            return [replies.of_batch(asked, table, i) for i in range(n)]
        found = []
        for i, cf in enumerate(self._solved(asked, question, visit)):
            visit.check(i)
            words = replies.as_page(asked, cf, question.top) if question.detail == "page" else {}
            found.append({**replies.of_answer(asked, cf, i), **words})
        return found

    def _solved(self, asked: Asked, question: Question | DownloadQuestion, visit: Visit) -> list[Counterfactual]:
        model = asked.served.model
        options = {"lam": question.lam, "prob": question.prob, "margin": question.margin, **asked.limits}
        if question.n is not None and not asked.single:
            raise RefusedError("n is for one row", "n")
        with _named_limits(question):
            if question.n is not None:
                each = visit.left() / (1 + SEARCHES * (question.n - 1))
                plans = ifonly.invert(model, asked.rows[0], asked.target, n=question.n, time_limit=each, **options)
                assert isinstance(plans, Counterfactuals)
                return list(plans)
            if asked.single:
                found = ifonly.invert(model, asked.rows[0], asked.target, time_limit=visit.left(), **options)
                assert isinstance(found, Counterfactual)
                return [found]
            return self._solved_many(asked, options, visit)

    def _solved_many(self, asked: Asked, options: dict[str, Any], visit: Visit) -> list[Counterfactual]:
        """A table of rows, in parts, so that the clock is looked at, and no row takes the time of the others."""
        served, n = asked.served, len(asked.rows)
        answers: list[Counterfactual] = []
        for a in range(0, n, CHUNK):
            visit.check(a)
            table = served.columns.table(asked.rows[a : a + CHUNK])
            each = visit.left() / (n - a)
            found = ifonly.invert(served.model, table, asked.target, time_limit=each, threads=self.settings.threads, **options)
            assert isinstance(found, Counterfactuals)
            answers.extend(found)
        return answers

    # ---- a path ----

    async def path(self, question: PathQuestion, visit: Visit) -> bytes:
        """The answers along λ."""
        began = perf_counter()
        served = self.shelf.get(question.model)
        found = await self.desk.run(visit.until, visit.gone, lambda: self._path(served, question, visit))
        return encode({"model": _name(served), **found, "took_ms": _since(began)})

    def _path(self, served: Served, question: PathQuestion, visit: Visit) -> dict[str, Any]:
        asked = read_question(served, question, 1)
        if question.lams is not None and question.probs is not None:
            raise RefusedError("give one of lams and probs", "probs")
        lams = LAMS if question.lams is None else np.array(question.lams)
        points = [{"lam": lam} for lam in lams.tolist()] if question.probs is None else [{"prob": p} for p in question.probs]
        answers: list[Counterfactual] = []
        with _named_limits(question):
            if asked.free and question.probs is None:
                answers = list(ifonly.path(served.model, asked.rows[0], asked.target, lams=lams, **asked.limits))
            else:
                answers = list(self._followed(asked, points, visit))
        found = [replies.curve_point(asked, cf, x=question.detail == "x") for cf in answers]
        k = served.model.class_index(answers[0].target)
        now = float(softmax(served.model.scores(answers[0].coordinates[0]))[k])
        columns = {name: [point[name] for point in found] for name in found[0]}
        return {"target": answers[0].target, "p_now": now, "complete": len(answers) == len(points), **columns}

    @staticmethod
    def _followed(asked: Asked, points: list[dict[str, float]], visit: Visit) -> Iterator[Counterfactual]:
        """A path with limits, one λ or probability after the other, as far as the time goes: `ifonly.path` would go on."""
        model, row, target = asked.served.model, asked.rows[0], asked.target
        if target in (None, "other"):
            nearest = ifonly.invert(model, row, target, prob=FLIP, time_limit=visit.left(), **asked.limits)
            assert isinstance(nearest, Counterfactual)
            target = nearest.target
        for i, point in enumerate(points):
            if i and visit.left() <= LEAST:
                return
            found = ifonly.invert(model, row, target, **point, time_limit=visit.left(), **asked.limits)
            assert isinstance(found, Counterfactual)
            yield found

    # ---- files and rows ----

    async def download(self, question: DownloadQuestion, kind: str, visit: Visit) -> str:
        """An answer as a file."""
        served = self.shelf.get(question.model)

        def work() -> str:
            asked = read_question(served, question, 1)
            if _ways(question) > 1:
                raise RefusedError(ONE_WAY, "prob")
            answers = self._solved(asked, question, visit)
            if question.plan >= len(answers):
                raise RefusedError(f"there are {len(answers)} answers, counted from 0", "plan")
            return replies.as_file(served, answers[question.plan], kind)

        return await self.desk.run(visit.until, visit.gone, work)

    async def rows(self, name: str | None, visit: Visit, *args: Any, **options: Any) -> bytes:
        """A page of the data; the arguments are those of `replies.rows_page`."""
        served = self.shelf.get(name)
        return encode(await self.desk.run(visit.until, visit.gone, lambda: replies.rows_page(served, *args, **options)))

    # ---- about itself ----

    def describe(self, name: str | None) -> bytes:
        """A model, and how much may be asked at once."""
        s = self.settings
        limits = {"max_rows": s.max_rows, "max_body": s.max_body, "timeout_s": s.timeout, "max_n": MAX_PLANS}
        return encode({**self.shelf.get(name).description, "limits": limits})

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether requests are taken."""
        status = "draining" if self.draining else "full" if self.desk.full else "ready"
        return status == "ready", {"status": status, "models": self.shelf.problems}


def _ways(question: Question | DownloadQuestion) -> int:
    return sum(value is not None for value in (question.lam, question.prob, question.margin))


def _wanted(question: Question) -> tuple[str, float]:
    """λ, or else the probability."""
    return ("prob", question.prob or FLIP) if question.lam is None else ("lam", question.lam)


def _name(served: Served) -> dict[str, str]:
    return {"name": served.name, "fingerprint": served.fingerprint}


def _since(began: float) -> float:
    return round(1e3 * (perf_counter() - began), 3)


@contextmanager
def _named_limits(question: Question | DownloadQuestion | PathQuestion) -> Iterator[None]:
    """What the library finds wrong with limits and row together, with the feature that it is about."""
    try:
        yield
    except InputError as error:
        message, bounds = str(error), getattr(question.actions, "bounds", None) or {}
        names = [name for name in bounds if message.startswith(f"{name} is ")]
        raise RefusedError(message, f"actions.bounds.{names[0]}" if names else None) from None
