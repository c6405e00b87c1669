"""``python benchmarks/classes.py``: very many classes, on one core, against the floor and against Newton's matrix whole.

The ImageNet head (K = 1000, D = 1280) is read from ../shared/data/deep, and made of random numbers of that shape where that is
not there. Each source goes to its farthest class. Nothing is asserted; a markdown table goes to stdout, with the rounds that
were taken and ρ, the share of the error that a round leaves before steps are combined (docs/math.md).
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import problems
from report import table
from timing import Contender, blas_threads, machine, medians

import ifonly
from ifonly.api import _invert_one
from ifonly.engines.class_space import ClassProblem
from ifonly.engines.coordinates import Rivals
from ifonly.engines.few_and_rest import FEW
from ifonly.engines.follow import follow
from ifonly.engines.newton import minimise
from ifonly.rows.sources import Sources

N = 10  # problems of a call
LAM, PROB, LAMS = 0.01, 0.9, np.geomspace(1e3, 1e-5, 100)
POWER_STEPS = 20  # to two digits
ONE = {"start": None, "tol": None, "max_iter": 100, "kernel": None, "among": None}


def head() -> tuple[str, ifonly.Model, np.ndarray]:
    """Name, model and sources."""
    path = problems.HERE.parents[1] / "shared" / "data" / "deep" / "imagenet-head.npz"
    if path.exists():
        data = np.load(path)
        return "ImageNet head", ifonly.Model(data["A"].astype(float), data["b"].astype(float)), data["X"][:N].astype(float)
    rng = np.random.default_rng(problems.SEED)
    A, X = 0.06 * rng.normal(size=(1000, 1280)), np.maximum(rng.normal(size=(N, 1280)), 0.0)
    return "a random head", ifonly.Model(A, np.zeros(1000)), X


class Questions:
    """The contenders' calls, all for the same sources and targets."""

    def __init__(self, model: ifonly.Model, X: np.ndarray) -> None:
        self.model, self.X, self.k = model, X, model.logits(X).argmin(axis=1)
        self.weights = np.random.default_rng(problems.SEED).random(model.n_classes)

    def each(self, call: Callable[[np.ndarray, int], Any]) -> Contender:
        return Contender(lambda: [call(x, int(k)) for x, k in zip(self.X, self.k, strict=True)], N)

    def floor(self) -> Contender:
        """What nobody can do without: a product with A for the margins, and one for the answer."""
        A, weights = self.model.A, self.weights
        return self.each(lambda x, k: (A @ x, A.T @ weights))

    def dense(self) -> Contender:
        """Newton's method with all rivals at once; their Gram matrices are at hand."""
        grams = {int(k): self.model.rival_gram(int(k)) for k in self.k}

        def call(x: np.ndarray, k: int) -> np.ndarray:
            space = Rivals(grams[k], self.model.margins(self.model.A @ x, k), LAM)
            return x + self.model.A.T @ self.model.coefficients(minimise(space, space.start()).point.at, k) / LAM

        return self.each(call)

    def numpy(self, lam: float | None, prob: float | None) -> Contender:
        return self.each(lambda x, k: _invert_one(self.model, Sources.read(self.model, x), k, lam, prob, **ONE).x)

    def compiled(self, **question: Any) -> Contender:
        return self.each(lambda x, k: ifonly.invert(self.model, x, k, backend="cpu", **question).x)

    def numpy_path(self) -> Contender:
        def call(x: np.ndarray, k: int) -> Any:
            z, sizes = Sources.read(self.model, x).project_one()
            return follow(ClassProblem(self.model, z, sizes, k), LAMS.tolist())

        return self.each(call)

    def compiled_path(self) -> Contender:
        return self.each(lambda x, k: ifonly.path(self.model, x, k, lams=LAMS, backend="cpu"))


def rows(ask: Questions) -> Iterator[tuple[str, dict[str, Contender]]]:
    """Work → its contenders."""
    floor = {"floor": ask.floor()}
    yield (
        f"λ = {LAM}",
        floor | {"dense": ask.dense(), "NumPy": ask.numpy(LAM, None), "compiled": ask.compiled(lam=LAM)},
    )
    yield f"p ≥ {PROB}", floor | {"NumPy": ask.numpy(None, PROB), "compiled": ask.compiled(prob=PROB)}
    yield f"a path of {len(LAMS)} λ", floor | {"NumPy": ask.numpy_path(), "compiled": ask.compiled_path()}


def contraction(model: ifonly.Model, x: np.ndarray, k: int) -> float:
    """ρ at the answer: the largest eigenvalue of (I + ŜH)⁻¹ S_R H, with S = Ŝ + S_R and S_R the covariance within the rest."""
    cf = ifonly.invert(model, x, k, lam=LAM)
    p, H = np.delete(cf.proba, k), model.rival_gram(k) / LAM
    rest = np.where(p < np.sort(p)[-FEW], p, 0.0)
    within = rest[:, None] * H - np.outer(rest, rest @ H) / rest.sum()
    others = np.eye(len(p)) + (p[:, None] * H - np.outer(p, p @ H)) - within
    v = np.ones(len(p))
    for _ in range(POWER_STEPS):
        v = np.linalg.solve(others, within @ (v / np.linalg.norm(v)))
    return float(np.linalg.norm(v))


def main() -> None:
    name, model, X = head()
    about = machine()
    print(f"{name}, K = {model.n_classes}, D = {model.n_features}, one thread; medians of {N} problems each, in ms.")
    print(f"{about['cpu']}; {about['blas']}; commit {about['commit']}; load before {about['load before']}; {about['date']}.\n")
    ask = Questions(model, X)
    columns = ["floor", "dense", "NumPy", "compiled"]
    body = []
    with blas_threads(1):
        for work, contenders in rows(ask):
            print(work, file=sys.stderr, flush=True)
            us = medians(contenders, seconds=2.0, most=50)
            body.append(
                [work, *(f"{us[c] / 1e3:.3g}" if c in us else "" for c in columns), f"{us['compiled'] / us['floor']:.1f}"]
            )
            body[-1].append(f"{us['dense'] / us['compiled']:.0f}" if "dense" in us else "")
        n_iter = [ifonly.invert(model, x, int(k), lam=LAM).n_iter for x, k in zip(X, ask.k, strict=True)]
        rho = contraction(model, X[0], int(ask.k[0]))
    print(table(["", *columns, "compiled / floor", "dense / compiled"], body))
    print(f"\nRounds at λ = {LAM}: {np.mean(n_iter):.1f}, at most {max(n_iter)}. ρ = {rho:.2g} with {FEW} rivals one by one.")


if __name__ == "__main__":
    main()
