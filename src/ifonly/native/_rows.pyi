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
def solve_crowd(
    G: Any,
    k: int,
    margins: Any,
    size: float,
    lam: float,
    window: Any,
    few: int,
    share: float,
    max_iter: int,
    warm: bool,
    state: Any,
    numbers: Any,
) -> None: ...
def sum_up(
    A: Any,
    b: Any,
    X: Any,
    outside: Any,
    outside_at: Any,
    first: int,
    last: int,
    nothing: float,
    logits: Any,
    top: Any,
    mass: Any,
    mean: Any,
) -> None: ...
