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

class Search:
    cost: float
    w: float
    solved: int
    count: int
    bound: float
    def __init__(
        self,
        g: Any,
        mu: Any,
        step: Any,
        anchor: Any,
        at_rest: Any,
        og: Any,
        oc: Any,
        moves: Any,
        first: Any,
        lo: Any,
        hi: Any,
        need: float,
        cap: int,
        room: int,
    ) -> None: ...
    def expand(self, rel_gap: float, nodes: int) -> int: ...
    def answer(self, t: Any, choice: Any) -> None: ...
    def record(self, log: Any) -> None: ...

def search_rows(
    need: Any,
    g: Any,
    mu: Any,
    step: Any,
    anchor: Any,
    at_rest: Any,
    og: Any,
    oc: Any,
    moves: Any,
    first: Any,
    lo: Any,
    hi: Any,
    cap: int,
    gap: float,
    nodes: int,
    t: Any,
    choice: Any,
    numbers: Any,
) -> None: ...
