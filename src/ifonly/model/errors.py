"""What can go wrong, as exceptions, and how those of others become ours.

IfonlyError
├── InputError (ValueError)           an argument of the wrong kind, shape or value
├── UnsupportedModelError (TypeError) an estimator that is not a linear softmax we can read exactly
└── CertificateError (AssertionError) an answer that does not stand up to being recomputed
"""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["CertificateError", "IfonlyError", "InputError", "UnsupportedModelError", "reading"]


class IfonlyError(Exception):
    """Base of every exception that ifonly raises on purpose."""


class InputError(IfonlyError, ValueError):
    """An argument of the wrong kind, shape or value; the message says what was expected and what came."""


class UnsupportedModelError(IfonlyError, TypeError):
    """An estimator that is not a linear softmax, or not one that can be read exactly."""


class CertificateError(IfonlyError, AssertionError):
    """``verify()`` recomputed an answer from the model and the source alone, and it did not hold."""


@contextmanager
def reading(wrong: str, *kinds: type[Exception]) -> Iterator[None]:
    """Around reading what others wrote: an error of these kinds is an `InputError` that says what is ``wrong``; ours stay."""
    try:
        yield
    except IfonlyError:
        raise
    except kinds as error:
        raise InputError(f"{wrong} ({error})") from None
