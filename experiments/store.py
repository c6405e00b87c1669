"""Result files: one tidy parquet per script, with the machine it was measured on in the file itself."""

import json
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import machine
from experiments.datasets import ROOT

RESULTS = ROOT / "experiments" / "results"
KEY = b"ifonly"  # of our entry in the file's metadata

Row = dict[str, Any]


def save(name: str, rows: list[Row], note: str, *, full: bool) -> pd.DataFrame:
    """Write the rows; returns them as `read` will."""
    about = {"machine": machine(), "note": note, "size": "paper-full" if full else "paper"}
    table = pa.Table.from_pandas(pd.DataFrame(rows), preserve_index=False)
    table = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), KEY: json.dumps(about, ensure_ascii=False).encode()}
    )
    RESULTS.mkdir(exist_ok=True)
    pq.write_table(table, RESULTS / f"{name}.parquet", compression="zstd")
    return read(name)


def read(name: str) -> pd.DataFrame:
    """The rows of a result; the machine, the note and the size are in ``attrs``."""
    table = pq.read_table(RESULTS / f"{name}.parquet")
    frame = table.to_pandas()
    frame.attrs = json.loads((table.schema.metadata or {})[KEY])
    return frame
