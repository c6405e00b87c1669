"""What each thing that may change can do towards a goal, at most: closed forms, for sets of them.

An *item* is a feature, or a group of one-hot columns. With the rivals' margins s(x) = s̄ + S(x − x̄), and c = logit(1 − τ) for a
probability τ, the goal is ln Σ_j e^{s_j(x)} ≤ c. So for any proportions r of the rivals

    r·s̄ + H(r) − c ≤ Σ_i gain_i,        gain_i = −r·S_i(x_i − x̄_i) ≤ G_i(r),        H the entropy,

with G_i(r) the largest gain that item i's own limits allow, a closed form. A set of items whose G_i(r) do not add up to what is
needed, for any one r, cannot reach the goal. For two classes there is one r, and a set whose G_i do add up can reach it, if
nothing but the classifier ties features together. For more, the point at which every item has its largest gain is tried. With a
margin m the goal is max_j s_j ≤ −m: the same with c = −m and without H.

Of one item alone (`alone`) the goal is a convex function f of its change u, and the least u with f(u) ≤ 0 is found by Newton's
method from u = 0, whose iterates rise to it from below: each is a bound, and where f stops falling before there is none.
"""

import math
from functools import cached_property

import numpy as np

from ifonly.model.numerics import EPS, Flags, Floats, Indices
from ifonly.problem.asked import Aim
from ifonly.problem.conditions import Conditions

__all__ = ["Gains"]


FAR = 1e6  # units of cost: what takes a longer way is left to the engines
NEAR = 1e-9  # relative: sums that differ by less are left to the engines, which know their rounding
ROUNDINGS = 256  # of a logit's sum, on top of that
CORNERS = 6  # points that are tried for more than two classes
RIVALS = 16  # of which each alone is a proportion to begin with
MOST_PROPORTIONS = 64  # that are kept
STEPS = 100  # of Newton's method for one item


