# %% [markdown]
# # Ten million rows
#
# *Needs:* `pip install "ifonly[all]"`; in full about 2 GB of disk
#
# A whole portfolio, from a Parquet file to a Parquet file, in bounded memory: for every
# refused row the nearest change that is allowed, each with its certificate. The numbers
# on this page are those of the run that made it; `QUICK=1` takes two hundred thousand
# rows.

# %%
import os
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

import ifonly
from ifonly import frames

ROWS = 200_000 if os.environ.get("QUICK") else 10_000_000
print(f"{ROWS:,} rows, {os.cpu_count()} cores")

# %% [markdown]
# ## A table
#
# Ten columns, made here so that the page needs no download; the id is passed through.

# %%
names = [
    "income",
    "savings",
    "debt",
    "loans",
    "duration",
    "late_payments",
    "years_at_job",
    "age",
    "dependents",
    "cards",
]
weights = [0.9, 0.6, -0.8, -0.5, -0.7, -1.1, 0.4, 0.2, -0.1, -0.2]
model = ifonly.Model.binary(weights, -0.8, ["refused", "approved"], names)

schema = pa.schema([("id", pa.int64()), *((name, pa.float64()) for name in names)])
with pyarrow.parquet.ParquetWriter(
    "people.parquet", schema, use_dictionary=False
) as writer:
    for first in range(0, ROWS, 100_000):
        rng = np.random.default_rng([7, first])
        columns = np.clip(rng.normal(size=(len(names), 100_000)), -3, 3)
        writer.write_table(
            pa.table(
                [pa.array(np.arange(first, first + 100_000)), *map(pa.array, columns)],
                schema=schema,
            )
        )
print(f"people.parquet: {Path('people.parquet').stat().st_size / 1e6:,.0f} MB")

# %% [markdown]
# ## The question
#
# Age and dependents stay; every other column stays within the range of the data, and a
# cost for each change in addition to its size (`l1`) keeps plans short. `write_parts` writes
# as it goes, and if it is killed the same call continues where it stopped. On the command
# line it is `ifonly batch`.

# %%
stays = ["age", "dependents"]
actions = ifonly.Actions(
    frozen=stays, bounds={name: (-3, 3) for name in names if name not in stays}
)
cost = ifonly.Cost(l1=0.5)
began = time.perf_counter()
written = frames.write_parts(
    model,
    "people.parquet",
    "answers",
    "approved",
    prob=0.6,
    keys=["id"],
    cost=cost,
    actions=actions,
)
seconds = time.perf_counter() - began
print(f"{written.rows:,} rows in {seconds:.1f} s")
print(f"{written.rows / seconds:,.0f} rows a second")
print(written.statuses)

# %% [markdown]
# ## What it takes, for whom
#
# The answers are an ordinary Parquet data set: any tool reads them, a column at a time.

# %%
answers = pyarrow.dataset.dataset("answers").to_table(columns=["distance"])
distance = answers["distance"].to_numpy()
print(f"{(distance == 0).mean():.0%} are approved already")
print(f"half of the others need {np.median(distance[distance > 0]):.2f} or less")

figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.hist(distance[distance > 0], bins=80)
ax.set_xlabel("smallest change that is enough, in standard deviations")
ax.set_ylabel("people")

# %%
moved = pyarrow.dataset.dataset("answers")
free = [name for name in names if name not in actions.frozen]
shares = {
    name: 1 - moved.to_table(columns=[f"new_{name}"])[0].null_count / ROWS
    for name in free
}
for name, share in sorted(shares.items(), key=lambda item: -item[1]):
    print(f"{name:<14} changes for {share:.1%}")

# %% [markdown]
# ## A sample, checked
#
# A few of the rows once more, one by one, each verified from the model alone:

# %%
sample = (
    pyarrow.dataset.dataset("people.parquet")
    .head(50, columns=names)
    .to_pandas()
    .to_numpy()
)
again = [
    ifonly.invert(model, row, "approved", prob=0.6, cost=cost, actions=actions)
    for row in sample
]
print(
    max(cf.verify().gap for cf in again) < 1e-9,
    np.abs(distance[:50] - [cf.distance for cf in again]).max() < 1e-9,
)
