"""Every kind of source, for the engines that read them: what goes in, and what comes back as the same kind."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from ifonly import Actions, Cost, invert
from tests.golden.models import model, sources
from tests.golden.questions import Question

__all__ = ["FAMILIES"]

D = 4
NAMES = [f"f{d}" for d in range(D)]
Kind = Callable[[np.ndarray], Any]


def _read_only(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X.flags.writeable = False
    return X


def _frame(X: np.ndarray, **options: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=NAMES, index=[f"row {n}" for n in range(len(X))], **options)


def _polars(X: np.ndarray, dtype: str = "Float64") -> Any:
    import polars as pl

    columns = {name: X[:, d].tolist() for d, name in enumerate(NAMES)}
    return pl.DataFrame(columns, schema=dict.fromkeys(NAMES, getattr(pl, dtype)))


def _torch(x: np.ndarray, dtype: str, *, grad: bool = False) -> Any:
    import torch

    found = torch.tensor(x, dtype=getattr(torch, dtype))
    return found.requires_grad_() if grad else found


# One source: from an array (D,). Numbers are multiples of 1/8, so that float32 holds them; "whole" ones are rounded first.
ONE: dict[str, Kind] = {
    "array": lambda x: x,
    "list": lambda x: x.tolist(),
    "tuple": lambda x: tuple(x.tolist()),
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "int64": lambda x: x.round().astype(np.int64),
    "list of int": lambda x: x.round().astype(int).tolist(),
    "objects": lambda x: x.astype(object),
    "read-only": _read_only,
    "strided": lambda x: np.repeat(x, 2)[::2],
    "reversed": lambda x: x[::-1].copy()[::-1],
    "big-endian": lambda x: x.astype(">f8"),
    "Series": lambda x: pd.Series(x, index=NAMES, name="someone"),
    "Series, other order": lambda x: pd.Series(x, index=NAMES).iloc[[2, 0, 3, 1]],
    "Series of int": lambda x: pd.Series(x.round().astype(int), index=NAMES),
    "Series of float32": lambda x: pd.Series(x.astype(np.float32), index=NAMES),
    "CSR array": lambda x: sparse.csr_array(x),
}
# A table: from an array (N, D).
MANY: dict[str, Kind] = {
    "array": lambda X: X,
    "list of lists": lambda X: X.tolist(),
    "list of arrays": list,
    "float32": lambda X: X.astype(np.float32),
    "int64": lambda X: X.round().astype(np.int64),
    "uint8": lambda X: np.abs(X).round().astype(np.uint8),
    "bool": lambda X: X > 0,
    "objects": lambda X: X.astype(object),
    "read-only": _read_only,
    "column by column": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "one row": lambda X: X[:1],
    "no rows": lambda X: X[:0],
    "frame": _frame,
    "frame, other order": lambda X: _frame(X)[["f3", "f1", "f0", "f2"]],
    "frame of int": lambda X: _frame(X.round().astype(int)),
    "frame of Int64": lambda X: _frame(X.round().astype(int)).astype("Int64"),
    "frame of float32": lambda X: _frame(X, dtype=np.float32),
    "frame, mixed": lambda X: _frame(X).assign(f1=X[:, 1].round().astype(int), f2=X[:, 2].astype(np.float32)),
    "frame of one row": lambda X: _frame(X).iloc[[1]],
    "CSR matrix": sparse.csr_matrix,
    "CSR array": sparse.csr_array,
    "CSC matrix": sparse.csc_matrix,
    "CSR with a zero stored": lambda X: sparse.csr_array((np.append(X[0], 0.0), ([0] * D + [1], [*range(D), 2])), shape=(2, D)),
    "iterator of arrays": lambda X: iter([X[:2], X[2:]]),
    "generator of frames": lambda X: (_frame(X).iloc[[n]] for n in range(len(X))),
    "iterator of CSR": lambda X: iter([sparse.csr_array(X[:1]), sparse.csr_array(X[1:])]),
    "iterator of lists": lambda X: iter([X.tolist()]),
    "iterator of nothing": lambda X: iter([]),
}
POLARS: dict[str, Kind] = {
    "polars": _polars,
    "polars, other order": lambda X: _polars(X).select(["f2", "f3", "f0", "f1"]),
    "polars of Int64": lambda X: _polars(X.round().astype(int), "Int64"),
    "polars of Float32": partial(_polars, dtype="Float32"),
    "iterator of polars": lambda X: iter([_polars(X[:2]), _polars(X[2:])]),
}
TORCH: dict[str, Kind] = {
    "torch.float64": partial(_torch, dtype="float64"),
    "torch.float32": partial(_torch, dtype="float32"),
    "torch.bfloat16": partial(_torch, dtype="bfloat16"),
    "torch.int64": lambda x: _torch(x.round(), "int64"),
    "torch with a gradient": partial(_torch, dtype="float64", grad=True),
}

ENGINES: dict[str, tuple[int, Any, dict[str, Any]]] = {
    "two, prob": (2, "yes", {"prob": 0.8}),
    "two, lam": (2, None, {"lam": 0.2}),
    "some, prob": (4, "b", {"prob": 0.8}),
    "some, lam": (4, None, {"lam": 0.2}),
    "two, bounds": (2, "no", {"prob": 0.7, "actions": Actions(bounds=(-9, 9), frozen=["f1"])}),
    "some, l1": (4, "c", {"lam": 0.3, "cost": Cost(l1=0.05), "actions": Actions(increase=["f0"])}),
    "two, integer": (2, None, {"cost": Cost([1.0, 1.3, 0.8, 1.1]), "actions": Actions(integer=["f0"], bounds=(-12, 12))}),
    "some, few": (4, "a", {"cost": Cost([1.0, 1.3, 0.8, 1.1]), "max_changes": 2}),
    "two, margin": (2, "yes", {"margin": 1.0}),
}


def _asked(engine: str, kind: Kind, X: np.ndarray) -> Any:
    """The source is made when it is asked: an iterator can be read once."""
    K, target, options = ENGINES[engine]
    return invert(model(K, D), kind(X), target, **options)


def kinds() -> Iterator[Question]:
    """Kinds of sources, for every engine."""
    for engine in ENGINES:
        like = "grid" if "integer" in engine or "few" in engine else "exact"
        X = np.round(8 * sources(3 if engine != "some, few" else 2, D, "kinds", engine)) / 8
        for menu, needs in ((ONE, ""), (TORCH, "torch")):
            for name, kind in menu.items():
                yield Question(f"kinds/{engine}/one/{name}", partial(_asked, engine, kind, X[0]), like, needs)
        for menu, needs in ((MANY, ""), (POLARS, "polars"), (TORCH, "torch")):
            for name, kind in menu.items():
                yield Question(f"kinds/{engine}/table/{name}", partial(_asked, engine, kind, X), like, needs)


FAMILIES = (kinds,)
