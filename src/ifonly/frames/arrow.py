"""pyarrow, or the command that installs it."""

from typing import Any

from ifonly.model.extras import needing

with needing("tables and streams need pyarrow", "frames"):
    import pyarrow as pa
    from pyarrow import compute, csv, ipc, parquet

pc: Any = compute  # its functions are made when it is loaded, so that no checker knows them

__all__ = ["csv", "ipc", "pa", "parquet", "pc"]
