"""The loop of intervals.hpp as an array program, one row after the other: what the compiled one is compared with."""

import numpy as np

from ifonly.engines.limited import SPARES
from ifonly.model.numerics import EPS
from ifonly.native.intervals import COLUMNS, INVALID, LEFT, REACHED, UNREACHABLE, Reached
from ifonly.problem.goals import coarser

MAX_STEPS = 100  # of the search for w
SETTLED = 4e-16  # relative: a step of w below it is none


def reach(box, X, targets, logits, probs):
    """As `intervals.reach`."""
    found = Reached(np.empty(X.shape), np.full(len(X), LEFT, dtype=np.int8), np.full((len(X), len(COLUMNS)), np.nan))
    with np.errstate(all="ignore"):
        for n, source in enumerate(X):
            row = Row(box, source, logits[n], probs[n])
            found.ended[n] = row.solve(targets[n])
            found.numbers[n] = [row.numbers.get(name, np.nan) for name in COLUMNS]
            if found.ended[n] in (REACHED, UNREACHABLE):
                found.x[n] = row.x
    return found


class Row:
    """One source."""

    def __init__(self, box, source, logit, prob):
        self.source, self.logit, self.prob, self.hard = source, logit, prob, box.hard
        self.A, self.g = box.features[:2], box.features[2:4]
        self.shift, self.scale, self.sizes, self.c, self.mu, self.least, self.most, rises, falls = box.features[4:]
        self.rises, self.falls = rises != 0, falls != 0
        self.b, (self.length, self.offset, self.per_term, self.per_size, logs) = box.shared[:2], box.shared[2:]
        self.times = coarser(prob, logs)
        self.numbers = {}

    def solve(self, target):
        own = self.source
        z, terms = self.scores(own)
        self.lo = np.where(self.rises, np.maximum(self.least, own), self.least)
        self.hi = np.where(self.falls, np.minimum(self.most, own), self.most)
        self.first = np.where(self.lo > own, self.lo, np.where(self.hi < own, self.hi, own))
        away = np.abs(self.first - own) * self.c
        if not (np.isfinite(z).all() and np.isfinite(terms)) or (self.lo > self.hi).any() or not np.isfinite(away @ away):
            return INVALID
        self.down, self.up, self.pull = (self.lo - self.first) * self.c, (self.hi - self.first) * self.c, self.mu + away
        self.k = k = int(target) if target >= 0 else int(z[0] >= z[1])
        self.numbers["target"] = k
        ended = self.searched()
        claims = [self.numbers.get(name, np.nan) for name in ("cost", "gap", "objective")]
        return ended if np.isfinite(claims).all() else LEFT

    def searched(self):
        g = self.g[self.k]
        margin, terms = self.at(self.first)
        rounding = self.rounding(terms, margin)
        if margin <= self.logit - self.times * rounding:
            self.x = self.first
            self.judge(margin, np.float64(0.0), rounding)
            return REACHED
        for spare in SPARES:
            w, top, met = self.multiplier(margin - self.logit + (1 + spare) * self.times * rounding, g)
            if met == LEFT:
                return LEFT
            u = self.step(w, g)
            inside = np.minimum(np.maximum(self.first + u / self.c, self.lo), self.hi) + 0.0
            at_end = np.where(u == self.down, self.lo, np.where(u == self.up, self.hi, inside))
            self.x = np.where(u == 0.0, self.first, at_end)
            now, terms = self.at(self.x)
            rounding = self.rounding(terms, margin)
            if met == UNREACHABLE:
                if now <= self.logit if self.hard else np.exp(-np.logaddexp(0.0, now)) >= self.prob:
                    return LEFT
                self.judge(now, w, rounding)
                cost = self.numbers["cost"]
                objective = cost if self.hard else cost / w + np.logaddexp(0.0, now)
                best = 1 / (1 + np.exp(min(margin - top - rounding, 700.0)))
                self.numbers |= {"lam": 1 / w, "w": 0.0, "grad_norm": 0.0, "bound": cost, "gap": 0.0}
                self.numbers |= {"objective": objective, "best": best}
                return UNREACHABLE
            if now <= self.logit - self.times * rounding:
                self.judge(now, w, rounding)
                return REACHED
        return LEFT

    def scores(self, x):
        seen = (x - self.shift) / self.scale
        return self.A @ seen + self.b, self.sizes @ np.abs(seen)

    def at(self, x):
        z, terms = self.scores(x)
        return z[1 - self.k] - z[self.k], terms

    def rounding(self, terms, margin):
        return self.per_term * (terms + self.offset) + self.per_size * abs(margin)

    def step(self, w, g):
        pulled, m = w * g, self.pull
        u = np.where(pulled > m, pulled - m, np.where(pulled < -m, pulled + m, 0.0))
        return np.minimum(np.maximum(u, self.down), self.up)

    def multiplier(self, need, g):
        counts, end = g != 0.0, np.where(g > 0.0, self.up, self.down)
        top = np.where(counts, g * end, 0.0).sum()
        if top < need:
            far = ((np.abs(end) + self.pull) / np.abs(g))[counts & np.isfinite(end)]
            return 2.0 * np.max(far, initial=1.0), top, UNREACHABLE
        a, b, w = np.float64(0.0), np.float64(np.inf), need / np.square(g)[counts & (end != 0.0)].sum()
        for _ in range(MAX_STEPS):
            u = self.step(w, g)
            gain, slope = (g * u).sum(), np.square(g)[(u != 0.0) & (self.down < u) & (u < self.up)].sum()
            a, b = (a, w) if gain >= need else (w, b)
            along = (need - gain) / slope if slope > 0.0 else np.inf
            if abs(along) <= SETTLED * w:
                return w, top, REACHED
            w = w + along
            if not a < w < b:
                w = 2.0 * a if np.isinf(b) else 0.5 * (a + b)
                if not a < w < b:
                    return b, top, LEFT if np.isinf(b) else REACHED
        return w, top, LEFT

    def judge(self, now, w, rounding):
        loss, others, hard = np.logaddexp(0.0, now), np.exp(-np.logaddexp(0.0, -now)), self.hard
        lam, force = (np.float64(1.0), w) if hard else (others / w, others)
        t = (self.x - self.source) * self.c
        square = t @ t
        cost, distance = 0.5 * square + self.mu @ np.abs(t), np.sqrt(square)
        self.numbers |= {"p_target": np.exp(-loss), "p_rival": others, "distance": distance, "cost": cost, "w": w, "best": 1.0}
        if w == 0.0:
            claims = {"lam": np.inf, "objective": cost if hard else loss, "grad_norm": 0.0, "bound": cost, "gap": 0.0}
            self.numbers |= claims
            return
        base, soft = lam * t - force * self.g[self.k], lam * self.mu
        least, most = np.where(t <= 0.0, base - soft, base + soft), np.where(t >= 0.0, base + soft, base - soft)
        up, down = (least > 0.0) & (self.x > self.lo), (most < 0.0) & (self.x < self.hi)
        xi, own = np.where(up, least, np.where(down, most, 0.0)), self.c * self.source
        norm = np.sqrt(xi @ xi) + 4 * EPS * lam * (distance + np.sqrt(own @ own))
        if hard:
            excess = w * (max(self.logit - now, 0.0) + rounding)
        else:
            norm += others * self.length * (2 * rounding + 10 * EPS)
            excess = max(-loss - np.log(self.prob), 0.0) + others * rounding + 4 * EPS * (loss - np.log(self.prob))
        gap = min((norm * norm / (2 * lam) + excess) / lam, cost)
        self.numbers |= {"lam": lam, "objective": cost if hard else lam * cost + loss, "grad_norm": norm}
        self.numbers |= {"bound": cost - gap, "gap": gap}
