"""Two classes: a lower bound on what the plans cost that change no more than they have to.

With the gains G_i of `gains`, a set T of items reaches the goal if Σ_{i∈T} G_i ≥ need, and no smaller part of it does if
Σ_{T∖i} G < need for every i in it: it is a minimal cover of a knapsack. For any multiplier w ≥ 0 of the goal

    cost(T) ≥ w·need − Σ_{i∈T} σ_i(w),        σ_i(w) = max over item i's changes of w·gain_i − cost_i ≥ 0.

Many small changes are cheap, and without more this bound takes all of them. But T is a minimal cover. Let it contain I, and be
contained in I ∪ W, and let R = need − Σ_I G. Without its smallest item T∖I weighs less than R, so that its σ add up to at most

    the largest σ in W  +  the fractional knapsack of W with capacity R,

and it has at most one item more than the lightest of W that weigh less than R together. The smaller of the two bounds holds.
What is in I moves, by a step at least or to another value, and each item of T gains something: σ_i is taken over such changes.
"""

import math

import numpy as np

from ifonly.engines.gains import Gains, price
from ifonly.model.numerics import Flags, Floats

__all__ = ["Covers"]


ROUNDS, TRIALS = 4, 12  # of the search for w: each round looks between the neighbours of the best so far
WIDE = 1e4  # the factor by which the first w may be wrong


class Covers:
    """The bound for one source; of `Gains` with two classes, no rules and no matrix."""

    def __init__(self, gains: Gains) -> None:
        self.gains = gains
        conditions, (r,) = gains.conditions, gains.proportions
        c, d, limits = conditions.per_unit, gains.singles, conditions.limits
        pull = -(r @ gains.S)
        self.G, self.need = gains.largest(r), gains.need(r)
        self.g, self.mu = pull[d] / c[d], conditions.mu[d]
        self.lo, self.hi = gains.lo[d] * c[d], gains.hi[d] * c[d]
        self.least = np.where(limits.on_grid[d] & ~gains.must[: len(d)], limits.step[d] * c[d], 0.0)
        one, self.options = price(conditions, np.ones(len(c))), []
        for must, (now, options) in zip(gains.must[len(d) :], gains.options, strict=True):
            gain, cost = pull[options] - pull[now], np.where(options == now, 0.0, one[options] + one[now])
            self.options.append((gain, cost, must | (gain > 0)))
        self.start = max(self.need, 0.0) / max(float(self.g @ self.g), 1e-300) or 1.0

    def _saved(self, w: Floats, *, moved: bool = False) -> Floats:
        """σ, for several w at once: (len(w), items); of those that are ``moved``, by changes that gain, or that have to be."""
        pull = w[:, None] * self.g
        u = np.maximum(np.abs(pull) - self.mu, self.least if moved else 0.0)
        t = np.clip(np.sign(pull) * u, self.lo, self.hi)
        columns = [pull * t - 0.5 * t * t - self.mu * np.abs(t)]
        for gain, cost, gains in self.options:
            saved = np.where(gains | (not moved), w[:, None] * gain - cost, -np.inf)
            columns.append(saved.max(axis=1)[:, None])
        return np.hstack(columns)

    def saved(self, w: float | None) -> list[float]:
        """σ of every item."""
        return self._saved(np.array([w or self.start]))[0].tolist()

    def floor(self, inside: Flags, open_: Flags, start: float | None = None) -> tuple[float, float]:
        """A lower bound for all T that contain ``inside`` and else only what is ``open_``, and the w that gives it.

        Items that must change are in every T. Infinite where there is no such T.
        """
        gains = self.gains
        inside = inside | gains.must
        open_ = open_ & ~inside & (self.G > 0)
        room = gains.cap - int(inside.sum())
        R = self.need + gains.slack - float(self.G[inside].sum())
        if room < 0 or float(self.G[inside | open_].sum()) < self.need - gains.slack:
            return math.inf, 0.0
        weights = np.sort(self.G[open_])
        most = min(room, 1 + int(np.searchsorted(np.cumsum(weights), R))) if R > 0 else 0
        w0, spread = start or self.start, WIDE if start is None else 4.0
        best, at = -math.inf, w0
        for _ in range(ROUNDS):
            w = at * np.geomspace(1 / spread, spread, TRIALS)
            value = self._values(w, inside, open_, R, most)
            i = int(value.argmax())
            if value[i] > best:
                best, at = float(value[i]), float(w[i])
            spread = spread ** (2 / (TRIALS - 1))
        return max(best, 0.0), at

    def _values(self, w: Floats, inside: Flags, open_: Flags, R: float, most: int) -> Floats:
        """The bound for several w."""
        saved = self._saved(w)
        base = w * (self.need - self.gains.slack) - self._saved(w, moved=True)[:, inside].sum(axis=1)
        some, weights = saved[:, open_], self.G[open_]
        if most == 0 or not some.shape[1]:
            return base
        by_count = np.sort(some, axis=1)[:, ::-1][:, :most].sum(axis=1)
        order = np.argsort(-some / weights, axis=1, kind="stable")
        some, weights = np.take_along_axis(some, order, axis=1), weights[order]
        with np.errstate(invalid="ignore"):
            before = np.cumsum(weights, axis=1) - weights
            share = np.clip((R - before) / weights, 0.0, 1.0)
        by_weight = (some * np.where(np.isfinite(weights), share, 0.0)).sum(axis=1) + some.max(axis=1)
        return base - np.minimum(by_count, by_weight)
