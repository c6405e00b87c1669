# The compiled row loops (module.cpp).
from typing import Any

def sets() -> list[str]: ...
def active() -> str: ...
def use(name: str) -> None: ...
def solve_free(
    G: Any,
    margins: Any,
    lam: Any,
    goals: Any,
    tol: float,
    max_iter: int,
    pairs: int,
    q: Any,
    p: Any,
    numbers: Any,
    n_iter: Any,
    done: Any,
) -> None: ...
def roots(alpha: Any, beta: Any, t: Any) -> None: ...
def solve_box(
    X: Any,
    targets: Any,
    logits: Any,
    probs: Any,
    features: Any,
    shared: Any,
    hard: bool,
    x: Any,
    ended: Any,
    numbers: Any,
) -> None: ...
