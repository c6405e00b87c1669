"""Random problems without limits, by name the kinds that are hard: ``make(family, number, seed)`` is always the same one."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np

import ifonly

__all__ = ["FAMILIES", "Problem", "make"]

PROBS = (0.05, 0.3, 0.5, 0.6, 0.8, 0.9, 0.99, 0.9999, 1 - 1e-6, 1 - 1e-9)
EXTREME = (1e-12, 1e-300, 1e-6, 0.5, 0.5 + 2**-52, 1 - 1e-12, 1 - 1e-15, 1 - 2**-53)
SINGLE = float(np.finfo(np.float32).eps)
ROWS = 20  # of a table: more than are solved one by one
Rng = np.random.Generator


@dataclass(frozen=True)
class Problem:
    """What is asked of the library.

    Attributes
    ----------
    model : Model or estimator
    x : array
        One source, or a table of them.
    target : label, labels of the rows, None, a set or "all"
    goal, want
        "lam", "prob" or "margin", and the number (or one for each row); "path" and several λ.
    options : dict
        For `ifonly.invert`.
    own : callable
        The user's own way from rows (N, D) to probabilities (N, K), beside the library's.

    """

    model: Any
    x: Any
    target: Any
    goal: str
    want: Any
    options: dict[str, Any] = field(default_factory=dict)
    own: Callable[[Any], Any] | None = None
    name: str = ""

    def ask(self) -> list[ifonly.Counterfactual]:
        """What the library answers, one answer for each row (or λ)."""
        if self.goal == "path":
            return list(ifonly.path(self.model, self.x, self.target, lams=self.want, **self.options))
        found = ifonly.invert(self.model, self.x, self.target, **{self.goal: self.want}, **self.options)
        return [found] if isinstance(found, ifonly.Counterfactual) else list(found)


def make(family: str, number: int, seed: int = 0) -> Problem:
    """A problem of a family."""
    rng = np.random.default_rng([seed, number, crc32(family.encode())])
    return replace(FAMILIES[family](rng), name=f"{family} {number}" if seed == 0 else f"{family} {number} (seed {seed})")


# ---- pieces ----


def log_uniform(rng: Rng, low: float, high: float) -> float:
    """10 to a power between these."""
    return float(10 ** rng.uniform(low, high))


def weights(rng: Rng, K: int, D: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, b and a source."""
    A, b = rng.normal(size=(K, D)) * log_uniform(rng, -1, 0.5), rng.normal(size=K)
    if rng.random() < 0.15:
        A = np.rint(2 * A) / 2 + 0.0
    return A, b, rng.normal(size=D) * 2


def goal(rng: Rng) -> tuple[str, float]:
    """λ or a probability."""
    if rng.random() < 0.4:
        return "lam", log_uniform(rng, -4, 2)
    return "prob", float(rng.choice(PROBS)) if rng.random() < 0.6 else float(rng.uniform(0.01, 0.99))


def asked(rng: Rng, A: np.ndarray, b: np.ndarray, x: np.ndarray, **more: Any) -> Problem:
    """A problem with a model of these."""
    name, want = goal(rng)
    return replace(Problem(ifonly.Model(A, b), x, int(rng.integers(len(b))), name, want), **more)


# ---- families ----


def plain(rng: Rng) -> Problem:
    """Nothing in particular."""
    return asked(rng, *weights(rng, int(rng.integers(3, 8)), int(rng.integers(1, 9))))


def two_classes(rng: Rng) -> Problem:
    """K = 2, as two rows or as one."""
    A, b, x = weights(rng, 2, int(rng.integers(1, 9)))
    if rng.random() < 0.5:
        return asked(rng, A, b, x)
    return asked(rng, A, b, x, model=ifonly.Model.binary(A[1], float(b[1])))


def one_feature(rng: Rng) -> Problem:
    """D = 1."""
    return asked(rng, *weights(rng, int(rng.integers(2, 7)), 1))


