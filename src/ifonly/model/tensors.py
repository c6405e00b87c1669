"""Tensors of PyTorch and JAX, arrays of CuPy: read as NumPy arrays.

None of these libraries is imported here: a tensor of theirs exists only if its user imported it. How answers are given back as
such tensors is the business of `ifonly.rows.tensors`.
"""

import sys
from typing import Any

import numpy as np

__all__ = ["host", "plain", "tensor_library"]

OWNERS = {"torch": "torch", "jax": "jax", "jaxlib": "jax", "cupy": "cupy"}  # packages that classes are from, and the library


def tensor_library(X: Any) -> str | None:
    """The library that this is a tensor of ("torch", "jax" or "cupy"); None for anything else."""
    if isinstance(X, np.ndarray):
        return None
    name = next((OWNERS[owner] for cls in type(X).__mro__ if (owner := cls.__module__.split(".")[0]) in OWNERS), "")
    library = sys.modules.get(name)
    if library is None:
        return None
    kind = {"torch": "Tensor", "jax": "Array", "cupy": "ndarray"}[name]
    return name if isinstance(X, getattr(library, kind)) else None


def plain(X: Any) -> Any:
    """A tensor as a NumPy array (off its device and its graph, bfloat16 as float32); anything else as it is."""
    match tensor_library(X):
        case "torch":
            X = X.detach().cpu()
            return (X.float() if str(X.dtype) == "torch.bfloat16" else X).numpy()
        case "jax":
            return np.asarray(X.astype("float32") if str(X.dtype) == "bfloat16" else X)
        case "cupy":
            return X.get()
    return X


def host(array: Any) -> Any:
    """An array of CuPy as one of NumPy; anything else as it is."""
    return array.get() if tensor_library(array) == "cupy" else array
