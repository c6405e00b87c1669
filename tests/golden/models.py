"""Classifiers and sources, made from seeds and rounded to a few decimals."""

from functools import cache
from typing import Any

import numpy as np

import ifonly

__all__ = ["labels", "model", "rng_of", "sources"]

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def rng_of(*seed: Any) -> np.random.Generator:
    """Random numbers of one's own: the same each time for the same words."""
    return np.random.default_rng(list("/".join(map(str, seed)).encode()))


def labels(K: int) -> list[Any]:
    """Words for two classes, letters for some, numbers for many."""
    return ["no", "yes"] if K == 2 else list(LETTERS[:K]) if K <= 10 else list(range(K))


@cache
def model(K: int, D: int, *, spread: float = 1.0, hard: bool = False, names: bool = True, seed: int = 0) -> ifonly.Model:
    """A random classifier."""
    rng = rng_of("model", K, D, seed)
    A, b = (rng.normal(size=(K, D)) * spread).round(3), rng.normal(size=K).round(3)
    return ifonly.Model(A, b, labels(K), [f"f{d}" for d in range(D)] if names else None, hard=hard)


def sources(N: int, D: int, *seed: Any) -> np.ndarray:
    """N random rows."""
    return (2 * rng_of("sources", N, D, *seed).normal(size=(N, D))).round(3)
