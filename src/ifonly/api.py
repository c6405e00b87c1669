"""The two questions: `invert` for an answer, `path` for all of them along λ."""

from collections.abc import Hashable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ifonly.answers.answer import Counterfactual, Counterfactuals, Path
from ifonly.engines.class_space import ClassProblem
from ifonly.engines.follow import follow
from ifonly.engines.heads import invert_vast, path_vast
from ifonly.engines.limited_problem import MAX_NODES, REL_GAP, Budget, Ground
from ifonly.engines.newton import MAX_ITER
from ifonly.engines.recourse import diverse, ground_for, invert_within, measured, path_within, seconds
from ifonly.engines.stream import Starts, invert_many
from ifonly.joint import invert_together
from ifonly.model import GRAM_CLASSES, Model
from ifonly.model.errors import InputError
from ifonly.model.readers import as_model
from ifonly.native import Kernel, Rows, choose_kernel, loaded_kernel, read_sources, solve_row, solve_rows
from ifonly.problem.actions import Actions
from ifonly.problem.cost import Cost
from ifonly.problem.question import ALL, NEAREST, Wish, Wishes, class_set, number, target_index
from ifonly.problem.status import Status
from ifonly.rows.sources import Sizes, Sources
from ifonly.rows.tables import stacked

__all__ = ["invert", "path"]

FLIP = 0.5  # the default probability: more than all other classes together

DEFAULT_LAMS = np.geomspace(1e3, 1e-5, 100)  # the paper's range, section 3.5


