"""Multipliers for a set of points: from its relaxation, in which everything between two values is allowed.

`semismooth` solves the relaxation; where that has no solution a linear program says why. Whatever comes out, right or
rough, is only a proposal: what it is worth says `problem.dual`.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ifonly.engines import semismooth
from ifonly.engines.budget import EIGENVECTORS, PROGRAM, Budget
from ifonly.engines.cost_problem import CostProblem
from ifonly.engines.responses import Terms
from ifonly.engines.semismooth import Response, Target, reach
from ifonly.model.numerics import Floats, log_sum_exp, softmax
from ifonly.problem.dual import Dual
from ifonly.problem.proof import Multipliers, Node

__all__ = ["Relaxed", "Relaxing"]


SHARES = (1e-3, 1e-5, *(1e-7,) * 8)  # of max‖b_j‖²: λ, where only the probability counts
SETTLED = 1e-12  # relative: −ln p that no longer falls
ROUGHLY = 1e-6  # how near to the goal a relaxation ends: a bound is off by the square of it
AGAIN = 3  # corrections of multipliers: one that grows from next to nothing is rounded as coarsely as it grows
LEAST_SECONDS = 0.02  # of a linear program, if it is begun: few take more, and HiGHS may print that it was cut short
PART = 0.85  # of the seconds that are left: it may take more than it is given
WITHIN = 1 - 1e-14  # probabilities add up to 1, not to a rounding more


class Relaxed(NamedTuple):
    """A node's relaxation: its solution (None where there is none), multipliers, whether these are about the goal alone."""

    x: Floats | None
    given: Multipliers
    reach: bool = True
    at: Response | None = None


