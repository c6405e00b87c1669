"""Tensors of PyTorch and JAX, arrays of CuPy: read as NumPy arrays, and answers given back as such.

None of these libraries is imported here: a tensor of theirs exists only if its user imported it.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Like", "like", "plain"]

# The packages that tensors' classes are from, with the library and what it calls a tensor.
OWNERS = {"torch": ("torch", "Tensor"), "jax": ("jax", "Array"), "jaxlib": ("jax", "Array"), "cupy": ("cupy", "ndarray")}


def _library_of(X: Any) -> str | None:
    """The library that this is a tensor of ("torch", "jax" or "cupy"); None for anything else."""
    if isinstance(X, np.ndarray):
        return None
    name, kind = next((OWNERS[owner] for cls in type(X).__mro__ if (owner := cls.__module__.split(".")[0]) in OWNERS), ("", ""))
    library = sys.modules.get(name)
    return name if library is not None and isinstance(X, getattr(library, kind)) else None


def plain(X: Any) -> Any:
    """A tensor as a NumPy array (off its device and its graph, bfloat16 as float32); anything else as it is."""
    match _library_of(X):
        case "torch":
            X = X.detach().cpu()
            return (X.float() if str(X.dtype) == "torch.bfloat16" else X).numpy()
        case "jax":
            return np.asarray(X.astype("float32") if str(X.dtype) == "bfloat16" else X)
        case "cupy":
            return X.get()
    return X


@dataclass(frozen=True)
class Like:
    """What kind of tensor to give back; by names, so that an answer can be pickled and read elsewhere."""

    library: str  # "torch", "jax" or "cupy"
    device: str  # such as "cuda:0"
    dtype: str  # such as "float32"; float64 for integers, and of CuPy as of NumPy for all

    def __call__(self, values: np.ndarray) -> Any:
        """The values as such a tensor: rounded to its precision, and a copy of its own."""
        library = sys.modules[self.library]
        if self.library == "torch":
            return library.tensor(values, dtype=getattr(library, self.dtype), device=self.device)
        platform, number = self.device.split(":")
        if self.library == "cupy":
            with library.cuda.Device(int(number)):
                return library.array(values)
        device = next((d for d in library.devices(platform) if str(d.id) == number), None)
        return library.device_put(library.numpy.asarray(values, dtype=self.dtype), device)


def like(X: Any) -> Like | None:
    """The kind of tensor that this is; None for anything else."""
    match _library_of(X):
        case "torch":
            dtype = str(X.dtype).removeprefix("torch.") if X.is_floating_point() else "float64"
            return Like("torch", str(X.device), dtype)
        case "cupy":
            return Like("cupy", f"cuda:{X.device.id}", "float64")
        case "jax":
            jax = sys.modules["jax"]
            device = min(X.devices(), key=lambda d: d.id)
            dtype = str(X.dtype) if jax.numpy.issubdtype(X.dtype, jax.numpy.floating) else "float64"
            narrow = dtype == "float64" and not jax.config.jax_enable_x64
            return Like("jax", f"{device.platform}:{device.id}", "float32" if narrow else dtype)
    return None