def invert(
    model: Any,
    x: Any,
    target: Any = None,
    *,
    lam: ArrayLike | None = None,
    prob: ArrayLike | None = None,
    margin: float | None = None,
    tol: float | None = None,
    start: ArrayLike | Literal["source"] | None = None,
    max_iter: int = MAX_ITER,
    cost: Cost | None = None,
    actions: Actions | None = None,
    max_changes: int | None = None,
    n: int | None = None,
    joint: bool = False,
    gap: float = REL_GAP,
    time_limit: float | None = None,
    node_limit: int | None = None,
    backend: Literal["auto", "reference", "cpu", "cuda"] = "auto",
    threads: int | None = None,
    out: np.ndarray | None = None,
    progress: bool | None = None,
) -> Counterfactual | Counterfactuals:
    """The smallest change of ``x`` that gives the decision you want, exactly.

    Solves ``min (λ/2)‖x' − x‖² − ln p_target(x')`` for a given ``lam``, or ``min ‖x' − x‖`` subject to
    ``p_target(x') ≥ prob``. Give at most one of the two; neither means ``prob=0.5``, "flip the decision".

    Parameters
    ----------
    model : Model or fitted estimator
        Whatever :func:`as_model` understands.
    x : array_like of shape (D,) or (N, D), CSR, a pandas row or frame, or an iterator of tables
        The source, or N sources, in the units the model takes. Arrays (and memory maps) are referred to, not copied: do
        not change them before the answers' ``x`` is read. An iterator's tables are kept unless ``out`` is given.
    target : label, N labels, a set of labels, None, "other", "opposite" or "all"
        The wanted class. None or "other" is the nearest class that is not predicted now (least distance with ``prob``,
        least objective with ``lam``); "opposite" the same for models with two classes; "all" asks for every class in
        turn (N·K answers, class by class for each source). Of a set (for one source also a list) the nearest is taken, and
        ``target`` of the answer says which.
    lam : float > 0 or N of them
        What the squared distance is multiplied with: the *larger*, the closer to ``x``.
    prob : float in (0, 1) or N of them
        The probability to reach. The answer satisfies ``p_target ≥ prob`` as the estimator itself evaluates it, to the
        last bit; for ``prob ≥ 0.5`` it is therefore predicted as the target. If no input reaches it, the status is
        UNREACHABLE and the answer the best there is.
    margin : float ≥ 0
        Instead of a probability: how far the target's score has to be ahead of every other; 0 is just ahead. For models without
        probabilities (``LinearSVC``) it is the only question, and 0 the default.
    tol : float, optional
        Stop at ``‖∇E‖ ≤ tol``. By default the answer is exact to working precision, which costs one iteration more.
        With ``prob`` it only decides the status.
    start : array_like of x's shape, or "source"
        Where to start (with ``lam`` only). The iterates are then those of the paper's Newton method, from that point (or
        the nearest to it that differs from x by rows of A, where all iterates lie after the first full step).
        By default a start near the answer is computed, and the method is of third order.
    max_iter : int
        Limit on Newton iterations.
    cost : Cost, optional
        What a change costs; by default the Euclidean distance in the space the classifier sees.
    actions : Actions, optional
        What may change. The answer keeps every limit to the last bit, or its status is UNREACHABLE and its message says which
        limits are in the way.
    max_changes : int, optional
        At most so many features move (a group of one-hot columns counts as one).
    n : int, optional
        Several answers for one source that differ in which features move, the cheapest first (:class:`Counterfactuals`).
    joint : bool
        With a set as target and one source: not one of them, but their *summed* probability. That problem is not convex; the
        answer is a local optimum, with status LOCAL and no certificate (:class:`ifonly.joint.JointCounterfactual`).
    gap, time_limit, node_limit : float, float, int
        Where the search over whole numbers, categories and few changes stops: at this relative gap (by default none but
        rounding), after so many seconds, after so many nodes (for each source). What it has by then has status STOPPED.
    backend : {"auto", "reference", "cpu", "cuda"}
        "cpu" is compiled (extra ``fast``), "cuda" runs on a GPU (extra ``gpu``; a table of CuPy or PyTorch that is there stays
        there), "reference" is an array program; "auto" takes "cpu" or "reference", what is worth it (for one source, the
        compiled one if it is loaded). All give the same answers to rounding.
    threads : int, optional
        For the "cpu" backend; by default as many as this process may use.
    out : ndarray of shape (N, D), optional
        Where to write ``x``, chunk by chunk; may be a memory map. The answers' ``x`` is then this array.
    progress : bool, optional
        Whether to show a progress bar (tqdm); by default if the call runs longer than two seconds in a terminal or
        notebook.

    Returns
    -------
    Counterfactual
        For one source; :class:`Counterfactuals` for a table of N sources, even of one.

    Raises
    ------
    InputError
        For input of the wrong kind. In a table, a row that is not finite does not raise: its status is INVALID, its
        answer NaN.

    Examples
    --------
    >>> import numpy as np, ifonly
    >>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 0.0], classes=["a", "b", "c"])
    >>> cf = ifonly.invert(model, [2.0, 0.0], "b", prob=0.8)
    >>> cf.x.round(4).tolist(), float(cf.proba[1].round(4))
    ([0.4355, 1.8835], 0.8)
    >>> cf.gap < 1e-20
    True

    """
    model = as_model(model)
    given = [name for name, value in (("lam", lam), ("prob", prob), ("margin", margin)) if value is not None]
    if len(given) > 1:
        raise InputError(f"give one of {' and '.join(given)}, not both")
    if model.hard and not given:
        margin = 0.0
    elif model.hard and margin is None:
        raise InputError(f"{given[0]} needs probabilities, and this model has only scores; give margin")
    elif not given:
        prob = FLIP
    if start is not None and lam is None:
        raise InputError("start goes with lam; with prob the search finds its own starts")
    _check_stopping(tol, max_iter)
    bound = not model.encoding.plain  # its own columns have limits: categories, ranges
    if joint:
        if bound or any(v is not None for v in (actions, max_changes, n, margin, tol, start, out)):
            raise InputError("joint=True takes lam or prob and a plain cost; no limits, n, margin, tol, start or out")
        return _invert_together(model if cost is None else measured(model, cost), x, target, lam, prob)
    if bound and hasattr(x, "__next__"):  # they are kept anyway
        tables = list(x)
        joined = stacked(tables)
        x = iter(tables) if joined is None else joined
    flags = model.encoding.flags(x)
    if flags:
        actions = (actions if actions is not None else Actions()).with_flags(model, flags)
    if bound or any(v is not None for v in (cost, actions, max_changes, n, margin)):
        if isinstance(cost, Cost) and cost.plain and not bound and all(v is None for v in (actions, max_changes, n, margin)):
            model = measured(model, cost)
        else:
            if start is not None:
                raise InputError("start is for problems without limits; with a cost, actions or max_changes leave it out")
            _check_classes(model)
            if backend == "cuda":
                raise InputError('backend="cuda" is for problems without limits; with them leave backend out')
            fast = {"auto": None, "reference": False, "cpu": True}[backend]
            ground = ground_for(model, cost, actions, max_changes, margin, fast=fast)
            budget = Budget(gap, node_limit or MAX_NODES, seconds(time_limit))
            if n is not None:
                return _invert_diverse(ground, x, target, lam, prob, n, budget, tol)
            read = x if hasattr(x, "__next__") else Sources.read(model, x)
            options = {"tol": tol, "threads": threads, "out": out, "progress": progress}
            wishes = Wishes(model, target, lam, prob, single=isinstance(read, Sources) and read.single)
            return invert_within(ground, read, wishes, budget, **options)
    if hasattr(x, "__next__"):
        sources: Sources | Iterator[Any] = x
    else:
        sources = read_sources(model, x, backend)
        if sources.single and out is None and backend != "reference" and not model.vast:
            among = class_set(model, target, single=True)
            k = target_index(model, target) if among is None else NEAREST
            if k != ALL:
                options = {"start": start, "tol": tol, "max_iter": max_iter, "among": among}
                return _invert_one(model, sources, k, lam, prob, kernel=loaded_kernel(backend), **options)
    wishes = Wishes(model, target, lam, prob, single=isinstance(sources, Sources) and sources.single)
    if model.vast:
        options = {"tol": tol, "start": start, "threads": threads, "out": out, "progress": progress}
        return invert_vast(model, sources, wishes, backend=backend, **options)
    answers = invert_many(
        model,
        sources,
        wishes,
        backend=backend,
        threads=threads,
        out=out,
        progress=progress,
        start=start,
        tol=tol,
        max_iter=max_iter,
    )
    if isinstance(sources, Sources) and sources.single:
        if answers.status[0] == Status.INVALID:
            raise sources.reject(0)
        return answers if wishes.per_source > 1 else answers[0]
    return answers


