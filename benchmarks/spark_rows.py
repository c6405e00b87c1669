"""What a core does on Spark: rows a second, and where the time goes.

    python benchmarks/spark_rows.py --rows 1_000_000

The rows are those of `rows.py`: two classes, 30 features, 3 frozen and 27 within bounds. Spark reads the Parquet file and does
nothing with it; hands every row to Python and back; solves; solves and writes Parquet. Beside it the same without Spark:
reading with pyarrow, and `frames.invert_batches` on rows in memory. A rate is rows per second *of processor time*, of all
processes together (driver, JVM, Python workers): that of one core, whatever else the machine is doing. These are the
numbers of the capacity plan in `docs/spark.md`.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import rows as table
from pyspark.sql import SparkSession
from timing import cores, machine, options_of

from ifonly import frames, spark

HELD = 131_072  # rows in memory, where only solving is measured …
TIMES_OVER = 10  # … so many times over
REPEATS = 3
QUICK = 20_000  # rows with --quick
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """Of this process and all that descend from it, those that have ended included."""
    used, parent = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
        pid = int(file.parent.name)
        parent[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    for _ in parent:
        more = {pid for pid, of in parent.items() if of in ours} - ours
        if not more:
            break
        ours |= more
    return sum(used[pid] for pid in ours) / TICKS


def measured(call: Callable[[], object], rows: int, repeats: int) -> float:
    """Rows per second of processor time, the best of a few; a first call that warms up is not among them."""
    call()
    found = []
    for _ in range(repeats):
        busy = processor_seconds()
        call()
        found.append(rows / max(processor_seconds() - busy, 1 / TICKS))
    return max(found)


def steps(folder: Path, rows: int, repeats: int) -> dict[str, float]:
    """Each step's rate; a step of Spark's includes those before it."""
    file, model, question = folder / "people.parquet", table.model_of(), {"prob": table.PROB, "actions": table.actions_of()}
    held = pa.Table.from_batches([next(pa.parquet.ParquetFile(file).iter_batches(HELD))])

    def read() -> None:
        for _ in pa.parquet.ParquetFile(file, pre_buffer=False).iter_batches(65_536, use_threads=False):
            pass

    def solve() -> None:
        for _ in range(TIMES_OVER):
            frames.invert_batches(model, held, "approved", threads=1, **question).read_all()

    found = {"pyarrow reads Parquet": measured(read, rows, repeats)}
    found["ifonly solves rows in memory"] = measured(solve, TIMES_OVER * len(held), repeats)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.memory": "2g"}
    builder = SparkSession.builder.master(f"local[{cores()}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    df = session.read.parquet(str(file))
    solved = spark.invert(df, model, "approved", **question)
    passed = df.mapInArrow(lambda batches: batches, df.schema)
    for name, frame in (("Spark reads Parquet", df), ("… and hands rows to Python and back", passed), ("… and solves", solved)):
        found[name] = measured(lambda frame=frame: frame.write.format("noop").mode("overwrite").save(), rows, repeats)
    answers = str(folder / "answers")
    found["… and writes Parquet"] = measured(lambda: solved.write.mode("overwrite").parquet(answers), rows, repeats)
    session.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = options_of(parser)
    if shutil.which("java") is None:
        print("nothing to measure on Spark: there is no Java here")
        return
    rows, repeats = (QUICK, 1) if options.quick else (options.rows, REPEATS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table.make(folder / "people.parquet", rows)
        size = (folder / "people.parquet").stat().st_size / rows
        found = steps(folder, rows, repeats)
        out = sum(file.stat().st_size for file in (folder / "answers").glob("*.parquet")) / rows
    print(f"\n{rows:,} rows of {table.D} features, {size:.0f} bytes a row in and {out:.0f} out; {machine()['cpu']}")
    print(f"{'':<40}{'rows per core-second':>22}{'µs a row':>10}")
    for step, rate in found.items():
        print(f"{step:<40}{rate:>22,.0f}{1e6 / rate:>10.2f}")


if __name__ == "__main__":
    main()
