"""The paper's own method: Newton in the D-dimensional feature space with the direction of theorem 3.6.

    −(∇²E)⁻¹∇E,    (∇²E)⁻¹ = H⁻¹ + (H⁻¹v)(H⁻¹v)ᵀ/(1 − vᵀH⁻¹v),    v = Āᵀp,
    H⁻¹ = (1/λ)(I − Āᵀ(ĀĀᵀ + λ diag(p)⁻¹)⁻¹Ā)

No matrix is inverted and Ā (K×D, with its zero row) is never formed: its products come from those with A. ĀĀᵀ comes from the
Gram matrix, which is given, as in the paper's set-up. Backtracking as there: first step 1, ρ = 0.8, plain decrease.
Where a probability underflows, diag(p)⁻¹ is infinite; the solve below uses its limit, which the paper leaves open.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from ifonly.model import Model

__all__ = ["Run", "feature_newton"]

Floats = NDArray[np.float64]

RHO = 0.8
(dposv,) = get_lapack_funcs(("posv",), dtype=np.float64)


@dataclass(frozen=True)
class Run:
    """The last iterate of a method and, per iteration, E, ‖∇E‖, the step and the number of trials."""

    x: Floats
    objectives: list[float]
    grad_norms: list[float]
    steps: list[float]
    trials: list[int]


def feature_newton(model: Model, source: Floats, k: int, lam: float, *, tol: float = 1e-8, max_iter: int = 1000) -> Run:
    """Minimise E from x̄ by the paper's Newton method; ``k`` is a class index."""
    A, b = model.A, model.b
    G = model.gram
    own = G[k]
    gram = G - (own[:, None] + own) + G[k, k]  # ĀĀᵀ, row and column k zero
    K = len(b)

    def evaluate(x: Floats) -> tuple[Floats, float]:
        z = A @ x + b
        z -= z.max()
        e = np.exp(z)
        total = e.sum()
        step = x - source
        return e / total, float(0.5 * lam * (step @ step) + np.log(total) - z[k])

    def times(y: Floats) -> Floats:  # Āᵀy
        y = y.copy()
        y[k] -= y.sum()
        return A.T @ y

    x = source
    p, E = evaluate(x)
    run = Run(x, [], [], [], [])
    for _ in range(max_iter + 1):
        # 1. Gradient, eq. (3).
        v = times(p)
        grad = lam * (x - source) + v
        norm = float(np.sqrt(grad @ grad))
        run.objectives.append(E)
        run.grad_norms.append(norm)
        if norm < tol:
            break
        # 2. Direction, eq. (6): both right-hand sides of the K×K system at once.
        R = np.stack([A @ v, A @ grad], axis=1)
        R -= R[k]
        root = np.sqrt(p)
        M = root[:, None] * gram * root  # diag(p)^½ (ĀĀᵀ) diag(p)^½ + λI, the same system scaled
        M.ravel()[:: K + 1] += lam
        _, y, info = dposv(M, root[:, None] * R)
        if info != 0:
            raise np.linalg.LinAlgError(f"the K×K system is not positive definite (dposv: {info})")
        y = root[:, None] * y
        Hv = (v - times(y[:, 0])) / lam
        Hg = (grad - times(y[:, 1])) / lam
        direction = -(Hg + Hv * ((Hv @ grad) / (1 - v @ Hv)))
        # 3. Backtracking.
        step, trials = 1.0, 1
        while True:
            new = x + step * direction
            p_new, E_new = evaluate(new)
            if E_new < E or step < 1e-10:
                break
            step *= RHO
            trials += 1
        run.steps.append(step)
        run.trials.append(trials)
        if E_new >= E:
            break  # no further decrease in floating point
        x, p, E = new, p_new, E_new
    return Run(x, run.objectives, run.grad_norms, run.steps, run.trials)
