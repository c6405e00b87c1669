"""Parquet to Parquet: ``ifonly batch`` on millions of rows, its memory, and a run that is killed half-way.

    python benchmarks/rows.py --rows 10_000_000

Two classes, 30 features, 3 of them frozen and 27 within bounds; one row in a hundred lies outside its bounds. Data are made in
chunks. Printed: rows a second by the clock and peak memory of the whole command, start-up included, to a folder of parts and to
one file; the same for a run that is killed with SIGKILL half-way and called again, and whether its files are the same; and the
floor, the same columns read and written with nothing in between. A sample of the answers is then solved once more, one by one.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
from timing import about, cores, options_of

import ifonly

D, FROZEN, BOUND, PROB = 30, 3, 2.5, 0.6
NAMES = [f"feature_{d:02d}" for d in range(D)]
CHUNK = 131_072  # rows that are made at once; a row group of the input
OUTSIDE = 0.01  # of the rows have a feature outside its bounds
SAMPLE = 200  # rows that are recomputed
QUICK = 300_000  # rows with --quick: enough for several parts, so that a run can be killed half-way


def model_of() -> ifonly.Model:
    """A logistic regression that approves of about a third."""
    rng = np.random.default_rng(7)
    return ifonly.Model.binary(rng.normal(0, 0.35, D), -0.8, ["refused", "approved"], NAMES)


def actions_of() -> ifonly.Actions:
    return ifonly.Actions(frozen=NAMES[:FROZEN], bounds=dict.fromkeys(NAMES[FROZEN:], (-BOUND, BOUND)))


def make(path: Path, rows: int) -> None:
    """The input, a chunk at a time, each with a seed of its own."""
    schema = pa.schema([("id", pa.int64()), *((name, pa.float64()) for name in NAMES)])
    with pa.parquet.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for a in range(0, rows, CHUNK):
            rng = np.random.default_rng([7, a])
            n = min(CHUNK, rows - a)
            X = np.clip(rng.normal(size=(D, n)), -BOUND, BOUND)
            odd = np.flatnonzero(rng.random(n) < OUTSIDE)
            X[rng.integers(FROZEN, D, len(odd)), odd] += 2 * BOUND
            writer.write_table(pa.table([pa.array(np.arange(a, a + n)), *map(pa.array, X)], schema=schema))


def command(folder: Path, out: str, threads: int) -> list[str]:
    limits = [text for name in NAMES[:FROZEN] for text in ("--freeze", name)]
    limits += [text for name in NAMES[FROZEN:] for text in ("--bounds", f"{name}:{-BOUND}:{BOUND}")]
    wish = ["--target", "approved", "--prob", str(PROB), "--threads", str(threads), "--json"]
    files = [str(folder / name) for name in ("model.npz", "people.parquet", out)]
    return [sys.executable, "-m", "ifonly", "batch", *files, *wish, *limits]


def timed(arguments: list[str], until: Any = None) -> tuple[float, float, dict[str, Any]]:
    """Seconds by the clock, peak memory in MB, and what it printed; killed when ``until`` says so."""
    began = time.perf_counter()
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    while until is not None and not until():
        if process.poll() is not None:
            raise SystemExit("the run was over before it could be killed; try more rows")
        time.sleep(0.01)
    if until is not None:
        process.send_signal(signal.SIGKILL)
    assert process.stdout is not None
    with process.stdout:
        printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if until is None and process.returncode:
        raise SystemExit(f"{' '.join(arguments[:8])} … ended with {process.returncode}")
    return time.perf_counter() - began, used.ru_maxrss / 1024, json.loads(printed or b"{}")


def written(folder: Path) -> int:
    """Rows that a manifest lists."""
    try:
        return sum(part["rows"] for part in json.loads((folder / "_manifest.json").read_text())["parts"])
    except FileNotFoundError:
        return 0


def same_files(one: Path, other: Path) -> bool:
    names = sorted(path.name for path in one.glob("part-*"))
    return names == sorted(path.name for path in other.glob("part-*")) and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in names
    )


def floor(folder: Path, rows: int) -> float:
    """Rows a second that are read and written with the same pyarrow on one thread, nothing else being done to them."""
    began = time.perf_counter()
    source = pa.parquet.ParquetFile(folder / "people.parquet", pre_buffer=False)
    with pa.parquet.ParquetWriter(folder / "copy.parquet", source.schema_arrow, use_dictionary=False) as writer:
        for batch in source.iter_batches(65_536, use_threads=False):
            writer.write_batch(batch)
    return rows / (time.perf_counter() - began)


def check(folder: Path, rows: int) -> str:
    """A sample of the answers against the one-source solver, its certificate and the limits, from the input alone."""
    model, actions = model_of(), actions_of()
    picked = np.sort(np.random.default_rng(1).choice(rows, min(SAMPLE, rows), replace=False))
    source = pa.dataset.dataset(folder / "people.parquet").take(pa.array(picked))
    found = pa.dataset.dataset(folder / "parts").take(pa.array(picked))
    X = np.column_stack([source.column(name).to_numpy() for name in NAMES])
    assert found.column("id").to_pylist() == picked.tolist()
    worst = 0.0
    for n, x in enumerate(X):
        cf = ifonly.invert(model, x, "approved", prob=PROB, actions=actions, backend="reference")
        cf.verify()
        answer = found.slice(n, 1).to_pylist()[0]
        new = np.array([v if (v := answer.get(f"new_{name}")) is not None else x[d] for d, name in enumerate(NAMES)])
        assert answer["status"] == cf.status.name, (answer, cf)
        assert (np.abs(new[FROZEN:]) <= BOUND).all()
        assert (new[:FROZEN] == x[:FROZEN]).all()
        assert answer["status"] == "UNREACHABLE" or float(model.predict_proba(new)[1]) >= PROB
        worst = max(worst, abs(answer["cost"] - cf.cost) / max(cf.cost, 1e-300) if cf.cost else abs(answer["cost"]))
    return f"{len(picked)} rows solved once more, one by one and without the kernel: costs differ by {worst:.1e} at most"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--folder", type=Path, help="where the files go (and stay); by default a temporary folder")
    given = options_of(parser)
    rows, threads = (QUICK if given.quick else given.rows), given.threads
    folder = Path(tempfile.mkdtemp()) if given.folder is None else given.folder
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{rows:,} rows of {D} features, {threads} threads; {about()}")
    model_of().save(folder / "model.npz")
    make(folder / "people.parquet", rows)
    timed([*command(folder, "first", threads), "--overwrite"])  # compiles, where that has not been done yet
    shutil.rmtree(folder / "first")
    lines = []
    for what, out in (("to a folder of parts", "parts"), ("to one file", "answers.parquet")):
        seconds, memory, printed = timed([*command(folder, out, threads), "--overwrite"])
        lines.append((what, f"{rows / seconds:,.0f}", f"{memory:.0f}", f"{seconds:.1f} s; {printed['statuses']}"))
    half = rows // 2
    seconds, memory, _ = timed(command(folder, "again", threads), until=lambda: written(folder / "again") >= half)
    lines.append((f"killed after {written(folder / 'again'):,}", "", f"{memory:.0f}", f"{seconds:.1f} s"))
    seconds, memory, printed = timed(command(folder, "again", threads))
    same = "the same files, byte for byte" if same_files(folder / "parts", folder / "again") else "DIFFERENT FILES"
    fresh = rows - printed["resumed"]
    lines.append(
        ("… and called again", f"{fresh / seconds:,.0f}", f"{memory:.0f}", f"{seconds:.1f} s for {fresh:,} rows; {same}")
    )
    lines.append(("read and written only, one thread", f"{floor(folder, rows):,.0f}", "", "the floor"))
    print(f"\n{'run':<36}{'rows a second':>14}{'peak MB':>9}  ")
    for what, rate, memory, note in lines:
        print(f"{what:<36}{rate:>14}{memory:>9}  {note}")
    print(f"\n{check(folder, rows)}")
    if given.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