def many_classes(rng: Rng) -> Problem:
    """More classes than features."""
    return asked(rng, *weights(rng, int(rng.choice([20, 60])), int(rng.integers(2, 7))))


def decades(rng: Rng) -> Problem:
    """Weights, sources and λ of very different sizes, features in units of their own, logits up to a million apart."""
    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    A, x = A * log_uniform(rng, -8, 8), x * log_uniform(rng, -8, 8)
    if rng.random() < 0.3:
        units = 10 ** rng.uniform(-4, 4, size=len(x))
        A, x = A * units, x / units
    b = b * log_uniform(rng, -3, 3)
    gap = np.ptp(A @ x + b)
    if gap > 1e6:
        x = x * (log_uniform(rng, 0, 6) / gap)
    size = np.linalg.norm(A) if rng.random() < 0.5 else 1.0
    name, want = goal(rng)
    return asked(rng, A, b, x, goal=name, want=want if name == "prob" else (size or 1.0) ** 2 * log_uniform(rng, -8, 8))


def wide(rng: Rng) -> Problem:
    """Many features in units of their own, and rows that are all but the same: a basis of all changes mixes the units."""
    K = int(rng.integers(3, 6))
    A, b, x = weights(rng, K, int(rng.integers(8 * K + 1, 12 * K)))
    A[1] = A[0] * (1 + rng.normal(size=len(x)) * log_uniform(rng, -12, -2))
    units = 10 ** rng.uniform(-4, 4, size=len(x))
    A, x = A * units, x / units * log_uniform(rng, -4, 4)
    return asked(rng, A, b, x * min(1.0, 1e6 / np.ptp(A @ x + b)))


def common_part(rng: Rng) -> Problem:
    """Rows with a large vector in common, which changes no probability."""
    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    A = A + rng.normal(size=len(x)) * log_uniform(rng, 2, 12)
    if rng.random() < 0.2:
        b = b + log_uniform(rng, 2, 9)
    return asked(rng, A, b, x)


def close_rows(rng: Rng) -> Problem:
    """Rows that are all but the same: some of them, or all."""
    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    near = A[0] * (1 + rng.normal(size=A.shape) * log_uniform(rng, -15, -6))
    some = rng.random(len(b)) < rng.choice([0.5, 1.0])
    A[some] = near[some]
    b = b * log_uniform(rng, -6, 0) if rng.random() < 0.5 else b
    return asked(rng, A, b, x)


def between(rng: Rng) -> Problem:
    """The target's row lies all but between those of its rivals: their pulls all but cancel."""
    A, b, x = weights(rng, int(rng.integers(3, 6)), int(rng.integers(2, 7)))
    k = int(rng.integers(len(b)))
    share = rng.dirichlet(np.ones(len(b) - 1))
    A[k] = share @ np.delete(A, k, axis=0) + rng.normal(size=len(x)) * log_uniform(rng, -6, -1)
    return asked(rng, A, b, x, target=k)


def weak(rng: Rng) -> Problem:
    """The same to twelve digits, with features in units of their own: what is reached at all is reached far away."""
    A, b, x = weights(rng, int(rng.integers(3, 6)), int(rng.integers(2, 7)))
    k = int(rng.integers(len(b)))
    share = rng.dirichlet(np.ones(len(b) - 1))
    A[k] = share @ np.delete(A, k, axis=0) + rng.normal(size=len(x)) * log_uniform(rng, -12, -4)
    units = 10 ** rng.uniform(-3, 3, size=len(x)) if rng.random() < 0.7 else 1.0
    A, x = A * units, x / units
    name, want = goal(rng)
    want = want if name == "prob" else float(np.linalg.norm(A)) ** 2 * log_uniform(rng, -22, 0)
    return asked(rng, A, b, x, target=k, goal=name, want=want)


