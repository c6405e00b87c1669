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
) -> None: ...
