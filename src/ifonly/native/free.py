"""Free rows through the compiled loop: from sources, or what is known of them in class space, to certified answers.

What `engines.free.Batch` does with an array program, free_rows.hpp does row by row: margins, the start, Newton, the search for
λ, the certificate and, where it is wanted, x itself. Every function here needs `native.compiled`.
"""

from typing import Any

import numpy as np

from ifonly.engines.rounding import Rounding
from ifonly.engines.threads import cuts, on_threads
from ifonly.model import Model
from ifonly.model.numerics import Indices
from ifonly.native import compiled
from ifonly.problem.asked import Aim
from ifonly.problem.goals import in_logs, needed_logit
from ifonly.problem.results import Result
from ifonly.problem.status import Status
from ifonly.rows.sources import NOWHERE, Sizes

__all__ = ["LEFT", "answer", "one", "project"]

# Coordinate steps of the start, in single precision: one costs a tenth of a Newton step or less. Mean iterations to the last
# digit after 12, n, 2n, 4n of them: MNIST (n = 9) 3.6, 3.6, 3.1, 2.5; RCV1 (n = 50) 9.5, 5.7, 3.0, 2.0. The time is least at
# 12 and near 2n.
PAIRS = 12  # and 2n − 8 for more than ten rivals
LEFT = -1  # the status of a row that goes to the method for one
ROWS_PER_THREAD = 64  # fewer than these are solved sooner than they are handed over


def target_of(model: Model, k: int) -> Any:
    """What rows with class index ``k`` for a target share, made once and kept with the model."""
    key = f"free target {k}"
    found = model.memo.get(key)
    if found is None:
        rounding, scaling = Rounding.of(model, NOWHERE, k), model.scaling
        arrays = {"basis": model.basis, "b": model.b, "gram": model.rival_gram(k), "lengths": model.rival_lengths(k)}
        arrays["columns"] = model.column_sizes
        arrays |= {} if scaling is None else {"shift": scaling.shift, "scale": scaling.scale}
        given: dict[str, Any] = {"shift": None, "scale": None, "logs": in_logs(model, rounding.gamma)}
        given |= {name: np.ascontiguousarray(array, dtype=np.float64) for name, array in arrays.items()}
        given |= {name: getattr(rounding, name) for name in ("gamma", "coarse")}
        given |= {name: getattr(rounding.lengths, name) for name in ("bias", "span")} | rounding.lengths.unit._asdict()
        given |= {name: getattr(model, name) for name in ("row_norm", "offset_norm", "offset_size")}
        found = model.memo[key] = compiled().FreeTarget(given, k)
    return found


def project(model: Model, x: Any) -> tuple[Any, Sizes]:
    """`Sources.project_one` for the one source of a table x; its norm is infinite where that is too large."""
    z, norm, terms = target_of(model, 0).project(x)
    return z, Sizes(norm, terms)


def one(model: Model, aim: Aim, tol: float | None, max_iter: int, x: Any = None, known: Any = None) -> Result | None:
    """The answer for the one source of a table x, or for what `project` says of it; None where it is left, or not finite."""
    wanted = float(needed_logit(aim.prob, model)) if aim.lam is None else aim.lam
    z, sizes = known or (None, NOWHERE)
    found = target_of(model, aim.k).one(x, z, *sizes, wanted, aim.lam is None, tol or 0.0, max_iter, _pairs(model))
    if len(found) == 1:
        return None
    status, lam, distance, objective, grad_norm, n_iter, proba, coef = found
    return Result(aim.k, Status(status), lam, distance, objective, grad_norm, proba, coef, n_iter=n_iter)


def _pairs(model: Model) -> int:
    return max(PAIRS, 2 * model.n_classes - 10)


def answer(batch: Any, targets: Indices, index: Indices) -> None:
    """Answer rows ``index`` of a `Batch` of `engines.free` for these class indices, one each; some may be LEFT."""
    model, aims, results = batch.model, batch.aims, batch.results
    known = None if batch.sizes is None else np.stack(batch.sizes)
    wanted = np.ascontiguousarray(needed_logit(aims.prob, model) if aims.lam is None else aims.lam, dtype=np.float64)
    question = wanted, aims.lam is None, batch.alone, batch.stop.tol or 0.0, batch.stop.max_iter, _pairs(model)
    columns = results.coef, results.proba, results.lam, results.distance, results.objective, results.grad_norm
    found = *columns, results.n_iter, results.status, batch.out
    threads = min(batch.loop.threads, max(1, len(index) // ROWS_PER_THREAD))
    pieces = []
    for k in np.unique(targets).tolist():
        rows = index[targets == k]
        pieces += [(target_of(model, k), rows[s]) for s in cuts(len(rows), threads, ROWS_PER_THREAD)]

    def part(piece: tuple[Any, Indices]) -> None:
        target, rows = piece
        target.answer(rows, batch.X, batch.Z, known, *question, *found)

    on_threads(part, pieces, threads)
    results.target[index] = targets
