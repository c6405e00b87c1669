"""The two questions: `invert` for an answer, `path` for all of them along λ."""

from collections.abc import Hashable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ifonly.adopt import as_model
from ifonly.answer import Counterfactual, Counterfactuals, Path
from ifonly.errors import InputError
from ifonly.kernels import NEAREST, Rows, solve_row, solve_rows
from ifonly.model import Model
from ifonly.solvers.classproblem import ClassProblem
from ifonly.solvers.newton import MAX_ITER
from ifonly.solvers.path import follow
from ifonly.sources import Sources

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
    tol: float | None = None,
    start: ArrayLike | Literal["source"] | None = None,
    max_iter: int = MAX_ITER,
) -> Counterfactual | Counterfactuals:
    """The smallest change of ``x`` that gives the decision you want, exactly.

    Solves ``min (λ/2)‖x' − x‖² − ln p_target(x')`` for a given ``lam``, or ``min ‖x' − x‖`` subject to
    ``p_target(x') ≥ prob``. Give at most one of the two; neither means ``prob=0.5``, "flip the decision".

    Parameters
    ----------
    model : Model or fitted estimator
        Whatever :func:`as_model` understands.
    x : array_like of shape (D,) or (N, D), CSR, or a pandas row or frame
        The source, or N sources, in the units the model takes.
    target : label, N labels, None, "other" or "opposite"
        The wanted class. None or "other" is the nearest class that is not predicted now (least distance with ``prob``,
        least objective with ``lam``); "opposite" the same for models with two classes.
    lam : float > 0 or N of them
        What the squared distance is multiplied with: the *larger*, the closer to ``x``.
    prob : float in (0, 1) or N of them
        The probability to reach. The answer satisfies ``p_target ≥ prob`` as the estimator itself evaluates it, to the
        last bit; for ``prob ≥ 0.5`` it is therefore predicted as the target. If no input reaches it, the status is
        UNREACHABLE and the answer the best there is.
    tol : float, optional
        Stop at ``‖∇E‖ ≤ tol``. By default the answer is exact to working precision, which costs one iteration more.
        With ``prob`` it only decides the status.
    start : array_like of x's shape, or "source"
        Where to start (with ``lam`` only). The iterates are then those of the paper's Newton method, from that point.
        By default a start near the answer is computed, and the method is of third order.
    max_iter : int
        Limit on Newton iterations.

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
    ([0.2737, 1.7031], 0.8)
    >>> cf.gap < 1e-20
    True

    """
    model = as_model(model)
    if lam is not None and prob is not None:
        raise InputError("give one of lam and prob, not both")
    if prob is None and lam is None:
        prob = FLIP
    if start is not None and lam is None:
        raise InputError("start goes with lam; with prob the search finds its own starts")
    if tol is not None and not tol > 0:
        raise InputError(f"tol must be a number > 0; got {tol}")
    sources = Sources.read(model, x)
    Z, lengths = sources.project()
    starts = _start(model, start, Z)
    if sources.single:
        if not np.isfinite(Z[0]).all():
            raise sources.reject(0)
        wanted = None if prob is None else _number(prob, "prob", 1.0)
        k, solution = solve_row(
            model,
            Z[0],
            float(lengths[0]),
            _target(model, target),
            lam=None if lam is None else _number(lam, "lam", np.inf),
            prob=wanted,
            start=None if starts is None else starts[0],
            tol=tol,
            max_iter=max_iter,
        )
        return Counterfactual.of(solution, model, sources, k, prob=wanted)
    N = len(sources)
    lams = _per_row(lam, "lam", N, np.inf)
    probs = _per_row(prob, "prob", N, 1.0)
    targets = _targets(model, target, N)
    rows = solve_rows(model, Z, lengths, targets, lam=lams, prob=probs, start=starts, tol=tol, max_iter=max_iter)
    return Counterfactuals(model, sources, rows, probs)


