"""What `ifonly.verify` accepts of forged records: ``python -m tests.helpers.forged [--record NAME] [--full]``.

Not everything that is accepted is a lie: which version wrote a record is nobody's claim, and a limit that is in nobody's way
can be dropped from a record that stays true. What is false is said by the judge of random problems (`tests.limits.lies`), and
comes first. What is raised has to be an InputError or a CertificateError; anything else is a crash.
"""

import argparse
import itertools
import json
import re
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import ifonly
from ifonly import Actions, Cost, Model
from tests.helpers.forger import corruptions, disguises, forgeries
from tests.limits.lies import lie

__all__ = ["RECORDS", "outcome"]

NAMES = list("abcd")
A = np.array([[0.9, -0.3, 0.4, 0.2], [-0.6, 0.8, 0.1, -0.5], [0.2, 0.1, -0.9, 0.6]])
THREE, TWO = Model(A, [0.2, 0.0, -0.1], ["p", "q", "r"], NAMES), Model.binary(A[0], -0.4, ["no", "yes"], NAMES)
X = [1.5, -1.0, 0.5, 2.0]
BOUNDS = {"a": (-1.0, 3.0), "b": (None, 1.0), "c": (-2.0, 2.0)}
RULES = [({"a": 1.0, "b": 1.0}, "<=", -0.5), ({"c": 1.0, "d": 1.0}, "==", 2.5)]
GRIDS = Actions(integer=["a", "b"], step={"c": 0.5}, bounds={"a": (-4, 4), "b": (-4, 4)})
NARROW = Actions(bounds={name: (x - 0.5, x + 0.5) for name, x in zip(NAMES, X, strict=True)}, frozen=["d"])

RECORDS: dict[str, tuple[Model, Callable[[], Any]]] = {
    "prob": (THREE, lambda: ifonly.invert(THREE, X, "q", prob=0.8)),
    "lam": (THREE, lambda: ifonly.invert(THREE, X, "q", lam=0.1)),
    "limits": (THREE, lambda: ifonly.invert(THREE, X, "q", prob=0.5, actions=Actions(bounds=BOUNDS, linear=RULES))),
    "limits, lam": (THREE, lambda: ifonly.invert(THREE, X, "q", lam=0.1, cost=Cost(l1=0.1), actions=Actions(bounds=BOUNDS))),
    "matrix": (THREE, lambda: ifonly.invert(THREE, X, "q", prob=0.8, cost=Cost(matrix=np.eye(4) + 0.3, l1=0.1))),
    "two": (TWO, lambda: ifonly.invert(TWO, X, "no", prob=0.75, actions=Actions(bounds=BOUNDS))),
    "grids": (THREE, lambda: ifonly.invert(THREE, X, "q", prob=0.8, actions=GRIDS)),
    "grids, lam": (THREE, lambda: ifonly.invert(THREE, X, "q", lam=0.1, actions=GRIDS)),
    "two, grids": (TWO, lambda: ifonly.invert(TWO, X, "no", prob=0.75, actions=GRIDS)),
    "few": (THREE, lambda: ifonly.invert(THREE, X, "q", prob=0.8, max_changes=2)),
    "margin": (THREE, lambda: ifonly.invert(THREE, X, "q", margin=0.5, actions=Actions(bounds=BOUNDS))),
    "margin, grids": (THREE, lambda: ifonly.invert(THREE, X, "q", margin=0.5, actions=GRIDS)),
    "out of reach": (THREE, lambda: ifonly.invert(THREE, X, "q", prob=0.99, actions=NARROW)),
    "out of reach, few": (THREE, lambda: ifonly.invert(THREE, X, "q", prob=0.99, actions=NARROW, max_changes=2)),
}
REFUSED = (ifonly.InputError, ifonly.CertificateError)


def outcome(record: Any, model: Model) -> str:
    """ "" where a record is refused as it should be; "accepted", or what was raised instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            ifonly.verify(record, model)
        except REFUSED:
            return ""
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:60]}"
    return "accepted"


def damaged(text: str) -> Iterator[tuple[str, str, Any]]:
    """Corrupted records as bytes, as text and as files: (how, change, record)."""
    for change, data in corruptions(text):
        yield "bytes", change, data
        yield "text", change, data.decode("utf-8", "surrogateescape")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "record.json"
            file.write_bytes(data)
            yield "file", change, file


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="append", choices=list(RECORDS))
    parser.add_argument("--full", action="store_true", help="every change by name")
    given = parser.parse_args()
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    for kind in ("false", "malformed", "true"):
        found[kind] = defaultdict(lambda: defaultdict(list))
    crashed: dict[str, list[str]] = defaultdict(list)
    tried, start = 0, time.perf_counter()
    for name in given.record or RECORDS:
        model, make = RECORDS[name]
        text = make().to_json()
        assert outcome(text, model) == "accepted", f"the record of {name} itself is refused"
        record = json.loads(text)
        changed = ((f.path, f.change, f.record) for source in (forgeries, disguises) for f in source(record))
        for path, change, forged in itertools.chain(changed, damaged(text)):
            said, tried = outcome(forged, model), tried + 1
            if said == "accepted":
                false = lie(forged, model) if isinstance(forged, dict) else ""
                kind = "malformed" if false.startswith("malformed") else "false" if false else "true"
                found[kind][re.sub(r"\[\d+\]", "[]", path)][name].append(f"{change} ({false})" if false else change)
            elif said:
                crashed[said].append(f"{name}, {path}: {change}")
    seconds = time.perf_counter() - start
    numbers = {kind: sum(len(c) for by_name in paths.values() for c in by_name.values()) for kind, paths in found.items()}
    print(f"{tried} forged records; accepted: {numbers}; {sum(map(len, crashed.values()))} crashed; {seconds:.0f} s")
    most = None if given.full else 5
    for kind, paths in found.items():
        print(f"\n==== accepted, and {kind} ====")
        for path, by_name in sorted(paths.items(), key=lambda item: -sum(map(len, item[1].values()))):
            print(f"\n{path}: {sum(map(len, by_name.values()))}")
            for name, changes in by_name.items():
                print(f"  {name} ({len(changes)}): {', '.join(changes[:most])}")
    print("\n==== raised something else ====")
    for said, where in crashed.items():
        print(f"\n{said} ({len(where)})\n  " + "\n  ".join(where[:most]))


if __name__ == "__main__":
    main()
