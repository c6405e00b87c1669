"""`make bench-serve`: the server under load, against the bare library.

A (784, 10) model, as large as MNIST's. Clients are in a process of their own, on the other of two cores, and ask again as soon
as they are answered. Printed: the time of a request for one row with 1 and with 50 clients, and of the library's own call; rows
a second, and the share of what the library does in this process, one row a call and with batches of the size that the server
had; and 200 clients for half a minute, with errors and memory.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
from threadpoolctl import threadpool_limits
from timing import options_of

import ifonly

K, D = 10, 784
QUICK = 0.2  # seconds of everything with --quick
CLIENTS, MANY, ROWS = 50, 200, 50
TARGETS = 3  # classes that the server asks for in one call
HERE = Path(__file__).resolve().parent


def model() -> ifonly.Model:
    rng = np.random.default_rng(0)
    return ifonly.Model(rng.normal(size=(K, D)) / 20, rng.normal(size=K) / 10)


class Server:
    """A running server: its port, its process, its counters."""

    def __init__(self, process: subprocess.Popen, port: int) -> None:
        self.process, self.port = process, port

    def metric(self, name: str) -> float:
        with urlopen(f"http://localhost:{self.port}/metrics") as reply:
            lines = reply.read().decode().splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0.0)

    def memory(self) -> float:
        """Resident, in MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0]) / 1024

    def seconds(self) -> float:
        """Of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def core(number: int) -> list[str]:
    """A prefix that keeps a process to one core, where there are two."""
    there = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return ["taskset", "-c", str(there[number])] if len(there) > 1 else []


@contextmanager
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.npz"
        model().save(file)
        command = [*core(0), sys.executable, "-m", "ifonly", "serve", str(file), "--port", "0", "--no-open"]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        try:
            line = process.stdout.readline() if process.stdout else ""
            yield Server(process, int(line.split()[3].rstrip("/").rpartition(":")[2]))
        finally:
            process.terminate()
            process.communicate(timeout=30)


def load(server: Server, clients: int, seconds: float, *, rows: int = 1, packed: bool = False) -> dict[str, Any]:
    """What clients saw, and how the server took it."""
    before = [server.metric(f"ifonly_batch_rows_{part}") for part in ("sum", "count")]
    busy = server.seconds()
    command = [*core(1), sys.executable, str(HERE / "serve_clients.py"), str(server.port)]
    command += ["--clients", str(clients), "--seconds", str(seconds), "--rows", str(rows), *(["--packed"] if packed else [])]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found["cpu_us"] = 1e6 * (server.seconds() - busy) / found["requests"]
    total, calls = (server.metric(f"ifonly_batch_rows_{part}") - b for part, b in zip(("sum", "count"), before, strict=True))
    found["batch"] = total / calls if calls else rows
    return found


def library(batch: int, seconds: float, *, targets: int = K) -> dict[str, float]:
    """The same rows in this process, in batches of this size, on one core: rows a second, and times of a call."""
    rng = np.random.default_rng(1)
    X, bank = rng.random((256, D)), model()
    times: list[float] = []
    with threadpool_limits(1, user_api="blas"):
        for i in range(10**9):
            rows = X[np.arange(i, i + batch) % len(X)]
            wanted = (i + rng.integers(0, targets, batch)) % K
            probs = rng.uniform(0.5, 0.95, batch)
            began = time.perf_counter()
            if batch == 1:
                found = ifonly.invert(bank, rows[0], int(wanted[0]), prob=float(probs[0])).x
            else:
                found = ifonly.invert(bank, rows, wanted, prob=probs, backend="cpu", threads=1).x
            times.append(time.perf_counter() - began)
            assert np.isfinite(found).all()
            if i > 20 and sum(times) > seconds:
                break
    times = times[10:]  # the first compile and fill caches
    p50, p99 = (float(q) * 1e3 for q in np.quantile(times, [0.5, 0.99]))
    return {"a_second": batch * len(times) / sum(times), "p50": p50, "p99": p99}


def line(name: str, p50: float, p99: float, a_second: float, more: str = "") -> None:
    print(f"{name:<52}{p50:>9.2f}{p99:>9.2f}{a_second:>11,.0f}   {more}".rstrip(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--warm", type=float, default=1.0, help="seconds before the first measurement")
    parser.add_argument("--soak", type=float, default=30.0, help="seconds of many clients")
    asked = options_of(parser)
    if asked.quick:
        asked.seconds, asked.warm, asked.soak = QUICK, QUICK, QUICK
    print(f"({D}, {K}), server and clients on one core each\n")
    print(f"{'':<52}{'p50 ms':>9}{'p99 ms':>9}{'rows/s':>11}")
    library(2, 0.1)  # loads the kernel
    alone = library(1, asked.seconds / 4)
    line("library, one row a call", *_times(alone))
    with server() as running:
        load(running, CLIENTS, asked.warm)
        for clients in (1, CLIENTS):
            for packed in (False, True):
                found = load(running, clients, asked.seconds, packed=packed)
                name = f"server, {clients} client{'s'[: clients > 1]}, one row a request{', base64' * packed}"
                line(name, *_times(found), f"{_told(found)}, {found['a_second'] / alone['a_second']:.0%} of one row a call")
                if clients == CLIENTS:
                    batch = max(2, round(found["batch"]))
                    same = library(batch, asked.seconds / 4, targets=TARGETS)
                    share = f"the server does {found['a_second'] / same['a_second']:.0%} of it"
                    line(f"library, the same calls: {batch} rows of {TARGETS} targets", *_times(same), share)
        same = library(ROWS, asked.seconds / 4, targets=1)
        line(f"library, {ROWS} rows of one target a call", *_times(same))
        for packed in (False, True):
            found = load(running, 2, asked.seconds, rows=ROWS, packed=packed)
            name = f"server, 2 clients, {ROWS} rows a request{', base64' * packed}"
            rate = ROWS * found["a_second"]
            line(name, found["p50"], found["p99"], rate, f"{rate / same['a_second']:.0%} of the library's")
        load(running, MANY, 3 * asked.warm)
        before = running.memory()
        found = load(running, MANY, asked.soak)
        told = f"{found['requests']:,} requests, {found['n_errors']} errors, memory {before:.0f} → {running.memory():.0f} MB"
        line(f"server, {MANY} clients for {asked.soak:.0f} s", *_times(found), told)
        if found["errors"]:
            sys.exit(f"errors: {found['errors']}")


def _times(found: dict[str, Any]) -> tuple[float, float, float]:
    return found["p50"], found["p99"], found["a_second"]


def _told(found: dict[str, Any]) -> str:
    return f"{found['batch']:.1f} rows a call, {found['cpu_us']:.0f} µs of the server's core each"


if __name__ == "__main__":
    main()