def _invert_diverse(
    ground: Ground, x: Any, target: Any, lam: Any, prob: Any, n: int, budget: Budget, tol: float | None
) -> Counterfactuals:
    """Several answers for one source."""
    sources = Sources.read(ground.model, x)
    k = target_index(ground.model, target)
    if not sources.single or k == ALL:
        raise InputError("n is for one source and one target; call invert for each")
    return diverse(ground, sources, k, n, *_one_question(lam, prob), budget, tol)


def _invert_together(model: Model, x: Any, target: Any, lam: Any, prob: Any) -> Counterfactual:
    """Several classes together."""
    sources = Sources.read(model, x)
    together = class_set(model, target, single=True)
    if not sources.single or together is None:
        raise InputError("joint=True is for one source and a set of two or more classes")
    lam, prob = _one_question(lam, prob)
    alone = invert(model, x, target, lam=lam, prob=prob)
    assert isinstance(alone, Counterfactual)
    return invert_together(model, sources, together, [alone.coordinates[1]], lam, prob)


def _one_question(lam: Any, prob: Any) -> tuple[float | None, float | None]:
    """λ or a probability for one source, checked."""
    return None if lam is None else number(lam, "lam", np.inf), None if prob is None else number(prob, "prob", 1.0)


def _check_classes(model: Model) -> None:
    """Limits and costs other than per feature are worked out over all pairs of classes."""
    if model.kept or model.n_classes > GRAM_CLASSES:
        raise InputError(
            f"limits are for models with up to {GRAM_CLASSES} classes, not {model.n_classes}; keep those that could win, "
            "as Model(A[keep], b[keep], classes[keep])"
        )


def _check_stopping(tol: float | None, max_iter: int) -> None:
    if tol is not None and not tol > 0:
        raise InputError(f"tol must be a number > 0; got {tol}")
    if max_iter < 1:
        raise InputError(f"max_iter must be 1 or more; got {max_iter}")


