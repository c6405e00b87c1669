"""Whole numbers, categories, uneven grids, few changes: a search by cases, whose record is the proof of its answer.

A case is a set of points (`problem.choices.Node`). Multipliers from its relaxation (`relaxing`) prove a bound for it
(`problem.dual`), with its discrete choices as they are, and the choices at which that bound is taken are tried as an answer
(`candidates`), like those of the relaxation, rounded. A case that can hold no better answer is closed; others are cut in two,
the most promising first (`tree`). Where nothing meets the goal the same search finds what comes nearest to it.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import TypeGuard

import numpy as np

from ifonly.engines import constraints
from ifonly.engines.budget import Budget
from ifonly.engines.candidates import Candidates
from ifonly.engines.cost_problem import CostProblem, nothing_found
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.limited import LimitedEngine, stays
from ifonly.engines.relaxing import Relaxed, Relaxing
from ifonly.engines.searched import ALLOWANCES, MOST_ROUNDING, dual_of, measured, slack_of, tolerated
from ifonly.engines.semismooth import Response
from ifonly.engines.tree import Branch, Tree
from ifonly.model.errors import CertificateError
from ifonly.model.numerics import EPS, Flags, Floats
from ifonly.problem.asked import Aim
from ifonly.problem.contradiction import contradiction
from ifonly.problem.dual import Bounded, continuous_proof
from ifonly.problem.proof import OPEN, Cut, Multipliers, Node, Proof
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["Cases", "impossible", "proved"]


OFF = 1e-9  # a relaxed value this far from an allowed one, relative to their distance, is none
PLAN_SECONDS, PLAN_NODES = 0.03, 1000  # for any plan, twice, where a search was stopped before it had one


class Cases(LimitedEngine):
    """Any limits that take a search, and any number of classes."""

    def unfit(self, space: CostSpace, weighed: bool) -> str | None:
        """What takes no search."""
        return None if space.conditions.discrete else "nothing is discrete, and no search is needed"

    def answer(self, problem: CostProblem, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """See `LimitedEngine`."""
        late = problem.space.late(budget)
        found = stays(problem, aim) or (None if late else constraints.solve(problem, aim, budget))
        if isinstance(found, Result) and (found.status.ok or budget.late or found.n_nodes >= budget.nodes):
            return found
        search = CaseSearch(problem, aim, budget)
        search.tree.at_least = 0  # `any_plan` knows better what to do when it is late
        if isinstance(found, Proof):
            search.first()
            return _nothing(search, found)
        best = search.run(found) if found is not None or not late else None
        if best is None and not search.closed and (budget.late or not search.tree.done):
            best = search.any_plan()
        if best is None:
            return _nothing(search)
        answer = search.answer(best)
        return answer if found is None or answer.status.ok or answer.gap < found.gap else found


def impossible(problem: CostProblem, aim: Aim, budget: Budget) -> bool:
    """Whether no point keeps the rules, or has the margin, as far as a linear program shows it."""
    if not problem.n_rules:
        return False
    relaxing = Relaxing(problem, dual_of(problem, aim), budget)
    return relaxing.impossible(relaxing.box(relaxing.choices.root)) is not None


def proved(problem: CostProblem, aim: Aim, found: Result, budget: Budget) -> Result:
    """An answer that took no search, with the bound that its multipliers prove, where its certificate says less."""
    dual, value = dual_of(problem, aim), aim.value(found)
    proof = continuous_proof(dual.problem, found.x, aim.prob, found.lam, found.multipliers)
    size = problem.textbook.relative_to(value, weighed=aim.lam is not None)
    bound = min(float(dual.prove(proof).bound), value)
    slack = slack_of(problem, aim, proof.multipliers[0], found.x)
    if bound > found.bound:
        found = replace(found, bound=bound, gap=value - bound, grad_norm=0.0, proof=proof)
    return replace(found, status=Status.of_gap(found.gap, size, tolerated(budget, slack, size)))


class CaseSearch:
    """One search: for the least there is, or (``farthest``) for what comes nearest to a goal out of reach."""

    def __init__(self, problem: CostProblem, aim: Aim, budget: Budget, *, farthest: bool = False) -> None:
        self.problem, self.aim, self.budget, self.farthest = problem, aim, budget, farthest
        self.dual = dual_of(problem, aim)
        self.choices = self.dual.choices
        self.relaxing = Relaxing(problem, self.dual, budget, farthest)
        self.candidates = Candidates(problem, aim, self.relaxing)
        self.tree = Tree(self.choices.root, budget)
        n, began = len(self.dual.margins), perf_counter()
        self.nothing = Multipliers(np.full(n, farthest / n), np.zeros(len(self.dual.over)))
        self._bounded(self.tree.root, self.nothing, reach=farthest)
        self.tree.reserve = perf_counter() - began
        self.tree.slack = slack_of(problem, aim, self.nothing, problem.source)
        self.best: Result | None = None
        self.of_best: Multipliers | None = None
        self.begun = False  # whether being greedy came to its end
        self.known: list[Floats] = []  # where being greedy gets to, and the relaxation, if that is not the goal

    @property
    def closed(self) -> bool:
        """Whether it showed that there is nothing to be found."""
        return self.tree.done and math.isinf(self.tree.bound)

    def refuse(self, proof: Proof) -> None:
        """Raises where a proof that nothing is to be found shows that not even the rules can be kept."""
        if math.isinf(self.dual.prove(proof).missed):
            raise contradiction(self.problem.space.conditions, self.problem.source, self.budget.left)

    def run(self, best: Result | None = None) -> Result | None:
        """Search until nothing better is left, or it is time to stop; ``best`` is an answer that is known."""
        self.offer(best)
        if best is None and not self.begun:
            self.first()
        for branch in self.tree:
            if self.dual.empty(branch.node):
                branch.bound, branch.given = math.inf, None
                continue
            relaxed = self.relaxing.solve(branch.node, branch.start)
            at = self._bounded(branch, relaxed.given, reach=relaxed.reach)
            if branch is self.tree.root:
                self._rooted(relaxed)
            if self.of_best is not None and not self.tree.hopeless(branch.bound):
                self._bounded(branch, self.of_best, reach=False)
            if not self.tree.hopeless(branch.bound):
                self._try(branch, relaxed, at)
            cut = None if self.tree.hopeless(branch.bound) else self._cut(branch.node, relaxed, at)
            if cut is None:
                self.tree.close(branch)
                continue
            branch.start = relaxed.at or branch.start
            self.tree.split(branch, cut, self.choices.cut(branch.node, cut))
        return self.best

    def any_plan(self) -> Result | None:
        """A plan for a search that was stopped before it had one: whatever will do, and no matter how late it is."""
        short, untied = replace(self.budget.anew(), nodes=PLAN_NODES, seconds=PLAN_SECONDS, gap=1.0), self.problem.untied
        found = constraints.any_plan(untied, self.aim, short)
        if found is None:
            search = CaseSearch(untied, self.aim, short.anew())
            search.begun = self.begun and untied is self.problem
            found = search.run()
        self.offer(None if found is None else self.candidates.as_it_is(found.x))
        return self.best

    def _rooted(self, relaxed: Relaxed) -> None:
        """What the relaxation of everything tells: where it gets to if not to the goal; what rounding costs a known answer."""
        if relaxed.reach and relaxed.x is not None:
            self.known.append(self.problem.kept(relaxed.x))
        elif self.best is not None and self.of_best is None and not self.farthest:
            most = MOST_ROUNDING * abs(self.tree.least)  # a gap of more is none that an answer may have
            self.tree.slack = max(self.tree.slack, min(slack_of(self.problem, self.aim, relaxed.given, self.best.x), most))

    def decided(self, node: Node) -> bool:
        """Whether there is nothing in a node that a search could cut: all that is discrete is one way."""
        at = self.dual.bound(node, self.nothing)
        return self._narrower(node, at.x, at) is None

    def counted(self, proof: Proof) -> int:
        """The nodes of a search; where nothing is discrete there is one case, and no search."""
        return len(proof) if self.problem.space.conditions.discrete else 0

    def answer(self, best: Result) -> Result:
        """The best answer with its bound, and the proof of that."""
        proof = self.tree.proof()
        found = replace(best, n_nodes=self.counted(proof), grad_norm=0.0, proof=proof)
        shown = measured(found, self.dual, self.tree.bound, self.budget, self.tree.slack)
        if shown.status is Status.EXACT:
            return shown
        # It may be better: the bound of a branch is at first that of the one it is part of.
        return measured(found, self.dual, float(self.dual.prove(proof).bound), self.budget, self.tree.slack)

    # ---- bounds ----

    def _bounded(self, branch: Branch, given: Multipliers, *, reach: bool) -> Bounded:
        """A branch's bound from multipliers, kept if it is better."""
        found = self.dual.bound(branch.node, given, reach=reach)
        about_goal = reach and not self.farthest  # then it shows that there is no answer, or it tells nothing
        bound = math.inf if about_goal else found.value
        if (found.value > 0 or not about_goal) and (bound > branch.bound or branch.given is None):
            branch.bound, branch.given, branch.reach = max(bound, branch.bound), given, reach
        return found

    # ---- answers ----

    def _value(self, result: Result) -> float:
        """What is minimised."""
        if self.farthest:
            return self.problem.level(self.aim.prob, result.x) - self.dual.goal.most
        return self.aim.value(result)

    def offer(self, result: Result | None) -> TypeGuard[Result]:
        """An answer, kept if it is the best so far; whether it is."""
        if result is None or not self._value(result) < self.tree.least:
            return False
        self.best, self.tree.least = result, self._value(result)
        return True

    def first(self) -> None:
        """An answer before anything is searched: with λ near the source, else what being greedy finds, and the best of it."""
        if self.aim.lam is not None:
            self.offer(self.candidates.as_it_is(self.candidates.decided(self.problem.kept(self.problem.source))[0]))
            return
        x = self.candidates.greedy()
        self.known.append(x)
        self.begun = not self.budget.late
        if self.offer(self.candidates.as_it_is(x)) and not self.budget.late:
            found, solved = self.candidates.best_of(x)
            if self.offer(found):
                self._learned(found, solved, None)

    def _try(self, branch: Branch, relaxed: Relaxed, at: Bounded) -> None:
        """Answers from the choices of a relaxation and of its bound; their multipliers may bound the branch better."""
        tried: list[tuple[Floats, Flags | None]] = [(at.x, at.moved)]
        if relaxed.x is not None:
            tried.append((relaxed.x, None))
            if branch is self.tree.root and not self.farthest and self.aim.lam is None:
                tried.append((self.candidates.outward(relaxed.x, relaxed.given.y), None))
        for x, moved in tried:
            found, solved = self.candidates.best_of(x, moved, relaxed.at)
            if self.offer(found) and not self.farthest:
                self._learned(found, solved, None if relaxed.reach else relaxed.given)
                if self.of_best is not None:
                    self._bounded(branch, self.of_best, reach=False)

    def _learned(self, found: Result, solved: Response | None, given: Multipliers | None) -> None:
        """What the multipliers of a new best answer (or these, near it) tell: bounds for branches, what rounding costs."""
        if solved is not None:
            self.of_best = given = self.relaxing.multipliers(solved, found.x - self.problem.source)
        if given is not None:
            self.tree.slack = slack_of(self.problem, self.aim, given, found.x)

    def out_of_reach(self, best: Result, proof: Proof) -> Result | None:
        """The best there is, with the proof that it is all there is; None if that is none.

        What the rounding of whoever evaluates answers eats of a goal is out of reach as well.
        """
        slack = ALLOWANCES * self.problem.allowance(self.aim.prob, best.x)
        try:
            missed = float(self.dual.prove(proof, slack).missed)
        except CertificateError:
            return None
        ceiling, prob = self.dual.goal.ceiling(missed), self.aim.prob
        if prob is not None and prob <= ceiling <= prob * (1 + 4 * EPS):  # by the rounding of this very number
            ceiling = math.nextafter(prob, 0.0)
        found = replace(best, status=Status.UNREACHABLE, ceiling=ceiling, bound=best.cost)
        return replace(found, n_nodes=self.counted(proof), proof=proof)

    # ---- cuts ----

    def _cut(self, node: Node, relaxed: Relaxed, at: Bounded) -> Cut | None:
        """A cut that leaves out the relaxed solution; where that is an answer, one that narrows; None where all is decided."""
        x = np.clip(at.x if relaxed.x is None else relaxed.x, node.lo, node.hi)
        return self._between(node, x) or self._one_too_many(node, x) or self._narrower(node, x, at)

    def _between(self, node: Node, x: Floats) -> Cut | None:
        """Where a feature is between two of its values, or a group between options: that which is farthest from one."""
        c = self.problem.space.per_unit
        below, above = self.relaxing.around(node, x)
        off = np.minimum(x - below, above - x)
        far = np.where(off > OFF * (above - below), off * c, 0.0)  # of those with values on both sides
        d = int(far.argmax())
        worst, cut = float(far[d]), Cut("value", d, float(below[d]), float(above[d])) if far[d] > 0 else None
        for option, off in self._options(node, x):
            farther = off * float(c[self.choices.groups[option.d]].max())
            if off > OFF and farther > worst:
                worst, cut = farther, option
        return cut

    def _options(self, node: Node, x: Floats) -> Iterator[tuple[Cut, float]]:
        """Of each group with several options: the cut between the one that x is nearest to and the others, and how near."""
        options = self.choices.options(node)
        for j, group in enumerate(self.choices.groups):
            if options[group].sum() > 1:
                shares = np.where(options[group], x[group], -1.0)
                yield Cut("option", j, options=(int(shares.argmax()),)), 1.0 - float(shares.max())

    def _one_too_many(self, node: Node, x: Floats) -> Cut | None:
        """Where more items move than may: the largest move."""
        choices, of = self.choices, self.relaxing.moves(x)
        of[of <= OFF * of.max(initial=0.0)] = 0.0
        if int((of > 0).sum()) <= choices.most:
            return None
        open_ = np.where((node.state == OPEN) & choices.rests(node), of, 0.0)
        return Cut("move", int(open_.argmax())) if open_.max() > 0 else None

    def _narrower(self, node: Node, x: Floats, at: Bounded) -> Cut | None:
        """Any cut at all: about a group, the widest of the features with values of their own, an item that may move."""
        choices = self.choices
        for option, _ in self._options(node, x):
            return option
        points = np.append(choices.grid, [part.feature for part in choices.limits.uneven]).astype(int)
        wide = (node.hi - node.lo) / np.where(choices.limits.step > 0, choices.limits.step, 1.0)
        # The values of a feature up to where it is, and those above; or those below, and from there on.
        values, here = choices.beside(node, x), choices.nearest(node, x)
        above, below = np.where(values > here, values, np.inf), np.where(values < here, values, -np.inf)
        above, below = above.min(axis=0), below.max(axis=0)
        for d in points[np.argsort(-wide[points], kind="stable")].tolist():
            for low, high in ((here[d], above[d]), (below[d], here[d])):
                if np.isfinite(low) and np.isfinite(high):
                    return Cut("value", d, float(low), float(high))
        if choices.capped:
            open_ = (node.state == OPEN) & choices.rests(node)
            open_[: len(choices.singles)] &= (node.lo < node.hi)[choices.singles]
            if open_.any():
                return Cut("move", int(np.where(open_, 1.0 + at.moved, 0.0).argmax()))
        return None


