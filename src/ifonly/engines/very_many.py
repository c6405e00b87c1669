"""Very many classes: passes over A, and between them a problem with few.

Of 50 000 classes all but tens have no probability worth a digit. Let L = ln Σ exp(z_j − z_k) over the rivals of the target k,
w their softmax among themselves, Q = 1 − p_k = 1/(1 + e^{−L}) and ā = Σ w_j a_j. One pass over A at a point x (`passes`) gives
L, ā and the strongest rivals W, and with them everything of first order,

    E = (λ/2)‖x − x̄‖² + ln(1 + e^L),        ∇E = λ(x − x̄) + Q(ā − a_k).

For the step let all rivals outside W stand together as *one*: its row is their mean with weights w, its margin the tangent of
the logarithm of their sum. That is a problem with |W| + 1 rivals, exact to first order at x and below the full one everywhere
(log-sum-exp is convex), and Newton's method solves it in a millisecond. Its answer is the next x. What it neglects is the
covariance of the other rivals' rows, times their mass: on an ImageNet head 0.07 of the Hessian with |W| = 64, so each pass
gives one digit or more, and Anderson's acceleration (the combination of the last steps with the least residual) two.

Where the neglected covariance is no trifle (thousands of equal rivals) E may rise: then the step is taken with a proximal term
σ as large as the curvature that was met. Where that is slow, or D is small, Newton's method in D dimensions takes over, whose
Hessian a pass can sum as well. Nothing here is of size K×K.

The rivals in W are at hand in double precision, row by row, so a pass sums up only the others. Their share is small, and so is
what single precision does to them: where many sources share the passes, which then take the time of multiplying and not of
reading A, one or two of a source's passes are in double precision (`passes`), and the bound counts what the others neglect.

The algorithm is written for one source, as a generator: it yields points and is sent what a pass says of them. `solve_many`
runs any number of these in step, so that all share the passes, as matrix products.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ifonly.engines.passes import MOST, Look, Seen, SumUp, Task, sum_up, take_a_pass
from ifonly.engines.rounding import Rounding
from ifonly.engines.strong_rivals import Asking, Endpoint
from ifonly.engines.very_many_reach import reach
from ifonly.engines.very_many_rounds import minimise
from ifonly.model import Model
from ifonly.model.numerics import EPS, Floats, summation_error
from ifonly.problem.goals import coarser, in_logs, needed_logit
from ifonly.rows.sources import Sizes

__all__ = ["WHOLE", "VastProblem", "solve_many"]

# Points that passes are made for in one go: a pass for 17 takes as long as one for 32. From so many on in single precision.
WHOLE = 16


class VastProblem:
    """One source, in the classifier's space, and one class of a model with very many: the tasks that engines are given."""

    def __init__(self, model: Model, source: Floats, k: int, *, tol: float | None = None) -> None:
        self.model, self.source, self.k, self.tol = model, source, k, tol
        norm = float(np.linalg.norm(source))
        terms = min(model.row_norm * norm, float(np.abs(source) @ model.column_sizes))
        sizes = Sizes(norm + 2 * model.offset_norm, terms + 2 * model.offset_size)
        # x is no sum over the classes here, so that their number does not matter to how it rounds.
        self.rounding = Rounding(summation_error(model.n_features + MOST), model.row_norm, MOST, sizes, model.coarse)
        self.size = sizes.terms + float(np.abs(model.b).max())

    def task(self, lam: float | None, prob: float | None, start: Floats | None = None) -> Task:
        """What is wanted: the least E for λ, or the nearest x with this probability."""

        def level(distance: float) -> tuple[float, float]:
            rounding = theirs.of_estimator(self.size, theirs.at(distance))
            return logit - rounding, rounding + 8 * EPS * (abs(logit) + 1)

        times = coarser(prob, in_logs(self.model, self.rounding.gamma))
        theirs = replace(self.rounding, coarse=float(self.model.coarse * times))
        logit = 0.0 if prob is None else float(needed_logit(prob, self.model))
        row, bias, outside = self.model.weights(self.k), float(self.model.b[self.k]), np.array([self.k])
        return Task(self.source, row, bias, outside, lam, None if prob is None else level, self.tol, start)


def solve_many(
    model: Model,
    tasks: Sequence[Task],
    first: dict[int, Seen] | None = None,
    threads: int = 1,
    sum_up: SumUp = sum_up,
    at_once: int = 256,
) -> list[Endpoint]:
    """The answers for several sources and targets, a pass over A at a time; ``first`` is what is known of sources already.

    So many run ``at_once``: one that is done makes room for the next.
    """
    single = min(len(tasks), at_once) >= WHOLE
    running: dict[int, Asking] = {}
    asked: dict[int, Look] = {}
    found: dict[int, Endpoint] = {}
    known = dict(first or {})
    waiting = list(range(len(tasks)))[::-1]
    while asked or waiting:
        while waiting and len(asked) < at_once:
            i = waiting.pop()
            lam = tasks[i].lam
            running[i] = reach(model, tasks[i], single) if lam is None else minimise(model, tasks[i], lam, single)
            asked[i] = next(running[i])
        new = _together({i: look for i, look in asked.items() if i not in known})
        known |= dict(zip(new, take_a_pass(model, [asked[i] for i in new], threads, sum_up), strict=True))
        for i in list(known.keys() & asked.keys()):
            try:
                asked[i] = running[i].send(known.pop(i))
            except StopIteration as end:
                found[i] = end.value
                del asked[i], running[i]
    return [found[i] for i in range(len(tasks))]


def _together(asked: dict[int, Look]) -> list[int]:
    """Whose passes are made next: of each precision as many as fill whole vectors, and all of both where that is none."""
    some = []
    for single in (True, False):
        alike = [i for i, look in asked.items() if look.single is single]
        some += alike[: len(alike) // WHOLE * WHOLE]
    return some or list(asked)
