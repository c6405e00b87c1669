"""From sources to rows: everything around a kernel, the same for all of them.

Rows are grouped by target (a group shares one Ḡ), given to the kernel, and come back with their certificate. What a kernel
does not do goes through the single-source solvers, one by one: rows it gave up, models whose rivals depend on each other,
which need other coordinates, and those with very many.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.closed_form import phi
from ifonly.engines.few_and_rest import SolveCrowd, solve_crowd
from ifonly.engines.newton import MAX_ITER
from ifonly.engines.probability import needed_logit
from ifonly.engines.rounding import Rounding
from ifonly.engines.threads import available
from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.model.numerics import EPS
from ifonly.native.rows import Goals, Kernel, Rows, Solved
from ifonly.native.single import solve_row
from ifonly.problem.question import NEAREST, Wish
from ifonly.problem.status import Status
from ifonly.rows.sources import NOWHERE, Sizes, Sources
from ifonly.rows.tensors import like

__all__ = ["choose_kernel", "loaded_kernel", "read_sources", "solve_rows"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FEW = 16  # rows up to which one after the other is as quick as any kernel
# Rows from which loading the compiled kernel (a second, once per process) pays for itself against the reference's 25 µs a row.
LOAD_ROWS = 20_000


def choose_kernel(backend: str, n_rows: int | None, threads: int | None) -> Kernel | None:
    """The kernel to use, or None for one row after the other; ``auto`` takes what is installed and worth it."""
    if backend not in ("auto", "reference", "cpu", "cuda"):
        raise InputError(f'backend must be "auto", "reference", "cpu" or "cuda"; got {backend!r}')
    if threads is not None and threads < 1:
        raise InputError(f"threads must be 1 or more; got {threads}")
    if backend == "cuda":
        return _cuda_kernel()
    if backend == "auto" and n_rows is not None and n_rows <= FEW:
        return None
    loaded = "ifonly.native.lanes" in sys.modules
    if backend == "cpu" or (backend == "auto" and (loaded or n_rows is None or n_rows >= LOAD_ROWS)):
        try:
            from ifonly.native import lanes as cpu
        except ImportError as error:
            if backend == "cpu":
                raise ImportError('backend="cpu" needs Numba: pip install "ifonly[fast]"') from error
        else:
            crowd = _compiled_crowd(wanted=backend == "cpu" or not loaded)
            return Kernel(cpu.solve_lam, cpu.solve_prob, cpu.root, available(threads), crowd)
    from ifonly.native import reference

    return Kernel(reference.solve_lam, reference.solve_prob)


def loaded_kernel(backend: str) -> Kernel | None:
    """The kernel for one row: a compiled one if it is loaded, or asked for."""
    if backend == "auto" and "ifonly.native.lanes" not in sys.modules:
        return None
    return choose_kernel(backend, None, 1)


def read_sources(model: Model, x: Any, backend: str) -> Sources:
    """The rows a user brings; with the "cuda" backend a table that is on the GPU stays there."""
    kind = like(x) if backend == "cuda" and model.encoding.identity else None
    if kind is None or not kind.device.startswith("cuda") or x.ndim != 2:
        return Sources.read(model, x)
    _cuda_kernel()  # says what is missing
    from ifonly.native.device import DeviceSources

    return DeviceSources.read(model, x)


def _cuda_kernel() -> Kernel:
    try:
        from ifonly.native import cuda, device
    except ImportError as error:
        raise ImportError('backend="cuda" needs CuPy: pip install "ifonly[gpu]"') from error
    cuda.check_device()

    return Kernel(cuda.solve_lam, cuda.solve_prob, table=device.invert_table)


def _compiled_crowd(wanted: bool) -> SolveCrowd:
    """The kernel for very many classes; compiling it takes ten seconds, once, so it has to be wanted, or be there."""
    if not wanted and "ifonly.native.few_and_rest" not in sys.modules:
        return solve_crowd
    from ifonly.native.few_and_rest import solve_crowd as compiled

    return compiled


def solve_rows(
    model: Model,
    Z: Floats,
    sizes: Sizes,
    wish: Wish,
    kernel: Kernel | None,
    *,
    start: Floats | None = None,
    tol: float | None = None,
    max_iter: int = MAX_ITER,
) -> Rows:
    """Solve N rows, given ``Z = X rowsᵀ`` and the sources' sizes; a row of Z that is not finite is INVALID."""
    rows = Rows.empty(model, wish.targets)
    valid = np.asarray(np.isfinite(Z).all(axis=1))
    left = valid.copy()
    if kernel is None and model.crowded:
        kernel = loaded_kernel("auto")
    if kernel is not None and start is None and not (model.dependent or model.crowded):
        job = _Job(model, Z, sizes, wish, kernel, tol, max_iter, rows)
        named = np.flatnonzero(valid & (wish.targets != NEAREST))
        left[named] = ~job.solve(named, wish.targets[named])
        nearest = np.flatnonzero(valid & (wish.targets == NEAREST))
        left[nearest] = ~job.solve_nearest(nearest)

    def solve(n: int) -> None:
        one = wish.take(n)
        rows.target[n], solution = solve_row(
            model,
            Z[n],
            sizes.take(n),
            int(one.targets),
            lam=None if one.lam is None else float(one.lam),
            prob=None if one.prob is None else float(one.prob),
            start=None if start is None else start[n],
            tol=tol,
            max_iter=max_iter,
            kernel=kernel if model.crowded else None,
            among=wish.among,
        )
        rows.put(n, solution)

    alone = np.flatnonzero(left).tolist()
    if model.crowded and kernel is not None and kernel.threads > 1:
        with ThreadPoolExecutor(kernel.threads) as pool:
            list(pool.map(solve, alone))
    else:
        for n in alone:
            solve(n)
    return rows