def repeated_rows(rng: Rng) -> Problem:
    """Rows that are there twice, or nothing but zeros."""
    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 6)))
    i, j = rng.integers(len(b), size=2)
    A[i] = A[j]
    if rng.random() < 0.3:
        b[i] = b[j]
    A[rng.random(len(b)) < 0.3] = 0.0
    if rng.random() < 0.2:
        b = b * log_uniform(rng, 1, 4)
    return asked(rng, A, b, x)


def extreme_prob(rng: Rng) -> Problem:
    """Probabilities near 0 and near 1."""
    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    return asked(rng, A, b, x, goal="prob", want=float(rng.choice(EXTREME)))


def reached(rng: Rng) -> Problem:
    """What is asked for is there already, or all but."""
    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    if rng.random() < 0.3:
        A = A + rng.normal(size=len(x)) * log_uniform(rng, 2, 8)
    model, k = ifonly.Model(A, b), int(rng.integers(len(b)))
    p = float(model.predict_proba(x)[k])
    off = float(rng.choice([0.0, 1.0, -1.0, 4.0, -4.0])) * 2.0**-53 if rng.random() < 0.5 else rng.normal() * 1e-12
    return asked(rng, A, b, x, target=k, goal="prob", want=min(max(p * (1 + off), 1e-300), 1 - 2**-53))


def any_class(rng: Rng) -> Problem:
    """The nearest other class, or any of a set."""
    K = int(rng.integers(3, 6))
    A, b, x = weights(rng, K, int(rng.integers(1, 6)))
    if rng.random() < 0.3:
        A = A + rng.normal(size=len(x)) * log_uniform(rng, 2, 8)
    target = None if rng.random() < 0.5 else {int(k) for k in rng.choice(K, size=2, replace=False)}
    return asked(rng, A, b, x, target=target)


def along_lam(rng: Rng) -> Problem:
    """Several λ."""
    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    if rng.random() < 0.3:
        A = A + rng.normal(size=len(x)) * log_uniform(rng, 2, 8)
    return asked(rng, A, b, x, goal="path", want=np.geomspace(log_uniform(rng, -1, 3), log_uniform(rng, -6, -2), 5))


def table(rng: Rng) -> Problem:
    """Many rows, side by side."""
    K, D = int(rng.integers(2, 6)), int(rng.integers(1, 7))
    A, b, _ = weights(rng, K, D)
    kind = rng.random()
    if kind < 0.2:
        A = A + rng.normal(size=D) * log_uniform(rng, 2, 12)
    elif kind < 0.35:
        A[0] = A[-1] * (1 + rng.normal(size=D) * log_uniform(rng, -15, -6))
    elif kind < 0.45:
        A = A * log_uniform(rng, -6, 6)
    elif kind < 0.6:
        A[0] = A[1:].mean(axis=0) + rng.normal(size=D) * log_uniform(rng, -6, -1)
    X = rng.normal(size=(ROWS, D)) * log_uniform(rng, -1, 1) / (np.abs(A).max() or 1.0) ** 0.5
    name, want = goal(rng)
    wants = np.array([goal_of(rng, name) for _ in X]) if rng.random() < 0.5 else want
    target = None if rng.random() < 0.2 else rng.integers(K, size=ROWS)
    options = {"backend": str(rng.choice(["auto", "reference", "cpu"]))}
    return Problem(ifonly.Model(A, b), X, target, name, wants, options)


def every_lam(rng: Rng) -> Problem:
    """λ over sixteen decades, to the last digit or to a tolerance, perhaps from a start."""
    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    options: dict[str, Any] = {"backend": str(rng.choice(["auto", "reference", "cpu"]))}
    if rng.random() < 0.4:
        options["tol"] = log_uniform(rng, -9, -3)
    if rng.random() < 0.4:
        options["start"] = "source" if rng.random() < 0.5 else x + rng.normal(size=len(x))
    return asked(rng, A, b, x, goal="lam", want=log_uniform(rng, -8, 8), options=options)


