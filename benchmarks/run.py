"""``make bench``: ratios against the floor (the two products with A that nobody can avoid) and against what people use today.

Nothing is asserted. Markdown goes to stdout, progress to stderr, the numbers with the machine's description to
``benchmarks/results/NAME.json``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import problems
import report
from timing import Contender, blas_threads, cores, machine, medians, options_of

import ifonly
from experiments.baselines import Run, clarabel, feature_newton, scipy_minimize

BACKENDS = {"ifonly": "auto", "reference": "reference", "cpu": "cpu"}
ONE = 10  # problems in a row of "one source"
SLOW = 1000  # rows of a batch that the reference is timed on where K > 16
SAMPLE = 100  # rows of a batch that the paper's method is timed on
FEW = 50  # rows of a batch with --quick
CHUNK = 48 * 2**20  # bytes of X that the floor of a batch takes at a time …
CHUNK_ROWS = 512, 16384  # … within these numbers of rows
READ, WRITE, REST = "X Aᵀ", "X + U A", "Newton, certificate, rest"  # the parts of a batch
CALL = """import numpy as np, ifonly
from time import perf_counter
rng = np.random.default_rng(0)
A, X = rng.normal(size=(10, 784)), rng.normal(size=(1000, 784))
def call():
    began = perf_counter()
    ifonly.invert(ifonly.Model(A, np.zeros(10)), X, 3, lam=0.01, backend="cpu")
    return perf_counter() - began
