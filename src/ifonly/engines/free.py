"""What the engines for free problems share: the first pass over A, the nearest class, rows side by side, starts.

Rows side by side are grouped by target (a group shares one Ḡ), given to a row loop, and come back with their certificate; rows
that a loop gives up go through the method for one.
"""

from abc import abstractmethod
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines import nearest
from ifonly.engines.class_space import ClassProblem
from ifonly.engines.coordinates import logit, rivals_softmax, softmax_rows
from ifonly.engines.newton import MAX_ITER, Solved
from ifonly.engines.protocol import Engine, Piece
from ifonly.engines.rounding import Rounding
from ifonly.engines.row_loops import RowLoop, choose_loop, read_starts
from ifonly.engines.threads import on_threads
from ifonly.engines.windows import Window
from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.model.numerics import Flags, Floats, Indices, softmax
from ifonly.problem.asked import NEAREST, Aim, Aims, Asked
from ifonly.problem.question import Question
from ifonly.problem.results import Result, Results
from ifonly.problem.status import Status
from ifonly.rows.sources import Sizes, Sources

__all__ = ["FreeEngine", "Stop"]

# Rows of x per chunk: few enough to bound the memory, many enough that the loop's lanes are full (a chunk is split by target)
# and a chunk's fixed cost does not show. Smaller chunks, which stay in the cache between the two passes, were slower: on
# MNIST 6.1 µs a row with 4 MB, 5.1 with 16, 5.0 with 64.
CHUNK_BYTES = 48 * 2**20
CHUNK_ROWS = (512, 16384)

# Where rivals' pulls cancel, x moves far less than the Σq that a window grows with. From this many times what is needed on, a
# row of the array program goes through the method for one, which knows the distance; the compiled loop knows it too.
LOOSE = 4.0


class Stop(NamedTuple):
    """Where a method stops: at ‖∇E‖ ≤ ``tol`` (None: at the last digit), or after so many iterations."""

    tol: float | None = None
    max_iter: int = MAX_ITER

    @classmethod
    def of(cls, question: Question) -> "Stop":
        """As the user said."""
        return cls(question.tol, question.max_iter or MAX_ITER)


def unchangeable(problem: ClassProblem, prob: float) -> Result:
    """The source where all rows of A are the same: p_k is that of b, and either it is enough or not.

    Where A is not 0, whoever evaluates it rounds ``A x`` away, and a p_k as near to τ as that is enough for some only;
    where it is 0, one that is enough as computed may not be in truth.
    """
    model = problem.model
    p = float(softmax(model.b)[problem.k])
    short = logit(1 - p, p) - logit(1 - prob, prob)
    doubtful = abs(short) <= problem.rounding.of_source(problem.size)
    if model.row_norm == 0:
        from ifonly.problem.exactly import exp_within  # the checker's, which is loaded when it is asked

        b = [Fraction(bias) for bias in model.b.tolist()]
        in_truth = Fraction(prob) * sum(exp_within(bias - b[problem.k])[1] for bias in b) <= 1  # no rounding shows
        doubtful = (p >= prob) != in_truth
    if doubtful:
        return problem.stay(Status.MAX_ITER)
    return problem.stay(Status.EXACT if p >= prob else Status.UNREACHABLE)