def tails(rng: Rng) -> Problem:
    """Probabilities next to 0 and 1, and sources whose probability of the target underflows."""
    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    b = b * log_uniform(rng, 0, 6)
    tail = log_uniform(rng, -14, -0.31)
    return asked(rng, A, b, x, goal="prob", want=tail if rng.random() < 0.4 else 1 - tail)


def more_classes(rng: Rng) -> Problem:
    """Up to 40 classes, some rows there twice or nothing but zeros; now and then some hundred classes."""
    K, D = int(rng.integers(6, 41)), int(rng.integers(1, 21))
    if rng.random() < 0.04:
        K, D = int(rng.choice([300, 400, 450])), int(rng.integers(2, 13))
    A, b, x = weights(rng, K, D)
    if rng.random() < 0.3:
        A[rng.random(K) < 0.2] = A[0] if rng.random() < 0.5 else 0.0
    return asked(rng, A, b, x, target=None if rng.random() < 0.03 else int(rng.integers(K)))


LAYOUTS: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda X: X,
    lambda X: X.tolist(),
    np.asfortranarray,
    lambda X: np.repeat(X, 2, axis=-1)[..., ::2],
    lambda X: X[..., ::-1].copy()[..., ::-1],
    lambda X: np.repeat(X, 3, axis=0)[::3] if X.ndim > 1 else np.lib.stride_tricks.as_strided(X.copy(), writeable=False),
    lambda X: X.astype(X.dtype.newbyteorder(">")),
)


def as_given(rng: Rng) -> Problem:
    """Arrays of any type and layout, of which none may be written to."""
    A, b, _ = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    n_rows = int(rng.choice([0, 1, 2, 5, 30]))
    X = rng.normal(size=(n_rows, A.shape[1]) if n_rows else A.shape[1]) * log_uniform(rng, -1, 1)

    def given(v: np.ndarray) -> Any:
        dtype = rng.choice(["float64", "float32", "float16", "int64", "int8"])
        v = (np.rint(3 * v) if "int" in dtype else v).astype(dtype)
        v = LAYOUTS[int(rng.integers(len(LAYOUTS)))](v)
        if isinstance(v, np.ndarray):
            v.flags.writeable = False
        return v

    problem = asked(rng, A, b, given(X), model=ifonly.Model(given(A), given(b)))
    options = {"backend": str(rng.choice(["auto", "reference", "cpu"]))}
    return replace(problem, options=options, target=rng.integers(len(b), size=n_rows) if n_rows else problem.target)


def all_classes(rng: Rng) -> Problem:
    """Every class in turn, for a source or a table."""
    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    return asked(rng, A, b, x if rng.random() < 0.5 else rng.normal(size=(4, len(x))), target="all")


def by_margin(rng: Rng) -> Problem:
    """So far ahead of every other score."""
    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    kind = rng.random()
    if kind < 0.15:
        A = A + rng.normal(size=len(x)) * log_uniform(rng, 2, 8)
    elif kind < 0.3:
        A[0] = A[-1]
    elif kind < 0.45:
        A, x = A * log_uniform(rng, -5, 5), x * log_uniform(rng, -5, 5)
    return asked(rng, A, b, x, goal="margin", want=0.0 if rng.random() < 0.2 else log_uniform(rng, -4, 2))


def goal_of(rng: Rng, name: str) -> float:
    """A number for a goal of this kind."""
    while True:
        kind, want = goal(rng)
        if kind == name:
            return want


# ---- estimators ----


def single(rng: Rng) -> Problem:
    """A model whose estimator computes in single precision, as NumPy would."""
    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    A, b, x = (v.astype(np.float32) for v in (A, b, x))
    if rng.random() < 0.2:
        A = (A + rng.normal(size=len(x)) * log_uniform(rng, 0, 3)).astype(np.float32)

    def own(X: Any) -> Any:
        z = np.asarray(X, dtype=np.float32) @ A.T + b
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    if rng.random() < 0.4:
        return asked(rng, A, b, x)  # a model of weights in single precision, computed in double
    return asked(rng, A, b, x, model=ifonly.Model(A, b, precision=SINGLE), own=own)


