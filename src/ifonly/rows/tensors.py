"""Tensors of PyTorch and JAX, arrays of CuPy: read as NumPy arrays, and answers given back as what was read.

None of these libraries is imported here: a tensor of theirs exists only if its user imported it.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Like", "host", "like", "plain"]


@dataclass(frozen=True)
class Like:
    """What kind of tensor to give back; by names, so that an answer can be pickled and read elsewhere.

    Attributes
    ----------
    library : {"torch", "jax", "cupy"}
    device : str
        Such as ``"cuda:0"``.
    dtype : str
        Such as ``"float32"``. Answers are floating-point whatever the source was: a tensor of integers gives float64. So does
        any array of CuPy, as any of NumPy.

    """

    library: str
    device: str
    dtype: str

    def __call__(self, values: np.ndarray) -> Any:
        """The values as such a tensor: rounded to its precision, and a copy of its own."""
        if self.library == "torch":
            torch = sys.modules["torch"]
            return torch.tensor(values, dtype=getattr(torch, self.dtype), device=self.device)
        if self.library == "cupy":
            cupy = sys.modules["cupy"]
            with cupy.cuda.Device(int(self.device.split(":")[1])):
                return cupy.array(values)
        jax = sys.modules["jax"]
        platform, number = self.device.split(":")
        device = next((d for d in jax.devices(platform) if str(d.id) == number), None)
        return jax.device_put(jax.numpy.asarray(values, dtype=self.dtype), device)


def like(X: Any) -> Like | None:
    """The kind of tensor that this is; None for anything else."""
    torch = _library("torch", X)
    if torch is not None and isinstance(X, torch.Tensor):
        dtype = str(X.dtype).removeprefix("torch.") if X.is_floating_point() else "float64"
        return Like("torch", str(X.device), dtype)
    if _library("cupy", X) is not None:
        return Like("cupy", f"cuda:{X.device.id}", "float64")
    jax = _library("jax", X)
    if jax is not None and isinstance(X, jax.Array):
        device = min(X.devices(), key=lambda d: d.id)
        dtype = str(X.dtype) if jax.numpy.issubdtype(X.dtype, jax.numpy.floating) else "float64"
        return Like("jax", f"{device.platform}:{device.id}", dtype if jax.config.jax_enable_x64 else _narrow(dtype))
    return None


def plain(X: Any) -> Any:
    """A tensor as a NumPy array (off its device and its graph, bfloat16 as float32); anything else as it is."""
    kind = like(X)
    if kind is None:
        return X
    if kind.library == "torch":
        X = X.detach().cpu()
        return (X.float() if kind.dtype == "bfloat16" else X).numpy()
    if kind.library == "cupy":
        return X.get()
    return np.asarray(X.astype("float32") if kind.dtype == "bfloat16" else X)


def host(array: Any) -> Any:
    """An array of CuPy as one of NumPy; anything else as it is."""
    return array if isinstance(array, np.ndarray) or _library("cupy", array) is None else array.get()


def _library(name: str, X: Any) -> Any:
    """The library, if it is loaded and the object's class, or one that it derives from, is of it."""
    owners = {"torch": ("torch",), "jax": ("jax", "jaxlib"), "cupy": ("cupy",)}[name]
    if not any(cls.__module__.split(".")[0] in owners for cls in type(X).__mro__):
        return None
    return sys.modules.get(name)


def _narrow(dtype: str) -> str:
    return "float32" if dtype == "float64" else dtype