class FreeEngine(Engine):
    """See the module."""

    lanes = True  # whether rows can go side by side

    @abstractmethod
    def minimise(self, problem: ClassProblem, lam: float, stop: Stop, start: Floats | None = None) -> Result:
        """The least E for one λ; ``start`` are margins to start from, which most engines refuse."""

    def reach(self, problem: ClassProblem, prob: float, stop: Stop) -> Result:
        """The nearest x with ``p_k(x) ≥ prob``, or the best there is, with status UNREACHABLE."""
        window = Window.of(problem.model, problem.rounding, problem.size, prob)
        p, p_target, _ = rivals_softmax(problem.margins)
        if logit(float(np.add.reduce(p)), p_target) <= window.logit - window.slack:
            return problem.stay(Status.EXACT)
        return self.leave(problem, prob, window, stop) if problem.lengths.any() else unchangeable(problem, prob)

    @abstractmethod
    def leave(self, problem: ClassProblem, prob: float, window: Window, stop: Stop) -> Result:
        """`reach` where the source is not the answer, and can be changed."""

    def loop(self, asked: Asked, n_rows: int | None) -> RowLoop:
        """How so many rows run; one after the other where they cannot go side by side."""
        loop = choose_loop(asked, n_rows)
        return loop if self.lanes and not asked.model.dependent else RowLoop(table=loop.table, threads=loop.threads)

    # ---- one source ----

    def one(self, asked: Asked, sources: Sources, aim: Aim) -> Result:
        """The answer for one source."""
        model, question = asked.model, asked.question
        if question.backend == "cuda":  # a table of one row
            found = self.solve(asked, Piece(sources, Aims.of(aim)))[0]
            if found.status is Status.INVALID:
                raise sources.reject(0)
            return found
        loop = self.loop(asked, 1)
        if loop.compiled and question.start is None and isinstance(sources.rows, np.ndarray):
            x = _in_pieces(sources.rows)
            if aim.k != NEAREST:
                found = loop.compiled.one(model, aim, *Stop.of(question), x)
                if found is not None:
                    return found
            else:
                z, sizes = loop.compiled.project(model, x)
                if np.isfinite(z).all() and sizes.norm < np.inf:
                    return self.row(asked, z, sizes, aim, compiled=loop.compiled)
        z, sizes = sources.project_one()
        start = _starts(asked, z[None], 0, 1)
        return self.row(asked, z, sizes, aim, None if start is None else start[0])

    def row(self, asked: Asked, z: Floats, sizes: Sizes, aim: Aim, start: Floats | None = None, compiled: Any = None) -> Result:
        """The answer for ``z = rows @ x̄``; ``start`` is ``rows @ x₀``; a ``compiled`` loop, if there is one, is asked first."""
        model, stop = asked.model, Stop.of(asked.question)

        def solve(k: int) -> Result:
            found = compiled and compiled.one(model, aim._replace(k=k), *stop, known=(z, sizes))
            if found:
                return found
            problem = ClassProblem(model, z, sizes, k, aim.prob)
            if aim.prob is not None:
                return self.reach(problem, aim.prob, stop)
            assert aim.lam is not None
            at = None if start is None else problem.margins if np.array_equal(start, z) else model.margins(start, k)
            return self.minimise(problem, aim.lam, stop, at)

        if aim.k != NEAREST:
            return solve(aim.k)
        return nearest.search(*nearest.of_one(model, z, aim), solve, aim)

    # ---- many ----

    def chunk_rows(self, asked: Asked) -> int | None:
        """As many as fit into the memory for a chunk; a GPU cuts tables itself."""
        if asked.question.backend == "cuda":
            return None
        least, most = CHUNK_ROWS
        return min(max(CHUNK_BYTES // (8 * asked.model.n_features), least), most)

    def solve(self, asked: Asked, rows: Piece) -> Results:
        """The answers for a piece of a table: the first pass, the loops between, and the second pass where x is wanted."""
        sources, aims, per = rows.sources, rows.aims, asked.per_source
        loop, plain = self.loop(asked, rows.total), per == 1 and asked.question.start is None
        if loop.table is not None and plain:
            options = Stop.of(asked.question)._asdict()
            found = loop.table(sources, aims, rows.out, **options, alone=lambda *row: self.row(asked, *row))
            if found is not None:
                return found
        direct = loop.compiled and plain and isinstance(sources.rows, np.ndarray)
        if direct and (aims.targets >= 0).all() and (rows.out is None or _in_pieces(rows.out) is rows.out):
            return self._straight(asked, rows, loop)
        Z, sizes = sources.project()
        starts = _starts(asked, Z, rows.first, None if rows.total is None else rows.total // per)
        if per > 1:
            Z, sizes, starts = Z[rows.each], sizes.take(rows.each), None if starts is None else starts[rows.each]
        found = self._solve(asked, Z, sizes, aims, starts, loop)
        if rows.out is not None:
            sources.repeated(per).move(found.coef, rows.out)
        return found

    def _straight(self, asked: Asked, rows: Piece, loop: RowLoop) -> Results:
        """A piece of a table, each row with its class, through the compiled loop: from sources to x."""
        model, sources, aims = asked.model, rows.sources, rows.aims
        batch = Batch.of(asked, aims, loop, alone=rows.total == 1, X=_in_pieces(sources.rows), out=rows.out)
        left = np.flatnonzero(~batch.solve(np.arange(len(aims.targets)), aims.targets))
        if len(left):
            some = Sources(model, sources.rows[left], False)
            batch.results.copy(left, self._solve(asked, *some.project(), aims.take(left), None, RowLoop()))
            if rows.out is not None:
                made = np.empty((len(left), model.n_features))
                some.move(batch.results.coef[left], made)
                rows.out[left] = made
        return batch.results

    def _solve(self, asked: Asked, Z: Floats, sizes: Sizes, aims: Aims, starts: Floats | None, loop: RowLoop) -> Results:
        """Solve N rows, given ``Z = X rowsᵀ`` and the sources' sizes; a row of Z that is not finite is INVALID."""
        batch = Batch.of(asked, aims, loop, alone=len(Z) == 1, Z=Z, sizes=sizes)
        valid = np.asarray(np.isfinite(Z).all(axis=1))
        left = valid.copy()
        if (loop.arrays or loop.compiled) and starts is None:
            named = np.flatnonzero(valid & (aims.targets != NEAREST))
            left[named] = ~batch.solve(named, aims.targets[named])
            near = np.flatnonzero(valid & (aims.targets == NEAREST))
            left[near] = ~batch.solve_nearest(near)

        def solve(n: int) -> None:
            batch.results.put(n, self.row(asked, Z[n], sizes.take(n), aims.one(n), None if starts is None else starts[n]))

        alone = np.flatnonzero(left).tolist()
        on_threads(solve, alone, 1 if self.lanes else loop.threads)
        return batch.results


class Batch(NamedTuple):
    """Rows that go through a loop: from sources X to answers ``out``, or from Z of them and their sizes to coefficients."""

    model: Model
    aims: Aims
    loop: RowLoop
    stop: Stop
    results: Results
    alone: bool  # row after row rather than side by side, which rounds otherwise in the last digit
    X: Any = None
    out: Any = None
    Z: Any = None
    sizes: Any = None

    @classmethod
    def of(cls, asked: Asked, aims: Aims, loop: RowLoop, **given: Any) -> "Batch":
        """With room for the results."""
        results = Results.empty(aims.targets, classes=asked.model.n_classes, coef=asked.model.basis.shape[0])
        return cls(asked.model, aims, loop, Stop.of(asked.question), results, **given)

    def solve(self, index: Indices, targets: Indices) -> Flags:
        """Solve the rows ``index`` for these class indices, compiled or group by group; which of them are done."""
        if self.loop.compiled is not None:
            self.loop.compiled.answer(self, targets, index)
            return self.results.status[index] != self.loop.compiled.LEFT
        done = np.zeros(len(index), dtype=bool)
        for k in np.unique(targets):
            here = np.flatnonzero(targets == k)
            done[here] = self.group(index[here], int(k))
        return done

    def solve_nearest(self, index: Indices) -> Flags:
        """The nearest other class of each row: `nearest.search` for many, one round of candidates after the other."""
        done = np.ones(len(index), dtype=bool)
        if not len(index):
            return done
        bounds = nearest.of_many(self.model, self.Z[index], self.aims.take(index))
        done &= np.isfinite(bounds).any(axis=1)  # where no class is any nearer there is none to begin with, here
        order = np.argsort(bounds, axis=1, kind="stable")
        best = np.full(len(index), np.inf)
        kept = self.results.take(index)
        value = self.results.distance if self.aims.lam is None else self.results.objective
        active = np.arange(len(index))
        for candidate in range(self.model.n_classes):
            k = order[active, candidate]
            better = bounds[active, k] < best[active]
            active, k = active[better], k[better]
            if not len(active):
                break
            solved = self.solve(index[active], k)
            done[active] &= solved
            win = active[solved & (value[index[active]] < best[active])]
            best[win] = value[index[win]]
            kept.copy(win, self.results, index[win])
            active = active[solved]
        self.results.copy(index[done], kept, np.flatnonzero(done))
        return done

    def group(self, index: Indices, k: int) -> Flags:
        """Solve rows with one target and fill them in; which of them are done."""
        model, aims = self.model, self.aims.take(index)
        margins, gram = model.margins(self.Z[index], k), model.rival_gram(k)
        size = np.abs(margins).max(axis=1)
        rounding = Rounding.of(model, self.sizes.take(index), k, aims.prob)
        if aims.lam is not None:
            solved = self.loop.arrays.solve_lam(gram, margins, aims.lam, **self.stop._asdict())
            self._fill(index, k, size, solved, rounding)
            done, tol = np.array(solved.done), self.stop.tol
            if tol is not None:  # rows that met it as computed, but not for certain, go on to the last digit
                unsure = np.flatnonzero(done & (solved.grad_norm <= tol) & (self.results.grad_norm[index] > tol))
                if len(unsure):
                    done[unsure] = self._replace(stop=self.stop._replace(tol=None)).group(index[unsure], k)
            return done
        window = Window.of(model, rounding, size, aims.prob)
        p, p_target, loss = softmax_rows(margins)
        with np.errstate(divide="ignore"):
            done = np.log(p.sum(axis=1)) - np.log(p_target) <= window.logit - window.slack
        stay = {"coef": 0.0, "lam": np.inf, "distance": 0.0, "grad_norm": 0.0, "n_iter": 0, "status": Status.EXACT}
        self._put(index[done], k, p[done], p_target[done], objective=loss[done], **stay)  # `ClassProblem.stay` for many
        away = np.flatnonzero(~done)
        if len(away) and model.rival_lengths(k).any():
            rounding = Rounding.of(model, self.sizes.take(index[away]), k, aims.take(away).prob)
            solved = self.loop.arrays.solve_prob(gram, margins[away], window.take(away), max_iter=self.stop.max_iter)
            self._fill(index[away], k, size[away], solved, rounding)
            change = np.abs(solved.q).sum(axis=1) / solved.lam
            needed = rounding.of_estimator(size[away], rounding.extent_of(change, self.results.distance[index[away]]))
            done[away] = solved.done & (window.take(away).allowance(change) <= LOOSE * needed)
        return done

    def _fill(self, index: Indices, k: int, size: Floats, solved: Solved, rounding: Rounding) -> None:
        """Rows from what the loop found, with their certificate (`ClassProblem.finish` for many)."""
        lengths = self.model.rival_lengths(k)
        q, p, lam = solved.q, solved.p, solved.lam
        extent = rounding.extent_of(np.abs(q).sum(axis=1) / lam)
        terms = np.abs(p - q) @ lengths
        computed = np.minimum(terms, solved.grad_norm + 1e-7 * terms)
        grad_norm = computed + rounding.of_gradient(p @ lengths, size, extent, lam)
        met = np.zeros(len(index), dtype=bool) if self.stop.tol is None else grad_norm <= self.stop.tol
        coef, distance = self.model.coefficients(q, k) / lam[:, None], np.sqrt(solved.square) / lam
        numbers = {"lam": lam, "distance": distance, "objective": solved.objective, "grad_norm": grad_norm}
        status = np.where(met, Status.CONVERGED, Status.EXACT)
        self._put(index, k, p, solved.p_target, coef=coef, n_iter=solved.n_iter, status=status, **numbers)

    def _put(self, index: Indices, k: int, p: Floats, p_target: Floats, **columns: Any) -> None:
        """Set columns of rows with one target."""
        proba = np.empty((len(index), self.model.n_classes))
        proba[:, self.model.rivals(k)] = p
        proba[:, k] = p_target
        for name, values in {**columns, "target": k, "proba": proba}.items():
            getattr(self.results, name)[index] = values


def _in_pieces(table: np.ndarray) -> np.ndarray:
    """A table of doubles or floats with each row in one piece: the same one if it is that."""
    if table.dtype.char not in "fd" or not table.dtype.isnative:
        return table.astype(np.float64, order="C")
    return table if table.shape[1] <= 1 or table.strides[1] == table.itemsize else np.ascontiguousarray(table)


def _starts(asked: Asked, Z: Floats, first: int, n_rows: int | None) -> Floats | None:
    """``x₀ rowsᵀ`` for the rows from ``first`` on of so many, whose own is ``Z``; None to start nowhere in particular."""
    if asked.question.start is None or isinstance(asked.question.start, str):
        return None if asked.question.start is None else Z

    def project() -> Floats:
        given = read_starts(asked, n_rows)
        points, _ = given.project()
        for n in np.flatnonzero(~np.isfinite(points).all(axis=1)):
            raise InputError(f"start: {given.reject(int(n))}")
        return points

    points = asked.keep(("starts", n_rows), project)
    return np.broadcast_to(points, Z.shape) if len(points) == 1 else points[first : first + len(Z)]