class Relaxing:
    """The relaxations of one problem, for a goal; ``farthest``: where that is out of reach, for what comes nearest to it."""

    def __init__(self, problem: CostProblem, dual: Dual, budget: Budget, farthest: bool = False) -> None:
        self.problem, self.dual, self.budget, self.farthest = problem, dual, budget, farthest
        self.choices, self.goal = dual.choices, dual.goal

    def box(self, node: Node) -> tuple[Floats, Floats]:
        """The bounds of a node, items that stay at the source."""
        choices, lo, hi = self.choices, node.lo.copy(), node.hi.copy()
        still = choices.features(choices.stay(node))
        lo[still] = hi[still] = self.problem.source[still]
        options, columns = choices.options(node), choices.columns
        hi[columns[~options[columns]]] = 0.0
        lo[columns[options[columns] & (choices.in_groups(options) == 1)[choices.of_group]]] = 1.0
        return lo, hi

    def moves(self, x: Floats) -> Floats:
        """How far each item is from where it is at the source, in units of cost."""
        size = np.abs(x - self.problem.source) * self.problem.space.per_unit
        return np.append(size[self.choices.singles], [size[group].max() for group in self.choices.groups])

    def around(self, node: Node, x: Floats) -> tuple[Floats, Floats]:
        """The values of each feature next to x, below and above; x where that is one, infinite where there is none."""
        values = self.choices.beside(node, x)
        below, above = np.where(values <= x, values, -np.inf), np.where(values >= x, values, np.inf)
        return below.max(axis=0), above.min(axis=0)

    def solve(self, node: Node, start: Response | None) -> Relaxed:
        """The relaxation of a node."""
        box = self.box(node)
        if (box[0] == box[1]).all():
            return self._point(box[0])
        impossible = self.impossible(box)
        if impossible is not None:
            return impossible
        part = self.problem.but(lo=box[0], hi=box[1])
        terms = part.terms(self.budget, tight=-part.tight)  # grid points on the very edge of a rule are let in
        if self.farthest and self.goal.margin is None:
            at = self._most_likely(terms, start)
        elif self.goal.top is None:
            at, _, _ = semismooth.solve(terms, self.goal.lam or 1.0, start=start)
        else:
            at, _, met = reach(terms, self._target(terms, part), start)
            if not met:
                return self._short(at, part)
        x = part.x(at.t)
        given = self.multipliers(at, x - self.problem.source)
        return Relaxed(x, self._ended(given, box) if self.farthest else given, self.farthest, at)

    def _most_likely(self, terms: Terms, start: Response | None) -> Response:
        """The largest p_k, whatever it costs: each time with a small cost for moving on from where the last one ended."""
        soft = np.isfinite(terms.high)  # rows of ℓ1 terms
        free = {"low": np.where(soft, 0.0, terms.low), "high": np.where(soft, 0.0, terms.high)}
        terms, size = terms._replace(mu=0.0 * terms.mu, **free), float(np.square(terms.B).sum(axis=1).max(initial=0.0))
        t, loss, at = np.zeros(terms.B.shape[1]), math.inf, start
        for share in SHARES:
            here = {"lo": terms.lo - t, "hi": terms.hi - t, "rest": terms.rest - terms.C @ t}
            moved = terms._replace(margins=terms.margins + terms.B @ t, **here)
            at, _, _ = semismooth.solve(moved, share * size or 1.0, start=at)
            t, before, loss = t + at.t, loss, at.loss
            if self.budget.late or before - loss <= SETTLED * loss:
                break
        assert at is not None
        return replace(at, t=t)

    def _point(self, x: Floats) -> Relaxed:
        """A node of one point: what it costs, or the rule or goal that it misses."""
        dual, change = self.dual, x - self.problem.source
        s, over = dual.margins + dual.S @ change, dual.over + dual.C @ change
        nothing, no_rules = np.zeros(len(s)), np.zeros(len(over))
        limits = self.problem.space.limits
        broken = np.where(limits.equal, np.abs(over) - dual.spare, over)
        if len(over) and broken.max() > 0 and limits.broken(self.problem.source, x) is not None:
            i = int(broken.argmax())
            no_rules[i] = np.sign(over[i])
            return Relaxed(None, Multipliers(nothing, no_rules))
        top = float(s.max())
        missed = (top if self.goal.top is None else float(log_sum_exp(s))) - self.goal.most
        if self.farthest or (self.goal.lam is None and missed > 0):
            shares = softmax(s) if self.goal.margin is None else (s == top) / float((s == top).sum())
            return Relaxed(x, Multipliers(shares, no_rules))
        around = change if self.problem.space.tied else None
        y = nothing if self.goal.lam is None else softmax(np.append(s, 0.0))[:-1] * WITHIN
        return Relaxed(x, Multipliers(y, no_rules, around), reach=False)

    def multipliers(self, at: Response, change: Floats) -> Multipliers:
        """Those of a response, with the change that it leads to."""
        n_rules = len(self.problem.space.limits.C)
        nu = self._signed(at.nu[:n_rules])
        around = change if self.problem.space.tied else None
        if self.goal.margin is not None:
            n = len(self.problem.rivals)
            return Multipliers(np.maximum(at.nu[n_rules : n_rules + n], 0.0), nu, around)
        y = at.p[:-1] / float(at.p.sum()) * WITHIN  # not q, which is settled only where features feel it
        if self.farthest:
            return _of_goal(y, nu)
        return Multipliers(y, nu, around) if self.goal.lam is not None else Multipliers(y / at.lam, nu / at.lam, around)

    def _signed(self, nu: Floats) -> Floats:
        """Multipliers of the rules that may be such: of equations, of any sign."""
        return np.where(self.problem.space.limits.equal, nu, np.maximum(nu, 0.0))

    # ---- a probability ----

    def _target(self, terms: Terms, part: CostProblem) -> Target:
        top = self.goal.most

        def miss(at: Response) -> tuple[float, float]:
            return float(log_sum_exp(terms.margins + terms.B @ at.t)) - top, ROUGHLY * (abs(top) + 1)

        return Target(self.goal.ceiling(0.0), top, miss, part.ceiling)

    def _short(self, at: Response, part: CostProblem) -> Relaxed:
        """No point of the relaxation meets the goal: multipliers that show it, where the box has an end.

        Those of q, or (where features do not feel it, and it is not settled) of p.
        """
        nu, box = self._signed(at.nu[: len(self.problem.space.limits.C)]), (part.lo, part.hi)
        proposed = [self._ended(_of_goal(shares[:-1], nu), box) for shares in (at.q, at.p)]
        given = max(proposed, key=lambda given: self._missed(given, box))
        return Relaxed(part.x(at.t), given, True, at)

    def _ended(self, given: Multipliers, box: tuple[Floats, Floats]) -> Multipliers:
        """Multipliers changed a little, so that nothing pulls where there is no bound to stop it."""
        W = np.concatenate([self.dual.S, self.dual.C]) / self.problem.space.per_unit
        n, both = len(given.y), np.append(given.y, given.nu)
        pinned = np.zeros(W.shape[1], dtype=bool)
        for _ in range(len(pinned)):
            u = both @ W
            more = self.problem.textbook.beyond(u, *box) & ~pinned
            if not more.any():
                break
            pinned |= more
            columns = W[:, pinned]
            for _ in range(AGAIN if self.budget.ends(W.size * len(W), EIGENVECTORS) else 0):
                both = both * (1 + np.linalg.lstsq((both[:, None] * columns).T, -(both @ columns), rcond=None)[0])
                both[:n] = np.maximum(both[:n], 0.0)
                both[n:] = self._signed(both[n:])
        total = float(both[:n].sum())
        return Multipliers(both[:n] / total, both[n:] / total) if total > 0 else given

    # ---- linear programs ----

    def impossible(self, box: tuple[Floats, Floats]) -> Relaxed | None:
        """Multipliers that show that no point of a box keeps the rules (or has the margin); None where there is one.

        The largest violation is made as small as it gets: of the rules, and if these can be kept and a margin is asked for, of
        the margin. Looking for what comes farthest, that is the answer too.
        """
        limits, x = self.problem.space.limits, np.clip(self.problem.source, *box)
        # Where the nearest point of a box keeps the rules, it takes no program to see that one does.
        kept = all(x[group].sum() == 1 for group in limits.groups) and (~limits.equal & (limits.C @ x <= limits.rest)).all()
        for margins in ([] if kept or not len(limits.C) else [False]) + ([] if self.goal.margin is None else [True]):
            found = self._least_violation(box, margins=margins)
            if found is None:
                continue
            violation, x, given = found
            if (margins and self.farthest) or (violation > 0 and self._missed(given, box) > 0):
                return Relaxed(x if margins else None, given)
        return None

    def _missed(self, given: Multipliers, box: tuple[Floats, Floats]) -> float:
        """By how much these multipliers show that every point of a box misses the goal, or the rules."""
        node = Node(*box, np.zeros(self.choices.n_items, dtype=np.int8))
        return float(self.dual.bound(node, given, reach=True).value)

    def _least_violation(self, box: tuple[Floats, Floats], *, margins: bool) -> tuple[float, Floats, Multipliers] | None:
        """The least of the largest violation of rules, or of a margin within the rules, over a box: where, and its multipliers.

        A linear program in units of cost; None where it has no solution, or none was found in time.
        """
        from scipy.optimize import linprog

        problem, dual, limits = self.problem, self.dual, self.problem.space.limits
        c, (lo, hi) = problem.space.per_unit, box
        D, m, n, (rows, _) = len(lo), len(limits.C), len(dual.S) if margins else 0, problem.textbook.rows
        one_hot = rows[len(rows) - len(limits.groups) :]
        rules = np.concatenate([dual.C, -dual.C[limits.equal]]) / c
        over = np.concatenate([dual.over, -dual.over[limits.equal]])
        lengths = np.sqrt(np.square(rules).sum(axis=1))
        lengths = np.where(lengths > 0, lengths, 1.0)
        slack = np.append(np.ones(n), np.full(len(over), float(not margins)))
        rows = np.concatenate([dual.S[:n] / c, rules / lengths[:, None]])
        ends = np.stack([(lo - problem.source) * c, (hi - problem.source) * c], axis=1)
        if not self.budget.ends(rows.size, PROGRAM):  # it takes as long to hand it over, and no clock is looked at
            return None
        found = linprog(
            np.append(np.zeros(D), 1.0),
            A_ub=np.hstack([rows, -slack[:, None]]),
            b_ub=np.append(-dual.margins[:n] - (dual.goal.margin or 0.0), -over / lengths),
            A_eq=np.hstack([one_hot / c, np.zeros((len(one_hot), 1))]) if len(one_hot) else None,
            b_eq=1.0 - one_hot @ problem.source if len(one_hot) else None,
            bounds=np.vstack([ends, [[-np.inf if margins else 0.0, np.inf]]]),
            options={"time_limit": max(PART * self.budget.left, LEAST_SECONDS)},
        )
        if found.status != 0:
            return None
        given = np.maximum(-found.ineqlin.marginals, 0.0)
        y, of_rules = np.zeros(len(dual.S)), given[n:] / lengths
        y[:n], nu = given[:n], of_rules[:m].copy()
        nu[limits.equal] -= of_rules[m:]
        nu, total = self._signed(nu), float(y.sum()) or 1.0
        return float(found.x[-1]), problem.source + found.x[:-1] / c, Multipliers(y / total, nu / total)


def _of_goal(y: Floats, nu: Floats) -> Multipliers:
    """Multipliers about the goal alone: those of the rivals add up to 1."""
    total = float(y.sum())
    return Multipliers(y / total, nu / total) if total > 0 else Multipliers(np.full(len(y), 1 / len(y)), 0.0 * nu)
