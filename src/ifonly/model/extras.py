"""What is optional: where a package is missing, the error says which extra installs it."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["missing", "needing"]


def missing(what: str, extra: str) -> ImportError:
    """The error to raise where an optional package is not installed.

    >>> missing("pictures need matplotlib", "plot")
    ImportError('pictures need matplotlib: pip install "ifonly[plot]"')
    """
    return ImportError(f'{what}: pip install "ifonly[{extra}]"')


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Around imports of what an extra installs: the error of one that fails is `missing`'s."""
    try:
        yield
    except ImportError as error:
        raise missing(what, extra) from error
