# The compiled row loops (module.cpp).
from typing import Any

def sets() -> list[str]: ...
def active() -> str: ...
def use(name: str) -> None: ...

class FreeTarget:
    def __init__(self, given: dict[str, Any], k: int) -> None: ...
    def answer(self, *arguments: Any) -> None: ...
    def project(self, X: Any) -> tuple[Any, float, float]: ...
    def one(self, *arguments: Any) -> tuple[Any, ...]: ...
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