def _nothing(search: CaseSearch, given: Proof | None = None) -> Result:
    """No answer: none exists, or none was found in time. ``given`` shows it, where the search itself did not."""
    proof, sure = given or search.tree.proof(), given is not None or search.closed
    if sure:
        search.refuse(proof)
    counted, bound = search.counted(proof), math.inf if sure else search.tree.bound
    unknown = nothing_found(search.problem.space, search.problem.k, counted, bound, proof)
    if search.aim.lam is not None or not (sure or search.tree.done):
        return unknown
    return _nearest_to_it(search, proof if sure else None) or unknown


def _nearest_to_it(search: CaseSearch, proof: Proof | None) -> Result | None:
    """What comes nearest to a goal out of reach, as ``proof`` shows, or is to be searched for; None if nothing is found."""
    problem, aim, budget = search.problem, search.aim, search.budget
    far = CaseSearch(problem, aim, replace(budget, gap=0.0), farthest=True)
    far.tree.slack = 0.0 if proof is None else constraints.CLOSE
    for x in (problem.source, *search.known):
        far.offer(far.candidates.as_it_is(x))
    best = far.best or _anywhere(problem, aim, budget)
    nearest = None
    if proof is not None and best is not None:  # by compiled searches for its choices
        nearest = constraints.nearest_to_goal(problem, aim, far.budget, best.x, proof)
    if nearest is not None:
        x, shown = nearest
        best = far.candidates.best_of(x)[0] or far.candidates.as_it_is(x) or best
    else:
        best = far.run(best)
        shown = proof if proof is not None and far.tree.bound <= 0 else far.tree.proof()
    if best is None:
        return None
    if problem.careful and problem.seems_reached(best.x, aim.prob):  # with nothing to spare for rounding: better than none
        again = CaseSearch(problem.but(careful=False), aim, budget)
        return again.answer(again.run(best) or best)
    return far.out_of_reach(best, shown)


def _anywhere(problem: CostProblem, aim: Aim, budget: Budget) -> Result | None:
    """The nearest point within the limits, whatever the classifier says of it; None where none was found in time."""
    space = problem.space
    without = CostSpace(replace(space.conditions, margin=None), reference=space.loops is None)
    plain = problem.but(space=without)
    search = CaseSearch(plain, aim._replace(lam=1.0, prob=None), replace(budget, gap=1.0))
    found = search.run()
    if found is None and search.closed:
        search.refuse(search.tree.proof())
    return None if found is None else problem.result(found.x, math.inf)
