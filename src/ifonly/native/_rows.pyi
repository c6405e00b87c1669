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
def solve_limited_one(
    B: Any,
    margins: Any,
    mu: Any,
    lo: Any,
    hi: Any,
    lam: float,
    weight: float,
    tol: float,
    max_iter: int,
    most_now: int,
    begin: bool,
    lq: Any,
    course: Any,
    t: Any,
    free: Any,
    s: Any,
    classes: Any,
    slope: Any,
) -> None: ...
def solve_limited(
    X: Any,
    index: Any,
    k: int,
    A: Any,
    b: Any,
    scaling: Any,
    sizes: Any,
    B: Any,
    each: Any,
    way: Any,
    rivals: Any,
    constants: Any,
    lam: Any,
    goals: Any,
    tol: float,
    max_iter: int,
    x: Any,
    proba: Any,
    numbers: Any,
    n_iter: Any,
    ended: Any,
) -> None: ...