class Gains:
    """The items of a source, and what sets of them can do.

    Parameters
    ----------
    conditions : Conditions
    source : ndarray of shape (D,)
    aim : Aim
        A class, and a probability or the margin of the conditions.

    Attributes
    ----------
    singles : ndarray of int
        The items that are features, those that can change.
    groups : list of arrays
        The items that are groups of one-hot columns, after these.
    must : ndarray of bool
        The items that cannot stay as they are.

    """

    def __init__(self, conditions: Conditions, source: Floats, aim: Aim) -> None:
        self.conditions, self.source, self.aim = conditions, source, aim
        model, limits = conditions.model, conditions.limits
        lo, hi, wrong = limits.around(source[None])
        self.wrong = bool(wrong)
        self.lo, self.hi = lo[0] - source, hi[0] - source  # of changes
        rivals = model.rivals(aim.k)
        slope = model.A if model.scaling is None else model.A / model.scaling.scale
        self.S = slope[rivals] - slope[aim.k]
        z = model.scores(source)
        self.margins = z[rivals] - z[aim.k]
        self.entropic = aim.prob is not None
        self.top = -(conditions.margin or 0.0) if aim.prob is None else math.log1p(-aim.prob) - math.log(aim.prob)
        terms = np.abs(source if model.scaling is None else model.scaling(source)) @ model.column_sizes + model.offset_size
        self.slack = NEAR * (1 + abs(self.top) + float(np.abs(self.margins).max()))
        self.slack += ROUNDINGS * model.coarse * EPS * sum(model.A.shape) * float(terms)
        self._list_items(limits.must_move(source[None], lo, hi)[0])
        strongest = np.argsort(-self.margins)[:RIVALS]
        mixed = [] if len(rivals) == 1 else [self._shares(self.margins)]
        self.proportions = [*np.eye(len(rivals))[strongest], *mixed]
        self._tables: dict[int, Floats] = {}

    def _list_items(self, must: Flags) -> None:
        """Singles first, then groups; those that can change."""
        conditions = self.conditions
        can = ~conditions.grouped & ((self.lo < self.hi) | must)
        self.singles = np.flatnonzero(can)
        self.options: list[tuple[int, Indices]] = []  # of each group: the value it has, those it could have
        groups, forced = [], []
        for group in conditions.limits.groups:
            lo, hi = self.lo[group] + self.source[group], self.hi[group] + self.source[group]
            one, zero = hi >= 1, lo <= 0
            open_ = one & (zero.sum() - zero == len(group) - 1)
            now = int(self.source[group].argmax())
            others = open_.copy()
            others[now] = False
            if others.any():
                groups.append(group)
                forced.append(not open_[now])
                self.options.append((int(group[now]), group[open_]))
        self.groups = groups
        self.must = np.append(must[self.singles], forced).astype(bool)

    @cached_property
    def items(self) -> list[Indices]:
        """The features of each item that can change."""
        return [np.array([d]) for d in self.singles] + self.groups

    @property
    def exact(self) -> bool:
        """Whether nothing but the classifier ties items together, and their largest gains are at values that they can have."""
        limits = self.conditions.limits
        return not len(limits.C) and not limits.uneven

    @property
    def cap(self) -> int:
        """How many items may change."""
        most = self.conditions.max_changes
        return len(self.must) if most is None else most

    # ---- sets ----

    def _shares(self, s: Floats) -> Floats:
        """The proportions that belong to margins."""
        if not self.entropic:
            return np.eye(len(s))[int(s.argmax())]
        e = np.exp(s - s.max())
        return e / e.sum()

    def need(self, r: Floats) -> float:
        """What the gains have to add up to."""
        positive = r[r > 0]
        return float(r @ self.margins) - (float(positive @ np.log(positive)) if self.entropic else 0.0) - self.top

    def largest(self, r: Floats, far: float = math.inf) -> Floats:
        """G(r) of every item; that of changes of up to ``far`` units of cost."""
        pull = -(r @ self.S)
        reach = far / self.conditions.per_unit
        lo, hi = np.maximum(self.lo, -reach)[self.singles], np.minimum(self.hi, reach)[self.singles]
        a = pull[self.singles]
        with np.errstate(invalid="ignore"):
            single = np.where(a > 0, a * hi, np.where(a < 0, a * lo, 0.0))
        grouped = [float(pull[options].max() - pull[now]) for now, options in self.options]
        return np.where(self.must, np.append(single, grouped), np.maximum(np.append(single, grouped), 0.0))

    def _total(self, G: Floats, allowed: Flags) -> tuple[float, Flags]:
        """The largest sum of the gains of as many of these items as may change, and which those are."""
        chosen = self.must.copy()
        room = self.cap - int(chosen.sum())
        rest = np.flatnonzero(allowed & ~self.must & (G > 0))
        if room < len(rest):
            rest = rest[np.argsort(-G[rest], kind="stable")[: max(room, 0)]]
        chosen[rest] = True
        return float(G[chosen].sum()), chosen

    def reach(self, allowed: Flags) -> bool | None:
        """Whether the goal can be reached if only these items change (and those that must); None where no closed form tells."""
        if self.wrong or int(self.must.sum()) > self.cap:
            return False
        for i, r in enumerate(self.proportions):
            if i not in self._tables:
                self._tables[i] = self.largest(r)
            total, _ = self._total(self._tables[i], allowed)
            if total < self.need(r) - self.slack:
                return False
        if not self.exact:
            return None
        if len(self.margins) == 1:
            total, _ = self._total(self._near, allowed)
            return True if total > self.need(self.proportions[0]) + self.slack else None
        return self._by_corners(allowed)

    @cached_property
    def _near(self) -> Floats:
        return self.largest(self.proportions[0], FAR)

    def _by_corners(self, allowed: Flags) -> bool | None:
        """The same for more than two classes: points where all have their largest gains, and the proportions there."""
        r = self.proportions[-1]
        for _ in range(CORNERS):
            G = self.largest(r)
            total, chosen = self._total(G, allowed)
            if total < self.need(r) - self.slack:
                self._keep(r)
                return False
            if not math.isfinite(total):
                return None
            s = self.margins + self.S @ self._corner(r, chosen)
            if self.loss(s) < -self.slack:
                return True
            r = self._shares(s) if self.entropic else 0.5 * (r + self._shares(s))
        return None

    def _keep(self, r: Floats) -> None:
        """Proportions that showed something will do so again."""
        if len(self.proportions) < MOST_PROPORTIONS:
            self.proportions.append(r)

    def _corner(self, r: Floats, chosen: Flags) -> Floats:
        """The change with the largest gains of these items."""
        pull, change = -(r @ self.S), np.zeros(len(self.source))
        d = self.singles[chosen[: len(self.singles)]]
        change[d] = np.where(pull[d] > 0, self.hi[d], np.where(pull[d] < 0, self.lo[d], np.clip(0.0, self.lo[d], self.hi[d])))
        for goes, (now, options) in zip(chosen[len(self.singles) :], self.options, strict=True):
            if goes:
                change[now] -= 1.0
                change[options[pull[options].argmax()]] += 1.0
        return change

    def loss(self, s: Floats) -> float:
        """How far margins are from the goal; at most 0 where it is reached."""
        top = float(s.max())
        return top + (math.log(float(np.exp(s - top).sum())) if self.entropic else 0.0) - self.top

    # ---- one item alone ----

    def alone(self) -> tuple[list[bool | None], Floats]:
        """Whether each item on its own can reach the goal, and a lower bound on what that costs; None where it is not known."""
        if not self.exact or self.must.any() or self.cap < 1:
            return [None] * len(self.must), np.zeros(len(self.must))
        ways = [self._one_way(sign) for sign in (1.0, -1.0)]
        known = [
            True if a or b else (False if a is False and b is False else None)
            for a, b in zip(*(w[0] for w in ways), strict=True)
        ]
        cost = np.minimum(ways[0][1], ways[1][1])
        for now, options in self.options:
            found, least = self._switch(now, options)
            known.append(found)
            cost = np.append(cost, least)
        return known, cost

    def _one_way(self, sign: float) -> tuple[list[bool | None], Floats]:
        """For single features that rise (or fall): whether that reaches the goal, and at which cost."""
        d, limits, c = self.singles, self.conditions.limits, self.conditions.per_unit
        slope, most = sign * self.S[:, d], (self.hi if sign > 0 else -self.lo)[d]
        u, state = np.zeros(len(d)), np.zeros(len(d), dtype=np.int8)  # 0: on the way, 1: there, 2: never
        for _ in range(STEPS):
            f, df = self._along(slope, u)
            state = np.where((state == 0) & (f <= 0.1 * self.slack), 1, state)
            state = np.where((state == 0) & ((df >= 0) | (u > most)), 2, state)
            going = state == 0
            if not going.any():
                break
            u = np.where(going, u - f / np.where(df < 0, df, -1.0), u)
        # On a grid the next point; else a little farther, beyond doubt.
        _, df = self._along(slope, u)
        at = u + 4 * self.slack / np.maximum(-df, EPS)
        step = np.where(limits.on_grid, limits.step, 0.0)[d]
        own = self.source[d]
        with np.errstate(divide="ignore", invalid="ignore"):
            ahead = sign * (np.ceil(sign * (own + sign * u) / step - NEAR) * sign * step - own)
        at, least = np.where(step > 0, ahead, at), np.where(step > 0, np.maximum(ahead - NEAR * step, 0.0), u)
        f, _ = self._along(slope, np.where(np.isfinite(at), at, 0.0))
        sure = (state == 1) & (at <= np.minimum(most, FAR / c[d])) & (f < -self.slack)
        never = (state == 2) | ((step > 0) & (state == 1) & ((at > most * (1 + NEAR)) | (f > self.slack)))
        known: list[bool | None] = [True if a else False if b else None for a, b in zip(sure, never, strict=True)]
        return known, np.where(never, np.inf, self._price(d, least))

    def _along(self, slope: Floats, u: Floats) -> tuple[Floats, Floats]:
        """F and its derivative for features that each change by u."""
        s = self.margins[:, None] + slope * u
        top = s.max(axis=0)
        if not self.entropic:
            return top - self.top, np.take_along_axis(slope, s.argmax(axis=0)[None], axis=0)[0]
        e = np.exp(s - top)
        total = e.sum(axis=0)
        return top + np.log(total) - self.top, (e * slope).sum(axis=0) / total

    def _price(self, d: Indices, u: Floats) -> Floats:
        t = self.conditions.per_unit[d] * u
        with np.errstate(over="ignore"):  # more than floats can tell
            return 0.5 * t * t + self.conditions.mu[d] * t

    def _switch(self, now: int, options: Indices) -> tuple[bool | None, float]:
        """For a group: whether one of its values reaches the goal, and at which cost."""
        known: bool | None = False
        least = math.inf
        for option in options[options != now].tolist():
            f = self.loss(self.margins + self.S[:, option] - self.S[:, now])
            if f <= self.slack:
                known = True if known or f < -self.slack else None
                both = np.array([now, option])
                Q = self.conditions.matrix
                tied = 0.0 if Q is None else float(Q[now, option])
                least = min(least, float(self._price(both, np.ones(2)).sum()) - tied)
        return known, least