class _Job(NamedTuple):
    """One call of `solve_rows`, for the rows that go through a kernel."""

    model: Model
    Z: Floats
    sizes: Sizes
    wish: Wish
    kernel: Kernel
    tol: float | None
    max_iter: int
    rows: Rows

    def solve(self, index: Indices, targets: Indices) -> NDArray[np.bool_]:
        """Solve the rows ``index`` for these class indices, group by group; which of them are done."""
        done = np.zeros(len(index), dtype=bool)
        for k in np.unique(targets):
            here = np.flatnonzero(targets == k)
            done[here] = self.group(index[here], int(k))
        return done

    def solve_nearest(self, index: Indices) -> NDArray[np.bool_]:
        """The nearest other class of each row: `solvers.nearest` for many, one round of candidates after the other."""
        done = np.ones(len(index), dtype=bool)
        if not len(index):
            return done
        bounds = self._bounds(index)
        order = np.argsort(bounds, axis=1, kind="stable")
        best = np.full(len(index), np.inf)
        kept = Rows.empty(self.model, np.full(len(index), NEAREST))
        active = np.arange(len(index))
        for candidate in range(self.model.n_classes):
            k = order[active, candidate]
            better = bounds[active, k] < best[active]
            active, k = active[better], k[better]
            if not len(active):
                break
            solved = self.solve(index[active], k)
            done[active] &= solved
            value = (self.rows.distance if self.wish.lam is None else self.rows.objective)[index[active]]
            win = active[solved & (value < best[active])]
            best[win] = (self.rows.distance if self.wish.lam is None else self.rows.objective)[index[win]]
            kept.copy(win, self.rows, index[win])
            active = active[solved]
        self.rows.copy(index[done], kept, np.flatnonzero(done))
        return done

    def _bounds(self, index: Indices) -> Floats:
        """Lower bounds (rows × K) on the distance or on E, from one rival alone; infinite for classes that will not do.

        Those are all but ``among``, or else the one predicted now.
        """
        model, Z = self.model, self.Z[index]
        wish = self.wish.take(index)
        now = model.best_class(Z)
        bounds = np.full((len(index), model.n_classes), np.inf)
        among = wish.among
        for k in range(model.n_classes) if among is None else among.tolist():
            here = np.flatnonzero(now != k) if among is None else np.arange(len(index))
            margins, lengths = model.margins(Z[here], k), model.rival_lengths(k)
            if wish.lam is None:
                assert wish.prob is not None
                gaps = np.maximum(margins - needed_logit(wish.prob[here], model)[:, None], 0.0)
                with np.errstate(divide="ignore", invalid="ignore"):
                    bounds[here, k] = np.where(gaps > 0, gaps / lengths, 0.0).max(axis=1)
            else:
                j = now[here] - (now[here] > k)
                j[now[here] == k] = 0
                h, margin = lengths[j] ** 2 / wish.lam[here], margins[np.arange(len(here)), j]
                q = phi(h, -margin)
                bounds[here, k] = np.where(now[here] == k, 0.0, 0.5 * h * q * q + np.logaddexp(0.0, margin - h * q))
        return bounds

    def group(self, index: Indices, k: int) -> NDArray[np.bool_]:
        """Solve rows with one target and fill them in; which of them are done."""
        model, wish = self.model, self.wish.take(index)
        margins, lengths = model.margins(self.Z[index], k), model.rival_lengths(k)
        gram, size = model.rival_gram(k), np.abs(margins).max(axis=1)
        rounding = Rounding.of(model, self.sizes.take(index))
        if wish.lam is not None:
            if model.n_classes == 2:
                solved = _two_classes(self.kernel.root, float(gram[0, 0]), margins, wish.lam)
            else:
                options = {"tol": self.tol, "max_iter": self.max_iter}
                solved = self.kernel.run(self.kernel.solve_lam, gram, margins, wish.lam, **options)
            self._fill(index, k, size, solved, rounding)
            if self.tol is None:
                return solved.done
            # Met as computed, but not for certain: those go on to the last digit.
            unsure = np.flatnonzero(solved.done & (solved.grad_norm <= self.tol) & (self.rows.grad_norm[index] > self.tol))
            done = np.array(solved.done)
            if len(unsure):
                done[unsure] = self._replace(tol=None).group(index[unsure], k)
            return done
        assert wish.prob is not None
        goals = _goals(model, size, rounding, wish.prob)
        p, p_target, loss = _softmax(margins)
        with np.errstate(divide="ignore"):
            there = np.log(p.sum(axis=1)) - np.log(p_target) <= goals.logit - goals.slack
        self._stay(index[there], k, p[there], p_target[there], loss[there])
        done = there.copy()
        away = np.flatnonzero(~there)
        if len(away) and lengths.any():
            margins, goals = margins[away], Goals(*(a[away] for a in goals))
            rounding = Rounding.of(model, self.sizes.take(index[away]))
            if model.n_classes == 2:
                solved = _two_classes_reach(self.kernel.root, float(gram[0, 0]), margins, goals)
            else:
                solved = self.kernel.run(self.kernel.solve_prob, gram, margins, goals, max_iter=self.max_iter)
            self._fill(index[away], k, size[away], solved, rounding)
            done[away] = solved.done
        return done

    def _fill(self, index: Indices, k: int, size: Floats, solved: Solved, rounding: Rounding) -> None:
        """Rows from what the kernel found, with their certificate (`ClassProblem.finish` for many)."""
        model, rows = self.model, self.rows
        lengths = model.rival_lengths(k)
        q, p, lam = solved.q, solved.p, solved.lam
        length = 2 * rounding.row_norm * np.abs(q).sum(axis=1) / lam
        reach = Sizes(length, rounding.row_norm * length)
        terms = np.abs(p - q) @ lengths
        computed = np.minimum(terms, solved.grad_norm + 1e-7 * terms)
        grad_norm = computed + rounding.of_gradient(p @ lengths, size, reach, lam)
        rows.coef[index] = model.coefficients(q, k) / lam[:, None]
        self._put_proba(index, k, p, solved.p_target)
        rows.target[index], rows.lam[index], rows.objective[index] = k, lam, solved.objective
        rows.distance[index], rows.grad_norm[index] = np.sqrt(solved.square) / lam, grad_norm
        rows.n_iter[index] = solved.n_iter
        met = np.zeros(len(index), dtype=bool) if self.tol is None else grad_norm <= self.tol
        rows.status[index] = np.where(met, Status.CONVERGED, Status.EXACT)

    def _stay(self, index: Indices, k: int, p: Floats, p_target: Floats, loss: Floats) -> None:
        """Rows that are there already (`ClassProblem.stay` for many)."""
        rows = self.rows
        rows.coef[index], rows.target[index], rows.lam[index] = 0.0, k, np.inf
        self._put_proba(index, k, p, p_target)
        rows.distance[index], rows.objective[index], rows.grad_norm[index] = 0.0, loss, 0.0
        rows.n_iter[index], rows.status[index] = 0, Status.EXACT

    def _put_proba(self, index: Indices, k: int, p: Floats, p_target: Floats) -> None:
        proba = np.empty((len(index), self.model.n_classes))
        proba[:, self.model.rivals(k)] = p
        proba[:, k] = p_target
        self.rows.proba[index] = proba