def torch_module(rng: Rng) -> Problem:
    """A layer of PyTorch."""
    import torch

    A, b, x = weights(rng, int(rng.integers(2, 6)), int(rng.integers(1, 7)))
    layer = torch.nn.Linear(*A.shape[::-1])
    with torch.no_grad():
        layer.weight[...], layer.bias[...] = torch.tensor(A), torch.tensor(b)

    def own(X: Any) -> Any:
        with torch.no_grad():
            return torch.softmax(layer(torch.as_tensor(X, dtype=torch.float32)), dim=1).numpy()

    row = torch.tensor(x, dtype=torch.float32) if rng.random() < 0.5 else x
    return replace(asked(rng, A, b, x), model=layer, x=row, own=own)


@cache
def _fitted(scaler: str, number: int, dtype: str) -> tuple[Any, np.ndarray]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import ComplementNB, MultinomialNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, PowerTransformer, StandardScaler

    rng = np.random.default_rng([number, crc32(scaler.encode())])
    K, D = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    centres, N = rng.normal(size=(K, D)), 60
    y = np.arange(N) % K
    X = (centres[y] + rng.normal(size=(N, D))) * 10 ** rng.uniform(-1, 1, size=D) + rng.normal(size=D) * log_uniform(rng, -1, 3)
    if number % 2 and scaler == "power":
        X = np.exp(X / np.abs(X).max(axis=0) * 3)
    if scaler == "counts":
        X = rng.poisson(np.exp(centres[y]) * log_uniform(rng, -0.5, 2)).astype(float)
        return (MultinomialNB() if number % 2 else ComplementNB()).fit(X, y), X
    X = X.astype(dtype)
    if scaler == "discriminant":
        X = np.column_stack([X, X[:, 0] + X[:, -1]]) if number % 2 else X  # one that depends on others
        return LinearDiscriminantAnalysis().fit(X, y), X
    steps = {"none": [], "standard": [StandardScaler()], "minmax": [MinMaxScaler()], "power": [PowerTransformer()]}[scaler]
    return make_pipeline(*steps, LogisticRegression(C=10.0 ** rng.uniform(-2, 2), max_iter=1000)).fit(X, y), X


def estimator(rng: Rng) -> Problem:
    """An estimator of scikit-learn, perhaps behind a scaler and fitted in single precision."""
    import warnings

    dtype = str(rng.choice(["float32", "float64"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = str(rng.choice(["none", "standard", "minmax", "power", "counts", "discriminant"]))
        fitted, X = _fitted(kind, int(rng.integers(8)), dtype)
    x = X[int(rng.integers(len(X)))]
    x = (x * (1 + 0.1 * rng.normal(size=len(x)))).astype(rng.choice([dtype, "float64"]))
    name, want = goal(rng)
    target = int(rng.integers(len(fitted.classes_)))
    if rng.random() < 0.2:
        name, want = "prob", float(fitted.predict_proba(x[None].astype(np.float64))[0, target])
    return Problem(fitted, x, target, name, min(max(want, 1e-12), 1 - 1e-12), own=fitted.predict_proba)


FAMILIES: dict[str, Callable[[Rng], Problem]] = {
    "plain": plain,
    "two classes": two_classes,
    "one feature": one_feature,
    "many classes": many_classes,
    "decades": decades,
    "wide": wide,
    "common part": common_part,
    "close rows": close_rows,
    "between": between,
    "weak": weak,
    "repeated rows": repeated_rows,
    "extreme prob": extreme_prob,
    "reached": reached,
    "any class": any_class,
    "along lam": along_lam,
    "table": table,
    "every lam": every_lam,
    "tails": tails,
    "more classes": more_classes,
    "as given": as_given,
    "all classes": all_classes,
    "by margin": by_margin,
    "single": single,
    "torch": torch_module,
    "estimator": estimator,
}