def _invert_one(
    model: Model,
    sources: Sources,
    k: int,
    lam: Any,
    prob: Any,
    *,
    start: Any,
    tol: float | None,
    max_iter: int,
    kernel: Kernel | None,
    among: NDArray[np.intp] | None,
) -> Counterfactual:
    """One source: no tables to fill, and no kernel to load where none is."""
    z, sizes = sources.project_one()
    starts = None if start is None else Starts(model, start, 1).rows(z[None], 0, 1)
    wanted = None if prob is None else number(prob, "prob", 1.0)
    k, solution = solve_row(
        model,
        z,
        sizes,
        k,
        lam=None if lam is None else number(lam, "lam", np.inf),
        prob=wanted,
        start=None if starts is None else starts[0],
        tol=tol,
        max_iter=max_iter,
        kernel=kernel,
        among=among,
    )
    return Counterfactual.of(solution, model, sources, k, prob=wanted)


def path(
    model: Any,
    x: Any,
    target: Hashable = None,
    *,
    lams: ArrayLike | None = None,
    tol: float | None = None,
    max_iter: int = MAX_ITER,
    cost: Cost | None = None,
    actions: Actions | None = None,
    max_changes: int | None = None,
    backend: Literal["auto", "reference", "cpu", "cuda"] = "auto",
) -> Path:
    """The answers of :func:`invert` for many λ, from far to near (section 3.5 of the paper).

    Parameters
    ----------
    model, x, target, tol, max_iter, cost, actions, max_changes, backend
        As for :func:`invert`, for one source. ``target=None`` is the class nearest at ``prob=0.5``.
    lams : array_like, optional
        The values of λ; by default 100 from 1e3 down to 1e-5.

    Examples
    --------
    >>> import ifonly
    >>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 0.0], classes=["a", "b", "c"])
    >>> path = ifonly.path(model, [2.0, 0.0], "b")
    >>> len(path), round(path.at_prob(0.8).distance, 4)
    (100, 2.4485)

    """
    model = as_model(model)
    if model.hard:
        raise InputError("path needs probabilities, and this model has only scores; see invert(..., margin=)")
    _check_stopping(tol, max_iter)
    try:
        values = DEFAULT_LAMS if lams is None else np.array(lams, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise InputError(f"lams must be one or more numbers > 0; got {lams}") from None
    if not (values.size and np.isfinite(values).all() and (values > 0).all()):
        raise InputError(f"lams must be one or more numbers > 0; got {lams}")
    bound = not model.encoding.plain
    flags = model.encoding.flags(x)
    if flags:
        actions = (actions if actions is not None else Actions()).with_flags(model, flags)
    if isinstance(cost, Cost) and actions is None and max_changes is None and cost.plain and not bound:
        model, cost = measured(model, cost), None
    sources = Sources.read(model, x)
    if not sources.single:
        raise InputError(f"path takes one source; got a table of {len(sources)} rows")
    k = target_index(model, target)
    if k == ALL:
        raise InputError('path is towards one class; got target "all"')
    if bound or cost is not None or actions is not None or max_changes is not None:
        _check_classes(model)
        ground = ground_for(model, cost, actions, max_changes)
        return path_within(ground, sources, k, values, Budget(), tol)
    if model.vast:
        return path_vast(model, sources, k, values, backend=backend, tol=tol)
    z, sizes = sources.project_one()
    if k == NEAREST:
        k, _ = solve_row(model, z, sizes, NEAREST, lam=None, prob=FLIP)
    problem = ClassProblem(model, z, sizes, k)
    targets = np.full(len(values), k)
    kernel = choose_kernel(backend, len(values), 1)
    if kernel is None or model.dependent or model.crowded:
        rows = Rows.empty(model, targets)
        options = {} if kernel is None else {"crowd": kernel.crowd}
        for i, solution in enumerate(follow(problem, values.tolist(), tol=tol, max_iter=max_iter, **options)):
            rows.put(i, solution)
    else:  # side by side, from scratch: a third of the time that following the path takes, one λ after the other
        same = np.broadcast_to(z, (len(values), len(z)))
        sizes = Sizes(*(np.full(len(values), size) for size in sizes))
        rows = solve_rows(model, same, sizes, Wish(targets, values, None), kernel, tol=tol, max_iter=max_iter)
    return Path(model, sources, rows, None, problem)
