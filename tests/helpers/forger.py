"""Records of answers, forged: from one that `to_json` wrote, hundreds that say something else, their digests made to fit.

``forgeries(record)`` knows nothing of what is in a record but how to walk it, so that what is added to the format later (a
proof, say: a tree of cuts and leaves) is forged too. ``disguises(record)`` knows today's fields, and changes several of them so
that they agree with each other. ``corruptions(text)`` are bytes that no longer are a record.
"""

import copy
import hashlib
import itertools
import json
import math
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Forgery", "corruptions", "disguises", "forgeries", "signed"]

Path = tuple[str | int, ...]
MOST = 6  # entries of one list that are tried one by one: the first ones, the last ones
STATUSES = ("EXACT", "CONVERGED", "MAX_ITER", "UNREACHABLE", "INVALID", "STOPPED", "LOCAL", "PROVED", "exact", "")
REMOVED = object()


class Forgery(NamedTuple):
    """What was changed, how, and the record with it."""

    path: str
    change: str
    record: Any

    @property
    def name(self) -> str:
        """Both in one."""
        return f"{self.path}: {self.change}"


def signed(record: dict[str, Any]) -> dict[str, Any]:
    """With the digest that fits: SHA-256 of all else as JSON with sorted keys and no spaces."""
    rest = {key: value for key, value in record.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {**rest, "digest": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}


# ---- anything, anywhere ----


def forgeries(record: dict[str, Any]) -> Iterator[Forgery]:
    """Every leaf, list and mapping of a record changed, one at a time."""
    yield Forgery("digest", "of another record", {**record, "digest": "0" * 64})
    yield Forgery("digest", "removed", {key: value for key, value in record.items() if key != "digest"})
    before = json.dumps(record, sort_keys=True)
    for path, value in _walk({key: value for key, value in record.items() if key != "digest"}):
        for change, new in _changes(value):
            forged = _put(record, path, new)
            forged = signed(forged) if isinstance(forged, dict) else forged
            if json.dumps(forged, sort_keys=True) != before:
                yield Forgery(_written(path), change, forged)


def _walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value below one, and itself."""
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _walk(inner, (*path, key))
    elif isinstance(value, list):
        for i in _some(len(value)):
            yield from _walk(value[i], (*path, i))


def _some(n: int) -> list[int]:
    """Places of a list that are tried."""
    return list(range(n)) if n <= MOST else [*range(MOST - 2), n - 2, n - 1]


def _written(path: Path) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "record"


def _put(record: dict[str, Any], path: Path, new: Any) -> dict[str, Any]:
    """A copy with another value at a path, or with none."""
    if not path:
        return copy.deepcopy(new)
    out = copy.deepcopy(record)
    at: Any = out
    for part in path[:-1]:
        at = at[part]
    if new is REMOVED:
        del at[path[-1]]
    else:
        at[path[-1]] = copy.deepcopy(new)
    return out


def _changes(value: Any) -> Iterator[tuple[str, Any]]:
    """Other values in place of one."""
    if isinstance(value, dict):
        yield from _mappings(value)
    elif isinstance(value, list):
        yield from _lists(value)
    elif isinstance(value, bool):
        yield "flipped", not value
    elif isinstance(value, (int, float)):
        yield from _numbers(value)
    elif isinstance(value, str):
        yield from _strings(value)
    elif value is None:
        yield from (("a number", 1.0), ("a list", []), ("a mapping", {}), ("text", "text"))
    for name, other in (("none", None), ("a list of it", [value]), ("a mapping of it", {"a": value}), ("true", True)):
        if other != value:
            yield name, other
    if not isinstance(value, dict):
        yield "an empty mapping", {}
    if not isinstance(value, list):
        yield "an empty list", []


def _numbers(v: float) -> Iterator[tuple[str, Any]]:
    """A little, a lot, the other sign, zero, none at all."""
    if isinstance(v, int):
        yield from ((f"{step:+d}", v + step) for step in (1, -1, 10, 10**6, 10**30))
        yield "as a fraction", v + 0.5
    elif math.isfinite(v):
        yield "one ulp up", math.nextafter(v, math.inf)
        yield "one ulp down", math.nextafter(v, -math.inf)
        yield from ((f"times 1 + {size:g}", v * (1 + size)) for size in (1e-12, 1e-9, 1e-6, 1e-3, -1e-9, -1e-6, -1e-3))
        yield from ((f"times {factor:g}", v * factor) for factor in (0.5, 2.0, 1e6, 1e-6))
        yield from ((f"{step:+g}", v + step) for step in (1e-9, -1e-9, 1e-3, -1e-3, 1.0, -1.0, 1e9, -1e9))
    yield "the other sign", -v
    yield from (("zero", 0), ("zero, a float", 0.0), ("minus zero", -0.0), ("one", 1.0))
    yield from (("in words", str(v)), ('"inf"', "inf"), ('"-inf"', "-inf"), ('"nan"', "nan"), ("text", "text"))
    yield from (("Infinity", math.inf), ("NaN", math.nan), ("1e308", 1e308), ("5e-324", 5e-324))


def _strings(v: str) -> Iterator[tuple[str, Any]]:
    yield from (("empty", ""), ("longer", v + "x"), ("reversed", v[::-1]), ("upper case", v.upper()), ("a number", 0.0))
    yield from (("another letter", chr(ord(v[0]) ^ 1) + v[1:]) if v else ("a letter", "a"), ("a long text", "x" * 10_000))
    for other in ("inf", "-inf", "nan", "<=", ">=", "=="):
        if v != other:
            yield f'"{other}"', other


def _lists(v: list[Any]) -> Iterator[tuple[str, Any]]:
    n = len(v)
    yield from (("empty", []), ("one more: 0", [*v, 0.0]), ("one more: none", [*v, None]), ("twice", v + v))
    if n > 1:
        yield from (("reversed", v[::-1]), ("turned", v[1:] + v[:1]))
    for i in _some(n):
        yield f"without [{i}]", v[:i] + v[i + 1 :]
        yield f"[{i}] twice", v[: i + 1] + v[i:]
        if i + 1 < n:
            yield f"[{i}] and [{i + 1}] swapped", [*v[:i], v[i + 1], v[i], *v[i + 2 :]]
            yield f"[{i}] in place of [{i + 1}]", [*v[: i + 1], v[i], *v[i + 2 :]]
    if n and all(isinstance(entry, (int, float)) and not isinstance(entry, bool) for entry in v):
        yield "zeros", [0.0] * n
        yield from ((f"times {factor:g}", [factor * entry for entry in v]) for factor in (-1.0, 1 + 1e-9, 1 + 1e-6, 2.0, 0.5))


def _mappings(v: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    keys = list(v)
    if v:
        yield "empty", {}
    yield "one more key", {**v, "extra": 1.0}
    for key in keys:
        rest = {k: value for k, value in v.items() if k != key}
        yield f"without {key}", rest
        yield f"{key} called {key}_", {**rest, f"{key}_": v[key]}
    for one, other in itertools.pairwise(keys):
        yield f"{one} and {other} swapped", {**v, one: v[other], other: v[one]}
        yield f"{one} in place of {other}", {**v, other: v[one]}


# ---- fields that agree with each other ----


def disguises(record: dict[str, Any]) -> Iterator[Forgery]:
    """Other claims about the same x, each as a deceiver would make it: what follows from what is changed is changed too."""
    for path, change, changed in _disguises(record):
        forged = copy.deepcopy(record)
        for place, value in changed.items():
            at: Any = forged
            *way, last = place.split(".")
            for part in way:
                at = at[part]
            at[last] = value
        if forged != record:
            yield Forgery(path, change, signed(forged))


def _disguises(record: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    told, asked = record["result"], record["asked"]
    ((goal, want),) = asked.items()
    whole = told["objective"] if goal == "lam" else told["cost"]
    # 1. The status, alone and with what belongs to it.
    for status in STATUSES:
        yield "result.status", status, {"result.status": status}
    exact = {"result.status": "EXACT", "certificate.gap": 0.0, "certificate.bound": whole, "certificate.grad_norm": 0.0}
    yield "result.status", "EXACT, with a gap of 0", exact
    yield "result.status", "EXACT, gap and error 0", {**exact, "certificate.error_bound": 0.0}
    if goal == "prob":
        p = float(max(told["proba"]) if isinstance(want, str) else want)
        for ceiling in (0.0, 0.5 * p, 0.999 * p, p, 1.0):
            yield (
                "result.status",
                f"UNREACHABLE, ceiling {ceiling:g}",
                {"result.status": "UNREACHABLE", "certificate.best_bound": ceiling},
            )
    # 2. The bound, with the gap that fits.
    for share in (1.0, 0.5, 0.1, 0.01, 1e-3, 1e-6, 1e-9, 0.0):
        if isinstance(whole, (int, float)):
            gap = abs(whole) * share
            yield "certificate.gap", f"{share:g} of the whole", {"certificate.gap": gap, "certificate.bound": whole - gap}
    # 3. What was asked.
    for name in ("prob", "lam", "margin"):
        if name != goal:
            yield "asked", f"{name}, the same number", {"asked": {name: want}}
    if isinstance(want, (int, float)):
        others = [want * f for f in (0.0, 0.5, 0.9, 0.999, 1 + 1e-9, 1.001, 1.1, 2.0)] + [-want, 1 - 1e-9, 1e-9]
        for other in others:
            yield "asked", f"{goal} = {other:g}", {"asked": {goal: other}}
            if goal == "lam":
                yield "asked", f"lam = {other:g}, and in the result", {"asked": {goal: other}, "result.lam": other}
    for lam in (1e-9, 1.0, 1e9, "inf"):
        yield "result.lam", f"{lam}", {"result.lam": lam}
    if record.get("limits") is None and record.get("cost") is None:
        yield from _weaker(told, goal)
    # 4. Limits and costs, looser or gone.
    if record.get("limits") is not None:
        yield from _looser(record["limits"])
        yield "limits", "none, and no cost", {"limits": None, "cost": None}
    if record.get("cost") is not None:
        cost = record["cost"]
        yield "cost", "none", {"cost": None}
        if cost["per_unit"] is not None:
            for factor in (0.5, 2.0):
                yield (
                    "cost",
                    f"per unit {factor:g} times",
                    {"cost": {**cost, "per_unit": [factor * c for c in cost["per_unit"]]}},
                )
        yield "cost", "no ℓ1", {"cost": {**cost, "l1": 0}}
    # 5. Another x, with nothing or everything else as it was.
    source, x = record["source"], record["x"]
    yield "x", "the source", {"x": source}
    yield "x", "the source, and no changes", {"x": source, "changes": []}
    yield "source", "x", {"source": x}
    yield "source", "x, at no cost", {"source": x, "changes": [], **{f"result.{name}": 0.0 for name in ("distance", "cost")}}
    for share in (0.5, 0.99, 1 + 1e-6, 1.01, 2.0):
        yield "x", f"{share:g} of the way", {"x": [s + share * (v - s) for s, v in zip(source, x, strict=True)]}
    # 6. Counts.
    for name in ("n_iter", "n_nodes"):
        for n in (0, 1, 10**9):
            yield f"result.{name}", f"{n}", {f"result.{name}": n}


def _weaker(told: dict[str, Any], goal: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Without limits, a λ for which x is no optimum, with a gradient that admits to it and all that follows from both."""
    half, grad_norm = 0.5 * told["distance"] ** 2, 1e3
    loss = told["objective"] - told["lam"] * half
    for lam in (1e-3, 1e-12, 1e-30):
        gap, objective = grad_norm**2 / (2 * lam), loss + lam * half
        claims = {"result.lam": lam, "result.objective": objective, "certificate.grad_norm": grad_norm, "certificate.gap": gap}
        claims |= {"certificate.error_bound": grad_norm / lam, "certificate.bound": objective - gap if goal == "lam" else 0.0}
        yield "result.lam", f"{lam:g}, any gradient", claims | ({"asked": {"lam": lam}} if goal == "lam" else {})


def _looser(limits: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    yield "limits", "none", {"limits": None}
    for name in ("frozen", "increase", "decrease", "one_of", "linear"):
        if limits.get(name):
            yield f"limits.{name}", "none", {f"limits.{name}": []}
    for name in ("bounds", "step"):
        if limits.get(name):
            yield f"limits.{name}", "none", {f"limits.{name}": {}}
    for feature, (low, high) in limits["bounds"].items():
        wide = [None if low is None else low - 1.0, None if high is None else high + 1.0]
        for change, pair in (("wider", wide), ("no lower", [None, high]), ("no upper", [low, None]), ("open", [None, None])):
            yield f"limits.bounds.{feature}", change, {"limits.bounds": {**limits["bounds"], feature: pair}}
        yield f"limits.bounds.{feature}", "turned", {"limits.bounds": {**limits["bounds"], feature: [high, low]}}
    for i, (row, sense, rest) in enumerate(limits["linear"]):
        for change, rule in (("looser", [row, "<=", rest + 1.0]), ("equal", [row, "==", rest]), ("less", [row, "<=", rest])):
            yield f"limits.linear[{i}]", change, {"limits.linear": [*limits["linear"][:i], rule, *limits["linear"][i + 1 :]]}
        if sense == "<=":
            turned = [{feature: -weight for feature, weight in row.items()}, "<=", -rest]
            yield (
                f"limits.linear[{i}]",
                "turned",
                {"limits.linear": [*limits["linear"][:i], turned, *limits["linear"][i + 1 :]]},
            )
    for most in (None, 0, 1, 99):
        yield "limits.max_changes", f"{most}", {"limits.max_changes": most}


# ---- bytes ----


def corruptions(text: str, seed: int = 0, count: int = 60) -> Iterator[tuple[str, bytes]]:
    """The text of a record, damaged: cut short, with bytes that are no UTF-8, flipped, doubled, repeated."""
    rng, data = random.Random(seed), text.encode()
    n = len(data)
    yield from (
        ("empty", b""),
        ("blank", b" \n"),
        ("a brace", b"{"),
        ("nothing", b"null"),
        ("a number", b"1"),
        ("a list", b"[]"),
    )
    yield from ((f"cut after {cut}", data[:cut]) for cut in sorted(rng.randrange(1, n) for _ in range(10)))
    yield from (("without its last byte", data[:-1]), ("without its first byte", data[1:]))
    yield from (("twice", data + data), ("something after it", data + b" 1"), ("with a mark before it", b"\xef\xbb\xbf" + data))
    yield from (("UTF-16", text.encode("utf-16")), ("Latin-1", b"\xe9" + data), ("nested too deep", b'{"a":' * 100_000))
    yield from (("nested lists", b'{"format":' + b"[" * 100_000), ("a NUL after it", data + b"\0"))
    for bad in (b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\0"):
        at = rng.randrange(n)
        yield f"{bad!r} at {at}", data[:at] + bad + data[at:]
    for _ in range(count):
        at, bit = rng.randrange(n), 1 << rng.randrange(8)
        yield f"bit {bit} of byte {at}", data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
    for key in ("x", "limits", "asked", "certificate"):
        yield f"{key} given twice", data.replace(b"{", b'{"%s": [0.0], ' % key.encode(), 1)
    for number in (b"1e999", b"-1e999", b"NaN", b"Infinity", b"9" * 5000, b"0x10", b"1_000", b"01"):
        yield f"a number that is {number[:12]!r}", _other_number(data, number)


def _other_number(data: bytes, number: bytes) -> bytes:
    """The first number of x replaced."""
    start = data.index(b'"x": [') + len(b'"x": [')
    end = min(data.index(mark, start) for mark in (b",", b"]") if mark in data[start:])
    return data[:start] + number + data[end:]
