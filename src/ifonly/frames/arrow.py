"""pyarrow, or the command that installs it."""

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv, dataset, ipc, parquet
except ImportError as error:
    raise ImportError('tables and streams need pyarrow: pip install "ifonly[frames]"') from error

__all__ = ["csv", "dataset", "ipc", "pa", "parquet", "pc"]
