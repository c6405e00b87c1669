"""Problems with costs and limits, and what they are worth by the book.

A case is built from random numbers; those who check it see A, b, the scaler and the limits, never ifonly's own arithmetic.
Definitions: t_d = c_d(x_d − x̄_d), cost = ½‖t‖² + Σμ|t|; with ``lam`` the objective is (λ/2)‖t‖² + Σμ|t| − ln p.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ifonly import Actions, Cost, InputError, Model, Scaling, Status, invert

COSTS = ["none", "array", "mapping", "raw", "l1", "l1 each", "array, l1 each", "matrix", "matrix, l1"]
LIMITS = ["none", "frozen", "one side", "both sides", "one way", "outside", "<=", ">=", "==", "mixed"]


@dataclass
class Case:
    """One problem as plain arrays, and as ifonly takes it."""

    model: Model
    source: np.ndarray
    k: int
    lam: float | None
    prob: float | None
    cost: Cost | None
    actions: Actions | None
    slope: np.ndarray  # (K, D) of the logits, per unit of the user's
    Q: np.ndarray  # (D, D): ‖t‖² = (x − x̄)ᵀQ(x − x̄)
    weights: np.ndarray  # (D,): Σμ|t| = Σ weights |x − x̄|
    lo: np.ndarray
    hi: np.ndarray
    rules: list

    def solve(self, **more):
        return invert(
            self.model, self.source, self.k, lam=self.lam, prob=self.prob, cost=self.cost, actions=self.actions, **more
        )

    def loss(self, x):
        """−ln p_k at x."""
        z = self.model.logits(x)
        s = z - z[self.k]
        top = s.max()
        return top + np.log(np.exp(s - top).sum())

    def parts(self, x):
        """½‖t‖², Σμ|t| and −ln p_k at x."""
        change = x - self.source
        return 0.5 * change @ self.Q @ change, self.weights @ np.abs(change), self.loss(x)

    def value(self, x):
        """What is minimised."""
        square, sparse, loss = self.parts(x)
        return square + sparse if self.lam is None else self.lam * square + sparse + loss

    def assert_kept(self, x):
        """Every limit, to the last bit; an equation between features to 1e-12, since float64 has no exact solution of most."""
        fixed = self.lo == self.hi
        np.testing.assert_array_equal(x[fixed], self.lo[fixed])
        assert (x >= self.lo).all()
        assert (x <= self.hi).all()
        for row, sense, rest in self.rules:
            for order in (list(row), list(row)[::-1], sorted(row)):  # in whatever order the user adds
                value = sum(float(row[d] * x[d]) for d in order)
                size = sum(abs(float(row[d] * x[d])) for d in order) + abs(rest)
                assert {"<=": value <= rest, ">=": value >= rest, "==": abs(value - rest) <= 1e-12 * size}[sense]


def some(rng, D, share=0.3):
    """A few features, at least one."""
    return rng.choice(D, max(1, int(share * D)), replace=False)


def make(rng, cost="none", limits="none", K=3, wish="prob", D=None, scaled=None):
    """A random case of a kind."""
    D = int(rng.integers(2, 12)) if D is None else D
    size = 10.0 ** rng.uniform(-0.5, 0.5)
    A, b = rng.normal(size=(K, D)) * size, rng.normal(size=K)
    scaled = (cost == "raw" or rng.random() < 0.3) if scaled is None else scaled
    scaling = Scaling(rng.normal(size=D), np.exp(rng.normal(size=D))) if scaled else None
    names = [f"f{d}" for d in range(D)]
    model = Model(A, b, feature_names=names, scaling=scaling)
    source = rng.normal(size=D) if scaling is None else scaling.shift + scaling.scale * rng.normal(size=D)
    logits = model.logits(source)
    k = int(logits.argmin()) if rng.random() < 0.7 else int(rng.integers(K))
    unit = np.ones(D) if scaling is None else scaling.scale
    # the cost
    c, mu = 1 / unit, np.zeros(D)
    kwargs: dict[str, Any] = {}
    if "array" in cost:
        c = np.exp(rng.normal(size=D))
        kwargs["scale"] = c.copy()
    elif cost == "mapping":
        chosen = some(rng, D)
        c = c.copy()
        c[chosen] = np.exp(rng.normal(size=len(chosen)))
        kwargs["scale"] = {names[d] if rng.random() < 0.5 else int(d): float(c[d]) for d in chosen}
    elif cost == "raw":
        c, kwargs["scale"] = np.ones(D), "raw"
    if "l1" in cost:
        mu = np.full(D, 10.0 ** rng.uniform(-2, 0))
        kwargs["l1"] = float(mu[0])
    if "each" in cost:
        mu = np.where(rng.random(D) < 0.3, 0.0, 10.0 ** rng.uniform(-2, 0.5, size=D))
        kwargs["l1"] = mu.copy() if rng.random() < 0.5 else {names[d]: float(mu[d]) for d in range(D)}
    Q = np.diag(c**2)
    if "matrix" in cost:
        root = rng.normal(size=(D, D)) + 2 * np.eye(D)
        Q = root.T @ root / D
        Q = 0.5 * (Q + Q.T)
        kwargs["matrix"] = Q
    weights = mu * np.sqrt(np.diag(Q))
    # the limits
    lo, hi = np.full(D, -np.inf), np.full(D, np.inf)
    more: dict[str, Any] = {}
    rules: list = []
    bounds: dict = {}
    spread = unit * np.abs(rng.normal(size=D)) * 1.5
    if limits in ("frozen", "mixed"):
        more["frozen"] = [names[d] for d in some(rng, D)]
    if limits == "one side":
        for d in some(rng, D, 0.7):
            bounds[names[d]] = (None, source[d] + spread[d]) if rng.random() < 0.5 else (source[d] - spread[d], None)
    if limits in ("both sides", "mixed"):
        for d in range(D) if limits == "both sides" else some(rng, D, 0.5):
            bounds[names[d]] = (source[d] - spread[d], source[d] + 2 * spread[d])
    if limits in ("one way", "mixed"):
        way = rng.integers(3, size=D)
        more["increase"] = [names[d] for d in np.flatnonzero(way == 0)]
        more["decrease"] = [names[d] for d in np.flatnonzero(way == 1)]
    if limits == "outside":
        for d in some(rng, D, 0.6):
            low = source[d] + 0.2 * spread[d] if rng.random() < 0.5 else source[d] - 1.5 * spread[d]
            bounds[names[d]] = (low, low + spread[d])
    if limits in ("<=", ">=", "==", "mixed"):
        most = 2 if limits == "==" else 4
        for _ in range(int(rng.integers(1, min(most, max(D - 1, 1)) + 1))):
            of = some(rng, D, 0.5)
            row = {names[d]: float(rng.normal() / unit[d]) for d in of}
            now = sum(v * source[int(key[1:])] for key, v in row.items())
            sense = limits if limits != "mixed" else str(rng.choice(["<=", ">="]))
            away = {"<=": 1, ">=": -1, "==": rng.choice([-1, 1])}[sense] * rng.uniform(-0.3 if limits != "mixed" else 0.0, 0.8)
            rules.append((row, sense, float(now + away)))
    if bounds:
        more["bounds"] = bounds
    if rules:
        more["linear"] = rules
    for key, (low, high) in bounds.items():
        d = int(key[1:])
        lo[d], hi[d] = -np.inf if low is None else low, np.inf if high is None else high
    for name in more.get("increase", ()):
        lo[int(name[1:])] = max(lo[int(name[1:])], source[int(name[1:])])
    for name in more.get("decrease", ()):
        hi[int(name[1:])] = min(hi[int(name[1:])], source[int(name[1:])])
    for name in more.get("frozen", ()):
        lo[int(name[1:])] = hi[int(name[1:])] = source[int(name[1:])]
    lam = 10.0 ** rng.uniform(-4, 2) if wish == "lam" else None
    prob = float(rng.choice([0.5, 0.6, 0.9, 0.99, 0.999])) if wish == "prob" else None
    return Case(
        model, source, k, lam, prob,
        Cost(**kwargs) if kwargs or cost != "none" else None,
        Actions(**more) if limits != "none" else None,
        A / unit, Q, weights, lo, hi,
        [({int(key[1:]): v for key, v in row.items()}, sense, rest) for row, sense, rest in rules],
    )  # fmt: skip


def sound(case, cf):
    """What every answer owes: the limits to the last bit, a certificate that can be recomputed, the probability."""
    case.assert_kept(cf.x)
    cf.verify()
    assert np.isfinite([cf.distance, cf.cost, cf.objective, cf.gap]).all()
    if cf.prob is not None and cf.status is not Status.UNREACHABLE:
        assert cf.model.predict_proba(cf.x)[case.k] >= cf.prob
        if cf.prob >= 0.5:
            assert cf.model.predict(cf.x) == cf.target
    return cf


def attempt(case):
    """The answer, or None where the limits contradict each other."""
    try:
        return case.solve()
    except InputError as error:
        if "contradict" not in str(error):
            raise
        return None
