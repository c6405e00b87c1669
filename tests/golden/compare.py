"""How near an answer has to come to the stored one, in one table, and what to say where it does not."""

import math
import re
from typing import Any, NamedTuple

from tests.golden.describe import NUMBERS

__all__ = ["TOLERANCES", "Tolerance", "differences"]


class Tolerance(NamedTuple):
    """Relative to the size of x, and to the size of a number (or to 1 for an objective, which is a sum with logarithms)."""

    x: float
    number: float
    why: str
    without: tuple[str, ...] = ()  # what is not compared; of numbers, with a probability only


TOLERANCES = {
    "exact": Tolerance(1e-9, 1e-9, "answers are exact to working precision"),
    "grid": Tolerance(1e-9, 1e-9, "between grid points no λ is the one that belongs to a probability", ("lam", "objective")),
    "single": Tolerance(1e-6, 1e-9, "written into an array of float32, which cannot hold what is claimed", ("verify",)),
    "early": Tolerance(1e-1, 1e-2, "stopped at a tolerance: the last iterate may be a better one", ("tight",)),
    "far": Tolerance(math.inf, 1e-6, "out of reach the best may lie at infinity: how far to go is the method's", NUMBERS[:-1]),
    "flat": Tolerance(1e-6, 1e-6, "λ so small that x is known to fewer digits: the objective hardly changes with it"),
    "steep": Tolerance(1e-6, 1e-6, "x is known as well as the logits are; 1 − p, and with it λ, to fewer digits"),
    "rounded": Tolerance(1e-4, 1e-3, "numbers so large that the logits themselves are rounded to a few digits"),
    "nearly": Tolerance(1e-5, 1e-6, "stopped at a tolerance of 1e-8"),
    "local": Tolerance(1e-6, 1e-6, "a stationary point, followed until a step is 1e-9 of the change"),
}

A_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)")
WORDS = ("status", "target", "targets", "changes", "blocking")


def differences(stored: Any, found: Any, tolerance: Tolerance, where: str = "") -> list[str]:
    """What differs between two descriptions, in words; empty where nothing does."""
    at = f"{where}: " if where else ""
    if stored.keys() != found.keys():
        return [f"{at}{_short(found)} instead of {_short(stored)}"]
    if "parts" in stored:
        if stored["parts"].keys() != found["parts"].keys():
            return [f"{at}{sorted(found['parts'])} instead of {sorted(stored['parts'])}"]
        return [
            line
            for name, part in stored["parts"].items()
            for line in differences(part, found["parts"][name], tolerance, f"{where}[{name}]")
        ]
    out = [
        f"{at}{name} {found[name]!r} instead of {stored[name]!r}"
        for name in ("error", "type", "kind", "agree", "target")
        if stored.get(name) is not None and stored[name] != found[name]
    ]
    if "error" in stored and not same_text(stored["message"], found["message"]):
        out.append(f"{at}message {found['message']!r} instead of {stored['message']!r}")
    if "value" in stored and not same_values(stored["value"], found["value"], tolerance.number):
        out.append(f"{at}value {_short(found['value'])} instead of {_short(stored['value'])}")
    if "row" in stored:
        out += row_differences(stored["row"], found["row"], tolerance, at)
    if "rows" in stored:
        lengths = [len(side["rows"].get("status", ())) for side in (stored, found)]
        if lengths[0] != lengths[1]:
            return [*out, f"{at}{lengths[1]} answers instead of {lengths[0]}"]
        for n in range(lengths[0]):
            rows = [{name: column[n] for name, column in side["rows"].items()} for side in (stored, found)]
            out += row_differences(rows[0], rows[1], tolerance, f"{where}[{n}]: ")
    return out


def row_differences(stored: dict[str, Any], found: dict[str, Any], tolerance: Tolerance, at: str) -> list[str]:
    """What differs between two single answers."""
    out = [
        f"{at}{name} {found.get(name)!r} instead of {stored[name]!r}"
        for name in WORDS
        if stored.get(name) is not None and stored[name] != found.get(name)
    ]
    if found.get("stray"):
        out.append(f"{at}STRAY: {found['stray']} features move by rounding only")
    if not same_text(stored["message"], found["message"], tolerance.number if tolerance is TOLERANCES["early"] else 0.0):
        out.append(f"{at}message {found['message']!r} instead of {stored['message']!r}")
    sizes = [abs(float(v)) for v in [*(stored["x"] or ()), stored.get("distance") or 0.0] if math.isfinite(float(v))]
    size = max(sizes, default=0.0)
    x, y = stored["x"], found["x"]
    off = [abs(float(a) - float(b)) for a, b in zip(x, y, strict=False) if str(a) != str(b)]
    if len(x) != len(y) or any(not d <= tolerance.x * size for d in off):
        out.append(f"{at}x differs by {max(off, default=math.nan):.2g} (of {size:.3g}): {y} instead of {x}")
    for name in (*NUMBERS, "prob", "p_together"):
        a, b = stored.get(name), found.get(name)
        least = 1.0 if name == "objective" else 0.0
        if stored.get("prob") is not None and name in tolerance.without:
            continue
        if (a is None) != (b is None) or (a is not None and not near(a, b, tolerance.number, least)):
            out.append(f"{at}{name} {b} instead of {a}")
    if stored.get("given") is not None and not same_values(stored["given"], found.get("given"), max(tolerance.number, 1e-6)):
        out.append(f"{at}x as given {found.get('given')} instead of {stored['given']}")
    if stored.get("verify") is not None and found.get("verify") != "ok" and "verify" not in tolerance.without:
        out.append(f"{at}verify() raises {found.get('verify')}")
    if stored.get("tight") and not found.get("tight") and "tight" not in tolerance.without:
        out.append(f"{at}the gap is no longer small, or the bound is wrong")
    return out


def near(a: Any, b: Any, relative: float, least: float = 0.0) -> bool:
    """Whether two numbers agree; those that are not finite are strings."""
    if str(a) == str(b):
        return True
    a, b = float(a), float(b)
    return abs(a - b) <= relative * max(abs(a), least)


def same_values(a: Any, b: Any, relative: float) -> bool:
    """Whether nested lists hold the same words, and the same numbers to a tolerance."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same_values(v, w, relative) for v, w in zip(a, b, strict=True))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool) and not isinstance(b, bool):
        return near(a, b, relative, 1e-3)
    return a == b and type(a) is type(b)


def same_text(a: str, b: str, rough: float = 0.0) -> bool:
    """Whether two messages are the same: words exactly, numbers to the digit that is printed last, or relatively."""
    if a == b:
        return True
    if A_NUMBER.split(a) != A_NUMBER.split(b):
        return False
    pairs = zip(A_NUMBER.findall(a), A_NUMBER.findall(b), strict=True)
    return all(v == w or _same_number(v, w, rough) for v, w in pairs)


def _same_number(v: str, w: str, rough: float) -> bool:
    digit, size = max(_last_digit(v), _last_digit(w)), max(abs(float(v)), abs(float(w)))
    return abs(float(v) - float(w)) <= max(1.01 * digit, rough * size if digit > 0 else 0.0)


def _last_digit(number: str) -> float:
    """The worth of one unit of the last digit that is printed; whole numbers are exact."""
    digits, _, power = number.lower().partition("e")
    _, point, decimals = digits.partition(".")
    return 10.0 ** (int(power or 0) - len(decimals)) if point and decimals else 0.0


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]} …"