def _goals(model: Model, size: Floats, rounding: Rounding, prob: Floats) -> Goals:
    """`solvers.target.Goal` for many rows."""
    logit = needed_logit(prob, model)
    slack = rounding.of_estimator(size, NOWHERE)
    unit = 2 * rounding.row_norm  # reach of a change with Σq/λ = 1, as in spaces.Rivals
    slope = rounding.of_estimator(size, Sizes(unit, rounding.row_norm * unit)) - slack
    return Goals(logit, slack, slope, 8 * EPS * (np.abs(logit) + 1))


def _softmax(margins: Floats) -> tuple[Floats, Floats, Floats]:
    """`spaces.rivals_softmax` for many rows."""
    top = np.maximum(margins.max(axis=1), 0.0)
    e, e_target = np.exp(margins - top[:, None]), np.exp(-top)
    mass = e.sum(axis=1)
    total = mass + e_target
    loss = np.where(top > 0, top + np.log(total), np.log1p(mass))
    return e / total[:, None], e_target / total, loss


def _two_classes(root: Callable[[Floats, Floats], Floats], square: float, margins: Floats, lam: Floats) -> Solved:
    """Theorem 4.2 for many rows: ``q = φ(‖w‖²/λ, −s̄)``."""
    h = square / lam
    q = root(h, -margins[:, 0])[:, None]
    moved = h[:, None] * q
    p, p_target, loss = _softmax(margins - moved)
    quad = q[:, 0] * moved[:, 0]
    grad_norm = np.abs(p - q)[:, 0] * np.sqrt(square)
    zeros, done = np.zeros(len(lam), dtype=np.intp), np.ones(len(lam), dtype=bool)
    return Solved(q, p, p_target, lam, 0.5 * quad + loss, grad_norm, quad * lam, zeros, done)


def _two_classes_reach(root: Callable[[Floats, Floats], Floats], square: float, margins: Floats, goals: Goals) -> Solved:
    """K = 2 in the probability form: the margin to end at is known, and with it λ."""
    change = (margins[:, 0] - goals.logit + 1) / square  # Σq/λ, or a little more
    allowance = goals.slack + goals.slope * change
    end = goals.logit - allowance - 0.5 * (allowance + goals.least)
    mass = 1 / (1 + np.exp(np.minimum(-end, 700)))
    lam = mass * square / (margins[:, 0] - end)
    solved = _two_classes(root, square, margins, lam)
    with np.errstate(divide="ignore"):
        logit = np.log(solved.p[:, 0]) - np.log(solved.p_target)
    top = goals.logit - (goals.slack + goals.slope * solved.q[:, 0] / lam)
    return solved._replace(done=(logit <= top) & (end > -700))
