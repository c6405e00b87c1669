"""What can go wrong, as exceptions.

IfonlyError
├── InputError (ValueError)           an argument of the wrong kind, shape or value
├── UnsupportedModelError (TypeError) an estimator that is not a linear softmax we can read exactly
└── CertificateError (AssertionError) an answer that does not stand up to being recomputed
"""

__all__ = ["CertificateError", "IfonlyError", "InputError", "UnsupportedModelError"]


class IfonlyError(Exception):
    """Base of every exception that ifonly raises on purpose."""


class InputError(IfonlyError, ValueError):
    """An argument of the wrong kind, shape or value; the message says what was expected and what came."""


class UnsupportedModelError(IfonlyError, TypeError):
    """An estimator that is not a linear softmax, or not one that can be read exactly."""


class CertificateError(IfonlyError, AssertionError):
    """``verify()`` recomputed an answer from the model and the source alone, and it did not hold."""
