"""How times are taken: contenders in turn, the median of each, on a stated number of threads, on a stated machine."""

import argparse
import os
import platform
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from threadpoolctl import threadpool_info, threadpool_limits

import ifonly

LONG = 20.0  # seconds of a warm-up call after which it is not repeated; 0 with --quick
REST = 0.12  # seconds in which BLAS's threads fall asleep: after a product they go on looking for work, on our cores
SHORT = 1e-3  # seconds: a call that is over sooner is made on one thread
STAT, LEAST = Path("/proc/stat"), 1.0
PACKAGES = ("ifonly", "numpy", "scipy", "scikit-learn", "cvxpy", "clarabel")


class Contender(NamedTuple):
    call: Callable[[], Any]
    rows: int = 1  # problems solved by one call


def medians(contenders: dict[str, Contender], *, seconds: float = 1.0, least: int = 3, most: int = 200) -> dict[str, float]:
    """Median time of each contender in µs per problem.

    One call of each to warm up; then rounds in which each is called once, so that a disturbance meets all of them. A
    contender that has had its seconds (and ``least`` calls) sits out; where the warm-up is very long, it is all there is.
    On several threads there is a rest before each call, so that it has the cores to itself.
    """
    several = any(lib["num_threads"] > 1 for lib in threadpool_info() if lib["user_api"] == "blas")
    rests = dict.fromkeys(contenders, 0.0)
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for name, contender in contenders.items():
        start = time.perf_counter()
        contender.call()
        warm_up = time.perf_counter() - start
        if warm_up > LONG:
            samples[name] = [warm_up]
        if several and warm_up > SHORT:
            rests[name] = REST
    long = {name for name, taken in samples.items() if taken}
    for _ in range(most):
        playing = [
            n
            for n, taken in samples.items()
            if n not in long and (len(taken) < least or sum(taken) + rests[n] * len(taken) < seconds)
        ]
        if not playing:
            break
        for name in playing:
            time.sleep(rests[name])
            start = time.perf_counter()
            contenders[name].call()
            samples[name].append(time.perf_counter() - start)
    return {name: 1e6 * median(taken) / contenders[name].rows for name, taken in samples.items()}


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line, with ``--quick`` beside the script's own options; that calls every contender once."""
    global LONG
    parser.add_argument("--quick", action="store_true", help="does it run? small sizes, every call once, nothing kept")
    options = parser.parse_args()
    if options.quick:
        LONG = 0.0
    return options


def about() -> str:
    """The machine in one line."""
    on = machine()
    return f"{on['cpu']}; {on['blas']}; commit {on['commit']}; load before {on['load before']}; {on['date']}."


def blas_threads(number: int | None) -> AbstractContextManager[Any]:
    """BLAS on so many threads, None for all."""
    return threadpool_limits(number or cores(), user_api="blas")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Moment(NamedTuple):
    """Seconds on the clock; of work, by this process; and how long cores were busy: all of them, and those it may use."""

    clock: float
    own: float
    every: float
    ours: float


def moment() -> Moment | None:
    """Now; None where the system does not tell."""
    if not STAT.exists():
        return None
    busy = {}
    for line in STAT.read_text().splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name != "cpu":
            working = sum(map(int, ticks[:8])) - int(ticks[3]) - int(ticks[4])  # all but idle and waiting for a disk
            busy[int(name[3:])] = working / os.sysconf("SC_CLK_TCK")
    ours = sum(seconds for core, seconds in busy.items() if core in os.sched_getaffinity(0))
    return Moment(time.perf_counter(), sum(os.times()[:4]), sum(busy.values()), ours)


def others(start: Moment | None, end: Moment | None) -> dict[str, float]:
    """How many cores other processes kept busy between two moments: of all, and of those that this process may use.

    Nothing where that is not known: cores are counted in hundredths of a second, too coarse for less than `LEAST` seconds.
    """
    if start is None or end is None or end.clock - start.clock < LEAST:
        return {}
    own, passed = end.own - start.own, end.clock - start.clock
    taken = {"all": end.every - start.every, "ours": end.ours - start.ours}
    return {where: round(max(seconds - own, 0.0) / passed, 2) for where, seconds in taken.items()}


def load() -> float | None:
    """The number of processes that wanted a core, over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def machine(*, commit: bool = True) -> dict[str, Any]:
    """What the numbers were taken on."""
    blas = {
        f"{lib['internal_api']} {lib['version']} ({lib.get('architecture')})"
        for lib in threadpool_info()
        if lib["user_api"] == "blas"
    }
    return {
        "cpu": _cpu_model(),
        "cores": cores(),
        "all cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "blas": ", ".join(sorted(blas)),
        "versions": {name: _version(name) for name in PACKAGES},
        "commit": _commit() if commit else "",
        "load before": load(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    where = Path(ifonly.__file__).parent  # of the code that is measured
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=where, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
