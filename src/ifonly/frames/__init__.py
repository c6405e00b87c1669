"""Many rows as Arrow batches: read them, invert them in bounded memory, write the answers so that a killed run can go on.

>>> import pyarrow as pa, ifonly
>>> from ifonly import frames
>>> model = ifonly.Model.binary([1.0, -2.0], 0.0, ["refused", "approved"], ["income", "debt"])
>>> table = pa.table({"id": [7, 8], "income": [1.0, 2.0], "debt": [3.0, None]})
>>> frames.invert_batches(model, table, "approved").read_all().to_pandas()[["id", "new_income", "status"]]
   id  new_income   status
0   7         2.0    EXACT
1   8         NaN  INVALID
"""

from ifonly.frames.inverting import invert_batches
from ifonly.frames.parts import BadRow, Written, write_parts
from ifonly.frames.reading import count_rows, open_batches

__all__ = ["BadRow", "Written", "count_rows", "invert_batches", "open_batches", "write_parts"]
