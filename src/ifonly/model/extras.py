"""What is optional: where a package is missing, the error says which extra installs it."""

__all__ = ["missing"]


def missing(what: str, extra: str) -> ImportError:
    """The error to raise where an optional package is not installed.

    >>> missing("pictures need matplotlib", "plot")
    ImportError('pictures need matplotlib: pip install "ifonly[plot]"')
    """
    return ImportError(f'{what}: pip install "ifonly[{extra}]"')