def path(
    model: Any,
    x: Any,
    target: Hashable = None,
    *,
    lams: ArrayLike | None = None,
    tol: float | None = None,
    max_iter: int = MAX_ITER,
) -> Path:
    """The answers of :func:`invert` for many λ, from far to near (section 3.5 of the paper).

    Parameters
    ----------
    model, x, target, tol, max_iter
        As for :func:`invert`, for one source. ``target=None`` is the class nearest at ``prob=0.5``.
    lams : array_like, optional
        The values of λ; by default 100 from 1e3 down to 1e-5.

    Examples
    --------
    >>> import ifonly
    >>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 0.0], classes=["a", "b", "c"])
    >>> path = ifonly.path(model, [2.0, 0.0], "b")
    >>> len(path), float(path.at_prob(0.8).distance.__round__(4))
    (100, 2.4213)

    """
    model = as_model(model)
    values = DEFAULT_LAMS if lams is None else np.array(lams, dtype=np.float64).ravel()
    if not (values.size and np.isfinite(values).all() and (values > 0).all()):
        raise InputError(f"lams must be one or more numbers > 0; got {lams}")
    sources = Sources.read(model, x)
    if not sources.single:
        raise InputError(f"path takes one source; got a table of {len(sources)} rows")
    Z, lengths = sources.project()
    if not np.isfinite(Z[0]).all():
        raise sources.reject(0)
    k = _target(model, target)
    if k == NEAREST:
        k = model.class_index(invert(model, x, None).target)
    problem = ClassProblem(model, Z[0], float(lengths[0]), k)
    solutions = follow(problem, values.tolist(), tol=tol, max_iter=max_iter)
    rows = Rows.gather(model, np.full(len(values), k), [*solutions])
    return Path(model, sources, rows, None, problem)


def _number(value: Any, name: str, limit: float) -> float:
    """One number, checked to lie strictly between 0 and ``limit``."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be one number; got {value!r}") from None
    if not 0 < number < limit:
        expected = "a number > 0" if limit == np.inf else "strictly between 0 and 1"
        raise InputError(f"{name} must be {expected}; got {number}")
    return number


def _per_row(value: ArrayLike | None, name: str, N: int, limit: float) -> NDArray[np.float64] | None:
    """One number for all rows, or one per row, as an array of N."""
    if value is None:
        return None
    if np.ndim(value) == 0:
        return np.full(N, _number(value, name, limit))
    values = [_number(v, name, limit) for v in np.ravel(value)]
    if np.ndim(value) > 1 or len(values) != N:
        raise InputError(f"{name} must be one number or {N}, one per row; got an array of shape {np.shape(value)}")
    return np.array(values)


def _targets(model: Model, target: Any, N: int) -> NDArray[np.intp]:
    """Class indices, one per row, from a label, N labels, None, "other" or "opposite"."""
    if hasattr(target, "to_numpy"):
        target = target.to_numpy()
    if isinstance(target, (Sequence, np.ndarray)) and not isinstance(target, (str, tuple)):
        if len(target) != N:
            raise InputError(f"target must be one label or {N}, one per row; got {len(target)}")
        return np.array([_target(model, label) for label in target], dtype=np.intp)
    return np.full(N, _target(model, target), dtype=np.intp)


def _target(model: Model, target: Any) -> int:
    if target is None:
        return NEAREST
    try:
        return model.class_index(target)
    except InputError:
        if isinstance(target, str) and target == "other":
            return NEAREST
        if isinstance(target, str) and target == "opposite":
            if model.n_classes != 2:
                raise InputError(f'target "opposite" needs a model with 2 classes; this one has {model.n_classes}') from None
            return NEAREST
        raise


def _start(model: Model, start: Any, Z: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """``x₀ rowsᵀ`` of the points to start from."""
    if start is None:
        return None
    if isinstance(start, str):
        if start != "source":
            raise InputError(f'start must be a point, or "source"; got {start!r}')
        return Z
    points = Sources.read(model, start)
    if len(points) not in (1, len(Z)):
        raise InputError(f"start must be one point or {len(Z)}, one per row; got {len(points)}")
    at, _ = points.project()
    for n in np.flatnonzero(~np.isfinite(at).all(axis=1)):
        raise InputError(f"start: {points.reject(int(n))}")
    return np.broadcast_to(at, Z.shape)
