"""Answers as frames."""

from typing import Any

__all__ = ["frame_of"]


def frame_of(rows: Any, columns: Any, index: Any = None) -> Any:
    """A pandas frame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame() needs pandas: pip install pandas") from error
    return pd.DataFrame(rows, columns=None if columns is None else list(columns), index=index)