first = call()
print(first - min(call() for _ in range(5)))"""

Row = dict[str, Any]


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def row(work: str, case: problems.Case, threads: int, contenders: dict[str, Contender], **options: Any) -> Row:
    """Time the contenders; one line of the table."""
    say(f"{work}, {case.name}, {threads} thread{'s'[: threads > 1]}")
    D, K = case.model.n_features, case.model.n_classes
    return {"work": work, "case": case.name, "D": D, "K": K, "threads": threads, "us": medians(contenders, **options)}


def each(solve: Callable[..., Any], P: problems.Problems, n: int) -> Contender:
    """``solve(x, k, lam)`` for the first n problems, one after the other."""
    one_by_one = [(P.X[i], int(P.target[i]), float(P.lam[i])) for i in range(n)]
    return Contender(lambda: [solve(*problem) for problem in one_by_one], n)


def one_source(case: problems.Case, threads: int, *, with_peers: bool) -> Row:
    model, P = case.model, case.draw(ONE)
    P = P._replace(X=P.X.toarray() if hasattr(P.X, "toarray") else P.X)
    A, y = model.A, np.ones(model.n_classes)
    w = A[-1] - A[0]

    def floor(x: np.ndarray, k: int, lam: float) -> Any:
        return (w @ x, w @ w, x + lam * w) if model.n_classes == 2 else (A @ x, A.T @ y)

    def answer(x: np.ndarray, k: int, lam: float, backend: str) -> np.ndarray:
        return ifonly.invert(model, x, k, lam=lam, tol=1e-8, backend=backend).x  # as the paper and the peers

    asked = {
        (k, lam): ifonly.ask(model, k, lam=lam, tol=1e-8) for k, lam in zip(P.target.tolist(), P.lam.tolist(), strict=True)
    }
    wanted = {k: ifonly.ask(model, k, prob=0.9) for k in P.target.tolist()}
    contenders = {"floor": each(floor, P, ONE)}
    contenders |= {name: each(partial(answer, backend=backend), P, ONE) for name, backend in BACKENDS.items()}
    contenders["ask"] = each(lambda x, k, lam: asked[int(k), float(lam)](x).x, P, ONE)
    contenders["ask, prob=0.9"] = each(lambda x, k, lam: wanted[int(k)](x).x, P, ONE)
    contenders["predict_proba"] = each(lambda x, *_: case.estimator.predict_proba(x[None]), P, ONE)
    if not with_peers:
        return row("one source", case, threads, contenders)
    contenders["paper's Newton"] = each(partial(feature_newton, model), P, ONE)
    return with_slow_peers(row("one source", case, threads, contenders), case, P)


def with_slow_peers(found: Row, case: problems.Case, P: problems.Problems) -> Row:
    """The row with what takes seconds: each once on a few problems, timed by its own clock, and how exact it was."""
    model = case.model
    say(f"peers, {case.name}")
    slow: dict[str, Callable[..., Run]] = {m: partial(scipy_minimize, method=m) for m in ("L-BFGS-B", "CG")}
    if model.A.size < 10_000:
        slow["Clarabel"] = clarabel
    few = 5 if model.n_features < 10_000 else 1
    runs = {name: [solve(model, P.X[i], int(P.target[i]), float(P.lam[i])) for i in range(few)] for name, solve in slow.items()}
    us = {name: 1e6 * float(np.median([run.seconds[-1] for run in each])) for name, each in runs.items()}
    worst = {name: max(run.grad_norm for run in each) for name, each in runs.items()}
    return found | {"us": found["us"] | us, "worst gradient": worst}


def batch(case: problems.Case, n: int, threads: int, *, mixed: bool = True, to_x: bool = True, paper: bool = False) -> Row:
    """N sources; ``to_x`` into ``out=``, else coefficients only."""
    work = f"N = {n:,}{'' if mixed else ', farthest'}{'' if to_x else ', CSR, coefficients only'}".replace(",000", " 000")
    n = min(n, FEW) if problems.SMALL else n
    model, P = case.model, case.draw(n, mixed=mixed)
    A, U = model.A, np.random.default_rng(0).normal(size=(n, model.n_classes))
    out = np.zeros(P.X.shape) if to_x else None
    invert = partial(ifonly.invert, model, P.X, P.target, threads=threads, out=out)
    size = int(np.clip(CHUNK // (8 * model.n_features), *CHUNK_ROWS))
    pieces = [slice(a, a + size) for a in range(0, n, size)]

    def floor() -> None:
        if out is None:
            _ = P.X @ A.T
        elif model.n_classes == 2:
            w = A[1] - A[0]
            _ = P.X @ w, P.X + np.outer(P.lam, w)
        else:
            for piece in pieces:
                _ = P.X[piece] @ A.T
                np.matmul(U[piece], A, out=out[piece])

    contenders = {"floor": Contender(floor, n)}
    some = n if model.n_classes <= 16 else min(n, SLOW)
    reference = partial(ifonly.invert, model, P.X[:some], P.target[:some], lam=P.lam[:some], backend="reference")
    contenders["reference"] = Contender(partial(reference, out=None if out is None else out[:some]), some)
    contenders["cpu"] = Contender(partial(invert, lam=P.lam, backend="cpu"), n)
    contenders["cpu, prob=0.9"] = Contender(partial(invert, prob=0.9, backend="cpu"), n)
    contenders["predict_proba"] = Contender(lambda: case.estimator.predict_proba(P.X), n)
    if paper:
        contenders["paper's Newton"] = each(partial(feature_newton, model), P, min(n, SAMPLE))
    if model.n_classes == 2:  # the floor makes new arrays; so does this
        contenders["cpu, .x"] = Contender(lambda: invert(lam=P.lam, backend="cpu", out=None).x, n)
    found = row(work, case, threads, contenders)
    coefficients = partial(invert, lam=P.lam, backend="cpu", out=None)
    parts = {READ: Contender(lambda: [P.X[piece] @ A.T for piece in pieces], n)}
    if to_x:
        parts["unwritten"] = Contender(coefficients, n)
    return found | look_into([coefficients()], found["us"]["cpu"], medians(parts))


def look_into(answers: list[Any], total: float, parts: dict[str, float]) -> Row:
    """Where the time of a call goes, in shares; and whether it gives answers: iterations, and the worst certificate."""
    read, written = parts[READ] / total, 1 - parts.get("unwritten", total) / total
    n_iter = np.concatenate([some.n_iter for some in answers])
    return {
        "stages": {READ: read, WRITE: written, REST: 1 - read - written},
        "iterations": float(n_iter.mean()),
        "most iterations": int(n_iter.max()),
        "certificate": max(float(some.grad_norm.max()) for some in answers),
    }


def path(case: problems.Case) -> Row:
    """100 λ against one inversion (in place of the floor, and by each method), coefficients only in all."""
    model, P = case.model, case.draw(4)
    lams = np.geomspace(1e3, 1e-5, 100)

    def follow(x: np.ndarray, k: int, lam: float, backend: str) -> Any:
        return ifonly.path(model, x, k, lams=lams, backend=backend)

    def one(x: np.ndarray, k: int, lam: float, backend: str) -> Any:
        return ifonly.invert(model, x, k, lam=lam, backend=backend)

    methods = ("reference", "cpu")
    contenders = {"floor": each(partial(one, backend="auto"), P, 4)}
    contenders |= {f"one, {backend}": each(partial(one, backend=backend), P, 4) for backend in methods}
    contenders |= {backend: each(partial(follow, backend=backend), P, 4) for backend in methods}
    found = row("path of 100 λ", case, 1, contenders)
    parts = medians({READ: each(lambda x, *_: model.A @ x, P, 4)})
    return found | look_into(contenders["cpu"].call(), found["us"]["cpu"], parts)


def start_up() -> dict[str, float]:
    """Seconds that a fresh process takes to import, and for a first model and table beyond those that follow.

    As with an installed package there is bytecode: the first of these processes writes it.
    """
    scripts = {"scipy": "import numpy, scipy.linalg", "ifonly": "import ifonly"}
    say("fresh processes")
    new = partial(subprocess.run, check=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""})
    more = [float(new([sys.executable, "-c", CALL], capture_output=True, text=True).stdout) for _ in range(6)]
    calls = {name: Contender(partial(new, [sys.executable, "-c", script])) for name, script in scripts.items()}
    times = {name: us / 1e6 for name, us in medians(calls, least=5, seconds=0).items()}
    return times | {"first call": float(np.median(more[1:]))}


def measure(*, full: bool) -> dict[str, Any]:
    description, rows = machine(), []
    for threads in sorted({1} if problems.SMALL else {1, cores()}):
        alone = threads == 1
        with blas_threads(threads):
            rows += [one_source(problems.load(name), threads, with_peers=alone) for name in problems.SHAPES]
            rows += [
                one_source(problems.load(name, True), threads, with_peers=False)
                for name in ("MNIST", "RCV1", "deep64", "deep320")
            ]
            rows += [batch(problems.load(name), 1000, threads, to_x=name != "RCV1") for name in problems.SHAPES]
            for n in (20_000, 100_000) if full else (20_000,):
                rows.append(batch(problems.load("MNIST"), n, threads, mixed=False, paper=alone))
            rows.append(batch(problems.load("RCV1"), 20_000, threads, mixed=False, to_x=False))
            rows.append(batch(problems.synthetic("random K=2", 100, 2), 100_000, threads))
            if alone:
                rows += [path(problems.load(name)) for name in ("MNIST", "MNIST-100", "deep320")]
    return {"machine": description, "rows": rows, "start-up": start_up()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="latest", help="of the result: benchmarks/results/NAME.json")
    parser.add_argument("--full", action="store_true", help="also N = 100 000 at D = 784 (some minutes more)")
    parser.add_argument("--load", action="store_true", help="do not measure: print the result of that name again")
    parser.add_argument("--markdown", action="store_true", help="Markdown on stdout, where the tables are otherwise aligned")
    parser.add_argument("--docs", action="store_true", help="put the tables into docs/benchmarks.md")
    options = options_of(parser)
    problems.SMALL = options.quick
    with tempfile.TemporaryDirectory() as nowhere:
        folder = Path(nowhere) if options.quick and not options.load else problems.HERE / "results"
        file = folder / f"{options.name}.json"
        if not options.load:
            file.write_text(json.dumps(measure(full=options.full), indent=1, ensure_ascii=False) + "\n")
            say(f"saved as {file.name}")
        text = report.markdown(json.loads(file.read_text()))
    print(text if options.markdown else report.aligned(text))
    if options.docs and not options.quick:
        report.write_into(problems.HERE.parent / "docs" / "benchmarks.md", text)


if __name__ == "__main__":
    main()
