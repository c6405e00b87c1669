"""Which limits are in the way of a goal that is out of reach: a set of them of which each is needed.

With only these limits kept, the goal is still out of reach; with any one of them dropped too, it is not. A limit pulls: what a
unit of cost beyond it would bring, at the best point there is within all limits,

    |Σ_j p_j (a_k − a_j)_d − (Cᵀν)_d| / c_d        for the feature d that it holds, the rivals j, and the rules' multipliers ν.

Limits are dropped one after the other, those that do not pull first and all at once: where all is convex, the others are
enough.
"""

from time import thread_time

import numpy as np

from ifonly.engines.budget import Budget
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.gains import Gains
from ifonly.engines.limits import engine_for
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats
from ifonly.problem.asked import Aim
from ifonly.problem.conditions import Conditions
from ifonly.problem.dual import Dual, Goal
from ifonly.problem.each_limit import EachLimit
from ifonly.problem.irreducible import Needed, irreducible
from ifonly.problem.limited import LimitedProblem
from ifonly.problem.proof import Multipliers
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["blocking"]


SECONDS = 0.25  # of this thread's own work, so that little depends on what else runs; whoever prints an answer waits for it
ANY = 0.99  # the relative gap at which a search stops: any answer will do, however much it costs
NOTHING = 1e-9  # relative: a pull that is rounding
MULTIPLIERS = 8  # of the answer's proof that are tried with fewer limits: they often show as much of them
NODES = 500  # of a search with some limits dropped; what takes more is kept


def blocking(conditions: Conditions, source: Floats, aim: Aim, result: Result, seconds: float = SECONDS) -> Needed[str]:
    """The limits that are in the way together, in the user's words, the one that pulls most first.

    ``result`` is the best there is within all limits, which is not good enough for the aim: one class, and a probability or a
    margin. After so many ``seconds`` it stops: with only the limits that are left then the goal is still out of reach, but
    fewer may do so too, and ``proved`` is False.
    """
    limits, deadline = EachLimit(conditions), thread_time() + seconds

    def out_of_reach(kept: list[int]) -> bool | None:
        some = limits.only(kept)
        rules = sorted(i for j in kept if limits.all[j].kind == "rule" for i in limits.all[j].where)
        dual = Dual(LimitedProblem(some, source, aim.k), Goal.of(None, aim.prob, some.margin))
        given = () if result.proof is None else result.proof.multipliers[:MULTIPLIERS]
        if any(dual.bound(dual.choices.root, Multipliers(y, nu[rules]), reach=True).value > 0 for y, nu, _ in given):
            return True
        return _missed(some, source, aim, deadline - thread_time())

    pulls = _pulls(limits, source, result)
    order = sorted(range(len(limits)), key=lambda i: -pulls[i])
    if not out_of_reach(order):  # not what the engine said; of which one is right nothing is known
        found = Needed([i for i in order if pulls[i] > 0], False)
    else:
        idle = sum(pull == 0 for pull in pulls)
        found = irreducible(order, out_of_reach, lambda: thread_time() > deadline, run=max(1, idle))
    named = sorted((limits.all[i] for i in found.parts), key=lambda limit: limit.kind != "changes")
    return Needed([limit.words for limit in named], found.proved)


def _missed(conditions: Conditions, source: Floats, aim: Aim, seconds: float) -> bool | None:
    """Whether nothing reaches the goal; None where that was not found out in time."""
    gains = Gains(conditions, source, aim)
    reached = gains.can_reach(np.ones(len(gains.must), dtype=bool))
    if reached is not None or gains.alone()[0].any():
        return reached is False
    if seconds <= 0:
        return None
    try:
        space = CostSpace(conditions)
        budget = Budget(gap=ANY, nodes=NODES, seconds=seconds)
        found = engine_for(space, weighed=False).row(space, source, aim, budget, None)
    except (InputError, np.linalg.LinAlgError):  # no point within the limits, in floating point; or numbers out of hand
        return None
    return found.status is Status.UNREACHABLE or (False if np.isfinite(found.x).all() else None)


def _pulls(limits: EachLimit, source: Floats, result: Result) -> list[float]:
    """How much each limit pulls."""
    conditions, arrays = limits.conditions, limits.limits
    problem = LimitedProblem(conditions, source, result.target)
    pull = -problem.slopes.T @ result.proba[problem.rivals] / conditions.per_unit
    given, C = result.multipliers, arrays.C / conditions.per_unit
    rules = np.zeros(len(C)) if given is None or len(given) < len(C) else given[: len(C)]
    pull = pull - rules @ C
    size = np.abs(pull)
    size[size <= NOTHING * size.max()] = 0.0
    up, down = (np.where(side & ~arrays.frozen, size, 0.0) for side in (pull > 0, pull < 0))
    # A direction holds a feature where the source is between its bounds, and the bound where it is not.
    rise, fall = arrays.increase & (source >= arrays.lo), arrays.decrease & (source <= arrays.hi)
    of = {"frozen": size, "rise": np.where(rise, down, 0.0), "fall": np.where(fall, up, 0.0)}
    of |= {"low": np.where(rise, 0.0, down), "high": np.where(fall, 0.0, up)}
    of["rule"] = np.abs(rules) * np.linalg.norm(C, axis=1)
    return [float(of[limit.kind][list(limit.where)].max()) if limit.kind in of else 0.0 for limit in limits.all]
