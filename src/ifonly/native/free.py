"""Free rows through the compiled loop: from sources, or what is known of them in class space, to certified answers.

What `engines.free.Batch` does with an array program, free_rows.hpp does row by row: margins, the start, Newton, the search for
λ, the certificate and, where it is wanted, x itself. Every function here needs `native.compiled`.
"""

from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.rounding import Rounding
from ifonly.engines.threads import cuts, on_threads
from ifonly.model import Model
from ifonly.model.numerics import Indices
from ifonly.native import compiled
from ifonly.problem.asked import Aim, Aims
from ifonly.problem.goals import in_logs, needed_logit
from ifonly.problem.results import Result, Results
from ifonly.problem.status import Status
from ifonly.rows.sources import NOWHERE, Sizes

__all__ = ["LEFT", "Task", "answer", "one", "project"]

# Coordinate steps of the start, in single precision: one costs a tenth of a Newton step or less. Mean iterations to the last
# digit after 12, n, 2n, 4n of them: MNIST (n = 9) 3.6, 3.6, 3.1, 2.5; RCV1 (n = 50) 9.5, 5.7, 3.0, 2.0. The time is least at
# 12 and near 2n.
PAIRS = 12  # and 2n − 8 for more than ten rivals
LEFT = -1  # the status of a row that goes to the method for one
ROWS_PER_THREAD = 64  # fewer than these are solved sooner than they are handed over


def target_of(model: Model, k: int) -> Any:
    """What rows with class index ``k`` for a target share, made once and kept with the model."""
    key = f"free target {k}"
    return model.memo.get(key) or model.memo.setdefault(key, _target(model, k))


def _target(model: Model, k: int) -> Any:
    rounding = Rounding.of(model, NOWHERE, k)
    lengths, scaling = rounding.lengths, model.scaling
    arrays = {"basis": model.basis, "b": model.b, "gram": model.rival_gram(k), "lengths": model.rival_lengths(k)}
    arrays["columns"] = model.column_sizes
    arrays |= {"shift": None, "scale": None} if scaling is None else {"shift": scaling.shift, "scale": scaling.scale}
    given = {name: None if array is None else np.ascontiguousarray(array, dtype=np.float64) for name, array in arrays.items()}
    given |= {"gamma": rounding.gamma, "coarse": rounding.coarse, "bias": lengths.bias, "span": lengths.span}
    given["logs"] = in_logs(model, rounding.gamma)
    given |= {"norm": lengths.unit.norm, "terms": lengths.unit.terms, "swing": lengths.unit.swing}
    given |= {"row_norm": model.row_norm, "offset_norm": model.offset_norm, "offset_size": model.offset_size}
    return compiled().FreeTarget(given, k)


def project(model: Model, x: Any) -> tuple[Any, Sizes]:
    """`Sources.project_one` for the one source of a table x; its norm is infinite where that is too large."""
    z, norm, terms = target_of(model, 0).project(x)
    return z, Sizes(norm, terms)


def one(model: Model, aim: Aim, tol: float | None, max_iter: int, x: Any = None, known: Any = None) -> Result | None:
    """The answer for the one source of a table x, or for what `project` says of it.

    None where it is left to the method for one, or is not finite.
    """
    wanted = float(needed_logit(aim.prob, model)) if aim.lam is None else aim.lam
    z, sizes = known or (None, NOWHERE)
    found = target_of(model, aim.k).one(x, z, *sizes, wanted, aim.lam is None, tol or 0.0, max_iter, _pairs(model))
    if len(found) == 1:
        return None
    status, lam, distance, objective, grad_norm, n_iter, proba, coef = found
    return Result(aim.k, Status(status), lam, distance, objective, grad_norm, proba, coef, n_iter=n_iter)


def _pairs(model: Model) -> int:
    return max(PAIRS, 2 * model.n_classes - 10)


class Task(NamedTuple):
    """What is wanted of rows, how to solve them, from sources or from Z of them and their sizes, and where x goes."""

    wanted: Any  # of each row: λ, or the logit that it needs
    goal: bool  # whether it is the logit
    tol: float | None
    max_iter: int
    threads: int
    alone: bool  # row after row rather than side by side, which rounds otherwise in the last digit
    X: Any = None
    Z: Any = None
    sizes: Sizes | None = None
    out: Any = None

    @classmethod
    def of(cls, model: Model, aims: Aims, *how: Any, **more: Any) -> "Task":
        """The task of reaching some aims; the rest is as above."""
        wanted = aims.lam if aims.lam is not None else needed_logit(aims.prob, model)
        return cls(np.ascontiguousarray(wanted, dtype=np.float64), aims.lam is None, *how, **more)


def answer(model: Model, targets: Indices, index: Indices, results: Results, task: Task) -> None:
    """Answer rows ``index`` for these class indices, one each; some may be LEFT."""
    known = None if task.sizes is None else np.stack(task.sizes)
    question = task.wanted, task.goal, task.alone, task.tol or 0.0, task.max_iter, _pairs(model)
    columns = results.coef, results.proba, results.lam, results.distance, results.objective, results.grad_norm
    found = *columns, results.n_iter, results.status, task.out
    threads = min(task.threads, max(1, len(index) // ROWS_PER_THREAD))
    pieces = []
    for k in np.unique(targets).tolist():
        rows = index[targets == k]
        pieces += [(target_of(model, k), rows[s]) for s in cuts(len(rows), threads, ROWS_PER_THREAD)]

    def part(piece: tuple[Any, Indices]) -> None:
        target, rows = piece
        target.answer(rows, task.X, task.Z, known, *question, *found)

    on_threads(part, pieces, threads)
    results.target[index] = targets
