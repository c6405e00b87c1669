"""Result files: one tidy parquet per script, with the machine and what else it did meanwhile in the file itself."""

import json
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.datasets import ROOT

RESULTS = ROOT / "experiments" / "results"
SCRIPTS = (  # each has a result, measured in this order
    "table1",
    "agreement",
    "figure2",
    "figure3",
    "table2",
    "figure5",
    "figure7",
    "figure8",
    "figure1",
    "figure4",
    "logistic",
    "figure6",
)
KEY = b"ifonly"  # of our entry in the file's metadata

Row = dict[str, Any]


def save(name: str, rows: list[Row], about: dict[str, Any]) -> pd.DataFrame:
    """Write the rows and what there is to say about them; returns them as `read` will."""
    table = pa.Table.from_pandas(pd.DataFrame(rows), preserve_index=False)
    table = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), KEY: json.dumps(about, ensure_ascii=False).encode()}
    )
    RESULTS.mkdir(exist_ok=True)
    pq.write_table(table, RESULTS / f"{name}.parquet", compression="zstd")
    return read(name)


def read(name: str) -> pd.DataFrame:
    """The rows of a result; what there is to say about them is in ``attrs``."""
    table = pq.read_table(RESULTS / f"{name}.parquet")
    frame = table.to_pandas()
    frame.attrs = json.loads((table.schema.metadata or {})[KEY])
    return frame
