"""Answers as the tensors that the sources came as: of PyTorch, JAX or CuPy."""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from ifonly.model.tensors import host, tensor_library

__all__ = ["Like", "host", "like"]


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
    match tensor_library(X):
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
