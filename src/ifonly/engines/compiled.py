"""Whether a question is for the compiled row loops."""

from ifonly import native
from ifonly.problem.question import Backend

__all__ = ["takes_compiled"]


def takes_compiled(backend: Backend) -> bool:
    """Whether to solve compiled: where that was asked for, or nothing was and the package was installed with a compiler."""
    installed = native.compiled() is not None
    if backend == "cpu" and not installed:
        raise ImportError('backend="cpu" needs the compiled row loops: install ifonly where there is a C++20 compiler')
    return installed and backend in ("auto", "cpu")
